//! Bursts: how many at once, how often, what is released.
//!
//! A burst takes its number from `--burst`: it is that of the connections, so `-c` beside it must agree. It ends by its
//! rounds, and puts no load between them, so neither a duration nor a rate goes with it.

use super::defaults as d;
use super::error::ResolveError;
use model::plan::{BurstAt, Pace, Stop};
use model::units::show_duration_ns;
use model::{Scenario, limits};

/// The pace and the end of a scenario that asks for bursts; `None`: it does not.
pub(super) fn pace(scenario: &Scenario) -> Result<Option<(Pace, Stop)>, ResolveError> {
    let Some(size) = scenario.burst else {
        let alone = [
            ("--rounds", scenario.rounds.is_some()),
            ("--burst-at", scenario.burst_at.is_some()),
            ("--burst-pause", scenario.burst_pause_ns.is_some()),
        ];
        return match alone.iter().find(|(_, is_set)| *is_set) {
            None => Ok(None),
            Some((flag, _)) => Err(ResolveError::Conflict {
                flag,
                with: "any pace but that of bursts".to_owned(),
                instead: "add --burst N",
            }),
        };
    };
    if !(1..=limits::CONNECTIONS_MAX).contains(&size) {
        return Err(ResolveError::bad_value("--burst", format!("1 to {}", limits::CONNECTIONS_MAX), size));
    }
    if let Some(other) = scenario.connections.filter(|n| *n != size) {
        return Err(ResolveError::bad_value("-c", format!("the number of --burst ({size}), or nothing"), other));
    }
    let with = [
        ("--rate", !scenario.profile.is_empty()),
        ("--poisson", scenario.arrivals.is_some()),
        ("--think", scenario.think.is_some()),
        ("-d", scenario.duration_ns.is_some()),
        ("-n", scenario.requests.is_some()),
        ("--warmup", scenario.warmup_ns.is_some()),
        ("--pipeline", scenario.pipeline.is_some()),
        ("--requests-per-connection", scenario.requests_per_connection.is_some()),
        ("--disable-keepalive", scenario.disable_keepalive),
        ("--on-full", scenario.on_full.is_some()),
        ("--queue", scenario.queue_capacity.is_some()),
        ("--batch", scenario.batch.is_some()),
    ];
    if let Some((flag, _)) = with.iter().find(|(_, is_set)| *is_set) {
        let instead = "leave one of them out, a burst ends by its rounds (--rounds)";
        return Err(ResolveError::Conflict { flag, with: "--burst".to_owned(), instead });
    }
    let rounds = scenario.rounds.unwrap_or(d::ROUNDS);
    if !(1..=limits::ROUNDS_MAX).contains(&rounds) {
        return Err(ResolveError::bad_value("--rounds", format!("1 to {}", limits::ROUNDS_MAX), rounds));
    }
    let pause_ns = scenario.burst_pause_ns.unwrap_or(d::BURST_PAUSE_NS);
    if pause_ns > d::TIMEOUT_NS_MAX {
        return Err(ResolveError::bad_value("--burst-pause", "at most 1h", show_duration_ns(pause_ns as f64)));
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
        pace(&scenario).map_err(|error| {
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
        assert!(of(|s| (s.burst, s.rounds) = (None, Some(2))).unwrap_err().starts_with("--rounds cannot be used"));
        assert!(of(|s| s.duration_ns = Some(1)).unwrap_err().starts_with("-d cannot be used with --burst"));
        assert!(of(|s| s.connections = Some(7)).unwrap_err().starts_with("-c: expected the number of --burst"));
        assert!(of(|s| s.burst = Some(0)).unwrap_err().starts_with("--burst"));
        assert!(of(|s| s.rounds = Some(0)).unwrap_err().starts_with("--rounds"));
        assert!(of(|s| s.burst_pause_ns = Some(u64::MAX)).unwrap_err().starts_with("--burst-pause"));
    }
}
