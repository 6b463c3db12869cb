//! Threads of each process: name, state, core, CPU time (`/proc/<pid>/task/<tid>/stat`), and time run and time waited
//! for a CPU in nanoseconds (`schedstat`). At most [`THREADS_MAX`] a process, the lowest ids; the total is kept.
//! Cost: two files opened a thread a tick. Needs no privilege, except where /proc is mounted with hidepid.

use crate::limits::THREADS_MAX;
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{EACH, Entry, Sampler, first_failure};
use crate::source::proc::{Buffers, SampleError, number, words};
use crate::source::stat::{Stat, ticks_ns};
use model::Snapshot;
use model::snapshot::ThreadSample;

const METRICS: &[Metric] = &[
    gauge("threads_total", "threads", "task", "threads there are").otel("process.thread.count"),
    gauge("threads[].state", "letter", "task/<tid>/stat, 3rd field", "runs, sleeps, waits for a disk, has ended …"),
    gauge("threads[].core", "core", "task/<tid>/stat, 39th field", "where it last ran"),
    counter("threads[].run_ns", "ns", "task/<tid>/schedstat, 1st field", "time on a CPU"),
    counter("threads[].wait_ns", "ns", "task/<tid>/schedstat, 2nd field", "time runnable and without a CPU"),
    counter("threads[].user_ns", "ns", "task/<tid>/stat, 14th field", "user CPU time").otel("process.cpu.time"),
    counter("threads[].system_ns", "ns", "task/<tid>/stat, 15th field", "system CPU time").otel("process.cpu.time"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/threads",
    about: "threads of the target and of the generator: CPU time, time waited for a CPU (/proc/<pid>/task)",
    needs: "nothing; with hidepid, to be root or in its group",
    cost: "2 files a thread a tick",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(Threads::default()),
};

#[derive(Debug, Default)]
struct Threads {
    ids: Vec<u32>,
    /// Threads beyond the bound, at the last reading.
    left_out: usize,
}

impl Sampler for Threads {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let mut outcome = Ok(());
        self.left_out = 0;
        for process in &mut snapshot.processes {
            if let Err(error) = self.list(process.pid) {
                outcome = outcome.and(Err(error));
                continue;
            }
            process.threads_total = process.threads_total.max(u32::try_from(self.ids.len()).unwrap_or(u32::MAX));
            self.left_out += self.ids.len().saturating_sub(THREADS_MAX);
            for tid in self.ids.iter().take(THREADS_MAX) {
                match thread(buffers, process.pid, *tid) {
                    Ok(thread) => process.threads.push(thread),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
        // A thread that ended while it was read is no failure.
        first_failure(outcome)
    }

    fn leaves_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} threads beyond {THREADS_MAX} of a process", self.left_out))
    }
}

impl Threads {
    /// The ids of the process's threads, ascending.
    fn list(&mut self, pid: u32) -> Result<(), SampleError> {
        let path = format!("/proc/{pid}/task");
        self.ids.clear();
        for entry in std::fs::read_dir(&path).map_err(|source| SampleError::of(&path, source))? {
            let entry = entry.map_err(|source| SampleError::of(&path, source))?;
            self.ids.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        self.ids.sort_unstable();
        Ok(())
    }
}

fn thread(buffers: &mut Buffers, pid: u32, tid: u32) -> Result<ThreadSample, SampleError> {
    let stat = Stat::parse(buffers.read_single(format_args!("/proc/{pid}/task/{tid}/stat"))?)
        .ok_or_else(|| SampleError::lacks(format!("/proc/{pid}/task/{tid}/stat"), "the fields up to the start time"))?;
    let times = match buffers.read_single(format_args!("/proc/{pid}/task/{tid}/schedstat")) {
        Ok(text) => schedstat(text),
        // The process lives (its `stat` was read): without the file the kernel was built without it.
        Err(SampleError::Gone { .. } | SampleError::Unreadable { .. }) => None,
        Err(error) => return Err(error),
    };
    let (run_ns, wait_ns) = times.filter(|t| is_kept(*t, &stat)).unzip();
    Ok(ThreadSample {
        tid,
        name: stat.name,
        state: stat.state,
        core: stat.core,
        run_ns,
        wait_ns,
        user_ns: Some(ticks_ns(stat.user_ticks)),
        system_ns: Some(ticks_ns(stat.system_ticks)),
        switches: None,
        stands: None,
    })
}

/// Time run and time waited for a CPU, nanoseconds (Documentation/scheduler/sched-stats.rst).
fn schedstat(text: &[u8]) -> Option<(u64, u64)> {
    let mut fields = words(text).map(number);
    Some((fields.next()??, fields.next()??))
}

/// A kernel that does not keep these figures shows zeros, which must not be taken for a thread that never ran.
fn is_kept(times: (u64, u64), stat: &Stat) -> bool {
    times != (0, 0) || stat.user_ticks.saturating_add(stat.system_ticks) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_of_a_kernel_that_does_not_keep_it_is_not_zero() {
        assert_eq!(schedstat(b"83985 120308 2\n"), Some((83985, 120308)));
        assert_eq!(schedstat(b""), None);
        assert_eq!(schedstat(b"1"), None);
        assert_eq!(schedstat(b"1 x 2"), None);
        let mut stat = Stat::parse(&std::fs::read("/proc/self/stat").unwrap()).unwrap();
        stat.user_ticks = 5;
        assert!(!is_kept((0, 0), &stat));
        assert!(is_kept((1, 0), &stat));
        (stat.user_ticks, stat.system_ticks) = (0, 0);
        assert!(is_kept((0, 0), &stat), "a thread that was only just born");
    }
}
