//! A disruption in one sentence: what happened, for whom, how long until all was as before.

use crate::facts::{duration, percent};
use model::recovery::{Failed, Memory, Recovery};
use model::units::{show_bytes, show_duration_ns, show_grouped};

/// Memory given back is told from this much on, bytes: allocators move less about.
const FREED_MIN: u64 = 1 << 20;
/// And from this share of what there was.
const FREED_SHARE: f64 = 0.05;

/// The sentence, without its end.
pub fn sentence(recovery: &Recovery, unit: &str) -> String {
    let head = format!("{} at {}", recovery.name, moment(recovery.at_s));
    if let (Some(why), true) = (&recovery.refused, recovery.until_s <= recovery.at_s && !recovery.has_done_anything()) {
        return format!("{head} was not done: {why}");
    }
    if !recovery.has_done_anything() {
        return format!("{head}: the load shows nothing of it");
    }
    let mut parts = Vec::new();
    parts.extend(interrupted(recovery));
    if recovery.failed.requests > 0 {
        parts.push(failed(&recovery.failed, unit));
    }
    parts.push(until_as_before(recovery));
    if let Some(memory) = recovery.memory.filter(|memory| is_state_lost(recovery, memory)) {
        parts.push(format!("{} of memory was freed by it, and what that held may be lost", bytes(memory.freed())));
    }
    format!("{head}: {}", parts.join("; "))
}

/// A moment of the run for people: to the millisecond, as single requests are known.
pub fn moment(s: f64) -> String {
    format!("{s:.3} s")
}

/// How long nothing succeeded; `None`: it always did.
pub fn interrupted(recovery: &Recovery) -> Option<String> {
    let from_s = recovery.last_success_s?;
    let (Some(outage_s), Some(to_s)) = (recovery.outage_s, recovery.first_success_s) else {
        let from = moment(from_s);
        return Some(match recovery.first_success_s.filter(|_| recovery.outages > 1) {
            Some(to_s) => format!(
                "nothing succeeded in {} spans, the first from {from} to {}, the last to the end of the run",
                recovery.outages,
                moment(to_s)
            ),
            None => format!("nothing succeeded from {from} to the end of the run"),
        });
    };
    let long = show_duration_ns(outage_s * 1e9);
    Some(match recovery.outages {
        0 | 1 => format!("nothing succeeded for {long} (from {} to {})", moment(from_s), moment(to_s)),
        n => {
            format!("nothing succeeded for {long} in {n} spans, the first from {} to {}", moment(from_s), moment(to_s))
        }
    })
}

/// For whom.
pub fn failed(failed: &Failed, unit: &str) -> String {
    let classes = [(failed.refused, "refused"), (failed.aborted, "aborted"), (failed.unanswered, "unanswered")];
    let known: u64 = classes.iter().map(|(count, _)| count).sum();
    let others = failed.requests.saturating_sub(known);
    let named: Vec<String> = classes
        .into_iter()
        .chain([(others, "otherwise")])
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{} {word}", show_grouped(count)))
        .collect();
    let s = if failed.requests == 1 { "" } else { "s" };
    let all = format!("{} {unit}{s} failed", show_grouped(failed.requests));
    // Where none is of a class, as with replies that say failure, there is nothing to tell apart.
    if known == 0 { all } else { format!("{all} ({})", named.join(", ")) }
}

/// How long until as before.
pub fn until_as_before(recovery: &Recovery) -> String {
    let exact = show_duration_ns(recovery.resolution.intervals_s * 1e9);
    match recovery.recovered_s {
        Some(s) => {
            let after = duration((s - recovery.at_s).max(0.0) * 1e9);
            format!("all was as before after {after} (known to {exact})")
        }
        None => {
            let of = |figure: Option<model::recovery::Return>, name: &str| {
                figure.filter(|figure| figure.has_left && figure.back_s.is_none()).map(|_| name.to_owned())
            };
            let missing: Vec<String> = [of(recovery.throughput, "throughput"), of(recovery.response_p99_us, "p99")]
                .into_iter()
                .flatten()
                .collect();
            match missing.is_empty() {
                true => format!("whether all was as before by {:.1} s is not known", recovery.until_s),
                false => format!("{} not as before until {:.1} s", missing.join(" and "), recovery.until_s),
            }
        }
    }
}

/// Whether so much memory was given back that what it held may be lost.
pub fn is_state_lost(recovery: &Recovery, memory: &Memory) -> bool {
    let freed = memory.freed();
    recovery.outages > 0 && freed >= FREED_MIN && freed as f64 >= FREED_SHARE * memory.before as f64
}

/// Bytes for people.
pub fn bytes(bytes: u64) -> String {
    show_bytes(bytes as f64)
}

/// A share for people.
pub fn share(share: f64) -> String {
    percent(share)
}
