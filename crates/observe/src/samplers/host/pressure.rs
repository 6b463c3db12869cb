//! Time in which tasks waited for CPU, memory or I/O, from `/proc/pressure/{cpu,memory,io}`: "some" while at least one
//! waited, "full" while all did (Documentation/accounting/psi.rst).
//! The whole machine's; the kernel's total is taken, not its averages, so that a rate is over our own interval.
//! Cost: three reads a second. Needs no privilege, but a kernel with CONFIG_PSI that was not booted with psi=0.

use crate::metric::{Metric, counter, fill};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, number};
use model::Snapshot;

const CPU: &[Metric] = &[
    counter("pressure_cpu_some_ns", "ns", "some", "at least one task waited for a CPU"),
    counter("pressure_cpu_full_ns", "ns", "full", "all did; of the whole machine it is zero by definition"),
];
const MEMORY: &[Metric] = &[
    counter("pressure_memory_some_ns", "ns", "some", "at least one task waited for memory"),
    counter("pressure_memory_full_ns", "ns", "full", "all did"),
];
const IO: &[Metric] = &[
    counter("pressure_io_some_ns", "ns", "some", "at least one task waited for I/O"),
    counter("pressure_io_full_ns", "ns", "full", "all did"),
];
const METRICS: &[Metric] = &[CPU[0], CPU[1], MEMORY[0], MEMORY[1], IO[0], IO[1]];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/pressure",
    about: "time tasks waited for CPU, memory, I/O (/proc/pressure)",
    needs: "CONFIG_PSI, and no psi=0 at boot",
    cost: "3 reads a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Pressure::new()),
};

#[derive(Debug)]
struct Pressure {
    files: [(HotFile, &'static [Metric]); 3],
}

impl Pressure {
    fn new() -> Self {
        let file = |path, table| (HotFile::new(path), table);
        Pressure {
            files: [
                file("/proc/pressure/cpu", CPU),
                file("/proc/pressure/memory", MEMORY),
                file("/proc/pressure/io", IO),
            ],
        }
    }
}

impl Sampler for Pressure {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        for (file, table) in &mut self.files {
            let path = file.path();
            let text = buffers.read_hot(file).map_err(|error| match error {
                // Not there: built without. EOPNOTSUPP: built with it and booted without.
                SampleError::Unreadable { .. } => SampleError::nothing(format!(
                    "this kernel keeps no pressure stall information: it needs CONFIG_PSI, and psi=1 at boot ({error})"
                )),
                error => error,
            })?;
            if fill(table, &mut snapshot.host, |line| total_ns(text, line)) == 0 {
                return Err(SampleError::lacks(path, "'total='"));
            }
        }
        Ok(())
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, microseconds.
fn total_ns(text: &[u8], name: &str) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(name.as_bytes()))?;
    let at = line.windows(6).position(|word| word == b"total=")?;
    Some(number(&line[at + 6..])?.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(files: &[(&str, &str)]) -> (Result<(), SampleError>, Snapshot) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/pressure")).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join("proc/pressure").join(name), text).unwrap();
        }
        let mut snapshot = Snapshot::default();
        let outcome = Pressure::new().sample(&mut Buffers::below(folder.path()), &mut snapshot);
        (outcome, snapshot)
    }

    #[test]
    fn totals_are_nanoseconds() {
        let text = "some avg10=0.12 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n";
        // Before 5.13 the machine's cpu file has no full.
        let (outcome, snapshot) =
            sample(&[("cpu", &text[..text.find("full").unwrap()]), ("memory", text), ("io", text)]);
        outcome.unwrap();
        assert_eq!(snapshot.host.of("pressure_cpu_some_ns"), Some(5000));
        assert_eq!(snapshot.host.of("pressure_cpu_full_ns"), None);
        assert_eq!(snapshot.host.of("pressure_io_full_ns"), Some(2000));
    }

    #[test]
    fn a_kernel_without_it_is_disabled_and_garbage_a_failure() {
        let (outcome, snapshot) = sample(&[]);
        let error = outcome.unwrap_err();
        assert!(error.is_nothing() && error.to_string().contains("CONFIG_PSI"), "{error}");
        assert!(snapshot.host.is_empty());
        let (outcome, _) = sample(&[("cpu", "some nothing\n"), ("memory", ""), ("io", "")]);
        assert!(!outcome.unwrap_err().is_nothing());
    }
}
