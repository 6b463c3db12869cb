//! The types of `plimsoll.report/1`, in the order they are written.
//!
//! Data only; [`super::fill`] fills them in. A field that is added needs a doc comment: it becomes the schema's text.

use super::effects::Disruption;
use super::faults::Fault;
use super::isolation::Isolated;
use super::parts::{LoadBeside, PhaseFigures, WithoutWindows};
use super::remote::Remote;
use super::single::SingleRequests;
use super::split::Split;
use crate::observed::{Courses, Readings};
use crate::profile::Profile;
use crate::protocols::Replies;
use model::Plan;
use model::event::Details;
use model::finding::{Finding, HeldLine, Judgement, Loss, Remark, Segment, Validity, WhatGives};
use model::integrity::Damage;
use model::recording::End;
use model::snapshot::{Runtime, SamplerStatus};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document<R = Vec<IntervalRow>> {
    /// Always `plimsoll.report/1`.
    pub schema: &'static str,
    /// What wrote it.
    pub tool: Tool,
    /// The command line of the run.
    pub command: Vec<String>,
    /// When the run started: RFC 3339, UTC.
    pub started_at: String,
    /// How it ended.
    pub end: End,
    /// The recording's file; null when there is none.
    pub recording: Option<String>,
    /// What of the recording is not as it was written, and left out of all that follows; empty of a sound one.
    pub damage: Vec<Damage>,
    /// Where it ran.
    pub host: Host,
    /// What was to be done. Header fields that carry credentials are hidden.
    pub plan: Plan,
    /// Whether the figures may be believed.
    pub validity: Validity,
    /// What must be known before any figure is read, the weightiest first: a damaged recording, a target that died, was
    /// silent, said failure, or served only some. Empty where there is nothing of the kind.
    pub summary: Vec<Remark>,
    /// What was expected of the figures, and whether it is so; of what goes without saying only where it is not.
    pub expectations: Vec<Judgement>,
    /// What is worth knowing before the figures are used.
    pub warnings: Vec<Warning>,
    /// What was asked for.
    pub requested: Load,
    /// What came of it.
    pub achieved: Achieved,
    /// Counts, warm-up excluded. requests = ok + failed; started = requests + in_flight_at_end.
    pub totals: Totals,
    /// TLS; null on plain connections.
    pub tls: Option<Tls>,
    /// Latencies.
    pub latency: Latency,
    /// How the replies were spread over the connections; null where nobody counted.
    pub users: Option<Users>,
    /// The figures without the intervals in which a window of the observer's probes lay; null where none did.
    pub without_windows: Option<WithoutWindows>,
    /// The first failure of each kind.
    pub examples: Vec<Example>,
    /// Single requests and pauses.
    pub single_requests: SingleRequests,
    /// Where the time of requests went; null where nobody looked for it (`--observe windows` or `full` does).
    pub split: Option<Split>,
    /// What the load cost.
    pub generator: Generator,
    /// The course of the run.
    pub intervals: R,
    /// The stretches of the measured time in which throughput, response time and failures kept their levels, in order: one,
    /// where nothing changed. Of a run of more than 600 intervals their ends are as coarse as those of its timeline.
    pub segments: Vec<Segment>,
    /// The phases of the load, in order; only of a run that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseFigures>,
    /// What held connections came to; only of a run that held some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldLine>,
    /// The load line; only of a search for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Where the readings come from, of an import; no load was put on then, and what is of one says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<model::import::Import>,
    /// Who was watched, of a recording of `plimsoll watch`; no load was put on then, and what is of one says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<String>,
    /// The faults of the run, in the order in which they were asked for, and what became of each.
    pub faults: Vec<Fault>,
    /// What held the machine still for the run (`--isolate`), and what could not be set; empty: nothing was asked for.
    pub isolation: Vec<Isolated>,
    /// What else befell the target: it died and came back, or nothing succeeded for a while.
    pub disruptions: Vec<Disruption>,
    /// What was read of the host and the processes.
    pub observed: Observed,
    /// What happened, oldest first; of each kind at most as many as a recording keeps.
    pub events: Vec<Happened>,
    /// How many more happened, by kind.
    pub events_lost: BTreeMap<String, u64>,
    /// How each sampler fared.
    pub samplers: Vec<SamplerStatus>,
    /// Causes that the evidence supports, those that explain most first. Empty: nothing was found, which is not "fine"
    /// where `judged` has what could not be observed.
    pub findings: Vec<Finding>,
    /// Every other cause that was looked for: refuted, not applicable, or not observable with what was missing. Of the same
    /// shape.
    pub judged: Vec<Finding>,
    /// What gives first, in one sentence; null of a diagnosis that does not say it.
    pub gives: Option<WhatGives>,
    /// What users lost, the weightiest first, each with the part of it that no finding explains. Empty: nothing was lost.
    pub losses: Vec<Loss>,
    /// What this load is called, of several that were put on together; all else here is of it, but for the readings of the machine
    /// and `generator`, which are of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Of a recording that was merged of several generators': each of them, with its own verdict; `generator` is all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generators: Option<model::recording::Generators>,
    /// The other loads that were put on together with this one, which is the main one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadBeside>,
}

/// What wrote the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// The version that made the run.
    pub version: String,
}

/// Where it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// CPU model, in words.
    pub cpu: String,
    /// Cores the generator could use.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Kernel settings by their sysctl name.
    pub sysctls: BTreeMap<String, String>,
    /// The generator's limits.
    pub limits: BTreeMap<String, String>,
}

/// Something worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warning {
    /// A fixed kebab-case word.
    pub id: &'static str,
    /// A sentence.
    pub text: String,
}

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Load {
    /// Connections held at once.
    pub connections: u64,
    /// Requests a second: the plan's mean over the measured time; null for a closed pace.
    pub rate_per_s: Option<f64>,
}

/// A load that was reached.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Achieved {
    /// Most connections established at the end of any interval.
    pub connections: u64,
    /// Requests that ended during the load, a second of measured time, failed ones included.
    pub rate_per_s: f64,
    /// Requests with the reply that was due, a second.
    pub ok_per_s: f64,
    /// Bytes received, a second.
    pub bytes_received_per_s: f64,
    /// Bytes sent, a second.
    pub bytes_sent_per_s: f64,
    /// Measured time, seconds: warm-up and drain excluded.
    pub measured_s: f64,
}

/// Counts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Totals {
    /// Taken up by a worker.
    pub started: u64,
    /// Ended.
    pub requests: u64,
    /// With the reply that was due.
    pub ok: u64,
    /// Without.
    pub failed: u64,
    /// Unfinished: still under way when the run ended.
    pub in_flight_at_end: u64,
    /// Attempts at the requests that were started: one each, and the retries.
    pub attempts: u64,
    /// Attempts beyond the first of a request (`--on-error`).
    pub retries: u64,
    /// Requests that failed for want of a retry that the budget did not allow (`--retry-budget`).
    pub retries_denied: u64,
    /// Attempts for each request that was started; null: none was.
    pub amplification: Option<f64>,
    /// Never started.
    pub dropped: u64,
    /// Due before the end of the load, and the generator had not come to them by then; never started.
    pub never_taken_up: u64,
    /// Due during warm-up and ended after it: in rates, and in no other figure.
    pub carried_over: u64,
    /// Ended during warm-up; in no other figure.
    pub warmup: u64,
    /// Bytes handed to the kernel.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Failed requests by kind; kinds that did not occur are absent.
    pub errors: BTreeMap<&'static str, u64>,
    /// What befell connections while no request was theirs to fail, by kind.
    pub connection_errors: BTreeMap<&'static str, u64>,
    /// Replies by their outcomes, as each protocol has them.
    #[serde(flatten)]
    pub replies: Replies,
    /// Connections.
    pub connections: ConnectionTotals,
}

/// TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tls {
    /// What the first connection agreed on: version, cipher suite, key exchange group, kind of certificate, ALPN; null
    /// where no handshake was done.
    pub agreed: Option<String>,
    /// Kind and size of the key of the certificate that the server showed it, such as `rsa-2048`, `ecdsa-p256`,
    /// `ed25519`; null where there was none, or of another kind.
    pub certificate: Option<String>,
    /// Bits of that key; null where `certificate` is.
    pub certificate_bits: Option<u32>,
    /// Why the first failed one failed; null where none did.
    pub failed: Option<String>,
    /// Handshakes done in full.
    pub handshakes_full: u64,
    /// Handshakes that resumed a session.
    pub handshakes_resumed: u64,
}

/// What became of connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConnectionTotals {
    /// Established.
    pub connected: u64,
    /// Attempts that failed.
    pub connect_failed: u64,
    /// Closed by us.
    pub closed_by_us: u64,
    /// Closed or reset by the peer.
    pub closed_by_peer: u64,
}

/// Latencies by what they are the duration of.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// done − intended, successes only.
    pub response: Quantiles,
    /// done − sent, successes only.
    pub service: Quantiles,
    /// done − intended of failed requests; a timeout enters at its timeout.
    pub failed: Quantiles,
    /// Opening a connection.
    pub connect: Quantiles,
    /// The TLS handshake.
    pub tls: Quantiles,
    /// first byte − sent, successes only.
    pub first_byte: Quantiles,
    /// sent − ready: no connection was free. The target's doing.
    pub queue: Quantiles,
    /// ready − intended: the generator's own delay.
    pub lag: Quantiles,
}

/// How the replies were spread over the connections, and the time that users spent waiting.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Users {
    /// Connections, replies of them, and which of them starved.
    #[serde(flatten)]
    pub spread: model::users::Users,
    /// The length of the request that a user has under way at a moment drawn from all users' waiting, microseconds: each
    /// request counts for as long as it took, failed and unfinished ones too. Its median.
    pub time_p50_us: Option<f64>,
    /// Its 90th percentile.
    pub time_p90_us: Option<f64>,
    /// Its 99th percentile.
    pub time_p99_us: Option<f64>,
    /// Which of these are lower bounds.
    pub at_least: Vec<&'static str>,
}

/// A distribution, microseconds. A quantile q is null with fewer than 10 / (1 − q) samples.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Quantiles {
    /// Samples that ended.
    pub count: u64,
    /// Requests that had not ended: they are in every figure here at the age that they had, which is a lower bound.
    pub unfinished: u64,
    /// Which figures are lower bounds, as unfinished requests are at or below them: `p99_us` and so on.
    pub at_least: Vec<&'static str>,
    /// Mean.
    pub mean_us: Option<f64>,
    /// From 20 samples on.
    pub p50_us: Option<f64>,
    /// From 40 samples on.
    pub p75_us: Option<f64>,
    /// From 100 samples on.
    pub p90_us: Option<f64>,
    /// From 200 samples on.
    pub p95_us: Option<f64>,
    /// From 1,000 samples on.
    pub p99_us: Option<f64>,
    /// From 10,000 samples on.
    pub p999_us: Option<f64>,
    /// The largest.
    pub max_us: Option<f64>,
}

/// The first failure of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Example {
    /// The kind.
    pub kind: &'static str,
    /// What the request was doing.
    pub phase: model::Phase,
    /// Seconds since the run's start.
    pub at_s: f64,
    /// The kernel's error number; null where there was none.
    pub errno: Option<i32>,
    /// Bytes of the request that the kernel had not taken: it was still being sent.
    pub unsent_bytes: u64,
    /// The origin it went to.
    pub origin: String,
    /// In words.
    pub text: String,
}

/// What the load cost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Generator {
    /// CPU time of the process, user and system, seconds.
    pub cpu_seconds: f64,
    /// User CPU time, seconds.
    pub cpu_user_seconds: f64,
    /// System CPU time, seconds.
    pub cpu_system_seconds: f64,
    /// Requests that ended for each second of CPU; null where that was not read.
    pub requests_per_cpu_second: Option<f64>,
    /// Highest resident memory, bytes.
    pub peak_rss_bytes: u64,
    /// How sockets were driven.
    pub driver: String,
    /// Why that way.
    pub driver_reason: String,
    /// Workers.
    pub threads: u16,
    /// The CPU share of the busiest worker in any interval, 0..=1.
    pub worker_busy_max: f64,
    /// The longest a completion may have waited before a worker looked, microseconds.
    pub reap_delay_max_us: f64,
    /// From the start of the process to the first request, microseconds; null when none was sent.
    pub first_request_us: Option<f64>,
    /// Whether kernel receive stamps served as `done`.
    pub receive_stamps: bool,
}

/// A piece of the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IntervalRow {
    /// Its start, seconds since the run's start.
    pub t_s: f64,
    /// Its length, seconds.
    pub length_s: f64,
    /// Whether it lies after the end of the load, while requests in flight were waited for.
    pub is_drain: bool,
    /// Requests that ended.
    pub requests: u64,
    /// With the reply that was due.
    pub ok: u64,
    /// Without.
    pub failed: u64,
    /// Taken up.
    pub started: u64,
    /// Never started.
    pub dropped: u64,
    /// Ended though due during warm-up; in no other figure.
    pub warmup: u64,
    /// Connections established at its end.
    pub connections: u64,
    /// Requests sent and not answered at its end.
    pub in_flight: u64,
    /// Requests waiting for a connection at its end.
    pub queued: u64,
    /// Median response time, however few the samples (`ok` says how many); of merged ticks the largest. Null: none.
    pub response_p50_us: Option<f64>,
    /// 99th percentile, likewise.
    pub response_p99_us: Option<f64>,
    /// 99th percentile of the generator's own delay, likewise.
    pub lag_p99_us: Option<f64>,
    /// Median of the time to failure of requests that failed, likewise.
    pub failed_p50_us: Option<f64>,
    /// 99th percentile of it, likewise.
    pub failed_p99_us: Option<f64>,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// CPU share of the busiest worker, 0..=1.
    pub worker_busy: f64,
    /// The largest share of it that a worker was runnable and waited for a CPU, 0..=1.
    pub worker_wait: f64,
    /// The largest share of it by which a worker's turns were late, 0..=1.
    pub worker_late: f64,
    /// Requests due and never taken up, counted when the load ended.
    pub never_taken_up: u64,
    /// Which of these are lower bounds, as unfinished requests are at or below them.
    pub at_least: Vec<&'static str>,
    /// What kept the generator from running in it, or did so just before.
    pub disturbance: model::recording::Disturbance,
    /// Whether a window of the observer's probes lay in it.
    pub in_window: bool,
}

/// The load line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Capacity {
    /// The highest load that met the objective.
    pub load_line: f64,
    /// Its unit.
    pub unit: String,
    /// Lower end of its confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The objective.
    pub slo: String,
    /// Id of the finding that says what gives first; null when none does.
    pub first_to_give: Option<String>,
}

/// What was read of the host and the processes. Null: could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Observed {
    /// Share of all cores' time that was worked, 0..=1.
    pub host_busy: Option<f64>,
    /// Share taken by the hypervisor, 0..=1.
    pub host_steal: Option<f64>,
    /// Least memory available, bytes.
    pub memory_available_min_bytes: Option<u64>,
    /// Sockets in TIME_WAIT at the start, the generator's network namespace.
    pub time_wait_start: Option<u64>,
    /// Most sockets in TIME_WAIT.
    pub time_wait_max: Option<u64>,
    /// Sockets in TIME_WAIT at the end.
    pub time_wait_end: Option<u64>,
    /// What the kernel's probes counted of the target; `null` where none ran.
    pub bpf: Option<Bpf>,
    /// Where two sources of one metric did not agree.
    pub disagreements: Vec<crate::agreement::Disagreement>,
    /// Where its threads ran and waited; `null` where nothing was seen of it.
    pub profile: Option<Profile>,
    /// The target's machine and the link to it, where it is another than the generator's and was observed there: then
    /// what stands here of host, network and probes is of that machine. `null`: all is of one.
    pub remote: Option<Remote>,
    /// The target's processes.
    pub target: Vec<Process>,
    /// The generator's own.
    pub generator: Vec<Process>,
    /// All other readings, by name.
    pub metrics: Readings,
}

/// Something with a moment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Happened {
    /// Seconds since the run's start; negative: before it.
    pub t_s: f64,
    /// A fixed kebab-case word.
    pub kind: String,
    /// One sentence.
    pub text: String,
    /// What is known of it, field by field.
    #[serde(skip_serializing_if = "Details::is_empty")]
    pub details: Details,
}

/// What the kernel's probes counted, from the start of the run to the last reading. The probes `syscalls`, `offcpu`,
/// `locks`, `block`, `futex` and `delayed_acks` ran in windows only.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bpf {
    /// Counts by `probe.what`; those that end in `_lost` did not fit into a bounded map.
    pub counts: BTreeMap<String, u64>,
    /// Histograms by `probe.what_unit`.
    pub histograms: BTreeMap<String, BpfHistogram>,
    /// Segments dropped on their way to the target's ports, by the kernel's reason.
    pub drops: BTreeMap<String, u64>,
    /// Windows, and their length together.
    pub windows: u64,
    /// See `windows`.
    pub window_s: f64,
    /// How long of that system calls and delayed acknowledgements were counted: of a busy target, only until enough were
    /// seen.
    pub calls_window_s: f64,
    /// Replies that the target began meanwhile.
    pub window_replies: u64,
    /// System calls a reply, in the windows; `null` without one.
    pub calls_per_reply: Option<f64>,
    /// System calls in the windows, longest first.
    pub calls: Vec<model::bpf::CallUse>,
    /// Where threads waited in the windows, longest first.
    pub waits: Vec<model::bpf::WaitUse>,
    /// Where threads waited in `futex` in the windows, longest first.
    pub futexes: Vec<model::bpf::FutexUse>,
    /// Calls of 1 ms and more in the windows, by kind of descriptor, longest in all first.
    pub long_calls: Vec<model::bpf::LongCall>,
    /// How threads spent the windows; `null`: it was not looked at.
    pub threads: Option<model::threads::ThreadStates>,
    /// The files that the target opened most often in the windows.
    pub files: Vec<model::bpf::FileUse>,
}

/// A histogram by powers of two.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BpfHistogram {
    /// Values.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// The median is at most this, and more than half of it.
    pub p50_at_most: Option<u64>,
    /// See `p50_at_most`.
    pub p99_at_most: Option<u64>,
    /// Buckets that are not empty, lowest first.
    pub buckets: Vec<BpfBucket>,
}

/// How many values lie between two edges, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BpfBucket {
    /// Lower edge.
    pub from: u64,
    /// Upper edge.
    pub to: u64,
    /// Values.
    pub count: u64,
}

/// A process over the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// CPUs it used on average.
    pub cpus: Option<f64>,
    /// The thread that used most CPU.
    pub busiest_thread: Option<Thread>,
    /// Highest resident memory, bytes.
    pub rss_max_bytes: Option<u64>,
    /// Most descriptors open.
    pub descriptors_max: Option<u64>,
    /// Threads it had at last.
    pub threads: u32,
    /// The language runtime it has mapped; null: none that is known, or it was not looked at.
    pub runtime: Option<Runtime>,
    /// Its other readings, by name.
    pub metrics: Courses,
}

/// A thread over the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its share of one CPU, 0..=1.
    pub cpu: f64,
}
