//! Bytes and calls of the target's reading and writing (`/proc/<pid>/io`), and how many children it has
//! (`/proc/<pid>/task/<tid>/children`).
//! Calls and the bytes of calls count sockets and pipes too; bytes of the disk do not, and are counted when they reach
//! the page cache (written) or are fetched for it (read).
//! Cost: two files opened for each process a second. Bytes of another user's process need CAP_SYS_PTRACE; children need a
//! kernel with CONFIG_PROC_CHILDREN, and are absent without.

use crate::metric::{Metric, counter, fill, gauge};
use crate::samplers::{Entry, SECOND, Sampler, first_failure, of_target};
use crate::source::proc::{Buffers, SampleError, number_after, words};
use model::Snapshot;

const METRICS: &[Metric] = &[
    counter("io_calls_read", "calls", "syscr:", "system calls that read"),
    counter("io_calls_write", "calls", "syscw:", "system calls that write"),
    counter("io_calls_read_bytes", "bytes", "rchar:", "bytes these read"),
    counter("io_calls_write_bytes", "bytes", "wchar:", "bytes these wrote"),
    counter("io_disk_read_bytes", "bytes", "read_bytes:", "fetched from a disk").otel("process.disk.io"),
    counter("io_disk_write_bytes", "bytes", "write_bytes:", "sent to a disk").otel("process.disk.io"),
    gauge("children", "processes", "children", "children of its first thread"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/io",
    about: "bytes the target read and wrote, its children (/proc/<pid>/io, children)",
    needs: "CAP_SYS_PTRACE for another user's bytes; CONFIG_PROC_CHILDREN, CONFIG_TASK_IO_ACCOUNTING",
    cost: "2 files a process a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Io),
};

#[derive(Debug)]
struct Io;

impl Sampler for Io {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let mut outcome = Ok(());
        for process in of_target(snapshot)? {
            let pid = process.pid;
            // Without the option in the kernel there is no such file, which is no failure.
            if let Ok(children) = buffers.read(format_args!("/proc/{pid}/task/{pid}/children")) {
                process.metrics.set("children", words(children).count() as u64);
            }
            match buffers.read_single(format_args!("/proc/{pid}/io")) {
                Ok(io) => {
                    fill(METRICS, &mut process.metrics, |key| number_after(io, key.as_bytes()));
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        first_failure(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::metrics::Metrics;

    #[test]
    fn each_line_goes_to_its_name() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        let mut metrics = Metrics::default();
        assert_eq!(fill(METRICS, &mut metrics, |key| number_after(text, key.as_bytes())), 6);
        assert_eq!((metrics.of("io_calls_read_bytes"), metrics.of("io_disk_write_bytes")), (Some(1), Some(6)));
        assert_eq!(metrics.of("children"), None);
    }
}
