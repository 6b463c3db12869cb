//! Recordings joined: whatever the offset, every count and every histogram is the sum of theirs, in ticks that follow each other.

use crate::common::{SECOND_NS, capsule, interval, plan};
use model::recording::{End, Recording, Tick, Totals};
use model::request::{Kept, Request, Set};
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

/// A recording of ticks in each of which so many requests ended.
fn record_sample(path: &Path, seed: u64, of_ticks: &[u64]) -> Recording {
    let mut random = seed;
    let mut writer = Writer::create(path, &capsule(), &plan()).unwrap();
    for (sequence, of_tick) in (0..).zip(of_ticks) {
        let start_ns = sequence * SECOND_NS;
        let mut one = Interval { start_ns, end_ns: start_ns + SECOND_NS, sequence, ..Interval::new(0) };
        (one.counts.started, one.counts.ok) = (*of_tick, *of_tick);
        for n in 0..*of_tick {
            // Marsaglia's xorshift64.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let request = Request { ended_ns: start_ns + 4 + n * (SECOND_NS / of_tick), ..Request::default() };
            one.requests.offer(Set::Sampled, Kept::new(random, request));
        }
        one.requests.thin(sequence);
        writer.append(Some(&Tick::of([&one])), None, &[]).unwrap();
    }
    drop(writer);
    Reader::open(path).unwrap().load().unwrap()
}

#[test]
fn the_sample_of_two_generators_is_uniform_whatever_each_had_and_when() {
    // Those of one tick each generator's recording has room for; all of late ticks that are many; few, and then many of which little is kept.
    let (many, few) = (vec![3_000; 10], vec![300; 10]);
    let late: Vec<u64> = std::iter::repeat_n(3, 600).chain(std::iter::repeat_n(3_000, 100)).collect();
    for (of_one, of_other) in [(&many, &few), (&many, &many), (&many, &late)] {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let one = record_sample(&file("one.plimsoll"), 1, of_one);
        let other = record_sample(&file("other.plimsoll"), 2, of_other);
        let readers = ["one.plimsoll", "other.plimsoll"].map(|name| Reader::open(&file(name)).unwrap());
        for (at, offset_s) in [0, 5, 900].into_iter().enumerate() {
            let path = file(&format!("joined-{at}.plimsoll"));
            let joined = [
                Joined { reader: &readers[0], recording: &one, offset_ns: 0, workers_before: 0 },
                Joined { reader: &readers[1], recording: &other, offset_ns: offset_s * SECOND_NS, workers_before: 1 },
            ];
            let mut writer = Writer::create(&path, &capsule(), &plan()).unwrap();
            join(&joined, 0, &mut writer).unwrap();
            drop(writer);
            let requests = Reader::open(&path).unwrap().load().unwrap().requests;
            let all: u64 = of_one.iter().chain(of_other).sum();
            let count = requests.sampled().count() as f64;
            assert!(count > 150.0, "{offset_s}: {count}");
            let is_as_in_truth = |what: &str, truth: u64, is_one: &dyn Fn(&Request) -> bool| {
                let share = requests.sampled().filter(|request| is_one(request)).count() as f64 / count;
                let truth = truth as f64 / all as f64;
                // Four deviations.
                let off = 4.0 * (truth * (1.0 - truth) / count).sqrt();
                assert!((share - truth).abs() <= off, "{what}, {offset_s}: {share} of {count}, not {truth}");
            };
            is_as_in_truth("of the other", of_other.iter().sum(), &|request| request.worker == 1);
            let side_by_side = of_other.iter().take(10_usize.saturating_sub(offset_s as usize)).sum::<u64>()
                + of_one.iter().skip(offset_s as usize).sum::<u64>();
            let (from_ns, to_ns) = (offset_s * SECOND_NS, 10 * SECOND_NS);
            is_as_in_truth("side by side", side_by_side, &|r| (from_ns..to_ns).contains(&r.ended_ns));
            is_as_in_truth("late", of_other.iter().skip(600).sum(), &|r| {
                r.worker == 1 && r.ended_ns >= (offset_s + 600) * SECOND_NS
            });
        }
    }
}
