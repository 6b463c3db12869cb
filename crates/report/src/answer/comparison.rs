//! Two sides compared, as text: the answer, a table of figures with verdicts, the slices in run order, what else differs.
//!
//! The document is `diagnose::comparison::Comparison` itself.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::counted;
use diagnose::comparison::{
    Change, Comparison, FindingSeen, Judgement, Pairing, Quantity, Side, Slice, State, shown_change, shown_figure,
    words,
};
use model::recording::End;
use std::io::{self, Write};

const INDENT: usize = 13;
/// Widths of the table's columns behind the label.
const COLUMNS: [usize; 5] = [10, 10, 26, 12, 0];
/// Rows of the picture.
const ROWS: usize = 5;
/// Differences of settings that the text names.
const DIFFERENCES_MAX: usize = 8;

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, comparison: &Comparison, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    let paint = |judgement: &Judgement| paint_of(judgement);
    let worst = comparison.judgements.iter().map(paint).find(|paint| *paint == Paint::Bad);
    let is_decided = comparison.judgements.iter().any(|j| matches!(j.state, State::Different | State::Equivalent));
    let headline = worst.unwrap_or(if is_decided { Paint::Good } else { Paint::Warn });
    page.wrapped(0, (Paint::Plain, String::new()), headline, &comparison.sentence)?;
    for (label, shown) in [("  A", &comparison.a), ("  B", &comparison.b)] {
        page.wrapped(INDENT, (Paint::Dim, label.to_owned()), Paint::Plain, shown)?;
    }
    page.wrapped(INDENT, (Paint::Dim, "  how".to_owned()), Paint::Plain, &how(comparison))?;
    if let Some(text) = set_apart(comparison) {
        page.wrapped(INDENT, (Paint::Dim, "  disturbed".to_owned()), Paint::Warn, &text)?;
    }
    if let Some(text) = within(comparison) {
        page.wrapped(INDENT, (Paint::Dim, "  within".to_owned()), Paint::Plain, &text)?;
    }
    page.gap()?;
    table(&mut page, comparison)?;
    if let Some(quantity) = drawn(comparison) {
        page.gap()?;
        picture(&mut page, comparison, quantity)?;
    }
    if !comparison.differences.is_empty() {
        page.gap()?;
        let mut label = "Settings";
        for difference in comparison.differences.iter().take(DIFFERENCES_MAX) {
            let text = format!("{}: A {}, B {}", difference.name, difference.a, difference.b);
            page.wrapped(INDENT, (Paint::Heading, label.to_owned()), Paint::Plain, &text)?;
            label = "";
        }
        let rest = comparison.differences.len().saturating_sub(DIFFERENCES_MAX);
        if rest > 0 {
            let text = format!("and {rest} more, in the JSON");
            page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &text)?;
        }
    }
    if !comparison.findings.is_empty() {
        page.gap()?;
        let mut label = "Found";
        for finding in &comparison.findings {
            page.wrapped(INDENT, (Paint::Heading, label.to_owned()), Paint::Plain, &found(finding))?;
            label = "";
        }
    }
    Ok(())
}

/// A slice that has ended, as a line.
pub fn slice(slice: &Slice) -> String {
    let name = match slice.side {
        Side::A => "A",
        Side::AgainA => "A again",
        Side::B => "B",
    };
    let of = |quantity| slice.figures.get(quantity).map(|figure| shown_figure(quantity, figure));
    let shown = [Quantity::Throughput, Quantity::P99, Quantity::Cpu].map(|quantity| {
        let figure = of(quantity).unwrap_or_else(|| "–".to_owned());
        format!("{} {figure}", words(quantity))
    });
    let failed = slice.figures.get(Quantity::Failures).filter(|share| *share > 0.0);
    let failed = failed.map_or(String::new(), |share| format!(", {} failed", shown_figure(Quantity::Failures, share)));
    let disturbed = slice
        .disturbed
        .as_ref()
        .map_or(String::new(), |why| format!(", disturbed: {}", why.split(". ").next().unwrap_or_default()));
    format!("repeat {}, {name:7}  {}{failed}{disturbed}", slice.repeat, shown.join(", "))
}

pub(crate) fn how(comparison: &Comparison) -> String {
    let whole = comparison.whole_repeats();
    let mut parts = match comparison.pairing {
        Pairing::Paired => {
            let asked = comparison.repeats;
            let repeats = if whole == asked {
                counted(u64::from(whole), "repeat")
            } else {
                format!("{whole} of {}", counted(u64::from(asked), "repeat"))
            };
            let slices = comparison.slice_s.map_or(String::new(), |s| format!(" of {s} s slices in random order"));
            let seed = comparison.seed.map_or(String::new(), |seed| format!(" (seed {seed})"));
            let has_again = comparison.slices.iter().any(|slice| slice.side == Side::AgainA);
            let twice = if has_again { ", A twice in each" } else { "" };
            vec![format!("{repeats}{slices}{seed}{twice}")]
        }
        Pairing::Unpaired => {
            let runs = |side| comparison.slices.iter().filter(|slice| slice.side == side).count() as u64;
            vec![format!("{} of A, {} of B, in no pairs", counted(runs(Side::A), "run"), counted(runs(Side::B), "run"))]
        }
        Pairing::Single => vec!["one run each".to_owned()],
    };
    if comparison.pairing != Pairing::Single {
        parts.push(format!("{} sure of all \"better\" and \"worse\" together", percent(comparison.confidence)));
        parts.push(format!("what is within {} does not matter", percent(comparison.tolerance)));
    }
    match comparison.end {
        End::Complete => {}
        End::Interrupted => parts.push("interrupted".to_owned()),
        End::Partial => parts.push("not yet at its end".to_owned()),
    }
    parts.join("; ")
}

pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

pub(crate) fn set_apart(comparison: &Comparison) -> Option<String> {
    let mut disturbed = comparison.slices.iter().filter_map(|slice| slice.disturbed.as_ref());
    // Its first sentence: what to do about it is the same each time.
    let first = disturbed.next()?.split(". ").next().unwrap_or_default();
    let count = 1 + disturbed.count() as u64;
    Some(match (comparison.pairing, comparison.seed) {
        (Pairing::Single, _) => format!("{count} of the two runs: {first}"),
        (_, Some(_)) => format!("{} set apart, each run once more; the first: {first}", counted(count, "slice")),
        (_, None) => format!("{} set apart; the first: {first}", counted(count, "run")),
    })
}

/// What single runs tell by their own ticks.
pub(crate) fn within(comparison: &Comparison) -> Option<String> {
    if comparison.pairing != Pairing::Single {
        return None;
    }
    let of = |side| {
        let margin = comparison.slices.iter().find(|slice| slice.side == side)?.own_margin?;
        Some(format!("± {margin:.1} %", margin = 100.0 * margin))
    };
    let (a, b) = (of(Side::A)?, of(Side::B)?);
    Some(format!(
        "by its own ticks, the throughput of A is known to {a}, that of B to {b}; how much runs differ from each other these \
         do not tell"
    ))
}

fn table<W: Write>(page: &mut Page<'_, W>, comparison: &Comparison) -> io::Result<()> {
    let has_floor = comparison.judgements.iter().any(|judgement| judgement.against_itself.is_some());
    let titles = ["A", "B", "B against A", if has_floor { "A to A" } else { "" }, "verdict"];
    let mut spans = vec![(Paint::Heading, format!("{:15}", ""))];
    spans.extend(titles.iter().zip(COLUMNS).map(|(title, width)| (Paint::Heading, format!("{title:width$}"))));
    page.row(&spans)?;
    for judgement in &comparison.judgements {
        let figure = |figure: Option<f64>| figure.map_or("–".to_owned(), |f| shown_figure(judgement.quantity, f));
        let cells = [
            figure(judgement.a),
            figure(judgement.b),
            judgement.change.map_or("–".to_owned(), |change| shown(judgement.quantity, change)),
            judgement.against_itself.map_or(String::new(), |change| floor(judgement.quantity, change)),
        ];
        let mut spans = vec![(Paint::Plain, format!("{:15}", words(judgement.quantity)))];
        spans.extend(cells.iter().zip(COLUMNS).map(|(cell, width)| (Paint::Plain, format!("{cell:width$}"))));
        spans.push((paint_of(judgement), verdict(judgement, comparison)));
        page.row(&spans)?;
    }
    Ok(())
}

/// `+12.1 % (+8.1 to +16.2)`.
pub(crate) fn shown(quantity: Quantity, change: Change) -> String {
    let value = shown_change(quantity, change.value);
    let bare = |value: f64| {
        let text = shown_change(quantity, value);
        text.split(' ').next().unwrap_or_default().to_owned()
    };
    match (change.low, change.high) {
        (Some(low), Some(high)) => format!("{value} ({} to {})", bare(low), bare(high)),
        _ => value,
    }
}

/// How far from nothing A may be from itself.
pub(crate) fn floor(quantity: Quantity, change: Change) -> String {
    match (change.low, change.high) {
        (Some(low), Some(high)) => {
            let text = shown_change(quantity, low.abs().max(high.abs()));
            format!("± {}", text.trim_start_matches('+'))
        }
        _ => "–".to_owned(),
    }
}

pub(crate) fn verdict(judgement: &Judgement, comparison: &Comparison) -> String {
    let more = judgement.more_repeats.map_or(String::new(), |more| format!(" ({more} more)"));
    match judgement.state {
        State::Different if judgement.is_worse => "worse".to_owned(),
        State::Different => "better".to_owned(),
        State::Equivalent => {
            let is_ratio = judgement.quantity.entry().method.is_ratio();
            if is_ratio { format!("within {}", percent(comparison.tolerance)) } else { "within 0.1 points".to_owned() }
        }
        State::Undecided if comparison.pairing == Pairing::Single => "chance or change".to_owned(),
        State::Undecided if judgement.is_unsteady => "A is unsteady".to_owned(),
        State::Undecided => format!("undecided{more}"),
        State::NotDeclared => "not asked".to_owned(),
    }
}

pub(crate) fn paint_of(judgement: &Judgement) -> Paint {
    match judgement.state {
        State::Different if judgement.is_worse => Paint::Bad,
        State::Different | State::Equivalent => Paint::Good,
        State::Undecided => Paint::Warn,
        State::NotDeclared => Paint::Dim,
    }
}

/// The quantity that is drawn: the first that differs, else the first that a verdict is about and that all have.
fn drawn(comparison: &Comparison) -> Option<Quantity> {
    let of = |holds: &dyn Fn(&Judgement) -> bool| {
        comparison.judgements.iter().find(|judgement| judgement.change.is_some() && holds(judgement))
    };
    let differs = of(&|judgement| judgement.state == State::Different);
    let first = differs.or_else(|| of(&|j| j.state != State::NotDeclared && j.quantity != Quantity::Failures))?;
    (comparison.slices.len() > 2).then_some(first.quantity)
}

/// The slices in run order, so that drift is seen: a letter for each, the higher the more.
fn picture<W: Write>(page: &mut Page<'_, W>, comparison: &Comparison, quantity: Quantity) -> io::Result<()> {
    let sound = comparison.slices.iter().filter(|slice| slice.disturbed.is_none());
    let drawn: Vec<(char, f64)> =
        sound.filter_map(|slice| Some((slice.side.letter(), slice.figures.get(quantity)?))).collect();
    let (low, high) =
        drawn.iter().fold((f64::INFINITY, 0.0f64), |(low, high), (_, value)| (low.min(*value), high.max(*value)));
    let level = |value: f64| {
        if high <= low {
            return 0;
        }
        (((value - low) / (high - low) * ROWS as f64) as usize).min(ROWS - 1)
    };
    let label = |value: f64| format!("{:>INDENT$} ", shown_figure(quantity, value));
    let room = page.style().width.saturating_sub(INDENT + 3).max(20);
    // More slices than columns: neighbours share one.
    let share = drawn.len().div_ceil(room).max(1);
    let columns: Vec<Vec<(char, usize)>> = drawn
        .chunks(share)
        .map(|group| {
            let of = |letter: char| {
                let values: Vec<f64> = group.iter().filter(|(side, _)| *side == letter).map(|(_, v)| *v).collect();
                (!values.is_empty()).then(|| (letter, level(values.iter().sum::<f64>() / values.len() as f64)))
            };
            [of('a'), of('b')].into_iter().flatten().collect()
        })
        .collect();
    let title = format!("{}, slices in the order they were run, a: A, b: B", words(quantity));
    page.line(&[(Paint::Heading, title)])?;
    for row in (0..ROWS).rev() {
        let label = match row {
            row if row == ROWS - 1 => label(high),
            0 => label(low),
            _ => " ".repeat(INDENT + 1),
        };
        let line: String = columns
            .iter()
            .map(|column| {
                let here: Vec<char> = column.iter().filter(|(_, at)| *at == row).map(|(letter, _)| *letter).collect();
                match here[..] {
                    [] => ' ',
                    [letter] => letter,
                    _ => '*',
                }
            })
            .collect();
        page.row(&[(Paint::Dim, label), (Paint::Plain, line)])?;
    }
    Ok(())
}

pub(crate) fn found(finding: &FindingSeen) -> String {
    let of = |seen: u32, of: u32, first: u32| {
        let first = if first > 0 { format!(", first in {first}") } else { String::new() };
        format!("{seen} of {of}{first}")
    };
    format!(
        "{}: A {}; B {}",
        finding.id,
        of(finding.a, finding.of_a, finding.first_a),
        of(finding.b, finding.of_b, finding.first_b)
    )
}
