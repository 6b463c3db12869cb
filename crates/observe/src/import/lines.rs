//! Lines of a text that may be anything: cut, binary, endless. At most a stated number of bytes of one are held.

use crate::limits::IMPORT_LINE_BYTES_MAX;
use std::io::{BufRead, ErrorKind};

/// Lines looked at to tell one format from another.
const HEAD_LINES: usize = 40;
/// Characters of each.
const HEAD_CHARS: usize = 200;
/// Characters of a text that are shown in a message.
const SHOWN_MAX: usize = 60;

/// Reads lines.
pub(super) struct Lines<'r> {
    from: &'r mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
    head: Vec<String>,
    error: Option<String>,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number in the text; the first is 1.
    pub(super) number: u64,
    /// Its characters, without the line feed.
    pub(super) text: String,
    /// Whether it was longer than is held, or has bytes that no text has.
    pub(super) is_garbage: bool,
}

impl<'r> Lines<'r> {
    pub(super) fn new(from: &'r mut dyn BufRead) -> Self {
        Lines { from, line: Vec::new(), number: 0, head: Vec::new(), error: None }
    }

    /// Lines read so far.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Why reading stopped, if not at the end.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The first lines that are not empty.
    pub(super) fn head(&self) -> &[String] {
        &self.head
    }

    /// The next line that is not empty.
    pub(super) fn next(&mut self) -> Option<Line> {
        loop {
            let is_whole = self.fill()?;
            let bytes = self.line.trim_ascii_end();
            if bytes.is_empty() && is_whole {
                continue;
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            let is_garbage = !is_whole || text.chars().any(|c| c.is_control() && c != '\t');
            if self.head.len() < HEAD_LINES {
                self.head.push(text.chars().take(HEAD_CHARS).collect());
            }
            return Some(Line { number: self.number, text, is_garbage });
        }
    }

    /// Reads up to the end of a line; whether all of it was held. `None`: there is none.
    fn fill(&mut self) -> Option<bool> {
        self.line.clear();
        let mut is_whole = true;
        let mut is_any = false;
        while self.error.is_none() {
            let part = match self.from.fill_buf() {
                Ok(part) => part,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.error = Some(error.to_string());
                    break;
                }
            };
            if part.is_empty() {
                break;
            }
            is_any = true;
            let end = part.iter().position(|byte| *byte == b'\n');
            let held = &part[..end.unwrap_or(part.len())];
            let room = IMPORT_LINE_BYTES_MAX.saturating_sub(self.line.len());
            is_whole &= held.len() <= room;
            self.line.extend_from_slice(&held[..held.len().min(room)]);
            let used = end.map_or(part.len(), |at| at + 1);
            self.from.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(is_any);
        is_any.then_some(is_whole)
    }
}

/// What came, short enough for a message and safe for any terminal.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.trim().chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.trim().chars().count() > SHOWN_MAX { format!("{short}…") } else { short }
}

/// A figure as these programs print it: with a point or a locale's comma. None of theirs is longer than 1e18.
pub(super) fn figure(word: &str) -> Option<f64> {
    let first = word.bytes().next()?;
    if !(first.is_ascii_digit() || b"-+.,".contains(&first)) || word.len() > 40 {
        return None;
    }
    let value: f64 = match word.contains(',') {
        true if word.matches(',').count() == 1 && !word.contains('.') => word.replace(',', ".").parse().ok()?,
        true => return None,
        false => word.parse().ok()?,
    };
    (value.abs() <= 1e18).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(u64, String, bool)> {
        let mut from = text;
        let mut lines = Lines::new(&mut from);
        std::iter::from_fn(|| lines.next()).map(|line| (line.number, line.text, line.is_garbage)).collect()
    }

    #[test]
    fn lines_are_numbered_whatever_they_hold() {
        let line = |number, text: &str, is_garbage| (number, text.to_owned(), is_garbage);
        assert_eq!(all(b"a \r\n\n\tb\nc"), [line(1, "a", false), line(3, "\tb", false), line(4, "c", false)]);
        assert_eq!(all(b"\0\0\n\xff\n"), [line(1, "\0\0", true), line(2, "\u{fffd}", false)]);
        assert_eq!(all(b""), []);
        let long = all(&vec![b'x'; 3 * IMPORT_LINE_BYTES_MAX]);
        assert_eq!((long.len(), long[0].1.len(), long[0].2), (1, IMPORT_LINE_BYTES_MAX, true));
    }

    #[test]
    fn figures_have_a_point_or_a_comma() {
        assert_eq!(
            (figure("1.5"), figure("1,5"), figure("-0.0"), figure("7")),
            (Some(1.5), Some(1.5), Some(-0.0), Some(7.0))
        );
        for word in ["", "x", "1,5,5", "1.000,5", "nan", "inf", "1e999", "--", "-", "12x"] {
            assert_eq!(figure(word), None, "{word}");
        }
    }
}
