//! What a client does when a request failed: gives it up, waits, or tries again.

use crate::units::{duration_ns, show_duration_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most retries of one request.
pub const RETRIES_MAX: u32 = 1000;

/// What a client does when an attempt at a request failed. Whatever it does, that is one request: its response time runs from the
/// moment it was due over all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OnError {
    /// The request has failed.
    #[default]
    FailFast,
    /// A request whose connection was refused or cut waits until it is there again, however long that takes; any other failure
    /// is one.
    Wait,
    /// It is sent again after a while, so many times.
    Retry {
        /// Attempts after the first, at the most.
        times: u32,
        /// How long the first of these waits, nanoseconds; each further one twice as long as the one before.
        backoff_ns: u64,
        /// By which share of that the wait is made shorter at random, 0 to 1.
        jitter: f64,
        /// Which share of the requests started so far may be retries; null: any.
        budget: Option<f64>,
    },
}

impl OnError {
    /// Whether an attempt that failed is always the end of its request.
    pub fn is_fail_fast(&self) -> bool {
        *self == OnError::FailFast
    }

    /// How long the attempt after so many failed ones waits, nanoseconds; `drawn`: uniform between 0 and 1.
    pub fn wait_ns(&self, failed: u32, drawn: f64) -> u64 {
        let OnError::Retry { backoff_ns, jitter, .. } = *self else { return 0 };
        let whole_ns = backoff_ns.saturating_mul(1 << failed.saturating_sub(1).min(32));
        (whole_ns as f64 * (1.0 - jitter * drawn)) as u64
    }
}

/// Why a text is no policy, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected fail-fast, wait or retry:N:BACKOFF[:JITTER], such as retry:3:100ms or retry:3:100ms:50%, got {got:?}{why}"
)]
pub struct OnErrorError {
    got: String,
    why: String,
}

impl FromStr for OnError {
    type Err = OnErrorError;

    fn from_str(text: &str) -> Result<Self, OnErrorError> {
        let error = |why: String| OnErrorError { got: text.to_owned(), why };
        let rest = match text {
            "fail-fast" => return Ok(OnError::FailFast),
            "wait" => return Ok(OnError::Wait),
            _ => text.strip_prefix("retry:").ok_or_else(|| error(String::new()))?,
        };
        let parts: Vec<&str> = rest.split(':').collect();
        let (times, backoff, jitter) = match parts[..] {
            [times, backoff] => (times, backoff, None),
            [times, backoff, jitter] => (times, backoff, Some(jitter)),
            _ => return Err(error(String::new())),
        };
        let times = times.parse::<u32>().ok().filter(|times| (1..=RETRIES_MAX).contains(times));
        let times = times.ok_or_else(|| error(format!(": N is a number from 1 to {RETRIES_MAX}")))?;
        let backoff_ns = duration_ns(backoff).map_err(|why| error(format!(": BACKOFF: {why}")))?;
        let jitter = match jitter {
            None => 0.0,
            Some(jitter) => share(jitter).ok_or_else(|| error(": JITTER is a share from 0% to 100%".to_owned()))?,
        };
        Ok(OnError::Retry { times, backoff_ns, jitter, budget: None })
    }
}

/// A share such as `10%`; `None` where it is none from 0 to 100 %.
pub fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl fmt::Display for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            OnError::FailFast => f.write_str("fail-fast"),
            OnError::Wait => f.write_str("wait"),
            OnError::Retry { times, backoff_ns, jitter, budget } => {
                write!(f, "retry {times} times after {}", show_duration_ns(backoff_ns as f64))?;
                if jitter > 0.0 {
                    write!(f, ", up to {} % sooner", (jitter * 100.0).round())?;
                }
                budget.map_or(Ok(()), |share| write!(f, ", at most {} % of the requests", share * 100.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        let retry = |times, ms: u64, jitter| OnError::Retry { times, backoff_ns: ms * 1_000_000, jitter, budget: None };
        assert_eq!("fail-fast".parse(), Ok(OnError::FailFast));
        assert_eq!("wait".parse(), Ok(OnError::Wait));
        assert_eq!("retry:3:100ms".parse(), Ok(retry(3, 100, 0.0)));
        assert_eq!("retry:1:2s:50%".parse(), Ok(retry(1, 2000, 0.5)));
        for bad in
            ["", "retry", "retry:", "retry:0:1s", "retry:1001:1s", "retry:3", "retry:3:soon", "retry:3:1s:2", "stop"]
        {
            let said = bad.parse::<OnError>().unwrap_err().to_string();
            assert!(said.contains("expected fail-fast, wait or retry:N:BACKOFF"), "{bad}: {said}");
        }
        assert_eq!(
            ["10%", "0%", "100%", "101%", "-1%", "x%", "0.1"].map(share),
            [Some(0.1), Some(0.0), Some(1.0), None, None, None, None]
        );
    }

    #[test]
    fn waits_double_and_jitter_makes_them_shorter_only() {
        let retry: OnError = "retry:5:100ms:50%".parse().unwrap();
        assert_eq!([1, 2, 3].map(|failed| retry.wait_ns(failed, 0.0) / 1_000_000), [100, 200, 400]);
        assert_eq!(retry.wait_ns(1, 1.0), 50_000_000);
        assert_eq!(retry.wait_ns(u32::MAX, 0.0), 100_000_000 << 32, "bounded");
        assert_eq!(OnError::Wait.wait_ns(3, 0.5), 0);
    }
}
