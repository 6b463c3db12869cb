//! Which language runtime the target's processes run, by what they have mapped and never by their name: a collector, one
//! lock for all threads or a pool of threads are a runtime's.
//!
//! By the libraries in `/proc/<pid>/maps`, and where a runtime is built into the program by what `/proc/<pid>/exe` exports
//! to its extensions, or, of Go, by the section its linker writes. Looked at once for each process.
//! Cost: two files a process, once; of the program's file its tables alone are read. Another user's process needs
//! CAP_SYS_PTRACE.

use crate::metric::{Metric, gauge};
use crate::samplers::{EACH, Entry, Sampler, first_failure, living_id, of_target};
use crate::source::proc::{Buffers, SampleError, lines};
use model::Snapshot;
use model::snapshot::Runtime;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, ReadCache};
use std::collections::BTreeMap;
use std::fs::File;

const METRICS: &[Metric] = &[gauge(
    "processes[].runtime",
    "word",
    "maps, exe",
    "the language runtime it has mapped; absent where none is known",
)];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/runtimes",
    about: "the language runtime of the target's processes (/proc/<pid>/maps and exe)",
    needs: "CAP_SYS_PTRACE for another user's process",
    cost: "2 files a process, once",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(Runtimes::default()),
};

/// How the name of a library's file begins that is a runtime.
const LIBRARIES: &[(&str, Runtime)] = &[
    ("libjvm.so", Runtime::Jvm),
    ("libpython", Runtime::Python),
    ("libnode.so", Runtime::Node),
    ("libruby", Runtime::Ruby),
    ("libperl.so", Runtime::Perl),
    ("libphp", Runtime::Php),
    ("libcoreclr.so", Runtime::Dotnet),
];

/// What a program with a runtime inside exports for its extensions.
const EXPORTS: &[(&str, Runtime)] = &[
    ("Py_BytesMain", Runtime::Python),
    ("napi_create_function", Runtime::Node),
    ("enif_make_atom", Runtime::Erlang),
    ("ruby_run_node", Runtime::Ruby),
    ("perl_construct", Runtime::Perl),
    ("zend_startup", Runtime::Php),
];

/// The section that Go's linker writes.
const GO: &str = ".go.buildinfo";
/// Exported names that are looked at; V8 has some hundred thousand.
const NAMES_MAX: usize = 1_000_000;

#[derive(Debug, Default)]
struct Runtimes {
    /// By process and its start: looked at once.
    known: BTreeMap<(u32, u64), Option<Runtime>>,
}

impl Sampler for Runtimes {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let mut outcome = Ok(());
        let mut living = BTreeMap::new();
        for process in of_target(snapshot)? {
            let key = (process.pid, process.start_ticks);
            let known = match self.known.get(&key) {
                Some(known) => *known,
                None => match look(buffers, living_id(process)) {
                    Ok(found) => found,
                    Err(error) => {
                        outcome = outcome.and(Err(error));
                        continue;
                    }
                },
            };
            process.runtime = known;
            living.insert(key, known);
        }
        self.known = living;
        first_failure(outcome)
    }
}

fn look(buffers: &mut Buffers, id: u32) -> Result<Option<Runtime>, SampleError> {
    if let Some(found) = of_maps(buffers.read(format_args!("/proc/{id}/maps"))?) {
        return Ok(Some(found));
    }
    let path = format!("{}/proc/{id}/exe", buffers.root());
    let file = File::open(&path).map_err(|source| SampleError::of(&path, source))?;
    Ok(of_program(&file))
}

/// By the libraries that are mapped (proc_pid_maps(5)): the path is what stands behind the fifth blank.
fn of_maps(maps: &[u8]) -> Option<Runtime> {
    lines(maps).find_map(|line| {
        let path = line.iter().position(|byte| *byte == b'/').and_then(|at| line.get(at..))?;
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        LIBRARIES.iter().find(|(begins, _)| name.starts_with(begins.as_bytes())).map(|(_, runtime)| *runtime)
    })
}

/// By the program's own file; what is no ELF file of 64 bits has none that is known.
fn of_program(file: &File) -> Option<Runtime> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    if elf.section_by_name(GO).is_some() {
        return Some(Runtime::Go);
    }
    // All names at once: symbol by symbol each would be a read of the file. Most programs have none of these.
    let names = elf.section_by_name(".dynstr").and_then(|names| names.data().ok())?;
    EXPORTS.iter().find(|(known, _)| memchr::memmem::find(names, known.as_bytes()).is_some())?;
    elf.dynamic_symbols().take(NAMES_MAX).filter(|symbol| !symbol.is_undefined()).find_map(|symbol| {
        let name = symbol.name().ok()?;
        EXPORTS.iter().find(|(known, _)| *known == name).map(|(_, runtime)| *runtime)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_file_and_by_nothing_else() {
        let maps =
            |path: &str| format!("7f00-7f01 r--p 00000000 fe:00 17     {path}\n7ffc-7ffd rw-p 0 00:00 0 [stack]\n");
        for (path, runtime) in [
            ("/usr/lib/jvm/java-17/lib/server/libjvm.so", Some(Runtime::Jvm)),
            ("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0 (deleted)", Some(Runtime::Python)),
            ("/opt/libjvm.so/notes.txt", None),
            ("/opt/my-libjvm.so", None),
            ("", None),
        ] {
            assert_eq!(of_maps(maps(path).as_bytes()), runtime, "{path}");
        }
        assert_eq!(of_maps(b""), None);
        assert_eq!(of_maps(b"\xff\xfe/libjvm.so"), Some(Runtime::Jvm));
    }

    #[test]
    fn what_is_no_program_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let own = std::fs::read("/proc/self/exe").unwrap();
        // Cut off, or with a head that promises more than there is.
        for length in [0, 1, 63, 64, 4096, own.len() / 2] {
            std::fs::write(&path, &own[..length]).unwrap();
            assert_eq!(of_program(&File::open(&path).unwrap()), None, "{length} bytes");
        }
        assert_eq!(of_program(&File::open("/proc/self/exe").unwrap()), None, "this program has none");
    }
}
