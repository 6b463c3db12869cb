//! From a request's head to its answer: a file below the root, or one of the scenario paths.
//!
//! With a root there are files and nothing else. Without one the server answers `/` and the scenario
//! paths, which make a target of known behaviour. Deciding does no work yet and writes nothing.

use std::rc::Rc;

use super::conditions::{self, Part};
use super::files::{Entry, Files, Found};
use super::request::{Head, Method};
use crate::limits;

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The text at `/`.
    Index,
    /// A reply with the status that the request asked for.
    Status(u16),
    /// The server's own refusal: status, and what was expected.
    Refuse(u16, &'static str),
    /// 405, with the methods that are allowed.
    NotAllowed(&'static str),
    /// 301 to the same path with a slash.
    AddSlash(Vec<u8>),
    Sleep {
        ms: u64,
    },
    Burn {
        us: u64,
    },
    Bytes {
        n: u64,
    },
    Chunked {
        n: u64,
        size: u64,
    },
    /// The request's own body.
    Echo,
    File(Rc<Entry>, Part),
}

const FILE_METHODS: &str = "GET, HEAD";
const SCENARIO_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// The text at `/` of a server without a root.
pub(crate) const INDEX: &str = "plimsoll serve http: a reference server to put load on\n\
    /sleep?ms=N         answers after N milliseconds, others meanwhile go on\n\
    /cpu?us=N           answers after N microseconds of processor time\n\
    /bytes?n=N          N bytes\n\
    /chunked?n=N&size=M N chunks of M bytes\n\
    /status?code=N      status N\n\
    /echo               the request's body\n";

/// Decides on an answer. `now_ns` is monotonic.
pub(crate) fn route(head: &Head<'_>, files: Option<&mut Files>, now_ns: u64) -> Answer {
    match files {
        Some(files) => file(head, files, now_ns),
        None => scenario(head),
    }
}

fn file(head: &Head<'_>, files: &mut Files, now_ns: u64) -> Answer {
    if !matches!(head.method, Method::Get | Method::Head) {
        return Answer::NotAllowed(FILE_METHODS);
    }
    match files.find(head.path, now_ns) {
        Found::File(entry) => {
            let part = conditions::part(head, &entry.etag, entry.modified_s, entry.size());
            Answer::File(entry, part)
        }
        Found::Folder => {
            // Two slashes at the start would name another host.
            let from = head.path.iter().position(|&byte| byte != b'/').unwrap_or(0);
            let mut location = [b"/", &head.path[from..], b"/"].concat();
            if !head.query.is_empty() {
                location.push(b'?');
                location.extend_from_slice(head.query);
            }
            Answer::AddSlash(location)
        }
        Found::Not(status, why) => Answer::Refuse(status, why),
    }
}

fn scenario(head: &Head<'_>) -> Answer {
    if matches!(head.method, Method::Options | Method::Trace | Method::Connect) {
        return Answer::NotAllowed(SCENARIO_METHODS);
    }
    let number = |name: &[u8], max: u64| parameter(head.query, name).filter(|value| *value <= max);
    match head.path {
        b"/" => Answer::Index,
        b"/echo" => Answer::Echo,
        b"/sleep" => match number(b"ms", limits::SLEEP_MS_MAX) {
            Some(ms) => Answer::Sleep { ms },
            None => Answer::Refuse(400, "expected /sleep?ms=N with N up to 3600000"),
        },
        b"/cpu" => match number(b"us", limits::CPU_US_MAX) {
            Some(us) => Answer::Burn { us },
            None => Answer::Refuse(400, "expected /cpu?us=N with N up to 10000000"),
        },
        b"/bytes" => match number(b"n", limits::GENERATED_BYTES_MAX) {
            Some(n) => Answer::Bytes { n },
            None => Answer::Refuse(400, "expected /bytes?n=N with N up to 10737418240"),
        },
        b"/chunked" => {
            let (n, size) = (number(b"n", limits::CHUNKS_MAX), number(b"size", limits::GENERATED_BYTES_MAX));
            match (n, size) {
                (Some(n), Some(size)) if n.saturating_mul(size) <= limits::GENERATED_BYTES_MAX => {
                    Answer::Chunked { n, size }
                }
                _ => Answer::Refuse(
                    400,
                    "expected /chunked?n=N&size=M with N up to 100000000 and N * M up to 10737418240",
                ),
            }
        }
        b"/status" => match number(b"code", 599).filter(|code| *code >= 200) {
            Some(code) => Answer::Status(code as u16),
            None => Answer::Refuse(400, "expected /status?code=N with N from 200 to 599"),
        },
        _ => Answer::Refuse(404, "expected one of the paths that / lists"),
    }
}

/// The first parameter of that name, if it is a plain number.
fn parameter(query: &[u8], name: &[u8]) -> Option<u64> {
    let pair = query
        .split(|&byte| byte == b'&')
        .find(|pair| pair.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'=')))?;
    let digits = &pair[name.len() + 1..];
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_or_nothing() {
        for (query, expected) in [
            ("n=5", Some(5)),
            ("a=1&n=5&n=6", Some(5)),
            ("nn=1&n=2", Some(2)),
            ("n=0", Some(0)),
            ("n=18446744073709551615", Some(u64::MAX)),
            ("n=18446744073709551616", None),
            ("n=", None),
            ("n", None),
            ("n=-1", None),
            ("n=1k", None),
            ("", None),
        ] {
            assert_eq!(parameter(query.as_bytes(), b"n"), expected, "{query}");
        }
    }
}
