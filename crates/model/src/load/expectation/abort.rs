//! When a run is to end early, such as `errors > 10 % for 5s`: read, kept in the plan, and shown in one way of writing.
//!
//! The figure is that of the last stretch of so long, all its ticks together, and is looked at once a tick. The session ends
//! the run; `diagnose` judges it as an expectation that was not met, so its exit status is 3. Connections have no stretch
//! and cannot be named.

use crate::expectation::{Expectation, ExpectationError, Measure, wrong};
use crate::units::{duration_ns, show_duration_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

const FORM: &str = "a figure, a bound and for how long, such as 'errors > 10 % for 5s'";
const FIGURES: &str = "errors, rate, or a time such as p99, as these are of a stretch of the run";
const LENGTH: &str = "how long it must be so, at least 100ms, such as 5s";
/// The shortest stretch, nanoseconds: a tick is as long at the least.
const FOR_NS_MIN: u64 = 100_000_000;

/// A figure on whose wrong side of a limit the run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbortWhen {
    /// The figure, the side and the limit: the run ends when this is so.
    pub is: Expectation,
    /// The stretch whose figure it is, nanoseconds.
    pub for_ns: u64,
}

impl AbortWhen {
    /// Reads one.
    ///
    /// ```
    /// use model::abort::AbortWhen;
    /// assert_eq!(AbortWhen::read("errors>10% for 5s").unwrap().to_string(), "errors > 10.0 % for 5.00 s");
    /// assert!(AbortWhen::read("errors > 10 %").is_err(), "for how long?");
    /// ```
    ///
    /// # Errors
    /// [`ExpectationError`] where it is none.
    pub fn read(text: &str) -> Result<AbortWhen, ExpectationError> {
        let Some((figure, length)) = text.rsplit_once(" for ") else { return Err(wrong(text, FORM)) };
        let list = Expectation::list(figure)?;
        let [is] = list[..] else { return Err(wrong(text, FORM)) };
        if is.measure == Measure::Connections {
            return Err(wrong(figure.trim(), FIGURES));
        }
        let for_ns = duration_ns(length.trim()).ok().filter(|ns| *ns >= FOR_NS_MIN);
        let for_ns = for_ns.ok_or_else(|| wrong(length.trim(), LENGTH))?;
        Ok(AbortWhen { is, for_ns })
    }
}

impl fmt::Display for AbortWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Expectation { measure, bound, limit } = self.is;
        write!(f, "{measure} {} {} for {}", bound.sign(), measure.show(limit), show_duration_ns(self.for_ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_people_write_them() {
        for (text, expected) in [
            ("errors > 10 % for 5s", "errors > 10.0 % for 5.00 s"),
            (" p99 above 50 ms for 500ms ", "p99 > 50.0 ms for 500 ms"),
            ("rate<100/s for 1m", "rate < 100/s for 60.0 s"),
            ("errors > none for 1s", "errors > none for 1.00 s"),
        ] {
            assert_eq!(AbortWhen::read(text).map(|one| one.to_string()), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_was_expected() {
        for (text, expected) in [
            ("errors > 10 %", FORM),
            ("errors > 10 %, rate < 1/s for 5s", FORM),
            ("connections < 5 for 5s", FIGURES),
            ("errors > 10 % for ever", LENGTH),
            ("errors > 10 % for 1ms", LENGTH),
            ("errors > 10 for 5s", "a share such as 0.1 %, or none"),
        ] {
            assert_eq!(AbortWhen::read(text).map_err(|error| error.expected), Err(expected.to_owned()), "{text}");
        }
    }
}
