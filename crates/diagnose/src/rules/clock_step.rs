//! `clock-step`: time itself was not to be trusted during the run.
//!
//! Evidence, either of: the wall clock was set (its offset to the monotonic clock changed by more than 100 ms between
//! snapshots); the machine was suspended (CLOCK_BOOTTIME ran ahead of CLOCK_MONOTONIC by more than 10 ms). Durations come
//! from the monotonic clock, which a step of the wall clock leaves alone, so a small step is harmless: 100 ms is far above
//! what NTP steps in a disciplined host, and an NTP slew moves both clocks alike and does not show at all. 10 ms: far above
//! the reading's own error. CPU time that a hypervisor takes stops no clock: that is `cpu-stolen`.
//! Refuted where both were read and stood still; not observable where one was not read.

use crate::facts::{Facts, duration};
use crate::history::{ClockChange, Metric, Subject, Window};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Evidence, Severity};

const STEP_NS_MAX: f64 = 100e6;
const SUSPENDED_NS_MAX: f64 = 10e6;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "clock-step", about: About::Clock, needs: Needs::Nothing, bearing: Bearing::All, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the clock, or the machine, stopped or jumped during the run";
    let readings = [wall(facts), suspended(facts)];
    let mut confidence: f64 = 0.0;
    let (mut bad, mut good, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (reading, threshold, what) in [
        (&readings[0], STEP_NS_MAX / 1e6, "the wall clock's offset (host/clock)"),
        (&readings[1], SUSPENDED_NS_MAX / 1e6, "the time suspended (host/clock)"),
    ] {
        match reading {
            Some(evidence) if evidence.value.unwrap_or(0.0) > threshold => {
                confidence = confidence.max(past(evidence.value.unwrap_or(0.0), threshold));
                bad.push(evidence.clone());
            }
            Some(evidence) => good.push(evidence.clone()),
            None => missing.push(what),
        }
    }
    if !bad.is_empty() {
        return Verdict::supported(Severity::Error, title)
            .because_all(bad)
            .remedy(
                "Run again while the clock is left alone and the machine awake (stop time synchronisation that steps)",
            )
            .check("timedatectl")
            .confidence(confidence);
    }
    if missing.is_empty() {
        return Verdict::refuted("the clocks went on evenly").because_all(good);
    }
    Verdict::not_observable(title, format!("two snapshots did not both read {}", missing.join(", "))).because_all(good)
}

/// The largest change of the wall clock's offset between two neighbouring snapshots, milliseconds.
fn wall(facts: &Facts<'_>) -> Option<Evidence> {
    let ClockChange { by_ns: change_ns, window } = facts.history.clock_change()?;
    let direction = if change_ns < 0.0 { "back" } else { "forward" };
    let window_s = [window.from_ns as f64 / 1e9, window.to_ns as f64 / 1e9];
    let text = if change_ns.abs() > STEP_NS_MAX {
        format!("the wall clock was set {direction} by {} near second {:.0}", duration(change_ns.abs()), window_s[1])
    } else {
        format!("the wall clock's largest step was {}", duration(change_ns.abs()))
    };
    Some(crate::facts::evidence(text, "host.wall_offset_ms", change_ns.abs() / 1e6, "ms", window_s))
}

fn suspended(facts: &Facts<'_>) -> Option<Evidence> {
    let suspended = Metric::new(Subject::Machine, "suspended_ns");
    let grown_ns = facts.history.growth(suspended, Window::EVER).ok()?.value;
    let text = format!("the machine was suspended for {}", duration(grown_ns));
    Some(facts.evidence(text, "host.suspended_ms", grown_ns / 1e6, "ms"))
}
