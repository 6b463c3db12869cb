//! Where a series of runs changed, as text: the answer, a picture of each quantity that did, what else changed there.
//!
//! The document is `diagnose::comparison::Trend` itself.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::counted;
use diagnose::comparison::{Quantity, Series, Trend, Turn, shown_change, shown_figure, words};
use std::io::{self, Write};

const INDENT: usize = 13;
/// Rows of a picture.
const ROWS: usize = 5;
/// Differences beside a change that the text names.
const DIFFERENCES_MAX: usize = 4;
/// Recordings left out that the text names.
const LEFT_OUT_MAX: usize = 5;

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, trend: &Trend, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    if trend.series.is_empty() {
        page.line(&[(Paint::Warn, "There is no run with a load".to_owned())])?;
    }
    for (number, series) in trend.series.iter().enumerate() {
        if number > 0 {
            page.gap()?;
        }
        write_series(&mut page, series)?;
    }
    if !trend.left_out.is_empty() {
        page.gap()?;
        let text = format!("{} left out:", counted(trend.left_out.len() as u64, "recording"));
        page.line(&[(Paint::Dim, text)])?;
        for left_out in trend.left_out.iter().take(LEFT_OUT_MAX) {
            page.line(&[(Paint::Dim, format!("  {}: {}", left_out.id, left_out.why))])?;
        }
    }
    Ok(())
}

fn write_series<W: Write>(page: &mut Page<'_, W>, series: &Series) -> io::Result<()> {
    page.line(&[
        (Paint::Strong, series.target.clone()),
        (Paint::Dim, format!("  {}", counted(series.runs.len() as u64, "run"))),
    ])?;
    let paint = if series.changes.iter().any(|turn| turn.is_worse) { Paint::Bad } else { Paint::Good };
    page.wrapped(0, (Paint::Plain, String::new()), paint, &series.sentence)?;
    let mut drawn: Vec<Quantity> = series.changes.iter().map(|turn| turn.quantity).collect();
    drawn.sort_unstable();
    drawn.dedup();
    for quantity in drawn {
        page.gap()?;
        picture(page, series, quantity)?;
    }
    for turn in &series.changes {
        page.gap()?;
        write_turn(page, turn)?;
    }
    Ok(())
}

fn write_turn<W: Write>(page: &mut Page<'_, W>, turn: &Turn) -> io::Result<()> {
    let figure = |figure| shown_figure(turn.quantity, figure);
    let text = format!(
        "{} → {} ({}), between {} and {}",
        figure(turn.before),
        figure(turn.after),
        shown_change(turn.quantity, turn.change),
        turn.last_before,
        turn.first_after
    );
    let paint = if turn.is_worse { Paint::Bad } else { Paint::Good };
    let label = format!("{:w$}", words(turn.quantity), w = INDENT + 1);
    page.wrapped(INDENT + 1, (Paint::Heading, label), paint, &text)?;
    for difference in turn.differences.iter().take(DIFFERENCES_MAX) {
        let text = format!("{}: {} → {}", difference.name, difference.a, difference.b);
        page.wrapped(INDENT + 1, (Paint::Dim, "  also".to_owned()), Paint::Plain, &text)?;
    }
    Ok(())
}

/// A mark for each run, the higher the more; a bar where the level changed.
fn picture<W: Write>(page: &mut Page<'_, W>, series: &Series, quantity: Quantity) -> io::Result<()> {
    let is_change = |id: &str| series.changes.iter().any(|turn| turn.quantity == quantity && turn.first_after == id);
    let drawn: Vec<(bool, f64)> =
        series.runs.iter().filter_map(|run| Some((is_change(&run.id), run.figures.get(quantity)?))).collect();
    let (low, high) =
        drawn.iter().fold((f64::INFINITY, 0.0f64), |(low, high), (_, value)| (low.min(*value), high.max(*value)));
    let level = |value: f64| match high > low {
        true => (((value - low) / (high - low) * ROWS as f64) as usize).min(ROWS - 1),
        false => 0,
    };
    let room = page.style().width.saturating_sub(INDENT + 3).max(20);
    // More runs than columns: neighbours share one, but never across a change.
    let share = drawn.len().div_ceil(room / 2).max(1);
    let mut columns: Vec<(bool, Vec<f64>)> = Vec::new();
    for (begins, value) in drawn {
        match columns.last_mut().filter(|(_, values)| !begins && values.len() < share) {
            Some((_, values)) => values.push(value),
            None => columns.push((begins, vec![value])),
        }
    }
    page.line(&[(Paint::Heading, format!("{}, run by run", words(quantity)))])?;
    for row in (0..ROWS).rev() {
        let label = match row {
            row if row == ROWS - 1 => shown_figure(quantity, high),
            0 => shown_figure(quantity, low),
            _ => String::new(),
        };
        let line: String = columns
            .iter()
            .map(|(begins, values)| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let bar = if *begins { "|" } else { "" };
                format!("{bar}{}", if level(mean) == row { '*' } else { ' ' })
            })
            .collect();
        page.row(&[(Paint::Dim, format!("{label:>INDENT$} ")), (Paint::Plain, line)])?;
    }
    Ok(())
}
