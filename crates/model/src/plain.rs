//! Text from outside made safe to print: from files, networks, headers, names of processes.
//!
//! A terminal obeys control characters: they retitle it, paint over what was said, and on some type for the user. The
//! marks that turn the direction of writing make a name look like another one.

use std::borrow::Cow;

/// The text with `?` in the place of each character that steers a terminal: C0 and C1 (line ends among them), delete,
/// and the marks of direction (Unicode's bidirectional controls).
pub fn plain(text: &str) -> Cow<'_, str> {
    without(text, steers)
}

/// The same of a text of several lines: their ends stay.
pub fn plain_lines(text: &str) -> Cow<'_, str> {
    without(text, |c| c != '\n' && steers(c))
}

fn without(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_bad(c) { '?' } else { c }).collect())
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_is_left() {
        for (text, expected) in [
            ("as it is, ü → µ", "as it is, ü → µ"),
            ("\u{1b}[2J\u{9b}1m\r\u{7}\0\u{7f}", "?[2J?1m????"),
            ("exe\u{202e}gpj.\u{2066}x\u{61c}", "exe?gpj.?x?"),
            ("one\ntwo\ttabbed", "one?two?tabbed"),
        ] {
            assert_eq!(plain(text), expected);
        }
        assert_eq!(plain_lines("one\ntwo\u{1b}c\n"), "one\ntwo?c\n");
        for c in (0..=0x2fff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert_eq!(plain(&c.to_string()), "?", "{c:?}");
        }
    }
}
