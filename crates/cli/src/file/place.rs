//! Where something stands in a file, and sentences that say so.
//!
//! A place is `FILE:LINE:COLUMN`, both from 1, columns in characters: editors and terminals jump to it.

use crate::exit::Failure;
use std::fmt;

/// A text with the name of the file it is from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file, as it was named.
    pub name: &'a str,
    /// What it holds.
    pub text: &'a str,
}

impl Source<'_> {
    /// The place of a byte.
    pub fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            file: self.name.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: String,
    line: usize,
    column: usize,
}

impl Place {
    /// What is wrong here, in a sentence: bad input, status 2.
    pub fn wrong(&self, sentence: impl fmt::Display) -> Failure {
        Failure::usage(format!("{self}: {sentence}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        let source = Source { name: "f", text: "a\nµb = 1\n" };
        let places = [0, 2, 4, 9, 99].map(|offset| source.place(offset).to_string());
        assert_eq!(places, ["f:1:1", "f:2:1", "f:2:2", "f:2:7", "f:3:1"]);
    }
}
