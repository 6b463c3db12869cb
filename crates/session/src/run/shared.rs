//! One observation of the machine for several loads that are put on together.
//!
//! Whoever asks first for a tick's reading makes it, and every other load finds the same one when its own tick ends: the
//! machine is read as often as for one load, each recording has all of it, and all have one clock. A load that has ended
//! leaves; the last one ends the observation. Cost: a copy of each reading for each load, between two of its ticks.

use model::remote::TargetHost;
use model::snapshot::SamplerStatus;
use model::{Event, Snapshot};
use observe::{Extent, Observation};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time after a whole reading in which no other is made for a second load, nanoseconds.
const WHOLE_AGAIN_NS: i64 = 100_000_000;

/// What all loads share.
#[derive(Debug)]
struct Hub {
    inner: Box<dyn Observation>,
    before: Option<Snapshot>,
    placed: Option<Snapshot>,
    /// The latest moment that was read at, and that of the last whole reading.
    at_ns: i64,
    whole_at_ns: Option<i64>,
    /// What each load has not taken yet; `None`: it has left.
    waiting: Vec<Option<Waiting>>,
}

#[derive(Debug, Default, Clone)]
struct Waiting {
    snapshots: Vec<Snapshot>,
    events: Vec<Event>,
}

impl Hub {
    fn give(&mut self, snapshots: &[Snapshot]) {
        self.waiting.iter_mut().flatten().for_each(|waiting| waiting.snapshots.extend_from_slice(snapshots));
    }

    fn give_events(&mut self, events: &[Event]) {
        self.waiting.iter_mut().flatten().for_each(|waiting| waiting.events.extend_from_slice(events));
    }
}

/// A load's part of it.
#[derive(Debug)]
pub(super) struct Shared {
    hub: Arc<Mutex<Hub>>,
    number: usize,
}

/// An observation for so many loads.
pub(super) fn shared(mut inner: Box<dyn Observation>, loads: usize) -> Vec<Shared> {
    let before = inner.before();
    let waiting = vec![Some(Waiting::default()); loads];
    let hub = Hub { inner, before, placed: None, at_ns: i64::MIN, whole_at_ns: None, waiting };
    let hub = Arc::new(Mutex::new(hub));
    (0..loads).map(|number| Shared { hub: Arc::clone(&hub), number }).collect()
}

impl Shared {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every load of something that happened.
    pub(super) fn broadcaster(&self) -> Broadcaster {
        Broadcaster(Arc::clone(&self.hub))
    }
}

/// Tells every load of something that happened.
#[derive(Debug, Clone)]
pub(super) struct Broadcaster(Arc<Mutex<Hub>>);

impl Broadcaster {
    pub(super) fn tell(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).give_events(std::slice::from_ref(event));
    }
}

impl Observation for Shared {
    fn target_host(&self) -> Option<TargetHost> {
        self.hub().inner.target_host()
    }

    fn before(&mut self) -> Option<Snapshot> {
        self.hub().before.clone()
    }

    fn place(&mut self, before: Snapshot, origin_ns: u64) -> Snapshot {
        let mut hub = self.hub();
        if hub.placed.is_none() {
            hub.placed = Some(hub.inner.place(before.clone(), origin_ns));
        }
        hub.placed.clone().unwrap_or(before)
    }

    fn hint_slow(&mut self) {
        self.hub().inner.hint_slow();
    }

    fn snapshots(&mut self, at_ns: i64, extent: Extent) -> Vec<Snapshot> {
        let number = self.number;
        let mut hub = self.hub();
        let is_there = hub.waiting[number].as_ref().is_some_and(|waiting| !waiting.snapshots.is_empty());
        let is_whole = hub.whole_at_ns.is_some_and(|whole_ns| at_ns < whole_ns.saturating_add(WHOLE_AGAIN_NS));
        if !(is_there && (is_whole || !matches!(extent, Extent::Whole))) {
            // Two loads ask at nearly the same moment, and the later one may be first.
            let at_ns = at_ns.max(hub.at_ns);
            let read = hub.inner.snapshots(at_ns, extent);
            hub.at_ns = at_ns;
            if matches!(extent, Extent::Whole) {
                hub.whole_at_ns = Some(at_ns);
            }
            hub.give(&read);
        }
        hub.waiting[number].as_mut().map(|waiting| std::mem::take(&mut waiting.snapshots)).unwrap_or_default()
    }

    fn finish(&mut self) -> Vec<Snapshot> {
        let number = self.number;
        let mut hub = self.hub();
        if hub.waiting.iter().flatten().count() == 1 {
            let last = hub.inner.finish();
            hub.give(&last);
        }
        hub.waiting[number].as_mut().map(|waiting| std::mem::take(&mut waiting.snapshots)).unwrap_or_default()
    }

    fn take_events(&mut self) -> Vec<Event> {
        let number = self.number;
        let mut hub = self.hub();
        let events = hub.inner.take_events();
        hub.give_events(&events);
        hub.waiting[number].as_mut().map(|waiting| std::mem::take(&mut waiting.events)).unwrap_or_default()
    }

    fn statuses(&self) -> Vec<SamplerStatus> {
        self.hub().inner.statuses()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let number = self.number;
        self.hub().waiting[number] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers its readings.
    #[derive(Debug, Default)]
    struct Counting {
        read: i64,
        is_told: bool,
    }

    impl Observation for Counting {
        fn before(&mut self) -> Option<Snapshot> {
            Some(Snapshot { at_ns: -1, ..Snapshot::default() })
        }

        fn place(&mut self, before: Snapshot, _: u64) -> Snapshot {
            Snapshot { at_ns: before.at_ns - 1, ..before }
        }

        fn snapshots(&mut self, at_ns: i64, _: Extent) -> Vec<Snapshot> {
            self.read += 1;
            vec![Snapshot { at_ns, ..Snapshot::default() }]
        }

        fn finish(&mut self) -> Vec<Snapshot> {
            vec![Snapshot { at_ns: 99, ..Snapshot::default() }]
        }

        fn take_events(&mut self) -> Vec<Event> {
            let event = Event::new(0, "seen", String::new());
            (!std::mem::replace(&mut self.is_told, true)).then_some(event).into_iter().collect()
        }

        fn statuses(&self) -> Vec<SamplerStatus> {
            Vec::new()
        }
    }

    fn at(snapshots: &[Snapshot]) -> Vec<i64> {
        snapshots.iter().map(|snapshot| snapshot.at_ns).collect()
    }

    #[test]
    fn every_load_has_every_reading_and_the_machine_is_read_once() {
        let mut loads = shared(Box::new(Counting::default()), 2);
        let placed: Vec<i64> = loads
            .iter_mut()
            .map(|load| {
                let before = load.before().unwrap();
                load.place(before, 0).at_ns
            })
            .collect();
        assert_eq!(placed, [-2, -2], "placed once");
        let [first, second] = &mut loads[..] else { panic!("two") };
        assert_eq!(at(&first.snapshots(10, Extent::Due)), [10]);
        assert_eq!(at(&second.snapshots(11, Extent::Due)), [10], "the same reading");
        assert_eq!((first.take_events().len(), second.take_events().len()), (1, 1));
        assert_eq!(at(&second.snapshots(20, Extent::Due)), [20]);
        // The first one's tick ended a little before: readings are in order all the same.
        assert_eq!(at(&second.snapshots(21, Extent::Due)), [21]);
        assert_eq!(at(&first.snapshots(19, Extent::Due)), [20, 21]);
        // A load that has ended keeps nothing, and the last one ends the observation.
        assert!(second.finish().is_empty());
        loads.pop();
        let mut first = loads.pop().unwrap();
        assert_eq!(at(&first.snapshots(30, Extent::Whole)), [30]);
        assert_eq!(at(&first.finish()), [99]);
    }
}
