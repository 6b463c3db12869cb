//! A recording file of arbitrary contents: it is read, or refused with a sentence; never a panic, never changed.
//!
//! Bytes that do not begin a SQLite file are taken as patches (offset, value) to a good recording, so that the reader
//! behind SQLite's own checks is reached too. That recording is one of a run so long that old ticks were merged. Bytes that
//! begin with `H` are taken as the history that such a recording keeps, behind all checksums.
#![no_main]

use diagnose::history::History;
use libfuzzer_sys::fuzz_target;
use model::recording::{Capsule, End, Recording, Tick, Totals};
use model::{Interval, LatencyKind, Snapshot};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use store::{Reader, Writer};

fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let base = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let folder = base.join(format!("plimsoll-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the file under test");
        folder
    })
}

fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let path = folder().join("good.plimsoll");
        let plan: model::Plan =
            serde_json::from_str(include_str!("../../crates/store/tests/plan.json")).expect("a plan");
        let mut writer = Writer::create(&path, &Capsule::default(), &plan).expect("a good recording");
        let mut recording = Recording::new(Capsule::default(), plan);
        let mut history = History::default();
        let mut interval = Interval::<u32>::new(0);
        for tick in 0.. {
            interval.start_ns = tick * 100;
            interval.end_ns = tick * 100 + 100;
            interval.counts.ok = 7;
            interval.latency.record(LatencyKind::Response, 1000 + tick);
            let (tick, snapshot) = (Tick::of([&interval]), snapshot(tick));
            writer.append(Some(&tick), Some(&snapshot), &[]).expect("a tick");
            recording.timeline.push(tick.row);
            history.push(&snapshot);
            recording.push_snapshot(tick.sum.end_ns / 100 - 1, snapshot);
            if writer.is_merge_due() {
                writer.merge(&recording, &history).expect("a merge");
                break;
            }
        }
        writer.finish(&Totals::default(), &[], End::Complete, None).expect("its end");
        std::fs::read(&path).expect("the file")
    })
}

fn snapshot(number: u64) -> Snapshot {
    let mut snapshot = Snapshot { at_ns: number as i64 * 100, ..Snapshot::default() };
    snapshot.host.set("forks", number);
    snapshot.network.set("listen_drops", number / 2);
    snapshot
}

/// A history of arbitrary bytes is refused, or goes on.
fn restore(bytes: &[u8]) {
    let Ok(mut history) = History::restore(bytes) else { return };
    for number in [1, 5, 6, 1 << 40] {
        history.push(&snapshot(number));
    }
    let plan = serde_json::from_str(include_str!("../../crates/store/tests/plan.json")).expect("a plan");
    let _ = diagnose::diagnose_with(&Recording::new(Capsule::default(), plan), &history);
    assert!(History::restore(&history.save().expect("bytes")).is_ok(), "what was saved is restored");
}

fuzz_target!(|data: &[u8]| {
    if let Some(bytes) = data.strip_prefix(b"H") {
        return restore(bytes);
    }
    let bytes = if data.starts_with(b"SQLite format 3\0") {
        data.to_vec()
    } else {
        let mut bytes = good().to_vec();
        for patch in data.chunks_exact(4) {
            let at = u32::from_le_bytes([patch[0], patch[1], patch[2], 0]) as usize % bytes.len();
            bytes[at] = patch[3];
        }
        bytes
    };
    let path = folder().join("under-test.plimsoll");
    std::fs::write(&path, &bytes).expect("write the file under test");
    if let Ok(reader) = Reader::open(&path) {
        let _ = reader.head();
        let _ = reader.intervals().take(100).filter(Result::is_ok).count();
        let _ = reader.stored_diagnosis();
        if let Ok((recording, history)) = reader.load_with_history() {
            let _ = diagnose::diagnose_with(&recording, &history);
        }
    }
    assert!(std::fs::read(&path).expect("it is still there") == bytes, "reading must not change the file");
});
