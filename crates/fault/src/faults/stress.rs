//! Load on the machine beside the target: stress-ng, with its own words without dashes.
//!
//! `cpu 2 io 2 vm 1 vm-bytes 128M hdd 2 timeout 30s` is `stress-ng --cpu 2 --io 2 --vm 1 --vm-bytes 128M --hdd 2 --timeout
//! 30s`. Bounded: it ends by itself after its timeout, an hour where none is named. It works in a folder of its own, which is
//! removed with what it wrote. Ended at once (SIGKILL), with all its workers ([`crate::child`]).

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::child::Child;
use crate::error::ApplyError;
use model::units::{count, duration_ns};
use std::sync::Arc;

/// Stressors, with the number of workers behind them.
const WORKERS: &[&str] = &["cpu", "io", "vm", "hdd", "switch", "fork", "cache", "sock", "timer", "pipe"];
/// Sizes, and with which letters they end.
const SIZES: &[&str] = &["vm-bytes", "hdd-bytes"];
/// Percentages.
const SHARES: &[&str] = &["cpu-load"];
/// The longest that one lasts, seconds.
const TIMEOUT_S_MAX: u64 = 3600;
/// The most workers of one kind.
const WORKERS_MAX: u64 = 1024;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "stress",
    takes: "'cpu N io N vm N vm-bytes 128M hdd N hdd-bytes 1G cpu-load 50 switch N fork N cache N sock N timer N pipe N timeout 30s'",
    example: "'cpu 2 io 2 vm 1 vm-bytes 128M hdd 2 timeout 30s'",
    does: "puts load on the machine beside the target, with stress-ng; any of its words, an hour at the longest",
    needs: "stress-ng; room for what hdd writes in the folder for temporary files",
    undone: Undoing::Back("ended with all its workers, and its folder removed"),
    parse: |words| {
        let expected = "stressors with their number of workers, such as 'cpu 2 io 1 timeout 30s'";
        let mut arguments = Vec::new();
        let (mut has_workers, mut has_timeout) = (false, false);
        let text = words.next(expected)?;
        let mut all: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        while words.has_more() {
            all.push(words.next(expected)?);
        }
        for pair in all.chunks(2) {
            let (name, value) = (pair[0].as_str(), pair.get(1).map(String::as_str));
            let is_known = match (name, value) {
                (name, Some(value)) if WORKERS.contains(&name) => {
                    has_workers = true;
                    count(value).is_ok_and(|n| (1..=WORKERS_MAX).contains(&n))
                }
                (name, Some(value)) if SIZES.contains(&name) => is_size(value),
                (name, Some(value)) if SHARES.contains(&name) => value.parse().is_ok_and(|n: u8| n <= 100),
                ("timeout", Some(value)) => {
                    has_timeout = true;
                    duration_ns(value).is_ok_and(|ns| (1..=TIMEOUT_S_MAX).contains(&(ns / 1_000_000_000)))
                }
                _ => false,
            };
            if !is_known {
                let known = [WORKERS, SIZES, SHARES, &["timeout"]].concat().join(", ");
                let got = [Some(name), value].into_iter().flatten().collect::<Vec<_>>().join(" ");
                return Err(words.bad(&format!("one of {known} and its value (a timeout from 1s to 1h)"), Some(&got)));
            }
            let value = value.unwrap_or_default();
            let value = match name {
                "timeout" => format!("{}s", duration_ns(value).unwrap_or_default() / 1_000_000_000),
                name if WORKERS.contains(&name) => count(value).unwrap_or_default().to_string(),
                _ => value.to_owned(),
            };
            arguments.extend([format!("--{name}"), value]);
        }
        if !has_workers {
            return Err(words.bad(expected, all.first().map(String::as_str)));
        }
        if !has_timeout {
            arguments.extend(["--timeout".to_owned(), format!("{TIMEOUT_S_MAX}s")]);
        }
        arguments.push("--quiet".to_owned());
        Ok(Arc::new(Stressing { arguments }))
    },
};

#[derive(Debug)]
struct Stressing {
    arguments: Vec<String>,
}

impl Fault for Stressing {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        Ok(vec![Deed::Change(Change::Child(Child::planned("stress-ng", self.arguments.clone(), true)))])
    }
}

/// `128M`, as stress-ng has sizes: bytes, or with b, k, m, g behind them.
fn is_size(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| "bkmgBKMG".contains(c));
    text.len() - digits.len() <= 1 && digits.parse::<u64>().is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use crate::faults::Asked;

    #[test]
    fn its_words_are_stress_ngs_and_bounded() {
        let words = |text: &str| {
            let asked = Asked::parse(&format!("stress {text}")).map_err(|error| error.to_string())?;
            Ok::<_, String>(asked.plan(&super::super::Nobody).unwrap()[0].words())
        };
        let said = words("'cpu 2 io 2 vm 1 vm-bytes 128M hdd 2 timeout 30s'").unwrap();
        let line = "stress-ng --cpu 2 --io 2 --vm 1 --vm-bytes 128M --hdd 2 --timeout 30s --quiet";
        assert_eq!(said, format!("{line}: not running → running"));
        assert_eq!(words("cpu 2 io 2 vm 1 vm-bytes 128M hdd 2 timeout 30s").unwrap(), said, "without quotes");
        assert!(words("cpu 1").unwrap().contains("--timeout 3600s"));
        for bad in ["", "cpu", "cpu 0", "cpu 9999999", "timeout 5s", "cpu 1 timeout 2h", "cpu 1 exec rm", "vm-bytes -1"]
        {
            assert!(words(bad).is_err(), "{bad}");
        }
    }
}
