//! Puts a view on a frame.

use super::blocks::{self, progress};
use super::fit::{Spans, fit};
use super::view::View;
use super::{LEAST, Looks, Which, pages};
use crate::text::Paint;
use crate::text::page::safe;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// From so many columns on there are two columns of blocks.
const TWO_COLUMNS: u16 = 140;
/// Columns between them.
const BETWEEN: u16 = 3;

/// Draws a view on the whole of a frame. What is returned is how many lines of a page have no room: it cannot be scrolled
/// further.
pub fn draw(frame: &mut Frame<'_>, view: &View, looks: Looks) -> usize {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        one_line(buffer, area, view, looks);
        return 0;
    }
    // The last line has the keys.
    let body = Rect { height: area.height - 1, ..area };
    let keys = Rect { y: area.bottom() - 1, height: 1, ..area };
    let width = usize::from(area.width);
    let (beyond, said) = match looks.which {
        Which::Run => {
            run(buffer, body, view, looks);
            let keys = "q ends the run  d details  ? keys";
            let with_page = format!("{keys}  page {}", view.page);
            // An address that is cut off leads nowhere.
            let has_room = !view.page.is_empty() && with_page.chars().count() <= width;
            (0, if has_room { with_page } else { keys.to_owned() })
        }
        Which::Details => page(buffer, body, &pages::details(view, width), looks, "d back"),
        Which::Help => page(buffer, body, &pages::help(width), looks, "? back"),
    };
    write(buffer, keys, &[vec![(Paint::Dim, said)]], looks);
    beyond
}

fn run(buffer: &mut Buffer, area: Rect, view: &View, looks: Looks) {
    let width = usize::from(area.width);
    let rows = usize::from(area.height);
    let head = blocks::head(view, looks, width);
    if area.width < TWO_COLUMNS {
        let mut all = vec![head];
        all.extend(blocks::measured(view, looks, width));
        all.extend(blocks::known(view, width, false));
        write(buffer, area, &fit(&all, rows), looks);
        return;
    }
    let top = (head.lines)(head.most);
    let top_rows = (top.len() as u16 + 1).min(area.height);
    write(buffer, area, &top, looks);
    let below = Rect { y: area.y + top_rows, height: area.height - top_rows, ..area };
    let left = Rect { width: (area.width - BETWEEN) / 2, ..below };
    let right = Rect { x: left.right() + BETWEEN, width: area.right() - left.right() - BETWEEN, ..below };
    let rows = usize::from(below.height);
    write(buffer, left, &fit(&blocks::measured(view, looks, usize::from(left.width)), rows), looks);
    write(buffer, right, &fit(&blocks::known(view, usize::from(right.width), true), rows), looks);
}

/// A page that may be longer than there is room, and what its last line says.
fn page(buffer: &mut Buffer, area: Rect, lines: &[Spans], looks: Looks, back: &str) -> (usize, String) {
    let rows = usize::from(area.height);
    let beyond = lines.len().saturating_sub(rows);
    let from = looks.scrolled.min(beyond);
    write(buffer, area, &lines[from..], looks);
    let place = match beyond {
        0 => String::new(),
        _ => format!("  up/down scroll  lines {} to {} of {}", from + 1, from + rows, lines.len()),
    };
    (beyond, format!("q ends the run  {back}{place}"))
}

fn one_line(buffer: &mut Buffer, area: Rect, view: &View, looks: Looks) {
    let width = usize::from(area.width);
    let line = view.row.as_ref().map_or_else(String::new, |row| progress(view, row).live(width, looks.unicode));
    write(buffer, area, &[vec![(Paint::Plain, line)]], looks);
}

/// Writes lines from the top of an area, as far as they have room.
fn write(buffer: &mut Buffer, area: Rect, lines: &[Spans], looks: Looks) {
    let area = area.intersection(buffer.area);
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        let spans =
            line.iter().map(|(paint, text)| Span::styled(safe(text, looks.unicode), style(*paint, looks.color)));
        buffer.set_line(area.x, y, &Line::from_iter(spans), area.width);
    }
}

/// As in the report; without colour what is strong and what is dim is still seen.
fn style(paint: Paint, color: bool) -> Style {
    let plain = Style::default();
    match paint {
        Paint::Plain => plain,
        Paint::Heading | Paint::Strong => plain.add_modifier(Modifier::BOLD),
        Paint::Dim => plain.add_modifier(Modifier::DIM),
        Paint::Good if color => plain.fg(Color::Green),
        Paint::Warn if color => plain.fg(Color::Yellow),
        Paint::Bad if color => plain.fg(Color::Red),
        Paint::Bar if color => plain.fg(Color::Cyan),
        Paint::Good | Paint::Warn | Paint::Bad | Paint::Bar => plain,
    }
}
