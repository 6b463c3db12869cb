//! Where connections go: one origin per scheme, host and port, with every address its name has.
//!
//! Overrides come first, in this order: `--unix-socket`, `--connect-to`, `--resolve`, then the resolver.
//! Each name is looked up once. Nothing is connected to: an address that nobody answers at is found by the run.

use crate::defaults::ORIGINS_MAX;
use crate::host::Host as Machine;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::Words;
use crate::url::{Endpoint, Parsed, unix_path_fits};
use model::Scenario;
use model::plan::{Address, Origin};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use url::Host;

/// A URL of the scenario, taken apart.
pub(super) struct Asked {
    /// As written, without secrets.
    pub(super) text: String,
    pub(super) parsed: Parsed,
    pub(super) weight: f64,
}

/// Origins with their addresses, and for every URL the index of its origin.
pub(super) struct Origins {
    pub(super) origins: Vec<Origin>,
    pub(super) of_url: Vec<u16>,
    /// For every origin the name or address its certificate must have.
    pub(super) server_names: Vec<String>,
    /// Entries of `--resolve` and `--connect-to` that matched no URL, as written.
    pub(super) unused: Vec<Words>,
}

/// Groups URLs by origin and finds the addresses.
pub(super) fn find(asked: &[Asked], scenario: &Scenario, machine: &dyn Machine) -> Result<Origins, ResolveError> {
    let mut overrides = Overrides::parse(scenario)?;
    let mut origins: Vec<Origin> = Vec::new();
    let mut index: std::collections::HashMap<String, u16> = std::collections::HashMap::new();
    let mut server_names = Vec::new();
    let mut of_url = Vec::with_capacity(asked.len());
    for url in asked {
        let name = url.parsed.origin_name();
        let at = match index.get(&name) {
            Some(at) => *at,
            None => {
                let addresses = addresses(&url.parsed.place.endpoint, &mut overrides, scenario.ip_version, machine)?;
                let at = u16::try_from(origins.len()).ok().filter(|at| usize::from(*at) < ORIGINS_MAX).ok_or(
                    ResolveError::TooMuch {
                        what: "origins".into(),
                        most: ORIGINS_MAX as u64,
                        got: ORIGINS_MAX as u64 + 1,
                        instead: "split the URLs over several runs".into(),
                    },
                )?;
                origins.push(Origin { name: name.clone(), addresses, weight: 0.0 });
                server_names.push(url.parsed.server_name());
                index.insert(name, at);
                at
            }
        };
        origins[usize::from(at)].weight += url.weight;
        of_url.push(at);
    }
    Ok(Origins { origins, of_url, server_names, unused: overrides.unused() })
}

fn addresses(
    endpoint: &Endpoint,
    overrides: &mut Overrides,
    ip_version: Option<u8>,
    machine: &dyn Machine,
) -> Result<Vec<Address>, ResolveError> {
    let (host, port) = match (&overrides.unix_socket, endpoint) {
        (Some(path), Endpoint::Tcp { .. }) => return Ok(vec![Address::Unix(path.clone())]),
        (Some(_), Endpoint::Unix(_)) => {
            return Err(ResolveError::Conflict {
                what: Field::UnixSocket.into(),
                with: "a unix: URL".into(),
                instead: "name the socket in one of them".into(),
            });
        }
        (None, Endpoint::Unix(path)) => (path.to_string_lossy().into_owned(), None),
        (None, Endpoint::Tcp { host, port, .. }) => (host.to_string(), Some(*port)),
    };
    // Further ports of a range are those of the same addresses.
    let further = match endpoint {
        Endpoint::Tcp { port, last_port, .. } => last_port - port,
        Endpoint::Unix(_) => 0,
    };
    let (host, port) = match (overrides.connect_to(&host, port), port) {
        (Some(Elsewhere::Unix(path)), _) => return Ok(vec![Address::Unix(path)]),
        (Some(Elsewhere::Tcp(host, port)), _) => (host, port),
        (None, Some(port)) => (Host::parse(&host).unwrap_or(Host::Domain(host)), port),
        (None, None) => return Ok(vec![Address::Unix(PathBuf::from(host))]),
    };
    let found: Vec<SocketAddr> = match &host {
        Host::Ipv4(ip) => vec![SocketAddr::from((*ip, port))],
        Host::Ipv6(ip) => vec![SocketAddr::from((*ip, port))],
        Host::Domain(name) => match overrides.resolve(name, port) {
            Some(ips) => ips.into_iter().map(|ip| SocketAddr::from((ip, port))).collect(),
            None => look_up(name, port, machine)?,
        },
    };
    let mut wanted: Vec<Address> = Vec::with_capacity(found.len());
    for address in &found {
        let is_wanted = match ip_version {
            Some(4) => address.is_ipv4(),
            Some(_) => address.is_ipv6(),
            None => true,
        };
        for port in address.port()..=address.port().saturating_add(further) {
            let address = Address::Tcp(SocketAddr::new(address.ip(), port));
            if is_wanted && !wanted.contains(&address) {
                wanted.push(address);
            }
        }
    }
    match ip_version {
        Some(version) if wanted.is_empty() => Err(ResolveError::NoAddressOfFamily {
            name: host.to_string(),
            version,
            got: found.iter().map(|a| a.ip().to_string()).collect::<Vec<_>>().join(", "),
        }),
        _ => Ok(wanted),
    }
}

fn look_up(name: &str, port: u16, machine: &dyn Machine) -> Result<Vec<SocketAddr>, ResolveError> {
    let none = |why: String| ResolveError::NameNotFound { name: name.to_owned(), port, why };
    let found = machine.lookup(name, port).map_err(|error| none(error.to_string()))?;
    if found.is_empty() { Err(none("an empty answer".to_owned())) } else { Ok(found) }
}

/// Where a connection goes instead.
#[derive(Debug, Clone)]
enum Elsewhere {
    Tcp(Host<String>, u16),
    Unix(PathBuf),
}

/// What the scenario says about addresses, taken apart.
struct Overrides {
    unix_socket: Option<PathBuf>,
    connect_to: Option<ConnectTo>,
    resolve: Vec<Entry>,
}

struct ConnectTo {
    text: String,
    /// Host and port the URL must have; `None`: any.
    host: Option<String>,
    port: Option<u16>,
    to: Elsewhere,
    used: bool,
}

struct Entry {
    text: String,
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
    used: bool,
}

impl Overrides {
    fn parse(scenario: &Scenario) -> Result<Self, ResolveError> {
        if scenario.unix_socket.is_some() && scenario.connect_to.is_some() {
            return Err(ResolveError::Conflict {
                what: Field::UnixSocket.into(),
                with: Field::ConnectTo.into(),
                instead: "name the socket in one of them".into(),
            });
        }
        if let Some(path) = &scenario.unix_socket {
            unix_path_fits(&path.to_string_lossy())
                .map_err(|why| ResolveError::bad_value(Field::UnixSocket, why, path.display()))?;
        }
        Ok(Overrides {
            unix_socket: scenario.unix_socket.clone(),
            connect_to: scenario.connect_to.as_deref().map(parse_connect_to).transpose()?,
            resolve: scenario.resolve.iter().map(|text| parse_entry(text)).collect::<Result<_, _>>()?,
        })
    }

    fn connect_to(&mut self, host: &str, port: Option<u16>) -> Option<Elsewhere> {
        let rule = self.connect_to.as_mut()?;
        let host_fits = rule.host.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(host));
        let port_fits = rule.port.is_none_or(|wanted| port == Some(wanted));
        (host_fits && port_fits).then(|| {
            rule.used = true;
            rule.to.clone()
        })
    }

    fn resolve(&mut self, name: &str, port: u16) -> Option<Vec<IpAddr>> {
        let entry = self.resolve.iter_mut().find(|e| e.port == port && e.host.eq_ignore_ascii_case(name))?;
        entry.used = true;
        Some(entry.addresses.clone())
    }

    fn unused(&self) -> Vec<Words> {
        let connect_to = self.connect_to.iter().filter(|rule| !rule.used).map(|r| (Field::ConnectTo, &r.text).into());
        let resolve = self.resolve.iter().filter(|entry| !entry.used).map(|e| (Field::Resolve, &e.text).into());
        connect_to.chain(resolve).collect()
    }
}

/// `HOST:PORT`, `unix:PATH`, or curl's and oha's `FROMHOST:FROMPORT:HOST:PORT` with either FROM part empty for any.
fn parse_connect_to(text: &str) -> Result<ConnectTo, ResolveError> {
    let bad = || {
        let expected = "HOST:PORT, unix:PATH or FROMHOST:FROMPORT:HOST:PORT, an IPv6 address in brackets";
        ResolveError::bad_value(Field::ConnectTo, expected, text)
    };
    let rule = |host, port, to| ConnectTo { text: text.to_owned(), host, port, to, used: false };
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(bad());
        }
        unix_path_fits(path).map_err(|why| ResolveError::bad_value(Field::ConnectTo, why, text))?;
        return Ok(rule(None, None, Elsewhere::Unix(PathBuf::from(path))));
    }
    // `::1:80` would also read as "anything to host 1": nobody means that.
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Err(bad());
    }
    let tcp = |host: &str, port: &str| -> Option<Elsewhere> {
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Elsewhere::Tcp(Host::parse(host).ok()?, port))
    };
    match split_at_colons(text)[..] {
        [host, port] => Ok(rule(None, None, tcp(host, port).ok_or_else(bad)?)),
        [from_host, from_port, host, port] => {
            let from_port = match from_port {
                "" => None,
                port => Some(port.parse().map_err(|_| bad())?),
            };
            let from_host = (!from_host.is_empty()).then(|| from_host.to_owned());
            Ok(rule(from_host, from_port, tcp(host, port).ok_or_else(bad)?))
        }
        _ => Err(bad()),
    }
}

/// curl's `HOST:PORT:ADDRESS[,ADDRESS]...`; an IPv6 address with or without brackets.
fn parse_entry(text: &str) -> Result<Entry, ResolveError> {
    let bad = || ResolveError::bad_value(Field::Resolve, "HOST:PORT:ADDRESS, such as example.com:80:127.0.0.1", text);
    let mut pieces = text.splitn(3, ':');
    let (Some(host), Some(port), Some(addresses)) = (pieces.next(), pieces.next(), pieces.next()) else {
        return Err(bad());
    };
    let addresses = addresses
        .split(',')
        .map(|a| a.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(a).parse().map_err(|_| bad()))
        .collect::<Result<Vec<IpAddr>, _>>()?;
    // The form in which the URL's own host is compared: lower case, IDNA.
    let Ok(Host::Domain(host)) = Host::parse(host) else { return Err(bad()) };
    let port = port.parse().map_err(|_| bad())?;
    Ok(Entry { text: text.to_owned(), host, port, addresses, used: false })
}

/// Splits at colons outside brackets.
fn split_at_colons(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ':' && depth <= 0
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use crate::url;

    #[track_caller]
    fn check(urls: &[&str], change: impl FnOnce(&mut Scenario), expected: &str) {
        let asked: Vec<Asked> = urls
            .iter()
            .map(|text| Asked { text: (*text).to_owned(), parsed: url::parse(text).unwrap(), weight: 2.0 })
            .collect();
        let mut scenario = Scenario::default();
        change(&mut scenario);
        let got = match find(&asked, &scenario, &FakeHost::default()) {
            Err(error) => format!("{error} [usage: {}]", error.is_usage()),
            Ok(found) => {
                let lines = found.origins.iter().map(|o| {
                    let addresses: Vec<String> = o.addresses.iter().map(ToString::to_string).collect();
                    format!("{} ×{} → {}", o.name, o.weight, addresses.join(" "))
                });
                let unused = found.unused.iter().map(|text| format!("unused {text}"));
                format!("{}; {:?}", lines.chain(unused).collect::<Vec<_>>().join("; "), found.of_url)
            }
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn all_addresses_of_a_name_are_used_once_each() {
        check(&["http://two.test/"], |_| {}, "http://two.test ×2 → 192.0.2.1:80 [2001:db8::1]:80; [0]");
        check(&["http://two.test/"], |s| s.ip_version = Some(6), "http://two.test ×2 → [2001:db8::1]:80; [0]");
        check(
            &["http://four.test/"],
            |s| s.ip_version = Some(6),
            "expected 'four.test' to have an IPv6 address, got only 192.0.2.4: leave out ip_version 6 [usage: false]",
        );
        check(
            &["http://none.test:81/"],
            |_| {},
            "expected 'none.test' to have an address, but the resolver found none (fake: not known): check the name with `getent ahosts none.test`, or give its address with resolve none.test:81:ADDRESS [usage: false]",
        );
    }

    #[test]
    fn urls_of_one_origin_share_it() {
        check(
            &["http://four.test/a", "http://four.test:8080/", "http://FOUR.test:80/b", "unix:/s:/x", "unix:/s:/y"],
            |_| {},
            "http://four.test ×4 → 192.0.2.4:80; http://four.test:8080 ×2 → 192.0.2.4:8080; unix:/s ×4 → unix:/s; [0, 1, 0, 2, 2]",
        );
    }

    #[test]
    fn overrides_leave_the_resolver_out() {
        check(&["http://x/"], |s| s.unix_socket = Some("/s".into()), "http://x ×2 → unix:/s; [0]");
        check(&["http://x/"], |s| s.connect_to = Some("unix:/s".into()), "http://x ×2 → unix:/s; [0]");
        check(&["http://x/"], |s| s.connect_to = Some("[::1]:9".into()), "http://x ×2 → [::1]:9; [0]");
        check(&["unix:/s"], |s| s.connect_to = Some("127.0.0.1:9".into()), "unix:/s ×2 → 127.0.0.1:9; [0]");
        check(
            &["http://x/", "http://four.test/"],
            |s| s.connect_to = Some("x:80:127.0.0.1:9".into()),
            "http://x ×2 → 127.0.0.1:9; http://four.test ×2 → 192.0.2.4:80; [0, 1]",
        );
        check(
            &["http://four.test/"],
            |s| s.connect_to = Some("::[::1]:9".into()),
            "http://four.test ×2 → [::1]:9; [0]",
        );
        check(
            &["http://x:81/"],
            |s| s.resolve = vec!["X:81:::1,[::2],127.0.0.1".into(), "y:80:127.0.0.1".into()],
            "http://x:81 ×2 → [::1]:81 [::2]:81 127.0.0.1:81; unused resolve y:80:127.0.0.1; [0]",
        );
        check(
            &["http://four.test/"],
            |s| s.connect_to = Some("x::127.0.0.1:9".into()),
            "http://four.test ×2 → 192.0.2.4:80; unused connect_to x::127.0.0.1:9; [0]",
        );
    }

    #[test]
    fn bad_overrides_are_usage_errors() {
        for bad in ["", "x", "x:", "x:0", "x:99999", "::1:80", "a:b:c:1", "a:1:c", "unix:", "a:1:b:2:c"] {
            let scenario = Scenario { connect_to: Some(bad.to_owned()), ..Scenario::default() };
            let error = find(&[], &scenario, &FakeHost::default()).map(|f| f.unused).unwrap_err();
            assert!(
                error.is_usage() && error.to_string().starts_with("connect_to: expected HOST:PORT"),
                "{bad}: {error}"
            );
        }
        for bad in ["", "x", "x:80", "x:80:", "x:80:y", "x:80:1.2.3", "x:y:127.0.0.1", ":80:127.0.0.1", "x:80:::1,"] {
            let scenario = Scenario { resolve: vec![bad.to_owned()], ..Scenario::default() };
            let error = find(&[], &scenario, &FakeHost::default()).map(|f| f.unused).unwrap_err();
            assert!(
                error.is_usage() && error.to_string().starts_with("resolve: expected HOST:PORT:"),
                "{bad}: {error}"
            );
        }
        check(
            &["unix:/s"],
            |s| s.unix_socket = Some("/t".into()),
            "unix_socket cannot be used with a unix: URL: name the socket in one of them [usage: true]",
        );
        check(
            &["http://x/"],
            |s| (s.unix_socket, s.connect_to) = (Some("/t".into()), Some("x:1".into())),
            "unix_socket cannot be used with connect_to: name the socket in one of them [usage: true]",
        );
    }
}
