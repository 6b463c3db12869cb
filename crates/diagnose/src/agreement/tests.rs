//! Sources that agree, and of each check some that do not.

use super::*;
use model::bpf::{BpfSample, Log2};
use model::snapshot::{ListenerSample, Switches, ThreadSample};
use testkit::recordings;

/// After so many seconds of a machine of two cores and a process on which all sources agree: half a core used.
fn agreeing(at_s: u64) -> Snapshot {
    let half_ns = at_s * 500_000_000;
    let core = CpuTimes { user_ns: half_ns / 2, idle_ns: at_s * 1_000_000_000 - half_ns / 2, ..CpuTimes::default() };
    let thread = ThreadSample {
        run_ns: Some(half_ns + 3_000_000),
        switches: Some(Switches { voluntary: at_s * 900, involuntary: 5 }),
        ..recordings::thread(7, "worker")
    };
    let mut process = ProcessSample {
        rss_bytes: Some(100_000_000),
        user_ns: Some(half_ns),
        system_ns: Some(0),
        ..recordings::process(Role::Target, 7, "server", vec![thread])
    };
    for (name, value) in [
        ("cgroup_cpu_usage_ns", half_ns + 50_000_000),
        ("cgroup_oom_kills", 0),
        ("rss_anonymous_bytes", 90_000_000),
        ("rss_file_bytes", 10_500_000),
        ("rss_shared_bytes", 0),
        ("rss_walked_bytes", 99_000_000),
        ("page_faults", at_s * 1000),
        ("major_faults", 0),
    ] {
        process.metrics.set(name, value);
    }
    let mut snapshot = Snapshot {
        at_ns: at_s as i64 * 1_000_000_000,
        cpu: Some(CpuTimes { user_ns: half_ns, idle_ns: at_s * 2_000_000_000 - half_ns, ..CpuTimes::default() }),
        cores: vec![core; 2],
        processes: vec![process],
        listeners: vec![ListenerSample {
            address: "127.0.0.1:80".to_owned(),
            waiting: 129,
            backlog: 128,
            ..ListenerSample::default()
        }],
        bpf: Some(BpfSample::default()),
        ..Snapshot::default()
    };
    for (name, value) in [
        ("context_switches", at_s * 3000),
        ("page_faults", at_s * 4000),
        ("oom_kills", 0),
        ("memory_total_bytes", 1_000_000_000),
        ("memory_free_bytes", 500_000_000),
        ("memory_cached_bytes", 100_000_000),
        ("memory_anonymous_bytes", 200_000_000),
        ("slab_bytes", 50_000_000),
        ("softnet_dropped", 0),
    ] {
        snapshot.host.set(name, value);
    }
    for (name, value) in [
        ("tcp_established", 200),
        ("tcp_sockets", 210),
        ("connections_looked_at", 100),
        ("listen_overflows", at_s * 10),
        ("listen_drops", at_s * 12),
        ("tcp_retransmits", at_s),
    ] {
        snapshot.network.set(name, value);
    }
    snapshot.interfaces.entry("lo".to_owned()).or_default().set("sent_bytes", at_s * 1_000_000);
    let bpf = snapshot.bpf.get_or_insert_default();
    bpf.counts.insert("losses.retransmits".to_owned(), at_s);
    bpf.histograms.insert("sockets.send_bytes".to_owned(), Log2 { sum: at_s * 900_000, buckets: vec![] });
    snapshot
}

/// The metrics that disagree once the last of four snapshots is changed.
fn changed(change: impl Fn(&mut Snapshot)) -> Vec<&'static str> {
    let mut snapshots: Vec<Snapshot> = (0..4).map(agreeing).collect();
    change(&mut snapshots[3]);
    disagreements(&snapshots).iter().map(|found| found.check.metric).collect()
}

#[test]
fn every_check_compares_and_agrees_where_the_sources_do() {
    let [before, now] = [agreeing(1), agreeing(2)];
    for check in CHECKS {
        let pairs = (check.values)(&before, &now);
        assert!(!pairs.is_empty(), "{} is not compared", check.metric);
        assert!(pairs.iter().all(|pair| check.agrees(*pair, 0.0)), "{}: {pairs:?}", check.metric);
        assert!(!check.why.is_empty() && check.tolerance >= 0.0 && check.sources[0] != check.sources[1]);
    }
    assert_eq!(changed(|_| {}), Vec::<&str>::new());
}

#[test]
fn each_check_finds_its_own_disagreement() {
    let thread = |s: &mut Snapshot, change: &dyn Fn(&mut ThreadSample)| change(&mut s.processes[0].threads[0]);
    let found = |change: &dyn Fn(&mut Snapshot)| changed(change);
    let host = |name, value: u64| changed(move |s| s.host.set(name, value));
    let network = |name, value: u64| changed(move |s| s.network.set(name, value));
    let process = |name, value: u64| changed(move |s| s.processes[0].metrics.set(name, value));
    assert_eq!(found(&|s| thread(s, &|t| t.run_ns = Some(9_000_000_000))), ["process CPU time"]);
    assert_eq!(process("cgroup_cpu_usage_ns", 1_050_000_000), ["process CPU time in its control group"]);
    let idle = |s: &mut Snapshot| {
        for cpu in s.cores.iter_mut().chain(&mut s.cpu) {
            (cpu.user_ns, cpu.idle_ns) = (0, cpu.idle_ns + cpu.user_ns);
        }
    };
    assert_eq!(found(&idle), ["all watched processes' CPU time"]);
    assert_eq!(found(&|s| s.cores[0].idle_ns += 3_000_000_000), ["host CPU time"]);
    let slow = |s: &mut Snapshot| {
        s.cpu = s.cpu.map(|cpu| CpuTimes { idle_ns: cpu.idle_ns + 4_000_000_000, ..cpu });
        s.cores.iter_mut().for_each(|core| core.idle_ns += 2_000_000_000);
    };
    assert_eq!(found(&slow), ["host CPU time and the clock"]);
    assert_eq!(process("rss_anonymous_bytes", 20_000_000), ["resident memory"]);
    assert_eq!(process("rss_walked_bytes", 20_000_000), ["resident memory, page by page"]);
    assert_eq!(host("memory_free_bytes", 900_000_000), ["memory of the machine"]);
    assert_eq!(host("context_switches", 6000), Vec::<&str>::new(), "within the tolerance");
    let switches = Some(Switches { voluntary: 900_000, involuntary: 0 });
    assert_eq!(found(&|s| thread(s, &|t| t.switches = switches)), ["context switches"]);
    assert_eq!(process("page_faults", 900_000), ["page faults"]);
    assert_eq!(process("cgroup_oom_kills", 5), ["kills for want of memory"]);
    assert_eq!(network("connections_looked_at", 5000), ["established connections"]);
    assert_eq!(network("tcp_established", 9000), ["TCP sockets"]);
    assert_eq!(found(&|s| s.listeners[0].waiting = 200), ["accept queue"]);
    assert_eq!(network("listen_overflows", 900), ["connections not accepted"]);
    let bpf = |change: &dyn Fn(&mut BpfSample)| found(&|s| change(s.bpf.as_mut().unwrap()));
    let insert = |bpf: &mut BpfSample| bpf.counts = [("losses.retransmits".to_owned(), 500)].into();
    assert_eq!(bpf(&|b| insert(b)), ["retransmits"]);
    assert_eq!(bpf(&|b| b.histograms.values_mut().for_each(|h| h.sum = 1 << 40)), ["bytes sent"]);
    assert_eq!(bpf(&|b| b.drops = [("CPU_BACKLOG".to_owned(), 90)].into()), ["packets dropped by a full backlog"]);
}

#[test]
fn what_adds_up_over_the_run_is_found_though_no_pair_shows_it() {
    let snapshots: Vec<Snapshot> = (0..20)
        .map(|at_s| {
            let mut snapshot = agreeing(at_s);
            // A fifth more than the account of the process: 100 ms a second.
            snapshot.processes[0].threads[0].run_ns = Some(at_s * 600_000_000);
            snapshot
        })
        .collect();
    let found = disagreements(&snapshots);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].count, found[0].compared, found[0].window_s), (1, 20, [0.0, 19.0]));
}

#[test]
fn what_the_hypervisor_stole_is_no_disagreement_and_hides_no_other() {
    // Of two cores 30 % are stolen for a minute; the kernel counts so much of wall-clock time in all.
    let found = |counted: f64, process: f64| {
        let snapshots: Vec<Snapshot> = (0..60)
            .map(|at_s| {
                let mut snapshot = agreeing(at_s);
                let wall_ns = at_s as f64 * 1e9;
                let core = CpuTimes {
                    user_ns: (wall_ns * 0.25) as u64,
                    steal_ns: (wall_ns * 0.3) as u64,
                    idle_ns: (wall_ns * (counted - 0.55)) as u64,
                    ..CpuTimes::default()
                };
                let twice = |ns: u64| ns * 2;
                let (user_ns, steal_ns, idle_ns) = (twice(core.user_ns), twice(core.steal_ns), twice(core.idle_ns));
                snapshot.cpu = Some(CpuTimes { user_ns, steal_ns, idle_ns, ..CpuTimes::default() });
                snapshot.cores = vec![core; 2];
                // The process, its thread and its group have so much of a core.
                let used_ns = (wall_ns * process) as u64;
                snapshot.processes[0].user_ns = Some(used_ns);
                snapshot.processes[0].threads[0].run_ns = Some(used_ns);
                snapshot.processes[0].metrics.set("cgroup_cpu_usage_ns", used_ns);
                snapshot
            })
            .collect();
        disagreements(&snapshots).iter().map(|found| found.check.metric).collect::<Vec<_>>()
    };
    for counted in [0.7, 1.0, 1.3] {
        assert_eq!(found(counted, 0.5), Vec::<&str>::new(), "{counted} of the time is counted");
    }
    // The processes' own accounts have what was stolen from them in them, and more of it than the machine's may.
    assert_eq!(found(1.0, 1.5), Vec::<&str>::new());
    for counted in [0.55, 1.6] {
        assert_eq!(found(counted, 0.5), ["host CPU time and the clock"], "{counted} of the time is counted");
    }
    assert_eq!(found(1.0, 2.5), ["all watched processes' CPU time"]);
}

#[test]
fn what_changed_hands_is_not_compared() {
    assert_eq!(changed(|s| s.processes[0].start_ticks += 1), Vec::<&str>::new(), "another process");
    assert_eq!(changed(|s| s.processes[0].threads[0].tid = 9), Vec::<&str>::new(), "another thread");
    assert_eq!(changed(|s| s.cores.truncate(1)), Vec::<&str>::new(), "a core went");
    let slept = |s: &mut Snapshot| (s.suspended_ns, s.at_ns) = (Some(7), s.at_ns + 900_000_000_000);
    assert_eq!(changed(slept), Vec::<&str>::new(), "the machine slept");
    let elsewhere = |s: &mut Snapshot| {
        s.network_pid = Some(9);
        s.network.set("listen_overflows", 900);
    };
    assert_eq!(changed(elsewhere), Vec::<&str>::new(), "another namespace");
    assert!(disagreements(&[]).is_empty() && disagreements(&[Snapshot::default(), Snapshot::default()]).is_empty());
}
