//! A page of text: lines of painted spans, wrapped to a width, safe for any terminal; or the same lines kept as they are,
//! for a page that is not text.
//!
//! The one place that writes escape sequences, folds to ASCII and takes control characters out of what came from
//! outside. Widths count characters: East Asian wide ones in a target's name may run over.

use super::{Paint, Style};
use model::plain::plain;
use std::io::{self, Sink, Write};

/// A first part that ends in a blank and is no longer than this is a label, characters.
pub(crate) const LABEL_MAX: usize = 20;
/// Wider than any line: of a page whose lines are kept.
const UNBROKEN: usize = usize::MAX / 2;

/// A line's parts.
pub type Span = (Paint, String);

/// Writes lines.
pub struct Page<'w, W: Write> {
    to: To<'w, W>,
    style: Style,
}

/// Where lines go.
enum To<'w, W: Write> {
    Text(&'w mut W),
    Lines(&'w mut Vec<Vec<Span>>),
}

impl<'w> Page<'w, Sink> {
    /// A page whose lines are kept, unbroken however long, a gap as a line without spans.
    pub fn keeping(lines: &'w mut Vec<Vec<Span>>) -> Self {
        Page { to: To::Lines(lines), style: Style { color: true, width: UNBROKEN, unicode: true } }
    }
}

impl<'w, W: Write> Page<'w, W> {
    /// A page on a writer.
    pub fn new(to: &'w mut W, style: Style) -> Self {
        Page { to: To::Text(to), style }
    }

    /// How it is drawn.
    pub fn style(&self) -> Style {
        self.style
    }

    /// An empty line.
    pub fn gap(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Text(to) => writeln!(to),
            To::Lines(lines) => {
                lines.push(Vec::new());
                Ok(())
            }
        }
    }

    /// One line; blanks at its end are left out. What is wider than the page goes on below the text behind its label.
    pub fn line(&mut self, spans: &[Span]) -> io::Result<()> {
        let whole: String = spans.iter().map(|(_, text)| text.as_str()).collect();
        if whole.trim_end().chars().count() <= self.style.width {
            return self.row(spans);
        }
        let lines = fold(spans, self.style.width);
        lines.iter().try_for_each(|line| self.row(line))
    }

    /// A row of a table, a path or a command: as wide as it is, as it means nothing in two parts.
    pub fn row(&mut self, spans: &[Span]) -> io::Result<()> {
        let last = spans.iter().rposition(|(_, text)| !text.trim_end().is_empty());
        let spans = spans.iter().enumerate().take(last.map_or(0, |last| last + 1));
        let spans = spans.map(|(i, (paint, text))| (paint, if Some(i) == last { text.trim_end() } else { text }));
        match &mut self.to {
            To::Lines(lines) => {
                lines.push(spans.map(|(paint, text)| (*paint, plain(text).into_owned())).collect());
                Ok(())
            }
            To::Text(to) => {
                for (paint, text) in spans {
                    let text = safe(text, self.style.unicode);
                    match paint.code() {
                        Some(code) if self.style.color => write!(to, "\x1b[{code}m{text}\x1b[0m")?,
                        _ => to.write_all(text.as_bytes())?,
                    }
                }
                writeln!(to)
            }
        }
    }

    /// A label, then text wrapped beside it and indented below it.
    pub fn wrapped(&mut self, indent: usize, label: Span, paint: Paint, text: &str) -> io::Result<()> {
        let room = self.style.width.saturating_sub(indent).max(20);
        let mut first = Some(label);
        for line in wrap(text, room) {
            let (label_paint, label) = first.take().unwrap_or((Paint::Plain, String::new()));
            self.row(&[(label_paint, format!("{label:indent$}")), (paint, line)])?;
        }
        Ok(())
    }
}

/// A name must not steer the terminal.
pub(crate) fn safe(text: &str, is_unicode: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '\u{a0}' => safe.push(' '),
            c if is_unicode || c.is_ascii() => safe.push(c),
            c => safe.push_str(ascii(c)),
        }
    }
    safe
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

/// Units that stay with their figure.
const UNITS: [&str; 24] = [
    "ns", "µs", "us", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "B/s", "KiB/s", "MiB/s", "GiB/s", "CPU-s",
    "cores", "core", "times", "lines", "rows", "Hz", "pages",
];
/// Signs that stay with the figure behind them.
const SIGNS: [&str; 7] = ["≥", "≤", "<", ">", "±", "×", "≈"];

/// Text whose figures keep their units, signs and the names of quantiles: `p99 ≥ 4 ms` is not broken.
pub fn joined(text: &str) -> String {
    let begins_figure =
        |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || SIGNS.iter().any(|s| s.starts_with(c)));
    let is_quantile = |word: &str| {
        word.strip_prefix('p').is_some_and(|q| !q.is_empty() && q.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    let mut whole = String::with_capacity(text.len());
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        whole.push_str(word);
        let Some(next) = words.peek() else { break };
        let is_figure = word.ends_with(|c: char| c.is_ascii_digit());
        // As in "(p99 4 ms".
        let bare = word.rsplit('\u{a0}').next().unwrap_or(word).trim_start_matches(['(', '"', '\'']);
        let unit = next.trim_end_matches([',', '.', ';', ':', ')', '!', '?']);
        let is_one = (is_figure && UNITS.contains(&unit))
            || ((SIGNS.contains(&bare) || is_quantile(bare) || bare == "max") && begins_figure(next));
        whole.push(if is_one { '\u{a0}' } else { ' ' });
    }
    whole
}

/// Painted text in lines of at most `width` characters, broken at blanks; all but the first begin below the text behind
/// the first line's label.
pub(crate) fn fold(spans: &[Span], width: usize) -> Vec<Vec<Span>> {
    let text: String = spans.iter().map(|(_, text)| text.as_str()).collect();
    let text = joined(&text);
    let paints: Vec<Paint> = spans.iter().flat_map(|(paint, text)| text.chars().map(|_| *paint)).collect();
    let painted: Vec<(char, Paint)> = text.chars().zip(paints).collect();
    let indent = match spans {
        [(_, label), _, ..] if label.ends_with(' ') && label.chars().count() <= LABEL_MAX => label.chars().count(),
        _ => painted.iter().take_while(|(c, _)| *c == ' ').count() + 2,
    };
    let mut lines = Vec::new();
    let mut from = 0;
    while from < painted.len() {
        let start = if from == 0 { 0 } else { indent };
        let room = width.saturating_sub(start).max(1);
        let rest = &painted[from..];
        // A blank within the label is no place to break at.
        let first = if from == 0 { indent } else { 1 };
        let cut = match rest.len() > room {
            true => (first..=room).rev().find(|at| rest[*at].0 == ' ').unwrap_or_else(|| {
                // A word that is longer stays whole.
                (room..rest.len()).find(|at| rest[*at].0 == ' ').unwrap_or(rest.len())
            }),
            false => rest.len(),
        };
        let mut line = vec![(Paint::Plain, " ".repeat(start))];
        for (c, paint) in &rest[..cut] {
            match line.last_mut() {
                Some((last, text)) if last == paint => text.push(*c),
                _ => line.push((*paint, c.to_string())),
            }
        }
        lines.push(line);
        from += cut + rest[cut..].iter().take_while(|(c, _)| *c == ' ').count();
    }
    lines
}

/// Text in lines of at most `room` characters; a word that is longer is cut, a figure stays with its unit.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let text = &joined(text);
    let mut lines = vec![String::new()];
    let mut used = 0;
    // Not at a no-break space, unless what it holds together is longer than a line: then figures alone keep their units.
    let loose = |word: &str| match word.chars().count() > room {
        true => joined(&word.replace('\u{a0}', " ")),
        false => word.to_owned(),
    };
    let text: Vec<String> = text.split([' ', '\t', '\n', '\r']).map(loose).collect();
    for word in text.iter().flat_map(|words| words.split(' ')).filter(|word| !word.is_empty()) {
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
        assert_eq!(wrap("up\u{a0}to\u{a0}12\u{a0}MiB\u{a0}each", 10), ["up to", "12\u{a0}MiB", "each"]);
    }

    #[test]
    fn a_figure_keeps_its_unit_and_its_name() {
        let lines = |text: &str, room| wrap(text, room).join("|").replace('\u{a0}', " ");
        assert_eq!(lines("it took 1.2 % of", 12), "it took|1.2 % of");
        assert_eq!(lines("about (p99 ≥ 4.89 s), more", 15), "about|(p99 ≥ 4.89 s),|more");
        assert_eq!(lines("up to ± 3.0 %, then 4 things", 14), "up to ± 3.0 %,|then 4 things");
        assert_eq!(lines("in 12 months", 6), "in 12|months");
    }

    #[test]
    fn a_line_that_is_too_wide_goes_on_below_its_text() {
        let mut out = Vec::new();
        let style = Style { color: false, width: 24, unicode: true };
        let spans = [(Paint::Dim, "  asked    ".to_owned()), (Paint::Warn, "5,000/s, 12 ms".to_owned())];
        let more = (Paint::Plain, "; 4 connections".to_owned());
        Page::new(&mut out, style).line(&[&spans[..], &[more]].concat()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "  asked    5,000/s,\n           12 ms; 4\n           connections\n");
    }

    #[test]
    fn what_came_from_outside_cannot_steer_the_terminal() {
        let mut out = Vec::new();
        let style = Style { color: true, width: 80, unicode: true };
        Page::new(&mut out, style).line(&[(Paint::Bad, "a\x1b[2J\u{9b}b\u{202e}\r\n\0c  ".to_owned())]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\x1b[31ma?[2J?b????c\x1b[0m\n");
    }
}
