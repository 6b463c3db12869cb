//! Where the time of single requests went: the client's stamps joined with what the target's sockets saw.
//!
//! A [`Joiner`] is given, reading by reading, the requests that were kept and the exchanges that the probes recorded. A
//! request that was sent and ended within a window is joined by our end of its connection (address and port) and the
//! target's port: its exchange is what arrived after it was sent and was answered before it ended, on that connection. What
//! has no such exchange keeps the reason. A request under way when a window began or ended is cut: counted, and in no band.
//!
//! [`Parts`] of a request always add up to its response time: each is the difference of two moments that lie one after the
//! other. [`bands`] are means over requests near a quantile of the response time, so they add up too. Nothing here is
//! estimated: where the clocks of two machines are only known within a bound, the way there and the way back are given as
//! their sum, in which the offset cancels.

use model::exchange::{Exchange, Exchanges};
use model::limits::{REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT};
use model::request::{IntervalRequests, Kept, Request, RequestEnd};
use model::split::{Passage, RunSplit, SplitRequest, TickSplit, Unsplit};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Exchanges that are kept while their window is open: of a target that answers 100,000 requests a second, some seconds.
const EXCHANGES_MAX: usize = 1 << 18;
/// Ticks whose requests wait for a reading that says what the target saw of them: one of another machine comes later.
const TICKS_WAITING_MAX: usize = 64;
/// Fewer requests near a quantile make no band.
const BAND_REQUESTS_MIN: usize = 8;
/// The bands: a name, and from which rank to which its requests lie.
const BANDS: [(&str, f64, f64); 3] = [("p50", 0.40, 0.60), ("p90", 0.85, 0.95), ("p99", 0.985, 0.995)];

/// Of the requests of a tick the successes that had been sent.
#[derive(Debug, Default)]
struct Waiting {
    sampled: Vec<Kept>,
    slowest: Vec<Kept>,
}

/// Joins requests with exchanges as they come. Bounded; what does not fit is not split, for that reason.
#[derive(Debug, Default)]
pub struct Joiner {
    has_pipelines: bool,
    waiting: VecDeque<Waiting>,
    /// When and until when the probes saw everything: the window that is open, or was last.
    window: Option<(i64, i64)>,
    /// Between which moments of it not all of it did fit.
    lost: Option<(i64, i64)>,
    clock_error_ns: i64,
    /// By the other end.
    seen: HashMap<SocketAddr, Vec<Exchange>>,
    /// How many those are.
    count: usize,
    /// Readings since the window ended.
    readings_after: u32,
}

impl Joiner {
    /// For a load with so many requests under way on a connection at the most.
    pub fn new(pipeline: u16) -> Self {
        Joiner { has_pipelines: pipeline > 1, ..Joiner::default() }
    }

    /// Takes in what was kept of the requests of the tick with this number.
    pub fn push_requests(&mut self, sequence: u64, requests: &IntervalRequests) {
        let sent = |kept: &Kept| kept.request.end == RequestEnd::Ok && kept.request.sent_ns > 0;
        if self.waiting.len() >= TICKS_WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting {
            sampled: requests.drawn(sequence).filter(sent).take(REQUESTS_KEPT).collect(),
            slowest: requests.slowest.iter().copied().filter(sent).take(REQUESTS_SLOWEST_KEPT).collect(),
        });
    }

    /// Takes in a reading of moment `at_ns`, and says what is known by it of requests that had ended.
    pub fn push_reading(&mut self, at_ns: i64, exchanges: Option<Exchanges>) -> TickSplit {
        self.readings_after = if exchanges.is_some() { 0 } else { self.readings_after.saturating_add(1) };
        let known_to_ns = exchanges.as_ref().map_or(at_ns, |exchanges| exchanges.to_ns.max(at_ns));
        if let Some(exchanges) = exchanges {
            self.take(exchanges);
        }
        let split = self.resolve(known_to_ns);
        if self.is_over() {
            self.forget();
        }
        split
    }

    /// Whether nothing can come any more that lies within the window: a tick's requests come before the reading at its end,
    /// or right after it.
    fn is_over(&self) -> bool {
        self.readings_after >= 2
    }

    fn forget(&mut self) {
        self.seen = HashMap::new();
        self.count = 0;
    }

    fn take(&mut self, exchanges: Exchanges) {
        let Exchanges { from_ns, to_ns, lost_from_ns, clock_error_ns, list } = exchanges;
        match &mut self.window {
            Some((_, until_ns)) if *until_ns == from_ns => *until_ns = to_ns,
            window => {
                // Another window; or a reading between is missing, and what was seen before it is not all there was.
                *window = Some((from_ns, to_ns));
                self.lost = None;
                self.forget();
            }
        }
        self.clock_error_ns = i64::try_from(clock_error_ns).unwrap_or(i64::MAX);
        // With this reading there is room again.
        self.lost = lost_from_ns.map(|lost_ns| (lost_ns, to_ns)).or(self.lost);
        if self.count.saturating_add(list.len()) > EXCHANGES_MAX {
            self.forget_old(&list);
        }
        for exchange in list {
            self.count += 1;
            self.seen.entry(exchange.peer).or_default().push(exchange);
        }
    }

    /// Makes room: what was answered first, of those seen before, goes, and the window begins after it.
    fn forget_old(&mut self, new: &[Exchange]) {
        let mut moments: Vec<i64> = self.seen.values().flatten().map(|exchange| exchange.arrived_ns).collect();
        let surplus = (self.count + new.len()).saturating_sub(EXCHANGES_MAX).max(moments.len() / 2);
        if surplus >= moments.len() {
            self.forget();
            let first = new.iter().map(|exchange| exchange.arrived_ns).min();
            if let (Some((from_ns, _)), Some(first_ns)) = (&mut self.window, first) {
                *from_ns = (*from_ns).max(first_ns);
            }
            return;
        }
        let (_, from, _) = moments.select_nth_unstable(surplus);
        let kept_from_ns = *from;
        self.seen.retain(|_, list| {
            list.retain(|exchange| exchange.arrived_ns >= kept_from_ns);
            !list.is_empty()
        });
        self.count = self.seen.values().map(Vec::len).sum();
        if let Some((from_ns, _)) = &mut self.window {
            *from_ns = (*from_ns).max(kept_from_ns);
        }
    }

    /// What is known of the requests that had ended by a moment; later ones go on waiting.
    fn resolve(&mut self, known_to_ns: i64) -> TickSplit {
        let mut split = TickSplit::default();
        let mut waiting = std::mem::take(&mut self.waiting);
        for tick in &mut waiting {
            let sampled = take_ended(&mut tick.sampled, known_to_ns);
            split.cut += sampled.iter().filter(|kept| self.is_cut(&kept.request)).count() as u64;
            split.sampled.extend(sampled.iter().filter_map(|kept| self.judge(kept)));
            split.slowest.extend(take_ended(&mut tick.slowest, known_to_ns).iter().filter_map(|kept| self.judge(kept)));
        }
        waiting.retain(|tick| !tick.sampled.is_empty() || !tick.slowest.is_empty());
        self.waiting = waiting;
        split
    }

    fn is_cut(&self, request: &Request) -> bool {
        let Some((from_ns, to_ns)) = self.window else { return false };
        let (sent_ns, ended_ns) = (signed(request.sent_ns), signed(request.ended_ns));
        sent_ns < to_ns && ended_ns > from_ns && !(sent_ns >= from_ns && ended_ns <= to_ns)
    }

    /// `None`: it did not lie within the window.
    fn judge(&self, kept: &Kept) -> Option<SplitRequest> {
        let (from_ns, to_ns) = self.window.filter(|_| !self.is_over())?;
        let Kept { key, request, below } = *kept;
        let (sent_ns, ended_ns) = (signed(request.sent_ns), signed(request.ended_ns));
        if sent_ns < from_ns || ended_ns > to_ns {
            return None;
        }
        let passage = match request.local {
            None => Err(Unsplit::NoLocalAddress),
            Some(_) if self.has_pipelines => Err(Unsplit::Pipelined),
            // What was answered before the first that did not fit is all there.
            Some(_) if self.lost.is_some_and(|(from_ns, to_ns)| ended_ns >= from_ns && sent_ns <= to_ns) => {
                Err(Unsplit::Lost)
            }
            Some(local) => self.passage(local, sent_ns, ended_ns),
        };
        Some(SplitRequest { key, below, request, passage })
    }

    /// What the target saw between two moments from one address.
    fn passage(&self, local: SocketAddr, sent_ns: i64, ended_ns: i64) -> Result<Passage, Unsplit> {
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        let of_peer = self.seen.get(&local).ok_or(Unsplit::NoExchange)?;
        // How far another machine's clock may be off.
        let error_ns = self.clock_error_ns;
        let (from_ns, to_ns) = (sent_ns.saturating_sub(error_ns), ended_ns.saturating_add(error_ns));
        let within = || of_peer.iter().filter(|e| e.arrived_ns >= from_ns && e.arrived_ns <= to_ns);
        let first = within().min_by_key(|e| (e.arrived_ns, e.written_ns)).ok_or(Unsplit::OutOfOrder)?;
        // On a loopback the reply may be there before TCP's clock was last read for it.
        let last_ns = within().map(|e| e.written_ns).filter(|written_ns| *written_ns <= to_ns).max();
        let written_ns = last_ns.unwrap_or(ended_ns);
        let is_one_socket = within().all(|e| e.port == first.port);
        if !is_one_socket || first.read_ns < first.arrived_ns || first.read_ns > written_ns {
            return Err(Unsplit::OutOfOrder);
        }
        let at = |ns: i64| ns.max(0).cast_unsigned();
        Ok(Passage { arrived_ns: at(first.arrived_ns), read_ns: at(first.read_ns), written_ns: at(written_ns) })
    }
}

/// Takes those out that had ended by a moment.
fn take_ended(list: &mut Vec<Kept>, to_ns: i64) -> Vec<Kept> {
    list.extract_if(.., |kept| signed(kept.request.ended_ns) <= to_ns).collect()
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Where the response time of a request went, or the mean of several: nanoseconds, which add up to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// From when it was due until the worker took it up: the generator's own.
    pub lag_ns: f64,
    /// Until it was sent, but for the next: no connection was free.
    pub queue_ns: f64,
    /// Until it was sent: its connection was being made, TLS included.
    pub connect_ns: f64,
    /// From its sending to the target's socket: the rest of the generator's turn, kernels and network.
    pub there_ns: f64,
    /// In the target's socket until the target read of it; of the first on a connection, also until that was accepted.
    pub socket_ns: f64,
    /// From the first read to the last send of its reply.
    pub server_ns: f64,
    /// From there until the generator had read all of it: network, kernels, and how late it was looked at.
    pub back_ns: f64,
    /// From its sending to its end, of what could not be split.
    pub unsplit_ns: f64,
}

impl Parts {
    /// Those of one request.
    pub fn of(one: &SplitRequest) -> Self {
        let Request { intended_ns, ready_ns, sent_ns, ended_ns, connect_ns, ordinal, .. } = one.request;
        // The first of a connection may have waited for it: from when that was begun.
        let begun_ns = if ordinal <= 1 { connect_ns.clamp(ready_ns, sent_ns.max(ready_ns)) } else { sent_ns };
        let between = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64;
        let before = Parts {
            lag_ns: between(intended_ns, ready_ns),
            queue_ns: between(ready_ns, begun_ns),
            connect_ns: between(begun_ns, sent_ns),
            ..Parts::default()
        };
        match one.passage {
            Err(_) => Parts { unsplit_ns: between(sent_ns, ended_ns), ..before },
            // Another machine's clock may put them outside: the sum of both ways is right all the same.
            Ok(Passage { arrived_ns, read_ns, written_ns }) => Parts {
                there_ns: arrived_ns as f64 - sent_ns as f64,
                socket_ns: between(arrived_ns, read_ns),
                server_ns: between(read_ns, written_ns),
                back_ns: ended_ns as f64 - written_ns as f64,
                ..before
            },
        }
    }

    /// All of them together.
    pub fn sum_ns(&self) -> f64 {
        self.array().iter().sum()
    }

    /// In the order of time, what is not split last.
    pub fn array(&self) -> [f64; 8] {
        let Parts { lag_ns, queue_ns, connect_ns, there_ns, socket_ns, server_ns, back_ns, unsplit_ns } = *self;
        [lag_ns, queue_ns, connect_ns, there_ns, socket_ns, server_ns, back_ns, unsplit_ns]
    }

    fn mean(all: impl ExactSizeIterator<Item = Parts>) -> Parts {
        let count = all.len().max(1) as f64;
        let mut sum = [0.0; 8];
        for parts in all {
            sum.iter_mut().zip(parts.array()).for_each(|(sum, part)| *sum += part);
        }
        let [lag_ns, queue_ns, connect_ns, there_ns, socket_ns, server_ns, back_ns, unsplit_ns] =
            sum.map(|sum| sum / count);
        Parts { lag_ns, queue_ns, connect_ns, there_ns, socket_ns, server_ns, back_ns, unsplit_ns }
    }
}

/// The mean of requests near a quantile of the response time.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// `p50`, `p90`, `p99` or `slowest`.
    pub name: &'static str,
    /// From which to which share of all its requests lie, by their response time; `None`: the slowest that were kept.
    pub ranks: Option<(f64, f64)>,
    /// How many requests it is the mean of.
    pub requests: usize,
    /// How many of them were joined.
    pub joined: usize,
    /// Their mean response time, nanoseconds.
    pub response_ns: f64,
    /// The mean of each part.
    pub parts: Parts,
}

/// The bands of a run. Of too few requests near a quantile there is none.
pub fn bands(split: &RunSplit) -> Vec<Band> {
    let mut sorted: Vec<&SplitRequest> = split.sampled().collect();
    sorted.sort_by_key(|one| (one.request.response_ns(), one.key));
    let mut bands: Vec<Band> = BANDS
        .iter()
        .filter_map(|(name, low, high)| {
            let place = |rank: f64| (rank * sorted.len() as f64).round() as usize;
            let of_band = sorted.get(place(*low)..place(*high).min(sorted.len()))?;
            band(name, Some((*low, *high)), of_band)
        })
        .collect();
    let slowest: Vec<&SplitRequest> = split.slowest().iter().collect();
    bands.extend(band("slowest", None, &slowest));
    bands
}

fn band(name: &'static str, ranks: Option<(f64, f64)>, of_band: &[&SplitRequest]) -> Option<Band> {
    if of_band.len() < BAND_REQUESTS_MIN {
        return None;
    }
    let response_ns = of_band.iter().map(|one| one.request.response_ns() as f64).sum::<f64>() / of_band.len() as f64;
    Some(Band {
        name,
        ranks,
        requests: of_band.len(),
        joined: of_band.iter().filter(|one| one.passage.is_ok()).count(),
        response_ns,
        parts: Parts::mean(of_band.iter().map(|one| Parts::of(one))),
    })
}
