//! Paths or sizes: what a byte costs, and paths that are slow for what they send (`slow-path`).
//!
//! Dose: bytes of the reply (of a path, by what came of it). Response: the median response time. What rises with the bytes is
//! the way there (its slope is a bandwidth); a path that takes five times as long as one that sends as much or more is slow by
//! itself. Source of the five: the catalogue.

use super::steps::{Step, Steps, us};
use super::{Decision, Experiment};
use model::units::show_bytes;

/// The catalogue's.
const SLOW_TIMES: f64 = 5.0;
/// Less than this is a wake-up, microseconds.
const SLOW_US: f64 = 1_000.0;
/// Two doses further apart than this have a slope, bytes.
const APART_BYTES: f64 = 65_536.0;

pub(super) fn judge(steps: &Steps<'_>) -> Decision {
    let of = Experiment::Size;
    let median = |step: &Step| step.response_p50_us;
    let responses = steps.responses("response_p50_us", "us", median);
    struct Dose {
        label: String,
        bytes: f64,
        us: f64,
    }
    let one = |dose: f64| {
        let label = steps.at(dose).first()?.label.clone();
        Some(Dose {
            label,
            bytes: steps.mean(dose, |step| step.reply_bytes)?.value,
            us: steps.mean(dose, median)?.value,
        })
    };
    let mut doses: Vec<Dose> = steps.doses().into_iter().filter_map(one).collect();
    if doses.len() < 2 {
        return Decision::open(of, "fewer than two paths or sizes were answered", responses);
    }
    doses.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let is_slow = |slow: &Dose, quick: &Dose| {
        slow.us >= SLOW_TIMES * quick.us && slow.us - quick.us >= SLOW_US && slow.bytes <= 2.0 * quick.bytes + 1024.0
    };
    let worst = doses
        .iter()
        .flat_map(|slow| doses.iter().map(move |quick| (slow, quick)))
        .filter(|(slow, quick)| is_slow(slow, quick))
        .max_by(|a, b| (a.0.us / a.1.us).total_cmp(&(b.0.us / b.1.us)));
    if let Some((slow, quick)) = worst {
        let text = format!(
            "{} takes {} for {}, {} takes {} for {}: {:.0} times as long, and not for its bytes",
            slow.label,
            us(slow.us),
            show_bytes(slow.bytes),
            quick.label,
            us(quick.us),
            show_bytes(quick.bytes),
            slow.us / quick.us
        );
        return Decision::supported(of, text, responses).finding("slow-path").remedy(
            "Look at what that path does that the other does not",
            "perf record -g -p PID while only that path is asked for",
        );
    }
    let (Some(small), Some(large)) = (doses.first(), doses.last()) else {
        return Decision::open(of, "fewer than two paths or sizes were answered", responses);
    };
    let (bytes, more_us) = (large.bytes - small.bytes, large.us - small.us);
    if bytes >= APART_BYTES && more_us > SLOW_US {
        let per_s = bytes / more_us * 1e6;
        let text = format!(
            "latency grows with the size: {} for {}, {} for {}; beyond its constant part a connection carries {}/s",
            us(small.us),
            show_bytes(small.bytes),
            us(large.us),
            show_bytes(large.bytes),
            show_bytes(per_s)
        );
        return Decision::refuted(of, text, responses);
    }
    let text =
        format!("latency does not depend on the size from {} to {}", show_bytes(small.bytes), show_bytes(large.bytes));
    Decision::refuted(of, text, responses)
}
