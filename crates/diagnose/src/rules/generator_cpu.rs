//! `generator-cpu`: the generator was the bottleneck, so the figures are its own and not the target's.
//!
//! Evidence, either of: (a) for more than a fifth of the measured time a worker was busy for more than 90 % of an
//! interval (its thread's rusage) while the target was not (its threads' time run and waited, schedstat); (b) the lag's
//! tail is more than a tenth of the response's, and more than 200 µs.
//!
//! A fifth: a target that was stopped and comes back answers everything at once, and taking that in may fill an interval
//! of a sound generator. 200 µs: what a sleeping generator on two busy cores keeps to at p99; below it, lag is a
//! thread's wake-up, and a target that answers in 100 µs must not be called unmeasurable for 20 µs of it.
//! Refuted by a target that wanted all the CPU it could get, run-queue waits included: then it was the target, or
//! both, on shared cores. Not observable where a worker was busy and the target's processes were not read.

use crate::facts::{Facts, duration, percent, quantile_name};
use crate::rule::{Rule, Verdict, past};
use model::finding::{Evidence, Severity};
use model::latency::Kind;
use model::recording::Row;

/// A worker, or the target, this busy has no room left.
const BUSY: f64 = 0.9;
/// Share of the measured time.
const TIME_SHARE: f64 = 0.2;
/// Lag over response.
const LAG_SHARE: f64 = 0.1;
/// Lag below this is a wake-up, nanoseconds.
const LAG_NS_MIN: u64 = 200_000;
/// CPU time of shorter intervals is mostly the clock tick's rounding, nanoseconds.
const ROW_NS_MIN: u64 = 20_000_000;

/// See the file's head.
#[derive(Debug)]
pub struct GeneratorCpu;

const TITLE: &str = "the generator, not the target, was the bottleneck";

impl Rule for GeneratorCpu {
    fn id(&self) -> &'static str {
        "generator-cpu"
    }

    fn needs_load(&self) -> bool {
        true
    }

    fn invalidates(&self) -> bool {
        true
    }

    fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let busy = Busy::of(facts);
        let late = relative_lag(facts);
        if busy.alone > TIME_SHARE || late.is_some() {
            let confidence = late.as_ref().map_or(0.0, |late| past(late.share, LAG_SHARE));
            let confidence =
                if busy.alone > TIME_SHARE { confidence.max(past(busy.alone, TIME_SHARE)) } else { confidence };
            return Verdict::supported(Severity::Error, TITLE)
                .because_all((busy.alone > 0.0).then(|| busy.evidence(facts)))
                .because_all(busy.target_evidence(facts))
                .because_all(late.map(|late| late.evidence))
                .remedy(
                    "Use more workers or pin them to CPUs of their own (--threads, --pin), run the generator on another \
                     machine, or ask for less load",
                )
                .check("top -H -p $(pgrep -x plimsoll)")
                .confidence(confidence);
        }
        if busy.read <= 0.0 {
            return Verdict::not_observable(
                TITLE,
                "no measured interval was long enough to read the workers' CPU time",
            );
        }
        if busy.alone + busy.unknown > TIME_SHARE {
            let why = facts.why_no_target();
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
            );
        }
        let title = if busy.both > TIME_SHARE {
            "the generator was busy, and so was the target: it had all the load it could take"
        } else {
            "the generator had room"
        };
        Verdict::refuted(title).because(busy.evidence(facts)).because_all(busy.target_evidence(facts))
    }
}

/// Whether lag alone makes this the cause: then it is not `generator-lag`'s too.
pub(super) fn is_supported(facts: &Facts<'_>) -> bool {
    GeneratorCpu.judge(facts).is_supported()
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
    fn of(facts: &Facts<'_>) -> Self {
        let mut busy = Busy::default();
        let mut demands = Vec::new();
        for row in &facts.rows {
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
            let demand = target_demand(facts, row);
            demands.extend(demand);
            match demand {
                Some(demand) if demand < BUSY => busy.alone += length_s,
                Some(_) => busy.both += length_s,
                None => busy.unknown += length_s,
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

/// The target's demand in the span that covers the row's middle.
fn target_demand(facts: &Facts<'_>, row: &Row) -> Option<f64> {
    let middle_ns = i64::try_from(row.start_ns / 2 + row.end_ns / 2).unwrap_or(i64::MAX);
    facts.spans.iter().find(|s| s.from_ns <= middle_ns && middle_ns < s.to_ns)?.target_demand
}

struct Late {
    share: f64,
    evidence: Evidence,
}

/// The lag's tail against the response's; failures count, as a target that answers nothing in time has no successes.
fn relative_lag(facts: &Facts<'_>) -> Option<Late> {
    let (quantile, lag_ns) = facts.tail(Kind::Lag)?;
    let response_ns = [Kind::Response, Kind::Failed].into_iter().filter_map(|kind| Some(facts.tail(kind)?.1)).max()?;
    let share = lag_ns as f64 / response_ns.max(1) as f64;
    (lag_ns > LAG_NS_MIN && share > LAG_SHARE).then(|| {
        let name = quantile_name(quantile);
        let text = format!(
            "requests were taken up late: lag {name} is {}, {} of the response time's ({})",
            duration(lag_ns as f64),
            percent(share),
            duration(response_ns as f64)
        );
        Late { share, evidence: facts.evidence(text, "lag.p99_us", lag_ns as f64 / 1e3, "us") }
    })
}
