//! The faults of a run: what is done to the target or its host, at which moment of the run's clock, and for how long.
//!
//! What a fault's words mean is for `fault` to say; here they are text. Each has a number in a run, from 1 in the order in
//! which they were asked for, which events name ([`crate::event::Details::fault`]).

use crate::units::{duration_ns, show_duration_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most faults of a run.
pub const FAULTS_MAX: usize = 32;

/// How a fault of a run is written.
pub const FORM: &str = "NAME[ ARGUMENTS]@TIME[:TIME], such as 'stop target@10s:5s'";

/// A fault of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadFault {
    /// Its name and arguments, as they are written: `stop target`.
    pub fault: String,
    /// When it is done, nanoseconds since the run's start, warm-up included.
    pub at_ns: u64,
    /// How long it lasts, nanoseconds; `None`: to the end of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
}

impl LoadFault {
    /// `stop target@10s:5s`: stopped 10 s after the run's start, for 5 s.
    ///
    /// # Errors
    /// What was expected, as half a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("expected {FORM}");
        let (fault, when) = text.rsplit_once('@').ok_or_else(form)?;
        let (at, length) = when.split_once(':').map_or((when, None), |(at, length)| (at, Some(length)));
        let at_ns = duration_ns(at.trim()).map_err(|_| form())?;
        let for_ns = length.map(|length| duration_ns(length.trim())).transpose().map_err(|_| form())?;
        if fault.trim().is_empty() || for_ns == Some(0) {
            return Err(form());
        }
        Ok(LoadFault { fault: fault.trim().to_owned(), at_ns, for_ns })
    }

    /// Its name alone: `stop`.
    pub fn name(&self) -> &str {
        self.fault.split_whitespace().next().unwrap_or_default()
    }
}

impl fmt::Display for LoadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.fault, show_duration_ns(self.at_ns as f64))?;
        match self.for_ns {
            Some(ns) => write!(f, " for {}", show_duration_ns(ns as f64)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_its_words_a_moment_and_perhaps_a_length() {
        let parsed = |text: &str| LoadFault::parse(text).map(|fault| (fault.fault, fault.at_ns, fault.for_ns));
        assert_eq!(parsed("stop target@10s:5s"), Ok(("stop target".to_owned(), 10_000_000_000, Some(5_000_000_000))));
        assert_eq!(parsed("kill port:80 @ 500ms"), Ok(("kill port:80".to_owned(), 500_000_000, None)));
        // The last one counts: a command may have one in it.
        let command = "command 'ssh a@b' 'ssh a@c'@1s:2s";
        assert_eq!(parsed(command).unwrap().0, "command 'ssh a@b' 'ssh a@c'");
        for bad in ["", "stop", "stop target", "@1s", "stop@", "stop@x", "stop@1s:", "stop@1s:0s", "stop@1s:2s:3s"] {
            assert!(parsed(bad).unwrap_err().contains("such as"), "{bad}");
        }
        let fault = LoadFault::parse("stop target@10s:5s").unwrap();
        assert_eq!((fault.name(), fault.to_string()), ("stop", "stop target at 10.0 s for 5.00 s".to_owned()));
    }
}
