//! Requests that are late by a turn of the scheduler, on a machine that target and generator share: what is said of them, and whether
//! the target is at its limit then.

use super::first_lines::not_valid_for;
use crate::common::judged::{sampled, with};
use crate::common::{SECOND, Second, closed, open};
use diagnose::diagnose;
use model::Recording;
use model::bpf::{BpfSample, Log2};
use model::finding::{LossKind, Standing, WhatGives};
use model::recording::Timeline;
use model::request::Request;
use model::snapshot::Role;
use model::split::{Passage, SplitRequest, TickSplit};

/// Of 400 requests that take 0.1 ms thirteen took so much longer, on a machine where the generator is busy and the target waits for a CPU.
fn slow_beside_the_generator(excess_ns: u64, change: impl Fn(&mut Second)) -> WhatGives {
    one_in_beside_the_generator(32, excess_ns, change)
}

/// The same with one in so many.
fn one_in_beside_the_generator(every: u64, excess_ns: u64, change: impl Fn(&mut Second)) -> WhatGives {
    diagnose(&recorded(every, excess_ns, change)).gives.unwrap()
}

fn recorded(every: u64, excess_ns: u64, change: impl Fn(&mut Second)) -> Recording {
    recorded_with(every, excess_ns, 0, change)
}

/// The same where so much of it was spent in line for a free connection.
fn recorded_with(every: u64, excess_ns: u64, in_line_ns: u64, change: impl Fn(&mut Second)) -> Recording {
    let build = open().each(|s| {
        (s.response_ns, s.in_flight, s.busy) = (100_000, 1, 0.8);
        (s.target, s.idle_cores) = (vec![(0.55, 0.025)], 0.6);
        change(s);
    });
    let ran_ns = (build.seconds[0].busy * 1e9) as u64;
    let mut recording = with(build, |second, s| {
        let generator = s.processes.iter_mut().filter(|process| process.role == Role::Generator);
        generator.flat_map(|process| &mut process.threads).for_each(|thread| thread.run_ns = Some(second * ran_ns));
    });
    sampled(&mut recording, 400, |n| {
        let sent_ns = SECOND + n * 20_000_000;
        let (late_ns, in_line_ns) = if n % every == 0 { (excess_ns, in_line_ns) } else { (0, 0) };
        let ready_ns = sent_ns - in_line_ns;
        Request { ready_ns, sent_ns, ended_ns: ready_ns + 100_000 + late_ns, ordinal: 2, ..Request::default() }
    });
    recording
}

#[test]
fn requests_slow_for_a_turn_of_the_scheduler_are_said_to_be_so_beside_the_generator() {
    let shared = slow_beside_the_generator(3_000_000, |_| {});
    assert_eq!(shared.standing, Standing::Unexplained, "which of them waited is not known: {shared:?}");
    let said = "waited for a CPU 25.0 ms of each second, beside this generator: where they share CPUs, keep them apart";
    assert!(shared.text.contains("not known") || shared.text.contains("no cause"), "{shared:?}");
    assert!(shared.text.contains(said), "{shared:?}");
    let is_said = |excess_ns, change: &dyn Fn(&mut Second)| {
        slow_beside_the_generator(excess_ns, change).text.contains("waited for a CPU")
    };
    assert!(!is_said(50_000_000, &|_| {}), "later than a scheduler makes anybody");
    assert!(!is_said(3_000_000, &|s| s.target = vec![(0.55, 0.005)]), "too little of the time");
    assert!(!is_said(3_000_000, &|s| s.busy = 0.1), "the generator hardly ran");
    assert!(!is_said(3_000_000, &|s| s.neighbours = [0.4, 0.0]), "somebody else did");
    // All cores are busy with it, and its threads wait for each other.
    let full = |threads| {
        slow_beside_the_generator(3_000_000, move |s| (s.target, s.idle_cores, s.busy) = (vec![threads; 4], 0.1, 0.2))
    };
    let waiting = full((0.42, 0.2));
    assert_eq!(waiting.standing, Standing::AtItsLimit, "{waiting:?}");
    assert!(waiting.text.starts_with("sound: all cores are busy, 1.68 of 2 with the target; 3.2 % of"), "{waiting:?}");
    assert!(waiting.text.ends_with("waited for a CPU 32 % of the time it wanted one"), "{waiting:?}");
    let hardly = full((0.42, 0.03));
    assert_eq!(hardly.standing, Standing::Unexplained, "they hardly waited");
    let begins = "all cores are busy, 1.68 of 2 with the target; 3.2 % of the requests were slow";
    assert!(hardly.text.starts_with(begins), "{hardly:?}");
}

#[test]
fn a_little_that_is_late_by_a_turn_of_the_scheduler_is_said_and_is_not_what_gives() {
    let begins = "not at its limit: nothing gives yet (its busiest thread wants 57 % of a core); ";
    // 13 ms of 53 ms that all of them took, some of it for queueing.
    let little = one_in_beside_the_generator(40, 1_300_000, |_| {});
    assert_eq!(little.standing, Standing::BelowItsLimit, "{little:?}");
    assert!(little.text.starts_with(begins) && little.text.contains("of the requests were slow"), "{little:?}");
    assert!(little.text.contains("no cause") || little.text.contains("not known"), "{little:?}");
    assert_eq!(one_in_beside_the_generator(40, 3_000_000, |_| {}).standing, Standing::Unexplained, "more of the time");
    let full = one_in_beside_the_generator(40, 1_300_000, |s| s.target = vec![(0.9, 0.02)]);
    assert!(!full.text.contains("not at its limit"), "{full:?}");
}

#[test]
fn waiting_for_a_cpu_with_cores_left_is_no_limit_and_a_line_before_a_full_machine_is_one() {
    let waits = |excess_ns, threads: Vec<(f64, f64)>, idle_cores| {
        slow_beside_the_generator(excess_ns, move |s| (s.target, s.idle_cores) = (threads.clone(), idle_cores))
    };
    let much = waits(3_000_000, vec![(0.4, 0.2)], 0.6);
    assert_eq!(much.standing, Standing::BelowItsLimit, "{much:?}");
    assert!(much.text.starts_with("not at its limit") && much.text.contains("beside this generator"), "{much:?}");
    let own = slow_beside_the_generator(3_000_000, |s| (s.target, s.busy) = (vec![(0.4, 0.2), (0.4, 0.2)], 0.1));
    assert_eq!(own.standing, Standing::BelowItsLimit, "{own:?}");
    assert!(own.text.ends_with("waited for a CPU 200 ms of each second, while threads of its own ran"), "{own:?}");
    assert_eq!(waits(3_000_000, vec![(0.4, 0.05)], 0.6).standing, Standing::Unexplained, "a ninth of what it wanted");
    assert_eq!(waits(50_000_000, vec![(0.4, 0.2)], 0.6).standing, Standing::Unexplained, "no turn is so long");
    // Where the machine is full of what the target does, and its threads wait longer for a CPU than they run, that is for want of one, however long.
    let own_work = waits(50_000_000, vec![(0.22, 0.3); 8], 0.05);
    assert_eq!(own_work.standing, Standing::AtItsLimit, "{own_work:?}");
    let others = waits(50_000_000, vec![(0.15, 0.2); 8], 0.05);
    assert_eq!(others.standing, Standing::Unexplained, "two fifths of the machine are somebody else's: {others:?}");
    // A sixth of the cores is idle while eight threads wait for one: they wake each other.
    let full = waits(3_000_000, vec![(0.15, 0.2); 8], 0.3);
    assert_eq!(full.standing, Standing::AtItsLimit, "{full:?}");
    assert!(full.text.starts_with("sound: the machine's 2 cores are all busy, 1.20 with it; 3.2 % of"), "{full:?}");
    let one = waits(3_000_000, vec![(0.55, 0.4)], 0.4);
    assert_eq!(one.standing, Standing::AtItsLimit, "{one:?}");
    assert!(
        one.text.starts_with("sound: its one worker is full (55 % of a core, and it waited for one 40 %); 3.2 % of"),
        "{one:?}"
    );
    // How long a line is that grew before it says nothing of what each in it waited for.
    let line = |in_line_ns| {
        let recording =
            recorded_with(32, 50_000_000, in_line_ns, |s| (s.target, s.idle_cores) = (vec![(0.15, 0.2); 8], 0.3));
        diagnose(&recording).gives.unwrap().standing
    };
    assert_eq!(line(49_000_000), Standing::AtItsLimit);
    assert_eq!(line(30_000_000), Standing::Unexplained, "two fifths were spent elsewhere");
    // Of several generators one was kept from running: what was late may be its doing, and that is said, too.
    let mut joint = recorded(32, 3_000_000, |s| (s.target, s.idle_cores) = (vec![(0.55, 0.4)], 0.4));
    joint.capsule.generators = Some(not_valid_for(&[("near", ""), ("slow", "generator-starved")]));
    let joint = diagnose(&joint).gives.unwrap().text;
    assert!(joint.starts_with("sound: ") && joint.contains("; generator 'slow' was kept from running"), "{joint}");
    let few = waits(3_000_000, vec![(0.15, 0.07); 8], 0.3);
    assert_ne!(few.standing, Standing::AtItsLimit, "hardly any wait, and cores are idle: {few:?}");
}

/// A closed loop on a machine of which the target has so much: each fourth request is late by 3 ms, and of these some by far.
fn loop_on(threads: &[(f64, f64)], idle_cores: f64, by_far: impl Fn(u64) -> bool) -> Recording {
    let build = closed().each(|s| {
        (s.response_ns, s.in_flight, s.busy) = (100_000, 1, 0.2);
        (s.target, s.idle_cores) = (threads.to_vec(), idle_cores);
    });
    let mut recording = build.recording();
    sampled(&mut recording, 400, |n| {
        let sent_ns = SECOND + n * 20_000_000;
        let late_ns = match n % 4 {
            0 if by_far(n) => 60_000_000,
            0 => 3_000_000,
            _ => 0,
        };
        Request { ready_ns: sent_ns, sent_ns, ended_ns: sent_ns + 100_000 + late_ns, ordinal: 2, ..Request::default() }
    });
    recording
}

#[test]
fn requests_of_a_closed_loop_wait_for_a_core_where_none_is_left_and_are_the_machines_limit() {
    let full = diagnose(&loop_on(&[(0.8, 0.2); 2], 0.05, |_| false)).gives.unwrap();
    assert_eq!(full.standing, Standing::AtItsLimit, "{full:?}");
    let begins = "all cores are busy, 1.60 of 2 with the target, so requests wait in it for a core, and not all as long: 25 % of";
    assert!(full.text.starts_with(begins), "{full:?}");
    // That some wait far longer than a turn is how the target chooses whom it serves.
    let unfair = diagnose(&loop_on(&[(0.8, 0.2); 2], 0.05, |n| n % 32 == 0)).gives.unwrap();
    assert!(unfair.text.starts_with(begins), "{unfair:?}");
    let others = diagnose(&loop_on(&[(0.4, 0.2); 2], 0.05, |_| false)).gives.unwrap();
    assert!(!others.text.contains("wait in it for a core"), "most of the cores are somebody else's: {others:?}");
    let idle = diagnose(&loop_on(&[(0.3, 0.02); 2], 1.2, |_| false)).gives.unwrap();
    assert!(!idle.text.contains("wait in it for a core"), "{idle:?}");
}

#[test]
fn of_many_that_are_late_by_a_turn_and_few_by_far_the_few_are_told_apart() {
    let text = |by_far: fn(u64) -> bool| diagnose(&loop_on(&[(0.3, 0.02); 2], 1.2, by_far)).gives.unwrap().text;
    let few = text(|n| n % 32 == 0);
    assert!(
        few.contains("25 % of the requests were slow")
            && few.contains(", 72 % in the 3.2 % that were late by 20.0 ms and more"),
        "{few}"
    );
    assert!(!text(|_| false).contains("that were late by"), "none was");
    assert!(!text(|_| true).contains("that were late by"), "they all were");
    // No turn is so long as theirs: it is not for want of a CPU that the load is slow.
    let room = |by_far: fn(u64) -> bool| diagnose(&loop_on(&[(0.4, 0.2)], 0.6, by_far)).gives.unwrap().standing;
    assert_eq!(room(|_| false), Standing::BelowItsLimit);
    assert_eq!(room(|n| n % 32 == 0), Standing::Unexplained);
    // The generator looked away for as long: which of them were late in the target is not known.
    let mut away = loop_on(&[(0.3, 0.02); 2], 1.2, |n| n % 32 == 0);
    away = looked_away(away, 25_000_000);
    let away = diagnose(&away).gives.unwrap().text;
    assert!(!away.contains("that were late by"), "{away}");
}

#[test]
fn late_ones_between_the_kernels_windows_are_slow_and_what_waits_between_them_for_a_core_is_no_loss() {
    // What the windows saw took 80 µs of the target's each; in none of them was a request late.
    let losses = |in_windows: bool, joined_late: bool, idle_cores: f64| {
        let mut recording = loop_on(&[((2.0 - idle_cores) / 2.0, 0.3); 2], idle_cores, |n| n % 8 == 0);
        for snapshot in &mut recording.snapshots {
            let histogram = Log2 { sum: 100 * 80_000, buckets: [vec![0; 17], vec![100]].concat() };
            let histograms = [("sockets.service_ns".to_owned(), histogram)].into();
            snapshot.bpf = Some(BpfSample { histograms, ..BpfSample::default() });
        }
        recording.totals.in_windows = in_windows.then(Box::default);
        let sent_ns = SECOND;
        let ended_ns = sent_ns + if joined_late { 60_000_000 } else { 100_000 };
        let request = Request { ready_ns: sent_ns, sent_ns, ended_ns, ..Request::default() };
        let passage =
            Passage { arrived_ns: sent_ns + 10_000, read_ns: sent_ns + 12_000, written_ns: ended_ns - 10_000 };
        let joined = SplitRequest { key: 1, below: None, request, passage: Ok(passage) };
        recording.split.push(&TickSplit { sampled: vec![joined], ..TickSplit::default() });
        diagnose(&recording).losses.iter().map(|loss| loss.kind).collect::<Vec<_>>()
    };
    assert!(losses(true, false, 1.0).contains(&LossKind::Slow));
    assert!(!losses(false, false, 1.0).contains(&LossKind::Slow), "the kernel looked all along, and saw none");
    assert!(!losses(true, true, 1.0).contains(&LossKind::Slow), "one of them was looked at");
    let waits = |idle_cores: f64| {
        let build =
            closed().each(|s| (s.target, s.idle_cores) = (vec![((2.0 - idle_cores) / 2.0, 0.1); 2], idle_cores));
        let mut recording = build.recording();
        sampled(&mut recording, 400, |n| {
            let sent_ns = SECOND + n * 20_000_000;
            let took_ns = if n % 10 == 0 { 90_000_000 } else { 10_000_000 };
            Request { ready_ns: sent_ns, sent_ns, ended_ns: sent_ns + took_ns, ordinal: 2, ..Request::default() }
        });
        diagnose(&recording).losses.iter().any(|loss| loss.kind == LossKind::Waiting)
    };
    assert!(!waits(0.8), "both cores were taken whenever nobody stood still");
    assert!(waits(1.4));
}

/// The same where the generator looked away for so long at most.
fn looked_away(mut recording: Recording, ns: u64) -> Recording {
    let rows = recording.timeline.rows().to_vec();
    recording.timeline = Timeline::default();
    for mut row in rows {
        row.gauges.reap_delay_ns_max = ns;
        recording.timeline.push(row);
    }
    recording
}
