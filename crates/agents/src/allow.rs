//! Which targets an agent's owner allows. Load goes where the owner said it may, and nowhere else: addresses are looked at, as it is
//! to these that connections are made, whatever a plan calls them.
//!
//! Names are looked up when a plan comes. What is written: `HOST`, `HOST:PORT`, an address, a network such as `10.1.0.0/16` (with
//! `:PORT` if wanted; IPv6 with a port in brackets), `unix:PATH`.

use model::Plan;
use model::plan::Address;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Something that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    written: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Network { address: IpAddr, bits: u8, port: Option<u16> },
    Host { name: String, port: Option<u16> },
    Unix(PathBuf),
}

impl std::str::FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected HOST, HOST:PORT, an address or a network such as 10.1.0.0/16 or 10.1.0.0/16:80, or unix:PATH, got '{text}'"
            )
        };
        let kind = kind(text).ok_or_else(expected)?;
        Ok(Allowed { written: text.to_owned(), kind })
    }
}

fn kind(text: &str) -> Option<Kind> {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| Kind::Unix(PathBuf::from(path)));
    }
    let network = |text: &str, port: Option<u16>| -> Option<Kind> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Kind::Network { address, bits, port })
    };
    if let Some(found) = network(text, None) {
        return Some(found);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
        None => (text, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Some(found) = network(bare, port) {
        return Some(found);
    }
    let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    is_host.then(|| Kind::Host { name: host.to_owned(), port })
}

impl Allowed {
    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    fn covers(&self, address: &Address) -> bool {
        match (&self.kind, address) {
            (Kind::Unix(own), Address::Unix(path)) => own == path,
            (Kind::Network { address: network, bits, port }, Address::Tcp(to)) => {
                is_in(to.ip().to_canonical(), *network, *bits) && port.is_none_or(|port| port == to.port())
            }
            (Kind::Host { name, port }, Address::Tcp(to)) if port.is_none_or(|port| port == to.port()) => {
                let found = (name.as_str(), to.port()).to_socket_addrs();
                found.is_ok_and(|mut all| all.any(|one: SocketAddr| one.ip().to_canonical() == to.ip().to_canonical()))
            }
            _ => false,
        }
    }
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let in_bits = |address: u128, network: u128, width: u32| {
        let shift = width.saturating_sub(u32::from(bits));
        address.checked_shr(shift).unwrap_or(0) == network.checked_shr(shift).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => in_bits(u128::from(u32::from(a)), u128::from(u32::from(n)), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => in_bits(u128::from(a), u128::from(n), 128),
        _ => false,
    }
}

/// Whether a connection may go to an observer there, `HOST:PORT`. Names are looked up, which may take a while.
///
/// # Errors
/// In a sentence: what is not allowed.
pub fn check_observer(allowed: &[Allowed], observer: &str) -> Result<(), String> {
    let shown = crate::message::tamed(observer);
    let found =
        observer.to_socket_addrs().map_err(|error| format!("the observer at {shown} cannot be looked up: {error}"))?;
    let mut addresses = found.map(Address::Tcp).peekable();
    if addresses.peek().is_some() && addresses.all(|address| allowed.iter().any(|one| one.covers(&address))) {
        return Ok(());
    }
    let all: Vec<&str> = allowed.iter().map(Allowed::written).collect();
    Err(format!(
        "its owner allows {} (--allow-target), and not the observer at {shown}: allow that too, or have it reached over NATS (nats:NAME)",
        all.join(", ")
    ))
}

/// Whether load may go to every address of a plan. Names are looked up, which may take a while.
///
/// # Errors
/// In a sentence: what is not allowed.
pub fn check(allowed: &[Allowed], plan: &Plan) -> Result<(), String> {
    let addresses = plan.origins.iter().flat_map(|origin| &origin.addresses);
    for address in addresses {
        if !allowed.iter().any(|one| one.covers(address)) {
            let all: Vec<&str> = allowed.iter().map(Allowed::written).collect();
            return Err(format!("its owner allows {} (--allow-target), and not {address}", all.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(allowed: &str, address: &str) -> bool {
        let address = match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.into()),
            None => Address::Tcp(address.parse().unwrap()),
        };
        allowed.parse::<Allowed>().unwrap().covers(&address)
    }

    #[test]
    fn load_goes_where_it_may_and_nowhere_else() {
        for (allowed, address) in [
            ("127.0.0.1", "127.0.0.1:80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("10.1.0.0/16", "10.1.255.3:1"),
            ("10.1.0.0/16:1", "10.1.255.3:1"),
            ("0.0.0.0/0", "8.8.8.8:53"),
            ("::1", "[::1]:80"),
            ("[::1]:80", "[::1]:80"),
            ("fd00::/8", "[fd12::1]:80"),
            ("10.0.0.1", "[::ffff:10.0.0.1]:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("unix:/s", "unix:/s"),
        ] {
            assert!(covers(allowed, address), "{allowed} {address}");
        }
        for (allowed, address) in [
            ("127.0.0.1:80", "127.0.0.1:81"),
            ("127.0.0.1", "127.0.0.2:80"),
            ("10.1.0.0/16", "10.2.0.0:1"),
            ("10.1.0.0/16:2", "10.1.255.3:1"),
            ("0.0.0.0/0", "[::1]:80"),
            ("localhost:80", "127.0.0.1:81"),
            ("localhost", "127.9.9.9:80"),
            ("127.0.0.1", "unix:/s"),
            ("unix:/s", "unix:/t"),
        ] {
            assert!(!covers(allowed, address), "{allowed} {address}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in ["", "10.0.0.0/33", "a b", "host:0", "host:99999", "http://host/", "unix:relative", "*", "[::1"] {
            assert!(text.parse::<Allowed>().is_err(), "{text}");
        }
    }
}
