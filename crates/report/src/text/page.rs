//! A page of text: lines of painted spans, wrapped to a width, safe for any terminal.
//!
//! The one place that writes escape sequences, folds to ASCII and takes control characters out of what came from
//! outside. Widths count characters: East Asian wide ones in a target's name may run over.

use super::{Paint, Style};
use model::plain::plain;
use std::io::{self, Write};

/// A line's parts.
pub type Span = (Paint, String);

/// Writes lines.
pub struct Page<'w, W: Write> {
    to: &'w mut W,
    style: Style,
}

impl<'w, W: Write> Page<'w, W> {
    /// A page on a writer.
    pub fn new(to: &'w mut W, style: Style) -> Self {
        Page { to, style }
    }

    /// How it is drawn.
    pub fn style(&self) -> Style {
        self.style
    }

    /// An empty line.
    pub fn gap(&mut self) -> io::Result<()> {
        writeln!(self.to)
    }

    /// One line; blanks at its end are left out.
    pub fn line(&mut self, spans: &[Span]) -> io::Result<()> {
        let last = spans.iter().rposition(|(_, text)| !text.trim_end().is_empty());
        for (i, (paint, text)) in spans.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
            let text = if Some(i) == last { text.trim_end() } else { text };
            let text = self.safe(text);
            match paint.code() {
                Some(code) if self.style.color => write!(self.to, "\x1b[{code}m{text}\x1b[0m")?,
                _ => self.to.write_all(text.as_bytes())?,
            }
        }
        writeln!(self.to)
    }

    /// A label, then text wrapped beside it and indented below it.
    pub fn wrapped(&mut self, indent: usize, label: Span, paint: Paint, text: &str) -> io::Result<()> {
        let room = self.style.width.saturating_sub(indent).max(20);
        let mut first = Some(label);
        for line in wrap(text, room) {
            let (label_paint, label) = first.take().unwrap_or((Paint::Plain, String::new()));
            self.line(&[(label_paint, format!("{label:indent$}")), (paint, line)])?;
        }
        Ok(())
    }

    fn safe(&self, text: &str) -> String {
        let mut safe = String::with_capacity(text.len());
        // A name must not steer the terminal.
        for c in plain(text).chars() {
            match c {
                '\u{a0}' => safe.push(' '),
                c if self.style.unicode || c.is_ascii() => safe.push(c),
                c => safe.push_str(ascii(c)),
            }
        }
        safe
    }
}

/// The nearest ASCII.
fn ascii(c: char) -> &'static str {
    match c {
        'µ' => "u",
        '×' => "x",
        '±' => "+-",
        '–' | '−' | '—' => "-",
        '…' => "...",
        '·' => "-",
        '→' => "->",
        '←' => "<-",
        '≥' => ">=",
        '≤' => "<=",
        '’' | '‘' => "'",
        '“' | '”' => "\"",
        _ => "?",
    }
}

/// Text in lines of at most `room` characters; a word that is longer is cut.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    // Not at a no-break space.
    for word in text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            lines.push(String::new());
            used = 0;
        }
        let mut word: Vec<char> = word.chars().collect();
        while used == 0 && word.len() > room {
            let rest = word.split_off(room);
            lines.last_mut().into_iter().for_each(|line| line.extend(&word));
            lines.push(String::new());
            word = rest;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            used += word.len();
            line.extend(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("of 12\u{a0}MiB", 8), ["of", "12\u{a0}MiB"]);
    }

    #[test]
    fn what_came_from_outside_cannot_steer_the_terminal() {
        let mut out = Vec::new();
        let style = Style { color: true, width: 80, unicode: true };
        Page::new(&mut out, style).line(&[(Paint::Bad, "a\x1b[2J\u{9b}b\u{202e}\r\n\0c  ".to_owned())]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\x1b[31ma?[2J?b????c\x1b[0m\n");
    }
}
