//! The same moments on a clock that began earlier: what a recording needs to be laid beside another one.
//!
//! Only moments since the run's start are moved; lengths and wall clocks are not. What stands for "there was none" stays.

use crate::event::{Event, OUTAGE};
use crate::request::{Gap, Request};
use crate::snapshot::Snapshot;
use crate::split::{SplitRequest, TickSplit};

impl Request {
    /// As it is told by a clock that began so many nanoseconds earlier.
    pub fn shift(&mut self, by_ns: u64) {
        let Request { intended_ns, ready_ns, sent_ns, first_byte_ns, ended_ns, connect_ns, .. } = self;
        for moment in [intended_ns, ready_ns, ended_ns, connect_ns] {
            *moment = moment.saturating_add(by_ns);
        }
        for moment in [sent_ns, first_byte_ns] {
            // 0: it never was.
            if *moment > 0 {
                *moment = moment.saturating_add(by_ns);
            }
        }
    }
}

impl Gap {
    /// As it is told by a clock that began so many nanoseconds earlier.
    pub fn shift(&mut self, by_ns: u64) {
        self.from_ns = self.from_ns.saturating_add(by_ns);
        self.to_ns = self.to_ns.saturating_add(by_ns);
    }
}

impl TickSplit {
    /// As it is told by a clock that began so many nanoseconds earlier.
    pub fn shift(&mut self, by_ns: u64) {
        for SplitRequest { request, passage, .. } in self.sampled.iter_mut().chain(&mut self.slowest) {
            request.shift(by_ns);
            if let Ok(passage) = passage {
                for moment in [&mut passage.arrived_ns, &mut passage.read_ns, &mut passage.written_ns] {
                    *moment = moment.saturating_add(by_ns);
                }
            }
        }
    }
}

impl Event {
    /// As it is told by a clock that began so many nanoseconds earlier.
    pub fn shift(&mut self, by_ns: u64) {
        self.at_ns = later(self.at_ns, by_ns);
        for moment in [&mut self.details.first_failed_ns, &mut self.details.last_failed_ns].into_iter().flatten() {
            *moment = moment.saturating_add(by_ns);
        }
    }

    /// The span of an outage, from the last success to the next one (`None`: there was none), nanoseconds of the run.
    pub fn outage_span(&self) -> Option<(i64, Option<i64>)> {
        let to_ns = self.details.took_ns.map(|ns| later(self.at_ns, ns));
        (self.kind == OUTAGE).then_some((self.at_ns, to_ns))
    }
}

impl Snapshot {
    /// As it is told by a clock that began so many nanoseconds earlier.
    pub fn shift(&mut self, by_ns: u64) {
        let periods = self.profile.iter_mut().flat_map(|profile| [&mut profile.on_cpu, &mut profile.off_cpu]).flatten();
        let of_profile = periods.flat_map(|period| [&mut period.from_ns, &mut period.to_ns]);
        let mut calls: Vec<&mut i64> = Vec::new();
        if let Some(bpf) = &mut self.bpf {
            calls.extend(bpf.long_calls.iter_mut().map(|call| &mut call.longest_at_ns));
            if let Some(threads) = &mut bpf.threads {
                calls.extend(threads.stalls.iter_mut().map(|stall| &mut stall.from_ns));
                calls.extend(threads.pauses.iter_mut().map(|pause| &mut pause.from_ns));
            }
        }
        let own = [&mut self.at_ns].into_iter().chain(&mut self.neighbours_at_ns);
        own.chain(of_profile).chain(calls).for_each(|moment| *moment = later(*moment, by_ns));
    }
}

fn later(at_ns: i64, by_ns: u64) -> i64 {
    at_ns.saturating_add(i64::try_from(by_ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_move_and_what_never_was_stays() {
        let mut request = Request { intended_ns: 5, ready_ns: 6, ended_ns: 9, ..Request::default() };
        request.shift(100);
        let Request { intended_ns, ready_ns, sent_ns, first_byte_ns, ended_ns, .. } = request;
        assert_eq!((intended_ns, ready_ns, sent_ns, first_byte_ns, ended_ns), (105, 106, 0, 0, 109));
        assert_eq!(request.response_ns(), 4);
        let mut snapshot = Snapshot { at_ns: -20, neighbours_at_ns: Some(-20), ..Snapshot::default() };
        snapshot.shift(100);
        assert_eq!((snapshot.at_ns, snapshot.neighbours_at_ns), (80, Some(80)));
        let mut event = Event::new(1, OUTAGE, "");
        event.details.took_ns = Some(7);
        event.shift(u64::MAX);
        assert_eq!(event.outage_span(), Some((i64::MAX, Some(i64::MAX))));
    }
}
