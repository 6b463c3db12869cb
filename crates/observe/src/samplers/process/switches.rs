//! How often each thread of the target left a CPU, by its own will or not (`/proc/<pid>/task/<tid>/status`).
//! Voluntary: it waited for something. Involuntary: its time was up or another was more urgent.
//! Of at most 64 threads a process, the lowest ids. Cost: one file opened a thread a second. Needs no privilege, except
//! where /proc is mounted with hidepid.

use crate::metric::{Metric, counter};
use crate::samplers::process::thread_by_thread::ThreadByThread;
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, SampleError, number_after};
use model::Snapshot;
use model::snapshot::Switches;

const METRICS: &[Metric] = &[
    counter("threads[].switches.voluntary", "switches", "voluntary_ctxt_switches", "it waited for something")
        .otel("process.context_switches"),
    counter("threads[].switches.involuntary", "switches", "nonvoluntary_ctxt_switches", "another was to run")
        .otel("process.context_switches"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/switches",
    about: "context switches of the target's threads (/proc/<pid>/task/<tid>/status)",
    needs: "nothing; with hidepid, to be root or in its group",
    cost: "1 file a thread a second, 64 threads",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(ContextSwitches::default()),
};

#[derive(Debug, Default)]
struct ContextSwitches(ThreadByThread);

impl Sampler for ContextSwitches {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        self.0.each(snapshot, |pid, thread| {
            thread.switches = switches(buffers.read_single(format_args!("/proc/{pid}/task/{}/status", thread.tid))?);
            Ok(())
        })
    }

    fn leaves_out(&self) -> Option<String> {
        self.0.leaves_out()
    }
}

fn switches(status: &[u8]) -> Option<Switches> {
    Some(Switches {
        voluntary: number_after(status, b"voluntary_ctxt_switches:")?,
        involuntary: number_after(status, b"nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_or_none() {
        let text = b"Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(switches(text), Some(Switches { voluntary: 150, involuntary: 545 }));
        assert_eq!(switches(b"voluntary_ctxt_switches:\t150\n"), None);
        assert_eq!(switches(b""), None);
    }
}
