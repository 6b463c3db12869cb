//! Single requests with what the target's machine saw of them: where the time of each went.
//!
//! Of a run's single requests ([`crate::request`]) those that were sent and ended within a window of the observer's probes.
//! Each was either joined with its exchange ([`crate::exchange`]), or has the reason why not: what cannot be split is
//! counted like what can. Of the uniform sample a uniform sample is kept, so bands of it are bands of all requests of the
//! windows. Who joins: `diagnose::split`.

use crate::limits::{RUN_REQUESTS_KEPT, RUN_SPLIT_SLOWEST_KEPT};
use crate::request::{Request, uniform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the target's machine saw of a request. Moments are nanoseconds since the run's start, by the generator's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Passage {
    /// When its first bytes were in the target's socket, to be read.
    pub arrived_ns: u64,
    /// When the target first read of them.
    pub read_ns: u64,
    /// When the last send of its reply left.
    pub written_ns: u64,
}

/// Why the time of a request is not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unsplit {
    /// Our end of its connection is not known: a unix socket, a connection of the driver `rings`, or of bursts.
    NoLocalAddress,
    /// Several requests may be under way on one connection.
    Pipelined,
    /// The target's probes saw no request from our end at that time.
    NoExchange,
    /// They saw some, and none whose moments lie one after another within the request's.
    OutOfOrder,
    /// The probes' ring was full.
    Lost,
}

impl Unsplit {
    /// All of them, in the order of their declaration.
    pub const ALL: [Unsplit; 5] =
        [Unsplit::NoLocalAddress, Unsplit::Pipelined, Unsplit::NoExchange, Unsplit::OutOfOrder, Unsplit::Lost];

    /// The fixed word of it.
    pub fn name(self) -> &'static str {
        match self {
            Unsplit::NoLocalAddress => "no-local-address",
            Unsplit::Pipelined => "pipelined",
            Unsplit::NoExchange => "no-exchange",
            Unsplit::OutOfOrder => "out-of-order",
            Unsplit::Lost => "lost",
        }
    }

    /// In words.
    pub fn sentence(self) -> &'static str {
        match self {
            Unsplit::NoLocalAddress => {
                "our end of the connection is not known (a unix socket, a burst, or a connection without a descriptor: \
                 --driver rings)"
            }
            Unsplit::Pipelined => "several requests may be under way on one connection (--pipeline)",
            Unsplit::NoExchange => {
                "the target's sockets had no request from that address and port: a proxy or address translation lies \
                 between, another process answered, or what was read was not seen (splice)"
            }
            Unsplit::OutOfOrder => "what the target's sockets had does not lie between its sending and its end",
            Unsplit::Lost => "more requests were answered than the probes' ring holds",
        }
    }
}

/// A request, and what the target's machine saw of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitRequest {
    /// By which it is kept: the smaller, the longer.
    pub key: u64,
    /// Below which key its tick lacks nothing ([`crate::request::Kept::below`]).
    pub below: Option<u64>,
    /// What the client knows of it.
    pub request: Request,
    /// What the target's machine does, or why nothing.
    pub passage: Result<Passage, Unsplit>,
}

/// What was found of a reading's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TickSplit {
    /// Of the uniform sample.
    pub sampled: Vec<SplitRequest>,
    /// Of the slowest successes.
    pub slowest: Vec<SplitRequest>,
    /// How many of the uniform sample were under way when a window began or ended, and so are in neither.
    pub cut: u64,
}

impl TickSplit {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.sampled.is_empty() && self.slowest.is_empty() && self.cut == 0
    }
}

/// What is kept of a run's, in memory of a fixed size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunSplit {
    sampled: Vec<SplitRequest>,
    slowest: Vec<SplitRequest>,
    /// Of the uniform sample: how many lay within windows.
    pub whole: u64,
    /// How many of those were joined.
    pub joined: u64,
    /// How many of the sample were cut by a window's begin or end.
    pub cut: u64,
    /// Why those that were not joined were not, by [`Unsplit::ALL`].
    pub unsplit: [u64; Unsplit::ALL.len()],
}

impl RunSplit {
    /// Takes in what was found of a reading's requests.
    pub fn push(&mut self, tick: &TickSplit) {
        self.cut = self.cut.saturating_add(tick.cut);
        for one in &tick.sampled {
            self.whole = self.whole.saturating_add(1);
            let count = match one.passage {
                Ok(_) => &mut self.joined,
                Err(why) => &mut self.unsplit[why as usize],
            };
            *count = count.saturating_add(1);
        }
        keep(&mut self.sampled, &tick.sampled, RUN_REQUESTS_KEPT);
        keep(&mut self.slowest, &tick.slowest, RUN_SPLIT_SLOWEST_KEPT);
    }

    /// What of them ended between two moments, nanoseconds since the run's start. Counts are those of the kept sample, and how many
    /// were cut is not known.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> RunSplit {
        let is_in = |one: &&SplitRequest| one.request.ended_ns > from_ns && one.request.ended_ns <= to_ns;
        let of = |all: &[SplitRequest]| all.iter().filter(is_in).copied().collect::<Vec<_>>();
        let mut part = RunSplit::default();
        part.push(&TickSplit { sampled: of(&self.sampled), slowest: of(&self.slowest), cut: 0 });
        part
    }

    /// A uniform sample of the requests that lay within windows, in no order.
    pub fn sampled(&self) -> impl Iterator<Item = &SplitRequest> + Clone {
        uniform(self.sampled.iter(), |one| (one.key, one.below))
    }

    /// Every request of which something is known, more of slow stretches than their share: to look one up, not to count.
    pub fn known(&self) -> impl Iterator<Item = &SplitRequest> {
        self.sampled.iter().chain(&self.slowest)
    }

    /// Of the slowest successes those that lay within windows, the slowest first.
    pub fn slowest(&self) -> &[SplitRequest] {
        &self.slowest
    }

    /// Whether nothing lay within windows, nor was cut by one.
    pub fn is_empty(&self) -> bool {
        self.whole == 0 && self.slowest.is_empty() && self.cut == 0
    }
}

/// Leaves those with the smallest keys, in their order.
fn keep(kept: &mut Vec<SplitRequest>, new: &[SplitRequest], room: usize) {
    kept.extend_from_slice(new);
    let place = |one: &SplitRequest| (one.key, one.request.intended_ns, one.request.worker, one.request.connection);
    kept.sort_unstable_by_key(place);
    kept.truncate(room);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: u64, passage: Result<Passage, Unsplit>) -> SplitRequest {
        SplitRequest { key, below: None, request: Request::default(), passage }
    }

    #[test]
    fn what_is_not_joined_is_counted_by_its_reason_and_memory_is_bounded() {
        let mut run = RunSplit::default();
        for (round, why) in (0..3000u64).zip(Unsplit::ALL.into_iter().cycle()) {
            let joined = one(round * 2, Ok(Passage::default()));
            let slow = one(3000 - round, Ok(Passage::default()));
            run.push(&TickSplit { sampled: vec![joined, one(round * 2 + 1, Err(why))], slowest: vec![slow], cut: 1 });
        }
        assert_eq!((run.whole, run.joined, run.cut), (6000, 3000, 3000));
        assert_eq!(run.unsplit, [600; 5]);
        assert!(run.sampled().count() == RUN_REQUESTS_KEPT && run.slowest().len() == RUN_SPLIT_SLOWEST_KEPT);
        assert!(run.sampled().map(|one| one.key).eq(0..RUN_REQUESTS_KEPT as u64));
        assert_eq!(run.slowest()[0].key, 1);
        let (mut twice, half) = (RunSplit::default(), Unsplit::ALL.map(|why| one(1, Err(why))));
        twice.push(&TickSplit { sampled: half.to_vec(), ..TickSplit::default() });
        assert!(twice.unsplit.iter().zip(Unsplit::ALL).all(|(n, why)| *n == 1 && !why.sentence().is_empty()));
    }
}
