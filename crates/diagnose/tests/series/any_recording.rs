//! Whatever a recording holds, diagnosis answers, always the same, and nothing a target does makes a result invalid.

use crate::common::{Build, SECOND, closed, open};
use diagnose::diagnose;
use model::finding::{Severity, ValidityState};
use model::plan::*;
use model::recording::{Disturbance, End, Part, Recording, Row};
use model::snapshot::{CpuTimes, Neighbour, ProcessSample, Quota, Role, Snapshot, SummedCpu, ThreadSample};
use model::users::Users;
use model::{Counts, ErrorKind, Event, LatencyKind};
use proptest::prelude::*;

/// Numbers to build a recording of, round and round.
struct Tape {
    numbers: Vec<u64>,
    at: usize,
}

impl Tape {
    fn next(&mut self) -> u64 {
        self.at += 1;
        self.numbers[self.at % self.numbers.len()]
    }

    fn float(&mut self) -> f64 {
        let float = f64::from_bits(self.next());
        if float.is_nan() { -0.0 } else { float }
    }

    fn maybe(&mut self) -> Option<u64> {
        (!self.next().is_multiple_of(3)).then(|| self.next())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn counts(&mut self) -> Counts {
        Counts {
            started: self.next(),
            ok: self.next(),
            failed: self.next(),
            dropped: self.next(),
            warmup: self.next(),
            bytes_sent: self.next(),
            bytes_received: self.next(),
            connected: self.next(),
            connect_failed: self.next(),
            handshakes_full: self.next(),
            handshakes_resumed: self.next(),
            closed_by_us: self.next(),
            closed_by_peer: self.next(),
            never_taken_up: self.next(),
            carried_ok: self.next(),
            carried_failed: self.next(),
            cpu_wait_ns: self.next(),
            late_ns: self.next(),
            ..Counts::default()
        }
    }

    fn row(&mut self) -> Row {
        let mut row = Row {
            start_ns: self.next(),
            end_ns: self.next(),
            is_drain: self.next().is_multiple_of(5),
            counts: self.counts(),
            response_p50_ns: self.maybe(),
            response_p99_ns: self.maybe(),
            lag_p99_ns: self.maybe(),
            response_sum_ns: self.next(),
            worker_busy_max: self.float(),
            worker_wait_max: self.float(),
            worker_late_max: self.float(),
            disturbance: Disturbance { waited: self.next().is_multiple_of(3), ..Disturbance::default() },
            ..Row::default()
        };
        (row.gauges.connections, row.gauges.in_flight, row.gauges.queued) = (self.next(), self.next(), self.next());
        row
    }

    fn cpu(&mut self) -> CpuTimes {
        CpuTimes {
            user_ns: self.next(),
            system_ns: self.next(),
            idle_ns: self.next(),
            iowait_ns: self.next(),
            irq_ns: self.next(),
            softirq_ns: self.next(),
            steal_ns: self.next(),
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            at_ns: self.next() as i64,
            wall_offset_ns: self.maybe().map(|n| (n as i128 - (1 << 63)) << 63),
            suspended_ns: self.maybe(),
            cpu: self.maybe().map(|_| self.cpu()),
            cores: (0..self.below(3)).map(|_| self.cpu()).collect(),
            memory_available_bytes: self.maybe(),
            time_wait: self.maybe(),
            slab_bytes: None,
            socket_memory_bytes: None,
            processes: (0..self.below(3)).map(|_| self.process()).collect(),
            target_cpu: self.maybe().map(|user_ns| SummedCpu {
                user_ns,
                system_ns: self.next(),
                ..SummedCpu::default()
            }),
            neighbours: (0..self.below(3)).map(|_| self.neighbour()).collect(),
            generator_quota: self.maybe().map(|throttled_ns| Quota { throttled_ns, ..Quota::default() }),
            ..Snapshot::default()
        }
    }

    fn neighbour(&mut self) -> Neighbour {
        Neighbour { pid: self.below(3) as u32, cpu_ns: self.next(), name: "n".into(), ..Neighbour::default() }
    }

    fn process(&mut self) -> ProcessSample {
        let role = if self.next().is_multiple_of(2) { Role::Target } else { Role::Generator };
        let threads = (0..self.below(4)).map(|i| self.thread(i as u32)).collect();
        ProcessSample {
            metrics: model::metrics::Metrics::default(),
            role,
            pid: 1,
            start_ticks: 1,
            name: "x".into(),
            rss_bytes: None,
            descriptors: None,
            user_ns: self.maybe(),
            system_ns: self.maybe(),
            threads,
            threads_total: self.below(5) as u32,
            runtime: None,
        }
    }

    fn thread(&mut self, tid: u32) -> ThreadSample {
        ThreadSample {
            switches: None,
            stands: None,
            tid,
            name: "t".into(),
            state: 'R',
            core: None,
            run_ns: self.maybe(),
            wait_ns: self.maybe(),
            user_ns: self.maybe(),
            system_ns: self.maybe(),
        }
    }

    fn recording(&mut self) -> Recording {
        let mut plan = if self.next().is_multiple_of(2) { open().plan } else { closed().plan };
        if self.next().is_multiple_of(2) {
            let profile = (0..self.below(4)).map(|_| Segment {
                from_per_s: self.float(),
                to_per_s: self.float(),
                for_ns: self.next(),
            });
            plan.pace = Pace::Open { profile: profile.collect(), arrivals: Arrivals::Poisson };
        }
        if self.next().is_multiple_of(4) {
            plan.workload = Workload::Echo(Echo { sizes: Sizes::List(Vec::new()), content: Content::Text });
        }
        (plan.warmup_ns, plan.connections, plan.pipeline) = (self.next(), self.next() as u32, self.next() as u16);
        plan.stop.requests = self.maybe();
        let mut recording = Recording::new(Default::default(), plan);
        recording.end = [End::Complete, End::Partial, End::Interrupted][self.below(3) as usize];
        let totals = &mut recording.totals;
        (totals.sum.counts, totals.in_time) = (self.counts(), self.counts());
        (totals.measured_ns, totals.in_flight_at_end, totals.connections_max) = (self.next(), self.next(), self.next());
        for kind in LatencyKind::ALL {
            for _ in 0..self.below(3) {
                let (ns, count) = (self.next(), self.next() >> 24);
                totals.sum.latency.record_n(kind, ns, count);
            }
        }
        if self.next().is_multiple_of(2) {
            let mut part = Part { measured_ns: self.next(), intervals: self.next(), ..Part::default() };
            (part.sum.counts, part.in_time) = (self.counts(), self.counts());
            part.sum.latency.record_n(LatencyKind::Response, self.next(), 7);
            totals.disturbed = Some(Box::new(part));
        }
        totals.users = self.maybe().map(|starved| Users {
            starved,
            connections: self.next(),
            never_served: self.next(),
            jain_index: self.float(),
            starved_since_ms: self.maybe(),
            ..Users::default()
        });
        for kind in ErrorKind::ALL {
            if self.next().is_multiple_of(8) {
                totals.sum.errors.add(*kind, self.next());
                totals.sum.connection_errors.add(*kind, self.next());
            }
        }
        for _ in 0..self.below(4) {
            let (status, count) = (self.next() as u16, self.next() >> 8);
            totals.sum.outcomes.add(status, count);
        }
        for _ in 0..self.below(12) {
            let row = self.row();
            recording.timeline.push(row);
        }
        let mut snapshots: Vec<Snapshot> = (0..self.below(6)).map(|_| self.snapshot()).collect();
        if self.next().is_multiple_of(2) {
            snapshots.sort_by_key(|s| s.at_ns);
        }
        recording.snapshots = snapshots;
        recording.capsule.limits.insert("nofile".into(), format!("{}:", self.float()));
        recording
            .capsule
            .sysctls
            .insert("net.ipv4.ip_local_port_range".into(), format!("{} {}", self.float(), self.next()));
        if self.next().is_multiple_of(3) {
            let at_ns = self.next() as i64;
            recording.events.push(Event::new(at_ns, "target-exit", "it went"));
        }
        if self.next().is_multiple_of(7) {
            recording.events.push(Event::new(i64::MIN, "worker-failed", "gone"));
        }
        recording
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0),
        2 => 0..100u64,
        3 => (0..60u64).prop_map(|s| s * SECOND / 2),
        1 => Just(u64::MAX),
        1 => Just(i64::MAX as u64),
        3 => any::<u64>(),
        2 => (0..1_000_000u64).prop_map(|n| (n as f64 / 1000.0).to_bits()),
    ]
}

/// What the target does with a second's requests: how much of what waits it answers, how well, how long that took.
type Deed = (f64, f64, u64, usize, f64, f64);

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let share = || prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64];
    let deed = (share(), share(), 1_000..30_000_000_000u64, 0..TARGETS.len(), share(), share());
    proptest::collection::vec(deed, 2..14)
}

/// Failures that are the target's, or the path's.
const TARGETS: [ErrorKind; 10] = [
    ErrorKind::Refused,
    ErrorKind::ConnectTimeout,
    ErrorKind::Unreachable,
    ErrorKind::Reset,
    ErrorKind::ClosedEarly,
    ErrorKind::ReplyTimeout,
    ErrorKind::QueueTimeout,
    ErrorKind::BadFraming,
    ErrorKind::HeadTooLarge,
    ErrorKind::Io,
];

/// A sound generator at 5000/s before a target that does so.
fn in_front_of(deeds: &[Deed], is_open: bool) -> Build {
    let mut build = if is_open { open() } else { closed() };
    let sound = build.seconds[0].clone();
    build.plan.stop.duration_ns = Some(deeds.len() as u64 * SECOND);
    let mut waiting = 0u64;
    build.seconds = deeds
        .iter()
        .map(|(answers, fails, response_ns, kind, run, wait)| {
            let mut second = sound.clone();
            // Closed: what is answered is begun anew at once, and no longer than the second has time for.
            let most = if is_open { waiting + 5000 } else { 64 * SECOND / response_ns.max(&(SECOND / 100)) };
            let ended = (answers * most as f64) as u64;
            let failed = (fails * ended as f64) as u64;
            waiting = if is_open { waiting + 5000 - ended } else { 64 };
            (second.ok, second.failed) = (ended - failed, vec![(TARGETS[*kind], failed)]);
            second.response_ns = if is_open { *response_ns } else { (*response_ns).max(SECOND / 100) };
            second.queue_ns = if is_open { response_ns / 2 } else { 0 };
            (second.in_flight, second.queued) = (waiting.min(64), waiting.saturating_sub(64));
            second.target = vec![(*run, wait * (1.0 - run))];
            second
        })
        .collect();
    build.in_flight_at_end = waiting;
    build
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_recording_is_judged_and_always_alike(numbers in proptest::collection::vec(number(), 3..400)) {
        let recording = Tape { numbers, at: 0 }.recording();
        let diagnosis = diagnose(&recording);
        prop_assert_eq!(&diagnosis, &diagnose(&recording));
        prop_assert_eq!(diagnosis.findings.len(), diagnose::ids().count());
        let validity = &diagnosis.validity;
        prop_assert_eq!(validity.valid, validity.reasons.is_empty());
        prop_assert_eq!(validity.valid, validity.state == ValidityState::Valid);
        for verdict in &validity.figures {
            let known = [verdict.up_to_us, verdict.up_to_share].into_iter().flatten();
            prop_assert!(known.into_iter().all(|n| n.is_finite() && n >= 0.0) && !verdict.text.is_empty(), "{:?}", verdict);
            prop_assert_eq!(verdict.state == ValidityState::Valid, verdict.because_of.is_empty(), "{:?}", verdict);
        }
        for finding in &diagnosis.findings {
            prop_assert!((0.0..=1.0).contains(&finding.confidence), "{:?}", finding);
            prop_assert!(!finding.title.is_empty());
            for evidence in &finding.because {
                prop_assert!(evidence.value.is_none_or(f64::is_finite) && !evidence.text.is_empty(), "{:?}", evidence);
            }
        }
    }

    #[test]
    fn nothing_a_target_does_makes_a_result_invalid(deeds in deeds(), is_open: bool) {
        let recording = in_front_of(&deeds, is_open).recording();
        let diagnosis = diagnose(&recording);
        prop_assert!(diagnosis.validity.valid, "{:#?}", diagnosis.validity);
    }
}

#[test]
fn a_recording_with_nothing_in_it_is_never_called_fine() {
    let diagnosis = diagnose(&Recording::new(Default::default(), open().plan));
    assert_eq!(diagnosis.validity.state, ValidityState::Undetermined);
    let unseen = diagnosis.findings.iter().filter(|f| f.status == model::Status::NotObservable).count();
    assert!(unseen >= 5, "{:#?}", diagnosis.findings);
    assert!(diagnosis.findings.iter().all(|f| f.severity < Severity::Error));
}
