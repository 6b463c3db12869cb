//! `disk-bound`: the target's threads wait for a disk.
//!
//! Evidence: (process) working threads stood in state D in a fifth of the readings or more; (kernel) a disk was busy, or tasks
//! waited for I/O (PSI), half of that and more. Refuted below, and where at least half of it is in fsync(2) and its like, or at
//! the file of a log: that is `log-bound`. Source: proc_pid_stat(5), iostats and psi of the kernel's documentation.

use super::log_bound::AT_LOG;
use crate::evidence::{Kernel, Process};
use crate::facts::{Facts, SYNCS_TO_DISK, Stand, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::DISK_STANDS;
use model::finding::{LossKind, Severity};

const READINGS_MIN: usize = 5;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "disk-bound",
    needs: Needs::Nothing,
    reads: &[&["process/stands"], &["process/threads"], &["host/pressure", "host/disks"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let stands = facts.stands(&facts.working());
    if stands.readings.len() < READINGS_MIN {
        return Verdict::not_observable(
            "waits for a disk",
            "fewer than five readings of where the target's threads stand",
        );
    }
    let on_disk = stands.share(Stand::Disk).unwrap_or(0.0);
    let text = format!("its working threads waited for a disk {} of the time", percent(on_disk));
    let process = facts.piece::<Process>(text, "target.threads_disk", on_disk, "ratio").from(DISK_STANDS.value);
    if on_disk < DISK_STANDS.value {
        return Verdict::refuted("hardly a thread of the target waited for a disk").because(process.into());
    }
    if facts.share_in_calls(&SYNCS_TO_DISK).is_some_and(|share| share >= 0.5 * on_disk) {
        return Verdict::refuted("its threads wait until what they wrote is on the disk: see log-bound")
            .because(process.into());
    }
    if facts.share_standing_at(&facts.working(), AT_LOG).is_some_and(|share| share >= 0.5 * on_disk) {
        return Verdict::refuted("its threads wait at the file of a log: see log-bound").because(process.into());
    }
    let Some(pressure_ns) = facts.grown(Subject::Machine, "pressure_io_some_ns") else {
        return Verdict::not_observable("pressure of I/O", "the kernel does not tell how long tasks waited for I/O")
            .because(process.into());
    };
    let pressure = pressure_ns / 1e9 / facts.measured_s().max(1e-9);
    let text = format!("tasks of the machine waited for I/O {} of the time (PSI)", percent(pressure));
    let kernel = facts.piece::<Kernel>(text, "pressure_io_some_ns", pressure, "ratio").from(DISK_STANDS.value / 2.0);
    if pressure < DISK_STANDS.value / 2.0 {
        return Verdict::refuted("threads stood in D, and the kernel counts no wait for I/O")
            .because(process.into())
            .because(kernel.into());
    }
    Verdict::proved(Severity::Warning, "the target's threads wait for a disk", process, kernel)
        .explains(LossKind::Waiting, on_disk, on_disk * 0.5, 1.0)
        .remedy("Read and write less in a request (cache, batch, write behind), or give it a faster disk")
        .check("iostat -x 1; pidstat -d 1; cat /proc/pressure/io")
        .confidence(0.75)
}

/// The share of the working threads' time that they waited for a disk: of their readings, or in the probes' windows, whichever is
/// more; `None` where neither was seen often enough.
pub(super) fn waited_for_disk(facts: &Facts<'_>, readings_min: usize) -> Option<f64> {
    let working = facts.working();
    let stands = facts.stands(&working);
    let of_readings = stands.share(Stand::Disk).filter(|_| stands.readings.len() >= readings_min);
    let of_windows = facts.share_in_state(&working, "disk");
    of_readings.into_iter().chain(of_windows).reduce(f64::max)
}

/// Of what the working threads do, how much is waiting for a disk; `None` where none of it was seen, or too few readings were made.
pub(super) fn of_what_is_done(facts: &Facts<'_>) -> Option<f64> {
    waited_for_disk(facts, READINGS_MIN).filter(|waited| *waited > 0.0).map(|waited| facts.of_what_is_done(waited))
}
