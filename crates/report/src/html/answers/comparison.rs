//! The page of a comparison: the answer, a verdict on each figure with its interval and what A is from itself beside it, the
//! slices in the order they were run so that drift is seen, what else differs.
//!
//! Words and figures are those of the text ([`crate::answer::comparison`]). Intervals of relative changes share one axis that
//! is logarithmic in the ratio of B to A: half as much and twice as much are as far from no change.

use crate::answer::comparison::{floor, found, how, paint_of, set_apart, shown, verdict, within};
use crate::html::page::{Page, Part, file_name, title};
use crate::html::plots::{At, Axis, Plot, Point, Series, Shape, Tone};
use crate::html::run::sections::{cards, command_line};
use crate::html::table::{Cell, Table, figures, texts};
use crate::html::unit::Unit;
use crate::html::{data, frame, lines, pack};
use crate::text::Paint;
use crate::words::{capitalized, counted};
use diagnose::comparison::{
    Change, Comparison, FAILURES_TOLERANCE, Judgement, Pairing, QUANTITIES, Quantity, Side, Slice, State, shown_change,
    shown_figure, words,
};
use maud::{Markup, html};
use model::recording::End;
use std::io::{self, Write};

/// An axis of changes reaches no farther than this ratio; what lies beyond is cut off there.
const RATIO_MAX: f64 = 4.0;
/// Width of a drawn interval, in units of its own.
const WIDTH: f64 = 1000.0;

/// Writes the page. `command` shows the comparison again.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, comparison: &Comparison, command: Option<&str>) -> io::Result<()> {
    let plots: Vec<Plot> =
        QUANTITIES.iter().map(|entry| slices(comparison, entry.quantity)).filter(Plot::has_any).collect();
    let hint = html! {
        p.hint { "Each point is a run of its own, in the order they were run: what drifts moves both sides. The axes do not begin at 0." }
    };
    let drawn = std::iter::once(hint).chain(plots.iter().map(Plot::markup)).collect();
    let page = Page {
        heading: "A against B".to_owned(),
        plan: how(comparison),
        started_at_unix_ns: comparison.started_at_unix_ns,
        command,
        alert: alert(comparison.end),
        version: &comparison.version,
        goes_on: false,
        verdict: answer(comparison),
        parts: vec![
            Part::new(
                "figures",
                "Figures",
                "Each figure",
                vec![intervals(comparison), judgements(comparison).markup()],
            ),
            Part::new(
                "slices",
                "In run order",
                "In the order they were run",
                if plots.is_empty() { Vec::new() } else { drawn },
            ),
            Part::new("runs", "Runs", "Every run", vec![runs(comparison).markup()]),
            Part::new("differs", "What else differs", "What else differs", differs(comparison)),
            Part::new(
                "again",
                "Do it again",
                "Do it again",
                vec![html! {
                    (command_line(&comparison.command))
                    p #download { "All figures are in this file, as JSON (" code { (comparison.schema) } ")." }
                }],
            ),
        ],
    };
    let frame = frame::Frame {
        title: &title(&format!("{} against {}", comparison.a, comparison.b)),
        body: page.markup(),
        data: &data::packed_plots(&plots)?,
        document: &pack::encoded(&[&serde_json::to_vec(comparison)?])?,
        name: &file_name("comparison-", comparison.started_at_unix_ns),
        asks: None,
    };
    to.write_all(frame.markup().into_string().as_bytes())
}

fn alert(end: End) -> Option<String> {
    match end {
        End::Complete => None,
        End::Interrupted => Some("the comparison was interrupted: what was known by then is shown".to_owned()),
        End::Partial => Some("the comparison is under way or was cut off: what is known by now is shown".to_owned()),
    }
}

fn figure(judgement: &Judgement, figure: Option<f64>) -> String {
    figure.map_or("–".to_owned(), |figure| shown_figure(judgement.quantity, figure))
}

fn answer(comparison: &Comparison) -> Markup {
    let paints = || comparison.judgements.iter().map(paint_of);
    let mood = match () {
        () if paints().any(|paint| paint == Paint::Bad) => "bad",
        () if comparison.pairing != Pairing::Single && paints().any(|paint| paint == Paint::Good) => "good",
        () => "warn",
    };
    let row = |label: &str, text: &str, paint| lines::Row {
        label: (Paint::Dim, label.to_owned()),
        lines: vec![vec![(paint, text.to_owned())]],
    };
    let mut facts = vec![row("A", &comparison.a, Paint::Plain), row("B", &comparison.b, Paint::Plain)];
    facts.extend(set_apart(comparison).map(|text| row("disturbed", &text, Paint::Warn)));
    facts.extend(within(comparison).map(|text| row("within", &text, Paint::Plain)));
    let card = |judgement: &Judgement| {
        let change = judgement.change.map_or("–".to_owned(), |change| shown(judgement.quantity, change));
        let mut lines = vec![
            vec![(Paint::Strong, change.split(" (").next().unwrap_or_default().to_owned())],
            vec![(paint_of(judgement), verdict(judgement, comparison))],
            vec![(Paint::Plain, format!("A {}, B {}", figure(judgement, judgement.a), figure(judgement, judgement.b)))],
        ];
        if let Some((_, interval)) = change.split_once(" (") {
            lines.insert(1, vec![(Paint::Plain, interval.trim_end_matches(')').to_owned())]);
        }
        if let Some(itself) = judgement.against_itself {
            lines.push(vec![(Paint::Dim, format!("A to A: {}", floor(judgement.quantity, itself)))]);
        }
        lines::Row { label: (Paint::Dim, words(judgement.quantity).to_owned()), lines }
    };
    let each: Vec<lines::Row> = comparison.judgements.iter().map(card).collect();
    html! {
        section #verdict aria-labelledby="verdict-title" {
            div class={ "gives " (mood) } {
                h2 #verdict-title { (capitalized(&lines::shown(&comparison.sentence))) }
                (lines::list(&facts))
            }
            (cards(&each))
        }
    }
}

/// A change on the axis that it is drawn on.
fn scaled(quantity: Quantity, value: f64) -> f64 {
    if quantity.entry().method.is_ratio() { (1.0 + value).max(1.0 / (2.0 * RATIO_MAX)).ln() } else { value }
}

/// Intervals of all changes, one below the other; of failures on an axis of their own.
fn intervals(comparison: &Comparison) -> Markup {
    let of = |is_ratio: bool| -> Vec<&Judgement> {
        let with = |j: &&Judgement| j.change.is_some() && j.quantity.entry().method.is_ratio() == is_ratio;
        comparison.judgements.iter().filter(with).collect()
    };
    html! {
        (drawn(comparison, &of(true), "Changes from A to B", comparison.tolerance))
        (drawn(comparison, &of(false), "Changes of shares, in points", FAILURES_TOLERANCE))
    }
}

fn drawn(comparison: &Comparison, judgements: &[&Judgement], name: &str, tolerance: f64) -> Markup {
    let Some(first) = judgements.first() else { return html! {} };
    let at = |value: f64| scaled(first.quantity, value);
    let ends =
        |change: &Change| [Some(change.value), change.low, change.high].into_iter().flatten().collect::<Vec<f64>>();
    let all = judgements.iter().flat_map(|j| [j.change, j.against_itself]).flatten().flat_map(|change| ends(&change));
    let far = all.map(|value| at(value).abs()).fold(0.0, f64::max);
    if far == 0.0 {
        return html! {};
    }
    let is_ratio = first.quantity.entry().method.is_ratio();
    let most = if is_ratio { RATIO_MAX.ln() } else { 1.0 };
    let reach = (far * 1.05).clamp(2.0 * at(tolerance), most);
    let place = |value: f64| WIDTH / 2.0 * (1.0 + (at(value) / reach).clamp(-1.0, 1.0));
    let end = |scaled: f64| if is_ratio { scaled.exp_m1() } else { scaled };
    let across = |class: &'static str, from: f64, to: f64, y: u32, height: u32| {
        html! { rect class=(class) x=(format!("{:.1}", place(from))) y=(y) width=(format!("{:.1}", (place(to) - place(from)).max(2.0))) height=(height) {} }
    };
    let both = |change: &Change| Some((change.low?, change.high?));
    html! {
        figure.intervals {
            figcaption { h3 { (name) } p {
                "bars: intervals of the change, and the change itself in them; thin: of A against A, the noise floor; shaded: within "
                (shown_change(first.quantity, tolerance).trim_start_matches('+')) ", which does not matter"
            } }
            @for judgement in judgements {
                @let change = judgement.change.unwrap_or(Change { value: 0.0, low: None, high: None });
                div.interval {
                    span { (words(judgement.quantity)) }
                    svg viewBox="0 0 1000 32" preserveAspectRatio="none" aria-hidden="true" {
                        (across("within", -tolerance, tolerance, 0, 32))
                        rect.middle x="499" y="0" width="2" height="32" {}
                        @if let Some((low, high)) = judgement.against_itself.as_ref().and_then(both) { (across("floor", low, high, 3, 4)) }
                        @if let Some((low, high)) = both(&change) { (across(tone(judgement), low, high, 12, 10)) }
                        rect.value x=(format!("{:.1}", place(change.value) - 2.0)) y="8" width="4" height="18" {}
                    }
                    span { (shown(judgement.quantity, change)) " " span class=[lines::class(paint_of(judgement))] { (verdict(judgement, comparison)) } }
                }
            }
            div.interval aria-hidden="true" {
                span {}
                span.scale {
                    span { (shown_change(first.quantity, end(-reach))) }
                    span { "no change" }
                    span { (shown_change(first.quantity, end(reach))) }
                }
                span {}
            }
        }
    }
}

fn tone(judgement: &Judgement) -> &'static str {
    match judgement.state {
        State::Different if judgement.is_worse => "change worse",
        State::Different => "change better",
        State::Equivalent => "change alike",
        State::Undecided | State::NotDeclared => "change open",
    }
}

fn judgements(comparison: &Comparison) -> Table {
    let row = |judgement: &Judgement| {
        let of = |value: Option<f64>| Cell::figure(value, |value| shown_figure(judgement.quantity, value));
        let end = |end: Option<f64>| Cell::figure(end, |end| shown_change(judgement.quantity, end));
        let change = |of: fn(&Change) -> Option<f64>| end(judgement.change.as_ref().and_then(of));
        let itself = |of: fn(&Change) -> Option<f64>| end(judgement.against_itself.as_ref().and_then(of));
        vec![
            Cell::text(words(judgement.quantity)),
            of(judgement.a),
            of(judgement.b),
            change(|change| Some(change.value)),
            change(|change| change.low),
            change(|change| change.high),
            itself(|change| change.low),
            itself(|change| change.high),
            Cell::count(u64::from(judgement.repeats)),
            Cell::text(verdict(judgement, comparison)).painted(paint_of(judgement)),
        ]
    };
    let titles = ["figure", "A", "B", "B against A", "from", "to", "A to A, from", "to", "repeats", "verdict"];
    let mut columns = figures(&titles);
    if let Some((_, is_figure)) = columns.last_mut() {
        *is_figure = false;
    }
    Table {
        caption: "Medians of each side, the change with its interval, and the same of A against itself".to_owned(),
        columns,
        rows: comparison.judgements.iter().map(row).collect(),
    }
}

fn name(side: Side) -> &'static str {
    match side {
        Side::A => "A",
        Side::AgainA => "A again",
        Side::B => "B",
    }
}

/// A figure in the unit that it is drawn in.
fn value(quantity: Quantity, slice: &Slice) -> Option<f64> {
    let scale = if matches!(quantity, Quantity::Throughput | Quantity::Failures) { 1.0 } else { 1e3 };
    slice.figures.get(quantity).map(|value| value * scale)
}

/// A figure of all slices in the order they were run.
fn slices(comparison: &Comparison, quantity: Quantity) -> Plot {
    let unit = match quantity {
        Quantity::Throughput => Unit::PerS,
        Quantity::P50 | Quantity::P99 | Quantity::Cpu => Unit::Ns,
        Quantity::Failures => Unit::Share,
    };
    let all = || comparison.slices.iter().enumerate();
    let points = |holds: &dyn Fn(&Slice) -> bool| -> Vec<Point> {
        let point = |(number, slice): (usize, &Slice)| {
            let why = slice.disturbed.as_ref().map_or(String::new(), |why| format!(", disturbed: {why}"));
            let note = format!("{}, repeat {}, {:.1} s{why}", name(slice.side), slice.repeat, slice.at_s);
            Some(Point { x: (number + 1) as f64, y: value(quantity, slice)?, note })
        };
        all().filter(|(_, slice)| holds(slice)).filter_map(point).collect()
    };
    let sound = |side: Side| move |slice: &Slice| slice.side == side && slice.disturbed.is_none();
    let mut plot = Plot::new(
        format!("slices-{}", quantity.name()),
        match quantity {
            Quantity::P50 | Quantity::P99 => words(quantity).to_owned(),
            _ => capitalized(words(quantity)),
        },
        quantity.entry().about,
        Axis::new("slice", Unit::Count),
        Axis::new(words(quantity), unit),
    );
    plot.height = 190;
    plot.series = vec![
        Series::points("A", Shape::Disc, Tone::First, points(&sound(Side::A))),
        Series::points("A again", Shape::Ring, Tone::First, points(&sound(Side::AgainA))),
        Series::points("B", Shape::Triangle, Tone::Second, points(&sound(Side::B))),
        Series::points("disturbed, set apart", Shape::Cross, Tone::Dim, points(&|slice| slice.disturbed.is_some())),
    ];
    // Where nothing ever failed there is nothing to see.
    if quantity == Quantity::Failures
        && plot.series.iter().flat_map(|series| &series.points).all(|point| point.y == 0.0)
    {
        plot.series.clear();
    }
    let scale = if unit == Unit::Ns { 1e3 } else { 1.0 };
    if let Some(judgement) = comparison.judgements.iter().find(|judgement| judgement.quantity == quantity) {
        let levels = [(judgement.a, "median of A"), (judgement.b, "median of B")];
        let mut levels: Vec<At> =
            levels.into_iter().filter_map(|(at, name)| Some(At { at: at? * scale, name: name.to_owned() })).collect();
        levels.sort_by(|one, other| other.at.total_cmp(&one.at));
        plot.levels = if comparison.slices.len() > 2 { levels } else { Vec::new() };
    }
    plot
}

fn runs(comparison: &Comparison) -> Table {
    let quantities: Vec<Quantity> = QUANTITIES
        .iter()
        .map(|entry| entry.quantity)
        .filter(|quantity| comparison.slices.iter().any(|slice| slice.figures.get(*quantity).is_some()))
        .collect();
    let mut columns = figures(&["run", "repeat"]);
    columns.push(("side".to_owned(), false));
    columns.push(("began".to_owned(), true));
    columns.extend(quantities.iter().map(|quantity| (words(*quantity).to_owned(), true)));
    columns.extend(texts(&["what gave first", "disturbed by", "recording"]));
    let row = |(number, slice): (usize, &Slice)| {
        let mut row = vec![
            Cell::count((number + 1) as u64),
            Cell::count(u64::from(slice.repeat)),
            Cell::text(name(slice.side)),
            Cell::figure(Some(slice.at_s), |s| format!("{s:.1} s")),
        ];
        row.extend(
            quantities
                .iter()
                .map(|quantity| Cell::figure(slice.figures.get(*quantity), |figure| shown_figure(*quantity, figure))),
        );
        let recording = slice.recording.as_deref().map_or("–", |path| path.rsplit('/').next().unwrap_or(path));
        row.extend([
            Cell::text(slice.gives.as_deref().unwrap_or("–")),
            Cell::text(slice.disturbed.as_deref().unwrap_or("")).painted(Paint::Warn),
            Cell::text(recording),
        ]);
        row
    };
    Table {
        caption: capitalized(&counted(comparison.slices.len() as u64, "run")),
        columns,
        rows: comparison.slices.iter().enumerate().map(row).collect(),
    }
}

fn differs(comparison: &Comparison) -> Vec<Markup> {
    let settings = Table {
        caption: "Settings, hosts and versions that are not the same".to_owned(),
        columns: texts(&["what", "A", "B"]),
        rows: comparison
            .differences
            .iter()
            .map(|one| vec![Cell::text(&*one.name), Cell::text(&*one.a), Cell::text(&*one.b)])
            .collect(),
    };
    vec![html! {
        (settings.markup())
        @if !comparison.findings.is_empty() {
            h3 { "What was found" }
            ul { @for finding in &comparison.findings { li { (lines::shown(&found(finding))) } } }
        }
    }]
}
