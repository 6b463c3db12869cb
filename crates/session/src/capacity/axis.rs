//! What the load of a search is a number of, and how a step puts so much of it on.
//!
//! Each is requests a second or connections underneath. Bytes go by what a request of the first closed run moved, both ways,
//! heads with it and TLS's own without, so that a load is known before it is put on. Handshakes are requests that each have a
//! connection of their own, whose session is not resumed unless that was asked for: a full handshake is what costs. Users are
//! connections that think between a reply and the next request; they begin by thinking, so that a step is warmed up for as
//! long as most of them take to have asked once.

use model::plan::{Plan, Segment, Think};
use model::recording::Totals;
use model::units::show_bytes;
use model::workload::What;
use model::{Scenario, limits};

/// The first load, as a share of what was answered in the closed run.
const FIRST: f64 = 0.8;
/// Load before a step counts, nanoseconds.
const WARMUP_NS: u64 = 500_000_000;
/// Of users: so many times the mean time that they think, after which six of seven have asked, of those whose times are drawn
/// from an exponential distribution.
const WARMUP_THINKS: u64 = 2;

/// What the load is a number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Requests a second, in an open pace.
    Rate,
    /// Connections of a closed pace.
    Connections,
    /// Users, who think between a reply and their next request, in a closed pace.
    Users,
    /// TLS handshakes a second, in an open pace.
    Handshakes,
    /// Bytes a second, in an open pace.
    Bytes,
}

impl Of {
    /// The unit, as documents have it.
    pub const fn unit(self) -> &'static str {
        match self {
            Of::Rate => "requests/s",
            Of::Connections => "connections",
            Of::Users => "users",
            Of::Handshakes => "handshakes/s",
            Of::Bytes => "bytes/s",
        }
    }

    /// Whether the next request comes after the reply; else requests are due by the clock.
    pub const fn is_closed(self) -> bool {
        matches!(self, Of::Connections | Of::Users)
    }

    /// The highest load that may be tried.
    pub fn load_max(self) -> f64 {
        if self.is_closed() { f64::from(limits::CONNECTIONS_MAX) } else { f64::INFINITY }
    }

    /// The scenario of such a load: what was written, and what the axis is about.
    ///
    /// # Errors
    /// It has none of what the axis is about.
    pub fn scenario(self, mut scenario: Scenario) -> Result<Scenario, AxisError> {
        match self {
            Of::Users if think_ns(&scenario) == 0 => return Err(AxisError::NoThinkTime),
            Of::Handshakes => {
                match &mut scenario.what {
                    Some(What::Http(http)) => http.disable_keepalive = true,
                    _ => scenario.requests_per_connection = Some(1),
                }
                scenario.tls.resume.get_or_insert(false);
            }
            _ => {}
        }
        if !self.is_closed() {
            scenario.think = None;
        }
        Ok(scenario)
    }

    /// Holds a plan of that scenario against what the axis needs.
    ///
    /// # Errors
    /// It has no handshakes.
    pub fn check(self, plan: &Plan) -> Result<(), AxisError> {
        if self == Of::Handshakes && plan.tls.is_none() { Err(AxisError::NoTls) } else { Ok(()) }
    }
}

/// How many requests a second a load comes to, about: a step lasts until there were enough of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requests {
    /// For each of the load's units.
    pub per_load: f64,
    /// And so many at the most.
    pub per_s_max: f64,
}

impl Requests {
    /// A load that is a number of requests a second.
    pub const RATE: Requests = Requests { per_load: 1.0, per_s_max: f64::INFINITY };

    /// Of a load.
    pub fn per_s(&self, load: f64) -> f64 {
        (load * self.per_load).min(self.per_s_max)
    }
}

/// A scenario that has none of what is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// Users who do not think are connections.
    #[error(
        "expected how long users think between a reply and their next request, got nothing: give --think, such as exp:1s"
    )]
    NoThinkTime,
    /// Plain connections have no handshake.
    #[error(
        "expected a URL of https, wss or echo+tls for handshakes, got one without TLS: name one, or leave --of out"
    )]
    NoTls,
}

/// The axis of a search, with what the first closed run said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    of: Of,
    /// Requests answered a second in the closed run.
    per_s: f64,
    /// Bytes a request moved in it, both ways.
    bytes_each: f64,
    /// Mean time that users think, seconds.
    think_s: f64,
}

impl Axis {
    /// From what a closed run of the scenario came to.
    pub fn of(of: Of, scenario: &Scenario, totals: &Totals) -> Self {
        let counts = &totals.sum.counts;
        let bytes = counts.bytes_sent.saturating_add(counts.bytes_received) as f64;
        Axis {
            of,
            per_s: totals.per_s(totals.in_time.ok),
            bytes_each: (bytes / counts.requests().max(1) as f64).max(1.0),
            think_s: think_ns(scenario) as f64 / 1e9,
        }
    }

    /// Requests that were answered a second.
    pub fn per_s(&self) -> f64 {
        self.per_s
    }

    /// What a request is, where the load is not a number of them.
    pub fn each(&self) -> Option<String> {
        (self.of == Of::Bytes).then(|| format!("{} a request, both ways", show_bytes(self.bytes_each)))
    }

    /// The load to begin with, where that many connections were asked for.
    pub fn first(&self, connections: Option<u32>) -> f64 {
        match (self.of, connections) {
            (Of::Rate | Of::Handshakes, _) => FIRST * self.per_s,
            (Of::Bytes, _) => FIRST * self.per_s * self.bytes_each,
            (Of::Connections | Of::Users, Some(asked)) => f64::from(asked),
            (Of::Connections, None) => f64::from(resolve::defaults::CONNECTIONS),
            // Little's law: so many think while that many are answered each second.
            (Of::Users, None) => (FIRST * self.per_s * self.think_s).clamp(1.0, self.of.load_max()).round(),
        }
    }

    /// How many requests a second a load comes to.
    pub fn requests(&self) -> Requests {
        let per_s_max = if self.of.is_closed() { self.per_s } else { f64::INFINITY };
        let per_load = match self.of {
            Of::Rate | Of::Handshakes => 1.0,
            Of::Bytes => 1.0 / self.bytes_each,
            // As many as there are in a closed run, however many ask: about.
            Of::Connections => self.per_s,
            Of::Users => 1.0 / self.think_s.max(1e-9),
        };
        Requests { per_load, per_s_max }
    }

    /// Puts so much on for so long.
    pub fn put(&self, load: f64, for_ns: u64, base: Scenario) -> Scenario {
        if self.of.is_closed() {
            // At most `load_max`, which fits.
            return closed(Scenario { connections: Some(load.round().max(1.0) as u32), ..base });
        }
        let per_s = self.requests().per_s(load);
        Scenario { profile: vec![Segment { from_per_s: per_s, to_per_s: per_s, for_ns }], ..base }
    }

    /// The load that was put on: in an open pace what was due, whether or not it was carried.
    pub fn achieved(&self, asked: f64, totals: &Totals) -> f64 {
        let due_per_s = totals.per_s(totals.in_time.started + totals.in_time.dropped);
        match self.of {
            Of::Rate | Of::Handshakes => due_per_s,
            Of::Bytes => due_per_s * self.bytes_each,
            Of::Connections | Of::Users => asked,
        }
    }
}

/// Load before a step of this scenario counts, nanoseconds.
pub fn warmup_ns(of: Of, scenario: &Scenario) -> u64 {
    match of {
        Of::Users => WARMUP_NS.max(think_ns(scenario).saturating_mul(WARMUP_THINKS)),
        _ => WARMUP_NS,
    }
}

/// Without what only an open pace has.
pub fn closed(scenario: Scenario) -> Scenario {
    Scenario { profile: Vec::new(), arrivals: None, on_full: None, queue_capacity: None, ..scenario }
}

/// Mean time that users think, nanoseconds.
fn think_ns(scenario: &Scenario) -> u64 {
    match scenario.think.unwrap_or(Think::None) {
        Think::None => 0,
        Think::FixedNs(ns) | Think::ExponentialNs(ns) => ns,
        Think::UniformNs(least, most) => least / 2 + most / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(ok: u64, bytes: u64) -> Totals {
        let mut totals = Totals { measured_ns: 1_000_000_000, ..Totals::default() };
        totals.in_time.ok = ok;
        totals.in_time.started = ok;
        (totals.sum.counts.ok, totals.sum.counts.bytes_sent, totals.sum.counts.bytes_received) =
            (ok, bytes / 4, bytes * 3 / 4);
        totals
    }

    #[test]
    fn each_axis_goes_from_a_load_to_a_scenario_and_back() {
        let think = Scenario { think: Some(Think::ExponentialNs(2_000_000_000)), ..Scenario::default() };
        let axis = |of| Axis::of(of, &think, &totals(1000, 400_000));
        let rate =
            |of: Of, load| axis(of).put(load, 1, Scenario::default()).profile.first().map(|segment| segment.from_per_s);
        assert_eq!(
            (rate(Of::Rate, 500.0), rate(Of::Handshakes, 500.0), rate(Of::Bytes, 40_000.0)),
            (Some(500.0), Some(500.0), Some(100.0))
        );
        let put = axis(Of::Users).put(70.0, 1, Scenario { queue_capacity: Some(9), ..think.clone() });
        assert_eq!((put.connections, put.think, put.queue_capacity), (Some(70), think.think, None));
        assert_eq!((axis(Of::Rate).first(None), axis(Of::Bytes).first(None)), (800.0, 320_000.0));
        assert_eq!((axis(Of::Users).first(None), axis(Of::Users).first(Some(9))), (1600.0, 9.0));
        let achieved = totals(100, 40_000);
        assert_eq!(
            (axis(Of::Rate).achieved(7.0, &achieved), axis(Of::Bytes).achieved(7.0, &achieved)),
            (100.0, 40_000.0)
        );
        assert_eq!(axis(Of::Connections).achieved(7.0, &achieved), 7.0);
        assert_eq!((warmup_ns(Of::Users, &think), warmup_ns(Of::Rate, &think)), (4_000_000_000, WARMUP_NS));
    }

    #[test]
    fn what_an_axis_is_about_must_be_there() {
        assert_eq!(Of::Users.scenario(Scenario::default()), Err(AxisError::NoThinkTime));
        let handshakes = Of::Handshakes.scenario(Scenario::default()).unwrap();
        assert_eq!((handshakes.requests_per_connection, handshakes.tls.resume), (Some(1), Some(false)));
        let mut resumed = Scenario::default();
        resumed.tls.resume = Some(true);
        assert_eq!(Of::Handshakes.scenario(resumed).unwrap().tls.resume, Some(true));
    }
}
