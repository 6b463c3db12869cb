//! Bursts: how many at once, how often, what is released.
//!
//! A burst takes its number from `--burst`: it is that of the connections, so `-c` beside it must agree. It ends by its
//! rounds, and puts no load between them, so neither a duration nor a rate goes with it.

use crate::defaults as d;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::words;
use model::plan::{BurstAt, Pace, Stop};
use model::units::show_duration_ns;
use model::{Scenario, limits};

/// The pace and the end of a scenario that asks for bursts; `None`: it does not. `closes` is the field by which each
/// connection is closed after its reply.
pub(super) fn pace(scenario: &Scenario, closes: Option<Field>) -> Result<Option<(Pace, Stop)>, ResolveError> {
    let Some(size) = scenario.burst else {
        let alone = [
            (Field::Rounds, scenario.rounds.is_some()),
            (Field::BurstAt, scenario.burst_at.is_some()),
            (Field::BurstPause, scenario.burst_pause_ns.is_some()),
        ];
        return match alone.iter().find(|(_, is_set)| *is_set) {
            None => Ok(None),
            Some((field, _)) => Err(ResolveError::Conflict {
                what: (*field).into(),
                with: "any pace but that of bursts".into(),
                instead: words!["add ", (Field::Burst, "N")],
            }),
        };
    };
    if !(1..=limits::CONNECTIONS_MAX).contains(&size) {
        return Err(ResolveError::bad_value(Field::Burst, format!("1 to {}", limits::CONNECTIONS_MAX), size));
    }
    if let Some(other) = scenario.connections.filter(|n| *n != size) {
        return Err(ResolveError::bad_value(
            Field::Connections,
            words!["the number of ", Field::Burst, format!(" ({size}), or nothing")],
            other,
        ));
    }
    let with = [
        (Field::Rate, !scenario.profile.is_empty()),
        (Field::Poisson, scenario.arrivals.is_some()),
        (Field::Think, scenario.think.is_some()),
        (Field::Duration, scenario.duration_ns.is_some()),
        (Field::Requests, scenario.requests.is_some()),
        (Field::Warmup, scenario.warmup_ns.is_some()),
        (Field::Pipeline, scenario.pipeline.is_some()),
        (Field::RequestsPerConnection, scenario.requests_per_connection.is_some()),
        (closes.unwrap_or(Field::Burst), closes.is_some()),
        (Field::OnFull, scenario.on_full.is_some()),
        (Field::OnError, scenario.on_error.is_some()),
        (Field::Queue, scenario.queue_capacity.is_some()),
        (Field::Batch, scenario.batch.is_some()),
    ];
    if let Some((field, _)) = with.iter().find(|(_, is_set)| *is_set) {
        let instead = words!["leave one of them out, a burst ends by its rounds (", Field::Rounds, ")"];
        return Err(ResolveError::Conflict { what: (*field).into(), with: Field::Burst.into(), instead });
    }
    let rounds = scenario.rounds.unwrap_or(d::ROUNDS);
    if !(1..=limits::ROUNDS_MAX).contains(&rounds) {
        return Err(ResolveError::bad_value(Field::Rounds, format!("1 to {}", limits::ROUNDS_MAX), rounds));
    }
    let pause_ns = scenario.burst_pause_ns.unwrap_or(d::BURST_PAUSE_NS);
    if pause_ns > d::TIMEOUT_NS_MAX {
        return Err(ResolveError::bad_value(Field::BurstPause, "at most 1h", show_duration_ns(pause_ns as f64)));
    }
    let pace = Pace::Burst { rounds, at: scenario.burst_at.unwrap_or(BurstAt::Send), pause_ns };
    Ok(Some((pace, Stop { duration_ns: None, requests: Some(u64::from(size) * u64::from(rounds)) })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl FnOnce(&mut Scenario)) -> Result<Option<(Pace, Stop)>, String> {
        let mut scenario = Scenario { burst: Some(1000), ..Scenario::default() };
        change(&mut scenario);
        pace(&scenario, None).map_err(|error| {
            assert!(error.is_usage());
            error.to_string()
        })
    }

    #[test]
    fn a_burst_ends_by_its_rounds() {
        let (pace, stop) = of(|s| s.rounds = Some(50)).unwrap().unwrap();
        assert_eq!(pace, Pace::Burst { rounds: 50, at: BurstAt::Send, pause_ns: d::BURST_PAUSE_NS });
        assert_eq!(stop, Stop { duration_ns: None, requests: Some(50_000) });
        assert_eq!(of(|s| s.burst = None).unwrap(), None);
        assert!(of(|s| (s.burst, s.rounds) = (None, Some(2))).unwrap_err().starts_with("rounds cannot be used"));
        assert!(of(|s| s.duration_ns = Some(1)).unwrap_err().starts_with("duration cannot be used with burst"));
        assert!(of(|s| s.connections = Some(7)).unwrap_err().starts_with("connections: expected the number of burst"));
        assert!(of(|s| s.burst = Some(0)).unwrap_err().starts_with("burst"));
        assert!(of(|s| s.rounds = Some(0)).unwrap_err().starts_with("rounds"));
        assert!(of(|s| s.burst_pause_ns = Some(u64::MAX)).unwrap_err().starts_with("burst_pause"));
    }
}
