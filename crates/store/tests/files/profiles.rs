//! Stacks of every snapshot are read back, of those too that are thinned out in memory; recordings without any open.

use crate::common::*;
use model::Snapshot;
use model::limits::SNAPSHOTS_MAX;
use model::profile::{Folding, Kind, Period, Profile};
use store::{Reader, Writer};

fn profiled(sequence: u64) -> Snapshot {
    let mut folding = Folding::default();
    folding.add(&["nginx", "main", "work"], sequence + 1);
    folding.add(&["nginx", "main", "a \"quoted\" <é>"], 1);
    let at_ns = snapshot(sequence).at_ns;
    let on_cpu = Some(Period { from_ns: at_ns - 1_000_000_000, to_ns: at_ns, stacks: folding.into_stacks() });
    Snapshot { profile: Some(Profile { on_cpu, off_cpu: None }), ..snapshot(sequence) }
}

#[test]
fn no_tick_s_stacks_are_lost_however_many_snapshots_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let mut writer = Writer::create(&path, &capsule(), &plan()).unwrap();
    let ticks = 3 * SNAPSHOTS_MAX as u64;
    for sequence in 0..ticks {
        // Every second one has none.
        let of_tick = if sequence % 2 == 0 { profiled(sequence) } else { snapshot(sequence) };
        writer.append(None, Some(&of_tick), &[]).unwrap();
    }
    drop(writer);
    let reader = Reader::open(&path).unwrap();
    let recording = reader.load().unwrap();
    assert!(recording.snapshots.len() <= SNAPSHOTS_MAX && recording.snapshots.iter().all(|s| s.profile.is_none()));
    let expected: u64 = (0..ticks).step_by(2).map(|sequence| sequence + 1).sum();
    let folded = [format!("nginx;main;a \"quoted\" <é> {}", ticks / 2), format!("nginx;main;work {expected}")];
    assert_eq!(recording.profile.of(Kind::OnCpu).folded(), folded);
    assert_eq!(recording.profile.of(Kind::OffCpu).total(), 0);
    let profiles: Vec<Profile> = reader.profiles().collect::<Result<_, _>>().unwrap();
    assert_eq!(profiles.len() as u64, ticks / 2);
    assert_eq!(Some(&profiles[1]), profiled(2).profile.as_ref());
}

#[test]
fn a_recording_without_stacks_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    finished(&path, 3);
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.profiles().count(), reader.load().unwrap().profile.of(Kind::OnCpu).total()), (0, 0));
}
