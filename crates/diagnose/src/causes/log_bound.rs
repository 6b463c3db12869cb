//! `log-bound`: requests wait until a line of a log is written.
//!
//! Evidence: (kernel) fsync(2) and its like, or writes to files and pipes, took a fifth of the working threads' time or more in
//! the probes' windows (writes that waited, and at no socket), or fsync took a seventh of each reply's time in the target and no less than the work for it (or less of
//! it, where somebody was in it all along and new requests lay unread for as long), or, where none lay in the time, (process)
//! threads stood in calls at the file of a log, or in a pipe's write, or always as many did while others stood in futex for their
//! turn; and (client) requests took longer than the work in them. Refuted below. PSI is no evidence: measured, 1.86 ms a line, of which
//! it saw 8 of 372 ms. A device that is slow for everybody is `disk-bound`.

use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Facts, Places, SYNCS_TO_DISK, Stand, duration, percent};
use crate::ledger::{in_target_at_a_time, in_target_ns};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{LOG_SHARE, SYNCED_SHARE};
use model::finding::{LossKind, Severity};

const WRITES: [&str; 4] = ["write", "writev", "pwrite64", "pwritev"];
/// Writes of a log take as long as a thread can notice; those of a socket take microseconds.
const WRITE_NS_MIN: f64 = 100e3;
/// What a log is written to, of the kinds of descriptor that the probes know; of calls in these so much is waiting, where it is for a log.
const AT_FILES: [&str; 6] = ["file", "log", "pipe", "device", "none", "unknown"];
const WAITED_MIN: f64 = 0.5;
const STOOD_MIN: f64 = 0.2;
/// In most of the readings, whatever windows of the probes saw.
const STOOD_MOST: f64 = 0.5;
/// A file that is written at its end, as the observer calls it.
pub(super) const AT_LOG: &str = "log";
const READINGS_MIN: usize = 3;
/// Of those that wait for a disk so many stand at the log, where it is that.
const OF_DISK_MIN: f64 = 0.5;
/// Fewer calls for each reply are of a thread of its own, or of one that syncs for many.
const SYNCS_A_REPLY: f64 = 0.5;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "log-bound",
    needs: Needs::Connections,
    reads: &[&["process/threads"], &["bpf/syscalls", "process/stands"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some((in_ns, cost_ns)) = in_target_ns(facts).zip(facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "waits for a log",
            "no request succeeded, or the target's CPU time was not read",
        );
    };
    let stands = facts.stands(&facts.working());
    let in_pipe = stands.share(Stand::PipeWrite).unwrap_or(0.0);
    let on_disk = stands.share(Stand::Disk).unwrap_or(0.0);
    let at_log = facts.share_standing_at(&facts.working(), AT_LOG).unwrap_or(0.0);
    let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
    let client = facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us");
    let is_waiting = in_ns > 1.5 * cost_ns;
    if let (Some(replies), Some(syncs), Some(writes)) =
        (facts.window_replies(), facts.share_in_calls(&SYNCS_TO_DISK), facts.share_in_calls(&WRITES))
    {
        let (sync_count, sync_ns) = facts.calls(&SYNCS_TO_DISK);
        let (write_count, write_ns) = facts.calls(&WRITES);
        let is_slow_write = write_count > 0 && write_ns / write_count as f64 >= WRITE_NS_MIN;
        let (what, share, count, ns) = match syncs >= writes || !is_slow_write {
            true => ("fsync", syncs, sync_count, sync_ns),
            false => ("write", writes, write_count, write_ns),
        };
        let each = if count > 0 { ns / count as f64 } else { 0.0 };
        let text = format!(
            "its threads spent {} of their time in {what}: {:.2} calls a reply, {} each",
            percent(share),
            count as f64 / replies,
            duration(each)
        );
        let kernel = facts.piece::<Kernel>(text, "syscalls.log_share", share, "ratio").from(LOG_SHARE.value);
        // A large reply takes as long to be copied to its socket, and a slow reader keeps who writes to it: where it was seen at what threads
        // waited, half of it at the least must have been something else.
        let waited = facts.share_waiting_at(&facts.working(), &WRITES, &AT_FILES).filter(|_| what == "write");
        let is_waited = waited.is_none_or(|waited| waited >= WAITED_MIN * share);
        let is_seen = share >= LOG_SHARE.value && is_waiting && is_waited;
        // Of a runtime with many threads most wait for work: the share of their time says little of what a reply waits for.
        let synced_ns = sync_ns / replies;
        let is_each = sync_count as f64 >= SYNCS_A_REPLY * replies;
        // The more requests stand in line, the less of its time is each in fsync. What they stand in line for is what others do meanwhile: by how
        // many are in it at a time (Little's law) that is fsync, where they work and want a CPU for less, and new ones lie unread.
        let at_a_time = in_target_at_a_time(facts, synced_ns);
        let wanted_ns = cost_ns + facts.wait_ns_per_request().unwrap_or(0.0);
        let unread_ns = facts.mean_of_split(|passage, _| passage.read_ns.saturating_sub(passage.arrived_ns));
        let is_in_line = unread_ns.is_some_and(|ns| ns >= synced_ns);
        let is_busy = at_a_time >= 1.0 && synced_ns >= wanted_ns && is_in_line;
        let is_more_than_work = synced_ns >= cost_ns && (synced_ns >= SYNCED_SHARE.value * in_ns || is_busy);
        if !is_seen && is_each && is_more_than_work {
            let of_reply = synced_ns / in_ns.max(1.0);
            let calls = format!(
                "{:.2} calls a reply, {} each",
                sync_count as f64 / replies,
                duration(sync_ns / sync_count.max(1) as f64)
            );
            let waits = format!("each reply waits {} in fsync", duration(synced_ns));
            let kernel = if of_reply >= SYNCED_SHARE.value {
                let text = format!("{waits}, {} of its time in the target: {calls}", percent(of_reply));
                facts.piece::<Kernel>(text, "syscalls.synced_share", of_reply, "ratio").from(SYNCED_SHARE.value)
            } else {
                let text = format!("{waits}, {at_a_time:.1} of them are in it at a time: {calls}");
                facts.piece::<Kernel>(text, "syscalls.synced_at_a_time", at_a_time, "replies").from(1.0)
            };
            let title = format!(
                "requests wait until a line is on the disk: fsync takes {} for each reply, and the work {}",
                duration(synced_ns),
                duration(cost_ns)
            );
            // What a request waits behind others is made of what they do: of their syncs as much as those are of all that they do.
            let of_all = synced_ns / (synced_ns + cost_ns).max(1.0);
            let verdict = Verdict::proved(Severity::Error, title, kernel, client);
            return advised(verdict.explains(LossKind::Waiting, of_all.max(of_reply), of_reply, 1.0));
        }
        // Windows are a part of the time, and a call that had not ended with one is missing in it: where threads stood, they say less.
        let is_standing = stands.readings.len() >= READINGS_MIN && in_pipe.max(at_log) >= STOOD_MOST;
        if !is_seen && !is_standing {
            return Verdict::refuted("hardly a thread of the target waited for a log").because(kernel.into());
        }
        if is_seen {
            let title = match what {
                "fsync" => format!(
                    "requests wait until a line is on the disk: fsync takes {} of the threads' time",
                    percent(share)
                ),
                _ => format!(
                    "requests wait for room where the target writes its log: write takes {} of the threads' time",
                    percent(share)
                ),
            };
            let verdict = Verdict::proved(Severity::Error, title, kernel, client);
            return supported(facts, verdict.because_all(facts.waits_at(&facts.working())), share);
        }
    }
    if stands.readings.len() < READINGS_MIN {
        return Verdict::not_observable(
            "waits for a log",
            "fewer than three readings of where the threads stand; --observe windows times their calls",
        );
    }
    // Of a runtime with many threads most wait for their turn, or for work: that there always is one at the log tells, and not what share of them.
    let takes_turns = |places: &Places| places.wait == Stand::Disk && at_log >= OF_DISK_MIN * on_disk;
    let (share, text) = match stands.places().filter(takes_turns) {
        Some(places) => (
            stands.share_of_readings(Stand::Disk),
            format!(
                "{} of its {} working threads waited for a disk at any time, most of them in calls at the file of a log, and others for their turn",
                places.count, stands.threads
            ),
        ),
        None => {
            (at_log, format!("its working threads stood in calls at the file of a log {} of the time", percent(at_log)))
        }
    };
    if share >= STOOD_MIN && is_waiting {
        let process = facts.piece::<Process>(text, "target.threads_at_log", share, "ratio").from(STOOD_MIN);
        let title = format!("requests wait until a line of a log is written, {} of the time", percent(share));
        return supported(facts, Verdict::proved(Severity::Error, title, process, client), share);
    }
    let text = format!("its working threads stood in a write to a full pipe {} of the time", percent(in_pipe));
    let process = facts.piece::<Process>(text, "target.threads_pipe_write", in_pipe, "ratio").from(STOOD_MIN);
    if in_pipe < STOOD_MIN || !is_waiting {
        // What waits for a disk may wait for other files than a log.
        let is_open = on_disk >= STOOD_MIN;
        return match is_open {
            true => Verdict::not_observable(
                "waits for a log",
                "threads waited for a disk, and for which file or call is read by --observe windows",
            ),
            false => Verdict::refuted("hardly a thread of the target waited for a log").because(process.into()),
        };
    }
    let title =
        format!("requests wait for room in the pipe the target writes its log to, {} of the time", percent(in_pipe));
    supported(facts, Verdict::proved(Severity::Error, title, process, client), in_pipe)
}

fn supported(facts: &Facts<'_>, verdict: Verdict<OfTarget>, share: f64) -> Verdict<OfTarget> {
    advised(verdict.explains(LossKind::Waiting, facts.of_what_is_done(share), share * 0.5, 1.0))
}

fn advised(verdict: Verdict<OfTarget>) -> Verdict<OfTarget> {
    verdict
        .remedy("Write the log from a thread of its own with a bounded queue, sync for many lines at once, or log less")
        .check("timeout 5 strace -f -T -e trace=write,fsync,fdatasync -p PID; ls -l /proc/PID/fd")
        .confidence(0.9)
}
