//! Answers and nothing else: what gives first, with its evidence, remedy and command; what experiments and toggles decided, how two sides
//! compare.
//!
//! The report has these among its figures ([`crate::text`]); here they stand alone, for people, for pasting and for machines.

pub mod audit;
pub mod canary;
pub mod comparison;
pub mod confirmation;
pub mod diagnosis;
pub mod experiment;
pub mod repeats;
pub mod trend;
pub mod variants;

use model::plain::plain;
use model::recording::End;

/// What is said, behind how much of it was made, of how something that takes several runs ended.
fn ended(end: End) -> &'static str {
    match end {
        End::Complete => "",
        End::Interrupted => ", interrupted",
        End::Partial => ", cut off",
    }
}

/// Text from outside is no markup.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in plain(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_no_markup() {
        assert_eq!(escaped("a_b <script> `x` [l](u)"), "a\\_b \\<script\\> \\`x\\` \\[l\\](u)");
    }
}
