//! What a user expects of a run's findings, such as `findings excludes "swap-thrash"` or `share of "lock-contention" < 10 %`.
//!
//! `diagnose` judges them. A cause that could not be looked at meets nothing and fails nothing: that is undetermined.

use crate::expectation::{Bound, ExpectationError, Measure, share, split_bound, wrong};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

const FORM: &str = "'findings excludes \"ID\"', 'findings includes \"ID\"' or 'share of \"ID\" < 10 %'";

/// An expectation of one finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingExpectation {
    /// The finding's id.
    pub id: String,
    /// What is expected of it.
    pub is: FindingIs,
}

/// What is expected of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingIs {
    /// It is not supported.
    Excluded,
    /// It is supported.
    Included,
    /// What it explains of a loss, 0..=1.
    Share {
        /// On which side of the limit it is expected.
        bound: Bound,
        /// The limit.
        limit: f64,
    },
}

impl FindingExpectation {
    /// Reads one; `None` where the text is not about findings.
    ///
    /// ```
    /// use model::finding_expectation::FindingExpectation;
    /// let read = |text: &str| FindingExpectation::read(text).unwrap().unwrap().to_string();
    /// assert_eq!(read("findings excludes 'swap-thrash'"), "findings excludes \"swap-thrash\"");
    /// assert_eq!(read("share of lock-contention below 10%"), "share of \"lock-contention\" < 10.0 %");
    /// assert!(FindingExpectation::read("p99 < 5 ms").is_none());
    /// ```
    ///
    /// # Errors
    /// [`ExpectationError`]: it begins like one, and is none.
    pub fn read(text: &str) -> Option<Result<Self, ExpectationError>> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("findings ") {
            let (verb, id) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest, ""));
            let is = match verb {
                "excludes" | "exclude" => Some(FindingIs::Excluded),
                "includes" | "include" => Some(FindingIs::Included),
                _ => None,
            };
            let read = is.zip(id_of(id)).map(|(is, id)| FindingExpectation { id, is });
            return Some(read.ok_or_else(|| wrong(text, FORM)));
        }
        let rest = text.strip_prefix("share of ")?;
        let read = split_bound(rest).and_then(|(id, bound, limit)| Some((id_of(id)?, bound, limit)));
        let Some((id, bound, limit)) = read else { return Some(Err(wrong(text, FORM))) };
        Some(share(limit).map(|limit| FindingExpectation { id, is: FindingIs::Share { bound, limit } }))
    }
}

/// An id, in quotation marks or not.
fn id_of(text: &str) -> Option<String> {
    let text = text.trim();
    let bare = ['"', '\''].iter().find_map(|mark| text.strip_prefix(*mark)?.strip_suffix(*mark)).unwrap_or(text);
    let is_id = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_id.then(|| bare.to_owned())
}

impl fmt::Display for FindingExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        match self.is {
            FindingIs::Excluded => write!(f, "findings excludes \"{id}\""),
            FindingIs::Included => write!(f, "findings includes \"{id}\""),
            FindingIs::Share { bound, limit } => {
                write!(f, "share of \"{id}\" {} {}", bound.sign(), Measure::Errors.show(limit))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_is_refused_with_what_was_expected() {
        for text in [
            "findings",
            "findings has 'x'",
            "findings excludes",
            "findings excludes 'a b'",
            "share of x",
            "share of < 5 %",
        ] {
            let read = FindingExpectation::read(text);
            assert!(read.as_ref().is_none_or(Result::is_err), "{text}: {read:?}");
        }
        let said = FindingExpectation::read("share of 'x' < 10").unwrap().unwrap_err().to_string();
        assert_eq!(said, "expected a share such as 0.1 %, or none, got '10'");
    }
}
