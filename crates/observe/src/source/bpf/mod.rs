//! BPF programs: loading, attaching, and reading their maps; the one place that knows libbpf.
//!
//! Not here: which programs there are and what their figures mean (`samplers/bpf`). Every figure is a number of 64 bits
//! in the machine's own order, so maps are read as words.

pub(crate) mod clock_events;
pub(crate) mod names;
pub(crate) mod stacks;
pub(crate) mod symbols;

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, ProgramType, RingBufferBuilder};
use model::bpf::Log2;
use std::os::fd::AsFd;
use std::path::Path;

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// As in bpf/plimsoll.bpf.h.
const TARGETS_MAX: u32 = 1024;
/// See [`TARGETS_MAX`].
const PORTS_MAX: u32 = 16;

/// Why probes do not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BpfError {
    /// The kernel does not describe its types.
    #[error("{BTF} is not there: probes need a kernel built with CONFIG_DEBUG_INFO_BTF, and /sys mounted")]
    NoBtf,
    /// For root, or capabilities.
    #[error("the kernel does not let this process use bpf(2): run as root, or give plimsoll CAP_BPF and CAP_PERFMON")]
    NotPermitted,
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
        BpfError::Refused { what: what.into(), reason: format!("{error:#}") }
    }
}

/// The maps that all programs look into: whom they are to watch.
#[derive(Debug)]
pub(crate) struct Scope {
    targets: MapHandle,
    ports: MapHandle,
}

impl Scope {
    /// Empty: nothing is watched.
    pub(crate) fn new() -> Result<Self, BpfError> {
        if !Path::new(BTF).exists() {
            return Err(BpfError::NoBtf);
        }
        // What libbpf has to say comes back in errors; on stderr it would stand in the middle of a report.
        libbpf_rs::set_print(None);
        let map = |name, entries| {
            let options = bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..Default::default() };
            MapHandle::create(MapType::Hash, Some(name), 4, 1, entries, &options).map_err(|error| match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => BpfError::NotPermitted,
                _ => BpfError::of(format!("the map '{name}' cannot be made"), &error),
            })
        };
        Ok(Scope { targets: map("targets", TARGETS_MAX)?, ports: map("ports", PORTS_MAX)? })
    }

    /// Watches a process. False where there are too many.
    pub(crate) fn add_target(&self, pid: u32) -> bool {
        self.targets.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY).is_ok()
    }

    /// Watches a port; 0: any.
    pub(crate) fn add_port(&self, port: u16) -> bool {
        self.ports.update(&u32::from(port).to_ne_bytes(), &[1], MapFlags::ANY).is_ok()
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
}

impl Programs {
    /// Loads an object. `sizes`: maps that are to have another number of entries.
    pub(crate) fn load(bytes: &[u8], scope: &Scope, sizes: &[(&str, u32)]) -> Result<Self, BpfError> {
        // A copy is aligned as libelf needs it; bytes in a program's text need not be.
        let aligned: Vec<u8> = bytes.to_vec();
        let mut object = ObjectBuilder::default()
            .open_memory(&aligned)
            .map_err(|error| BpfError::of("the program cannot be read", &error))?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let shared = match &*name {
                "targets" => Some(&scope.targets),
                "ports" => Some(&scope.ports),
                _ => None,
            };
            let size = sizes.iter().find(|(of, _)| *of == name).map(|(_, size)| *size);
            let outcome = match (shared, size) {
                (Some(shared), _) => map.reuse_fd(shared.as_fd()),
                (None, Some(size)) => map.set_max_entries(size),
                (None, None) => Ok(()),
            };
            outcome.map_err(|error| BpfError::of(format!("the map '{name}' cannot be set up"), &error))?;
        }
        let object = object.load().map_err(|error| BpfError::of("the kernel does not take the program", &error))?;
        Ok(Programs { object, links: Vec::new() })
    }

    /// Lets all of them run. What is attached already stays so.
    pub(crate) fn attach(&mut self) -> Result<(), BpfError> {
        if !self.links.is_empty() {
            return Ok(());
        }
        for program in self.object.progs_mut() {
            let links = if program.prog_type() == ProgramType::PerfEvent {
                clock_events::attach(&program)
            } else {
                program.attach().map(|link| vec![link]).map_err(|error| {
                    BpfError::of(format!("'{}' cannot be attached", program.section().to_string_lossy()), &error)
                })
            };
            match links {
                Ok(links) => self.links.extend(links),
                Err(error) => {
                    self.links.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Stops them; their maps stay.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// The map `counts`, all CPUs together.
    pub(crate) fn counts(&self) -> Result<Vec<u64>, BpfError> {
        let map = self.map("counts")?;
        (0..map.max_entries()).map(|i| Ok(words_of_all_cpus(&map, i)?.first().copied().unwrap_or(0))).collect()
    }

    /// One of the map `histograms`, all CPUs together.
    pub(crate) fn histogram(&self, which: u32) -> Result<Log2, BpfError> {
        let mut words = words_of_all_cpus(&self.map("histograms")?, which)?;
        if words.is_empty() {
            return Ok(Log2::default());
        }
        let sum = words.remove(0);
        words.truncate(words.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1));
        Ok(Log2 { sum, buckets: words })
    }

    /// Every entry of a per-CPU array that is not all zeros, all CPUs together.
    pub(crate) fn array(&self, name: &str) -> Result<Vec<(u32, Vec<u64>)>, BpfError> {
        let map = self.map(name)?;
        let mut entries = Vec::new();
        for i in 0..map.max_entries() {
            let words = words_of_all_cpus(&map, i)?;
            if words.iter().any(|word| *word != 0) {
                entries.push((i, words));
            }
        }
        Ok(entries)
    }

    /// The addresses of a stack, innermost first; empty where it was not kept.
    pub(crate) fn stack(&self, id: i32) -> Vec<u64> {
        let Ok(id) = u32::try_from(id) else { return Vec::new() };
        let Ok(map) = self.map("stacks") else { return Vec::new() };
        let frames = map.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
        words(&frames).take_while(|address| *address != 0).collect()
    }

    /// Takes every record of a ring, oldest first.
    pub(crate) fn take_records(&self, name: &str, mut take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        let map = self.map(name)?;
        let mut ring = RingBufferBuilder::new();
        let taken = |record: &[u8]| {
            take(record);
            0
        };
        ring.add(&map, taken).map_err(|error| unreadable(&map, &error))?;
        ring.build().and_then(|ring| ring.consume()).map_err(|error| unreadable(&map, &error))
    }

    fn map(&self, name: &str) -> Result<MapHandle, BpfError> {
        let map = self.object.maps().find(|map| map.name() == name).ok_or_else(|| BpfError::Refused {
            what: format!("the map '{name}'"),
            reason: "is not in this program".to_owned(),
        })?;
        MapHandle::try_from(&map).map_err(|error| BpfError::of(format!("the map '{name}' cannot be opened"), &error))
    }
}

fn unreadable(map: &MapHandle, error: &libbpf_rs::Error) -> BpfError {
    BpfError::of(format!("the map '{}' cannot be read", map.name().to_string_lossy()), error)
}

fn words_of_all_cpus(map: &MapHandle, index: u32) -> Result<Vec<u64>, BpfError> {
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
