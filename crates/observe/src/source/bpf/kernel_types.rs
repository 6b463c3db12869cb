//! The running kernel's description of its types (BTF), as far as probes need it: a short one of what they read, and the
//! numbers of the hooks that they attach to.
//!
//! libbpf reads all of it (5.5 MB, 150,000 types) for each object, and searches it from the start for each name: that was
//! two thirds of what loading cost. Here it is read once, in place where the kernel lets it be mapped (6.16), else some pages
//! at a time, and what is kept is some kilobytes. It is given to libbpf as its file of the kernel's types (what BTFGen does
//! beforehand for kernels without any).
//! Not here: types of modules; what the programs read and where they attach is in the kernel itself.
//! Cost: 3 to 10 ms of a CPU and no memory to speak of. Format: Documentation/bpf/btf.rst, include/uapi/linux/btf.h.

mod source;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use rustix::fs::MemfdFlags;
use source::{CHUNK, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

const MAGIC: u16 = 0xeb9f;
/// Bytes of the header as far as it is read: magic, version, flags, its length, then offset and length of types and names.
const HEADER: usize = 24;
/// Bytes that every type begins with: where its name is, kind and number of parts, size or type.
const TYPE: usize = 12;
/// Of each so many types the place is kept; the others are found from there on.
const STRIDE: usize = 64;
/// Longest name that is read: the kernel's symbols have 512 characters at the most (KSYM_NAME_LEN).
const NAME_MAX: u64 = 512;
/// Types inside of types inside of types.
const DEPTH_MAX: u32 = 64;

/// Kinds of types (`BTF_KIND_…`).
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
    pub(super) const LAST: u32 = ENUM64;
}

/// What programs need to know, by name.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Structures, unions and enumerations.
    types: BTreeSet<String>,
    /// Their members, and the values of enumerations.
    members: BTreeSet<String>,
    /// Functions and tracepoints, as the kernel's types name them.
    hooks: BTreeSet<String>,
}

impl Wanted {
    /// Adds what the programs of an object need. Read in its file, as for libbpf an object that is opened has maps, each with a
    /// file in memory. An object without types, or with some that are cut off, adds what it has: its loading says what is wrong.
    pub(super) fn add(&mut self, object: &[u8]) {
        let Ok(elf) = ElfFile64::<object::Endianness>::parse(object) else { return };
        let sections = elf.sections().filter_map(|section| section.name().ok().map(OsStr::new).and_then(hook_of));
        self.hooks.extend(sections);
        let types = elf.section_by_name(".BTF").and_then(|section| section.data().ok());
        let _ = types.is_some_and(|types| self.add_types(types).is_some());
    }

    /// Adds what is described by an object's types; `None`: they end before they should.
    fn add_types(&mut self, bytes: &[u8]) -> Option<()> {
        let [length, types, types_length, names] = [1, 2, 3, 4].map(|i| word(bytes, i) as usize);
        let name_at = |at: u32| {
            let name = bytes.get(length + names + at as usize..)?;
            Some(CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?.to_owned()).filter(|name| !name.is_empty())
        };
        let mut rest = bytes.get(length + types..length + types + types_length)?;
        while !rest.is_empty() {
            let of_type = Type::of(0, rest.get(..TYPE)?);
            let parts = rest.get(TYPE..TYPE + of_type.rest().ok()?)?;
            rest = &rest[TYPE + parts.len()..];
            let size = match of_type.kind() {
                kind::STRUCT | kind::UNION | kind::ENUM64 => 12,
                kind::ENUM => 8,
                _ => continue,
            };
            // By the name before `___`: what follows tells several of a program's own apart.
            let name = name_at(of_type.name);
            self.types.extend(name.map(|name| name.split("___").next().unwrap_or_default().to_owned()));
            self.members.extend(parts.chunks_exact(size).filter_map(|part| name_at(word(part, 0))));
        }
        Some(())
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.types.iter().chain(&self.members).chain(&self.hooks)
    }
}

/// The name that the kernel's types have for the hook of a section such as `tp_btf/sched_switch` or `fexit/tcp_sendmsg`.
pub(super) fn hook_of(section: &OsStr) -> Option<String> {
    match section.to_str()?.trim_start_matches('?').split_once('/')? {
        ("tp_btf", tracepoint) => Some(format!("btf_trace_{tracepoint}")),
        ("fexit", function) => Some(function.to_owned()),
        _ => None,
    }
}

/// The kernel's types.
#[derive(Debug)]
pub(crate) struct KernelTypes {
    /// The short description, in memory.
    short: File,
    /// The number of each hook that there is.
    hooks: BTreeMap<String, u32>,
}

impl KernelTypes {
    /// Reads what is wanted from a file such as `/sys/kernel/btf/vmlinux`.
    pub(crate) fn read(path: &Path, wanted: &Wanted) -> io::Result<Self> {
        let mut walk = Walk::open(path)?;
        walk.read_names(wanted)?;
        let (hooks, roots) = walk.read_types(wanted)?;
        let mut short =
            Short { walk, members: &wanted.members, new_ids: BTreeMap::new(), types: Vec::new(), names: vec![0] };
        for id in roots {
            short.keep(id, 0)?;
        }
        let mut file = File::from(rustix::fs::memfd_create("kernel-types", MemfdFlags::CLOEXEC)?);
        file.write_all(&short.bytes())?;
        Ok(KernelTypes { short: file, hooks })
    }

    /// A path under which this thread can read the short description.
    pub(super) fn path(&self) -> String {
        // Not /proc/self: this thread may have a table of descriptors of its own.
        format!("/proc/thread-self/fd/{}", self.short.as_raw_fd())
    }

    /// The numbers of the hooks, by their names.
    pub(super) fn hooks(&self) -> &BTreeMap<String, u32> {
        &self.hooks
    }
}

/// The values of an enumeration of the kernel's, by number.
pub(crate) fn enumeration(path: &Path, name: &str) -> io::Result<BTreeMap<u32, String>> {
    let mut walk = Walk::open(path)?;
    let wanted = Wanted { types: [name.to_owned()].into(), ..Wanted::default() };
    walk.read_names(&wanted)?;
    let (_, roots) = walk.read_types(&wanted)?;
    let mut values = BTreeMap::new();
    for id in roots {
        let of_type = walk.type_of(id)?;
        if of_type.kind() != kind::ENUM {
            continue;
        }
        for part in walk.parts(&of_type)?.chunks_exact(8) {
            values.insert(word(part, 1), walk.name_at(word(part, 0))?);
        }
    }
    Ok(values)
}

/// What a type begins with.
#[derive(Debug, Clone, Copy)]
struct Type {
    /// Where it stands in the file.
    at: u64,
    name: u32,
    info: u32,
    size_or_type: u32,
}

impl Type {
    fn of(at: u64, bytes: &[u8]) -> Self {
        Type { at, name: word(bytes, 0), info: word(bytes, 1), size_or_type: word(bytes, 2) }
    }

    fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn parts(&self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// Bytes after what all types begin with.
    fn rest(&self) -> io::Result<usize> {
        Ok(match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => self.parts() * 12,
            kind::ENUM | kind::FUNC_PROTO => self.parts() * 8,
            1..=kind::LAST => 0,
            other => return Err(malformed(&format!("a type of the unknown kind {other}"))),
        })
    }
}

/// A file of types.
struct Walk {
    source: Source,
    /// Where types and names begin, and how long they are.
    types: (u64, u64),
    names: (u64, u64),
    /// The names that are wanted, by where they stand.
    found: BTreeMap<u32, String>,
    /// Where every [`STRIDE`]th type stands.
    places: Vec<u64>,
}

impl Walk {
    fn open(path: &Path) -> io::Result<Self> {
        let source = Source::open(path)?;
        let mut header = [0; HEADER];
        source.read_at(&mut header, 0)?;
        if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
            return Err(malformed("another format"));
        }
        let [length, types, types_length, names, names_length] = [1, 2, 3, 4, 5].map(|i| u64::from(word(&header, i)));
        Ok(Walk {
            source,
            types: (length + types, types_length),
            names: (length + names, names_length),
            found: BTreeMap::new(),
            places: Vec::new(),
        })
    }

    /// Finds where the wanted names stand.
    fn read_names(&mut self, wanted: &Wanted) -> io::Result<()> {
        let names: BTreeSet<&[u8]> = wanted.all().map(String::as_bytes).collect();
        // Most names are ruled out by their first and last letter and length.
        let mut may_be = Bits::default();
        names.iter().for_each(|name| may_be.set(shape(name)));
        let (from, length) = self.names;
        let (mut at, end) = (from, from + length);
        let mut found = BTreeMap::new();
        while at < end {
            let bytes = self.source.bytes(at, 1, end)?;
            let mut used = 0;
            for zero in memchr::memchr_iter(0, bytes) {
                let name = bytes.get(used..zero).unwrap_or_default();
                if may_be.has(shape(name)) && names.contains(name) {
                    found.insert((at - from) as u32 + used as u32, String::from_utf8_lossy(name).into_owned());
                }
                used = zero + 1;
            }
            if used == 0 && bytes.len() as u64 >= CHUNK {
                return Err(malformed("a name without an end"));
            }
            // The name that the chunk cuts is read again with the next one.
            at += if used == 0 { bytes.len() as u64 } else { used as u64 };
            self.source.forget();
        }
        self.found = found;
        Ok(())
    }

    /// Goes through all types: the numbers of the wanted hooks, and of the wanted types.
    fn read_types(&mut self, wanted: &Wanted) -> io::Result<(BTreeMap<String, u32>, Vec<u32>)> {
        let (mut hooks, mut roots, mut places) = (BTreeMap::new(), Vec::new(), Vec::new());
        let found = std::mem::take(&mut self.found);
        let mut may_be = Bits::default();
        found.keys().for_each(|name| may_be.set(*name as usize));
        let (mut at, end) = (self.types.0, self.types.0 + self.types.1);
        let mut id = 0_u32;
        while at < end {
            let bytes = self.source.bytes(at, TYPE, end)?;
            let mut used = 0;
            while let Some(header) = bytes.get(used..used + TYPE) {
                let of_type = Type::of(at + used as u64, header);
                if (id as usize).is_multiple_of(STRIDE) {
                    places.push(of_type.at);
                }
                id += 1;
                used += TYPE + of_type.rest()?;
                if !may_be.has(of_type.name as usize) {
                    continue;
                }
                let Some(name) = found.get(&of_type.name) else { continue };
                match of_type.kind() {
                    kind::FUNC | kind::TYPEDEF if wanted.hooks.contains(name) => {
                        hooks.entry(name.clone()).or_insert(id);
                    }
                    kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 if wanted.types.contains(name) => {
                        roots.push(id);
                    }
                    _ => {}
                }
            }
            at += used as u64;
        }
        (self.found, self.places) = (found, places);
        Ok((hooks, roots))
    }

    fn type_at(&mut self, at: u64) -> io::Result<Type> {
        let end = self.types.0 + self.types.1;
        Ok(Type::of(at, self.source.bytes(at, TYPE, end)?))
    }

    /// The type of a number, from 1 on.
    fn type_of(&mut self, id: u32) -> io::Result<Type> {
        let index = (id as usize).checked_sub(1).ok_or_else(|| malformed("a type without a number"))?;
        let mut at =
            *self.places.get(index / STRIDE).ok_or_else(|| malformed("the number of a type that is not there"))?;
        for _ in 0..index % STRIDE {
            let of_type = self.type_at(at)?;
            at += (TYPE + of_type.rest()?) as u64;
        }
        self.type_at(at)
    }

    /// What stands after what all types begin with.
    fn parts(&self, of_type: &Type) -> io::Result<Vec<u8>> {
        let mut parts = vec![0; of_type.rest()?];
        self.source.read_at(&mut parts, of_type.at + TYPE as u64)?;
        Ok(parts)
    }

    fn name_at(&self, name: u32) -> io::Result<String> {
        let left = self.names.1.saturating_sub(u64::from(name)).min(NAME_MAX);
        let mut bytes = vec![0; left as usize];
        self.source.read_at(&mut bytes, self.names.0 + u64::from(name))?;
        let name = CStr::from_bytes_until_nul(&bytes).map_err(|_| malformed("a name without an end"))?;
        Ok(name.to_string_lossy().into_owned())
    }
}

/// The short description in the making: the wanted types with the wanted members, and what those are made of. What is
/// pointed to is left out, as programs say themselves what they take it for; so are names that nobody asks for.
struct Short<'a> {
    walk: Walk,
    members: &'a BTreeSet<String>,
    /// New numbers by old ones.
    new_ids: BTreeMap<u32, u32>,
    /// The types, in the order of their new numbers.
    types: Vec<Vec<u32>>,
    names: Vec<u8>,
}

impl Short<'_> {
    /// The new number of a type that is kept; 0, which is `void`, for what no structure is made of.
    fn keep(&mut self, id: u32, depth: u32) -> io::Result<u32> {
        if id == 0 || depth > DEPTH_MAX {
            return Ok(0);
        }
        if let Some(new) = self.new_ids.get(&id) {
            return Ok(*new);
        }
        let of_type = self.walk.type_of(id)?;
        // Its number is known before its parts are looked at.
        self.types.push(Vec::new());
        let new = self.types.len() as u32;
        self.new_ids.insert(id, new);
        let name = self.name(of_type.name);
        let inner = depth + 1;
        let parts = self.walk.parts(&of_type)?;
        let words = match of_type.kind() {
            kind::PTR => vec![0, of_type.info, 0],
            kind::INT => vec![name, of_type.info, of_type.size_or_type, word(&parts, 0)],
            kind::FLOAT => vec![name, of_type.info, of_type.size_or_type],
            kind::ARRAY => {
                let (of, by) = (self.keep(word(&parts, 0), inner)?, self.keep(word(&parts, 1), inner)?);
                vec![0, of_type.info, 0, of, by, word(&parts, 2)]
            }
            kind::STRUCT | kind::UNION => {
                let mut kept = Vec::new();
                for member in parts.chunks_exact(12) {
                    // One without a name has members that count as its owner's.
                    if word(member, 0) == 0 || self.is_wanted(word(member, 0)) {
                        kept.push(self.name(word(member, 0)));
                        kept.push(self.keep(word(member, 1), inner)?);
                        kept.push(word(member, 2));
                    }
                }
                of_parts(name, &of_type, kept, 3)
            }
            of_kind @ (kind::ENUM | kind::ENUM64) => {
                let words = if of_kind == kind::ENUM { 2 } else { 3 };
                let mut kept = Vec::new();
                for value in parts.chunks_exact(4 * words) {
                    if self.is_wanted(word(value, 0)) {
                        kept.push(self.name(word(value, 0)));
                        kept.extend((1..words).map(|i| word(value, i)));
                    }
                }
                of_parts(name, &of_type, kept, words)
            }
            kind::TYPEDEF..=kind::RESTRICT | kind::TYPE_TAG => {
                vec![name, of_type.info, self.keep(of_type.size_or_type, inner)?]
            }
            // Functions and the like: as a pointer, which has the same form and says as little.
            _ => vec![0, kind::PTR << 24, 0],
        };
        if let Some(place) = self.types.get_mut(new as usize - 1) {
            *place = words;
        }
        Ok(new)
    }

    fn is_wanted(&self, name: u32) -> bool {
        self.walk.found.get(&name).is_some_and(|name| self.members.contains(name))
    }

    /// Where a wanted name stands in the short description; 0: it has none there.
    fn name(&mut self, name: u32) -> u32 {
        let Some(name) = self.walk.found.get(&name) else { return 0 };
        let at = self.names.len() as u32;
        self.names.extend_from_slice(name.as_bytes());
        self.names.push(0);
        at
    }

    fn bytes(&self) -> Vec<u8> {
        let types: Vec<u8> = self.types.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
        let (types_length, names_length) = (types.len() as u32, self.names.len() as u32);
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        // Version 1, no flags.
        bytes.extend([1, 0]);
        for word in [HEADER as u32, 0, types_length, types_length, names_length] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend_from_slice(&self.names);
        bytes
    }
}

/// A type with as many parts as were kept.
fn of_parts(name: u32, of_type: &Type, kept: Vec<u32>, words: usize) -> Vec<u32> {
    let count = (kept.len() / words) as u32;
    let mut all = vec![name, of_type.info & !0xffff | count, of_type.size_or_type];
    all.extend(kept);
    all
}

/// A set of numbers, of which only the lowest 16 bits count: what is not in it is surely not. Large beside the some hundred names that
/// are wanted, so that few of the kernel's are looked for in vain.
struct Bits(Box<[u64; 1024]>);

impl Bits {
    fn set(&mut self, n: usize) {
        self.0[n / 64 % 1024] |= 1 << (n % 64);
    }

    fn has(&self, n: usize) -> bool {
        self.0[n / 64 % 1024] >> (n % 64) & 1 == 1
    }
}

impl Default for Bits {
    fn default() -> Self {
        Bits(Box::new([0; 1024]))
    }
}

/// A number of 16 bits that few names share: of their length, and of their first, middle and last letter.
fn shape(name: &[u8]) -> usize {
    let letter = |at: usize| name.get(at).copied().unwrap_or(0);
    let last = name.len().saturating_sub(1);
    let word = u32::from_ne_bytes([letter(0), letter(last / 2), letter(last), name.len() as u8]);
    // Knuth's multiplicative hashing: the upper bits depend on all.
    (word.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

fn word(bytes: &[u8], index: usize) -> u32 {
    let bytes = bytes.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_ne_bytes(bytes.unwrap_or_default())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not as expected: {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::BTF;
    use super::*;
    use libbpf_rs::btf::types::{Composite, Enum};
    use libbpf_rs::btf::{Btf, BtfType};

    fn wanted() -> Wanted {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Wanted {
            types: set(&["task_struct", "sock_common", "tcp_sock", "skb_drop_reason", "no_such_type"]),
            members: set(&[
                "pid",
                "tgid",
                "comm",
                "__state",
                "skc_num",
                "skc_family",
                "nonagle",
                "write_seq",
                "inet_conn",
            ]),
            hooks: set(&["btf_trace_sched_switch", "tcp_sendmsg", "btf_trace_no_such_thing"]),
        }
    }

    #[test]
    fn it_says_the_same_as_all_of_it() {
        let (Ok(types), Ok(all)) = (KernelTypes::read(Path::new(BTF), &wanted()), Btf::from_vmlinux()) else {
            return testkit::skip("this kernel does not describe its types");
        };
        for (hook, number) in types.hooks() {
            let number_of_all = all.type_by_name::<BtfType<'_>>(hook).map(|of_type| u32::from(of_type.type_id()));
            assert_eq!(Some(*number), number_of_all, "{hook}");
        }
        assert!(
            types.hooks().contains_key("btf_trace_sched_switch")
                && !types.hooks().contains_key("btf_trace_no_such_thing")
        );
        let short = Btf::from_path(types.path()).unwrap();
        assert!(short.len() < 2000, "{} types", short.len());
        for name in ["task_struct", "tcp_sock"] {
            let one = |btf: &Btf<'_>| -> Vec<String> {
                let composite = btf.type_by_name::<Composite<'_>>(name).unwrap();
                let named = composite.iter().filter(|member| {
                    member.name.and_then(OsStr::to_str).is_some_and(|name| wanted().members.contains(name))
                });
                named.map(|member| format!("{:?} {:?}", member.name, member.attr)).collect()
            };
            assert!(!one(&all).is_empty());
            assert_eq!(one(&short), one(&all), "{name}");
        }
        let reasons = enumeration(Path::new(BTF), "skb_drop_reason").unwrap();
        let of_all = all.type_by_name::<Enum<'_>>("skb_drop_reason").unwrap();
        assert_eq!(reasons.len(), of_all.len());
        assert!(reasons.values().any(|name| name == "SKB_DROP_REASON_NO_SOCKET"), "{reasons:?}");
    }

    #[test]
    fn a_copy_that_is_read_says_the_same_as_what_is_mapped() {
        let Ok(of_kernel) = KernelTypes::read(Path::new(BTF), &wanted()) else {
            return testkit::skip("this kernel does not describe its types");
        };
        let copy = tempfile::NamedTempFile::new().unwrap();
        std::fs::copy(BTF, copy.path()).unwrap();
        let of_copy = KernelTypes::read(copy.path(), &wanted()).unwrap();
        assert_eq!(of_copy.hooks(), of_kernel.hooks());
        let short = |types: &KernelTypes| std::fs::read(types.path()).unwrap();
        assert_eq!(short(&of_copy), short(&of_kernel));
    }

    #[test]
    fn a_cut_or_garbled_description_is_an_error_or_less_but_no_panic() {
        let Ok(types) = KernelTypes::read(Path::new(BTF), &wanted()) else {
            return testkit::skip("this kernel does not describe its types");
        };
        let whole = std::fs::read(types.path()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(file.path(), bytes).unwrap();
            KernelTypes::read(file.path(), &wanted()).map(|types| std::fs::read(types.path()).unwrap().len())
        };
        // What is short already stays as it is.
        assert_eq!(read(&whole).unwrap(), whole.len());
        for length in (0..whole.len()).step_by(7) {
            assert!(read(&whole[..length]).is_err(), "{length} of {}", whole.len());
        }
        for at in (0..whole.len()).step_by(5) {
            let mut garbled = whole.clone();
            garbled[at] ^= 0xff;
            let _ = read(&garbled);
        }
    }
}
