//! That nobody was answered for so long that it is what a run's slow requests are: a target that was stopped, a failover, a machine
//! that froze.
//!
//! Once or twice in a run no rule on pauses sees a pattern in it, and a closed loop sends hardly anything meanwhile: of a million requests
//! thirty were slow, and waited for a third of the time. Spans in which no request ended though some were under way at every worker
//! ([`model::run_requests::RunRequests::common_gaps`]), from 100 ms on, of which at least half was not the generator's own doing. Requests'
//! time in them is their length times how many were under way, or half of it for each that became due meanwhile, whichever is more; beside it all
//! requests' time, by the histogram.

use crate::facts::{Facts, duration, percent};
use crate::rule::{OfTarget, Verdict};
use crate::thresholds::{PAUSE_TIMES, SLOW_TIME};
use model::event::Event;
use model::latency::Kind;
use model::request::Gap;
use model::snapshot::Role;
use model::units::show_grouped;
use std::collections::{BTreeMap, BTreeSet};

/// Shorter ones are seen in the quantiles, and a worker that was stopped may have slept up to 50 ms before that, which is not known to be
/// its own doing.
const LENGTH_NS_MIN: u64 = 100_000_000;
/// So much of a loss must lie in them.
const OF_LOSS_MIN: f64 = 0.5;
/// So much of one must not have been the generator's own doing, where that was disturbed.
const LOOKED_ON: f64 = 0.9;
/// A signal may be told so much before or after what it did is seen in replies, nanoseconds.
const SIGNAL_NS: i64 = 50_000_000;
/// SIGSTOP, SIGTSTP, SIGTTIN and SIGTTOU of signal(7), on all architectures that we run on.
const SIGSTOP: i32 = 19;
const STOPS: [i32; 4] = [SIGSTOP, 20, 21, 22];
/// Fewer are somebody's at a terminal, or a debugger's.
const AGAIN_MIN: u64 = 4;
/// The state of who is stopped, by proc_pid_stat(5).
const STOPPED: char = 'T';

/// Which process of the target somebody stopped in the course of the run, so that it stood still for a tenth of a second or more: that for which
/// it was longest, in a sentence without an end. What it had taken waits for it, while other processes may serve. No event says that it
/// goes on (the kernel does not deliver SIGCONT), so the state of its threads in the readings does; one says who stopped it, and when.
pub(super) fn stopped_process(facts: &Facts<'_>) -> Option<String> {
    let mut longest: Option<Stopped<'_>> = None;
    // Of each process that stands stopped, since when it was read so; none of one that did from the first reading on.
    let mut now: BTreeMap<u32, Option<i64>> = BTreeMap::new();
    for (reading, snapshot) in facts.snapshots().enumerate() {
        for process in snapshot.processes.iter().filter(|process| process.role == Role::Target) {
            if process.threads.is_empty() || process.threads.iter().any(|thread| thread.state != STOPPED) {
                now.remove(&process.pid);
                continue;
            }
            let since_ns = *now.entry(process.pid).or_insert((reading > 0).then_some(snapshot.at_ns));
            let Some(since_ns) = since_ns else { continue };
            let stop = facts
                .recording
                .events
                .iter()
                .rev()
                .find(|event| is_stop(event) && event.details.pid == Some(process.pid) && event.at_ns <= since_ns);
            let from_ns = stop.map_or(since_ns, |event| event.at_ns);
            let stopped = Stopped { pid: process.pid, name: &process.name, stop, from_ns, to_ns: snapshot.at_ns };
            if longest.as_ref().is_none_or(|longest| stopped.lasted_ns() > longest.lasted_ns()) {
                longest = Some(stopped);
            }
        }
    }
    longest.filter(|stopped| stopped.lasted_ns() >= LENGTH_NS_MIN as i64).map(|stopped| stopped.said())
}

/// A process that stood stopped, from and to when at least, nanoseconds of the run.
struct Stopped<'f> {
    pid: u32,
    name: &'f str,
    stop: Option<&'f Event>,
    from_ns: i64,
    to_ns: i64,
}

impl Stopped<'_> {
    fn lasted_ns(&self) -> i64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    fn said(&self) -> String {
        let what = self.stop.map_or_else(
            || format!("the target's process {} ({}) was stopped (state T)", self.name, self.pid),
            |event| event.text.clone(),
        );
        let (from_s, to_s) = (self.from_ns as f64 / 1e9, self.to_ns as f64 / 1e9);
        format!("{what}, and stood still from second {from_s:.1} to {to_s:.1}")
    }
}

/// A process of the target that somebody stops and lets go on, again and again, as who limits its CPU time from outside does: each time too
/// short to be told by its state.
pub(crate) struct StoppedAgain {
    /// How often.
    pub(crate) times: u64,
    /// That, in a sentence without an end.
    pub(crate) text: String,
}

impl StoppedAgain {
    /// Refutes what else would explain the pauses, where they are of that.
    pub(crate) fn refutes(&self, facts: &Facts<'_>) -> Verdict<OfTarget> {
        let stopped = facts.evidence(self.text.clone(), "target.stopped", self.times as f64, "signals");
        Verdict::refuted("nobody answered while somebody had stopped it").because(stopped)
    }
}

/// The process that was stopped most often within the load; `None`: none was so often.
pub(crate) fn stopped_again(facts: &Facts<'_>) -> Option<StoppedAgain> {
    let mut of_each: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    let is_within =
        |event: &&Event| u64::try_from(event.at_ns).is_ok_and(|ns| ns >= facts.start_ns && ns < facts.end_ns);
    for event in facts.recording.events.iter().filter(|event| is_stop(event)).filter(is_within) {
        let Some(pid) = event.details.pid else { continue };
        of_each.entry(pid).or_default().push(event);
    }
    let times = |events: &[&Event]| {
        events.iter().fold(0, |sum: u64, event| sum.saturating_add(event.details.times.unwrap_or(1)))
    };
    let (pid, events) = of_each.into_iter().max_by_key(|(_, events)| times(events))?;
    let times = times(&events);
    let senders: BTreeSet<Option<u32>> = events.iter().map(|event| event.details.sender_pid).collect();
    let by = match senders.into_iter().collect::<Vec<_>>()[..] {
        [Some(sender)] => format!(" by process {sender}"),
        _ => String::new(),
    };
    let name = events.first()?.details.process.as_deref().unwrap_or_default();
    let is_sigstop = events.iter().all(|event| event.details.signal == Some(SIGSTOP));
    let signal = if is_sigstop { " (SIGSTOP)" } else { "" };
    let text = format!("the target's process {name} ({pid}) was stopped {times} times{by}{signal} and let go on");
    (times >= AGAIN_MIN).then_some(StoppedAgain { times, text })
}

/// Whether somebody stopped a process of the target.
fn is_stop(event: &Event) -> bool {
    event.kind == "target-signal" && event.details.signal.is_some_and(|number| STOPS.contains(&number))
}

/// How long requests waited in one, together, nanoseconds: by the clock they come evenly, also where no connection was free to send them.
fn waited_ns(facts: &Facts<'_>, gap: &Gap) -> f64 {
    let due = facts.due(gap.from_ns, gap.to_ns).unwrap_or(0.0);
    let length_ns = gap.length_ns() as f64;
    (length_ns * gap.in_flight as f64).max(length_ns / 2.0 * due)
}

/// How many waited at its end.
fn waiting(facts: &Facts<'_>, gap: &Gap) -> u64 {
    gap.in_flight.max(facts.due(gap.from_ns, gap.to_ns).unwrap_or(0.0) as u64)
}

/// Whether the generator ran for nearly all of a span.
pub(crate) fn was_looked_on(gap: &Gap) -> bool {
    gap.others_ns() as f64 >= LOOKED_ON * gap.length_ns() as f64
}

/// The spans of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standstill {
    longest: Gap,
    /// Requests that waited at the end of the longest.
    waiting: u64,
    count: usize,
    /// Of all requests' time, 0..=1.
    of_time: f64,
}

impl Standstill {
    /// `None`: there are none, or they take too little of requests' time to be a loss.
    pub(crate) fn of(facts: &Facts<'_>) -> Option<Self> {
        let (service, response) = (facts.latency(Kind::Service), facts.latency(Kind::Response));
        if service.is_empty() || response.is_empty() {
            return None;
        }
        let least_ns = (PAUSE_TIMES.value * service.value_at_quantile(0.5) as f64).max(LENGTH_NS_MIN as f64);
        let is_one = |gap: &Gap| {
            let is_in = gap.from_ns >= facts.start_ns && gap.to_ns <= facts.end_ns;
            is_in && gap.length_ns() as f64 >= least_ns && gap.others_ns() >= gap.length_ns() / 2
        };
        let workers = facts.recording.plan.threads.max(1);
        let all: Vec<Gap> = facts.recording.requests.common_gaps(workers).into_iter().filter(is_one).collect();
        let waited_ns: f64 = all.iter().map(|gap| waited_ns(facts, gap)).sum();
        let of_time = (waited_ns / (response.mean() * response.len() as f64).max(1.0)).min(1.0);
        let longest = *all.first().filter(|_| of_time >= SLOW_TIME.value)?;
        Some(Standstill { longest, waiting: waiting(facts, &longest), count: all.len(), of_time })
    }

    /// Whether a loss of so much of all requests' time is mostly this.
    pub(crate) fn is_most_of(&self, share: f64) -> bool {
        self.of_time >= OF_LOSS_MIN * share
    }

    /// Whether the generator ran for nearly all of the longest: that nobody was answered is then none of its doing, whatever befell it
    /// in the rest of the run.
    pub(super) fn was_looked_on(&self) -> bool {
        was_looked_on(&self.longest)
    }

    /// What was seen, in words.
    pub(super) fn seen(&self) -> String {
        let times = match self.count {
            1 => String::new(),
            count => format!(" {count} times, the longest"),
        };
        format!(
            "nobody was answered{times} for {}, from second {:.1} on, while {} requests waited: {} of all requests' time",
            duration(self.longest.length_ns() as f64),
            self.longest.from_ns as f64 / 1e9,
            show_grouped(self.waiting),
            percent(self.of_time)
        )
    }

    /// That somebody stopped the target meanwhile.
    pub(super) fn why<'f>(&self, facts: &Facts<'f>) -> Option<&'f Event> {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let (from_ns, to_ns) = (signed(self.longest.from_ns) - SIGNAL_NS, signed(self.longest.to_ns));
        facts.recording.events.iter().find(|event| {
            let is_then = event.at_ns >= from_ns && event.at_ns <= to_ns;
            is_then && is_stop(event)
        })
    }
}
