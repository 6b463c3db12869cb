//! Recordings built by hand: a sound run, of which a test changes what it is about. Figures and timeline are made from the
//! same rows, so they agree unless a test takes care that they do not.
#![allow(clippy::unwrap_used, dead_code, reason = "in a test, a panic is the report; not every test uses all of it")]

pub mod judged;
pub mod stalled;

use model::error_kind::{ErrorKind, Phase};
use model::finding::{Diagnosis, Severity, Status};
use model::plan::*;
use model::recording::{Capsule, End, Recording, Row, WorkerShares};
use model::snapshot::{
    CpuTimes, Neighbour, ProcessSample, Quota, Role, SamplerState, SamplerStatus, Snapshot, SummedCpu, ThreadSample,
};
use model::{Interval, LatencyKind};
pub use testkit::recordings::SECOND_NS as SECOND;
use testkit::recordings::{failure, get, http1, origin, plan, process, steady, thread};

/// What else reads in a run: whatever a cause asks for.
const SAMPLERS: [&str; 22] = [
    "process/stands",
    "process/switches",
    "process/neighbours",
    "process/memory",
    "process/files",
    "process/cgroup",
    "process/cgroup_waits",
    "process/io",
    "network/counters",
    "network/listeners",
    "network/connections",
    "network/outgoing",
    "network/lookups",
    "network/sockstat",
    "host/pressure",
    "host/disks",
    "host/vmstat",
    "host/kernel_log",
    "bpf/lifecycle",
    "bpf/syscalls",
    "bpf/delayed_acks",
    "bpf/sockets",
];

/// One second of a run.
#[derive(Debug, Clone)]
pub struct Second {
    pub ok: u64,
    pub failed: Vec<(ErrorKind, u64)>,
    /// Of each success, nanoseconds.
    pub response_ns: u64,
    pub lag_ns: u64,
    /// How many of the requests were late by `late_ns` instead.
    pub late: u64,
    pub late_ns: u64,
    pub queue_ns: u64,
    pub in_flight: u64,
    pub queued: u64,
    pub dropped: u64,
    pub connections: u64,
    pub busy: f64,
    /// Shares of the second that the worker which was worst off waited for a CPU, and was late.
    pub wait: f64,
    pub late_share: f64,
    pub reap_delay_ns: u64,
    pub never_taken_up: u64,
    /// CPUs of two that neighbours used: `yes` (pid 30) and `make` (pid 31).
    pub neighbours: [f64; 2],
    /// Share of the second in which a quota held the generator.
    pub throttled: f64,
    /// CPUs that the kernel sums for the whole target.
    pub target_summed: Option<f64>,
    /// The target's threads: share run, share waited.
    pub target: Vec<(f64, f64)>,
    /// CPUs of two that stood idle.
    pub idle_cores: f64,
    pub steal: f64,
    pub wall_step_ns: i128,
    pub suspended_ns: u64,
}

/// A run made of seconds.
#[derive(Debug, Clone)]
pub struct Build {
    pub plan: Plan,
    pub seconds: Vec<Second>,
    pub in_flight_at_end: u64,
    pub events: Vec<model::Event>,
    pub limits: Vec<(&'static str, &'static str)>,
    pub status: Vec<(u16, u64)>,
    pub has_target: bool,
    pub has_schedstat: bool,
    pub has_snapshots: bool,
    pub connected: u64,
    pub closed: u64,
    pub closed_by_peer: u64,
    pub connect_failed: u64,
    pub users: Option<model::users::Users>,
    /// How long requests had been under way that had not ended, and how many.
    pub unfinished: (u64, u64),
}

/// Ten seconds at 5000/s that a target with one thread answers in 2 ms, using a third of a core.
pub fn open() -> Build {
    let second = Second {
        ok: 5000,
        failed: Vec::new(),
        response_ns: 2_000_000,
        lag_ns: 20_000,
        late: 0,
        late_ns: 0,
        queue_ns: 0,
        in_flight: 10,
        queued: 0,
        dropped: 0,
        connections: 64,
        busy: 0.3,
        wait: 0.01,
        late_share: 0.0,
        reap_delay_ns: 0,
        never_taken_up: 0,
        neighbours: [0.0, 0.0],
        throttled: 0.0,
        target_summed: None,
        target: vec![(0.33, 0.02), (0.01, 0.0)],
        idle_cores: 1.3,
        steal: 0.0,
        wall_step_ns: 0,
        suspended_ns: 0,
    };
    Build {
        plan: Plan {
            pace: steady(5000.0, Arrivals::Constant),
            connections: 64,
            queue_capacity: 1 << 16,
            ..plan(http1(get()), vec![origin("http://localhost:80", 80)])
        },
        seconds: vec![second; 10],
        in_flight_at_end: 0,
        events: Vec::new(),
        limits: vec![("nofile", "1024:4096")],
        status: Vec::new(),
        has_target: true,
        has_schedstat: true,
        has_snapshots: true,
        connected: 64,
        closed: 0,
        closed_by_peer: 0,
        connect_failed: 0,
        users: Some(model::users::Users {
            connections: 64,
            served_min: 700,
            served_max: 900,
            served: 50_000,
            jain_index: 0.99,
            ..model::users::Users::default()
        }),
        unfinished: (0, 0),
    }
}

/// Ten seconds of 64 connections, always full: 6400/s, each answered in 10 ms.
pub fn closed() -> Build {
    let mut build = open();
    build.plan.pace = Pace::Closed { think: Think::None };
    for second in &mut build.seconds {
        (second.ok, second.response_ns, second.in_flight) = (6400, 10_000_000, 64);
    }
    build
}

impl Build {
    /// The same change to every second.
    pub fn each(mut self, change: impl Fn(&mut Second)) -> Self {
        self.seconds.iter_mut().for_each(change);
        self
    }

    /// A change to one second.
    pub fn at(mut self, second: usize, change: impl Fn(&mut Second)) -> Self {
        change(&mut self.seconds[second]);
        self
    }

    /// A change to anything.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn recording(&self) -> Recording {
        self.recording_with(|_| {})
    }

    /// The same, every snapshot being shown before it is kept or thinned out.
    pub fn recording_with(&self, each: impl FnMut(&Snapshot)) -> Recording {
        let capsule = Capsule {
            limits: self.limits.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            sysctls: [("net.ipv4.ip_local_port_range".to_owned(), "32768 60999".to_owned())].into(),
            cores: 2,
            ..Capsule::default()
        };
        let mut recording = Recording::new(capsule, self.plan.clone());
        recording.end = End::Complete;
        recording.events = self.events.iter().cloned().collect();
        if self.has_snapshots {
            self.snapshots(&mut recording, each);
        }
        self.load(&mut recording);
        let state = |name: &str, is_active: bool| SamplerStatus {
            name: name.to_owned(),
            status: if is_active { SamplerState::Active } else { SamplerState::Disabled },
            reason: if is_active { String::new() } else { "the target is on another machine".to_owned() },
        };
        recording.samplers = vec![
            state("process/target", self.has_target),
            state("process/threads", self.has_schedstat),
            state("host/cpu", self.has_snapshots),
        ];
        let others = SAMPLERS.iter().map(|name| state(name, self.has_snapshots && self.has_target));
        recording.samplers.extend(others);
        recording
    }

    fn load(&self, recording: &mut Recording) {
        let totals = &mut recording.totals;
        let mut waiting_before = 0;
        let last = self.seconds.len() - 1;
        for (i, second) in self.seconds.iter().enumerate() {
            let mut interval = Interval::<u64>::new(0);
            (interval.start_ns, interval.end_ns) = (i as u64 * SECOND, (i as u64 + 1) * SECOND);
            let failed: u64 = second.failed.iter().map(|(_, n)| n).sum();
            let ended = second.ok + failed;
            let counts = &mut interval.counts;
            (counts.ok, counts.failed, counts.dropped) = (second.ok, failed, second.dropped);
            let waiting = second.in_flight + second.queued;
            // What began: what ended, and what more waits now. At the end nothing is left but what the test says.
            counts.started = if i == last {
                (ended + self.in_flight_at_end).saturating_sub(waiting_before)
            } else {
                (ended + waiting).saturating_sub(waiting_before)
            };
            waiting_before = waiting;
            counts.bytes_sent = 40 * ended;
            counts.bytes_received = 800 * second.ok;
            if i == 0 {
                (counts.connected, counts.connect_failed) = (self.connected, self.connect_failed);
                (counts.closed_by_us, counts.closed_by_peer) = (self.closed, self.closed_by_peer);
            }
            interval.gauges.connections = second.connections;
            interval.gauges.in_flight = second.in_flight;
            interval.gauges.queued = second.queued;
            let latency = &mut interval.latency;
            latency.record_n(LatencyKind::Response, second.response_ns, second.ok);
            latency.record_n(
                LatencyKind::Service,
                second.response_ns - second.queue_ns.min(second.response_ns),
                second.ok,
            );
            latency.record_n(LatencyKind::Queue, second.queue_ns, second.ok);
            latency.record_n(LatencyKind::Failed, second.response_ns, failed);
            if matches!(self.plan.pace, Pace::Open { .. }) {
                latency.record_n(LatencyKind::Lag, second.lag_ns, interval.counts.started.saturating_sub(second.late));
                latency.record_n(LatencyKind::Lag, second.late_ns, second.late);
                // Those that were late took so much longer, and no longer from when they were taken up.
                let (late, in_time) = (second.late.min(second.ok), second.ok.saturating_sub(second.late));
                let undelayed = second.response_ns.saturating_sub(second.lag_ns);
                latency.record_n(LatencyKind::Undelayed, undelayed, in_time + late);
                if late > 0 {
                    let histogram = latency.of_mut(LatencyKind::Response);
                    histogram.reset();
                    histogram.record_n(second.response_ns, in_time);
                    histogram.record_n(undelayed + second.late_ns, late);
                }
            }
            for (kind, count) in &second.failed {
                for _ in 0..*count {
                    interval.record_error(failure(*kind, Phase::Reply, i as u64 * SECOND + 1));
                }
            }
            interval.outcomes.add(200, second.ok);
            if i == 0 {
                self.status.iter().for_each(|(status, count)| interval.outcomes.add(*status, *count));
            }
            let counts = &mut interval.counts;
            let threads = u64::from(self.plan.threads);
            counts.cpu_wait_ns = (second.wait * 1e9) as u64 * threads;
            counts.late_ns = (second.late_share * 1e9) as u64 * threads;
            counts.never_taken_up = second.never_taken_up;
            interval.gauges.reap_delay_ns_max = second.reap_delay_ns;
            let shares = WorkerShares { busy: second.busy, wait: second.wait, late: second.late_share };
            let mut row = Row::of(&interval, shares);
            // As the session does: by the snapshots around it.
            let before = recording.snapshots.iter().rfind(|s| s.at_ns <= row.start_ns as i64 + 5_000_000);
            let after = recording.snapshots.iter().find(|s| s.at_ns >= row.end_ns as i64);
            let previous = recording.timeline.rows().last();
            row.disturbance = diagnose::quiet::disturbance(&row, previous, before, after);
            if row.disturbance.is_any() {
                let part = totals.disturbed.get_or_insert_default();
                part.add_row(&row);
                part.sum.latency.add(&interval.latency);
            }
            recording.timeline.push(row);
            totals.in_time.add(&interval.counts);
            totals.sum.add(&interval);
            totals.connections_max = totals.connections_max.max(second.connections);
        }
        totals.sum.end_ns = self.seconds.len() as u64 * SECOND;
        totals.measured_ns = self.seconds.len() as u64 * SECOND;
        totals.in_flight_at_end = self.in_flight_at_end;
        totals.users = self.users;
        totals.sum.latency.record_n(LatencyKind::ResponseCensored, self.unfinished.0, self.unfinished.1);
    }

    fn snapshots(&self, recording: &mut Recording, mut each: impl FnMut(&Snapshot)) {
        let threads = self.seconds.iter().map(|s| s.target.len()).max().unwrap_or(0);
        let mut target = vec![(0u64, 0u64); threads];
        let (mut cpu, mut own_wait_ns) = (CpuTimes::default(), 0);
        let (mut neighbours_ns, mut throttled_ns, mut summed_ns) = ([0u64; 2], 0u64, 0u64);
        let has_quota = self.seconds.iter().any(|s| s.throttled > 0.0);
        let (mut wall_ns, mut suspended_ns) = (1_700_000_000_000_000_000i128, 0);
        let nanoseconds = |share: f64| (share * 1e9) as u64;
        for i in 0..=self.seconds.len() {
            if let Some(second) = i.checked_sub(1).map(|i| &self.seconds[i]) {
                for (sum, (run, wait)) in target.iter_mut().zip(&second.target) {
                    *sum = (sum.0 + nanoseconds(*run), sum.1 + nanoseconds(*wait));
                }
                cpu.idle_ns += nanoseconds(second.idle_cores);
                cpu.steal_ns += nanoseconds(2.0 * second.steal);
                cpu.user_ns += nanoseconds((2.0 - second.idle_cores - 2.0 * second.steal).max(0.0));
                own_wait_ns += nanoseconds(second.wait);
                for (sum, cores) in neighbours_ns.iter_mut().zip(second.neighbours) {
                    *sum += nanoseconds(cores);
                }
                throttled_ns += nanoseconds(second.throttled);
                summed_ns += second.target_summed.map_or(0, nanoseconds);
                wall_ns += second.wall_step_ns;
                suspended_ns += second.suspended_ns;
            }
            let mut processes = vec![self.process(Role::Generator, 10, &[(1000 * i as u64, own_wait_ns)])];
            if self.has_target {
                processes.push(self.process(Role::Target, 20, &target));
            }
            // As in a real run: the first before the load, the others a little late.
            let at_ns = if i == 0 { -1 } else { (i as u64 * SECOND) as i64 + 3_000_000 };
            let snapshot = Snapshot {
                at_ns,
                wall_offset_ns: Some(wall_ns),
                suspended_ns: Some(suspended_ns),
                cpu: Some(cpu),
                cores: vec![CpuTimes::default(); 2],
                memory_available_bytes: Some(1 << 30),
                time_wait: Some(7),
                processes,
                neighbours: self.neighbours(neighbours_ns),
                generator_quota: has_quota.then_some(Quota { cpus: 0.5, throttled: i as u64, throttled_ns }),
                target_cpu: self.seconds[0]
                    .target_summed
                    .map(|_| SummedCpu { user_ns: summed_ns, ..SummedCpu::default() }),
                ..Snapshot::default()
            };
            each(&snapshot);
            recording.push_snapshot(i as u64, snapshot);
        }
    }

    fn neighbours(&self, cpu_ns: [u64; 2]) -> Vec<Neighbour> {
        let neighbour = |(i, name): (usize, &str)| Neighbour {
            pid: 30 + i as u32,
            start_ticks: 7,
            name: name.to_owned(),
            cpu_ns: cpu_ns[i],
            ..Neighbour::default()
        };
        let mut all: Vec<Neighbour> = ["yes", "make"].into_iter().enumerate().map(neighbour).collect();
        all.retain(|n| n.cpu_ns > 0);
        all.sort_by_key(|n| std::cmp::Reverse(n.cpu_ns));
        all
    }

    fn process(&self, role: Role, pid: u32, threads: &[(u64, u64)]) -> ProcessSample {
        let thread = |(i, (run_ns, wait_ns)): (usize, &(u64, u64))| ThreadSample {
            core: Some(0),
            run_ns: self.has_schedstat.then_some(*run_ns),
            wait_ns: self.has_schedstat.then_some(*wait_ns),
            ..thread(pid + i as u32, &format!("thread-{i}"))
        };
        process(role, pid, "server", threads.iter().enumerate().map(thread).collect())
    }
}

/// Judges, and compares with what is expected: the state, with `, quiet` where the quiet part is used, then `status id` of the findings the test is about.
/// Whatever is supported above "info" must be named.
#[track_caller]
pub fn check(name: &str, build: Build, expected: &[&str]) -> Diagnosis {
    let diagnosis = diagnose::diagnose(&build.recording());
    judge(name, &diagnosis, expected);
    diagnosis
}

#[track_caller]
pub fn judge(name: &str, diagnosis: &Diagnosis, expected: &[&str]) {
    let described = format!("{name}: {:#?}\n{:#?}", diagnosis.validity, supported(diagnosis));
    let validity = &diagnosis.validity;
    let quiet = if validity.used_quiet().is_some() { ", quiet" } else { "" };
    assert_eq!(format!("{}{quiet}", validity.state.name()), expected[0], "{described}");
    assert_eq!(validity.valid, validity.state == model::finding::ValidityState::Valid);
    assert_eq!(validity.valid, validity.reasons.is_empty(), "{described}");
    for line in &expected[1..] {
        let (_, id) = line.split_once(' ').unwrap();
        let finding = diagnosis.findings.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no rule {id}"));
        let found = match finding.status {
            Status::Supported => "supported",
            Status::Refuted => "refuted",
            Status::NotObservable => "not-observable",
            Status::NotApplicable => "not-applicable",
        };
        assert_eq!(format!("{found} {id}"), *line, "{finding:#?}\n{described}");
        if matches!(finding.status, Status::Supported | Status::NotObservable) {
            assert!(!finding.because.is_empty(), "{finding:?} gives no reason");
        }
    }
    for finding in diagnosis.findings.iter().filter(|f| f.status == Status::Supported && f.severity > Severity::Info) {
        assert!(expected.contains(&&*format!("supported {}", finding.id)), "not expected: {finding:#?}\n{described}");
        assert!(!finding.remedy.is_empty() && !finding.check_yourself.is_empty(), "{finding:?}");
    }
}

fn supported(diagnosis: &Diagnosis) -> Vec<&model::Finding> {
    diagnosis.findings.iter().filter(|f| f.status == Status::Supported).collect()
}
