//! What each tool says about its run, brought to one form. A parser a file; each is tried on text
//! captured from the real tool where that was at hand (`fixtures/`), else on a document made
//! after the tool's own description of its format.
//! A parser never guesses: without the count of requests there is no result.

pub mod ab;
pub mod floor;
pub mod h2load;
pub mod k6;
pub mod oha;
pub mod plimsoll;
pub mod s_time;
pub mod vegeta;
pub mod wrk;

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;

/// What a tool left behind.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// Its standard output.
    pub stdout: &'a str,
    /// The folder it could write into.
    pub folder: &'a Path,
}

/// A tool's own account of its run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Reported {
    /// Requests with the reply that was due.
    pub ok: u64,
    /// Requests without.
    pub failed: u64,
    /// Response time, as far as the tool tells.
    pub response: Quantiles,
    /// 99th percentile of the response time outside the windows of probes, in µs.
    pub without_windows_p99_us: Option<f64>,
    /// How late requests were released, 99th percentile, in µs.
    pub lag_p99_us: Option<f64>,
    /// How long they waited for a connection, 99th percentile, in µs.
    pub queue_p99_us: Option<f64>,
    /// From being sent to their last byte, 99th percentile, in µs.
    pub service_p99_us: Option<f64>,
    /// Own peak of memory, in bytes.
    pub peak_rss_bytes: Option<u64>,
    /// The driver used: `epoll` or `uring`.
    pub driver: Option<String>,
    /// Whether the tool holds its own result to be valid.
    pub valid: Option<bool>,
    /// Why not.
    pub reasons: Vec<String>,
}

/// Quantiles in µs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p95_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
}

impl Quantiles {
    /// Sets the quantile a percentage names; the first value stays, others are not kept.
    fn set(&mut self, percent: f64, value_us: f64) {
        let slot = match percent {
            50.0 => &mut self.p50_us,
            90.0 => &mut self.p90_us,
            95.0 => &mut self.p95_us,
            99.0 => &mut self.p99_us,
            100.0 => &mut self.max_us,
            _ => return,
        };
        slot.get_or_insert(value_us);
    }
}

/// Turns what a tool left behind into its account.
pub type Parser = fn(Captured<'_>) -> Result<Reported>;

/// The JSON document in a text.
fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).context("its output is not one JSON document")
}

/// A count at a JSON pointer.
fn count(document: &Value, pointer: &str) -> Result<u64> {
    document
        .pointer(pointer)
        .and_then(Value::as_f64)
        .filter(|&value| value >= 0.0)
        .map(|value| value as u64)
        .with_context(|| format!("its document has no count at {pointer}"))
}

/// A number at a JSON pointer times `scale`; none where it is missing or null.
fn number(document: &Value, pointer: &str, scale: f64) -> Option<f64> {
    Some(document.pointer(pointer)?.as_f64()? * scale)
}

/// Sum of the numbers of an object whose key passes.
fn sum_of(document: &Value, pointer: &str, passes: impl Fn(&str) -> bool) -> Option<u64> {
    let object = document.pointer(pointer)?.as_object()?;
    let counted = object.iter().filter(|(key, _)| passes(key));
    Some(counted.filter_map(|(_, value)| value.as_u64()).sum())
}

/// `12.34us`, `1.19ms`, `2.00s`, `1.50m`, `1.00h` in µs.
fn duration_us(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (value, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        _ => return None,
    };
    Some(value.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Parses a text, with an empty folder.
    pub fn parse(parser: Parser, stdout: &str) -> Result<Reported> {
        parser(Captured { stdout, folder: Path::new("/nonexistent") })
    }

    #[test]
    fn durations_have_their_unit() {
        for (text, expected) in [
            ("236.00us", Some(236.0)),
            ("1.19ms", Some(1190.0)),
            ("2.50s", Some(2.5e6)),
            ("1.00m", Some(60e6)),
            ("12", None),
            ("us", None),
            ("1.0parsecs", None),
        ] {
            assert_eq!(duration_us(text), expected, "{text}");
        }
    }

    #[test]
    fn no_parser_makes_a_result_of_nothing() {
        let parsers: [(&str, Parser); 8] = [
            ("wrk", wrk::parse),
            ("ab", ab::parse),
            ("h2load", h2load::parse),
            ("floor", floor::parse),
            ("plimsoll", plimsoll::parse),
            ("oha", oha::parse),
            ("vegeta", vegeta::parse),
            ("k6", k6::parse),
        ];
        for (name, parser) in parsers {
            for text in ["", "{}", "[]", "null", "requests: 1", "Complete requests:"] {
                assert!(parse(parser, text).is_err(), "{name} on {text:?}");
            }
        }
    }
}
