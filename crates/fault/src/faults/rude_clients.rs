//! Clients beside the load that read slowly, write slowly or say nothing: how a server fares with who holds on and asks little.
//!
//! A process of the fault's own has them (`crate::clients`). They ask by HTTP/1.1, or what `text` says. A slow writer's request
//! has a header of a thousand bytes, so that at 30 ms a byte it takes half a minute (slowloris). Connections that are held by a
//! load and counted in its report are a load of their own (`hold://`); these are for beside one. What the server does to
//! them is said at the end: how many it closed, and after how long the first.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::clients::Manner;
use crate::error::{ApplyError, BadArgument, plain};
use crate::helper::{Helper, Job};
use crate::limits::{CLIENTS_MAX, REQUEST_BYTES_MAX};
use crate::words::Words;
use model::units::{count, duration_ns, size_bytes};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// A slow reader's pace, bytes a second, where none is named.
const READ_BYTES_PER_S: u64 = 1024;
/// Between two bytes of a slow writer, nanoseconds, where nothing is named.
const WRITE_EVERY_NS: u64 = 30_000_000;
/// Bytes of a slow writer's header that no server needs.
const PADDING_BYTES: usize = 1000;

pub(super) const NEEDS: &str = "a descriptor and a port of this host for each";
pub(super) const UNDONE: Undoing =
    Undoing::Back("their process is ended, and with it their connections; an hour at the longest");

/// See the file's head.
pub(crate) const READERS: Kind = Kind {
    name: "slow-readers",
    takes: "HOST:PORT N [SIZE/s] [get PATH | text TEXT]",
    example: "127.0.0.1:8080 100 1KiB/s get /large",
    does: "clients that ask and read the reply at so many bytes a second, 1 KiB/s where none is named",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let (to, count) = (words.address()?, clients(words)?);
        let speed = |word: &str| size_bytes(word.strip_suffix("/s")?).ok().filter(|bytes| *bytes > 0);
        let is_named = words.peek().is_some_and(|word| word.ends_with("/s"));
        let bytes_per_s = if is_named { words.parsed("a speed such as 1KiB/s", speed)? } else { READ_BYTES_PER_S };
        let request = request(words, &to, 0)?;
        Ok(Arc::new(Rude { to, count, manner: Manner::Reads { bytes_per_s }, request }))
    },
};
/// See the file's head.
pub(crate) const WRITERS: Kind = Kind {
    name: "slow-writers",
    takes: "HOST:PORT N [every TIME] [get PATH | text TEXT]",
    example: "127.0.0.1:8080 100 every 30ms",
    does: "clients that send their request a byte at a time, every 30 ms where nothing is named",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let (to, count) = (words.address()?, clients(words)?);
        let time = |word: &str| duration_ns(word).ok().filter(|ns| *ns >= 1_000_000);
        let every_ns = if words.take("every") { words.parsed("a time from 1ms on", time)? } else { WRITE_EVERY_NS };
        let request = request(words, &to, PADDING_BYTES)?;
        Ok(Arc::new(Rude { to, count, manner: Manner::Writes { every_ns }, request }))
    },
};
/// See the file's head.
pub(crate) const SILENT: Kind = Kind {
    name: "silent-connections",
    takes: "HOST:PORT N",
    example: "127.0.0.1:8080 100",
    does: "clients that connect and say nothing",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let (to, count) = (words.address()?, clients(words)?);
        Ok(Arc::new(Rude { to, count, manner: Manner::Silent, request: String::new() }))
    },
};

fn clients(words: &mut Words<'_>) -> Result<u32, BadArgument> {
    let expected = format!("how many, from 1 to {CLIENTS_MAX}");
    words.parsed(&expected, |word| u32::try_from(count(word).ok()?).ok().filter(|n| (1..=CLIENTS_MAX).contains(n)))
}

/// What each sends: as it is told, or an HTTP request.
fn request(words: &mut Words<'_>, to: &str, padding: usize) -> Result<String, BadArgument> {
    if words.take("text") {
        let is_fit = |word: &str| Some(unescaped(word)).filter(|text| (1..=REQUEST_BYTES_MAX).contains(&text.len()));
        return words.parsed("a text such as 'PING\\r\\n'", is_fit);
    }
    let is_path = |word: &str| word.starts_with('/') && word.bytes().all(|b| b.is_ascii_graphic());
    let path = match words.take("get") {
        true => words.parsed("a path such as /large", |word| is_path(word).then(|| word.to_owned()))?,
        false => "/".to_owned(),
    };
    let padding = if padding > 0 { format!("X-Padding: {}\r\n", "x".repeat(padding)) } else { String::new() };
    Ok(format!("GET {path} HTTP/1.1\r\nHost: {to}\r\n{padding}\r\n"))
}

/// A text with `\r`, `\n` and `\\` for what they stand for.
fn unescaped(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word.chars();
    while let Some(c) = rest.next() {
        text.push(match (c, rest.clone().next()) {
            ('\\', Some(next @ ('r' | 'n' | '\\'))) => {
                rest.next();
                if next == 'r' {
                    '\r'
                } else if next == 'n' {
                    '\n'
                } else {
                    '\\'
                }
            }
            (c, _) => c,
        });
    }
    text
}

#[derive(Debug)]
struct Rude {
    to: String,
    count: u32,
    manner: Manner,
    request: String,
}

impl Fault for Rude {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let Rude { to, count, manner, request } = self;
        let job = Job::Clients { to: looked_up(to)?, count: *count, manner: *manner, request: request.clone() };
        Ok(vec![Deed::Change(Change::Helper(Helper::planned(job)?))])
    }
}

/// The first address of a name.
pub(super) fn looked_up(to: &str) -> Result<SocketAddr, ApplyError> {
    let failed =
        |reason: String| ApplyError::Missing { name: to.to_owned(), expected: "an address".to_owned(), reason };
    let found = to.to_socket_addrs().map_err(|error| failed(format!("{}: name another", plain(&error))))?.next();
    found.ok_or_else(|| failed("it has none: name another".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Asked, Nobody};

    #[test]
    fn who_and_how_many_are_said_before() {
        for (text, said) in [
            ("slow-readers 127.0.0.1:80 5 2KiB/s get /large", "5 slow readers to 127.0.0.1:80: not running → running"),
            ("slow-writers 127.0.0.1:80 1 text 'PING\\r\\n'", "1 slow writer to 127.0.0.1:80: not running → running"),
            ("silent-connections [::1]:80 1k", "1000 silent connections to [::1]:80: not running → running"),
        ] {
            let deeds = Asked::parse(text).unwrap().plan(&Nobody).unwrap();
            assert_eq!(deeds.iter().map(Deed::words).collect::<Vec<_>>(), [said]);
        }
        for bad in
            ["slow-readers 80 5", "slow-readers a:80 0", "slow-readers a:80 5 1KiB", "slow-writers a:80 5 every 1us"]
        {
            assert!(Asked::parse(bad).is_err(), "{bad}");
        }
        for bad in ["slow-writers a:80 5 get large", "silent-connections a:80 60001", "silent-connections a:80 5 get /"]
        {
            assert!(Asked::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_has_its_line_ends() {
        assert_eq!(unescaped(r"PING\r\n\\n\x"), "PING\r\n\\n\\x");
    }
}
