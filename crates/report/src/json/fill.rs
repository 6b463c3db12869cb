//! Fills the document in from a recording and a diagnosis.
//!
//! Nothing is judged here: a warning repeats what the recording says of itself (cut off, dropped, too few).

use super::SCHEMA;
use super::document::*;
use super::effects::Disruption;
use super::faults::Fault;
use super::isolation::Isolated;
use super::parts::{LoadBeside, PhaseFigures, WithoutWindows};
use super::remote::Remote;
use super::single::SingleRequests;
use super::split::Split;
use crate::figures::{
    Permille, host_use, quantile, reap_delay_ns_max, requested_per_s, rfc3339, s, us, worker_busy_max,
};
use crate::observed::{Readings, courses};
use crate::profile::Profile;
use crate::protocols::Replies;
use crate::words::{counted, of_example};
use crate::{Describe, damage};
use model::courses::RunCourses;
use model::event::{TLS_AGREED, TLS_FAILED};
use model::finding::{Diagnosis, Remark, Status};
use model::latency::AtLeast;
use model::profile::RunProfile;
use model::recording::{End, Row};
use model::remote::TargetHost;
use model::snapshot::{Role, SamplerState, Snapshot};
use model::users::time_quantile;
use model::{Histogram, LatencyKind, LatencySet, Recording, hide};

impl Document {
    /// The report of a recording. `recording_path` is where it is kept; intervals are those of the bounded timeline
    /// (see [`Document::with_rows`] for every tick).
    pub fn of(
        recording: &Recording,
        diagnosis: &Diagnosis,
        describe: Describe<'_>,
        recording_path: Option<&str>,
    ) -> Self {
        let capsule = &recording.capsule;
        let (findings, judged) = diagnosis.findings.iter().cloned().partition(|f| f.status == Status::Supported);
        Document {
            schema: SCHEMA,
            tool: Tool { name: "plimsoll", version: capsule.version.clone() },
            command: capsule.command.clone(),
            started_at: rfc3339(capsule.started_at_unix_ns),
            end: recording.end,
            recording: recording_path.map(str::to_owned),
            damage: recording.integrity.damage.clone(),
            host: Host {
                kernel: capsule.kernel.clone(),
                cpu: capsule.cpu.clone(),
                cores: capsule.cores,
                memory_bytes: capsule.memory_bytes,
                sysctls: capsule.sysctls.clone(),
                limits: capsule.limits.clone(),
            },
            plan: hide::plan(&recording.plan),
            validity: diagnosis.validity.clone(),
            summary: summary(recording, diagnosis),
            expectations: diagnosis.expectations.clone(),
            warnings: warnings(recording),
            requested: Load {
                connections: u64::from(recording.plan.connections),
                rate_per_s: requested_per_s(recording),
            },
            achieved: achieved(recording),
            totals: totals(recording),
            tls: tls(recording),
            latency: latency(recording),
            users: users(recording),
            without_windows: without_windows(recording),
            examples: examples(recording, describe),
            single_requests: SingleRequests::of(recording),
            split: Split::of(recording),
            generator: generator(recording),
            intervals: recording.timeline.rows().iter().map(IntervalRow::of).collect(),
            segments: diagnosis.segments.clone(),
            phases: PhaseFigures::of(recording),
            held: diagnosis.held.clone(),
            capacity: None,
            import: capsule.import.clone(),
            watched: capsule.watched.clone(),
            faults: Fault::with_effects(recording, diagnosis),
            isolation: Isolated::all_of(recording),
            disruptions: Disruption::all_of(diagnosis),
            observed: observed(
                &recording.courses,
                &recording.snapshots,
                &recording.profile,
                capsule.target_host.as_ref(),
            ),
            events: recording.events.iter().map(happened).collect(),
            events_lost: recording.events.lost().clone(),
            samplers: recording.samplers.clone(),
            findings,
            judged,
            gives: diagnosis.gives.clone(),
            losses: diagnosis.losses.clone(),
            load: capsule.together.as_ref().and_then(|together| together.this()).map(|load| load.name.clone()),
            generators: capsule.generators.clone(),
            loads: Vec::new(),
        }
    }

    /// The same with the other loads of the run.
    #[must_use]
    pub fn with_loads(self, loads: Vec<LoadBeside>) -> Self {
        Document { loads, ..self }
    }

    /// The same with other intervals.
    pub(super) fn with<R>(self, intervals: R) -> Document<R> {
        Document {
            schema: self.schema,
            tool: self.tool,
            command: self.command,
            started_at: self.started_at,
            end: self.end,
            recording: self.recording,
            damage: self.damage,
            host: self.host,
            plan: self.plan,
            validity: self.validity,
            summary: self.summary,
            expectations: self.expectations,
            warnings: self.warnings,
            requested: self.requested,
            achieved: self.achieved,
            totals: self.totals,
            tls: self.tls,
            latency: self.latency,
            users: self.users,
            without_windows: self.without_windows,
            examples: self.examples,
            single_requests: self.single_requests,
            split: self.split,
            generator: self.generator,
            intervals,
            segments: self.segments,
            phases: self.phases,
            held: self.held,
            capacity: self.capacity,
            import: self.import,
            watched: self.watched,
            faults: self.faults,
            isolation: self.isolation,
            disruptions: self.disruptions,
            observed: self.observed,
            events: self.events,
            events_lost: self.events_lost,
            samplers: self.samplers,
            findings: self.findings,
            judged: self.judged,
            gives: self.gives,
            losses: self.losses,
            load: self.load,
            generators: self.generators,
            loads: self.loads,
        }
    }
}

impl IntervalRow {
    /// The row of a tick, or of several merged.
    pub fn of(row: &Row) -> Self {
        let us = |ns: Option<u64>| ns.map(us);
        IntervalRow {
            t_s: s(row.start_ns),
            length_s: s(row.end_ns.saturating_sub(row.start_ns)),
            is_drain: row.is_drain,
            requests: row.counts.requests(),
            ok: row.counts.ok,
            failed: row.counts.failed,
            started: row.counts.started,
            dropped: row.counts.dropped,
            warmup: row.counts.warmup,
            connections: row.gauges.connections,
            in_flight: row.gauges.in_flight,
            queued: row.gauges.queued,
            response_p50_us: us(row.response_p50_ns),
            response_p99_us: us(row.response_p99_ns),
            lag_p99_us: us(row.lag_p99_ns),
            failed_p50_us: us(row.failed_p50_ns),
            failed_p99_us: us(row.failed_p99_ns),
            bytes_sent: row.counts.bytes_sent,
            bytes_received: row.counts.bytes_received,
            worker_busy: row.worker_busy_max,
            worker_wait: row.worker_wait_max,
            worker_late: row.worker_late_max,
            never_taken_up: row.counts.never_taken_up,
            at_least: if row.is_bound { vec!["response_p99_us"] } else { Vec::new() },
            disturbance: row.disturbance,
            in_window: row.in_window,
        }
    }
}

impl Quantiles {
    /// Those of a kind of latency, nanoseconds. What had not ended enters at its age, the mean too.
    pub fn of(latency: &LatencySet<u64>, kind: LatencyKind) -> Self {
        let h = latency.of(kind);
        let open = kind.censored().map(|censored| latency.of(censored)).filter(|open| !open.is_empty());
        let unfinished = open.map_or(0, Histogram::len);
        let mut at_least = Vec::new();
        let mut figure = |name: &'static str, figure: Option<AtLeast>| {
            if figure.is_some_and(|figure| figure.is_bound) {
                at_least.push(name);
            }
            figure.map(|figure| us(figure.ns))
        };
        let mut q = |name, permille| figure(name, quantile(latency, kind, Permille(permille)));
        let (p50_us, p75_us, p90_us) = (q("p50_us", 500), q("p75_us", 750), q("p90_us", 900));
        let (p95_us, p99_us, p999_us) = (q("p95_us", 950), q("p99_us", 990), q("p999_us", 999));
        let max_us = figure("max_us", latency.max(kind));
        let sum = |h: &Histogram<u64>| if h.is_empty() { 0.0 } else { h.mean() * h.len() as f64 };
        let count = h.len() + unfinished;
        if unfinished > 0 {
            at_least.push("mean_us");
        }
        Quantiles {
            count: h.len(),
            unfinished,
            mean_us: (count > 0).then(|| (sum(h) + open.map_or(0.0, sum)) / count as f64 / 1e3),
            p50_us,
            p75_us,
            p90_us,
            p95_us,
            p99_us,
            p999_us,
            max_us,
            at_least,
        }
    }
}

/// What the diagnosis says first, and before it that the recording is damaged.
fn summary(recording: &Recording, diagnosis: &Diagnosis) -> Vec<Remark> {
    let damage = damage::sentence(&recording.integrity).map(|text| Remark { id: "recording-damaged".to_owned(), text });
    damage.into_iter().chain(diagnosis.summary.iter().cloned()).collect()
}

fn warnings(recording: &Recording) -> Vec<Warning> {
    let totals = &recording.totals;
    let mut warnings = Vec::new();
    let mut warn = |id, text: String| warnings.push(Warning { id, text });
    let requests = totals.sum.counts.started + totals.sum.counts.warmup;
    if let Some(text) = crate::protocols::of(&recording.plan.workload).used_up(requests) {
        warn("data-used-up", text);
    }
    match recording.end {
        End::Complete => {}
        End::Interrupted => warn("interrupted", "the run was ended early; the figures cover what was done".to_owned()),
        End::Partial => warn("partial", "the recording stops in the middle of the run".to_owned()),
    }
    if recording.integrity.without_checksums {
        warn("without-checksums", damage::WITHOUT_CHECKSUMS.to_owned());
    }
    if let Some(import) = &recording.capsule.import {
        warn("import", format!("no load was put on: the readings are of {}", import.name()));
        return warnings;
    }
    if let Some(whom) = &recording.capsule.watched {
        warn("watched", format!("no load was put on: {whom} was watched"));
        return warnings;
    }
    if !totals.is_conserved() {
        let text = "started requests are not all accounted for: this is a defect of plimsoll, please report it";
        warn("not-conserved", text.to_owned());
    }
    if totals.sum.counts.dropped > 0 {
        warn("dropped", format!("{} never started", counted(totals.sum.counts.dropped, "request")));
    }
    let never = totals.sum.counts.never_taken_up;
    if never > 0 {
        warn("never-taken-up", format!("{} due and never taken up by the generator", counted(never, "request")));
    }
    let successes = totals.sum.latency.of(LatencyKind::Response).len();
    let needed = Permille(999).samples_needed();
    if successes < needed {
        warn("too-few", format!("a p99.9 needs {needed} successes; there were {successes}"));
    }
    for (kind, lost) in recording.events.lost() {
        warn("events-lost", format!("{} of the kind {kind} more than are kept", counted(*lost, "event")));
    }
    for sampler in recording.samplers.iter().filter(|sampler| sampler.status == SamplerState::Failed) {
        warn("sampler-failed", format!("{}: {}", sampler.name, sampler.reason));
    }
    warnings
}

fn achieved(recording: &Recording) -> Achieved {
    let totals = &recording.totals;
    let in_time = &totals.in_time;
    Achieved {
        connections: totals.connections_max,
        rate_per_s: totals.requests_per_s(),
        ok_per_s: totals.per_s(in_time.ok_arrived()),
        bytes_received_per_s: totals.per_s(in_time.bytes_received),
        bytes_sent_per_s: totals.per_s(in_time.bytes_sent),
        measured_s: s(totals.measured_ns),
    }
}

fn totals(recording: &Recording) -> Totals {
    let sum = &recording.totals.sum;
    let c = &sum.counts;
    Totals {
        started: c.started,
        requests: c.requests(),
        ok: c.ok,
        failed: c.failed,
        in_flight_at_end: recording.totals.in_flight_at_end,
        attempts: c.attempts(),
        retries: c.retries,
        retries_denied: c.retries_denied,
        amplification: (c.started > 0).then(|| c.attempts() as f64 / c.started as f64),
        dropped: c.dropped,
        never_taken_up: c.never_taken_up,
        carried_over: c.carried_ok + c.carried_failed,
        warmup: c.warmup,
        bytes_sent: c.bytes_sent,
        bytes_received: c.bytes_received,
        errors: sum.errors.seen().map(|(kind, n)| (kind.name(), n)).collect(),
        connection_errors: sum.connection_errors.seen().map(|(kind, n)| (kind.name(), n)).collect(),
        replies: Replies::of(recording),
        connections: ConnectionTotals {
            connected: c.connected,
            connect_failed: c.connect_failed,
            closed_by_us: c.closed_by_us,
            closed_by_peer: c.closed_by_peer,
        },
    }
}

fn tls(recording: &Recording) -> Option<Tls> {
    let counts = &recording.totals.sum.counts;
    let event = |kind| recording.events.iter().find(|event| event.kind == kind).map(|event| event.text.clone());
    let agreed = recording.events.iter().find(|event| event.kind == TLS_AGREED).map(|event| &event.details);
    recording.plan.tls.as_ref().map(|_| Tls {
        agreed: event(TLS_AGREED),
        certificate: agreed.and_then(|details| details.certificate.clone()),
        certificate_bits: agreed.and_then(|details| details.certificate_bits),
        failed: event(TLS_FAILED),
        handshakes_full: counts.handshakes_full,
        handshakes_resumed: counts.handshakes_resumed,
    })
}

fn latency(recording: &Recording) -> Latency {
    let of = |kind| Quantiles::of(&recording.totals.sum.latency, kind);
    Latency {
        response: of(LatencyKind::Response),
        service: of(LatencyKind::Service),
        failed: of(LatencyKind::Failed),
        connect: of(LatencyKind::Connect),
        tls: of(LatencyKind::Tls),
        first_byte: of(LatencyKind::FirstByte),
        queue: of(LatencyKind::Queue),
        lag: of(LatencyKind::Lag),
    }
}

fn users(recording: &Recording) -> Option<Users> {
    let spread = recording.totals.users?;
    let mut at_least = Vec::new();
    let mut of = |name: &'static str, quantile| {
        let figure = time_quantile(&recording.totals.sum.latency, quantile)?;
        if figure.is_bound {
            at_least.push(name);
        }
        Some(us(figure.ns))
    };
    let (time_p50_us, time_p90_us) = (of("time_p50_us", 0.5), of("time_p90_us", 0.9));
    let time_p99_us = of("time_p99_us", 0.99);
    Some(Users { spread, time_p50_us, time_p90_us, time_p99_us, at_least })
}

fn without_windows(recording: &Recording) -> Option<WithoutWindows> {
    let rest = crate::figures::without_windows(recording)?;
    let of = |figure: Option<AtLeast>| figure.map(|figure| us(figure.ns));
    Some(WithoutWindows {
        share: rest.share,
        rate_per_s: rest.rate_per_s,
        response_p50_us: of(rest.p50),
        response_p99_us: of(rest.p99),
        is_beyond_cost: rest.is_beyond_cost,
    })
}

fn examples(recording: &Recording, describe: Describe<'_>) -> Vec<Example> {
    let origin = |index: u16| recording.plan.origins.get(usize::from(index)).map_or(String::new(), |o| o.name.clone());
    recording
        .totals
        .examples()
        .map(|example| Example {
            kind: example.kind.name(),
            phase: example.phase,
            at_s: s(example.at_ns),
            errno: (example.errno != 0).then_some(example.errno),
            unsent_bytes: example.unsent_bytes,
            origin: origin(example.origin),
            text: of_example(&example, describe),
        })
        .collect()
}

fn generator(recording: &Recording) -> Generator {
    let totals = &recording.totals;
    Generator {
        cpu_seconds: s(totals.cpu_user_ns) + s(totals.cpu_system_ns),
        cpu_user_seconds: s(totals.cpu_user_ns),
        cpu_system_seconds: s(totals.cpu_system_ns),
        requests_per_cpu_second: crate::figures::requests_per_cpu_second(recording),
        peak_rss_bytes: totals.peak_rss_bytes,
        driver: recording.capsule.driver.clone(),
        driver_reason: recording.capsule.driver_reason.clone(),
        threads: recording.plan.threads,
        worker_busy_max: worker_busy_max(recording),
        reap_delay_max_us: us(reap_delay_ns_max(recording)),
        first_request_us: totals.first_request_ns.map(us),
        receive_stamps: recording.plan.receive_stamps,
    }
}

fn happened(event: &model::Event) -> Happened {
    Happened {
        t_s: event.at_ns as f64 / 1e9,
        kind: event.kind.clone(),
        text: event.text.clone(),
        details: event.details.clone(),
    }
}

/// What was read of the host and the processes: of all readings `courses`, of those that are kept `snapshots`.
pub(crate) fn observed(
    run: &RunCourses,
    snapshots: &[Snapshot],
    profile: &RunProfile,
    target_host: Option<&TargetHost>,
) -> Observed {
    let host = host_use(snapshots);
    let of = |role| {
        let process = |process: &model::courses::ProcessCourse| Process {
            pid: process.pid,
            name: process.name.clone(),
            cpus: process.cpu.and_then(|cpu| cpu.cpus()),
            busiest_thread: process.busiest_thread().map(|(name, cpu)| Thread { name: name.to_owned(), cpu }),
            rss_max_bytes: process.rss_bytes.map(|course| course.max),
            descriptors_max: process.descriptors.map(|course| course.max),
            threads: process.threads_total,
            runtime: process.runtime,
            metrics: courses(&process.metrics),
        };
        run.of_role(role).map(process).collect()
    };
    Observed {
        host_busy: host.map(|h| h.busy),
        host_steal: host.map(|h| h.steal),
        memory_available_min_bytes: run.memory_available_bytes.map(|course| course.min),
        time_wait_start: run.time_wait.map(|course| course.first),
        time_wait_max: run.time_wait.map(|course| course.max),
        time_wait_end: run.time_wait.map(|course| course.last),
        bpf: super::bpf::of(snapshots),
        disagreements: crate::agreement::of(snapshots),
        profile: Profile::of(profile),
        remote: target_host.map(|host| Remote::of(host, snapshots)),
        target: of(Role::Target),
        generator: of(Role::Generator),
        metrics: Readings::of(run),
    }
}
