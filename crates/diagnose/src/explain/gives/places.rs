//! Whether what a load by the clock was short of is its own connections: as many requests are under way at once as there are, so where each
//! takes 30 ms by itself, 50 of them carry 1,700 a second, whatever the target could.
//!
//! All of them are taken then, nine tenths of the time at the least (Little's law). That each request takes so long by itself is known where
//! the first ones, which found nobody before them, took as long as all others; that is asked of the quickest of all, in a run that was
//! measured from its first request on. Where it is not known, more connections tell.

use crate::facts::{Facts, duration};
use model::latency::Kind;
use model::plan::Pace;
use model::units::show_grouped;

/// So much of all connections' time is all of it.
const TAKEN: f64 = 0.9;
/// The quickest took no less than this part of what half of all took, and nine of ten no longer than this many times that.
const ALIKE: f64 = 0.8;
/// More connections than are needed on average, as not all are taken at a time.
const SPARE: f64 = 1.25;

/// The connections of a load by the clock, all of which are taken.
pub(super) struct Places {
    connections: f64,
    /// What a request takes, nanoseconds.
    each_ns: f64,
    /// Requests a second that were due.
    due_per_s: f64,
    /// Each takes that by itself.
    is_alone: bool,
}

impl Places {
    /// `None`: some are free, no rate was asked for, or so many are enough for it.
    pub(super) fn of(facts: &Facts<'_>) -> Option<Self> {
        let plan = &facts.recording.plan;
        let service = facts.latency(Kind::Service);
        if !matches!(plan.pace, Pace::Open { .. }) || service.is_empty() {
            return None;
        }
        let due = facts.due(facts.start_ns, facts.end_ns).filter(|_| facts.is_constant_rate())?;
        let due_per_s = due / facts.measured_s().max(1e-9);
        let (connections, each_ns) = (facts.users(), service.mean());
        let taken = facts.recording.totals.requests_per_s() * each_ns / 1e9 / connections.max(1.0);
        let at = |quantile| service.value_at_quantile(quantile) as f64;
        let is_alike = service.min() as f64 >= ALIKE * at(0.5) && ALIKE * at(0.9) <= at(0.5);
        let is_alone = is_alike && plan.warmup_ns == 0;
        let is_short = due_per_s * each_ns / 1e9 > connections;
        (taken >= TAKEN && is_short).then_some(Places { connections, each_ns, due_per_s, is_alone })
    }

    /// How many are enough for what was asked, in round numbers.
    fn enough(&self) -> String {
        let needed = SPARE * self.due_per_s * self.each_ns / 1e9;
        let unit = 10f64.powf(needed.max(10.0).log10().floor() - 1.0) * 5.0;
        show_grouped(((needed / unit).ceil() * unit) as u64)
    }

    /// That they are the limit; `None`: that is not known.
    pub(super) fn limit(&self) -> Option<String> {
        self.is_alone.then(|| {
            let count = show_grouped(self.connections as u64);
            format!(
                "all {count} connections of this load are taken: each request takes {} by itself, so that they carry {}/s at most of {}/s asked \
                 for, whatever the target can; -c {} puts all of it on",
                duration(self.each_ns),
                show_grouped((1e9 * self.connections / self.each_ns).round() as u64),
                show_grouped(self.due_per_s.round() as u64),
                self.enough()
            )
        })
    }

    /// What tells whether they are.
    pub(super) fn next(&self) -> String {
        format!(
            "; all {} connections of this load are taken: more of them (-c {}) tell whether the target can do more",
            show_grouped(self.connections as u64),
            self.enough()
        )
    }
}
