//! The rate, a fifth less and a fifth more: is there a queue, and is the server asked for more than it gives?
//!
//! Dose: requests a second by the clock, as a share of the base rate. Response: the median response time. Where it does not
//! depend on the rate there is no queue; where what comes stays behind what was asked, the server is at its limit.
//! A median that rises is a queue: below the limit that is what any server with one worker has, and no cause by itself.

use super::steps::{Step, Steps, us};
use super::{Decision, Experiment};

/// What came of what was asked; less is too much asked.
const REACHED: f64 = 0.9;
/// With too much asked the median grows by so many times over two fifths more of it.
const GROWS: f64 = 3.0;
/// Less than this is a wake-up, microseconds.
const RISE_US: f64 = 200.0;
/// A rise of the median by less than this share of it is none.
const RISE: f64 = 0.1;

pub(super) fn judge(steps: &Steps<'_>) -> Decision {
    let of = Experiment::Rate;
    let median = |step: &Step| step.response_p50_us;
    let responses = steps.responses("response_p50_us", "us", median);
    let doses = steps.doses();
    let (Some(least), Some(most)) = (doses.first().copied(), doses.last().copied()) else {
        return Decision::open(of, "no rate was put on", responses);
    };
    let reached = |step: &Step| Some(step.throughput_per_s / step.asked_per_s.filter(|asked| *asked > 0.0)?);
    let asked = |dose: f64| steps.mean(dose, |step| step.asked_per_s).map_or(0.0, |asked| asked.value);
    // A generator that was kept from running asks for less by itself.
    let behind = |step: &Step| !step.is_disturbed && reached(step).is_some_and(|share| share < REACHED);
    // Behind at once, or with a line that grows: a step that was cut short by something else has neither.
    let p50 = |dose: f64| steps.mean(dose, median).map_or(0.0, |p50| p50.value);
    let grows = steps.always(least, behind) || p50(most) >= GROWS * p50(least);
    if most > least && steps.always(most, behind) && grows {
        let came = steps.mean(most, |step| Some(step.throughput_per_s)).map_or(0.0, |came| came.value);
        let text = format!(
            "of {:.0} requests a second {came:.0} are answered in time: it is asked for more than it gives",
            asked(most)
        );
        return Decision::supported(of, text, responses)
            .points_to(&["at-its-limit", "pool-exhausted"])
            .remedy("Ask for less, or see by the experiment on clients what limits it", "");
    }
    let (Some(low), Some(rise)) = (steps.mean(least, median), steps.difference(least, most, median)) else {
        return Decision::open(of, "no rate was answered in two rounds", responses);
    };
    let bound = RISE_US.max(RISE * low.value);
    let (from, to) = (asked(least), asked(most));
    if rise.is_above(bound) {
        let text = format!(
            "the median rises by {} from {from:.0} to {to:.0} requests a second: there is a queue, as any server has that is near its limit",
            us(rise.value)
        );
        return Decision::refuted(of, text, responses);
    }
    if rise.is_below(bound) {
        let text = format!("latency does not depend on the rate from {from:.0} to {to:.0} requests a second: no queue");
        return Decision::refuted(of, text, responses);
    }
    let text = format!(
        "whether latency depends on the rate from {from:.0} to {to:.0} requests a second is not decided: the rounds differ by more than {}",
        us(bound)
    );
    Decision::open(of, text, responses)
}
