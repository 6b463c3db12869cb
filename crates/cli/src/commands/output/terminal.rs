//! What the terminal can show: its width, colours, characters beyond ASCII.

use report::text::Style;
use std::io::IsTerminal;

/// Width assumed where there is no terminal, columns.
const WIDTH: usize = 80;
/// Narrower than this is no width that a report is read at, columns.
const NARROWEST: u16 = 40;
/// A report wider than this is harder to read, not easier, columns.
const WIDTH_MAX: usize = 110;

/// How a report is drawn on stdout.
pub fn style(no_color: bool) -> Style {
    style_of(no_color, std::io::stdout().is_terminal())
}

/// How a report is drawn on stderr.
pub fn style_aside(no_color: bool) -> Style {
    style_of(no_color, std::io::stderr().is_terminal())
}

fn style_of(no_color: bool, is_terminal: bool) -> Style {
    let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style {
        color: !refused && is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
        width: width().min(WIDTH_MAX),
        unicode: is_utf8(),
    }
}

/// Whether stderr is a terminal that can redraw a line.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal.
pub fn width() -> usize {
    let size =
        rustix::termios::tcgetwinsize(std::io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(std::io::stderr()));
    match size {
        Ok(size) if size.ws_col >= NARROWEST => usize::from(size.ws_col),
        // Whoever reads a pipe says by this how wide it is shown.
        _ => {
            let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<u16>().ok());
            columns.filter(|columns| *columns >= NARROWEST).map_or(WIDTH, usize::from)
        }
    }
}

/// Whether the locale's characters are UTF-8 (setlocale(3): the first of these that is set decides).
pub fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
