//! A recording file of arbitrary contents: it is read, or refused with a sentence; never a panic, never changed.
//!
//! Bytes that do not begin a SQLite file are taken as patches (offset, value) to a good recording, so that the reader
//! behind SQLite's own checks is reached too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::recording::{Capsule, End, Tick, Totals};
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
        let plan = serde_json::from_str(include_str!("../../crates/store/tests/plan.json")).expect("a plan");
        let mut writer = Writer::create(&path, &Capsule::default(), &plan).expect("a good recording");
        let mut interval = Interval::<u32>::new(0);
        for tick in 0..5u64 {
            interval.start_ns = tick * 100;
            interval.end_ns = tick * 100 + 100;
            interval.counts.ok = 7;
            interval.latency.record(LatencyKind::Response, 1000 + tick);
            writer.append(Some(&Tick::of([&interval])), Some(&Snapshot::default()), &[]).expect("a tick");
        }
        writer.finish(&Totals::default(), &[], End::Complete, None).expect("its end");
        std::fs::read(&path).expect("the file")
    })
}

fuzz_target!(|data: &[u8]| {
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
        if let Ok(recording) = reader.load() {
            let _ = diagnose::diagnose(&recording);
        }
    }
    assert!(std::fs::read(&path).expect("it is still there") == bytes, "reading must not change the file");
});
