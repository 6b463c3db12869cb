//! A segment of a run as a recording of its own, so that every rule can be asked of it what it is asked of the whole.
//!
//! Why: of a cause that begins part-way, figures of the whole run are diluted by the time before it, in a closed loop by many
//! times as many requests. How: counters are sums of the timeline's rows in the window, times are those of the single requests
//! that ended in it, and of what the probes had counted the difference of two samples. Levels and rates of readings need nothing:
//! the history is asked for any window.
//! What it does not have: how replies were spread over connections, replies by outcome where some failed outside it too, and the
//! histogram of all requests. Times are of a sample, each for as many as it stands for, so its quantiles are those of so many.
//! Connects are those of the whole run, where some were made in it. Cost: a copy of what is kept in memory (60 snapshots, 4,096
//! requests), once where a segment is looked at.

use model::ErrorKind;
use model::Interval;
use model::bpf::BpfSample;
use model::interval::Counts;
use model::latency::Kind;
use model::profile::RunProfile;
use model::recording::{Recording, Row, Totals};
use model::request::{Request, RequestEnd};
use model::snapshot::Snapshot;

/// A window of a run, nanoseconds since its start, as a recording.
pub(crate) fn part(recording: &Recording, from_ns: u64, to_ns: u64) -> Recording {
    let timeline = recording.timeline.within(from_ns, to_ns);
    let mut in_time = Counts::default();
    timeline.rows().iter().filter(|row| !row.is_drain).for_each(|row| in_time.add(&row.counts));
    let requests = recording.requests.within(from_ns, to_ns, in_time.requests());
    let is_last = to_ns >= last_end_ns(recording);
    let mut part = Recording {
        timeline,
        totals: Totals::default(),
        split: recording.split.within(from_ns, to_ns),
        snapshots: snapshots(recording, from_ns, to_ns),
        events: recording.events.iter().filter(|event| is_in(event.at_ns, from_ns, to_ns)).cloned().collect(),
        capsule: recording.capsule.clone(),
        plan: recording.plan.clone(),
        courses: recording.courses.clone(),
        snapshot_stride: recording.snapshot_stride,
        after: Vec::new(),
        after_stride: recording.after_stride,
        after_count: 0,
        profile: RunProfile::default(),
        samplers: recording.samplers.clone(),
        end: recording.end,
        integrity: recording.integrity.clone(),
        requests,
    };
    part.totals = totals(recording, &part, in_time, is_last);
    (part.totals.measured_from_ns, part.totals.measured_ns) = (from_ns, to_ns.saturating_sub(from_ns));
    part
}

fn totals(recording: &Recording, part: &Recording, in_time: Counts, is_last: bool) -> Totals {
    let whole = &recording.totals;
    let mut sum = Interval::new(0);
    sum.counts = in_time;
    for (weight, request) in part.requests.weighted().filter(|(_, request)| request.end == RequestEnd::Ok) {
        times(&mut sum, request, weight.round() as u64);
    }
    for request in part.requests.failed() {
        sum.latency.record(Kind::Failed, request.response_ns());
    }
    if in_time.connected > 0 || in_time.connect_failed > 0 {
        for kind in [Kind::Connect, Kind::Tls] {
            sum.latency.of_mut(kind).clone_from(whole.sum.latency.of(kind));
        }
    }
    if is_last {
        for kind in Kind::ALL.into_iter().filter_map(Kind::censored) {
            sum.latency.of_mut(kind).clone_from(whole.sum.latency.of(kind));
        }
    }
    errors(recording, part, &mut sum);
    Totals {
        in_time,
        in_flight_at_end: if is_last { whole.in_flight_at_end } else { 0 },
        peak_rss_bytes: whole.peak_rss_bytes,
        cpu_user_ns: in_time.cpu_user_ns,
        cpu_system_ns: in_time.cpu_system_ns,
        first_request_ns: whole.first_request_ns,
        connections_max: whole.connections_max,
        sum,
        ..Totals::default()
    }
}

/// The times of a request that stands for so many.
fn times(sum: &mut Interval<u64>, request: &Request, count: u64) {
    sum.latency.record_n(Kind::Response, request.response_ns(), count);
    sum.latency.record_n(Kind::Undelayed, request.ended_ns.saturating_sub(request.ready_ns), count);
    if let Some(service_ns) = request.service_ns() {
        sum.latency.record_n(Kind::Service, service_ns, count);
        sum.latency.record_n(Kind::Queue, request.sent_ns.saturating_sub(request.ready_ns), count);
        if request.first_byte_ns > 0 {
            sum.latency.record_n(Kind::FirstByte, request.first_byte_ns.saturating_sub(request.sent_ns), count);
        }
    }
}

/// Failures by kind: all of the run's where none failed outside, else as those that were kept share out.
fn errors(recording: &Recording, part: &Recording, sum: &mut Interval<u64>) {
    let failed = |rows: &[Row]| rows.iter().map(|row| row.counts.failed).fold(0, u64::saturating_add);
    let own = failed(part.timeline.rows());
    if own == 0 {
        return;
    }
    let whole = &recording.totals.sum;
    sum.examples = whole.examples.map(|one| one.filter(|example| lies_in(part, example.at_ns)));
    if own >= failed(recording.timeline.rows()) {
        (sum.errors, sum.connection_errors) = (whole.errors, whole.connection_errors);
        sum.outcomes = whole.outcomes.clone();
        return;
    }
    let kept: Vec<ErrorKind> = part
        .requests
        .failed()
        .filter_map(|request| match request.end {
            RequestEnd::Failed(kind) => Some(kind),
            RequestEnd::Ok | RequestEnd::Unfinished => None,
        })
        .collect();
    for kind in ErrorKind::ALL.iter().copied() {
        let of_kind = kept.iter().filter(|one| **one == kind).count() as f64;
        sum.errors.add(kind, (own as f64 * of_kind / kept.len().max(1) as f64).round() as u64);
    }
}

fn lies_in(part: &Recording, at_ns: u64) -> bool {
    let rows = part.timeline.rows();
    rows.first().zip(rows.last()).is_some_and(|(first, last)| (first.start_ns..=last.end_ns).contains(&at_ns))
}

fn is_in(at_ns: i64, from_ns: u64, to_ns: u64) -> bool {
    u64::try_from(at_ns).is_ok_and(|at_ns| at_ns >= from_ns && at_ns <= to_ns)
}

fn last_end_ns(recording: &Recording) -> u64 {
    recording.timeline.rows().iter().rfind(|row| !row.is_drain).map_or(0, |row| row.end_ns)
}

/// The snapshots up to the window's end. What the probes had counted by its beginning is taken from what they count in it; before
/// it they say nothing.
fn snapshots(recording: &Recording, from_ns: u64, to_ns: u64) -> Vec<Snapshot> {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    // A reading at a row's end may be some milliseconds late, and is of that row.
    let slack_ns = (to_ns.saturating_sub(from_ns) / 50).clamp(5_000_000, 50_000_000);
    let (from_ns, to_ns) = (signed(from_ns.saturating_add(slack_ns)), signed(to_ns.saturating_add(slack_ns)));
    let none = BpfSample::default();
    let before = || recording.snapshots.iter().rev().filter(|snapshot| snapshot.at_ns <= from_ns);
    let earlier = before().find_map(|snapshot| snapshot.bpf.as_ref()).unwrap_or(&none);
    let has_states = |sample: &&BpfSample| sample.threads.is_some();
    let base = before().filter_map(|snapshot| snapshot.bpf.as_ref()).find(has_states).unwrap_or(&none);
    let cut = |snapshot: &Snapshot| {
        let mut cut = snapshot.clone();
        cut.bpf = snapshot.bpf.as_ref().filter(|_| snapshot.at_ns > from_ns).map(|now| now.since(earlier, base));
        cut
    };
    recording.snapshots.iter().filter(|snapshot| snapshot.at_ns <= to_ns).map(cut).collect()
}
