//! Values that several rules need, derived from a recording once.
//!
//! Arithmetic here is on `f64` or saturating: a recording may come from a damaged file, and no rule may panic on it.
//! The measured window runs from the end of warm-up (of held connections, from when the last was made) to the end
//! of the load; the drain is never part of it.

mod first_round;
mod handovers;
mod kernel;
mod outgoing;
pub(crate) mod processes;
mod requests;
mod scope;
mod sending;
mod stands;
mod threads;

pub use first_round::FirstRound;
pub(crate) use kernel::SYNCS_TO_DISK;
pub use outgoing::Asked;
pub use processes::{Demand, Host, NeighbourUse, Part, Span};
pub(crate) use requests::Lengths;
pub use requests::{Band, Fast, Kinds, SLOW_BY_NS, SLOW_TIMES, TURN_NS, kind, taken_ns};
pub use scope::Scope;
pub use sending::Sending;
pub use stands::{Places, Stand, Stands};
pub use threads::Holder;

use crate::causes::pauses::Pauses;
use crate::evidence::{Origin, Piece};
use crate::explain::waits::Account;
use crate::history::{History, Window};
use crate::usage::ThreadUse;
use model::finding::{Evidence, Loss};
use model::latency::Kind;
use model::plan::{Address, Pace};
use model::quantile::tail_of;
use model::recording::Row;
use model::slow::SlowTime;
use model::snapshot::SamplerState;
use model::{ErrorKind, Histogram, Recording};
use std::cell::OnceCell;

/// A recording with what is derived from it.
#[derive(Debug)]
pub struct Facts<'r> {
    /// The recording itself.
    pub recording: &'r Recording,
    /// All that was read over the run: any fact of any window is asked of it.
    pub history: &'r History,
    /// Start of the measured window, nanoseconds since the run's start.
    pub start_ns: u64,
    /// End of the measured window, nanoseconds since the run's start.
    pub end_ns: u64,
    /// The rows that lie in the measured window, each longer than nothing.
    pub rows: Vec<&'r Row>,
    /// The stretches between snapshots of the measured window.
    pub spans: Vec<Span>,
    /// The whole measured part of the run.
    pub whole: Scope<'r>,
    /// The part of it in which nothing kept the generator from running; `None` where nothing ever did, or none is left.
    pub quiet: Option<Scope<'r>>,
    /// The other processes of the generator's machine over the measured window, the one that used most CPU first.
    pub neighbours: Vec<NeighbourUse<'r>>,
    /// Cores that the whole target used over the measured window; `None` where it was not read.
    pub target_cores: Option<f64>,
    /// Share of the measured window in which a CPU quota held the generator; `None` where it has none, or nobody looked.
    pub throttled: Option<f64>,
    /// The target's threads over the measured window, the busiest first.
    pub target_threads: Vec<ThreadUse<'r>>,
    /// The generator's own threads over the measured window, the busiest first.
    pub generator_threads: Vec<ThreadUse<'r>>,
    /// The target's host over the measured window; `None` unless two snapshots read it.
    pub host: Option<Host>,
    /// The generator's: the same one, unless the target was observed on another machine.
    pub generator_host: Option<Host>,
    /// Requests that ended, well or not.
    pub ended: f64,
    /// Requests by their kind.
    pub kinds: Kinds,
    pub(crate) derived: Derived,
}

/// What several rules ask for and is dear to find out: found by the first who asks, each in the module that knows how.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub(crate) pauses: OnceCell<Option<Pauses>>,
    pub(crate) slow_time: OnceCell<Option<(Account, SlowTime)>>,
    pub(crate) losses: OnceCell<Vec<Loss>>,
}

impl<'r> Facts<'r> {
    /// Derives the facts from a recording and all that was read in it.
    pub fn of(recording: &'r Recording, history: &'r History) -> Self {
        let start_ns = recording.plan.warmup_ns.max(recording.totals.measured_from_ns);
        let end_ns = start_ns.saturating_add(measured_ns(recording));
        let rows = recording.timeline.rows().iter();
        let rows: Vec<&Row> = rows.filter(|r| !r.is_drain && r.start_ns >= start_ns && r.end_ns > r.start_ns).collect();
        let counts = &recording.totals.sum.counts;
        // Without two snapshots nothing lies between them.
        let window = history.window(start_ns, end_ns).unwrap_or(Window::new(0, 0));
        let Part {
            spans,
            neighbours,
            target_cores,
            throttled,
            target_threads,
            generator_threads,
            host,
            generator_host,
        } = Part::of(history, window);
        let mut facts = Facts {
            recording,
            history,
            start_ns,
            end_ns,
            whole: Scope::whole(recording, &rows, &spans),
            quiet: Scope::quiet(recording, &rows, &spans),
            rows,
            spans,
            neighbours,
            target_cores,
            throttled,
            target_threads,
            generator_threads,
            host,
            generator_host,
            ended: counts.ok as f64 + counts.failed as f64,
            kinds: Kinds::of(recording),
            derived: Derived::default(),
        };
        if let Some((work_ns, utilisation)) = facts.cpu_ns_per_request().zip(facts.busiest_demand()) {
            facts.kinds.allow_queueing(recording, work_ns, utilisation);
        }
        facts
    }

    /// What the CPUs of a part of the run did, such as of a segment ([`crate::segments::window`]).
    pub fn part(&self, window: Window) -> Part<'r> {
        Part::of(self.history, window)
    }

    /// The measured window in seconds of the run.
    pub fn window_s(&self) -> [f64; 2] {
        [seconds(self.start_ns), seconds(self.end_ns)]
    }

    /// Length of the measured window, seconds.
    pub fn measured_s(&self) -> f64 {
        seconds(self.end_ns.saturating_sub(self.start_ns))
    }

    /// Evidence read over the measured window.
    pub fn evidence(
        &self,
        text: impl Into<String>,
        metric: &str,
        value: impl Into<Option<f64>>,
        unit: &str,
    ) -> Evidence {
        evidence(text, metric, value, unit, self.window_s())
    }

    /// The same from a source that its type names.
    pub fn piece<S: Origin>(
        &self,
        text: impl Into<String>,
        metric: &str,
        value: impl Into<Option<f64>>,
        unit: &str,
    ) -> Piece<S> {
        Piece::of(self.evidence(text, metric, value, unit))
    }

    /// The histogram of one kind of latency over the run.
    pub fn latency(&self, kind: Kind) -> &'r Histogram<u64> {
        self.recording.totals.sum.latency.of(kind)
    }

    /// Failures of a kind: of requests, and of attempts to connect without one.
    pub fn errors(&self, kind: ErrorKind) -> u64 {
        let sum = &self.recording.totals.sum;
        sum.errors.of(kind).max(sum.connection_errors.of(kind))
    }

    /// Whether a connection was made, or at least tried.
    pub fn has_tried(&self) -> bool {
        let counts = &self.recording.totals.sum.counts;
        counts.connected > 0 || counts.connect_failed > 0 || counts.started > 0
    }

    /// Requests due between two moments; `None` for a closed pace.
    pub fn due(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        self.recording.plan.due_between(from_ns, to_ns)
    }

    /// Whether the rate asked for is the same over the whole measured window; closed paces ask for none.
    pub fn is_constant_rate(&self) -> bool {
        self.recording.plan.has_constant_rate(self.start_ns, self.end_ns)
    }

    /// Whether requests are due by the clock.
    pub fn is_open(&self) -> bool {
        matches!(self.recording.plan.pace, Pace::Open { .. } | Pace::Held { .. } | Pace::Burst { .. })
    }

    /// Closed pace without think time: every user always has a request under way.
    pub fn is_saturating(&self) -> bool {
        self.recording.plan.always_asks()
    }

    /// Requests that can be under way at once in a closed pace.
    pub fn users(&self) -> f64 {
        f64::from(self.recording.plan.connections) * f64::from(self.recording.plan.pipeline.max(1))
    }

    /// Whether the target was observed on another machine than the generator's.
    pub fn is_target_elsewhere(&self) -> bool {
        self.recording.capsule.target_host.is_some()
    }

    /// Whether all load stays inside this machine.
    pub fn is_loopback(&self) -> bool {
        self.recording.plan.origins.iter().flat_map(|o| &o.addresses).all(|address| match address {
            Address::Tcp(socket) => socket.ip().to_canonical().is_loopback() || socket.ip().is_unspecified(),
            Address::Unix(_) => true,
        })
    }

    /// The quantile that stands for the tail: p99, or the highest whole per cent with ten samples above it where there are fewer
    /// than a thousand. `None` below twenty samples. Returns the quantile and its value, nanoseconds.
    pub fn tail(&self, kind: Kind) -> Option<(f64, u64)> {
        let histogram = self.latency(kind);
        let quantile = (tail_of(histogram.len())? * 100.0).floor() / 100.0;
        Some((quantile, histogram.value_at_quantile(quantile)))
    }

    /// Why the target's processes are not in the snapshots, in a sentence.
    pub fn why_no_target(&self) -> String {
        self.why_not("process/target").unwrap_or_else(|| "no snapshot has a process of the target".to_owned())
    }

    /// Why a sampler did not read: its name and its reason; `None` where it is active.
    pub fn why_not(&self, sampler: &str) -> Option<String> {
        match self.recording.samplers.iter().find(|s| s.name == sampler) {
            Some(status) if status.status == SamplerState::Active => None,
            Some(status) if status.reason.is_empty() => Some(format!("the sampler {sampler} did not read")),
            Some(status) => Some(format!("{sampler}: {}", status.reason)),
            None => Some(format!("the sampler {sampler} was not there")),
        }
    }
}

/// How long was measured; of a recording without a load that was cut off, how long was read.
fn measured_ns(recording: &Recording) -> u64 {
    let totals_ns = recording.totals.measured_ns;
    if totals_ns > 0 || recording.capsule.why_no_load().is_none() {
        return totals_ns;
    }
    recording.snapshots.last().and_then(|last| u64::try_from(last.at_ns).ok()).unwrap_or(0)
}

/// Evidence read over a window of seconds of the run.
pub fn evidence(
    text: impl Into<String>,
    metric: &str,
    value: impl Into<Option<f64>>,
    unit: &str,
    window_s: [f64; 2],
) -> Evidence {
    let value = value.into().filter(|v| v.is_finite());
    Evidence {
        text: text.into(),
        metric: metric.to_owned(),
        value,
        unit: unit.to_owned(),
        window_s,
        source: None,
        is_against: false,
        threshold: None,
    }
}

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A duration for people, as everywhere.
pub use model::units::show_duration_ns as duration;

/// A share for people.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // What is not nothing is not shown as nothing.
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    if percent.abs() < 0.05 {
        return "< 0.1 %".to_owned();
    }
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// The name of a quantile, such as `p99`.
pub fn quantile_name(quantile: f64) -> String {
    let percent = (quantile * 1e4).round() / 100.0;
    format!("p{percent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_worded_for_people() {
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.97), "97 %");
        assert_eq!(quantile_name(0.99), "p99");
        assert_eq!(quantile_name(0.999), "p99.9");
        assert_eq!([0.0, 0.0001, -0.0004, 0.012].map(percent), ["0 %", "< 0.1 %", "< 0.1 %", "1.2 %"]);
    }
}
