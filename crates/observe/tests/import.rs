//! Texts of sar, nmon and vmstat: small ones of several versions, any bytes, and real ones beside our own readings.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::Snapshot;
use observe::import::{FORMATS, Format, ImportError, Imported, Options, read};
use observe::{ObserveSpec, Observer};
use proptest::prelude::*;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DAY_NS: u64 = 86_400_000_000_000;

fn format(name: &str) -> &'static Format {
    FORMATS.iter().find(|format| format.name == name).unwrap()
}

fn folder() -> std::path::PathBuf {
    testkit::workspace().join("crates/observe/tests/testdata/import")
}

fn try_bytes(name: &str, mut text: &[u8]) -> Result<Imported, ImportError> {
    read(format(name), &mut text, &Options::default())
}

/// Read whole, with nothing left over.
fn whole(name: &str, file: &str) -> (Imported, Vec<Snapshot>) {
    let text = std::fs::read(folder().join(file)).unwrap();
    let imported = try_bytes(name, &text).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!((imported.about.not_understood, &imported.about.examples), (0, &Vec::new()), "{file}");
    let again = try_bytes(name, &text).unwrap();
    let snapshots: Vec<Snapshot> = again.snapshots.collect();
    assert_eq!(snapshots.len() as u64, imported.about.samples);
    (imported, snapshots)
}

fn seconds(snapshots: &[Snapshot]) -> Vec<i64> {
    snapshots.iter().map(|s| s.at_ns / 1_000_000_000).collect()
}

fn host(snapshots: &[Snapshot], name: &str) -> Vec<Option<u64>> {
    snapshots.iter().map(|s| s.host.of(name)).collect()
}

#[test]
fn sar_of_an_older_sysstat_on_a_clock_of_twelve_hours() {
    let (imported, shots) = whole("sar", "sar-10-12h.txt");
    assert_eq!((&*imported.about.host, imported.about.cores), ("web07", Some(4)));
    // 23:50:01, 23:55:01 and, past midnight, 00:00:01 of the next day: 4 March 2021 and not the 3rd of April.
    assert_eq!(seconds(&shots), [0, 300, 600]);
    assert_eq!(imported.started_at_unix_ns, Some((18_690 * 86_400 + 85_801) * 1_000_000_000));
    assert!(imported.about.notes.iter().any(|note| note.contains("month/day")), "{:?}", imported.about.notes);
    let cpu = shots[2].cpu.unwrap();
    // Four cores: 300 s × 4 × (11 % + 20 %).
    assert_eq!((cpu.user_ns, cpu.idle_ns), (372_000_000_000, 1_776_000_000_000));
    assert_eq!((cpu.softirq_ns, cpu.total_ns()), (0, 2_400_000_000_000), "interrupts are not told apart here");
    assert_eq!(host(&shots, "context_switches"), [Some(0), Some(30_150), Some(90_225)]);
    assert_eq!(host(&shots, "major_faults"), [Some(0), Some(150), Some(600)]);
    assert_eq!(host(&shots, "memory_total_bytes")[1], Some(4_000_000 * 1024));
    let disk = &shots[2].disks["dev8-0"];
    assert_eq!((disk.of("write_bytes"), disk.of("busy_ns")), (Some(480 * 512 * 300), Some(165_000_000_000)));
    assert_eq!((disk.of("transfers"), disk.of("transfer_ns")), (Some(9_000), Some(150_000_000_000)));
    assert_eq!(shots[2].interfaces["eth0"].of("received_bytes"), Some(30 * 1024 * 300));
    assert_eq!(shots[2].network.of("tcp_retransmits"), Some(1350));
    assert!(imported.about.not_taken.contains(&"svctm".to_owned()));
}

#[test]
fn sar_of_a_newer_sysstat_with_a_comma_and_a_restart() {
    let (imported, shots) = whole("sar", "sar-12-comma-restart.txt");
    // In the middle of what was not measured stands a moment without readings.
    assert_eq!(seconds(&shots), [0, 600, 900, 1200, 1800]);
    let core = |at: usize, number: usize| shots[at].cores[number];
    assert_eq!((core(1, 0).softirq_ns, core(1, 0).irq_ns), (108_000_000_000, 12_000_000_000));
    assert_eq!((core(1, 1).user_ns, core(1, 1).softirq_ns), (360_000_000_000, 1), "measured, and none");
    // Between the last row before and the header after the restart nothing was measured.
    assert_eq!((shots[1].cpu, shots[2].cpu), (shots[3].cpu, None));
    assert_eq!(host(&shots, "swap_in_pages"), [Some(0), Some(1500), None, Some(1500), Some(1500)]);
    assert_eq!(imported.events.len(), 1, "{:?}", imported.events);
    assert_eq!((&*imported.events[0].kind, imported.events[0].at_ns), ("host-restarted", 749_000_000_000));
}

#[test]
fn sar_as_it_runs_over_midnight_and_a_second_day() {
    let (imported, shots) = whole("sar", "sar-live-midnight.txt");
    let second_day = 10 * 3600 + 86_420;
    assert_eq!(seconds(&shots), [0, 10, 20, (second_day + 20) / 2, second_day, second_day + 10]);
    assert_eq!(host(&shots, "load_1m_hundredths"), [None, Some(150), Some(250), None, None, Some(10)]);
    let pressure = host(&shots, "pressure_cpu_some_ns");
    assert_eq!(pressure, [Some(0), Some(5_000_000_000), Some(7_500_000_000), None, None, None], "no rate over the gap");
    assert_eq!(imported.about.interval_ns, 10_000_000_000);
}

#[test]
fn sadf_with_semicolons() {
    let (imported, shots) = whole("sar", "sadf-d.txt");
    assert_eq!((&*imported.about.host, seconds(&shots)), ("vm", vec![0, 600, 1200]));
    let cpu = shots[2].cpu.unwrap();
    assert_eq!((cpu.user_ns, cpu.system_ns), (540_000_000_000, 180_000_000_000));
    assert_eq!(host(&shots, "interrupts"), [Some(0), Some(393_600), Some(453_600)]);
    assert_eq!(shots[1].interfaces["eth0"].of("receive_drops"), Some(600));
    assert_eq!((imported.events.len(), imported.events[0].at_ns), (1, 1_499_000_000_000));
    assert_eq!(imported.started_at_unix_ns.unwrap() % DAY_NS, 36_001_000_000_000);
}

#[test]
fn vmstat_without_times_takes_them_as_given() {
    let text = std::fs::read(folder().join("vmstat-plain.txt")).unwrap();
    let options = Options { every_ns: Some(5_000_000_000), started_at_unix_ns: Some(77), is_first_interval: false };
    let imported = read(format("vmstat"), &mut &*text, &options).unwrap();
    assert_eq!((imported.started_at_unix_ns, imported.about.is_dated), (Some(77), false));
    let shots: Vec<Snapshot> = imported.snapshots.collect();
    assert_eq!(seconds(&shots), [0, 5, 10, 15]);
    assert_eq!(host(&shots, "memory_free_bytes")[0], Some(500_000 * 1024), "the first row's readings count");
    assert_eq!(host(&shots, "context_switches"), [0, 10_000, 20_000, 30_000].map(Some), "its rates do not");
    assert_eq!(host(&shots, "swap_out_pages"), [0, 20, 20, 20].map(Some));
    let share = |of: fn(&model::snapshot::CpuTimes) -> u64| of(&shots[3].cpu.unwrap()) as f64 / 15e9;
    assert!((share(|c| c.user_ns) - 0.6).abs() < 1e-9 && (share(|c| c.steal_ns) - 0.05 / 3.0).abs() < 1e-9);
    let (assumed, shots) = whole("vmstat", "vmstat-plain.txt");
    assert_eq!(seconds(&shots), [0, 1, 2, 3]);
    assert!(assumed.about.notes.iter().any(|note| note.contains("1 s is assumed")), "{:?}", assumed.about.notes);
    let first = Options { is_first_interval: true, ..Options::default() };
    let all = read(format("vmstat"), &mut &*text, &first).unwrap().snapshots.last().unwrap();
    assert_eq!((all.host.of("context_switches"), all.at_ns), (Some(6_800), 4_000_000_000));
}

#[test]
fn vmstat_with_times_and_of_disks() {
    let (imported, shots) = whole("vmstat", "vmstat-active-stamps.txt");
    assert_eq!(
        (seconds(&shots), imported.started_at_unix_ns),
        (vec![0, 2], Some((20_778 * 86_400 + 86_398) * 1_000_000_000))
    );
    assert_eq!(host(&shots, "interrupts"), [Some(0), Some(2730)]);
    assert_eq!(host(&shots, "memory_active_bytes"), [Some(2_192_088 * 1024); 2]);
    let (_, shots) = whole("vmstat", "vmstat-disks.txt");
    let disks: Vec<_> = shots.iter().map(|s| (s.disks["vda"].of("reads"), s.disks["vda"].of("read_bytes"))).collect();
    assert_eq!(disks, [(Some(1000), Some(4_096_000)), (Some(1100), Some(4_505_600))]);
    assert_eq!(shots[1].disks.len(), 1, "loop0 was never used");
}

#[test]
fn nmon_by_its_snapshots_also_when_it_was_sorted() {
    let text = std::fs::read_to_string(folder().join("nmon-16.nmon")).unwrap();
    let (imported, shots) = whole("nmon", "nmon-16.nmon");
    assert_eq!((&*imported.about.host, &*imported.about.kernel), ("app3", "6.1.0-13-amd64"));
    // 11 seconds by the clock, to the second; 10 by the interval.
    assert_eq!(seconds(&shots), [0, 10, 20]);
    let cpu = shots[2].cpu.unwrap();
    assert_eq!((cpu.user_ns, cpu.idle_ns), (8_000_000_000, 28_000_000_000));
    assert_eq!(shots[2].cores.iter().map(|core| core.user_ns).collect::<Vec<_>>(), [2_000_000_000, 6_000_000_000]);
    assert_eq!(host(&shots, "context_switches"), [None, Some(0), Some(1005)], "the first PROC has no rates");
    assert_eq!(host(&shots, "page_faults"), [Some(0), Some(50_797), Some(51_797)]);
    assert_eq!(host(&shots, "memory_free_bytes"), [None, Some(1 << 30), None]);
    assert_eq!(shots[2].interfaces["br-lan"].of("sent_bytes"), Some(160 * 1024));
    assert_eq!(shots[2].disks["vda"].of("busy_ns"), Some(15_000_000_000));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    // sort(1) puts a header behind its rows only where its second word does: never before "T".
    let sorted = try_bytes("nmon", (lines.join("\n") + "\n").as_bytes()).unwrap();
    assert!(sorted.about.notes.iter().any(|note| note.contains("sorted")), "{:?}", sorted.about);
    let sorted: Vec<Snapshot> = sorted.snapshots.collect();
    assert_eq!((seconds(&sorted), sorted[2].cpu), (vec![0, 10, 20], shots[2].cpu));
}

#[test]
fn what_cannot_be_read_is_refused_with_the_next_step() {
    let said = |name, text: &[u8]| try_bytes(name, text).unwrap_err().to_string();
    assert!(said("sar", b"\x96\xd5\x75\x21....").contains("sar -A -f FILE > FILE.txt"));
    assert!(said("nmon", b"\x1f\x8b\x08").contains("gunzip"));
    assert!(said("sar", b"{\"sysstat\": {").contains("sadf -d"));
    assert!(said("sar", b"").contains("none of its 0 lines"));
    assert!(said("vmstat", b"hello\nworld\n").contains("line 1"));
    let vmstat = std::fs::read(folder().join("vmstat-plain.txt")).unwrap();
    assert_eq!(try_bytes("sar", &vmstat).unwrap_err(), ImportError::Other { wanted: "sar", found: "vmstat" });
    let sar = std::fs::read(folder().join("sar-10-12h.txt")).unwrap();
    assert_eq!(try_bytes("nmon", &sar).unwrap_err(), ImportError::Other { wanted: "nmon", found: "sar" });
}

#[test]
fn garbage_between_is_counted_with_its_line() {
    let text = std::fs::read_to_string(folder().join("sar-12-comma-restart.txt")).unwrap();
    let with =
        text.replacen("00:10:01          1", "From: operator\n\0\0\0\n00:10:01          1", 1).replace('\n', "\r\n");
    let imported = try_bytes("sar", with.as_bytes()).unwrap();
    let lines: Vec<u64> = imported.about.examples.iter().map(|misread| misread.line).collect();
    assert_eq!((imported.about.not_understood, lines), (2, vec![6, 7]));
    assert!(imported.about.why_partial().unwrap().contains("line 6"));
    let (_, undisturbed) = whole("sar", "sar-12-comma-restart.txt");
    assert_eq!(imported.snapshots.collect::<Vec<_>>(), undisturbed);
}

fn samples() -> Vec<(&'static Format, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let of = FORMATS.iter().find(|format| name.starts_with(format.name)).unwrap_or(format("sar"));
        all.push((of, std::fs::read(&path).unwrap()));
    }
    assert!(all.len() >= 8);
    all
}

/// Whatever comes: no panic, and snapshots that go forward and hold together.
fn survive(format: &Format, mut text: &[u8]) {
    let Ok(imported) = read(format, &mut text, &Options::default()) else { return };
    let (about, shots): (_, Vec<Snapshot>) = (imported.about, imported.snapshots.collect());
    assert_eq!(shots.len() as u64, about.samples);
    assert!(shots.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
    assert_eq!(shots[0].at_ns, 0);
}

#[test]
fn a_text_may_be_cut_anywhere() {
    for (format, text) in samples() {
        for end in 0..text.len() {
            survive(format, &text[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..2000)) {
        FORMATS.iter().for_each(|format| survive(format, &text));
    }

    #[test]
    fn spoilt_texts_are_survived(spoils in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        for (format, mut text) in samples() {
            for (at, byte) in &spoils {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            survive(format, &text);
        }
    }

    #[test]
    fn lines_in_any_order_are_survived(seed in any::<u64>()) {
        for (format, text) in samples() {
            let text = String::from_utf8(text).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            let mut state = seed | 1;
            for at in (1..lines.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                lines.swap(at, (state >> 33) as usize % (at + 1));
            }
            survive(format, lines.join("\n").as_bytes());
        }
    }
}

/// What a program prints, and our own readings before and after it, with the time that passed between them.
fn beside(
    program: &str,
    package: &str,
    args: &[&str],
    environment: &[(&str, &str)],
) -> Option<(Vec<u8>, Snapshot, Snapshot)> {
    let Some(program) = testkit::program(program) else {
        testkit::skip(&format!("{program} is not installed (apt-get install {package})"));
        return None;
    };
    let own_pid = std::process::id();
    let mut observer = Observer::new(ObserveSpec { own_pid, ..ObserveSpec::default() });
    let began = Instant::now();
    let before = observer.snapshot(0);
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").envs(environment.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut after = observer.snapshot(1);
    after.at_ns = began.elapsed().as_nanos() as i64;
    Some((output.stdout, before, after))
}

/// Counters that the text saw grow, we saw grow at least as much: its time lies within ours. It knows its moments to a
/// second, so an interval of two may be read as one of three, and where a first one came late the next is shorter.
fn assert_within(
    text: &[u8],
    (shots, asked_s): (&[Snapshot], f64),
    (before, after): (&Snapshot, &Snapshot),
    names: &[&str],
) {
    let shown = String::from_utf8_lossy(text);
    let (first, last) = (&shots[0], shots.last().unwrap());
    for name in names {
        let theirs = last.host.of(name).unwrap_or_else(|| panic!("no {name}: {shown}")) - first.host.of(name).unwrap();
        let ours = after.host.of(name).unwrap() - before.host.of(name).unwrap();
        let most = ours as f64 * 3.0 + 2.0;
        assert!(theirs as f64 <= most, "{name}: the text says {theirs}, we saw {ours}: {shown}");
    }
    let (theirs, ours) = (last.cpu.unwrap(), (before.cpu.unwrap(), after.cpu.unwrap()));
    let passed = |of: fn(&model::snapshot::CpuTimes) -> u64| (of(&ours.1) as f64 - of(&ours.0) as f64) / 1e9;
    let busy = theirs.busy_ns() as f64 / theirs.total_ns() as f64 * passed(|c| c.total_ns());
    // What happened before and after its window can be as much as there was time, and its shares are rounded. Its window is
    // as long as was asked for, whatever its times say, and not all the time that passed must have been counted.
    let cores = after.cores.len() as f64;
    let (window, wall) = (asked_s.min(last.at_ns as f64 / 1e9) * cores, after.at_ns as f64 / 1e9 * cores);
    let slack = (passed(|c| c.total_ns()).max(wall) - window).max(0.0) + passed(|c| c.total_ns()) * 0.02 + 0.1;
    assert!((busy - passed(|c| c.busy_ns())).abs() <= slack, "{busy} {} {slack}: {shown}", passed(|c| c.busy_ns()));
}

/// The memory there is lies between what we saw before and after: a hypervisor may give or take some at any moment
/// (virtio-mem, balloons).
fn assert_memory_total(shot: &Snapshot, before: &Snapshot, after: &Snapshot, slack_bytes: u64) {
    let of = |shot: &Snapshot| shot.host.of("memory_total_bytes").unwrap();
    let (theirs, before, after) = (of(shot), of(before), of(after));
    let range = before.min(after).saturating_sub(slack_bytes)..=before.max(after) + slack_bytes;
    assert!(range.contains(&theirs), "the text says {theirs} bytes of memory, we saw {before} and {after}");
}

#[test]
fn real_sar_agrees_with_our_own_readings() {
    for environment in [&[("S_TIME_FORMAT", "ISO")][..], &[("LC_TIME", "en_US.UTF-8")], &[]] {
        let Some((text, before, after)) = beside("sar", "sysstat", &["-A", "2", "2"], environment) else { return };
        let imported = try_bytes("sar", &text).unwrap();
        let about = &imported.about;
        let shown = String::from_utf8_lossy(&text);
        assert_eq!((about.not_understood, &about.examples), (0, &Vec::new()), "{shown}");
        // Its times are cut to a second, and a little less than two may lie between two of them.
        assert!(about.samples >= 3 && about.span_ns >= 3_000_000_000, "{about:?}");
        for name in ["cores[].softirq_ns", "interfaces[].received_bytes", "tcp_retransmits", "load_1m_hundredths"] {
            assert!(about.metrics.iter().any(|metric| metric == name), "no {name}: {:?}", about.metrics);
        }
        let shots: Vec<Snapshot> = imported.snapshots.collect();
        let names = ["context_switches", "forks", "page_faults", "interrupts"];
        assert_within(&text, (&shots, 4.0), (&before, &after), &names);
        assert_memory_total(shots.last().unwrap(), &before, &after, 0);
        assert_eq!(shots.last().unwrap().cores.len(), after.cores.len());
    }
}

#[test]
fn real_vmstat_agrees_with_our_own_readings() {
    for (args, asked_s) in [
        (&["-t", "2", "2"][..], 2.0),
        (&["1", "3"], 2.0),
        (&["-w", "-a", "-t", "2", "2"], 2.0),
        (&["-n", "1", "2"], 1.0),
    ] {
        let Some((text, before, after)) = beside("vmstat", "procps", args, &[]) else { return };
        let imported = try_bytes("vmstat", &text).unwrap();
        assert_eq!(imported.about.not_understood, 0, "{:?}", imported.about.examples);
        assert_eq!(imported.about.is_dated, args.contains(&"-t"));
        let shots: Vec<Snapshot> = imported.snapshots.collect();
        assert_within(&text, (&shots, asked_s), (&before, &after), &["context_switches", "interrupts"]);
    }
    let Some((text, before, after)) = beside("vmstat", "procps", &["-s"], &[]) else { return };
    let sums = try_bytes("vmstat", &text).unwrap().snapshots.next().unwrap();
    for name in ["context_switches", "interrupts", "forks", "swap_out_pages"] {
        let range = before.host.of(name).unwrap()..=after.host.of(name).unwrap();
        assert!(range.contains(&sums.host.of(name).unwrap()), "{name} {range:?} {sums:?}");
    }
    assert_memory_total(&sums, &before, &after, 0);
    let user = before.cpu.unwrap().user_ns..=after.cpu.unwrap().user_ns;
    assert!(user.contains(&sums.cpu.unwrap().user_ns), "{user:?} {sums:?}");
    let Some((text, before, after)) = beside("vmstat", "procps", &["-d"], &[]) else { return };
    let disks = try_bytes("vmstat", &text).map(|imported| imported.snapshots.last().unwrap().disks).unwrap_or_default();
    for (name, disk) in before.disks.iter().filter(|(name, _)| disks.contains_key(*name)) {
        for metric in ["reads", "read_bytes", "writes", "write_bytes"] {
            let range = disk.of(metric).unwrap()..=after.disks[name].of(metric).unwrap();
            assert!(range.contains(&disks[name].of(metric).unwrap()), "{name} {metric} {range:?}");
        }
    }
}

#[test]
fn real_nmon_agrees_with_our_own_readings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nmon");
    let Some(nmon) = testkit::program("nmon") else {
        return testkit::skip("nmon is not installed (apt-get install nmon)");
    };
    let own_pid = std::process::id();
    let mut observer = Observer::new(ObserveSpec { own_pid, ..ObserveSpec::default() });
    let (began, before) = (Instant::now(), observer.snapshot(0));
    // With -p it prints the id of the process that goes on behind it.
    let output = Command::new(nmon).args(["-p", "-s", "1", "-c", "3", "-F"]).arg(&file).output().unwrap();
    let pid = String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().unwrap();
    let is_there = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    testkit::wait_until("its end", || !is_there());
    let took = began.elapsed();
    let after = observer.snapshot(1);
    let text = std::fs::read(&file).unwrap();
    let imported = try_bytes("nmon", &text).unwrap();
    assert_eq!(imported.about.not_understood, 0, "{:?}", imported.about.examples);
    let shots: Vec<Snapshot> = imported.snapshots.collect();
    assert!(shots.len() >= 3, "{}", shots.len());
    let growth = |name: &str| {
        let read: Vec<u64> = shots.iter().filter_map(|s| s.host.of(name)).collect();
        read[read.len() - 1] - read[0]
    };
    // Two intervals of a second and what its start takes. Where it came late, its times, cut to a second, may stand for up
    // to two seconds more than passed.
    let most = if took < Duration::from_secs(4) { 1.5 } else { 3.0 };
    for name in ["context_switches", "forks", "page_faults"] {
        let ours = after.host.of(name).unwrap() - before.host.of(name).unwrap();
        assert!(growth(name) as f64 <= ours as f64 * most + 2.0, "{name}: {} {ours} in {took:?}", growth(name));
    }
    // To a tenth of a MiB.
    assert_memory_total(shots.last().unwrap(), &before, &after, 1 << 20);
}
