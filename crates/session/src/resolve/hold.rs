//! What is held: messages, how often, from which addresses; and how many connections there can be at all.
//!
//! A connection is told apart by four numbers: source address, source port, target address, target port (RFC 9293
//! §3.3.1). The kernel gives a source port once for each triple of the others, so a target port carries as many
//! connections from a source address as there are local ports; more need another of either.

use super::Choice;
use super::error::ResolveError;
use super::host::Machine;
use super::{defaults as d, echo};
use model::Scenario;
use model::plan::{Address, DriverKind, Hold, Origin, Pace, Sizes};
use model::units::{show_count, show_duration_ns};
use std::net::{IpAddr, Ipv4Addr};

/// Share of the local ports that sources chosen by ourselves fill. The kernel gives a connect every other port first
/// (`__inet_hash_connect`, Linux 4.2 and later) and looks through all of those before it takes the rest: past a half a
/// connect costs milliseconds.
const PORTS_FILLED: f64 = 0.45;
/// First of the loopback addresses that are taken as sources where one is not enough.
const LOOPBACK_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// Builds the workload.
pub(super) fn build(scenario: &Scenario) -> Result<Hold, ResolveError> {
    let sizes = scenario.message.clone().unwrap_or(Sizes::Fixed(d::ECHO_BYTES));
    let asked = Scenario { sizes: Some(sizes), content: scenario.content, ..Scenario::default() };
    let message = echo::build(&asked).map_err(|error| match error {
        ResolveError::BadValue { expected, got, .. } => ResolveError::bad_value("--message", expected, got),
        other => other,
    })?;
    let sweep_ns = match (scenario.watch_close, scenario.sweep_ns) {
        (true, None) => None,
        (true, Some(_)) => {
            return Err(ResolveError::Conflict {
                flag: "--sweep",
                with: "--watch-close".to_owned(),
                instead: "leave one of them out, a close is then seen at once",
            });
        }
        (false, None) => Some(d::SWEEP_NS),
        (false, Some(ns @ d::SWEEP_NS_MIN..=d::TIMEOUT_NS_MAX)) => Some(ns),
        (false, Some(ns)) => {
            return Err(ResolveError::bad_value("--sweep", "100ms to 1h", show_duration_ns(ns as f64)));
        }
    };
    Ok(Hold { message, is_echoed: !scenario.sent_only, sweep_ns, until_failure: scenario.until_failure })
}

/// When connections are made and messages due.
pub(super) fn pace(scenario: &Scenario, connections: u32, choices: &mut Vec<Choice>) -> Result<Pace, ResolveError> {
    let every_ns = match scenario.every_ns {
        None => Some(d::EVERY_NS),
        Some(0) => None,
        Some(ns) if ns <= d::TIMEOUT_NS_MAX => Some(ns),
        Some(ns) => {
            return Err(ResolveError::bad_value("--every", "at most 1h, or never", show_duration_ns(ns as f64)));
        }
    };
    let connects_per_s = match scenario.connects_per_s {
        Some(rate) if rate > 0.0 && rate.is_finite() => rate,
        Some(rate) => return Err(ResolveError::bad_value("--connect-rate", "a rate above 0", rate)),
        None => {
            choices.push(Choice::new("connect rate", format!("{}/s", show_count(d::CONNECTS_PER_S)), "the default"));
            d::CONNECTS_PER_S
        }
    };
    if f64::from(connections) / connects_per_s > d::TIMEOUT_NS_MAX as f64 / 1e9 {
        let got = format!("{connects_per_s}/s for {connections} connections");
        return Err(ResolveError::bad_value("--connect-rate", "all connections made within 1h", got));
    }
    Ok(Pace::Held { every_ns, connects_per_s })
}

/// Flags that say when requests are due otherwise.
pub(super) fn refuse_other_paces(s: &Scenario, url: &str) -> Result<(), ResolveError> {
    let others = [
        ("--rate", !s.profile.is_empty()),
        ("--poisson", s.arrivals.is_some()),
        ("--think", s.think.is_some()),
        ("--warmup", s.warmup_ns.is_some()),
        ("-n", s.requests.is_some()),
        ("--pipeline", s.pipeline.is_some()),
        ("--requests-per-connection", s.requests_per_connection.is_some()),
        ("--on-full", s.on_full.is_some()),
        ("--queue", s.queue_capacity.is_some()),
        ("--batch", s.batch.is_some()),
        ("--receive-stamps on", s.receive_stamps == Some(true)),
    ];
    match others.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((flag, _)) => Err(ResolveError::OtherProtocol { flag, for_protocol: "http or echo", url: url.to_owned() }),
    }
}

/// Addresses that connections come from: as asked, or on loopback as many as the number of connections needs.
pub(super) fn sources(
    scenario: &Scenario,
    origins: &[Origin],
    connections: u32,
    machine: &Machine,
    choices: &mut Vec<Choice>,
) -> Vec<IpAddr> {
    if !scenario.source.is_empty() {
        return scenario.source.clone();
    }
    let targets: Vec<&Address> = origins.iter().flat_map(|o| &o.addresses).collect();
    let is_loopback_v4 = |a: &&Address| matches!(a, Address::Tcp(a) if a.ip().is_loopback() && a.is_ipv4());
    let (true, Some((first, last))) = (targets.iter().all(is_loopback_v4), machine.local_ports) else {
        return Vec::new();
    };
    let each = f64::from(last - first + 1) * PORTS_FILLED * targets.len().max(1) as f64;
    let needed = (f64::from(connections) / each).ceil() as u32;
    if needed <= 1 {
        return Vec::new();
    }
    let first = u32::from(LOOPBACK_SOURCE);
    let sources: Vec<IpAddr> = (0..needed).map(|i| IpAddr::V4(Ipv4Addr::from(first + i))).collect();
    let why = format!("{connections} connections fill {:.0} % of the local ports of each", PORTS_FILLED * 100.0);
    let value = format!("{LOOPBACK_SOURCE} and {} more", needed - 1);
    choices.push(Choice::new("source addresses", value, &why));
    sources
}

/// What bounds the number of connections, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) what: &'static str,
    pub(super) most: u64,
    pub(super) remedy: String,
}

/// Every bound that is known beforehand, the lowest first.
pub(super) fn bounds(
    origins: &[Origin],
    sources: &[IpAddr],
    driver: DriverKind,
    threads: u16,
    machine: &Machine,
) -> Vec<Bound> {
    let targets = origins.iter().map(|o| o.addresses.len() as u64).sum::<u64>();
    let has_unix = origins.iter().flat_map(|o| &o.addresses).any(|a| matches!(a, Address::Unix(_)));
    let mut bounds = Vec::new();
    if let (Some((first, last)), false) = (machine.local_ports, has_unix) {
        let ports = u64::from(last - first) + 1;
        let from = sources.len().max(1) as u64;
        bounds.push(Bound {
            what: "local ports",
            most: ports * targets * from,
            remedy: format!(
                "{ports} ports ({first} to {last}) × {targets} target addresses and ports × {from} source addresses: name more target ports (HOST:9000-9004) or more sources (--source), or widen net.ipv4.ip_local_port_range"
            ),
        });
    }
    if let (Some(files), DriverKind::Epoll | DriverKind::Uring) = (machine.files_max, driver) {
        bounds.push(Bound {
            what: "descriptors",
            most: files.saturating_sub(d::FILES_OF_OUR_OWN).saturating_mul(u64::from(threads)),
            remedy: "use more workers (-t), each has a table of its own, or --driver rings, whose tables take none"
                .to_owned(),
        });
    }
    if let Some(bytes) = machine.memory_available_bytes {
        bounds.push(Bound {
            what: "kernel memory",
            most: bytes / d::SOCKET_BYTES,
            remedy: format!(
                "about {} bytes of kernel memory a connection, twice that with its target on this machine",
                d::SOCKET_BYTES
            ),
        });
    }
    bounds.sort_by_key(|bound| bound.most);
    bounds
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::super::resolve;
    use super::*;
    use model::plan::Workload;
    use model::scenario::WeightedUrl;

    fn scenario(url: &str, connections: u32) -> Scenario {
        let urls = vec![WeightedUrl { url: url.to_owned(), weight: 1.0 }];
        Scenario { urls, connections: Some(connections), ..Scenario::default() }
    }

    #[test]
    fn a_million_on_loopback_gets_the_sources_it_needs() {
        let resolved = resolve(&scenario("hold://127.0.0.1:9000-9004", 1_000_000), &FakeHost::default()).unwrap();
        assert_eq!(resolved.plan.origins[0].addresses.len(), 5);
        // 28,232 ports × 5 × 0.45 = 63,522 for each source.
        assert_eq!(resolved.plan.sources.len(), 16);
        assert_eq!(resolved.plan.sources[15], IpAddr::V4(Ipv4Addr::new(127, 1, 0, 16)));
        assert_eq!(resolved.plan.driver, DriverKind::Rings);
        assert!(matches!(resolved.plan.workload, Workload::Hold(Hold { is_echoed: true, sweep_ns: Some(_), .. })));
        let few = resolve(&scenario("hold://127.0.0.1:9000", 100), &FakeHost::default()).unwrap();
        assert!(few.plan.sources.is_empty());
    }

    #[test]
    fn what_binds_first_is_said_before() {
        let resolved = resolve(&scenario("hold://192.0.2.4:9000", 100_000), &FakeHost::default()).unwrap();
        assert!(
            resolved.warnings.iter().any(|w| w.contains("28232") && w.contains("--source")),
            "{:?}",
            resolved.warnings
        );
        let host = FakeHost { uring: Err("it is forbidden".to_owned()), ..FakeHost::default() };
        let resolved = resolve(&scenario("hold://127.0.0.1:9000", 50_000), &host).unwrap();
        assert_eq!((resolved.plan.driver, resolved.plan.threads), (DriverKind::Epoll, 3));
        assert!(!resolved.warnings.iter().any(|w| w.contains("descriptors")), "{:?}", resolved.warnings);
    }

    #[test]
    fn flags_of_other_paces_are_refused() {
        let with = |change: fn(&mut Scenario)| {
            let mut s = scenario("hold://127.0.0.1:1", 10);
            change(&mut s);
            let error = resolve(&s, &FakeHost::default()).unwrap_err();
            assert!(error.is_usage());
            error.to_string()
        };
        assert!(with(|s| s.warmup_ns = Some(1)).starts_with("--warmup"));
        assert!(with(|s| s.requests = Some(1)).starts_with("-n"));
        assert!(with(|s| s.message = Some(Sizes::Fixed(0))).starts_with("--message"));
        assert!(with(|s| s.sweep_ns = Some(1)).starts_with("--sweep"));
        assert!(with(|s| (s.watch_close, s.sweep_ns) = (true, Some(d::SWEEP_NS))).starts_with("--sweep"));
        assert!(with(|s| s.connects_per_s = Some(0.0)).starts_with("--connect-rate"));
        assert!(with(|s| s.every_ns = Some(u64::MAX)).starts_with("--every"));
        assert!(with(|s| s.source = vec!["::1".parse().unwrap()]).starts_with("--source"));
    }
}
