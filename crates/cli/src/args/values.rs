//! Texts of flags into values. An error says only what was expected: clap shows the flag and what came.

use model::plan::{Batch, Segment, Sizes, Think};
use model::units::{self, UnitError};
use session::resolve::{defaults, pace};
use std::net::SocketAddr;
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

/// Nanoseconds.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    expected(units::duration_ns(text))
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
    if usize::from(last - first.port()) >= target::limits::ADDRESSES_MAX {
        return Err(format!("expected at most {} ports", target::limits::ADDRESSES_MAX));
    }
    let at = |port| SocketAddr::new(first.ip(), port);
    Ok(Listen((first.port()..=last).map(at).collect()))
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
