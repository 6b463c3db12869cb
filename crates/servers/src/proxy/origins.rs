//! Origins: where they are, which is asked first, and which is left alone for a while after it refused.
//!
//! `url-hash` is rendezvous hashing: each origin gets a score from the request target and its own name, and
//! the highest is asked, so the same target goes to the same origin from any worker and any proxy, and an
//! origin that comes or goes moves only its own share. `round-robin` counts over all workers. Names are
//! resolved once, at the start: the first IPv4 address, or the first there is. Not here: sockets.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::error::ServeError;
use crate::limits;

/// How requests are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// By the request target: the same target always to the same origin.
    #[default]
    UrlHash,
    /// One after the other.
    RoundRobin,
}

/// A server the proxy asks, as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Host and port as in a `Host` field.
    authority: String,
    host: String,
    port: u16,
}

/// Why a text names no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// TLS towards origins is not spoken.
    #[error("expected an origin over plain http, as this proxy speaks no TLS to origins: name it http://HOST:PORT")]
    Tls,
    /// Not of the shape.
    #[error("expected http://HOST:PORT, without path or user, such as http://127.0.0.1:8080")]
    Shape,
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            return Err(OriginError::Tls);
        }
        let is_http = text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let authority = if is_http { &text[7..] } else { return Err(OriginError::Shape) };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| OriginError::Shape)?),
            _ => (authority, 80),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let fits = if bare.len() == host.len() {
            !host.is_empty() && host.bytes().all(is_name)
        } else {
            bare.parse::<std::net::Ipv6Addr>().is_ok()
        };
        if !fits || port == 0 {
            return Err(OriginError::Shape);
        }
        Ok(Self { authority: authority.to_owned(), host: bare.to_owned(), port })
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

/// The origins of a running proxy, for all its workers.
#[derive(Debug)]
pub(super) struct Origins {
    balance: Balance,
    next: AtomicUsize,
    all: Vec<Resolved>,
}

#[derive(Debug)]
struct Resolved {
    authority: String,
    addr: SocketAddr,
    hash: u64,
    /// Monotonic; until then it is asked last.
    down_until_ns: AtomicU64,
}

impl Origins {
    pub(super) fn resolve(origins: &[Origin], balance: Balance) -> Result<Self, ServeError> {
        if origins.is_empty() {
            return Err(ServeError::NoOrigin);
        }
        crate::listen::check_bounds("origins", origins.len(), 1, limits::ORIGINS_MAX)?;
        let resolve = |origin: &Origin| -> Result<Resolved, ServeError> {
            let unknown = |source| ServeError::OriginUnknown { origin: origin.to_string(), source };
            let addrs: Vec<_> = (&*origin.host, origin.port).to_socket_addrs().map_err(unknown)?.collect();
            let first = addrs.iter().find(|addr| addr.is_ipv4()).or(addrs.first());
            let addr = *first.ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))?;
            let hash = fnv(FNV_BASIS, origin.authority.as_bytes());
            Ok(Resolved { authority: origin.authority.clone(), addr, hash, down_until_ns: AtomicU64::new(0) })
        };
        let all = origins.iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(Self { balance, next: AtomicUsize::new(0), all })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn addr(&self, origin: usize) -> SocketAddr {
        self.all[origin].addr
    }

    pub(super) fn authority(&self, origin: usize) -> &str {
        &self.all[origin].authority
    }

    /// The origins in the order they are to be asked; those that lately refused come last.
    pub(super) fn order(&self, target: &[u8], now_ns: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        match self.balance {
            Balance::RoundRobin => {
                // Wraps around after 2^64 requests.
                order.rotate_left(self.next.fetch_add(1, Ordering::Relaxed) % self.all.len());
            }
            Balance::UrlHash if self.all.len() > 1 => {
                let key = fnv(FNV_BASIS, target);
                order.sort_by_key(|&origin| std::cmp::Reverse(mix(key ^ self.all[origin].hash)));
            }
            Balance::UrlHash => {}
        }
        order.sort_by_key(|&origin| self.all[origin].down_until_ns.load(Ordering::Relaxed) > now_ns);
        order
    }

    /// It refused, or did not answer a connect in time.
    pub(super) fn set_down(&self, origin: usize, now_ns: u64) {
        let until_ns = now_ns.saturating_add(limits::ORIGIN_DOWN.as_nanos() as u64);
        self.all[origin].down_until_ns.store(until_ns, Ordering::Relaxed);
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
pub(super) fn fnv(basis: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(basis, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of splitmix64: spreads scores that differ in few bits.
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(ports: &[u16], balance: Balance) -> Origins {
        let named: Vec<Origin> = ports.iter().map(|port| format!("http://127.0.0.1:{port}").parse().unwrap()).collect();
        Origins::resolve(&named, balance).unwrap()
    }

    #[test]
    fn origins_are_read_strictly() {
        let check = |text: &str| text.parse::<Origin>().map(|origin| origin.to_string());
        assert_eq!(check("http://h:81"), Ok("http://h:81".to_owned()));
        assert_eq!(check("HTTP://h/"), Ok("http://h".to_owned()));
        assert_eq!(check("http://[::1]:9"), Ok("http://[::1]:9".to_owned()));
        assert_eq!(check("https://h"), Err(OriginError::Tls));
        for text in [
            "h:80",
            "http://",
            "http://h:0",
            "http://h:x",
            "http://h/p",
            "http://u@h",
            "http://[::1",
            "http://::1",
            "é",
        ] {
            assert_eq!(check(text), Err(OriginError::Shape), "{text}");
        }
    }

    #[test]
    fn a_target_stays_where_it_was_when_another_origin_goes() {
        let (three, two) = (origins(&[1, 2, 3], Balance::UrlHash), origins(&[1, 2], Balance::UrlHash));
        let mut shares = [0; 3];
        for n in 0..3000 {
            let target = format!("/object/{n}");
            let first = three.order(target.as_bytes(), 1)[0];
            shares[first] += 1;
            assert_eq!(three.order(target.as_bytes(), 2)[0], first);
            if first < 2 {
                assert_eq!(two.order(target.as_bytes(), 1)[0], first, "{target}");
            }
        }
        assert!(shares.iter().all(|share| (850..1150).contains(share)), "{shares:?}");
    }

    #[test]
    fn round_robin_is_even_and_who_refused_comes_last() {
        let three = origins(&[1, 2, 3], Balance::RoundRobin);
        let mut shares = [0; 3];
        (0..300).for_each(|_| shares[three.order(b"/", 1)[0]] += 1);
        assert_eq!(shares, [100; 3]);
        three.set_down(1, 5);
        for _ in 0..3 {
            assert_eq!(three.order(b"/", 6)[2], 1);
        }
        assert_eq!((0..3).filter(|_| three.order(b"/", u64::MAX)[0] == 1).count(), 1, "and is asked again later");
    }
}
