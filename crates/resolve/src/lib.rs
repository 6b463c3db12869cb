//! From a scenario to a plan: names looked up, defaults filled in, everything checked, or one sentence why not.
//!
//! [`resolve()`] decides everything a run needs before any load: after it nothing that must exist is missing. It asks
//! the machine only through [`Host`], connects to nothing and keeps nothing. One file per question: `url` and
//! `origin` (where), `workload` (what), `pace` (when), `sizing` (how much), `driver` (how); `say` has the words.
#![forbid(unsafe_code)]

mod burst;
pub mod defaults;
mod driver;
mod expectations;
#[cfg(test)]
mod fake;
pub mod files;
mod host;
pub mod import;
mod on_error;
mod origin;
pub mod pace;
mod requests;
mod say;
mod sizing;
mod sources;
mod tls;
mod url;
mod workload;

pub use driver::choose_driver;
pub use host::{Host, Machine, SystemHost};
pub use requests::data::data_rows;
pub use say::error::ResolveError;
pub use say::field::Field;
pub use say::words::Words;
pub use workload::resp::parse_key_distribution;
pub use workload::{fields_of_protocols, protocol_of, url_examples};

use self::origin::Asked;
use self::say::warnings;
use self::workload::{MadeOf, Protocol, Spread};
use model::plan::{Address, Backoff, DriverKind, Pace};
use model::tls::TlsPlan;
use model::{Plan, Scenario};

/// A plan, and what to tell about it before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What will run.
    pub plan: Plan,
    /// What looks like a mistake, a sentence each.
    pub warnings: Vec<Words>,
    /// What was chosen where the scenario left it open, and why.
    pub choices: Vec<Choice>,
    /// Why this driver: the reason of its choice, by itself for the recording.
    pub driver_reason: String,
}

/// Something the scenario left open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What was open, such as `threads`.
    pub what: &'static str,
    /// What was chosen.
    pub value: String,
    /// Why.
    pub why: String,
}

impl Choice {
    fn new(what: &'static str, value: impl ToString, why: &str) -> Self {
        Choice { what, value: value.to_string(), why: why.to_owned() }
    }
}

/// Makes a plan of a scenario.
///
/// # Errors
/// [`ResolveError`] where the scenario contradicts itself or a limit ([`ResolveError::is_usage`]), or where the
/// machine does not have what it needs: a name, a file, io_uring.
pub fn resolve(scenario: &Scenario, host: &dyn Host) -> Result<Resolved, ResolveError> {
    let machine = host.machine();
    let mut choices = Vec::new();
    let with_profile = pace::phases::as_profile(scenario, &mut choices)?;
    let scenario: &Scenario = &with_profile;
    let asked = take_apart(scenario)?;
    let protocol = one_protocol(&asked)?;
    let first = &asked[0];
    if let Some(of) = scenario.what.as_ref().map(|what| what.protocol()).filter(|of| *of != protocol.name()) {
        return Err(ResolveError::OtherWhat { of, url: first.text.clone() });
    }
    tls::refuse(scenario, first)?;
    refuse_unused_fields(scenario)?;
    pace::faults::check(scenario)?;

    let closes = protocol.closes_after_each(scenario);
    let burst = burst::pace(scenario, closes)?;
    let stop = match &burst {
        Some((_, stop)) => *stop,
        None => pace::stop(scenario)?,
    };
    let warmup_ns = scenario.warmup_ns.unwrap_or(0);
    let timeouts = sizing::timeouts(scenario, protocol.reply_timeout_ns(scenario))?;
    let drain_ns = sizing::drain_ns(scenario, &timeouts)?;
    let tick_ns = sizing::tick_ns(scenario, &stop, &mut choices)?;
    let connections = sizing::connections(scenario, &stop, &mut choices)?;
    let (pipeline, requests_per_connection) = sizing::reuse(scenario, closes)?;
    let pin = sizing::pin(scenario, &machine)?;
    let pace = match (protocol.pace(scenario, connections, &first.text, &mut choices)?, burst) {
        (Some(its_own), _) => its_own,
        (None, Some((pace, _))) => pace,
        (None, None) => pace::pace(scenario, &stop, warmup_ns)?,
    };

    let phases = pace::phases::phases(scenario, warmup_ns);
    let expected = expectations::build(scenario, protocol, first.parsed.has_tls(), &pace, phases)?;
    let expectations::Expected { of_run: expectations, of_findings: finding_expectations, phases } = expected;

    let abort_when = expectations::abort_when(scenario, first.parsed.has_tls(), &pace)?;

    let tls = match first.parsed.has_tls() {
        true => {
            let names = asked.iter().map(|url| url.parsed.server_name()).collect();
            Some(tls::build(&scenario.tls, protocol, names, host, &mut choices)?)
        }
        false => None,
    };

    // The resolver may take seconds: everything that can be wrong without it has been said by now.
    let origin::Origins { origins, of_url, server_names, unused } = origin::find(&asked, scenario, host)?;
    let tls = tls.map(|tls| TlsPlan { server_names: tls::names(&scenario.tls, server_names), ..tls });
    let handshake_only = scenario.tls.handshake_only;
    let workload = protocol.build(&MadeOf { scenario, asked: &asked, of_url: &of_url, pace: &pace, host })?;
    let sources = sources::sources(scenario, &origins, connections, &machine, &mut choices);
    sources::fit(&sources, &origins)?;
    let is_local = sizing::is_local(&origins, |ip| host.is_own_address(ip));
    let by_itself = protocol.is_held() && host.uring_available().is_ok();
    let likely_driver = scenario.driver.or(by_itself.then_some(DriverKind::Rings));
    let tables = sizing::tables(connections, likely_driver, &machine);
    let threads = sizing::threads(scenario, connections, is_local, machine.cores, tables, &mut choices)?;
    let (pin, isolation) = sizing::isolation::isolation(scenario, pin, threads, is_local, &machine, &mut choices);
    let (on_full, queue_capacity) = sizing::queue(scenario, &pace, threads, &mut choices)?;
    let on_error = on_error::policy(scenario, &workload)?;
    requests::keyed::refuse_deletes(&workload, threads, on_error)?;
    let batch = sizing::batch(scenario, connections, threads, pipeline, &mut choices)?;
    let mut fallbacks = Vec::new();
    let (driver, choice) = driver::driver(scenario.driver, &pace, batch, host, &mut fallbacks)?;
    let driver_reason = choice.why.clone();
    let spread = Spread { origins: &origins, sources: &sources, driver, threads };
    if let Some(first) = protocol.bounds(&spread, &machine).unwrap_or_default().first() {
        choices.push(Choice::new(
            "at most",
            format!("{} connections", first.most),
            &format!("{} bind first", first.what),
        ));
    }
    choices.push(choice);
    let has_unix = origins.iter().flat_map(|o| &o.addresses).any(|a| matches!(a, Address::Unix(_)));
    let receive_stamps = receive_stamps(scenario, &pace, pipeline, has_unix, handshake_only, driver)?;

    let plan = Plan {
        workload,
        origins,
        sources,
        pace,
        connections,
        threads,
        pin,
        isolation,
        stop,
        warmup_ns,
        drain_ns,
        timeouts,
        on_error,
        reconnect: Backoff { first_ns: defaults::BACKOFF_FIRST_NS, max_ns: defaults::BACKOFF_MAX_NS },
        give_up_ns: sizing::give_up_ns(scenario)?,
        after_ns: sizing::after_ns(scenario)?,
        requests_per_connection,
        pipeline,
        on_full,
        queue_capacity,
        driver,
        batch,
        receive_stamps,
        tick_ns,
        seed: scenario.seed.unwrap_or_else(|| host.random_seed()),
        tls,
        expectations,
        finding_expectations,
        abort_when,
        phases,
        faults: scenario.faults.clone(),
    };
    let mut warnings = warnings::find(&plan, scenario, &asked, &unused, &machine);
    warnings.append(&mut fallbacks);
    Ok(Resolved { plan, warnings, choices, driver_reason })
}

fn take_apart(scenario: &Scenario) -> Result<Vec<Asked>, ResolveError> {
    if scenario.urls.is_empty() {
        return Err(ResolveError::NoUrl);
    }
    if scenario.urls.len() > defaults::URLS_MAX {
        return Err(ResolveError::TooMuch {
            what: "URLs".into(),
            most: defaults::URLS_MAX as u64,
            got: scenario.urls.len() as u64,
            instead: "split them over several runs".into(),
        });
    }
    let one = |entry: &model::scenario::WeightedUrl| {
        let is_good = entry.weight > 0.0 && entry.weight <= defaults::WEIGHT_MAX;
        if !is_good {
            return Err(ResolveError::bad_value(Field::UrlWeight, "more than 0 and at most 1e9", entry.weight));
        }
        let parsed = url::parse(&entry.url.expose_text())?;
        Ok(Asked { text: workload::shown(entry), parsed, weight: entry.weight })
    };
    scenario.urls.iter().flat_map(workload::spread).map(|entry| one(&entry)).collect()
}

fn one_protocol(asked: &[Asked]) -> Result<&'static dyn Protocol, ResolveError> {
    let first = &asked[0];
    let of = |url: &Asked| (url.parsed.protocol.name(), url.parsed.has_tls());
    match asked.iter().find(|url| of(url) != of(first)) {
        None => Ok(first.parsed.protocol),
        Some(other) => Err(ResolveError::MixedProtocols { first: first.text.clone(), other: other.text.clone() }),
    }
}

/// Values that are none.
fn refuse_unused_fields(scenario: &Scenario) -> Result<(), ResolveError> {
    match scenario.ip_version {
        None | Some(4 | 6) => Ok(()),
        Some(other) => Err(ResolveError::bad_value(Field::IpVersion, "4 or 6", other)),
    }
}

/// Kernel receive stamps say when the last segment came: of no use where several replies share one, and absent
/// from unix sockets and the simulated network.
///
/// Left open, they are on where they tell something and can be had: in an open pace replies are taken when the next
/// request is due, and without stamps would seem to have come then. In a closed pace a reply wakes the worker.
fn receive_stamps(
    scenario: &Scenario,
    pace: &Pace,
    pipeline: u16,
    has_unix: bool,
    handshake_only: bool,
    driver: DriverKind,
) -> Result<bool, ResolveError> {
    let conflict = |with: Words, instead: &str| ResolveError::Conflict {
        what: (Field::ReceiveStamps, "on").into(),
        with,
        instead: instead.into(),
    };
    let by_itself =
        matches!(pace, Pace::Open { .. }) && pipeline == 1 && !has_unix && !handshake_only && driver != DriverKind::Sim;
    match scenario.receive_stamps.unwrap_or(by_itself) {
        true if scenario.receive_stamps.is_none() => Ok(true),
        false => Ok(false),
        true if pipeline > 1 => {
            Err(conflict(Field::Pipeline.into(), "replies that come together have one stamp, leave one out"))
        }
        true if has_unix => {
            Err(conflict("a unix socket".into(), "the kernel stamps only network packets, leave it out"))
        }
        true if handshake_only => {
            Err(conflict(Field::HandshakeOnly.into(), "a handshake ends when its last step is computed, leave it out"))
        }
        true if driver == DriverKind::Sim => Err(conflict("driver sim".into(), "there is no kernel, leave it out")),
        true => Ok(true),
    }
}

#[cfg(test)]
mod tests;
