//! The recording of a run: all that diagnosis and reports may look at.
//!
//! Bounded: a run of a day takes as much memory as one of a minute. The timeline merges neighbours when it is
//! full, snapshots are thinned; the recording file on disk keeps every one.

mod disturbance;
mod generators;
mod head;
mod part;
mod shift;
mod thinning;
mod timeline;
mod together;

pub use disturbance::Disturbance;
pub use generators::{Generator, Generators, RunClock, SHORTFALL_MAX, Shortfall};
pub use head::Head;
pub use part::Part;
pub use thinning::thin_and_keep;
pub use timeline::Timeline;
pub use together::{LoadOfRun, LoadRole, Together};

use crate::courses::RunCourses;
use crate::error_kind::{ErrorExample, ErrorKind, FailureClass};
use crate::event::{Event, Events};
use crate::integrity::Integrity;
use crate::interval::{Counts, Gauges, Interval};
use crate::latency::Kind;
use crate::phase::{LoadPhase, phase_of};
use crate::plan::Plan;
use crate::profile::RunProfile;
use crate::run_requests::RunRequests;
use crate::snapshot::{SamplerStatus, Snapshot};
use crate::split::RunSplit;
use crate::users::Users;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All that is known of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What would be needed to do it again.
    pub capsule: Capsule,
    /// What was to be done.
    pub plan: Plan,
    /// The run's figures, warm-up excluded.
    pub totals: Totals,
    /// The course of it.
    pub timeline: Timeline,
    /// Single requests and gaps.
    pub requests: RunRequests,
    /// Of these the ones within windows of probes, with what the target's machine saw of them.
    pub split: RunSplit,
    /// What every reading of the load came to, those that are not kept as well.
    pub courses: RunCourses,
    /// Readings of host and processes, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Every how many snapshots one was kept (1: all).
    pub snapshot_stride: u64,
    /// Readings after the load, its drain included, had ended (`load --after`): apart, for what is made of the others is of
    /// the load. Thinned likewise.
    pub after: Vec<Snapshot>,
    /// Each of them kept stands for so many.
    pub after_stride: u64,
    /// How many there were.
    pub after_count: u64,
    /// Events, oldest first, and how many of which kind were not kept.
    pub events: Events,
    /// Where the target's threads ran and waited, all snapshots together.
    pub profile: RunProfile,
    /// How each sampler fared.
    pub samplers: Vec<SamplerStatus>,
    /// How it ended.
    pub end: End,
    /// Whether all of it is as it was written.
    pub integrity: Integrity,
}

/// What would be needed to do the run again, read at its start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Capsule {
    /// The tool's version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Wall clock at the start, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// Kernel release.
    pub kernel: String,
    /// CPU model and number of cores, in words.
    pub cpu: String,
    /// Cores the generator may use.
    pub cores: u32,
    /// The machine's memory, bytes.
    pub memory_bytes: u64,
    /// Kernel settings that matter to a load test, by their sysctl name; absent where they could not be read.
    pub sysctls: std::collections::BTreeMap<String, String>,
    /// Limits of the generator: name to soft and hard, as text (`unlimited` possible).
    pub limits: std::collections::BTreeMap<String, String>,
    /// The driver that ran, and why if it is not the one first chosen.
    pub driver: String,
    /// Why that driver.
    pub driver_reason: String,
    /// The target's machine, where it is another and was observed there; all else here is of the generator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_host: Option<crate::remote::TargetHost>,
    /// Where the readings come from, of a recording that was made of another instrument's text; no load was put on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<crate::import::Import>,
    /// Who was watched, of a recording of `plimsoll watch`, such as "port 8080"; no load was put on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<String>,
    /// Which of several loads that were put on together it is of; `None`: there was no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// When the load began, by clocks that other runs' can be compared with; `None` of a simulated run, of an import, and before
    /// the load has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<RunClock>,
    /// Of a recording that was made of several generators': theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generators: Option<Generators>,
}

impl Capsule {
    /// Why there is no load in the recording, in a sentence; `None` of a run's.
    pub fn why_no_load(&self) -> Option<&'static str> {
        match (&self.import, &self.watched) {
            (Some(_), _) => Some("no load was put on: the recording is an import"),
            (None, Some(_)) => Some("no load was put on: the target was watched"),
            (None, None) => None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// As planned.
    Complete,
    /// By Ctrl-C or SIGTERM; the summary covers what was done.
    Interrupted,
    /// The recording stops in the middle: the run was killed, or its disk was full.
    #[default]
    Partial,
}

/// A run's figures, warm-up excluded.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Everything summed.
    pub sum: Interval<u64>,
    /// The counters up to the end of the load: what rates are made of. Replies that came while requests in flight
    /// were waited for are in `sum` only.
    pub in_time: Counts,
    /// Requests sent or queued and without an end when the run ended.
    pub in_flight_at_end: u64,
    /// When measuring began, nanoseconds since the run's start: at the end of warm-up, or when all held connections
    /// were made.
    pub measured_from_ns: u64,
    /// Measured time, nanoseconds: from there to the last planned moment, drain excluded.
    pub measured_ns: u64,
    /// Highest resident memory of the generator, bytes.
    pub peak_rss_bytes: u64,
    /// User and system CPU time of the whole generator process, nanoseconds.
    pub cpu_user_ns: u64,
    /// See `cpu_user_ns`.
    pub cpu_system_ns: u64,
    /// Nanoseconds from the start of the process to its first request on the wire; `None`: none was sent.
    pub first_request_ns: Option<u64>,
    /// What was measured in intervals in which something kept the generator from running; `None`: in none.
    pub disturbed: Option<Box<Part>>,
    /// What was measured in intervals that a window of the observer's probes lay in; `None`: in none.
    pub in_windows: Option<Box<Part>>,
    /// What was measured in each phase of the plan that was reached; empty without phases.
    pub phases: Vec<Part>,
    /// How the replies were spread over the connections; `None` where nobody counted: of held connections, bursts, and
    /// of runs that were cut off.
    pub users: Option<Users>,
    /// Highest number of connections established at the end of any interval.
    pub connections_max: u64,
    /// Held connections established at the end of the load; `None` of other loads, and of a run that was cut off.
    pub held_at_end: Option<u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Totals {
            sum: Interval::new(0),
            in_time: Counts::default(),
            in_flight_at_end: 0,
            measured_from_ns: 0,
            measured_ns: 0,
            peak_rss_bytes: 0,
            cpu_user_ns: 0,
            cpu_system_ns: 0,
            first_request_ns: None,
            disturbed: None,
            in_windows: None,
            phases: Vec::new(),
            users: None,
            connections_max: 0,
            held_at_end: None,
        }
    }
}

impl Totals {
    /// What came in place of replies and connections, with how often.
    pub fn came_instead(&self) -> String {
        let kinds = self.sum.errors.seen().chain(self.sum.connection_errors.seen());
        let why: Vec<String> = kinds.map(|(kind, n)| format!("{} × {n}", kind.name())).collect();
        if why.is_empty() { "nothing in time".to_owned() } else { why.join(", ") }
    }

    /// The figures without the disturbed intervals; `None` where none was disturbed, or no time is left.
    pub fn quiet(&self) -> Option<Part> {
        self.without(self.disturbed.as_deref()?, &Kind::ALL)
    }

    /// The figures without the intervals in which the observer's probes had a window; `None` where none had. Of latencies
    /// the response time alone.
    pub fn without_windows(&self) -> Option<Part> {
        self.without(self.in_windows.as_deref()?, &Kind::OF_WINDOWS)
    }

    /// Adds a tick to the parts that it belongs to, after it was added to the whole: those parts, each with the latencies
    /// that it keeps. What is not measured belongs to none: warm-up, and the making of held connections where that is
    /// warm-up (`is_ramp_warmup`), which is over when the first message counts.
    pub fn add_to_parts(
        &mut self,
        row: &Row,
        warmup_ns: u64,
        is_ramp_warmup: bool,
    ) -> [Option<(&mut Part, &'static [Kind])>; 2] {
        let is_measured = row.end_ns > warmup_ns && (!is_ramp_warmup || self.sum.counts.started > 0);
        let parts: [(_, _, &[Kind]); 2] = [
            (row.disturbance.is_any(), &mut self.disturbed, &Kind::ALL),
            (row.in_window, &mut self.in_windows, &Kind::OF_WINDOWS),
        ];
        parts.map(|(is_of_part, part, kinds)| {
            if !is_of_part || !is_measured {
                return None;
            }
            let part = part.get_or_insert_default();
            part.add_row(row);
            Some((&mut **part, kinds))
        })
    }

    /// The part of the phase that a tick belongs to, with the tick's counters and time; its histograms are added apart.
    pub fn add_to_phase(&mut self, phases: &[LoadPhase], row: &Row) -> Option<&mut Part> {
        let at = phase_of(phases, row)?;
        if self.phases.len() <= at {
            self.phases.resize_with(at + 1, Part::default);
        }
        let part = &mut self.phases[at];
        part.add_row(row);
        Some(part)
    }

    fn without(&self, part: &Part, kinds: &[Kind]) -> Option<Part> {
        let measured_ns = self.measured_ns.checked_sub(part.measured_ns).filter(|ns| *ns > 0)?;
        let mut sum = Interval::new(0);
        sum.counts = self.sum.counts.without(&part.sum.counts);
        sum.latency = self.sum.latency.without(&part.sum.latency, kinds);
        Some(Part { sum, in_time: self.in_time.without(&part.in_time), measured_ns, intervals: 0 })
    }

    /// Whether every started request is accounted for.
    pub fn is_conserved(&self) -> bool {
        self.sum.counts.started == self.sum.counts.requests() + self.in_flight_at_end
    }

    /// The first failure of each kind.
    pub fn examples(&self) -> impl Iterator<Item = ErrorExample> + '_ {
        self.sum.examples.iter().flatten().copied()
    }

    /// Completed requests a second of measured time, failed ones included.
    pub fn requests_per_s(&self) -> f64 {
        self.per_s(self.in_time.arrived())
    }

    /// A count of [`Totals::in_time`] as a rate, a second.
    pub fn per_s(&self, count: u64) -> f64 {
        if self.measured_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.measured_ns as f64 }
    }
}

/// One row of the timeline: a tick, all workers summed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Row {
    /// Start and end, nanoseconds since the run's start.
    pub start_ns: u64,
    /// See `start_ns`.
    pub end_ns: u64,
    /// Whether it lies after the end of the load.
    pub is_drain: bool,
    /// Counters.
    pub counts: Counts,
    /// Readings at the end.
    pub gauges: Gauges,
    /// Quantiles of the response time, nanoseconds, however few the samples: a second in which the target stood still has
    /// few, and is what one looks for. `None` where nothing ended. Of merged rows: the larger.
    pub response_p50_ns: Option<u64>,
    /// See `response_p50_ns`.
    pub response_p99_ns: Option<u64>,
    /// 99th percentile of the lag, nanoseconds.
    pub lag_p99_ns: Option<u64>,
    /// Quantiles of the time to failure of requests that failed, nanoseconds; `None` where none did. Of merged rows: the
    /// larger.
    pub failed_p50_ns: Option<u64>,
    /// See `failed_p50_ns`.
    pub failed_p99_ns: Option<u64>,
    /// Of the failed requests those that got no connection, whose connection was cut, and that got no answer in time
    /// ([`crate::error_kind::FailureClass`]).
    pub failed_refused: u64,
    /// See `failed_refused`.
    pub failed_aborted: u64,
    /// See `failed_refused`.
    pub failed_unanswered: u64,
    /// Sum of the response times of successes, nanoseconds: for Little's law.
    pub response_sum_ns: u64,
    /// CPU share of the busiest worker in the row, 0..=1.
    pub worker_busy_max: f64,
    /// The largest share of the row that a worker was runnable and waited for a CPU, 0..=1.
    pub worker_wait_max: f64,
    /// The largest share of the row by which a worker's turns were late, 0..=1 ([`Counts::late_ns`]).
    pub worker_late_max: f64,
    /// Whether a response quantile is a lower bound: requests that had not ended are at or below it.
    pub is_bound: bool,
    /// What kept the generator from running.
    pub disturbance: Disturbance,
    /// Whether a window of the observer's probes lay in it.
    pub in_window: bool,
}

/// Ticks, or snapshots, that one may stand for: of more than any run has.
pub const STRIDE_MAX: u64 = 1 << 40;

/// A tick, all workers summed.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Everything.
    pub sum: Box<Interval<u32>>,
    /// As a row of the timeline.
    pub row: Row,
}

impl Tick {
    /// The tick of some workers' intervals.
    pub fn of<'i>(workers: impl IntoIterator<Item = &'i Interval<u32>>) -> Self {
        let mut workers = workers.into_iter();
        let mut shares = WorkerShares::default();
        let mut sum = Box::new(workers.next().map_or_else(|| Interval::new(0), |first| first.clone()));
        shares = shares.max(WorkerShares::of(&sum));
        for worker in workers {
            shares = shares.max(WorkerShares::of(worker));
            sum.add_worker(worker);
        }
        let row = Row::of(&sum, shares);
        Tick { sum, row }
    }
}

/// How the workers of a row were given CPUs: the largest shares of any worker, 0..=1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WorkerShares {
    /// On a CPU.
    pub busy: f64,
    /// Runnable, without a CPU.
    pub wait: f64,
    /// Late.
    pub late: f64,
}

impl WorkerShares {
    /// CPU time of shorter pieces is mostly the clock tick's rounding, nanoseconds.
    const LENGTH_NS_MIN: u64 = 20_000_000;

    /// Those of one worker's interval; zero where it is too short to tell.
    pub fn of<C: hdrhistogram::Counter>(interval: &Interval<C>) -> Self {
        let length_ns = interval.end_ns.saturating_sub(interval.start_ns);
        if length_ns < Self::LENGTH_NS_MIN {
            return WorkerShares::default();
        }
        let share = |ns: u64| (ns as f64 / length_ns as f64).min(1.0);
        let counts = &interval.counts;
        WorkerShares {
            busy: share(counts.cpu_user_ns.saturating_add(counts.cpu_system_ns)),
            wait: share(counts.cpu_wait_ns),
            late: share(counts.late_ns),
        }
    }

    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        WorkerShares {
            busy: self.busy.max(other.busy),
            wait: self.wait.max(other.wait),
            late: self.late.max(other.late),
        }
    }
}

impl Row {
    /// Whether nobody took a connection, none was open at its end, and nothing was answered.
    pub fn is_nobody_there(&self) -> bool {
        let Counts { ok, carried_ok, connected, .. } = self.counts;
        !self.is_drain && ok == 0 && carried_ok == 0 && connected == 0 && self.gauges.connections == 0
    }

    /// The row of one tick's sum.
    pub fn of<C: hdrhistogram::Counter>(sum: &Interval<C>, shares: WorkerShares) -> Self {
        let response = sum.latency.of(Kind::Response);
        let quantile = |kind, q| sum.latency.quantile(kind, q);
        let p99 = quantile(Kind::Response, 0.99);
        Row {
            start_ns: sum.start_ns,
            end_ns: sum.end_ns,
            is_drain: sum.is_drain,
            counts: sum.counts,
            gauges: sum.gauges,
            response_p50_ns: quantile(Kind::Response, 0.50).map(|figure| figure.ns),
            response_p99_ns: p99.map(|figure| figure.ns),
            lag_p99_ns: quantile(Kind::Lag, 0.99).map(|figure| figure.ns),
            failed_p50_ns: quantile(Kind::Failed, 0.50).map(|figure| figure.ns),
            failed_p99_ns: quantile(Kind::Failed, 0.99).map(|figure| figure.ns),
            failed_refused: sum.errors.of_class(FailureClass::Refused),
            failed_aborted: sum.errors.of_class(FailureClass::Aborted),
            failed_unanswered: sum.errors.of_class(FailureClass::Unanswered),
            response_sum_ns: if response.is_empty() { 0 } else { (response.mean() * response.len() as f64) as u64 },
            worker_busy_max: shares.busy,
            worker_wait_max: shares.wait,
            worker_late_max: shares.late,
            is_bound: p99.is_some_and(|figure| figure.is_bound),
            disturbance: Disturbance::default(),
            in_window: false,
        }
    }

    /// Takes a later row in. Counters are added; of quantiles and shares the larger one stays.
    pub fn merge(&mut self, later: &Row) {
        self.end_ns = later.end_ns;
        self.counts.add(&later.counts);
        self.gauges = Gauges {
            reap_delay_ns_max: self.gauges.reap_delay_ns_max.max(later.gauges.reap_delay_ns_max),
            ..later.gauges
        };
        self.response_p50_ns = self.response_p50_ns.max(later.response_p50_ns);
        self.response_p99_ns = self.response_p99_ns.max(later.response_p99_ns);
        self.lag_p99_ns = self.lag_p99_ns.max(later.lag_p99_ns);
        self.failed_p50_ns = self.failed_p50_ns.max(later.failed_p50_ns);
        self.failed_p99_ns = self.failed_p99_ns.max(later.failed_p99_ns);
        self.failed_refused = self.failed_refused.saturating_add(later.failed_refused);
        self.failed_aborted = self.failed_aborted.saturating_add(later.failed_aborted);
        self.failed_unanswered = self.failed_unanswered.saturating_add(later.failed_unanswered);
        self.is_drain &= later.is_drain;
        self.response_sum_ns = self.response_sum_ns.saturating_add(later.response_sum_ns);
        self.worker_busy_max = self.worker_busy_max.max(later.worker_busy_max);
        self.worker_wait_max = self.worker_wait_max.max(later.worker_wait_max);
        self.worker_late_max = self.worker_late_max.max(later.worker_late_max);
        self.is_bound |= later.is_bound;
        self.disturbance.merge(&later.disturbance);
        self.in_window |= later.in_window;
    }
}

impl Recording {
    /// A recording with nothing in it yet.
    pub fn new(capsule: Capsule, plan: Plan) -> Self {
        Recording {
            capsule,
            plan,
            totals: Totals::default(),
            timeline: Timeline::default(),
            requests: RunRequests::default(),
            split: RunSplit::default(),
            courses: RunCourses::default(),
            snapshots: Vec::new(),
            snapshot_stride: 1,
            after: Vec::new(),
            after_stride: 1,
            after_count: 0,
            events: Events::default(),
            profile: RunProfile::default(),
            samplers: Vec::new(),
            end: End::Partial,
            integrity: Integrity::default(),
        }
    }

    /// Whether there ever was a connection, warm-up included; what was answered had one.
    pub fn has_connected(&self) -> bool {
        let is_one = |counts: &Counts| counts.connected > 0 || counts.ok > 0 || counts.carried_ok > 0;
        is_one(&self.totals.sum.counts) || self.timeline.rows().iter().any(|row| is_one(&row.counts))
    }

    /// Adds a snapshot, thinning the kept ones when they are too many. `number` counts all snapshots of the run from 0.
    /// Its stacks are added to the run's, and its readings to [`Recording::courses`].
    pub fn push_snapshot(&mut self, number: u64, mut snapshot: Snapshot) {
        if let Some(profile) = snapshot.profile.take() {
            self.profile.add(&profile);
        }
        self.courses.push(&snapshot);
        if snapshot.is_after_load {
            thin_and_keep(&mut self.after, &mut self.after_stride, self.after_count, snapshot);
            self.after_count += 1;
        } else {
            thin_and_keep(&mut self.snapshots, &mut self.snapshot_stride, number, snapshot);
        }
    }

    /// Adds an event, within the bounds.
    pub fn push_event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// How many requests failed with one kind.
    pub fn errors(&self, kind: ErrorKind) -> u64 {
        self.totals.sum.errors.of(kind)
    }
}
