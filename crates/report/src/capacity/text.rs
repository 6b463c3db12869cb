//! A search for the load line as text: one sentence, the curve, what gives first with its evidence, whether it is valid.

use super::document::{Document, Gives, Step};
use crate::text::page::Page;
use crate::text::{Paint, Style};
use model::finding::ValidityState;
use model::units::{show_duration_ns, show_grouped};
use std::io::{self, Write};

/// Characters before what a line says.
const INDENT: usize = 12;
/// Characters of the longest bar of the curve.
const BAR: usize = 20;
/// Pieces of evidence that are shown.
const EVIDENCE: usize = 3;

/// A step that has ended, as a line.
pub fn step(step: &Step, line: &str) -> String {
    let p99 = step.response_p99_us.map_or("–".to_owned(), |us| show_duration_ns(1e3 * us));
    let load = whole(step.load);
    format!("  {load:>9}  p99 {p99:>9}  {:<9}  {:<9}  {line}", step.verdict.name(), step.purpose)
}

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, document: &Document, files: &[String], style: Style) -> io::Result<()> {
    let page = &mut Page::new(to, style);
    row(page, Paint::Heading, "Load line", &document.sentence)?;
    row(page, Paint::Plain, "Objective", &document.capacity.slo)?;
    let steps = document.steps.len();
    row(page, Paint::Plain, "Load", &format!("{}, {steps} steps in {:.0} s", document.pace, document.took_s))?;
    curve(page, document)?;
    if let Some(scaling) = &document.scaling {
        scales(page, scaling)?;
    }
    match &document.gives {
        Some(gives) => {
            write_finding(page, gives, &document.capacity.unit)?;
            if let Some(text) = seen(document) {
                row(page, Paint::Plain, "  besides", &text)?;
            }
        }
        None => {
            if let Some(text) = instead(document) {
                row(page, Paint::Plain, "Gives first", &text)?;
            }
        }
    }
    if let Some(busy) = &document.busy {
        row(page, Paint::Plain, "Busy", &format!("{busy}: the line is that of what is left of it"))?;
    }
    row(page, Paint::Plain, "Verdict", &sure(document))?;
    files.iter().try_for_each(|file| row(page, Paint::Plain, "Report", file))
}

/// Whether it may be believed.
pub(crate) fn sure(document: &Document) -> String {
    let lag = document.lag_p99_us.map_or("–".to_owned(), |us| show_duration_ns(1e3 * us));
    match (&document.why, document.validity) {
        (Some(why), state) => format!("{}: {why}", state.name()),
        (None, ValidityState::Valid) => match &document.held_in_spite_of {
            Some(why) => format!(
                "valid: the load was put on, and it held although it was disturbed, which can only add to its times: {why}"
            ),
            None => format!("valid: the generator kept up, lag p99 {lag}"),
        },
        (None, state) => format!("{}: plimsoll report says why of each step", state.name()),
    }
}

/// What stands in the place of what gives first, where nothing is known to; `None`: no load missed.
pub(crate) fn instead(document: &Document) -> Option<String> {
    document.capacity.missed?;
    Some(match (seen(document), document.own_connections) {
        (Some(own), Some(_)) => own,
        (Some(seen), None) => format!("not known; beyond the line {seen}"),
        (None, _) => "not known: no rule found its evidence beyond the line".to_owned(),
    })
}

/// What is seen beyond the line, where no cause explains most of it.
pub(crate) fn seen(document: &Document) -> Option<String> {
    let Some(own) = &document.own_connections else { return document.unexplained.clone() };
    Some(format!(
        "the load's own {} connections: each request takes {}, at the line and beyond it, so that they carry some {} requests/s, whatever the server could: more of them (-c) tell",
        whole(f64::from(own.connections)),
        show_duration_ns(1e3 * own.each_us),
        whole(own.at_most_per_s)
    ))
}

/// How sharp the line is; `None`: there is none.
pub(crate) fn knee(document: &Document) -> Option<String> {
    match (document.capacity.steepness, document.capacity.load_line) {
        (Some(steepness), _) => {
            let more = 100.0 * (0.01 * steepness).exp_m1();
            Some(format!("at the line, 1 % more load makes {more:.0} % more requests bad"))
        }
        (None, Some(_)) => Some("a jump: what holds below the line is lost above it".to_owned()),
        (None, None) => None,
    }
}

/// A load as a whole number in groups.
fn whole(load: f64) -> String {
    show_grouped(load.max(0.0).round() as u64)
}

/// The 99th percentile over the load, as bars on a logarithmic scale, and the share of bad requests.
fn curve<W: Write>(page: &mut Page<'_, W>, document: &Document) -> io::Result<()> {
    if document.curve.is_empty() {
        return Ok(());
    }
    let us = document.curve.iter().filter_map(|point| point.response_p99_us).filter(|us| *us > 0.0);
    let (least, most) = us.fold((f64::INFINITY, 0.0f64), |(least, most), us| (least.min(us), most.max(us)));
    row(page, Paint::Heading, "Curve", &format!("{:>11}  {:>9}  {:>8}", document.capacity.unit, "p99", "bad"))?;
    for point in &document.curve {
        let bar = match point.response_p99_us {
            Some(us) if most > least => {
                1 + ((us / least).ln() / (most / least).ln() * (BAR - 1) as f64).round() as usize
            }
            Some(_) => 1,
            None => 0,
        };
        let p99 = point.response_p99_us.map_or("–".to_owned(), |us| show_duration_ns(1e3 * us));
        let text = format!("{:>11}  {p99:>9}  {:>8}  ", whole(point.load), worst(&point.bad_shares));
        page.row(&[
            (Paint::Plain, " ".repeat(INDENT)),
            (Paint::Plain, text),
            (Paint::Bar, "#".repeat(bar)),
            (Paint::Plain, format!("{} {}", " ".repeat(BAR - bar.min(BAR)), point.verdict.name())),
        ])?;
    }
    knee(document).map_or(Ok(()), |text| row(page, Paint::Plain, "Knee", &text))
}

/// The largest share of bad requests.
pub(crate) fn worst(shares: &[f64]) -> String {
    let share = shares.iter().copied().fold(0.0, f64::max);
    if share == 0.0 { "none".to_owned() } else { format!("{:.2} %", 100.0 * share) }
}

fn scales<W: Write>(page: &mut Page<'_, W>, of: &super::Scaling) -> io::Result<()> {
    let mut label = "Scaling";
    for text in scaling(of) {
        let paint = if label.is_empty() { Paint::Plain } else { Paint::Heading };
        row(page, paint, std::mem::take(&mut label), &text)?;
    }
    Ok(())
}

/// What a connection gets, what connections cost each other, and where it turns.
pub(crate) fn scaling(scaling: &super::Scaling) -> [String; 3] {
    let percent =
        |[value, low, high]: [f64; 3]| format!("{:.3} % ({:.3}–{:.3})", 100.0 * value, 100.0 * low, 100.0 * high);
    let [single, low, high] = scaling.single_per_s;
    let ends = match (scaling.peak_low, scaling.peak_high) {
        (Some(low), Some(high)) => format!(" ({}–{}, 95 %)", whole(low), whole(high)),
        _ => String::new(),
    };
    let turn = match (scaling.peak_at, scaling.peak_per_s, scaling.peak_low) {
        (Some(at), Some(per_s), _) => format!("it turns at {} connections{ends}, with {}/s", whole(at), whole(per_s)),
        (_, _, Some(low)) => {
            format!("nothing says that it turns; if it does, not before {} connections (95 %)", whole(low))
        }
        _ => "nothing says that it turns: more connections cost no throughput here".to_owned(),
    };
    [
        format!("one connection gets {}/s ({}–{})", whole(single), whole(low), whole(high)),
        format!("contention {}, coherency {}", percent(scaling.contention), percent(scaling.coherency)),
        turn,
    ]
}

fn write_finding<W: Write>(page: &mut Page<'_, W>, gives: &Gives, unit: &str) -> io::Result<()> {
    let finding = &gives.finding;
    row(page, Paint::Heading, "Gives first", &format!("{} ({}{})", finding.title, finding.id, given(gives)))?;
    for evidence in finding.because.iter().take(EVIDENCE) {
        row(page, Paint::Plain, "", &format!("- {}", evidence.text))?;
    }
    if let Some(text) = without(gives, unit) {
        row(page, Paint::Plain, "  without", &text)?;
    }
    row(page, Paint::Plain, "  remedy", &finding.remedy)?;
    row(page, Paint::Plain, "  check", &finding.check_yourself)
}

/// What would be carried without what gives first; `None` where the evidence does not allow that sum.
pub(crate) fn without(gives: &Gives, unit: &str) -> Option<String> {
    let without = gives.without?;
    Some(format!(
        "at most {} {unit} would be carried: at the held load {:.2} of {:.2} cores were used, and a request costs what it did there",
        whole(without.at_most),
        without.cores_used,
        without.cores_all
    ))
}

/// How much of the loss a finding explains, and at which loads it was seen.
pub(crate) fn given(gives: &Gives) -> String {
    let share = gives
        .finding
        .explains
        .as_ref()
        // What rounds to nothing is none of its doing that can be told.
        .filter(|explains| explains.share >= 0.005)
        .map_or(String::new(), |explains| format!(", {:.0} % of {}", 100.0 * explains.share, explains.of.name()));
    let there = match (gives.is_new, gives.at_load) {
        (false, _) => ", there at the held load, too".to_owned(),
        (true, Some(load)) => format!(", seen at {}", whole(load)),
        (true, None) => String::new(),
    };
    share + &there
}

fn row<W: Write>(page: &mut Page<'_, W>, paint: Paint, label: &str, text: &str) -> io::Result<()> {
    let gap = " ".repeat(INDENT.saturating_sub(label.chars().count()));
    page.row(&[(paint, label.to_owned()), (Paint::Plain, format!("{gap}{text}"))])
}
