//! What stays of many snapshots: one that has everything rather than one that lacks what is read once a second, and those of
//! after the load apart from those of it.

use model::Snapshot;
use model::courses::{Course, RunCourses};
use model::limits::SNAPSHOTS_MAX;
use model::recording::thin_and_keep;

fn kept(count: u64, is_partial: impl Fn(u64) -> bool) -> (Vec<Snapshot>, u64) {
    let (mut kept, mut stride) = (Vec::new(), 1);
    for number in 0..count {
        let snapshot = Snapshot { at_ns: number as i64, is_partial: is_partial(number), ..Snapshot::default() };
        thin_and_keep(&mut kept, &mut stride, number, snapshot);
    }
    (kept, stride)
}

#[test]
fn what_is_read_seldom_does_not_fall_through_the_stride() {
    // Whole ones at 0, 3, 7, 11 …: never at a multiple of the stride but the first.
    let is_partial = |number: u64| number != 0 && number % 4 != 3;
    for count in [50, 61, 200, 1000, 5000] {
        let (kept, stride) = kept(count, is_partial);
        assert!(kept.len() <= SNAPSHOTS_MAX && kept.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
        let whole = kept.iter().filter(|snapshot| !snapshot.is_partial).count();
        if stride >= 4 {
            assert!(whole + 1 >= kept.len(), "{whole} of {} at a stride of {stride}", kept.len());
        }
        assert!(whole >= kept.len() / 4, "{whole} of {} at a stride of {stride}", kept.len());
    }
}

#[test]
fn without_partial_ones_every_strideth_is_kept_as_ever() {
    let (kept, stride) = kept(500, |_| false);
    let expected: Vec<i64> = (0..500).step_by(stride as usize).collect();
    assert_eq!(kept.iter().map(|snapshot| snapshot.at_ns).collect::<Vec<_>>(), expected);
}

#[test]
fn the_most_of_a_reading_that_was_not_kept_is_known_all_the_same() {
    let snapshot = |number: u64| {
        let mut snapshot = Snapshot { at_ns: number as i64, ..Snapshot::default() };
        snapshot.host.set("memory.dirty_bytes", if number == 777 { 9_000 } else { number });
        snapshot
    };
    let (mut kept, mut stride, mut courses) = (Vec::new(), 1, RunCourses::default());
    for number in 0..1000 {
        courses.push(&snapshot(number));
        thin_and_keep(&mut kept, &mut stride, number, snapshot(number));
    }
    assert!(kept.iter().all(|snapshot| snapshot.host.of("memory.dirty_bytes") != Some(9_000)));
    assert_eq!(courses.host.0["memory.dirty_bytes"], Course { first: 0, last: 999, min: 0, max: 9_000 });
    // What was read after the load had ended is not of the load.
    courses.push(&Snapshot { is_after_load: true, ..snapshot(777) });
    assert_eq!(courses.host.0["memory.dirty_bytes"].last, 999);
}
