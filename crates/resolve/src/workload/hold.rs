//! `hold://`: what is held, how often messages go; and how many connections there can be at all.
//!
//! How many is bounded by local ports (`crate::sources`), by descriptors and by kernel memory.

use crate::Choice;
use crate::defaults as d;
use crate::host::Machine;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::words;
use crate::url::Place;
use crate::workload::{Bound, Link, MadeOf, Protocol, Scheme, Spread, echo};
use model::Scenario;
use model::plan::{Address, DriverKind, Hold, Pace, Workload};
use model::units::{show_count, show_duration_ns};
use model::workload::Asked as _;
use model::workload::hold::HoldAsked;

/// Sizes of messages.
const MESSAGE: Field = Field::Own("message");
/// Time from one message of a connection to its next.
pub(crate) const EVERY: Field = Field::Own("every");
/// Connections made a second.
pub(super) const CONNECT_RATE: Field = Field::Own("connect_rate");
/// How often a connection that rests is looked at.
const SWEEP: Field = Field::Own("sweep");
/// Connections are watched all the time.
const WATCH_CLOSE: Field = Field::Own("watch_close");

/// See the file's head.
pub(crate) struct HoldProtocol;

impl Protocol for HoldProtocol {
    fn name(&self) -> &'static str {
        HoldAsked::PROTOCOL
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[
            Scheme { name: "hold", link: Link::Tcp, port: d::ECHO_PORT, hides_port: false },
            Scheme { name: "hold+tls", link: Link::Tls, port: d::ECHO_PORT, hides_port: false },
        ]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["hold:// or hold+tls://HOST:PORT"]
    }

    fn examples(&self) -> &'static [&'static str] {
        &["hold://HOST:PORT[-LAST]", "hold+tls://HOST:PORT[-LAST]"]
    }

    fn fields(&self) -> &'static [Field] {
        &[MESSAGE, EVERY, CONNECT_RATE, SWEEP, WATCH_CLOSE, echo::CONTENT]
    }

    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String> {
        echo::with_ports(self.name(), scheme, text)
    }

    fn is_held(&self) -> bool {
        true
    }

    fn of_requests(&self, scenario: &Scenario) -> Option<Field> {
        scenario.asked::<HoldAsked>().content.map(|_| echo::CONTENT)
    }

    fn reply_timeout_ns(&self, scenario: &Scenario) -> u64 {
        if scenario.asked::<HoldAsked>().until_failure { d::PROBE_TIMEOUT_NS } else { d::REPLY_TIMEOUT_NS }
    }

    fn pace(
        &self,
        scenario: &Scenario,
        connections: u32,
        url: &str,
        choices: &mut Vec<Choice>,
    ) -> Result<Option<Pace>, ResolveError> {
        refuse_other_paces(scenario, url)?;
        pace(&scenario.asked(), connections, choices).map(Some)
    }

    fn bounds(&self, spread: &Spread<'_>, machine: &Machine) -> Option<Vec<Bound>> {
        Some(bounds(spread, machine))
    }

    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError> {
        build(&made_of.scenario.asked()).map(Workload::Hold)
    }
}

fn build(asked: &HoldAsked) -> Result<Hold, ResolveError> {
    let message = echo::echo(MESSAGE, asked.message.clone(), asked.content)?;
    let sweep_ns = match (asked.watch_close, asked.sweep_ns) {
        (true, None) => None,
        (true, Some(_)) => {
            return Err(ResolveError::Conflict {
                what: SWEEP.into(),
                with: WATCH_CLOSE.into(),
                instead: "leave one of them out, a close is then seen at once".into(),
            });
        }
        (false, None) => Some(d::SWEEP_NS),
        (false, Some(ns @ d::SWEEP_NS_MIN..=d::TIMEOUT_NS_MAX)) => Some(ns),
        (false, Some(ns)) => {
            return Err(ResolveError::bad_value(SWEEP, "100ms to 1h", show_duration_ns(ns as f64)));
        }
    };
    Ok(Hold { message, is_echoed: !asked.sent_only, sweep_ns, until_failure: asked.until_failure })
}

/// When connections are made and messages due.
pub(super) fn pace(asked: &HoldAsked, connections: u32, choices: &mut Vec<Choice>) -> Result<Pace, ResolveError> {
    let every_ns = match asked.every_ns {
        None => Some(d::EVERY_NS),
        Some(0) => None,
        Some(ns) if ns <= d::TIMEOUT_NS_MAX => Some(ns),
        Some(ns) => {
            return Err(ResolveError::bad_value(EVERY, "at most 1h, or never", show_duration_ns(ns as f64)));
        }
    };
    let connects_per_s = match asked.connects_per_s {
        Some(rate) if rate > 0.0 && rate.is_finite() => rate,
        Some(rate) => return Err(ResolveError::bad_value(CONNECT_RATE, "a rate above 0", rate)),
        None => {
            choices.push(Choice::new("connect rate", format!("{}/s", show_count(d::CONNECTS_PER_S)), "the default"));
            d::CONNECTS_PER_S
        }
    };
    if f64::from(connections) / connects_per_s > d::TIMEOUT_NS_MAX as f64 / 1e9 {
        let got = format!("{connects_per_s}/s for {connections} connections");
        return Err(ResolveError::bad_value(CONNECT_RATE, "all connections made within 1h", got));
    }
    Ok(Pace::Held { every_ns, connects_per_s })
}

/// Flags that say when requests are due otherwise.
pub(super) fn refuse_other_paces(s: &Scenario, url: &str) -> Result<(), ResolveError> {
    let others = [
        (Field::Burst, s.burst.is_some()),
        (Field::Rate, !s.profile.is_empty()),
        (Field::Poisson, s.arrivals.is_some()),
        (Field::Think, s.think.is_some()),
        (Field::Warmup, s.warmup_ns.is_some()),
        (Field::Pipeline, s.pipeline.is_some()),
        (Field::RequestsPerConnection, s.requests_per_connection.is_some()),
        (Field::OnFull, s.on_full.is_some()),
        (Field::OnError, s.on_error.is_some()),
        (Field::Queue, s.queue_capacity.is_some()),
        (Field::Batch, s.batch.is_some()),
        (Field::ReceiveStamps, s.receive_stamps == Some(true)),
    ];
    if s.requests.is_some() {
        return Err(ResolveError::Conflict {
            what: Field::Requests.into(),
            with: format!("hold URLs, got '{url}'").into(),
            instead: words![
                "connections that are held send no count of requests, say with ",
                Field::Duration,
                " how long they are held"
            ],
        });
    }
    match others.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((field, _)) => Err(ResolveError::OtherProtocol {
            what: match field {
                Field::ReceiveStamps => (*field, "on").into(),
                _ => (*field).into(),
            },
            for_protocol: "http or echo".to_owned(),
            url: url.to_owned(),
        }),
    }
}

/// Every bound that is known beforehand, the lowest first.
pub(super) fn bounds(spread: &Spread<'_>, machine: &Machine) -> Vec<Bound> {
    let Spread { origins, sources, driver, threads } = *spread;
    let targets = origins.iter().map(|o| o.addresses.len() as u64).sum::<u64>();
    let has_unix = origins.iter().flat_map(|o| &o.addresses).any(|a| matches!(a, Address::Unix(_)));
    let mut bounds = Vec::new();
    if let (Some((first, last)), false) = (machine.local_ports, has_unix) {
        let ports = u64::from(last - first) + 1;
        let from = sources.len().max(1) as u64;
        bounds.push(Bound {
            what: "local ports",
            most: ports * targets * from,
            remedy: words![
                format!("{ports} ports ({first} to {last}) × {targets} target addresses and ports × {from} source addresses: "),
                "name more target ports (HOST:9000-9004) or more sources (",
                Field::Source,
                "), or widen net.ipv4.ip_local_port_range"
            ],
        });
    }
    if let (Some(files), DriverKind::Epoll | DriverKind::Uring) = (machine.files_max, driver) {
        bounds.push(Bound {
            what: "descriptors",
            most: files.saturating_sub(d::FILES_OF_OUR_OWN).saturating_mul(u64::from(threads)),
            remedy: words![
                "use more workers (",
                Field::Threads,
                "), each has a table of its own, or ",
                (Field::Driver, "rings"),
                ", whose tables take none"
            ],
        });
    }
    if let Some(bytes) = machine.memory_available_bytes {
        bounds.push(Bound {
            what: "kernel memory",
            most: bytes / d::SOCKET_BYTES,
            remedy: format!(
                "about {} bytes of kernel memory a connection, twice that with its target on this machine",
                d::SOCKET_BYTES
            )
            .into(),
        });
    }
    bounds.sort_by_key(|bound| bound.most);
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use crate::resolve;
    use model::plan::Sizes;
    use model::scenario::WeightedUrl;
    use std::net::{IpAddr, Ipv4Addr};

    fn scenario(url: &str, connections: u32) -> Scenario {
        let urls = vec![WeightedUrl { url: url.into(), weight: 1.0 }];
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
            resolved.warnings.iter().any(|w| w.to_string().contains("28232") && w.field() == Some(Field::Connections)),
            "{:?}",
            resolved.warnings
        );
        let host = FakeHost { uring: Err("it is forbidden".to_owned()), ..FakeHost::default() };
        let resolved = resolve(&scenario("hold://127.0.0.1:9000", 50_000), &host).unwrap();
        assert_eq!((resolved.plan.driver, resolved.plan.threads), (DriverKind::Epoll, 3));
        assert!(!resolved.warnings.iter().any(|w| w.to_string().contains("descriptors")), "{:?}", resolved.warnings);
    }

    #[test]
    fn flags_of_other_paces_are_refused() {
        fn with(change: impl FnOnce(&mut Scenario)) -> String {
            let mut s = scenario("hold://127.0.0.1:1", 10);
            change(&mut s);
            let error = resolve(&s, &FakeHost::default()).unwrap_err();
            assert!(error.is_usage());
            error.to_string()
        }
        assert!(with(|s| s.warmup_ns = Some(1)).starts_with("warmup"));
        assert!(with(|s| s.requests = Some(1)).starts_with("requests"));
        let hold = |change: fn(&mut HoldAsked)| with(move |s| s.ask(change));
        assert!(hold(|h| h.message = Some(Sizes::Fixed(0))).starts_with("message"));
        assert!(hold(|h| h.sweep_ns = Some(1)).starts_with("sweep"));
        assert!(hold(|h| (h.watch_close, h.sweep_ns) = (true, Some(d::SWEEP_NS))).starts_with("sweep"));
        assert!(hold(|h| h.connects_per_s = Some(0.0)).starts_with("connect_rate"));
        assert!(hold(|h| h.every_ns = Some(u64::MAX)).starts_with("every"));
        assert!(with(|s| s.source = vec!["::1".parse().unwrap()]).starts_with("source"));
    }
}
