//! What was written is read: to the last bit, in bounded memory, as one file, by any of its names.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests: to stop is to fail, to print is to say"
)]

mod common;
use common::*;
use model::limits::EVENTS_OF_KIND_MAX;
use model::recording::{Disturbance, End, Row, Tick, Timeline, WorkerShares};
use model::run_requests::RunRequests;
use model::split::RunSplit;
use model::{Event, Interval, LatencyKind, limits};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Reader, StoreError, Writer, find, list, new_path, probe};

#[test]
fn a_finished_run_is_read_as_it_was_written_and_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    finished(&path, 5);
    assert_eq!(names(folder.path()), ["a.plimsoll"]);
    let before = std::fs::read(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    let r = reader.load().unwrap();
    assert_eq!((r.plan, r.capsule, r.end), (plan(), capsule(), End::Complete));
    assert_eq!(r.totals, totals(5));
    assert!(r.totals.is_conserved());
    assert_eq!(r.snapshots, (0..5).map(snapshot).collect::<Vec<_>>());
    assert_eq!(r.events.to_vec(), (0..5).map(event).collect::<Vec<_>>());
    assert_eq!(r.samplers, samplers());
    let mut requests = RunRequests::default();
    for sequence in 0..5 {
        let tick = Tick::of(&[interval(0, sequence), interval(1, sequence)]);
        requests.push(sequence, tick.row.counts.requests(), &tick.sum.requests);
    }
    assert_eq!(r.requests, requests);
    let mut of_target = RunSplit::default();
    (0..5).for_each(|sequence| of_target.push(&split(sequence)));
    assert_eq!(r.split, of_target);
    assert_eq!((r.requests.sampled().count(), r.requests.gaps().count(), r.requests.drawn_from()), (100, 10, 100));
    assert_eq!(reader.stored_diagnosis().unwrap(), Some(diagnosis()));
    assert_eq!(reader.partial_reason().unwrap(), None);
    drop(reader);
    assert_eq!(names(folder.path()), ["a.plimsoll"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn of_each_kind_of_events_so_many_are_read_and_the_others_counted_those_that_came_as_a_number_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = Writer::create(&path, &capsule(), &plan()).unwrap();
    let of_kind = |kind: &str, times: usize| vec![Event::new(0, kind, "\u{1}\"é"); times];
    // What the link to another machine's observer could not hold comes as an event of its own.
    let mut on_its_way: model::event::Events = of_kind("target-exit", EVENTS_OF_KIND_MAX + 9).into_iter().collect();
    writer.append(None, None, &on_its_way.take(5)).unwrap();
    writer.append(None, None, &of_kind("target-exit", 3)).unwrap();
    writer.append(None, None, &of_kind("target-oom-kill", 1)).unwrap();
    drop(writer);
    let events = Reader::open(&path).unwrap().load().unwrap().events;
    assert_eq!(events.len(), EVENTS_OF_KIND_MAX + 1);
    assert_eq!(events.last().map(|event| &*event.kind), Some("target-oom-kill"));
    assert_eq!(events.lost(), &[("target-exit".to_owned(), 12)].into());
}

#[test]
fn every_snapshot_is_shown_though_few_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let ticks = 3 * limits::SNAPSHOTS_MAX as u64 + 7;
    finished(&path, ticks);
    let reader = Reader::open(&path).unwrap();
    let mut seen = Vec::new();
    let with = reader.load_with(|snapshot| seen.push(snapshot.clone())).unwrap();
    assert_eq!(seen, (0..ticks).map(snapshot).collect::<Vec<_>>());
    assert!(with.snapshots.len() <= limits::SNAPSHOTS_MAX);
    assert_eq!(with, reader.load().unwrap());
}

#[test]
fn a_row_is_the_sum_of_its_workers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    finished(&path, 3);
    let reader = Reader::open(&path).unwrap();
    let rows: Vec<Row> = reader.intervals().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 3);
    for (sequence, row) in rows.iter().enumerate() {
        let mut sum = Interval::<u64>::new(0);
        let workers = [interval(0, sequence as u64), interval(1, sequence as u64)];
        (sum.start_ns, sum.end_ns) = (workers[0].start_ns, workers[0].end_ns);
        for worker in &workers {
            sum.add(worker);
            sum.gauges.add_worker(&worker.gauges);
        }
        assert_eq!(*row, Row::of(&sum, WorkerShares { busy: 0.5, ..WorkerShares::default() }));
    }
    let mut timeline = Timeline::default();
    rows.into_iter().for_each(|row| timeline.push(row));
    assert_eq!(reader.load().unwrap().timeline, timeline);
}

#[test]
fn a_run_that_was_not_finished_is_partial_and_summed_from_its_ticks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = written(&path, 4);
    assert_eq!(Reader::open(&path).unwrap().load().unwrap().samplers, []);
    writer.keep_samplers(&samplers()[..1]).unwrap();
    writer.keep_samplers(&samplers()).unwrap();
    // While it is being written,
    let live = Reader::open(&path).unwrap().load().unwrap();
    assert_eq!(live.samplers, samplers());
    writer.mark_partial("the disk is full").unwrap();
    drop(writer);
    // and after it was given up.
    let reader = Reader::open(&path).unwrap();
    let r = reader.load().unwrap();
    assert_eq!(r, live);
    assert_eq!(r.end, End::Partial);
    assert_eq!(reader.partial_reason().unwrap().as_deref(), Some("the disk is full"));
    let mut expected = totals(4);
    expected.first_request_ns = None;
    expected.peak_rss_bytes = 1_000_003;
    expected.cpu_user_ns = expected.sum.counts.cpu_user_ns;
    (expected.sum.end_ns, expected.sum.gauges) = (4 * SECOND_NS, r.totals.sum.gauges);
    assert_eq!(r.totals, expected);
    assert_eq!(r.totals.sum.gauges.connections, 50);
    assert!(r.totals.is_conserved());
    assert_eq!(reader.head().unwrap().requests, r.totals.sum.counts.requests());
    assert_eq!(reader.stored_diagnosis().unwrap(), None);
}

#[test]
fn a_run_that_goes_on_is_read_as_it_was_at_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = written(&path, 4);
    let before = Reader::open(&path).unwrap().load().unwrap();
    let reader = Reader::open(&path).unwrap();
    for sequence in 4..300 {
        let tick = Tick::of(&[interval(0, sequence), interval(1, sequence)]);
        writer.append(Some(&tick), Some(&snapshot(sequence)), &[event(0)]).unwrap();
    }
    assert_eq!(reader.load().unwrap(), before);
    assert_eq!(reader.intervals().count(), 4);
    writer.finish(&totals(300), &samplers(), End::Complete, Some(&diagnosis())).unwrap();
    assert_eq!(reader.load().unwrap(), before);
    let after = Reader::open(&path).unwrap().load().unwrap();
    assert!(!after.integrity.is_damaged() && after.end == End::Complete, "{:?}", after.integrity);
}

#[test]
fn what_came_while_requests_were_waited_for_is_in_no_rate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = written(&path, 2);
    let mut drain = [interval(0, 2), interval(1, 2)];
    drain[0].is_drain = true;
    drain[1].is_drain = true;
    writer.append(Some(&Tick::of(&drain)), None, &[]).unwrap();
    drop(writer);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.intervals().map(|row| row.unwrap().is_drain).collect::<Vec<_>>(), [false, false, true]);
    let r = reader.load().unwrap();
    assert_eq!((r.totals.sum.counts.ok, r.totals.in_time.ok), (54, 36));
    assert_eq!((r.totals.measured_ns, r.totals.sum.end_ns), (2 * SECOND_NS, 3 * SECOND_NS));
}

#[test]
fn parts_that_were_set_apart_are_read_again_from_totals_and_from_ticks() {
    let folder = tempfile::tempdir().unwrap();
    for is_finished in [true, false] {
        let path = folder.path().join(format!("{is_finished}.plimsoll"));
        let mut writer = written(&path, 2);
        let mut tick = Tick::of(&[interval(0, 2), interval(1, 2)]);
        tick.row.disturbance = Disturbance { waited: true, ..Disturbance::default() };
        writer.append(Some(&tick), None, &[]).unwrap();
        let mut expected = totals(3);
        let part = expected.disturbed.get_or_insert_default();
        part.add_row(&tick.row);
        part.sum.latency.add(&tick.sum.latency);
        if is_finished {
            writer.finish(&expected, &[], End::Complete, None).unwrap();
        } else {
            drop(writer);
        }
        let r = Reader::open(&path).unwrap().load().unwrap();
        assert_eq!(r.totals.disturbed, expected.disturbed, "finished: {is_finished}");
        assert_eq!(r.totals.in_windows, None);
        let quiet = r.totals.quiet().unwrap();
        assert_eq!((quiet.measured_ns, quiet.in_time.ok), (2 * SECOND_NS, 36));
    }
}

#[test]
fn a_run_without_a_tick_and_one_that_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.plimsoll");
    let mut writer = written(&empty, 0);
    writer.append(None, None, &[event(-5)]).unwrap();
    drop(writer);
    let r = Reader::open(&empty).unwrap().load().unwrap();
    assert_eq!((r.end, r.timeline.rows().len(), r.totals.sum.counts.requests()), (End::Partial, 0, 0));
    assert_eq!(r.events.to_vec(), [event(-5)]);
    let stopped = folder.path().join("stopped.plimsoll");
    written(&stopped, 1).finish(&totals(1), &[], End::Interrupted, None).unwrap();
    assert_eq!(Reader::open(&stopped).unwrap().load().unwrap().end, End::Interrupted);
}

#[test]
fn a_long_run_is_read_in_bounded_memory_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.plimsoll");
    let mut writer = Writer::create(&path, &capsule(), &plan()).unwrap();
    let ticks = limits::TIMELINE_ROWS_MAX as u64 + 1;
    let mut one = Interval::<u32>::new(0);
    for sequence in 0..ticks {
        one.clear();
        (one.sequence, one.start_ns, one.end_ns) = (sequence, sequence * 10, sequence * 10 + 10);
        (one.counts.started, one.counts.ok) = (1, 1);
        one.latency.record(LatencyKind::Response, sequence);
        writer.append(Some(&Tick::of([&one])), Some(&snapshot(sequence)), &[]).unwrap();
    }
    let log = std::fs::metadata(folder.path().join("long.plimsoll-wal")).unwrap().len();
    assert!(log <= 4 * store::limits::WAL_BYTES as u64, "the log grew to {log} bytes");
    drop(writer);
    let r = Reader::open(&path).unwrap().load().unwrap();
    assert!(r.timeline.rows().len() <= limits::TIMELINE_ROWS_MAX && r.snapshots.len() <= limits::SNAPSHOTS_MAX);
    assert_eq!(r.timeline.rows().iter().map(|row| row.counts.ok).sum::<u64>(), ticks);
    assert_eq!(r.totals.sum.latency.of(LatencyKind::Response).len(), ticks);
    assert_eq!(r.snapshots[1], snapshot(r.snapshot_stride));
}

#[test]
fn a_tick_is_kept_with_pauses_in_which_others_may_run() {
    static PAUSES: AtomicUsize = AtomicUsize::new(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = Writer::create(&path, &capsule(), &plan()).unwrap();
    writer.pause_by(|| {
        PAUSES.fetch_add(1, Ordering::Relaxed);
    });
    let tick = Tick::of(&[interval(0, 0)]);
    let histograms = LatencyKind::ALL.into_iter().filter(|kind| !tick.sum.latency.of(*kind).is_empty()).count();
    assert!(histograms > 2);
    writer.append(Some(&tick), Some(&snapshot(0)), &[]).unwrap();
    // After each histogram and the snapshot, before all is kept and after.
    assert_eq!(PAUSES.load(Ordering::Relaxed), histograms + 3);
    drop(writer);
    assert_eq!(Reader::open(&path).unwrap().load().unwrap().snapshots, [snapshot(0)]);
}

#[test]
fn the_same_tick_may_come_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = written(&path, 0);
    writer.append(Some(&Tick::of(&[interval(0, 7)])), None, &[]).unwrap();
    writer.append(Some(&Tick::of(&[interval(1, 7)])), None, &[]).unwrap();
    drop(writer);
    assert_eq!(Reader::open(&path).unwrap().load().unwrap().totals.sum.counts.ok, 18);
}

#[test]
fn a_recording_is_never_written_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    finished(&path, 1);
    let before = std::fs::read(&path).unwrap();
    let refused = Writer::create(&path, &capsule(), &plan()).unwrap_err();
    assert_eq!(refused, StoreError::Exists { path: path.clone() });
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_removed_while_it_is_written_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = written(&path, 1);
    std::fs::remove_file(&path).unwrap();
    let gone = StoreError::Gone { path: path.clone() };
    assert_eq!(writer.append(Some(&Tick::of(&[interval(0, 1)])), None, &[]).unwrap_err(), gone);
    std::fs::write(&path, "another").unwrap();
    assert_eq!(writer.append(Some(&Tick::of(&[interval(0, 1)])), None, &[]).unwrap_err(), gone);
    assert_eq!(writer.mark_partial("x").unwrap_err(), gone);
    assert_eq!(writer.finish(&totals(1), &[], End::Complete, None).unwrap_err(), gone);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "another");
}

#[test]
fn a_folder_that_cannot_be_written_is_said_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    probe(&folder.path().join("made/on/demand")).unwrap();
    assert_eq!(names(&folder.path().join("made/on/demand")), [""; 0]);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for blocked in [file.clone(), file.join("below"), "/proc/plimsoll".into(), "/sys".into()] {
        let said = probe(&blocked).unwrap_err().to_string();
        assert!(said.contains(blocked.to_str().unwrap()), "{said}");
        assert!(said.contains("--record FILE") && said.contains("--no-record"), "{said}");
        let said = Writer::create(&blocked.join("x"), &capsule(), &plan()).unwrap_err().to_string();
        assert!(said.contains("--no-record"), "{said}");
    }
}

#[test]
fn a_path_with_every_awkward_character() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a ?b#c%41&immutable=0'\"é.plimsoll");
    finished(&path, 1);
    assert_eq!(Reader::open(&path).unwrap().head().unwrap().requests, 20);
}

#[test]
fn runs_are_listed_by_time_and_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(list(&folder.path().join("missing")).unwrap(), []);
    let path = |second: u64| {
        let started_at_unix_ns = (1_753_971_753 + second) * SECOND_NS;
        let capsule = model::recording::Capsule { started_at_unix_ns, ..capsule() };
        let path = new_path(folder.path(), &capsule, &plan());
        drop(Writer::create(&path, &capsule, &plan()).unwrap());
        path
    };
    let (second, first) = (path(1), path(0));
    let id = |path: &std::path::Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    assert!(id(&first).starts_with("20250731-142233-localhost-"), "{}", id(&first));
    assert_eq!(id(&first).len(), "20250731-142233-localhost-1a2b".len());
    let damaged = folder.path().join("19990101-000000-x-0000.plimsoll");
    std::fs::write(&damaged, "nonsense").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();

    let summaries = list(folder.path()).unwrap();
    assert_eq!(
        summaries.iter().map(|s| s.path.clone()).collect::<Vec<_>>(),
        [first.clone(), second.clone(), damaged.clone()]
    );
    let head = summaries[0].head.as_ref().unwrap();
    assert_eq!((head.target.as_str(), head.requests, head.end), ("http://localhost:8080", 0, End::Partial));
    assert!(summaries[2].head.as_ref().unwrap_err().to_string().contains("not a recording"));

    let find = |wanted: &str| find(|| Ok(folder.path().to_owned()), wanted);
    assert_eq!(find("last"), Ok(second.clone()));
    assert_eq!(find(&id(&first)), Ok(first.clone()));
    assert_eq!(find("20250731-142233"), Ok(first.clone()));
    assert_eq!(find(first.to_str().unwrap()), Ok(first.clone()));
    assert_eq!(find("1999"), Ok(damaged));
    assert!(matches!(find("2025"), Err(StoreError::Ambiguous { ids, .. }) if ids.len() == 2));
    for wanted in ["", "x", "../", "2025*", folder.path().to_str().unwrap()] {
        assert!(matches!(find(wanted), Err(StoreError::NoSuchRun { .. })), "{wanted}");
    }
}

/// As a recording of the first version holds it.
#[test]
fn a_snapshot_written_before_there_were_metrics_is_read() {
    let text = r#"{"at_ns":5,"wall_offset_ns":7,"cpu":null,"cores":[],"memory_available_bytes":9,"time_wait":1,
        "processes":[{"role":"target","pid":3,"start_ticks":4,"name":"x","rss_bytes":1,"descriptors":2,"user_ns":3,
        "system_ns":4,"threads":[{"tid":3,"name":"x","state":"S","core":0,"run_ns":1,"wait_ns":2,"user_ns":3,
        "system_ns":4}],"threads_total":1}]}"#;
    let snapshot: model::Snapshot = serde_json::from_str(text).unwrap();
    assert_eq!((snapshot.at_ns, snapshot.memory_available_bytes), (5, Some(9)));
    assert!(snapshot.host.is_empty() && snapshot.network_pid.is_none() && snapshot.listeners.is_empty());
    let process = &snapshot.processes[0];
    assert!(process.metrics.is_empty() && process.threads[0].stands.is_none(), "{process:?}");
    let again: model::Snapshot = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
    assert_eq!(again, snapshot);
}
