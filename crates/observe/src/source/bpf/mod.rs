//! BPF programs: loading, attaching, and reading their maps; the one place that knows libbpf.
//!
//! Not here: which programs there are and what their figures mean (`samplers/bpf`). Every figure is a number of 64 bits
//! in the machine's own order, so maps are read as words.

pub(crate) mod clock_events;
mod hooks;
mod ids;
pub(crate) mod kernel_types;
pub(crate) mod names;
pub(crate) mod stacks;
pub(crate) mod symbols;
mod uprobes;

pub(crate) use uprobes::{Place, Places};

use crate::source::clock;
use kernel_types::{KernelTypes, Wanted, hook_of};
use libbpf_rs::libbpf_sys::{bpf_map_create_opts, bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::{
    Link, Map, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, OpenProgram, RingBufferBuilder,
};
use model::bpf::Log2;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The kernel's description of its types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";
/// As in bpf/plimsoll.bpf.h.
const TARGETS_MAX: u32 = 1024;
const NETWORKS_MAX: u32 = 64;
/// Words of the map `ports`: a bit a port.
const PORT_WORDS: usize = 65_536 / 64;
/// In the names of programs that cost by the call, of a probe that is always on.
const OFTEN: &str = "often_";
/// The section of programs that run at beats of a clock.
const CLOCK: &str = "perf_event";
/// A map that one program makes and others, which are loaded after it, look into as well.
const SHARED: &str = "accepted";
/// A map that tells programs which must see all of several events or none that their window is over.
const UNTIL: &str = "until";

/// Why probes do not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BpfError {
    /// The kernel does not describe its types.
    #[error("{BTF} is not there: probes need a kernel built with CONFIG_DEBUG_INFO_BTF, and /sys mounted")]
    NoBtf,
    /// For root, or capabilities.
    #[error("the kernel does not let this process use bpf(2): run as root, or give plimsoll CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// Processes have other ids for the programs than for `/proc`.
    #[error("which processes the ids in /proc are of is not known: {0}")]
    Ids(String),
    /// The kernel refused one.
    #[error("{what}: {reason}")]
    Refused {
        /// What was to be done.
        what: String,
        /// libbpf's words.
        reason: String,
    },
}

impl BpfError {
    fn of(what: impl Into<String>, error: &libbpf_rs::Error) -> Self {
        let mut reason = format!("{error:#}");
        // ENOTSUPP, which libc has no word for: ftrace of arm64 before Linux 6.4.
        if reason.ends_with("(os error 524)") {
            "this kernel lets no probe stand at a function of its own; Linux 6.3 and newer have tracepoints there"
                .clone_into(&mut reason);
        }
        BpfError::Refused { what: what.into(), reason }
    }
}

/// The maps that all programs look into: whom they are to watch.
#[derive(Debug)]
pub(crate) struct Scope {
    targets: MapHandle,
    ports: MapHandle,
    networks: MapHandle,
    ids: ids::Ids,
    port_words: Vec<u64>,
    shared: Option<MapHandle>,
    types: KernelTypes,
}

impl Scope {
    /// Empty: nothing is watched. `objects`: those that are to be loaded; `locate`: the one that says which ids this
    /// process has.
    pub(crate) fn new(objects: impl Iterator<Item = &'static [u8]>, locate: &'static [u8]) -> Result<Self, BpfError> {
        if !Path::new(BTF).exists() {
            return Err(BpfError::NoBtf);
        }
        // What libbpf has to say comes back in errors; on stderr it would stand in the middle of a report.
        libbpf_rs::set_print(None);
        hooks::register();
        let map = |kind, name, value, entries| {
            let options = bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..Default::default() };
            MapHandle::create(kind, Some(name), 4, value, entries, &options).map_err(|error| match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => BpfError::NotPermitted,
                _ => BpfError::of(format!("the map '{name}' cannot be made"), &error),
            })
        };
        // Before the types are read: who may not make it has no use for them.
        let targets = map(MapType::Hash, "targets", 1, TARGETS_MAX)?;
        let mut wanted = Wanted::default();
        for bytes in objects.chain([locate]) {
            wanted.add(bytes);
        }
        let types = KernelTypes::read(Path::new(BTF), &wanted).map_err(|error| BpfError::Refused {
            what: format!("the kernel's types ({BTF}) cannot be read"),
            reason: error.to_string(),
        })?;
        Ok(Scope {
            targets,
            ports: map(MapType::Array, "ports", PORT_WORDS as u32 * 8, 1)?,
            networks: map(MapType::Hash, "networks", 1, NETWORKS_MAX)?,
            ids: ids::Ids::of_proc(locate, &types)?,
            port_words: vec![0; PORT_WORDS],
            shared: None,
            types,
        })
    }

    /// Watches a process. False where there are too many.
    pub(crate) fn add_target(&self, pid: u32) -> bool {
        self.targets.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY).is_ok()
    }

    /// Watches a network namespace, by its number: its ports are the target's. False where there are too many.
    pub(crate) fn add_network(&self, number: u32) -> bool {
        self.networks.update(&number.to_ne_bytes(), &[1], MapFlags::ANY).is_ok()
    }

    /// Watches a port; 0: any.
    pub(crate) fn add_port(&mut self, port: u16) -> bool {
        self.port_words[usize::from(port / 64)] |= 1 << (port % 64);
        set_first(&self.ports, &self.port_words).is_ok()
    }
}

/// An entry of a hash.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its key's bytes.
    pub(crate) key: Vec<u8>,
    /// Its value's words.
    pub(crate) words: Vec<u64>,
}

/// The programs of one object file, loaded.
#[derive(Debug)]
pub(crate) struct Programs {
    object: Object,
    links: Vec<Link>,
    often: Vec<Link>,
    /// At the beats of CPUs' clocks, by CPU.
    beats: BTreeMap<i32, Link>,
    /// Between which moments of the monotonic clock they ran last, nanoseconds; no end: they do.
    ran_ns: (i64, Option<i64>),
    /// How many records were taken from its ring.
    taken: u64,
    /// Attached to files, by [`Programs::follow`].
    uprobes: uprobes::Uprobes,
}

impl Programs {
    /// Loads an object. `settings`: arrays whose first entry is to hold these words.
    pub(crate) fn load(bytes: &[u8], scope: &mut Scope, settings: &[(&str, &[u64])]) -> Result<Self, BpfError> {
        let mut object = open(bytes, &scope.types)?;
        stand_in(&mut object, &scope.types)?;
        share(&mut object, scope)?;
        scope.ids.set(&mut object);
        let object = hooks::with_numbers(scope.types.hooks(), || object.load())
            .map_err(|error| BpfError::of("the kernel does not take the program", &error))?;
        let programs = Programs {
            object,
            links: Vec::new(),
            often: Vec::new(),
            beats: BTreeMap::new(),
            ran_ns: (0, None),
            taken: 0,
            uprobes: uprobes::Uprobes::default(),
        };
        for (name, words) in settings {
            if programs.found(name).is_ok() {
                programs.set(name, words)?;
            }
        }
        if scope.shared.is_none() {
            scope.shared = programs.map(SHARED).ok();
        }
        Ok(programs)
    }

    /// Lets them run; those that cost by the call, whose names have [`OFTEN`], only where that is wanted. What is attached
    /// already stays so.
    pub(crate) fn attach(&mut self, with_often: bool) -> Result<(), BpfError> {
        let wanted =
            |is_often: bool| if is_often { with_often && self.often.is_empty() } else { self.links.is_empty() };
        let is_often = |name: &OsStr| name.to_string_lossy().contains(OFTEN);
        let runs = |program: &OsStr, section: &OsStr| {
            // Where clocks beat is said by `beat_on`.
            wanted(is_often(program))
                && section != CLOCK
                && !section.to_string_lossy().split('/').next().is_some_and(uprobes::is_uprobe)
        };
        if !self.object.progs().any(|program| program.autoload() && runs(program.name(), program.section())) {
            return Ok(());
        }
        let now_ns = clock::monotonic_ns();
        self.ran_ns = (now_ns, None);
        for (name, word) in [("window", now_ns.cast_unsigned()), (UNTIL, 0)] {
            // A program that does not look at it has no such map.
            if self.found(name).is_ok() {
                self.set(name, &[word])?;
            }
        }
        let (mut links, mut often) = (Vec::new(), Vec::new());
        for program in self.object.progs_mut().filter(|program| program.autoload()) {
            if !runs(program.name(), program.section()) {
                continue;
            }
            let link = if hooks::is_hook(program.section()) { program.attach_trace() } else { program.attach() };
            let link = link.map_err(|error| {
                BpfError::of(format!("'{}' cannot be attached", program.section().to_string_lossy()), &error)
            })?;
            if is_often(program.name()) { &mut often } else { &mut links }.push(link);
        }
        self.links.extend(links);
        self.often.extend(often);
        Ok(())
    }

    /// Has its program for beats of clocks, where there is one, run at those of these CPUs, and of no others.
    pub(crate) fn beat_on(&mut self, cpus: &BTreeSet<i32>) -> Result<(), BpfError> {
        self.beats.retain(|cpu, _| cpus.contains(cpu));
        for program in self.object.progs_mut().filter(|program| program.section() == CLOCK) {
            for cpu in cpus {
                if let btree_map::Entry::Vacant(place) = self.beats.entry(*cpu) {
                    place.insert(clock_events::attach(&program, *cpu)?);
                }
            }
        }
        Ok(())
    }

    /// Stops all of them, or only those that cost by the call; their maps stay.
    pub(crate) fn detach(&mut self, all: bool) {
        self.often.clear();
        if all {
            if self.ran_ns.1.is_none() {
                let now_ns = clock::monotonic_ns();
                self.ran_ns.1 = Some(now_ns);
                // Without such a map there is nothing that would be half seen.
                let _ = self.set(UNTIL, &[now_ns.cast_unsigned()]);
            }
            self.links.clear();
        }
    }

    /// From when on all of them run or ran last, and until when: now, where they do. Of the monotonic clock, nanoseconds.
    pub(crate) fn ran_ns(&self) -> (i64, i64) {
        (self.ran_ns.0, self.ran_ns.1.unwrap_or_else(clock::monotonic_ns))
    }

    /// The first entry of an array that is not kept by CPU.
    pub(crate) fn first(&self, name: &str) -> Result<Vec<u64>, BpfError> {
        let map = self.found(name)?;
        let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| unreadable(&map, &error))?;
        Ok(words(&value.unwrap_or_default()).collect())
    }

    /// Sets the first entry of an array.
    pub(crate) fn set(&self, name: &str, words: &[u64]) -> Result<(), BpfError> {
        set_first(&self.map(name)?, words)
            .map_err(|error| BpfError::of(format!("the map '{name}' cannot be set"), &error))
    }

    /// How many times a program was left out because it was running already on that CPU, interrupted; `None`: the kernel
    /// does not say (before 5.12).
    pub(crate) fn misses(&self) -> Option<u64> {
        self.object.progs().filter(|program| program.autoload()).map(|program| misses(program.as_fd())).sum()
    }

    /// The map `counts`, all CPUs together.
    pub(crate) fn counts(&self) -> Result<Vec<u64>, BpfError> {
        let map = self.found("counts")?;
        (0..map.max_entries()).map(|i| Ok(words_of_all_cpus(&map, i)?.first().copied().unwrap_or(0))).collect()
    }

    /// One of the map `histograms`, all CPUs together.
    pub(crate) fn histogram(&self, which: u32) -> Result<Log2, BpfError> {
        let mut words = words_of_all_cpus(&self.found("histograms")?, which)?;
        if words.is_empty() {
            return Ok(Log2::default());
        }
        let sum = words.remove(0);
        words.truncate(words.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1));
        Ok(Log2 { sum, buckets: words })
    }

    /// Every entry of a per-CPU array that is not all zeros, all CPUs together.
    pub(crate) fn array(&self, name: &str) -> Result<Vec<(u32, Vec<u64>)>, BpfError> {
        let map = self.found(name)?;
        let mut entries = Vec::new();
        for i in 0..map.max_entries() {
            let words = words_of_all_cpus(&map, i)?;
            if words.iter().any(|word| *word != 0) {
                entries.push((i, words));
            }
        }
        Ok(entries)
    }

    /// Every entry of a hash.
    pub(crate) fn hash(&self, name: &str) -> Result<Vec<Entry>, BpfError> {
        let map = self.map(name)?;
        let mut entries = Vec::new();
        for key in map.keys().take(map.max_entries() as usize) {
            // One that went in between is left out.
            if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(|error| unreadable(&map, &error))? {
                entries.push(Entry { key, words: words(&value).collect() });
            }
        }
        Ok(entries)
    }

    /// Takes every record of the ring, oldest first. `written`: how many the programs say were put into it; where all of
    /// them have been taken the ring is not looked at, as to map and unmap it costs more than all other maps do.
    pub(crate) fn take_records(
        &mut self,
        name: &str,
        written: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), BpfError> {
        if written == self.taken {
            return Ok(());
        }
        let map = self.map(name)?;
        let mut ring = RingBufferBuilder::new();
        let count = &mut self.taken;
        let taken = |record: &[u8]| {
            *count += 1;
            take(record);
            0
        };
        ring.add(&map, taken).map_err(|error| unreadable(&map, &error))?;
        ring.build().and_then(|ring| ring.consume()).map_err(|error| unreadable(&map, &error))
    }

    /// The only word of an array, which is 0 from then on.
    pub(crate) fn take_first(&self, name: &str) -> Result<u64, BpfError> {
        let map = self.map(name)?;
        let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| unreadable(&map, &error))?;
        let word = value.as_deref().and_then(|value| words(value).next()).unwrap_or(0);
        if word > 0 {
            set_first(&map, &[0]).map_err(|error| unreadable(&map, &error))?;
        }
        Ok(word)
    }

    fn found(&self, name: &str) -> Result<Map<'_>, BpfError> {
        self.object.maps().find(|map| map.name() == name).ok_or_else(|| BpfError::Refused {
            what: format!("the map '{name}'"),
            reason: "is not in this program".to_owned(),
        })
    }

    /// The same with a descriptor of its own.
    fn map(&self, name: &str) -> Result<MapHandle, BpfError> {
        let map = self.found(name)?;
        MapHandle::try_from(&map).map_err(|error| BpfError::of(format!("the map '{name}' cannot be opened"), &error))
    }
}

fn unreadable(map: &impl MapCore, error: &libbpf_rs::Error) -> BpfError {
    BpfError::of(format!("the map '{}' cannot be read", map.name().to_string_lossy()), error)
}

fn open(bytes: &[u8], types: &KernelTypes) -> Result<OpenObject, BpfError> {
    // A copy is aligned as libelf needs it; bytes in a program's text need not be.
    let aligned: Vec<u8> = bytes.to_vec();
    let mut builder = ObjectBuilder::default();
    let opened = builder.btf_custom_path(types.path()).and_then(|builder| builder.open_memory(&aligned));
    opened.map_err(|error| BpfError::of("the program cannot be read", &error))
}

/// Lets the object use the maps of the scope.
fn share(object: &mut OpenObject, scope: &Scope) -> Result<(), BpfError> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let shared = match &*name {
            "targets" => Some(&scope.targets),
            "ports" => Some(&scope.ports),
            "networks" => Some(&scope.networks),
            SHARED => scope.shared.as_ref(),
            _ => None,
        };
        if let Some(shared) = shared {
            map.reuse_fd(shared.as_fd())
                .map_err(|error| BpfError::of(format!("the map '{name}' cannot be set up"), &error))?;
        }
    }
    Ok(())
}

/// Replaces programs whose tracepoint this kernel does not have by those that are named `before_` and as they are: what
/// older kernels offer in their stead.
fn stand_in(object: &mut OpenObject, types: &KernelTypes) -> Result<(), BpfError> {
    let has_hook = |section: &OsStr| hook_of(section).is_none_or(|hook| types.hooks().contains_key(&hook));
    let is_missing = |program: &OpenProgram<'_>| program.autoload() && !has_hook(program.section());
    let missing: Vec<(OsString, OsString)> = object
        .progs()
        .filter(is_missing)
        .map(|program| (program.name().to_owned(), program.section().to_owned()))
        .collect();
    for (name, section) in &missing {
        let prefix = format!("before_{}", name.to_string_lossy());
        let mut replaced = false;
        for mut program in object.progs_mut() {
            if program.name() == name {
                program.set_autoload(false);
            } else if program.name().to_string_lossy().starts_with(&prefix) && has_hook(program.section()) {
                program.set_autoload(true);
                replaced = true;
            }
        }
        if !replaced {
            let tracepoint = section.to_string_lossy();
            return Err(BpfError::Refused {
                what: "the kernel does not take the program".to_owned(),
                reason: format!("this kernel has no tracepoint '{}'", tracepoint.trim_start_matches("tp_btf/")),
            });
        }
    }
    Ok(())
}

fn misses(program: std::os::fd::BorrowedFd<'_>) -> Option<u64> {
    let mut info = bpf_prog_info::default();
    let mut length = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is that long and lives until the call returns;
    // all zeros, which it is before, ask for no lists elsewhere.
    let failed = unsafe { bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length) };
    let reaches = std::mem::offset_of!(bpf_prog_info, recursion_misses) + size_of::<u64>();
    (failed == 0 && length as usize >= reaches).then_some(info.recursion_misses)
}

fn set_first(map: &MapHandle, words: &[u64]) -> libbpf_rs::Result<()> {
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    map.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY)
}

fn words_of_all_cpus(map: &impl MapCore, index: u32) -> Result<Vec<u64>, BpfError> {
    let cpus = map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY).map_err(|error| unreadable(map, &error))?;
    let mut sum = Vec::new();
    for cpu in cpus.unwrap_or_default() {
        sum.resize(sum.len().max(cpu.len() / 8), 0_u64);
        for (sum, word) in sum.iter_mut().zip(words(&cpu)) {
            *sum = sum.wrapping_add(word);
        }
    }
    Ok(sum)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
}
