//! From a scenario to a plan: names looked up, defaults filled in, everything checked, or one sentence why not.
//!
//! [`resolve`] decides everything a run needs before any load: after it nothing that must exist is missing. It asks
//! the machine only through [`Host`], connects to nothing and keeps nothing. One file per question: `url` and
//! `origin` (where), `http`, `echo` and `resp` (what), `pace` (when), `sizing` (how much), `driver` (how), `warnings`.

mod burst;
pub mod defaults;
mod driver;
mod echo;
mod error;
#[cfg(test)]
mod fake;
mod hold;
mod host;
mod http;
mod origin;
pub mod pace;
mod resp;
mod sizing;
mod tls;
mod url;
mod warnings;

pub use driver::choose_driver;
pub use error::ResolveError;
pub use host::{Host, Machine, SystemHost};
pub use resp::parse_key_distribution;

use self::origin::Asked;
use self::url::Protocol;
use model::plan::{Address, Backoff, DriverKind, Pace, Workload};
use model::tls::TlsPlan;
use model::{Plan, Scenario, hide};
use std::net::IpAddr;

/// A plan, and what to tell about it before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What will run.
    pub plan: Plan,
    /// What looks like a mistake, a sentence each.
    pub warnings: Vec<String>,
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
    let asked = take_apart(scenario)?;
    let protocol = one_protocol(&asked)?;
    refuse_other_protocol(scenario, protocol, &asked[0].text)?;
    tls::refuse(scenario, asked[0].parsed.tls, &asked[0].text)?;
    refuse_unused_fields(scenario)?;

    let burst = burst::pace(scenario)?;
    let stop = match &burst {
        Some((_, stop)) => *stop,
        None => pace::stop(scenario)?,
    };
    let warmup_ns = scenario.warmup_ns.unwrap_or(0);
    let timeouts = sizing::timeouts(scenario)?;
    let drain_ns = sizing::drain_ns(scenario, &timeouts)?;
    let tick_ns = sizing::tick_ns(scenario, &stop, &mut choices)?;
    let connections = sizing::connections(scenario, &stop, &mut choices)?;
    let (pipeline, requests_per_connection) = sizing::reuse(scenario)?;
    let pin = sizing::pin(scenario, &machine)?;
    let pace = match (protocol, burst) {
        (Protocol::Hold, Some(_)) => {
            return Err(ResolveError::OtherProtocol {
                flag: "--burst",
                for_protocol: "http or echo",
                url: asked[0].text.clone(),
            });
        }
        (_, Some((pace, _))) => pace,
        (Protocol::Hold, None) => {
            hold::refuse_other_paces(scenario, &asked[0].text)?;
            hold::pace(scenario, connections, &mut choices)?
        }
        (Protocol::Http | Protocol::Echo | Protocol::Resp, None) => pace::pace(scenario, &stop, warmup_ns)?,
    };

    let tls = match asked[0].parsed.tls {
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
    let workload = match protocol {
        Protocol::Http => Workload::Http1(http::build(scenario, &asked, &of_url, host)?),
        Protocol::Echo => Workload::Echo(echo::build(scenario)?),
        Protocol::Hold => Workload::Hold(hold::build(scenario)?),
        Protocol::Resp => {
            let resp = resp::build(scenario, &asked, &of_url)?;
            if matches!(pace, Pace::Burst { .. }) {
                resp::refuse_burst(&resp)?;
            }
            Workload::Resp(resp)
        }
    };
    let sources = hold::sources(scenario, &origins, connections, &machine, &mut choices);
    sources_fit(&sources, &origins)?;
    let is_local = sizing::is_local(&origins, |ip| host.is_own_address(ip));
    let by_itself = protocol == Protocol::Hold && host.uring_available().is_ok();
    let likely_driver = scenario.driver.or(by_itself.then_some(DriverKind::Rings));
    let tables = sizing::tables(connections, likely_driver, &machine);
    let threads = sizing::threads(scenario, connections, is_local, machine.cores, tables, &mut choices)?;
    let (on_full, queue_capacity) = sizing::queue(scenario, &pace, threads, &mut choices)?;
    let batch = sizing::batch(scenario, connections, threads, pipeline, &mut choices)?;
    let mut fallbacks = Vec::new();
    let (driver, choice) = driver::driver(scenario.driver, &pace, batch, host, &mut fallbacks)?;
    let driver_reason = choice.why.clone();
    if protocol == Protocol::Hold
        && let Some(first) = hold::bounds(&origins, &sources, driver, threads, &machine).first()
    {
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
        stop,
        warmup_ns,
        drain_ns,
        timeouts,
        reconnect: Backoff { first_ns: defaults::BACKOFF_FIRST_NS, max_ns: defaults::BACKOFF_MAX_NS },
        give_up_ns: sizing::give_up_ns(scenario)?,
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
            what: "URLs",
            most: defaults::URLS_MAX as u64,
            got: scenario.urls.len() as u64,
            instead: "split them over several runs",
        });
    }
    let one = |entry: &model::scenario::WeightedUrl| {
        let is_good = entry.weight > 0.0 && entry.weight <= defaults::WEIGHT_MAX;
        if !is_good {
            return Err(ResolveError::bad_value("weight of a URL", "more than 0 and at most 1e9", entry.weight));
        }
        Ok(Asked { text: hide::url(&entry.url), parsed: url::parse(&entry.url)?, weight: entry.weight })
    };
    scenario.urls.iter().flat_map(resp::spread).map(|entry| one(&entry)).collect()
}

fn one_protocol(asked: &[Asked]) -> Result<Protocol, ResolveError> {
    let first = &asked[0];
    match asked.iter().find(|url| (url.parsed.protocol, url.parsed.tls) != (first.parsed.protocol, first.parsed.tls)) {
        None => Ok(first.parsed.protocol),
        Some(other) => Err(ResolveError::MixedProtocols { first: first.text.clone(), other: other.text.clone() }),
    }
}

/// A flag of another protocol would be silently without effect: it is refused.
fn refuse_other_protocol(scenario: &Scenario, protocol: Protocol, url: &str) -> Result<(), ResolveError> {
    let s = scenario;
    let http = [
        ("-X", s.method.is_some()),
        ("-H", !s.headers.is_empty()),
        ("--body", s.body.is_some() || s.body_file.is_some()),
        ("--expect-status", !s.expect_status.is_empty()),
        ("--expect-body", s.expect_body.is_some()),
        ("--expect-body-sha256", s.expect_body_sha256.is_some()),
        ("--disable-keepalive", s.disable_keepalive),
        ("--max-head", s.head_bytes_max.is_some()),
    ];
    let user = [("-u", s.user.is_some())];
    let size = [("--size", s.sizes.is_some())];
    let content = [("--content", s.content.is_some())];
    let hold = [
        ("--message", s.message.is_some()),
        ("--every", s.every_ns.is_some()),
        ("--sent-only", s.sent_only),
        ("--connect-rate", s.connects_per_s.is_some()),
        ("--sweep", s.sweep_ns.is_some()),
        ("--watch-close", s.watch_close),
        ("--ramp-until-failure", s.until_failure),
    ];
    let resp = [
        ("--mix", s.mix.is_some()),
        ("--keys", s.keys.is_some()),
        ("--key-prefix", s.key_prefix.is_some()),
        ("--key-distribution", s.key_distribution.is_some()),
        ("--value-size", s.value_sizes.is_some()),
        ("--no-validate", s.no_validate),
    ];
    type Group<'a> = (&'a [(&'static str, bool)], &'static str);
    let others: &[Group<'_>] = match protocol {
        Protocol::Http => &[(&size, "echo"), (&content, "echo, hold or resp"), (&hold, "hold"), (&resp, "resp")],
        Protocol::Echo => &[(&http, "http"), (&user, "http or resp"), (&hold, "hold"), (&resp, "resp")],
        Protocol::Hold => &[(&http, "http"), (&user, "http or resp"), (&size, "echo"), (&resp, "resp")],
        Protocol::Resp => &[(&http, "http"), (&size, "echo"), (&hold, "hold")],
    };
    for (flags, for_protocol) in others {
        if let Some((flag, _)) = flags.iter().find(|(_, is_set)| *is_set) {
            return Err(ResolveError::OtherProtocol { flag, for_protocol, url: url.to_owned() });
        }
    }
    Ok(())
}

/// A source that no target's family can use would silently never be bound.
fn sources_fit(sources: &[IpAddr], origins: &[model::plan::Origin]) -> Result<(), ResolveError> {
    let addresses = || origins.iter().flat_map(|o| &o.addresses);
    let fits = |source: &IpAddr| addresses().any(|a| matches!(a, Address::Tcp(a) if a.is_ipv4() == source.is_ipv4()));
    match sources.iter().find(|source| !fits(source)) {
        None => Ok(()),
        Some(source) => Err(ResolveError::bad_value("--source", "an address of the same family as a target's", source)),
    }
}

/// Values that are none.
fn refuse_unused_fields(scenario: &Scenario) -> Result<(), ResolveError> {
    match scenario.ip_version {
        None | Some(4 | 6) => Ok(()),
        Some(other) => Err(ResolveError::bad_value("ip_version", "4 or 6", other)),
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
    let conflict =
        |with: &str, instead| ResolveError::Conflict { flag: "--receive-stamps on", with: with.to_owned(), instead };
    let by_itself =
        matches!(pace, Pace::Open { .. }) && pipeline == 1 && !has_unix && !handshake_only && driver != DriverKind::Sim;
    match scenario.receive_stamps.unwrap_or(by_itself) {
        true if scenario.receive_stamps.is_none() => Ok(true),
        false => Ok(false),
        true if pipeline > 1 => Err(conflict("--pipeline", "replies that come together have one stamp, leave one out")),
        true if has_unix => Err(conflict("a unix socket", "the kernel stamps only network packets, leave it out")),
        true if handshake_only => {
            Err(conflict("--handshake-only", "a handshake ends when its last step is computed, leave it out"))
        }
        true if driver == DriverKind::Sim => Err(conflict("driver sim", "there is no kernel, leave it out")),
        true => Ok(true),
    }
}

#[cfg(test)]
mod tests;
