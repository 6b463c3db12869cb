//! Variants of a run, as text: whether all was as expected, between which a figure differs the most, and a table with a row each.
//!
//! The document is `diagnose::variants::Variants` itself.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::counted;
use diagnose::comparison::{QUANTITIES, Quantity, shown_figure, words};
use diagnose::repeats::{RepeatedLoad, RepeatedRun};
use diagnose::variants::{Expected, Variant, Variants, named};
use model::units::show_bytes;
use std::collections::BTreeSet;
use std::io::{self, Write};

const INDENT: usize = 16;
/// Blanks between two columns.
const GAP: usize = 2;
/// What differs between variants by less is not worth a sentence, times.
const SPAN_MIN: f64 = 1.1;
/// The same of the target's memory: a heap that has grown by half is none's doing.
const MEMORY_SPAN_MIN: f64 = 2.0;
/// Figures whose extremes are told.
const TOLD: [Quantity; 2] = [Quantity::Throughput, Quantity::P99];

/// What the target took in a run.
struct Resource {
    title: &'static str,
    of: fn(&RepeatedRun) -> Option<f64>,
    shown: fn(f64) -> String,
    /// A column of less than this everywhere is left out.
    worth_telling: f64,
}

const RESOURCES: &[Resource] = &[
    Resource {
        title: "memory",
        of: |run| run.target_memory_bytes_max.map(|bytes| bytes as f64),
        shown: show_bytes,
        worth_telling: 0.0,
    },
    Resource {
        title: "in files",
        of: |run| run.target_files_bytes_max.map(|bytes| bytes as f64),
        shown: show_bytes,
        worth_telling: 1_048_576.0,
    },
    Resource {
        title: "to backends",
        of: |run| run.target_backends_mean,
        shown: |n| format!("{n:.1}"),
        worth_telling: 0.5,
    },
];

/// The most of any run of a load.
fn most(load: &RepeatedLoad, resource: &Resource) -> Option<f64> {
    load.runs.iter().filter_map(resource.of).reduce(f64::max)
}

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, variants: &Variants, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    let (text, paint) = verdict(variants);
    page.wrapped(0, (Paint::Plain, String::new()), paint, &text)?;
    for text in TOLD.iter().filter_map(|quantity| span(variants, *quantity)) {
        page.wrapped(0, (Paint::Plain, String::new()), Paint::Plain, &text)?;
    }
    if let Some(text) = memory_span(variants) {
        page.wrapped(0, (Paint::Plain, String::new()), Paint::Plain, &text)?;
    }
    let first = variants.variants.first();
    for (at, load) in first.map_or(&[][..], |one| &one.repeats.loads).iter().enumerate() {
        let name = load.name.as_ref();
        let rows = variants.variants.iter().filter_map(|variant| Some((variant, variant.load(name)?)));
        let rows: Vec<(&Variant, &RepeatedLoad)> = rows.collect();
        // Of connections that are only held there may be no figure at all.
        if at > 0 && QUANTITIES.iter().all(|entry| rows.iter().all(|(_, load)| shown(load, entry.quantity).is_none())) {
            continue;
        }
        page.gap()?;
        if let Some(name) = name {
            page.line(&[(Paint::Heading, format!("Load '{name}'"))])?;
        }
        table(&mut page, variants, &rows)?;
    }
    let gives = |variant: &Variant| {
        let runs = variant.repeats.loads.first().map_or(&[][..], |load| &load.runs);
        runs.iter().filter_map(|run| run.gives.clone()).collect::<Vec<_>>()
    };
    listed(&mut page, "Gives first", variants, gives, Paint::Plain)?;
    listed(&mut page, "Not met", variants, not_met, Paint::Bad)?;
    listed(&mut page, "Not told", variants, not_told, Paint::Warn)?;
    listed(&mut page, "Left out", variants, left_out, Paint::Warn)?;
    let runs = || variants.variants.iter().flat_map(|one| &one.repeats.loads).flat_map(|load| &load.runs);
    if runs().any(|run| run.recording.is_some()) {
        page.gap()?;
    }
    let mut label = "Recordings";
    for path in runs().filter_map(|run| run.recording.as_ref()) {
        page.row(&[(Paint::Dim, format!("{label:INDENT$} {path}"))])?;
        label = "";
    }
    Ok(())
}

fn verdict(variants: &Variants) -> (String, Paint) {
    let made = variants.variants.len();
    let of = |state: Expected| variants.variants.iter().filter(move |variant| variant.expected() == state);
    let all = counted(made as u64, "variant");
    let times = variants.variants.iter().map(|variant| variant.repeats.made).max().unwrap_or(0);
    let asked =
        if made < variants.asked as usize { format!(" of {} asked for", variants.asked) } else { String::new() };
    let ended = super::ended(variants.end);
    let each =
        if times == 1 { "one run each".to_owned() } else { format!("{} each", counted(u64::from(times), "run")) };
    let (failed, open, met) =
        (of(Expected::NotMet).count(), of(Expected::Undetermined).count(), of(Expected::Met).count());
    let (text, paint) = match (failed, open, met) {
        (0, 0, 0) => ("nothing was expected".to_owned(), Paint::Plain),
        (0, 0, _) => ("every expectation was met in each".to_owned(), Paint::Good),
        (0, _, _) => (format!("in {open} of them some expectations could not be told"), Paint::Warn),
        _ => (format!("in {failed} of them some expectations were not met"), Paint::Bad),
    };
    (format!("{all}{asked}{ended}, {each}: {text}"), paint)
}

/// Between which variants a figure of the main load differs the most.
fn span(variants: &Variants, quantity: Quantity) -> Option<String> {
    let span = variants.span(quantity)?;
    let ((least, low), (most, high)) = (span.least, span.most);
    if low <= 0.0 || high / low < SPAN_MIN {
        return None;
    }
    let [low_shown, high_shown] = [low, high].map(|figure| shown_figure(quantity, figure));
    let of_load = variants.variants[0].repeats.loads.first().and_then(|load| load.name.as_ref());
    let of_load = of_load.map_or(String::new(), |name| format!(" of '{name}'"));
    let times = times(high / low);
    Some(format!(
        "{}{of_load}: from {low_shown} ({}) to {high_shown} ({}), {times} times as much",
        words(quantity),
        named(&least.values),
        named(&most.values),
    ))
}

/// Between which variants the target's memory differs the most. Runs that were disturbed count, too: they take no more of it.
fn memory_span(variants: &Variants) -> Option<String> {
    let of = |variant: &Variant| most(variant.repeats.loads.first()?, &RESOURCES[0]);
    let mut all: Vec<_> = variants.variants.iter().filter_map(|variant| Some((variant, of(variant)?))).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(least, low), .., (most, high)] = all[..] else { return None };
    (low > 0.0 && high / low >= MEMORY_SPAN_MIN).then(|| {
        let [low_shown, high_shown] = [low, high].map(show_bytes);
        let (least, most) = (named(&least.values), named(&most.values));
        format!(
            "memory of the target: from {low_shown} ({least}) to {high_shown} ({most}), {} times as much",
            times(high / low)
        )
    })
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// A figure over a load's runs; of runs that are all left out the last one's, in brackets.
fn shown(load: &RepeatedLoad, quantity: Quantity) -> Option<String> {
    let used = load.figures.iter().find(|figure| figure.quantity == quantity);
    used.map(|figure| shown_figure(quantity, figure.median)).or_else(|| {
        let last = load.runs.last().filter(|_| load.used == 0)?;
        last.figures.get(quantity).map(|figure| format!("({})", shown_figure(quantity, figure)))
    })
}

fn table<W: Write>(page: &mut Page<'_, W>, variants: &Variants, rows: &[(&Variant, &RepeatedLoad)]) -> io::Result<()> {
    let mut columns: Vec<Vec<String>> = Vec::new();
    for axis in &variants.axes {
        let of =
            |variant: &Variant| variant.values.iter().find(|one| one.axis == axis.name).map(|one| one.value.clone());
        columns.push(column(&axis.name, rows.iter().map(|(variant, _)| of(variant))));
    }
    for entry in QUANTITIES {
        let figures: Vec<Option<String>> = rows.iter().map(|(_, load)| shown(load, entry.quantity)).collect();
        if figures.iter().any(Option::is_some) {
            columns.push(column(words(entry.quantity), figures.into_iter()));
        }
    }
    for resource in RESOURCES {
        let values: Vec<Option<f64>> = rows.iter().map(|(_, load)| most(load, resource)).collect();
        if values.iter().flatten().any(|value| *value >= resource.worth_telling) {
            let cells = values.into_iter().map(|value| value.map(resource.shown));
            columns.push(column(resource.title, cells));
        }
    }
    let kinds = |load: &RepeatedLoad| {
        let kinds: BTreeSet<&String> = load.runs.iter().flat_map(|run| run.errors.keys()).collect();
        kinds.into_iter().cloned().collect::<Vec<_>>().join(" ")
    };
    if rows.iter().any(|(_, load)| !kinds(load).is_empty()) {
        columns.push(column("failed by", rows.iter().map(|(_, load)| Some(kinds(load)))));
    }
    let width = |cells: &Vec<String>| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0) + GAP;
    let widths: Vec<usize> = columns.iter().map(width).collect();
    for row in 0..=rows.len() {
        let line: String = columns.iter().zip(&widths).map(|(cells, width)| format!("{:width$}", cells[row])).collect();
        let paint = match row {
            0 => Paint::Heading,
            _ if rows[row - 1].1.expectations.iter().any(|one| one.not_met > 0) => Paint::Bad,
            _ => Paint::Plain,
        };
        page.row(&[(paint, line)])?;
    }
    Ok(())
}

fn column(title: &str, cells: impl Iterator<Item = Option<String>>) -> Vec<String> {
    [title.to_owned()].into_iter().chain(cells.map(|cell| cell.unwrap_or_else(|| "–".to_owned()))).collect()
}

/// What is so of variants, those of which the same is so together.
fn listed<W: Write>(
    page: &mut Page<'_, W>,
    title: &str,
    variants: &Variants,
    of: impl Fn(&Variant) -> Vec<String>,
    paint: Paint,
) -> io::Result<()> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for variant in &variants.variants {
        let texts: BTreeSet<String> = of(variant).into_iter().collect();
        for text in texts {
            match all.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(named(&variant.values)),
                None => all.push((text, vec![named(&variant.values)])),
            }
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    page.gap()?;
    page.line(&[(Paint::Heading, title.to_owned())])?;
    for (text, names) in all {
        let names = if names.len() == variants.variants.len() { "each".to_owned() } else { names.join("; ") };
        page.wrapped(2, (Paint::Dim, String::new()), paint, &format!("{names}: {text}"))?;
    }
    Ok(())
}

/// A load's part of a sentence about a variant.
fn of_load(load: &RepeatedLoad, text: &str) -> String {
    load.name.as_ref().map_or_else(|| text.to_owned(), |name| format!("'{name}' {text}"))
}

fn not_met(variant: &Variant) -> Vec<String> {
    let of = |load: &RepeatedLoad| {
        let failed = load.expectations.iter().filter(|one| one.not_met > 0);
        failed.map(|one| of_load(load, &one.expected)).collect::<Vec<_>>()
    };
    variant.repeats.loads.iter().flat_map(of).collect()
}

fn not_told(variant: &Variant) -> Vec<String> {
    let of = |load: &RepeatedLoad| {
        let open = load.expectations.iter().filter(|one| one.not_met == 0 && one.undetermined > 0);
        open.map(|one| of_load(load, &one.expected)).collect::<Vec<_>>()
    };
    variant.repeats.loads.iter().flat_map(of).collect()
}

fn left_out(variant: &Variant) -> Vec<String> {
    let of = |load: &RepeatedLoad| {
        let of = |why: &String| {
            of_load(load, &format!("{why}{}", if load.used == 0 { " (its figures are in brackets)" } else { "" }))
        };
        load.runs.iter().filter_map(|run| run.left_out.as_ref().map(of)).collect::<Vec<_>>()
    };
    variant.repeats.loads.iter().flat_map(of).collect()
}
