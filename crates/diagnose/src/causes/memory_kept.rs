//! `memory-kept`: what the target took for the load it does not give back when the load has gone.
//!
//! Evidence: (process) its resident memory grew from before the load by 16 MiB and more, and half of that and more is still there
//! at the end of the time after it; (client) the load had ended, and its connections with it. For information: memory that
//! is kept is used again by the next load, and is missing to others until then. Refuted where most of it came back. Not
//! observable without a time after the load of three seconds and more (`--after`). Looks alike: `memory-leak`, which grows as
//! long as requests come. Source: the catalogue's half; allocators keep less than that of a small server (M_TRIM_THRESHOLD).

use super::leaks::of_target;
use crate::evidence::{Client, Process};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{KEPT_BYTES, KEPT_SHARE};
use model::Snapshot;
use model::finding::Severity;
use model::units::show_bytes;

/// Shorter, and what gives memory back by and by has had no time to.
const AFTER_NS_MIN: i64 = 2_500_000_000;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "memory-kept", needs: Needs::Connections, reads: &[&["process/memory"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let after = &facts.recording.after;
    let (Some(first), Some(last)) = (after.first(), after.last()) else {
        return Verdict::not_observable("memory after the load", "nobody looked after the load: --after 10s does");
    };
    let watched_ns = last.at_ns.saturating_sub(first.at_ns);
    if watched_ns < AFTER_NS_MIN {
        return Verdict::not_observable(
            "memory after the load",
            "less than three seconds were looked at after the load: --after 10s",
        );
    }
    let before = facts.recording.snapshots.iter().find_map(resident);
    let most = facts.recording.snapshots.iter().filter_map(resident).fold(0.0, f64::max);
    let (Some(before), Some(now)) = (before, resident(last)) else {
        return Verdict::not_observable("memory after the load", "the target's memory was not read, or it has ended");
    };
    let grown = most - before;
    let kept = now - before;
    let share = if grown > 0.0 { (kept / grown).max(0.0) } else { 0.0 };
    let text = format!(
        "its resident memory grew from {} by {}, and {} of that was left {} after the load",
        show_bytes(before),
        show_bytes(grown.max(0.0)),
        percent(share),
        duration(watched_ns as f64)
    );
    let process = facts.piece::<Process>(text, "target.rss_kept_share", share, "ratio").from(KEPT_SHARE.value);
    if grown < KEPT_BYTES.value {
        return Verdict::refuted("the target's memory hardly grew").because(process.into());
    }
    if share < KEPT_SHARE.value {
        return Verdict::refuted("the target gave back what it had taken").because(process.into());
    }
    let most_open = facts.recording.totals.connections_max as f64;
    let text = format!("the load had ended, its {most_open:.0} connections and {:.0} requests with it", facts.ended);
    let client = facts.piece::<Client>(text, "connections.max", most_open, "connections");
    let title = format!("{} of the memory taken for the load is never given back", show_bytes(kept));
    Verdict::proved(Severity::Info, title, process, client)
        .remedy("Return what is idle (malloc_trim(3), MALLOC_TRIM_THRESHOLD_, a pool with an upper bound), or count on it: this much is needed for the most connections there ever are")
        .check("grep VmRSS /proc/PID/status # before the load, under it, and a minute after")
        .confidence(0.8)
}

/// Resident memory of all the target's processes, bytes; `None` where none was read.
fn resident(snapshot: &Snapshot) -> Option<f64> {
    of_target(snapshot, |process| process.rss_bytes).map(|bytes| bytes as f64)
}
