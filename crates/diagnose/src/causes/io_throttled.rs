//! `io-throttled`: a limit of its control group on bytes or calls of a disk holds the target, not the disk.
//!
//! Evidence: (kernel) what the group read or wrote came to four fifths of its limit and more; (process) the working threads
//! waited for a disk in a fifth of the readings and more, or their waits for I/O in the windows took as much. Refuted where the
//! group has a limit and stays below it (`disk-bound`). Not applicable without a limit. The kernel does not count how long
//! such a limit holds somebody; on version 1 what is written to the page cache is not limited, only what a thread waits
//! for. Source: io.max of cgroup-v2, blkio.throttle of cgroup-v1/blkio-controller.

use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Facts, duration, percent};
use crate::history::Subject;
use crate::ledger::in_target_ns;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DISK_STANDS, IO_LIMIT_USED};
use model::finding::{LossKind, Severity};
use model::snapshot::Role;

/// A limit, what it is set against, and how one says it.
const LIMITS: [(&str, &str, &str); 4] = [
    ("cgroup_io_read_limit_bytes_per_s", "cgroup_io_read_bytes", "bytes read"),
    ("cgroup_io_write_limit_bytes_per_s", "cgroup_io_write_bytes", "bytes written"),
    ("cgroup_io_reads_limit_per_s", "cgroup_io_reads", "reads"),
    ("cgroup_io_writes_limit_per_s", "cgroup_io_writes", "writes"),
];
const READINGS_MIN: usize = 3;
/// Requests must take so many times the work in them.
const TIMES_WORK: f64 = 2.0;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "io-throttled",
    needs: Needs::Nothing,
    reads: &[&["process/cgroup_waits"], &["process/stands", "bpf/threads"], &["process/threads"]],
    judge,
};

/// A limit that there is, and how much of it was used.
struct Used {
    what: &'static str,
    metric: &'static str,
    limit_per_s: f64,
    rate_per_s: f64,
}

impl Used {
    fn share(&self) -> f64 {
        self.rate_per_s / self.limit_per_s.max(1.0)
    }
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(most) = used(facts).into_iter().max_by(|a, b| a.share().total_cmp(&b.share())) else {
        return Verdict::not_applicable("no limit on a disk binds the target's control group");
    };
    let text = format!(
        "its control group may have {:.0} {} a second, and had {:.0}: {}",
        most.limit_per_s,
        most.what,
        most.rate_per_s,
        percent(most.share())
    );
    let kernel = facts.piece::<Kernel>(text, most.metric, most.share(), "ratio").from(IO_LIMIT_USED.value);
    if most.share() < IO_LIMIT_USED.value {
        return Verdict::refuted("its control group stayed below its limits on disks").because(kernel.into());
    }
    let Some(waited) = super::disk_bound::waited_for_disk(facts, READINGS_MIN) else {
        return Verdict::not_observable("waits for a disk", "where the target's threads stood was hardly ever seen")
            .because(kernel.into());
    };
    let text = format!("its working threads waited for a disk {} of the time", percent(waited));
    let process = facts.piece::<Process>(text, "target.threads_disk", waited, "ratio").from(DISK_STANDS.value);
    if waited < DISK_STANDS.value {
        return Verdict::refuted("the limit is used, and no working thread waits for it")
            .because(kernel.into())
            .because(process.into());
    }
    let client = in_target_ns(facts).zip(facts.cpu_ns_per_request()).map(|(in_ns, cost_ns)| {
        let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
        (in_ns >= TIMES_WORK * cost_ns, facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us"))
    });
    if let Some((false, client)) = client {
        return Verdict::refuted("requests did not wait in the target").because(kernel.into()).because(client.into());
    }
    let title = format!(
        "a limit on the disk holds the target: its control group may have {:.0} {} a second, and has them",
        most.limit_per_s, most.what
    );
    Verdict::proved(Severity::Error, title, kernel, process)
        .because_all(client.map(|(_, client)| client.into()))
        .explains(LossKind::Waiting, facts.of_what_is_done(waited), waited * 0.5, 1.0)
        .remedy("Raise the limit (io.max of its control group, blkio.throttle.* of version 1, IOWriteBandwidthMax= of a unit), or write less for each request")
        .check("cat /proc/PID/cgroup; grep . /sys/fs/cgroup/GROUP/io.max; iostat -x 1 # or blkio.throttle.*_device; the disk is idle")
        .confidence(0.85)
}

fn used(facts: &Facts<'_>) -> Vec<Used> {
    let measured_s = facts.measured_s().max(1e-9);
    let of = |(limit, grows, what): &(&'static str, &'static str, &'static str)| {
        let processes = facts.history.processes(Role::Target).filter_map(|(id, _)| {
            let limit_per_s = facts.level(Subject::Process(id), limit)?.min as f64;
            let rate_per_s = facts.grown(Subject::Process(id), grows)? / measured_s;
            Some(Used { what, metric: grows, limit_per_s, rate_per_s })
        });
        processes.max_by(|a, b| a.share().total_cmp(&b.share()))
    };
    LIMITS.iter().filter_map(of).collect()
}
