//! What connections say of a load line: whether it is their own, and how many requests the server has at a time.
//!
//! A line may be that of the load's own connections: as many requests are under way at once as there are connections, so where
//! each takes 30 ms by itself, 50 connections carry 1,700 a second, whatever the server could.
//!
//! Beyond the line all of them are taken then, and yet a request takes no longer in the server than below the line. In one that is
//! at its limit requests wait for each other, and take the longer the more of them there are. How many it has at a time is then what it
//! answers a second, times what one takes while few are under way (Little's law).

use super::super::decision::Verdict;
use super::super::live::Ran;
use super::super::search::Line;
use super::gives::at_line;
use model::plan::Pace;
use model::{LatencyKind, Recording};

/// So much of all connections' time is all of it.
const TAKEN: f64 = 0.9;
/// A request beyond the line takes no longer than below it, by this much.
const ALIKE: f64 = 1.2;

/// Requests wait for each other where half of them take so many times as long.
const WAITS: f64 = 1.5;
/// One at a time is so much of one, to what can be told; and most of the connections are none that wait.
const AT_A_TIME_MIN: f64 = 0.7;
const AT_A_TIME_MAX: f64 = 0.7;

/// A step's connections, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Places {
    /// How many there were.
    pub connections: u32,
    /// What half of the requests took from being sent to their reply, nanoseconds.
    pub service_p50_ns: f64,
    /// Requests that were answered a second.
    pub per_s: f64,
    /// Share of all connections' time in which one was waited for on them, by Little's law.
    pub taken: f64,
}

impl Places {
    /// Of a step with an open pace; `None` of others, and where nothing was answered.
    pub fn of(recording: &Recording) -> Option<Self> {
        let connections = recording.plan.connections;
        let service = recording.totals.sum.latency.quantile(LatencyKind::Service, 0.5)?;
        let mean_ns = recording.totals.sum.latency.of(LatencyKind::Service).mean();
        let per_s = recording.totals.requests_per_s();
        let taken = per_s * mean_ns / 1e9 / f64::from(connections.max(1));
        let is_open = matches!(recording.plan.pace, Pace::Open { .. });
        is_open.then_some(Places { connections, service_p50_ns: service.ns as f64, per_s, taken })
    }

    /// How many requests a second they carry at the most, where each takes as long as half of them did.
    pub fn at_most_per_s(&self) -> f64 {
        1e9 * f64::from(self.connections) / self.service_p50_ns.max(1.0)
    }
}

/// The connections that are the limit beyond the line; `None`: they are not, or it is not known.
pub fn own_limit(ran: &[Ran], line: &Line) -> Option<Places> {
    let (_, missed) = at_line(ran, line);
    let beyond = missed?.places?;
    (beyond.taken >= TAKEN && beyond.service_p50_ns <= ALIKE * alone_ns(ran)?).then_some(beyond)
}

/// What a request takes while few are under way: the least that half of them took in a step that held, as those near the line may have
/// waited there.
fn alone_ns(ran: &[Ran]) -> Option<f64> {
    let held = ran.iter().filter(|one| one.step.verdict == Verdict::Held).filter_map(|one| one.places);
    held.map(|places| places.service_p50_ns).reduce(f64::min)
}

/// That requests wait for each other in the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InTurn {
    /// What one takes while few are under way, nanoseconds.
    pub alone_ns: f64,
    /// What half of them take beyond the line, nanoseconds.
    pub beyond_ns: f64,
    /// How many are served at a time, about.
    pub at_a_time: u32,
}

/// How many requests the server has at a time beyond the line; `None`: they do not wait for each other, no load held, or so few pass that
/// something else holds them up.
pub fn in_turn(ran: &[Ran]) -> Option<InTurn> {
    let alone_ns = alone_ns(ran)?;
    let missed = ran.iter().filter(|one| one.step.verdict == Verdict::Missed).filter_map(|one| one.places);
    let fullest = missed.max_by(|a, b| a.taken.total_cmp(&b.taken))?;
    let at_a_time = fullest.per_s * alone_ns / 1e9;
    let is_so = fullest.service_p50_ns >= WAITS * alone_ns
        && (AT_A_TIME_MIN..=AT_A_TIME_MAX * f64::from(fullest.connections)).contains(&at_a_time);
    let at_a_time = at_a_time.round().max(1.0) as u32;
    is_so.then_some(InTurn { alone_ns, beyond_ns: fullest.service_p50_ns, at_a_time })
}

#[cfg(test)]
mod tests {
    use super::super::super::search::{Purpose, Step};
    use super::*;

    fn ran(load: f64, verdict: Verdict, taken: f64, service_ms: f64) -> Ran {
        let step = Step {
            asked: load,
            load,
            took_s: 1.0,
            verdict,
            is_growing: false,
            purpose: Purpose::Find,
            blocks: Vec::new(),
        };
        let per_s = 1e3 * 50.0 * taken / service_ms;
        let places = Places { connections: 50, service_p50_ns: 1e6 * service_ms, per_s, taken };
        // Of a step that another process ran nothing is asked.
        Ran { diagnosis: Some(model::finding::Diagnosis::default()), places: Some(places), ..Ran::known(step) }
    }

    #[test]
    fn connections_are_the_limit_where_all_are_taken_and_a_request_takes_no_longer() {
        let line = Line { held: Some(1_500.0), missed: Some(1_700.0), ..Line::default() };
        let limit = |below_ms: f64, taken: f64, beyond_ms: f64| {
            let steps = [
                ran(1_000.0, Verdict::Held, 0.6, below_ms),
                ran(1_500.0, Verdict::Held, 0.9, below_ms + 1.0),
                ran(1_700.0, Verdict::Missed, taken, beyond_ms),
            ];
            own_limit(&steps, &line).map(|places| places.at_most_per_s().round())
        };
        assert_eq!(limit(30.0, 0.99, 30.5), Some(1_639.0));
        assert_eq!(limit(3.0, 0.99, 30.0), None, "they wait in the server");
        assert_eq!(limit(25.0, 0.99, 31.0), None, "they wait there a little");
        assert_eq!(limit(30.0, 0.7, 30.5), None, "some are free");
        let below = [ran(1_700.0, Verdict::Missed, 0.99, 30.0)];
        assert_eq!(own_limit(&below, &line), None, "what one takes alone is not known");
    }

    #[test]
    fn how_many_are_served_at_a_time_is_what_passes_times_what_one_takes_alone() {
        let served = |below_ms: f64, beyond_ms: f64| {
            let steps = [
                ran(300.0, Verdict::Held, 0.1, below_ms),
                ran(480.0, Verdict::Held, 0.3, 1.3 * below_ms),
                ran(510.0, Verdict::Missed, 0.7, 0.7 * beyond_ms),
                ran(800.0, Verdict::Missed, 1.0, beyond_ms),
            ];
            in_turn(&steps).map(|turn| turn.at_a_time)
        };
        assert_eq!(served(10.0, 100.0), Some(5));
        assert_eq!(served(2.0, 100.0), Some(1));
        assert_eq!(served(0.2, 100.0), None, "one in 2 ms is let through, and takes 0.2");
        assert_eq!(served(80.0, 100.0), None, "it takes as long by itself");
        assert_eq!(in_turn(&[ran(800.0, Verdict::Missed, 1.0, 100.0)]), None, "what one takes alone is not known");
    }
}
