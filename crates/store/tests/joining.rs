//! Recordings joined: whatever the offset, every count and every histogram is the sum of theirs, in ticks that follow each other.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;

use common::{SECOND_NS, capsule, interval, plan};
use model::recording::{End, Recording, Tick, Totals};
use model::{Interval, LatencyKind, Plan};
use std::path::Path;
use store::{Joined, Reader, Writer, join};

const WARMUP_NS: u64 = 2 * SECOND_NS;

fn tick(worker: u16, sequence: u64, started: u64) -> Tick {
    let mut one = interval(worker, sequence);
    // Under warm-up nothing is measured, and connections are made.
    let is_warmup = one.end_ns <= WARMUP_NS;
    if is_warmup {
        one = Interval { start_ns: one.start_ns, end_ns: one.end_ns, sequence, ..Interval::new(worker) };
    } else {
        one.counts.started += started;
        one.counts.ok += started;
        for n in 0..started {
            one.latency.record(LatencyKind::Response, 1_000 * (n + 1) * (sequence + 3) + u64::from(worker));
        }
    }
    (one.counts.connected, one.gauges.connections) = (7, 25);
    Tick::of([&one])
}

fn record(path: &Path, plan: &Plan, worker: u16, ticks: u64) -> (Recording, Interval<u64>) {
    let mut writer = Writer::create(path, &capsule(), plan).unwrap();
    let mut sum = Interval::<u64>::new(0);
    let mut totals = Totals::default();
    for sequence in 0..ticks {
        let mut tick = tick(worker, sequence, 40 + 13 * u64::from(worker));
        let is_last = sequence + 1 == ticks;
        (tick.row.is_drain, tick.sum.is_drain) = (is_last, is_last);
        writer.append(Some(&tick), None, &[]).unwrap();
        let mut of_measured = (*tick.sum).clone();
        if tick.row.end_ns <= WARMUP_NS {
            of_measured.counts = of_measured.counts.of_requests();
        }
        sum.add(&of_measured);
    }
    totals.sum = sum.clone();
    writer.finish(&totals, &[], End::Complete, None).unwrap();
    (Reader::open(path).unwrap().load().unwrap(), sum)
}

#[test]
fn every_count_and_histogram_is_the_sum_whatever_the_offset() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { warmup_ns: WARMUP_NS, ..plan() };
    let file = |name: String| folder.path().join(name);
    let (one, of_one) = record(&file("one.plimsoll".to_owned()), &plan, 0, 9);
    let (other, of_other) = record(&file("other.plimsoll".to_owned()), &plan, 1, 12);
    let mut pooled = of_one;
    pooled.add(&of_other);
    for (at, offset_ns) in
        [0, 1, 300_000_000, 500_000_000, 600_000_000, 7_400_000_000, 30 * SECOND_NS].iter().enumerate()
    {
        let path = file(format!("joined-{at}.plimsoll"));
        let readers = ["one.plimsoll", "other.plimsoll"].map(|name| Reader::open(&file(name.to_owned())).unwrap());
        let joined = [
            Joined { reader: &readers[0], recording: &one, offset_ns: 0, workers_before: 0 },
            Joined { reader: &readers[1], recording: &other, offset_ns: *offset_ns, workers_before: 2 },
        ];
        let mut writer = Writer::create(&path, &capsule(), &plan).unwrap();
        join(&joined, WARMUP_NS, &mut writer).unwrap();
        drop(writer);
        let reader = Reader::open(&path).unwrap();
        let recording = reader.load().unwrap();
        let sum = &recording.totals.sum;
        assert!(!recording.integrity.is_damaged(), "{offset_ns}: {:?}", recording.integrity);
        assert_eq!(sum.counts, pooled.counts, "offset {offset_ns}");
        assert_eq!((&sum.errors, &sum.connection_errors), (&pooled.errors, &pooled.connection_errors));
        for kind in LatencyKind::ALL {
            assert_eq!(sum.latency.of(kind), pooled.latency.of(kind), "offset {offset_ns}, {}", kind.name());
        }
        let rows = recording.timeline.rows();
        assert!(rows.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "offset {offset_ns}: {rows:#?}");
        assert!(rows.iter().all(|row| row.start_ns <= row.end_ns));
        let last_ns = (9 * SECOND_NS).max(offset_ns + 12 * SECOND_NS);
        assert!(rows.last().unwrap().end_ns.abs_diff(last_ns) <= SECOND_NS / 2, "offset {offset_ns}");
        let both = rows.iter().filter(|row| row.gauges.connections == 50).count();
        assert_eq!(both > 0, *offset_ns < 8 * SECOND_NS, "offset {offset_ns}: connections add up while both run");
        // A tick of one generator is never spread over two.
        assert!(rows.len() <= 21, "{}", rows.len());
    }
}
