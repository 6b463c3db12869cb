//! A history that is saved and restored goes on as the one that was not: to the last bit, wherever a run is cut.

use diagnose::history::History;
use diagnose::limits::STRETCHES_MAX;
use model::Snapshot;
use model::remote::GeneratorHost;
use model::snapshot::{CpuTimes, ListenerSample, Neighbour, Quota, Role, Switches, ThreadSample};
use proptest::prelude::*;
use testkit::recordings::{process, thread};

/// A reading with something of every kind, some of it missing now and then, drawn from `random`.
fn reading(number: i64, random: &mut impl FnMut() -> u64) -> Snapshot {
    let n = number.unsigned_abs();
    let times = |n: u64| CpuTimes { user_ns: 7 * n, idle_ns: 1_000_000_000 * n, ..CpuTimes::default() };
    let mut snapshot = Snapshot { at_ns: number * 1_000_000_000 + (random() % 1000) as i64, ..Snapshot::default() };
    snapshot.wall_offset_ns = Some(1_753_971_753_123_456_789 + i128::from(random() % 5));
    snapshot.cpu = Some(times(n));
    snapshot.cores = vec![times(n); 2];
    snapshot.memory_available_bytes = (!random().is_multiple_of(3)).then(|| (1 << 30) | (random() % 1000));
    snapshot.network_pid = Some(if random().is_multiple_of(50) { 8 } else { 7 });
    // It falls now and then.
    snapshot.network.set_if("listen_drops", (!random().is_multiple_of(4)).then(|| n % 97 * 3));
    snapshot.host.set("forks", n * 3 + random() % 3);
    snapshot.disks.entry("sda".to_owned()).or_default().set("read_bytes", n * 4096);
    snapshot.interfaces.entry("lo".to_owned()).or_default().set("received_bytes", n * 77);
    let waiting = (random() % 9) as u32;
    snapshot.listeners = vec![ListenerSample { address: "127.0.0.1:80".to_owned(), waiting, ..Default::default() }];
    snapshot.generator_quota = Some(Quota { cpus: 1.5, throttled: n, throttled_ns: n * 10 });
    snapshot.neighbours =
        vec![Neighbour { pid: 5, start_ticks: 1, name: "other".to_owned(), cpu_ns: n * 5, ..Default::default() }];
    if random().is_multiple_of(2) {
        let mut host = GeneratorHost { cpu: Some(times(n)), ..Default::default() };
        host.network.set("retransmits", n * 2);
        host.interfaces.entry("eth0".to_owned()).or_default().set("received_bytes", n * 55);
        snapshot.generator_host = Some(Box::new(host));
    }
    for (role, pid) in [(Role::Target, 40 + (n / 300) as u32), (Role::Generator, 1)] {
        let run_ns = Some(n * 1000 + random() % 100);
        let switches = Some(Switches { voluntary: n, involuntary: n / 2 });
        let worker = ThreadSample { run_ns, wait_ns: Some(n / 3), switches, ..thread(pid, "w") };
        let mut sample = process(role, pid, "server", vec![worker]);
        (sample.user_ns, sample.system_ns, sample.rss_bytes) = (Some(n * 10), Some(n), Some(random() % 10_000));
        sample.metrics.set("minor_faults", n * 2);
        snapshot.processes.push(sample);
    }
    snapshot
}

fn readings(seed: u64, count: i64) -> Vec<Snapshot> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    (0..count).map(|number| reading(number, &mut random)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_run_that_is_cut_anywhere_is_the_run_that_was_not(
        seed in any::<u64>(),
        mut cuts in prop::collection::vec(0usize..2 * STRETCHES_MAX + 100, 0..4),
    ) {
        cuts.sort_unstable();
        let all = readings(seed, 2 * STRETCHES_MAX as i64 + 100);
        let whole = History::of(&all);
        let (mut history, mut from) = (History::default(), 0);
        for cut in cuts {
            all[from..cut].iter().for_each(|snapshot| history.push(snapshot));
            from = cut;
            let restored = History::restore(&history.save().unwrap()).unwrap();
            prop_assert!(restored == history, "cut at {}", cut);
            history = restored;
        }
        all[from..].iter().for_each(|snapshot| history.push(snapshot));
        prop_assert!(history == whole);
    }
}

#[test]
fn bytes_that_are_no_history_are_refused_and_never_stop_the_reader() {
    let mut history = History::of(&readings(3, 12));
    let bytes = history.save().unwrap();
    for cut in (0..bytes.len()).step_by(7) {
        assert!(History::restore(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(History::restore(&[9, 0, 0]).unwrap_err().contains("expected a history of layout 1, got one of 9"));
    let next = readings(4, 20);
    for at in (0..bytes.len()).step_by(3) {
        let mut other = bytes.clone();
        other[at] ^= 0x15;
        // Sense or none: it goes on, or is refused.
        if let Ok(mut restored) = History::restore(&other) {
            next[13..16].iter().for_each(|snapshot| restored.push(snapshot));
        }
    }
    // And the whole one takes more.
    next[13..].iter().for_each(|snapshot| history.push(snapshot));
}
