//! What held connections take of memory is a line through all readings of the ramp, not through the few that are kept.

use diagnose::history::History;
use model::limits::SNAPSHOTS_MAX;
use model::plan::*;
use model::recording::{Capsule, Row};
use model::snapshot::Role;

use model::{Recording, Snapshot};
use testkit::recordings::{SECOND_NS, origin, plan, process};

#[test]
fn the_slope_of_memory_is_made_of_all_readings() {
    let message = Echo { sizes: Sizes::Fixed(1), content: Content::Text };
    let hold = Hold { message, is_echoed: false, sweep_ns: None, until_failure: false };
    let plan = plan(Workload::Hold(hold), vec![origin("hold://localhost:80", 80)]);
    let mut recording = Recording::new(Capsule::default(), plan);
    let mut history = History::default();
    // 1,000 connections in the first 20 of 400 seconds: of what is kept of 400 readings, three or four are of the ramp.
    for second in 0..400u64 {
        let connections = (second * 50).min(1000);
        let mut row = Row { start_ns: second * SECOND_NS, end_ns: (second + 1) * SECOND_NS, ..Row::default() };
        row.gauges.connections = connections;
        recording.timeline.push(row);
        let at_ns = ((second + 1) * SECOND_NS) as i64;
        let mut snapshot = Snapshot { at_ns, ..Snapshot::default() };
        // 4 KiB each, and one reading of all with something else in it.
        let odd = if second == 8 { 50_000_000 } else { 0 };
        snapshot.slab_bytes = Some(7_000_000 + connections * 4096 + odd);
        let mut target = process(Role::Target, 9, "server", Vec::new());
        target.rss_bytes = Some(20_000_000 + connections * 10_000);
        snapshot.processes.push(target);
        history.push(&snapshot);
        recording.push_snapshot(second, snapshot);
    }
    recording.totals.connections_max = 1000;
    assert!(recording.snapshots.len() <= SNAPSHOTS_MAX && recording.snapshot_stride >= 8);
    let memory = diagnose::diagnose_with(&recording, &history).held.unwrap().memory;
    assert_eq!(memory.target_bytes.map(f64::round), Some(10_000.0));
    assert_eq!((memory.generator_bytes, memory.socket_bytes), (None, None), "what nobody read has no slope");
    // The odd reading is one of twenty, and not one of three.
    let slab = memory.slab_bytes.unwrap();
    assert!(slab < 4096.0 && slab > 4096.0 - 10_000.0, "{slab}");
    let of_kept = diagnose::diagnose(&recording).held.unwrap().memory.slab_bytes;
    assert!(of_kept.is_none_or(|of_kept| (of_kept - 4096.0).abs() > 2.0 * (slab - 4096.0).abs()), "{of_kept:?}");
}
