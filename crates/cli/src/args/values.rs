//! Texts of flags into values. An error says only what was expected: clap shows the flag and what came.

use model::fault::LoadFault;
use model::plan::{Batch, OnError, Segment, Sizes, Think};
use model::units::{self, UnitError};
use resolve::{defaults, pace};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A rate profile; not a `Vec` to clap, which would take several flags for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile(pub Vec<Segment>);

/// A list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<u16>);

/// Addresses to listen on: one, or a range of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen(pub Vec<SocketAddr>);

/// A duration that may be "never".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleTimeout(pub Option<Duration>);

fn expected<T>(result: Result<T, UnitError>) -> Result<T, String> {
    result.map_err(|error| format!("expected {}", error.expected))
}

/// A count of any width, such as `10k`.
pub fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let count = expected(units::count(text))?;
    T::try_from(count).map_err(|_| "expected a smaller count".to_owned())
}

/// A fault of a run, whose words one of the faults understands.
pub fn fault(text: &str) -> Result<LoadFault, String> {
    let fault = LoadFault::parse(text)?;
    session::faults::understood(&fault).map_err(|error| error.to_string())?;
    Ok(fault)
}

/// Nanoseconds.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    expected(units::duration_ns(text))
}

/// A share between 0 and 1, as `3%`, `3 %` or `0.03`.
pub fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 0.01));
    let share = number.parse::<f64>().map(|number| number * unit);
    match share {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("expected a share between 0 and 100 %, such as 3%".to_owned()),
    }
}

/// A moment in nanoseconds since 1970.
pub fn moment_ns(text: &str) -> Result<u64, String> {
    let since = humantime::parse_rfc3339_weak(text).ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let ns = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
    ns.ok_or_else(|| "expected a moment such as 2026-11-21T19:46:05Z".to_owned())
}

/// Bytes of any width.
pub fn size<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let bytes = expected(units::size_bytes(text))?;
    T::try_from(bytes).map_err(|_| "expected a smaller size".to_owned())
}

/// `5k/s`.
pub fn rate(text: &str) -> Result<Profile, String> {
    expected(pace::parse_rate(text)).map(Profile)
}

/// `100/s..5k/s:30s`.
pub fn ramp(text: &str) -> Result<Profile, String> {
    expected(pace::parse_ramp(text)).map(Profile)
}

/// `1k/s,2k/s:10s`.
pub fn steps(text: &str) -> Result<Profile, String> {
    expected(pace::parse_steps(text)).map(Profile)
}

/// `5ms..20ms`.
pub fn think(text: &str) -> Result<Think, String> {
    expected(pace::parse_think(text))
}

/// A rate that was measured, such as `228.12/s`.
pub fn per_s(text: &str) -> Result<f64, String> {
    expected(units::rate_per_s(text))
}

/// What a link carries, such as `10Gbit`, `100Mbit/s`.
pub fn bits_per_s(text: &str) -> Result<f64, String> {
    let error = || "expected a link's rate such as 10Gbit, 100Mbit/s or 64kbit".to_owned();
    let text = text.trim().trim_end_matches("/s");
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        "tbit" => 1e12,
        _ => return Err(error()),
    };
    number.parse::<f64>().ok().map(|number| number * scale).filter(|bits| *bits > 0.0).ok_or_else(error)
}

/// `fail-fast`, `wait` or `retry:N:BACKOFF[:JITTER]`.
pub fn on_error(text: &str) -> Result<OnError, String> {
    text.parse::<OnError>().map_err(|error| error.to_string())
}

/// `16..32`.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    expected(pace::parse_sizes(text))
}

/// `16` or `16,1ms`.
pub fn batch(text: &str) -> Result<Batch, String> {
    let error = || "expected COMPLETIONS[,DELAY] such as 16 or 16,1ms".to_owned();
    let (completions, delay) = match text.split_once(',') {
        None => (text, None),
        Some((completions, delay)) => (completions, Some(delay)),
    };
    Ok(Batch {
        completions: count(completions).map_err(|_| error())?,
        delay_ns: match delay {
            None => defaults::BATCH_DELAY_NS,
            Some(delay) => units::duration_ns(delay).map_err(|_| error())?,
        },
    })
}

/// `0,2-3`.
pub fn cpus(text: &str) -> Result<CpuList, String> {
    let range = |piece: &str| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
        (first <= last).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    let ranges = ranges.ok_or_else(|| "expected CPU numbers such as 0,1 or 0-3".to_owned())?;
    Ok(CpuList(ranges.into_iter().flatten().collect()))
}

/// `on` or `off`.
pub fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

/// `127.0.0.1:8080`, or several ports of an address: `127.0.0.1:9000-9004`.
pub fn listen(text: &str) -> Result<Listen, String> {
    let shape = || "expected ADDRESS:PORT such as 127.0.0.1:8080 or [::1]:8080, or 127.0.0.1:9000-9004".to_owned();
    if let Ok(one) = text.parse() {
        return Ok(Listen(vec![one]));
    }
    let (first, last) = text.rsplit_once('-').ok_or_else(shape)?;
    let first: SocketAddr = first.parse().map_err(|_| shape())?;
    let last: u16 = last.parse().map_err(|_| shape())?;
    if first.port() == 0 || last < first.port() {
        return Err("expected a range from a port of at least 1 up to a higher one".to_owned());
    }
    if usize::from(last - first.port()) >= servers::limits::ADDRESSES_MAX {
        return Err(format!("expected at most {} ports", servers::limits::ADDRESSES_MAX));
    }
    let at = |port| SocketAddr::new(first.ip(), port);
    Ok(Listen((first.port()..=last).map(at).collect()))
}

/// Addresses that connections come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceList(pub Vec<IpAddr>);

/// Most addresses of one network.
const SOURCES_MAX: u32 = 65_536;

/// An address, or all host addresses of an IPv4 network such as `127.1.0.0/24` (without its first and last).
pub fn source(text: &str) -> Result<SourceList, String> {
    let error = || "expected an address or an IPv4 network of at most 65536 addresses, such as 127.1.0.0/24".to_owned();
    let Some((network, bits)) = text.split_once('/') else {
        return text.parse().map(|ip| SourceList(vec![ip])).map_err(|_| error());
    };
    let network: Ipv4Addr = network.parse().map_err(|_| error())?;
    let bits: u32 = bits.parse().ok().filter(|bits| (16..=32).contains(bits)).ok_or_else(error)?;
    let size = 1u32 << (32 - bits);
    let first = u32::from(network) & !(size - 1);
    let hosts = if size > 2 { 1..size - 1 } else { 0..size };
    Ok(SourceList(hosts.take(SOURCES_MAX as usize).map(|i| IpAddr::V4(Ipv4Addr::from(first + i))).collect()))
}

/// A rate such as `20k/s`.
pub fn one_rate(text: &str) -> Result<f64, String> {
    units::rate_per_s(text).map_err(|error| error.to_string())
}

/// A duration in nanoseconds, or `never`, which is 0.
pub fn every(text: &str) -> Result<u64, String> {
    match text {
        "never" => Ok(0),
        _ => match duration_ns(text) {
            Ok(ns) if ns > 0 => Ok(ns),
            _ => Err("expected a duration such as 60s, or never".to_owned()),
        },
    }
}

/// A duration, or `never`.
pub fn idle_timeout(text: &str) -> Result<IdleTimeout, String> {
    if text == "never" {
        return Ok(IdleTimeout(None));
    }
    match duration_ns(text) {
        Ok(ns) if ns > 0 => Ok(IdleTimeout(Some(Duration::from_nanos(ns)))),
        _ => Err("expected a duration such as 75s, or never".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_or_refused_with_an_example() {
        assert_eq!(count::<u16>("1k"), Ok(1000));
        assert_eq!(count::<u16>("1m"), Err("expected a smaller count".to_owned()));
        assert_eq!(size::<u32>("4GiB"), Err("expected a smaller size".to_owned()));
        assert_eq!(batch("8"), Ok(Batch { completions: 8, delay_ns: defaults::BATCH_DELAY_NS }));
        assert_eq!(batch("8,2ms"), Ok(Batch { completions: 8, delay_ns: 2_000_000 }));
        assert!(batch("8,").is_err() && batch(",1ms").is_err() && batch("").is_err());
        assert_eq!(cpus("0,2-3"), Ok(CpuList(vec![0, 2, 3])));
        assert!(cpus("").is_err() && cpus("3-2").is_err() && cpus("0,").is_err() && cpus("-1").is_err());
        assert_eq!(idle_timeout("never"), Ok(IdleTimeout(None)));
        assert!(idle_timeout("0").is_err());
        let network = source("127.1.0.0/24").unwrap().0;
        assert_eq!((network.len(), network[0], network[253]), (254, [127, 1, 0, 1].into(), [127, 1, 0, 254].into()));
        assert_eq!(source("10.0.0.9").unwrap().0, [IpAddr::from([10, 0, 0, 9])]);
        assert!(source("10.0.0.0/8").is_err() && source("x").is_err() && source("::1").is_ok());
        assert_eq!((every("never"), every("5s"), every("0").is_err()), (Ok(0), Ok(5_000_000_000), true));
    }

    #[test]
    fn addresses_to_listen_on_are_one_or_a_range_of_ports() {
        let several = |texts: &[&str]| Ok(Listen(texts.iter().map(|text| text.parse().unwrap()).collect()));
        assert_eq!(listen("127.0.0.1:0"), several(&["127.0.0.1:0"]));
        assert_eq!(listen("127.0.0.1:9-11"), several(&["127.0.0.1:9", "127.0.0.1:10", "127.0.0.1:11"]));
        assert_eq!(listen("[::1]:65535-65535"), several(&["[::1]:65535"]));
        assert_eq!(listen("0.0.0.0:1-1024").unwrap().0.len(), 1024);
        assert!(listen("0.0.0.0:1-1025").unwrap_err().starts_with("expected at most 1024"));
        for wrong in ["127.0.0.1:0-5", "127.0.0.1:11-9"] {
            assert!(listen(wrong).unwrap_err().starts_with("expected a range"), "{wrong}");
        }
        for wrong in ["8080", "", "-", "127.0.0.1:1-65536", "127.0.0.1:1-2-3", "127.0.0.1:1-", "127.0.0.1-9:1"] {
            assert!(listen(wrong).unwrap_err().starts_with("expected ADDRESS:PORT such as 127.0.0.1:8080"), "{wrong}");
        }
    }
}
