//! `generator-cpu`: the generator had too much work for its CPUs, so the figures are its own and not the target's.
//!
//! Evidence: for more than a fifth of the measured time a worker ran for more than 90 % of an interval (its thread's
//! rusage: time *on* a CPU, none that others had) while the target was not busy: its busiest thread, or all of it over the
//! cores, ran or waited for a CPU less than 90 % of the time (schedstat), by what the kernel sums of its processes too.
//!
//! A fifth: a target that was stopped and comes back answers everything at once, and taking that in may fill an interval
//! of a sound generator. Lag alone is never evidence: what a worker did not get is `generator-starved` or `cpu-stolen`.
//! Refuted by a target that wanted all the CPU it could get, run-queue waits included: then it was the target, or both, on
//! shared cores. Not observable, and the figures undetermined, where a worker was busy and the target's processes were
//! not read, or came and went so fast that nobody knows whether one waited for the other.

use crate::facts::{Facts, Scope, percent};
use crate::harm::BUSY;
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Evidence, Severity};

/// Share of the measured time.
const TIME_SHARE: f64 = 0.2;
/// CPU time of shorter intervals is mostly the clock tick's rounding, nanoseconds.
const ROW_NS_MIN: u64 = 20_000_000;

const TITLE: &str = "the generator, not the target, was the bottleneck";

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "generator-cpu", about: About::Generator, needs: Needs::Connections, bearing: Bearing::Measured, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let busy = Busy::of(&facts.whole);
    if busy.alone > TIME_SHARE {
        return Verdict::supported(Severity::Error, TITLE)
            .because(busy.evidence(facts))
            .because_all(busy.target_evidence(facts))
            .remedy(
                "Use more workers or pin them to CPUs of their own (--threads, --pin), run the generator on another \
                 machine, or ask for less load",
            )
            .check("top -H -p $(pgrep -x plimsoll)")
            .confidence(past(busy.alone, TIME_SHARE));
    }
    if busy.read <= 0.0 {
        return Verdict::not_observable(TITLE, "no measured interval was long enough to read the workers' CPU time");
    }
    if busy.alone + busy.unknown > TIME_SHARE {
        let why = match busy.demand {
            Some(_) => "its processes came and went between the readings".to_owned(),
            None => facts.why_no_target(),
        };
        return Verdict::not_observable(
            TITLE,
            format!(
                "a worker was busy for more than {} of an interval in {} of the time, and whether the target was is not known: {why}",
                percent(BUSY),
                percent(busy.alone + busy.unknown)
            ),
        )
        .because(busy.evidence(facts))
        .remedy(
            "Observe the target where it runs (plimsoll watch --serve there, --observe-at here), or use more workers",
        )
        .leaves_open();
    }
    let title = if busy.both > TIME_SHARE {
        "the generator was busy, and so was the target: it had all the load it could take"
    } else {
        "the generator had room"
    };
    Verdict::refuted(title).because(busy.evidence(facts)).because_all(busy.target_evidence(facts))
}

/// What it says of a part of the run: `Some(true)`: too much work; `None`: not known.
pub(crate) fn is_too_much_work(scope: &Scope<'_>) -> Option<bool> {
    let busy = Busy::of(scope);
    match () {
        () if busy.alone > TIME_SHARE => Some(true),
        () if busy.alone + busy.unknown > TIME_SHARE => None,
        () => Some(false),
    }
}

/// Shares of the measured time in which a worker was busy.
#[derive(Debug, Default)]
struct Busy {
    /// Seconds of intervals whose CPU time could be read.
    read: f64,
    /// While the target was not.
    alone: f64,
    /// While the target was too.
    both: f64,
    /// While the target was not read.
    unknown: f64,
    /// The busiest worker of any interval.
    most: f64,
    /// The target's demand while a worker was busy: the mean, where read.
    demand: Option<f64>,
}

impl Busy {
    fn of(scope: &Scope<'_>) -> Self {
        let mut busy = Busy::default();
        let mut demands = Vec::new();
        for row in &scope.rows {
            let length_ns = row.end_ns.saturating_sub(row.start_ns);
            if length_ns < ROW_NS_MIN || !row.worker_busy_max.is_finite() {
                continue;
            }
            let length_s = length_ns as f64 / 1e9;
            busy.read += length_s;
            busy.most = busy.most.max(row.worker_busy_max);
            if row.worker_busy_max <= BUSY {
                continue;
            }
            let demand = scope.span_of(row).and_then(|span| span.target_demand);
            demands.extend(demand.map(|demand| demand.low));
            match demand {
                Some(demand) if demand.high < BUSY => busy.alone += length_s,
                Some(demand) if demand.low >= BUSY => busy.both += length_s,
                // Processes that nobody saw one by one may have been busy one after the other.
                Some(_) | None => busy.unknown += length_s,
            }
        }
        if busy.read > 0.0 {
            for part in [&mut busy.alone, &mut busy.both, &mut busy.unknown] {
                *part /= busy.read;
            }
        }
        busy.demand = (!demands.is_empty()).then(|| demands.iter().sum::<f64>() / demands.len() as f64);
        busy
    }

    fn evidence(&self, facts: &Facts<'_>) -> Evidence {
        let share = self.alone + self.both + self.unknown;
        let text = format!(
            "a worker was busy for more than {} of an interval in {} of the measured time; the busiest reached {}",
            percent(BUSY),
            percent(share),
            percent(self.most)
        );
        facts.evidence(text, "generator.worker_busy", self.most, "ratio")
    }

    fn target_evidence(&self, facts: &Facts<'_>) -> Option<Evidence> {
        let demand = self.demand?;
        let text = format!("meanwhile the target ran, or waited for a CPU, {} of the time", percent(demand));
        Some(facts.evidence(text, "target.cpu_demand", demand, "ratio"))
    }
}
