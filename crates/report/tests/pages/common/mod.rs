//! Recordings built by hand, a case each, for the snapshots of every form of report.
#![allow(dead_code, reason = "each test file uses its part of this")]

pub mod answers;
pub mod surfaces;

use model::error_kind::ErrorExample;
use model::finding::{
    About, Diagnosis, Evidence, Figure, FigureVerdict, Finding, Quiet, Reason, Remark, Severity, Validity,
    ValidityState,
};
use model::interval::{Counts, Gauges};
use model::plan::*;
use model::recording::{Capsule, End, Row};
use model::snapshot::{CpuTimes, ProcessSample, Role, SamplerState, SamplerStatus, Snapshot, ThreadSample};
use model::{ErrorKind, LatencyKind, Phase, Recording, Status};
use std::borrow::Cow;
pub use testkit::recordings::SECOND_NS;
use testkit::recordings::{self, failure, get, http1, origin, process, steady};

/// A case: its name, the recording, the diagnosis.
pub type Case = (&'static str, Recording, Diagnosis);

/// All of them.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        healthy(),
        errors(),
        all_failed(),
        generator_lag(),
        partial(),
        nothing(),
        ten_million(),
        open_with_queue(),
        few(),
        unfinished(),
        quiet(),
        undetermined(),
    ];
    for (_, recording, _) in &mut cases {
        recording.totals.in_time = recording.totals.sum.counts;
    }
    cases
}

/// What the protocol says of its details.
pub fn describe(example: &ErrorExample) -> Option<Cow<'static, str>> {
    (example.detail == 7).then_some(Cow::Borrowed("a header line without a colon"))
}

/// A validator by a schema, which must be the one kept in `schema/`. With UPDATE_SCHEMA set, that one is written first.
pub fn fresh(name: &str, schema: &serde_json::Value) -> jsonschema::Validator {
    let path = format!("{}/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let fresh = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == fresh, "{path} is stale: run the tests once with UPDATE_SCHEMA=1 and look at the difference");
    jsonschema::validator_for(schema).unwrap()
}

fn plan() -> Plan {
    let headers = [("Host", "localhost:8080"), ("authorization", "Basic c2VjcmV0OnBhc3M=")]
        .map(|(name, value)| (name.to_owned(), model::hide::secret_field(name, value)));
    let workload = http1(HttpRequest { headers: headers.to_vec(), ..get() });
    let whole = recordings::plan(workload, vec![origin("http://localhost:8080", 8080)]);
    Plan {
        connections: 50,
        threads: 2,
        timeouts: Timeouts { connect_ns: 3 * SECOND_NS, ..whole.timeouts },
        driver: DriverKind::Uring,
        ..whole
    }
}

fn recording() -> Recording {
    let capsule = Capsule {
        version: "0.1.0".to_owned(),
        command: ["plimsoll", "load", "http://localhost:8080/"].map(str::to_owned).to_vec(),
        started_at_unix_ns: 1_753_971_753_123_000_000,
        kernel: "6.18.44".to_owned(),
        cpu: "2 × AMD EPYC".to_owned(),
        cores: 2,
        memory_bytes: 24 << 30,
        driver: "uring".to_owned(),
        driver_reason: "measured faster for this plan".to_owned(),
        ..Capsule::default()
    };
    let mut r = Recording::new(capsule, plan());
    r.end = End::Complete;
    r.totals.peak_rss_bytes = 9_600_000;
    r.totals.first_request_ns = Some(14_200_000);
    r
}

/// A bell on a logarithmic axis, from integers alone: the same on every machine.
fn spread(r: &mut Recording, kind: LatencyKind, middle_ns: u64, count: u64) {
    // Twelfths of the binomial coefficients of 12; then a thin tail.
    const BELL: [u64; 13] = [1, 12, 66, 220, 495, 792, 924, 792, 495, 220, 66, 12, 1];
    let mut left = count;
    for (i, share) in BELL.iter().enumerate() {
        for part in 0..8u64 {
            let n = (count * share / 4096 / 8).min(left);
            let step = (i as u64) * 8 + part;
            // From half to three times the middle, a little more each step.
            let ns = middle_ns / 2 + middle_ns * step * step / 4400;
            r.totals.sum.latency.record_n(kind, ns, n);
            left -= n;
        }
    }
    let tail = left.min(count / 5000);
    r.totals.sum.latency.record_n(kind, middle_ns * 20, tail);
    r.totals.sum.latency.record_n(kind, middle_ns, left - tail);
}

/// Ten seconds of load in a row, `per_s(second)` requests each.
fn course(r: &mut Recording, seconds: u64, per_s: impl Fn(u64) -> u64, p99_ns: impl Fn(u64) -> u64) {
    for second in 0..seconds {
        let ok = per_s(second);
        r.timeline.push(Row {
            start_ns: second * SECOND_NS,
            end_ns: (second + 1) * SECOND_NS,
            is_drain: false,
            counts: Counts {
                started: ok,
                ok,
                bytes_received: ok * 850,
                bytes_sent: ok * 80,
                cpu_user_ns: 300_000_000,
                ..Counts::default()
            },
            gauges: Gauges { connections: 50, reap_delay_ns_max: 41_000, ..Gauges::default() },
            response_p50_ns: (ok > 0).then(|| p99_ns(second) / 2),
            response_p99_ns: (ok > 0).then(|| p99_ns(second)),
            lag_p99_ns: Some(4_100),
            response_sum_ns: 0,
            worker_busy_max: 0.61,
            ..Row::default()
        });
    }
    r.totals.measured_ns = seconds * SECOND_NS;
    r.totals.connections_max = 50;
    r.totals.sum.counts.connected = 50;
    r.totals.cpu_user_ns = seconds * 300_000_000;
    r.totals.cpu_system_ns = seconds * 680_000_000;
}

fn succeeded(r: &mut Recording, ok: u64, middle_ns: u64) {
    let c = &mut r.totals.sum.counts;
    c.ok += ok;
    c.started += ok;
    c.bytes_received += ok * 850;
    c.bytes_sent += ok * 80;
    r.totals.sum.outcomes.add(200, ok);
    spread(r, LatencyKind::Response, middle_ns, ok);
    spread(r, LatencyKind::Service, middle_ns * 99 / 100, ok);
    spread(r, LatencyKind::FirstByte, middle_ns * 97 / 100, ok);
    r.totals.sum.latency.record_n(LatencyKind::Lag, 900, ok - ok / 20);
    r.totals.sum.latency.record_n(LatencyKind::Lag, 4_100, ok / 20);
    r.totals.sum.latency.record_n(LatencyKind::Connect, 61_000, 50);
}

fn failed(r: &mut Recording, kind: ErrorKind, phase: Phase, n: u64, errno: i32, detail: u32) {
    r.totals.sum.record_error(ErrorExample { errno, detail, ..failure(kind, phase, 3_204_000_000) });
    r.totals.sum.errors.add(kind, n - 1);
    r.totals.sum.counts.failed += n;
    r.totals.sum.counts.started += n;
}

fn valid() -> Diagnosis {
    Diagnosis { validity: Validity::of(ValidityState::Valid, Vec::new()), ..Diagnosis::default() }
}

fn snapshots(r: &mut Recording) {
    for (number, at) in [(0, 0u64), (1, 10)] {
        let cpu_ns = at * SECOND_NS;
        let thread = |tid: u32, share: u64| ThreadSample {
            core: Some(0),
            run_ns: Some(cpu_ns * share / 100),
            wait_ns: Some(0),
            ..recordings::thread(tid, &format!("nginx-{tid}"))
        };
        let snapshot = Snapshot {
            at_ns: (at * SECOND_NS) as i64,
            cpu: Some(CpuTimes { user_ns: cpu_ns, idle_ns: cpu_ns / 4, steal_ns: cpu_ns / 50, ..CpuTimes::default() }),
            memory_available_bytes: Some((20 << 30) - at),
            time_wait: Some(at),
            processes: vec![ProcessSample {
                rss_bytes: Some(7_000_000 + at),
                descriptors: Some(63),
                user_ns: Some(cpu_ns * 40 / 100),
                system_ns: Some(cpu_ns * 58 / 100),
                ..process(Role::Target, 4242, "nginx", vec![thread(1, 3), thread(2, 98)])
            }],
            ..Snapshot::default()
        };
        r.push_snapshot(number, snapshot);
    }
}

pub fn single_thread() -> Finding {
    let evidence = |text: &str, metric: &str, value: f64| Evidence {
        text: text.to_owned(),
        metric: metric.to_owned(),
        value: Some(value),
        unit: "ratio".to_owned(),
        window_s: [1.0, 10.0],
        source: Some(model::finding::Source::Process),
        is_against: false,
        threshold: Some(0.95),
    };
    Finding {
        id: "single-thread-bound".to_owned(),
        about: About::Target,
        status: Status::Supported,
        severity: Severity::Warning,
        title: "One thread of the target is full while the machine is not".to_owned(),
        because: vec![
            evidence("thread nginx-2 (tid 2) ran 98 % of the time, from second 1 to 10", "thread.run", 0.98),
            evidence("the machine's cores were busy 79 % of the time, so another thread could have run beside it", "cpu.busy", 0.79),
        ],
        remedy: "Spread the work over more threads or processes: worker_processes auto, or a listener for each core with SO_REUSEPORT".to_owned(),
        check_yourself: "top -H -p 4242".to_owned(),
        confidence: 0.9,
        causes: Vec::new(),
        because_of: Vec::new(),
        explains: None,
    }
}

pub fn not_observable() -> Finding {
    Finding {
        id: "accept-queue-overflow".to_owned(),
        about: About::Target,
        status: Status::NotObservable,
        severity: Severity::Info,
        title: "Accept queue".to_owned(),
        because: vec![Evidence {
            text: "/proc/net/netstat could not be read: permission denied".to_owned(),
            metric: "listen.overflows".to_owned(),
            value: None,
            unit: "1".to_owned(),
            window_s: [0.0, 10.0],
            source: None,
            is_against: false,
            threshold: None,
        }],
        remedy: String::new(),
        check_yourself: "nstat -az TcpExtListenOverflows".to_owned(),
        confidence: 0.0,
        causes: Vec::new(),
        because_of: Vec::new(),
        explains: None,
    }
}

fn healthy() -> Case {
    let mut r = recording();
    succeeded(&mut r, 2_281_234, 210_000);
    course(&mut r, 10, |s| 228_000 + s % 3 * 900, |s| 480_000 + s % 4 * 20_000);
    snapshots(&mut r);
    let diagnosis = Diagnosis { findings: vec![single_thread(), not_observable()], ..valid() };
    ("healthy", r, diagnosis)
}

fn errors() -> Case {
    let mut r = recording();
    succeeded(&mut r, 90_000, 1_400_000);
    failed(&mut r, ErrorKind::Reset, Phase::Reply, 1_234, 104, 0);
    failed(&mut r, ErrorKind::UnexpectedStatus, Phase::Reply, 41, 0, 0);
    failed(&mut r, ErrorKind::BadFraming, Phase::FirstByte, 1, 0, 7);
    r.totals.sum.outcomes.add(503, 41);
    r.totals.sum.outcomes.add(0, 1);
    r.totals.sum.connection_errors.add(ErrorKind::Refused, 12);
    r.totals.sum.latency.record_n(LatencyKind::Failed, 2_000_000, 1276);
    course(&mut r, 10, |s| if s == 3 { 1000 } else { 9_800 }, |s| if s == 3 { 80_000_000 } else { 3_000_000 });
    r.totals.sum.counts.closed_by_peer = 1_234;
    r.totals.sum.counts.connected = 1_284;
    r.totals.sum.counts.connect_failed = 12;
    r.samplers.push(SamplerStatus {
        name: "process/threads".to_owned(),
        status: SamplerState::Failed,
        reason: "permission denied reading /proc/4242/task".to_owned(),
    });
    ("errors", r, valid())
}

fn all_failed() -> Case {
    let mut r = recording();
    failed(&mut r, ErrorKind::Refused, Phase::Connect, 5_000, 111, 0);
    r.totals.sum.latency.record_n(LatencyKind::Failed, 120_000, 5_000);
    r.totals.sum.latency.record_n(LatencyKind::Lag, 2_000, 5_000);
    course(&mut r, 2, |_| 0, |_| 0);
    r.totals.connections_max = 0;
    r.totals.sum.counts.connected = 0;
    r.totals.sum.counts.connect_failed = 5_000;
    ("all_failed", r, valid())
}

fn generator_lag() -> Case {
    let (_, mut r, _) = open_with_queue();
    r.totals.sum.latency.record_n(LatencyKind::Lag, 48_000_000, 9_000);
    let diagnosis = Diagnosis {
        validity: Validity::of(
            ValidityState::NotValid,
            vec![Reason {
                id: "generator-lag".to_owned(),
                text: "1 in 100 requests left more than 48.0 ms after it was due, and no worker was short of CPU; \
                       give the generator cores of its own (--pin) or lower --rate"
                    .to_owned(),
            }],
        ),
        ..Diagnosis::default()
    };
    ("generator_lag", r, diagnosis)
}

fn partial() -> Case {
    let mut r = recording();
    succeeded(&mut r, 480_000, 190_000);
    course(&mut r, 4, |_| 120_000, |_| 500_000);
    r.totals.in_flight_at_end = 50;
    r.totals.sum.counts.started += 50;
    r.end = End::Partial;
    ("partial", r, valid())
}

fn nothing() -> Case {
    let mut r = recording();
    r.end = End::Interrupted;
    r.capsule.driver.clear();
    r.totals.first_request_ns = None;
    r.totals.peak_rss_bytes = 0;
    ("nothing", r, Diagnosis::default())
}

fn ten_million() -> Case {
    let mut r = recording();
    r.plan.stop = Stop { duration_ns: None, requests: Some(10_000_000) };
    r.plan.connections = 100_000;
    r.plan.origins = ["http://a.example", "http://b.example:8080", "http://[::1]", "unix:/run/x.sock"]
        .map(|name| Origin { name: name.to_owned(), ..r.plan.origins[0].clone() })
        .to_vec();
    succeeded(&mut r, 9_999_999, 52_000_000);
    failed(&mut r, ErrorKind::ReplyTimeout, Phase::FirstByte, 1, 0, 0);
    r.totals.sum.latency.record(LatencyKind::Failed, 30 * SECOND_NS);
    course(&mut r, 120, |s| 83_333 + 2_000 * (s % 7), |s| 100_000_000 + s * 1_000_000);
    r.totals.connections_max = 99_871;
    r.totals.sum.counts.connected = 99_871;
    ("ten_million", r, valid())
}

fn open_with_queue() -> Case {
    let mut r = recording();
    r.plan.pace = steady(5000.0, Arrivals::Poisson);
    r.plan.warmup_ns = SECOND_NS;
    succeeded(&mut r, 43_000, 240_000);
    r.totals.sum.latency.record_n(LatencyKind::Queue, 0, 38_000);
    spread(&mut r, LatencyKind::Queue, 300_000_000, 5_000);
    spread(&mut r, LatencyKind::Response, 300_000_000, 5_000);
    course(&mut r, 10, |s| if s == 5 { 12 } else { 5000 }, |s| if s == 5 { 900_000_000 } else { 700_000 });
    r.totals.measured_ns = 9 * SECOND_NS;
    r.totals.sum.counts.warmup = 5_000;
    r.totals.sum.counts.dropped = 128;
    ("open_with_queue", r, valid())
}

fn few() -> Case {
    let mut r = recording();
    r.plan.stop = Stop { duration_ns: None, requests: Some(10) };
    r.plan.connections = 1;
    r.plan.threads = 1;
    for n in 1..=10u64 {
        r.totals.sum.latency.record(LatencyKind::Response, n * 100_000);
        r.totals.sum.latency.record(LatencyKind::Service, n * 99_000);
    }
    r.totals.sum.counts.ok = 10;
    r.totals.sum.counts.started = 10;
    r.totals.sum.outcomes.add(200, 10);
    r.totals.measured_ns = 5_500_000;
    r.totals.connections_max = 1;
    r.totals.sum.counts.connected = 1;
    ("few", r, valid())
}

/// A target that stood still for the second half, and served only some before.
fn unfinished() -> Case {
    let mut r = recording();
    r.plan.pace = steady(1000.0, Arrivals::Constant);
    succeeded(&mut r, 5_000, 2_000_000);
    course(&mut r, 10, |s| if s < 5 { 1000 } else { 0 }, |_| 4_000_000);
    let mut rows = r.timeline.rows().to_vec();
    r.timeline = model::recording::Timeline::default();
    for row in &mut rows[5..] {
        (row.response_p99_ns, row.is_bound) = (Some(row.end_ns - 5 * SECOND_NS), true);
    }
    rows.into_iter().for_each(|row| r.timeline.push(row));
    r.totals.in_flight_at_end = 4_990;
    r.totals.sum.counts.started += 4_990;
    r.totals.sum.counts.never_taken_up = 10;
    for n in 0..4_990u64 {
        r.totals.sum.latency.record(LatencyKind::ResponseCensored, n * 1_000_000 + 500_000);
    }
    r.totals.users = Some(model::users::Users {
        connections: 50,
        never_served: 10,
        served_max: 125,
        served: 5_000,
        jain_index: 0.8,
        starved: 10,
        starved_since_ms: Some(0),
        ..Default::default()
    });
    let remark = |id: &str, text: &str| Remark { id: id.to_owned(), text: text.to_owned() };
    let summary = vec![
        remark("users-starved", "10 of 50 connections never got a reply: the figures are of the others"),
        remark(
            "unfinished",
            "4990 of 9990 requests (50 %) were unfinished when the run ended, the oldest after 4.99 s",
        ),
    ];
    ("unfinished", r, Diagnosis { summary, ..valid() })
}

/// A neighbour took the generator's CPU for three of ten seconds; a window of the probes lay in another.
fn quiet() -> Case {
    let mut r = recording();
    succeeded(&mut r, 300_000, 400_000);
    course(&mut r, 10, |s| if (2..5).contains(&s) { 20_000 } else { 34_285 }, |_| 900_000);
    let part = |ok, seconds: u64, middle_ns| {
        let mut part =
            model::recording::Part { measured_ns: seconds * SECOND_NS, intervals: seconds, ..Default::default() };
        (part.sum.counts.ok, part.in_time.ok) = (ok, ok);
        part.sum.latency.record_n(LatencyKind::Response, middle_ns, ok);
        Some(Box::new(part))
    };
    r.totals.disturbed = part(60_000, 4, 400_000);
    r.totals.in_windows = part(20_000, 1, 400_000);
    let quiet = Quiet {
        share: 0.6,
        intervals: 6,
        disturbed_intervals: 4,
        disturbed_by: vec!["the generator waited for a CPU".to_owned()],
        measured_s: 6.0,
        rate_per_s: 34_285.0,
        count: 205_710,
        response_p50_us: Some(410.0),
        response_p90_us: Some(600.0),
        response_p99_us: Some(910.0),
        response_p999_us: Some(1_400.0),
        response_max_us: Some(8_000.0),
        at_least: Vec::new(),
        is_used: true,
    };
    let figure = |figure, text: &str, up_to_us, up_to_share| FigureVerdict {
        figure,
        state: ValidityState::Valid,
        text: text.to_owned(),
        up_to_us,
        up_to_share: Some(up_to_share),
        because_of: Vec::new(),
    };
    let figures = vec![
        figure(Figure::Throughput, "34285 requests/s", None, 0.0),
        figure(Figure::Response, "p99 910 µs", Some(2.0), 0.002),
    ];
    let validity = Validity { quiet: Some(quiet), figures, ..Validity::of(ValidityState::Valid, Vec::new()) };
    ("quiet", r, Diagnosis { validity, ..valid() })
}

/// A generator without room before a target that nobody saw.
fn undetermined() -> Case {
    let mut r = recording();
    succeeded(&mut r, 300_000, 400_000);
    course(&mut r, 10, |_| 30_000, |_| 900_000);
    let reason = Reason {
        id: "generator-cpu".to_owned(),
        text: "a worker was busy for more than 90 % of an interval in 100 % of the time, and whether the target was is not \
               known: the target is on another machine. Observe the target where it runs"
            .to_owned(),
    };
    let verdict = |figure, state, text: &str| FigureVerdict {
        figure,
        state,
        text: text.to_owned(),
        up_to_us: None,
        up_to_share: None,
        because_of: vec![reason.id.clone()],
    };
    let figures = vec![
        verdict(Figure::Throughput, ValidityState::Undetermined, "30000 requests/s"),
        verdict(Figure::Service, ValidityState::Undetermined, "p99 900 µs"),
    ];
    let validity = Validity { figures, ..Validity::of(ValidityState::Undetermined, vec![reason]) };
    ("undetermined", r, Diagnosis { validity, ..valid() })
}
