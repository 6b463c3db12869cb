//! Is this host ready for a load? What the load asks of it, what the host has, and what `--fix` changes of it.
//!
//! The load is resolved as a run would be, so both mean the same by it. Without a URL both ends are taken to be here,
//! with one address and port of the target. Puts no load on; the only attempt it makes is one ring of io_uring.

use fault::{Applied, ApplyError, Journal, JournalError};
use model::check::{Check, Demand, Fix, FixOutcome, Setting, Standing};
use model::plan::{Address, DriverKind, Pace, Plan, Think};
use model::readings::Reading;
use model::scenario::WeightedUrl;
use model::{Scenario, limits};
use resolve::{Field, Host, ResolveError, pace, resolve};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What stands for a target where none is named: never connected to, nor looked up.
const ANY_TARGET: &str = "http://127.0.0.1/";

/// Where changes of the host are journalled, unless another folder is named.
///
/// # Errors
/// [`JournalError::NotOurs`] without a home.
pub fn journal_folder() -> Result<PathBuf, JournalError> {
    Ok(state::folder()?.join("journal"))
}

/// What a scenario asks of this host, its connections spread over so many source addresses.
///
/// # Errors
/// [`ResolveError`], as for a run; a driver that cannot be used is none, for that is what a check is to find.
pub fn demand(scenario: &Scenario, sources: u64, host: &dyn Host) -> Result<Demand, ResolveError> {
    let most = u64::from(limits::CONNECTIONS_MAX);
    if !(1..=most).contains(&sources) {
        return Err(ResolveError::BadValue {
            field: Field::Sources,
            expected: format!("1 to {most} addresses").into(),
            got: sources.to_string(),
        });
    }
    let asked_driver = scenario.driver;
    let mut scenario = Scenario { driver: None, ..scenario.clone() };
    let is_named = !scenario.urls.is_empty();
    if !is_named {
        scenario.urls.push(WeightedUrl { url: ANY_TARGET.into(), weight: 1.0 });
    }
    let plan = resolve(&scenario, host)?.plan;
    let mut demand = demand_of(&plan, sources, host);
    if !is_named {
        (demand.is_loopback, demand.busy_at_once) = (false, None);
    }
    demand.driver = asked_driver.unwrap_or(demand.driver);
    demand.direct_descriptors = demand.driver == DriverKind::Rings;
    Ok(demand)
}

/// What a plan asks of this host.
pub fn demand_of(plan: &Plan, sources: u64, host: &dyn Host) -> Demand {
    let addresses: BTreeSet<_> = plan
        .origins
        .iter()
        .flat_map(|origin| &origin.addresses)
        .filter_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        })
        .collect();
    let rate_per_s = match &plan.pace {
        Pace::Open { profile, .. } => Some(pace::peak_per_s(profile)),
        Pace::Held { every_ns, .. } => every_ns.map(|ns| f64::from(plan.connections) * 1e9 / ns as f64),
        Pace::Closed { .. } | Pace::Burst { .. } => None,
    };
    let is_busy = matches!(plan.pace, Pace::Closed { think: Think::None } | Pace::Burst { .. });
    Demand {
        connections: u64::from(plan.connections),
        rate_per_s,
        connects_per_s: match plan.requests_per_connection {
            None => Some(0.0),
            Some(requests) => rate_per_s.map(|rate| rate / f64::from(requests.max(1))),
        },
        busy_at_once: is_busy.then_some(u64::from(plan.connections)),
        destinations: addresses.len() as u64,
        sources: sources.max(plan.sources.len() as u64),
        // A unix socket has both its ends here, too.
        ends_here: if addresses.is_empty() || addresses.iter().any(|a| host.is_own_address(a.ip())) { 2 } else { 1 },
        is_loopback: !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()),
        workers: u64::from(plan.threads),
        driver: plan.driver,
        direct_descriptors: plan.driver == DriverKind::Rings,
    }
}

/// Reads the host as it is now and judges it.
pub fn check(demand: Demand) -> Check {
    let mut readings = observe::settings();
    readings.io_uring = Reading::Known(engine::driver::uring::available());
    diagnose::check::check(demand, &readings)
}

/// Makes every change that would help and can be made while the host runs, each in the journal first.
///
/// # Errors
/// [`JournalError`] before any change was made; one that fails later is that change's refusal.
pub fn fix(check: &Check, journal: &Path) -> Result<Vec<Fix>, JournalError> {
    let settings = settings_of(check);
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let mut journal = Journal::open(journal)?;
    Ok(settings
        .into_iter()
        .filter_map(|setting| {
            let applied = fault::apply(&mut journal, setting, &mut |_| {}).map(|applied| match applied {
                Applied::Changed { before, .. } => Some(before),
                Applied::AlreadySo => None,
            });
            outcome(setting, applied, FixOutcome::Applied)
        })
        .collect())
}

/// What [`fix`] would do, as far as can be told without doing it: the right to write is asked for.
pub fn would_fix(check: &Check) -> Vec<Fix> {
    let before = |setting| Ok(fault::would_apply(setting)?.map(|change| change.before()));
    let would = |setting| outcome(setting, before(setting), FixOutcome::WouldApply);
    settings_of(check).into_iter().filter_map(would).collect()
}

fn settings_of(check: &Check) -> Vec<&Setting> {
    let is_wanted = |standing| matches!(standing, Standing::Binds | Standing::Tight);
    check.items.iter().filter(|item| is_wanted(item.standing)).filter_map(|item| item.fix.as_ref()).collect()
}

/// What is told of a change; `before` is none where it was so already.
fn outcome(setting: &Setting, before: Result<Option<String>, ApplyError>, made: FixOutcome) -> Option<Fix> {
    let (before, outcome, reason) = match before {
        Ok(None) => return None,
        Ok(Some(before)) => (Some(before), made, String::new()),
        Err(refused) => (None, FixOutcome::Refused, refused.to_string()),
    };
    Some(Fix { name: setting.name.clone(), before, after: setting.value.clone(), outcome, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::{DriverKind, Segment};
    use model::workload::http::HttpAsked;
    use resolve::SystemHost;

    fn asked(urls: &[&str], change: impl FnOnce(&mut Scenario)) -> Result<Demand, ResolveError> {
        let urls = urls.iter().map(|url| WeightedUrl { url: (*url).into(), weight: 1.0 }).collect();
        let mut scenario = Scenario { urls, connections: Some(1000), ..Scenario::default() };
        change(&mut scenario);
        demand(&scenario, 1, &SystemHost::new(|| Err("it is forbidden".to_owned()), engine::tls::NAMES))
    }

    fn rate(per_s: f64) -> Vec<Segment> {
        vec![Segment { from_per_s: per_s, to_per_s: per_s, for_ns: 1_000_000_000 }]
    }

    fn closing(asked: &mut HttpAsked) {
        asked.disable_keepalive = true;
    }

    #[test]
    fn a_load_is_what_a_run_would_make_of_it() {
        let local = asked(&["http://127.0.0.1:1/", "http://127.0.0.1:2/", "http://127.0.0.1:1/x"], |_| {}).unwrap();
        assert_eq!((local.destinations, local.ends_here, local.is_loopback), (2, 2, true));
        assert_eq!((local.rate_per_s, local.connects_per_s, local.busy_at_once), (None, Some(0.0), Some(1000)));
        // 203.0.113.0/24 is nobody's (RFC 5737).
        let away = asked(&["http://203.0.113.1/"], |s| {
            s.profile = rate(500.0);
            s.ask(closing);
        })
        .unwrap();
        assert_eq!((away.ends_here, away.is_loopback, away.busy_at_once), (1, false, None));
        assert_eq!((away.rate_per_s, away.connects_per_s), (Some(500.0), Some(500.0)));
        let closed = asked(&["http://203.0.113.1/"], |s| s.ask(closing)).unwrap();
        assert_eq!(closed.connects_per_s, None, "as fast as the target is");
        let unix = asked(&["unix:/run/x.sock"], |_| {}).unwrap();
        assert_eq!((unix.destinations, unix.ends_here), (0, 2));
    }

    #[test]
    fn without_a_url_both_ends_are_here_and_a_driver_that_is_missing_is_no_error() {
        let none = asked(&[], |s| s.driver = Some(DriverKind::Uring)).unwrap();
        assert_eq!(
            (none.destinations, none.ends_here, none.is_loopback, none.driver),
            (1, 2, false, DriverKind::Uring)
        );
        assert_eq!(none.busy_at_once, None);
        assert!(asked(&[], |s| s.connections = Some(0)).unwrap_err().is_usage());
        let host = SystemHost::new(|| Ok(()), engine::tls::NAMES);
        assert!(demand(&Scenario::default(), 0, &host).unwrap_err().is_usage());
    }

    #[test]
    fn this_host_is_judged_whole() {
        let check = check(asked(&[], |_| {}).unwrap());
        assert_eq!(check.items.len(), diagnose::check::LIMITS.len());
        let uring = check.items.iter().find(|item| item.id == "io-uring").unwrap();
        assert_ne!(uring.standing, Standing::NotKnown, "a real attempt was made: {uring:?}");
    }
}
