//! When no worker had a success any more and when one had again: events of what the workers' own outages have in common.
//!
//! Each worker tells of an outage when it ends, and at each interval's end of one that has not ([`model::request::Outage`]).
//! All together are without success where every worker's overlap: from the last success of any to the first of any. It is told
//! once, when the first of them succeeds again; shorter ones than [`OUTAGE_NS_MIN`] are not, nor is a target that was never
//! there. Kept are a few of each worker.

use model::Event;
use model::event::{Details, OUTAGE};
use model::limits::OUTAGE_NS_MIN;
use model::request::Outage;
use model::units::{show_duration_ns, show_grouped};
use std::collections::VecDeque;

/// Outages of a worker that have ended and may overlap with one that another tells of later.
const RECENT: usize = 16;

/// What is known of each worker.
#[derive(Debug, Clone, Default)]
struct Known {
    open: Option<Outage>,
    recent: VecDeque<Outage>,
    has_ended: bool,
}

impl Known {
    fn all(&self) -> impl Iterator<Item = &Outage> {
        self.recent.iter().chain(&self.open)
    }
}

/// The outages of all workers.
#[derive(Debug)]
pub(crate) struct Outages {
    workers: Vec<Known>,
    /// The end of the last one that was told.
    told_to_ns: u64,
}

impl Outages {
    /// Of so many workers.
    pub fn new(workers: usize) -> Self {
        Outages { workers: vec![Known::default(); workers], told_to_ns: 0 }
    }

    /// Takes in what the workers told of a tick: the common ones that have ended, as events.
    pub fn push(&mut self, outages: &[Outage]) -> Vec<Event> {
        for outage in outages {
            let Some(known) = self.workers.get_mut(usize::from(outage.worker)) else { continue };
            // What was open has ended, or is told anew.
            known.open = None;
            if outage.to_ns.is_none() {
                known.open = Some(*outage);
            } else {
                known.recent.push_back(*outage);
                if known.recent.len() > RECENT {
                    known.recent.pop_front();
                }
            }
        }
        let mut ended: Vec<&Outage> = outages.iter().filter(|outage| outage.to_ns.is_some()).collect();
        ended.sort_by_key(|outage| outage.to_ns);
        let mut events = Vec::new();
        for outage in ended {
            let Some(common) = self.common(outage) else { continue };
            let to_ns = common.to_ns.unwrap_or(u64::MAX);
            let is_long = to_ns.saturating_sub(common.from_ns) >= OUTAGE_NS_MIN;
            if to_ns > self.told_to_ns && is_long && common.from_ns > 0 {
                self.told_to_ns = to_ns;
                events.push(event(&common));
            }
        }
        events
    }

    /// A worker has ended: it is waited for no more.
    pub fn worker_ended(&mut self, worker: u16) {
        if let Some(known) = self.workers.get_mut(usize::from(worker)) {
            known.has_ended = true;
        }
    }

    /// At the end of the run: the one that has not ended, if there is one.
    pub fn finish(&mut self) -> Option<Event> {
        self.workers.iter_mut().for_each(|known| known.has_ended = false);
        let first = self.workers.first()?.open?;
        let common = self.common(&first)?;
        (common.to_ns.is_none() && common.from_ns > 0).then(|| event(&common))
    }

    /// What a worker's outage has in common with those of all others.
    fn common(&self, of: &Outage) -> Option<Outage> {
        let mut common = *of;
        let others = self.workers.iter().zip(0..).filter(|(known, worker)| !known.has_ended && *worker != of.worker);
        for (known, _) in others {
            let end_ns = |outage: &Outage| outage.to_ns.unwrap_or(u64::MAX);
            let overlap_ns = |outage: &Outage| {
                end_ns(outage).min(end_ns(&common)).saturating_sub(outage.from_ns.max(common.from_ns))
            };
            let other = *known.all().max_by_key(|outage| overlap_ns(outage)).filter(|outage| overlap_ns(outage) > 0)?;
            common = Outage {
                worker: 0,
                from_ns: common.from_ns.max(other.from_ns),
                to_ns: [common.to_ns, other.to_ns].into_iter().flatten().min(),
                first_failed_ns: common.first_failed_ns.min(other.first_failed_ns),
                last_failed_ns: common.last_failed_ns.max(other.last_failed_ns),
                failed: common.failed.saturating_add(other.failed),
            };
        }
        Some(common)
    }
}

fn event(outage: &Outage) -> Event {
    let took_ns = outage.to_ns.map(|to_ns| to_ns.saturating_sub(outage.from_ns));
    let long = took_ns.map_or("to the end of the run".to_owned(), |ns| format!("for {}", show_duration_ns(ns as f64)));
    let failed = show_grouped(outage.failed);
    let at_ns = i64::try_from(outage.from_ns).unwrap_or(i64::MAX);
    Event::new(at_ns, OUTAGE, format!("nothing succeeded {long}: {failed} attempts failed")).with(Details {
        took_ns,
        times: Some(outage.failed),
        first_failed_ns: Some(outage.first_failed_ns),
        last_failed_ns: Some(outage.last_failed_ns),
        ..Details::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn outage(worker: u16, from_ms: u64, to_ms: impl Into<Option<u64>>) -> Outage {
        Outage {
            worker,
            from_ns: from_ms * MS,
            to_ns: to_ms.into().map(|ms| ms * MS),
            first_failed_ns: (from_ms + 1) * MS,
            last_failed_ns: (from_ms + 2) * MS,
            failed: 5,
        }
    }

    fn spans(events: &[Event]) -> Vec<(i64, Option<u64>)> {
        events.iter().map(|event| (event.at_ns / MS as i64, event.details.took_ns.map(|ns| ns / MS))).collect()
    }

    #[test]
    fn of_one_worker_its_own_are_told() {
        let mut outages = Outages::new(1);
        let events = outages.push(&[outage(0, 100, 105), outage(0, 200, 300), outage(0, 0, 50)]);
        assert_eq!(spans(&events), [(200, Some(100))], "short ones and a late start are none");
        assert!(outages.push(&[outage(0, 900, None)]).is_empty());
        assert_eq!(spans(&outages.push(&[outage(0, 900, 1900)])), [(900, Some(1000))]);
        assert!(outages.finish().is_none());
        outages.push(&[outage(0, 2000, None)]);
        assert_eq!(spans(outages.finish().as_slice()), [(2000, None)]);
    }

    #[test]
    fn of_several_workers_what_they_have_in_common_is_told_once() {
        let mut outages = Outages::new(2);
        // One goes on without success after the other has some again.
        let events = outages.push(&[outage(0, 100, 900), outage(1, 110, None)]);
        assert_eq!(spans(&events), [(110, Some(790))]);
        assert_eq!((events[0].details.times, events[0].details.first_failed_ns), (Some(10), Some(101 * MS)));
        assert!(outages.push(&[outage(1, 110, 1500)]).is_empty(), "it was told");
        // Only one of them fails.
        assert!(outages.push(&[outage(0, 2000, 3000)]).is_empty());
        // A worker that has ended is waited for no more.
        outages.worker_ended(1);
        assert_eq!(spans(&outages.push(&[outage(0, 4000, 4500)])), [(4000, Some(500))]);
        assert!(outages.finish().is_none());
    }
}
