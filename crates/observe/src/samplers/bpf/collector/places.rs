//! Where in a program or library a runtime's collector begins its pause and ends it.
//!
//! Two ways are known. Static probes, which a program's authors put there for this very purpose: notes of the section
//! `.note.stapsdt`, as <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation> lays them out. And functions, by
//! their symbols. Nothing is attached here, and nothing is executed.

use crate::source::bpf::Place;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// The programs of `collector.bpf.c`.
const BEGINS: &str = "begins";
const ENDS: &str = "ends";

/// Static probes: provider, name, program. JVM: HotSpot's `hotspot.d`. Python: `Include/pydtrace.d`. Ruby: `probes.d`.
const PROBES: &[(&str, &str, &str)] = &[
    ("hotspot", "gc__begin", BEGINS),
    ("hotspot", "gc__end", ENDS),
    ("python", "gc__start", BEGINS),
    ("python", "gc__done", ENDS),
    ("ruby", "gc__mark__begin", BEGINS),
    ("ruby", "gc__mark__end", ENDS),
    ("ruby", "gc__sweep__begin", BEGINS),
    ("ruby", "gc__sweep__end", ENDS),
];

/// Functions, by how their symbols begin. V8: `Heap::GarbageCollectionPrologue` and `…Epilogue` of `src/heap/heap.cc`, the
/// mangled name with its length and without its arguments, which change. Go: `runtime/proc.go`.
const FUNCTIONS: &[(&str, &str)] = &[
    ("_ZN2v88internal4Heap25GarbageCollectionPrologueE", BEGINS),
    ("_ZN2v88internal4Heap25GarbageCollectionEpilogueE", ENDS),
];
const FUNCTIONS_WHOLE: &[(&str, &str)] =
    &[("runtime.stopTheWorldWithSema", BEGINS), ("runtime.startTheWorldWithSema", ENDS)];

/// How the name of a library begins that has a runtime.
const LIBRARIES: &[&str] = &["libjvm.so", "libpython", "libnode.so", "libruby"];

/// Symbols of a table that are looked at; V8 has some hundred thousand.
const SYMBOLS_MAX: usize = 2_000_000;
/// Bytes of notes that are looked at, and places of a file that are taken.
const NOTES_BYTES_MAX: usize = 1 << 20;
const PLACES_MAX: usize = 64;

/// Type and owner of a note that tells of a static probe.
const STAPSDT: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";

/// Whether a mapped file may have a runtime inside: the program itself, or a library that is known to.
pub(super) fn may_have_one(program: &Path, file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    program == file || LIBRARIES.iter().any(|begins| name.starts_with(begins))
}

/// The places in a file; none where it has a begin without an end, or the other way round.
///
/// # Errors
/// One sentence, where the file cannot be read or is none that this knows.
pub(super) fn of(path: &Path) -> Result<Vec<Place>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let cache = ReadCache::new(&file);
    let elf = ElfFile64::<object::Endianness, _>::parse(&cache)
        .map_err(|error| format!("is no ELF file of 64 bits: {error}"))?;
    let mut places = of_notes(&elf);
    if places.is_empty() {
        places = of_symbols(&elf);
    }
    places.truncate(PLACES_MAX);
    let has = |program: &str| places.iter().any(|place| place.program == program);
    Ok(if has(BEGINS) && has(ENDS) { places } else { Vec::new() })
}

fn of_symbols<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, object::Endianness, R>) -> Vec<Place> {
    let tables = elf.symbols().take(SYMBOLS_MAX).chain(elf.dynamic_symbols().take(SYMBOLS_MAX));
    let mut places: Vec<Place> = Vec::new();
    for symbol in tables.filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        let begins = FUNCTIONS.iter().find(|(begin, _)| name.starts_with(begin));
        let found = begins.or_else(|| FUNCTIONS_WHOLE.iter().find(|(whole, _)| name == *whole));
        let Some((_, program)) = found else { continue };
        let Some(offset) = offset_of(elf, symbol.address()) else { continue };
        let place = Place { program, offset, semaphore: 0 };
        // Both tables may have it.
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn of_notes<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, object::Endianness, R>) -> Vec<Place> {
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Vec::new() };
    let Ok(data) = section.data() else { return Vec::new() };
    // Where the file was linked to another address since the notes were written, this section has moved with it.
    let base = elf.section_by_name(".stapsdt.base").map_or(0, |section| section.address());
    let mut rest = data.get(..NOTES_BYTES_MAX.min(data.len())).unwrap_or(data);
    let mut places = Vec::new();
    while let Some((note, next)) = Note::take(rest) {
        rest = next;
        let Some((_, _, program)) = PROBES
            .iter()
            .find(|(provider, name, _)| (provider.as_bytes(), name.as_bytes()) == (note.provider, note.name))
        else {
            continue;
        };
        let moved = if base == 0 || note.base == 0 { 0 } else { base.wrapping_sub(note.base) };
        let Some(offset) = offset_of(elf, note.location.wrapping_add(moved)) else { continue };
        let semaphore = match note.semaphore {
            0 => Some(0),
            address => offset_of(elf, address.wrapping_add(moved)),
        };
        if let Some(semaphore) = semaphore {
            places.push(Place { program, offset, semaphore });
        }
    }
    places
}

/// Where an address is in the file.
fn offset_of<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, object::Endianness, R>, address: u64) -> Option<u64> {
    let endian = elf.endian();
    let header: &FileHeader64<_> = elf.elf_header();
    let segments = header.program_headers(endian, elf.data()).ok()?;
    segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    })
}

/// A static probe as its note has it.
struct Note<'a> {
    location: u64,
    base: u64,
    semaphore: u64,
    provider: &'a [u8],
    name: &'a [u8],
}

impl<'a> Note<'a> {
    /// The first probe of these notes, and what comes after it; `None`: there is none that is whole. Of this byte order, as
    /// what is mapped here runs here.
    fn take(mut notes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        loop {
            let word = |at: usize| notes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
            let padded = |length: u32| usize::try_from(length).ok()?.checked_next_multiple_of(4);
            let (owner_length, length, kind) = (word(0)?, word(4)?, word(8)?);
            let owner_end = padded(owner_length)?.checked_add(12)?;
            let end = owner_end.checked_add(padded(length)?)?;
            let owner = notes.get(12..owner_end)?;
            let body = notes.get(owner_end..end)?;
            notes = notes.get(end..)?;
            if kind == STAPSDT && owner == OWNER {
                return Some((Note::parse(body)?, notes));
            }
        }
    }

    fn parse(body: &'a [u8]) -> Option<Self> {
        let address = |at: usize| body.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let mut words = body.get(24..)?.split(|byte| *byte == 0);
        Some(Note {
            location: address(0)?,
            base: address(8)?,
            semaphore: address(16)?,
            provider: words.next()?,
            name: words.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, body: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [owner.len() as u32, body.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [owner, body] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    fn body(location: u64, semaphore: u64) -> Vec<u8> {
        let mut body = Vec::new();
        for word in [location, 0, semaphore] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(b"python\0gc__start\0-4@%edi\0");
        body
    }

    #[test]
    fn notes_are_told_apart_and_cut_ones_are_none() {
        let notes =
            [note(b"GNU\0", 3, b"abc"), note(OWNER, STAPSDT, &body(7, 9)), note(OWNER, STAPSDT, &body(8, 0))].concat();
        let (first, rest) = Note::take(&notes).unwrap();
        assert_eq!(
            (first.location, first.semaphore, first.provider, first.name),
            (7, 9, &b"python"[..], &b"gc__start"[..])
        );
        let (second, rest) = Note::take(rest).unwrap();
        assert_eq!((second.location, second.semaphore), (8, 0));
        assert!(Note::take(rest).is_none());
        for length in 0..notes.len() {
            let mut rest = &notes[..length];
            while let Some((_, next)) = Note::take(rest) {
                assert!(next.len() < rest.len());
                rest = next;
            }
        }
        assert!(Note::take(&[0xff; 64]).is_none(), "lengths beyond the end");
    }

    #[test]
    fn the_program_itself_and_known_libraries_may_have_a_runtime() {
        let may = |file: &str| may_have_one(Path::new("/opt/service"), Path::new(file));
        assert!(may("/opt/service") && may("/usr/lib/libjvm.so") && may("/usr/lib/libpython3.11.so.1.0"));
        assert!(!may("/usr/lib/libc.so.6") && !may("/opt/other"));
    }

    #[test]
    fn what_has_no_collector_has_no_places() {
        assert_eq!(of(Path::new("/proc/self/exe")), Ok(Vec::new()));
        let folder = tempfile::tempdir().unwrap();
        let own = std::fs::read("/proc/self/exe").unwrap();
        let path = folder.path().join("cut");
        for length in [0, 63, 4096, own.len() / 2] {
            std::fs::write(&path, &own[..length]).unwrap();
            assert!(of(&path).is_err() || of(&path) == Ok(Vec::new()), "{length} bytes");
        }
    }
}
