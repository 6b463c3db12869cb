//! `generator-lag`: requests were taken up late, or replies looked at late, and nobody is seen who kept the generator.
//!
//! Evidence: what lag makes up of the response time (its quantile less that of the same requests from the moment they were
//! taken up), requests that were due and never taken up, turns of the loop that were late, in any pace, or how long a closed
//! pace's workers wanted to run and did not: where that is
//! more than a tenth of the median or the 99th percentile, beyond that figure's own confidence interval, and longer than a
//! wake-up ([`crate::harm`] has the derivations). Waiting for a free connection is `queue`, the target's, and is not in it:
//! a stalled target leaves lag as it was. A target that answers in 500 ms is measured well beside 3 ms of lag, and the
//! figure says how much of it that can be.
//! Refuted where it is less, and where `generator-cpu`, `generator-starved` or `cpu-stolen` says why.

use super::generator_cpu;
use crate::facts::{Facts, duration, percent, quantile_name};
use crate::harm::{Harm, NEVER_TAKEN_UP_MAX, SHARE_MAX, Taken};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Evidence, Severity};
use model::latency::Kind;
use model::units::show_grouped;

/// Of a run that is shorter than this, seconds, much is its own start: reading and loading take 0.1 s of CPU time.
const SHORT_S: f64 = 0.25;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "generator-lag", about: About::Generator, needs: Needs::Connections, bearing: Bearing::Measured, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the generator took requests up late";
    let harm = Harm::of(facts, &facts.whole);
    let evidence = evidence(facts, &harm);
    if !harm.is_by_not_running() {
        if evidence.is_empty() && !facts.is_saturating() {
            return Verdict::not_observable(title, "fewer than 20 requests were due after warm-up");
        }
        let title = if facts.is_saturating() {
            "in a closed pace without think time no request can be late, and the loop's turns were in time"
        } else {
            "requests were taken up in time, or nearly"
        };
        return Verdict::refuted(title).because_all(evidence);
    }
    if generator_cpu::is_too_much_work(&facts.whole) == Some(true) {
        return Verdict::refuted("requests were taken up late, and generator-cpu says why").because_all(evidence);
    }
    if Taken::of(facts, &facts.whole).by(facts).is_some() {
        return Verdict::refuted("requests were taken up late, and another finding says by whose doing")
            .because_all(evidence);
    }
    let worst = harm.lag.map_or(0.0, |lag| lag.share()).max(harm.late.map_or(0.0, |late| late.share()));
    // What is loaded and read at a run's start has a CPU meanwhile, the generator's own threads too: most of a run this short is that.
    let is_short = facts.measured_s() < SHORT_S;
    let title = if harm.kept > SHARE_MAX { "the generator was kept from running" } else { title };
    let (what, remedy) = if is_short {
        (
            format!("in a run of {}", duration(facts.measured_s() * 1e9)),
            "Run for longer (-d 5s, or more requests): what is done once at its start is most of a run this short",
        )
    } else {
        (
            "and what kept it is not seen".to_owned(),
            "Give the generator CPUs that nothing else uses (--pin, or another machine), and look for what stopped it: \
             other processes, a CPU quota, the hypervisor",
        )
    };
    let worst = worst.max(harm.kept);
    Verdict::supported(Severity::Error, format!("{title}, {what}"))
        .because_all(evidence)
        .because_all(kept(facts, &harm))
        .remedy(remedy)
        .check("grep -H . /proc/pressure/cpu /sys/fs/cgroup/cpu.stat")
        .confidence(past(worst, SHARE_MAX))
}

/// For how much of the time a closed loop's workers were kept from running: no lag tells that.
fn kept(facts: &Facts<'_>, harm: &Harm) -> Option<Evidence> {
    let text = format!("its workers wanted to run and did not for {} of the time", percent(harm.kept));
    (harm.kept > 0.0).then(|| facts.evidence(text, "workers.kept", harm.kept, "ratio"))
}

/// What lag and late turns did, with their figures; empty where there was no request to look at.
pub(super) fn evidence(facts: &Facts<'_>, harm: &Harm) -> Vec<Evidence> {
    let mut all = Vec::new();
    if let Some((quantile, lag_ns)) = facts.tail(Kind::Lag) {
        let text = format!("lag {} is {}", quantile_name(quantile), duration(lag_ns as f64));
        all.push(facts.evidence(text, "lag.p99_us", lag_ns as f64 / 1e3, "us"));
    }
    if let Some(lag) = harm.lag.filter(|lag| lag.added_ns.is_finite() && lag.added_ns > 0.0) {
        let text = format!(
            "{} of the response time's {} ({}) is lag: {}",
            duration(lag.added_ns),
            quantile_name(lag.quantile),
            duration(lag.figure_ns),
            percent(lag.share())
        );
        all.push(facts.evidence(text, "response.lag_us", lag.added_ns / 1e3, "us"));
    }
    if let Some(late) = harm.late.filter(|late| late.added_ns.is_finite() && late.added_ns > 0.0) {
        let text = format!(
            "late turns of the workers can have added {} to the response time's {} ({})",
            duration(late.added_ns),
            quantile_name(late.quantile),
            duration(late.figure_ns)
        );
        all.push(facts.evidence(text, "response.late_us", late.added_ns / 1e3, "us"));
    }
    let never = facts.whole.counts.never_taken_up;
    if never > 0 {
        let share = harm.never;
        let words = if share > NEVER_TAKEN_UP_MAX { "" } else { "only " };
        let text =
            format!("{} requests were due and never taken up: {words}{} of all", show_grouped(never), percent(share));
        all.push(facts.evidence(text, "totals.never_taken_up", never as f64, "requests"));
    }
    all
}
