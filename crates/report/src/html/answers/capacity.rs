//! The page of a search for the load line: the line with its interval, what gives first beyond it, the picture from which the
//! line was read, response time and throughput over load, each step.
//!
//! Steps are drawn at the loads they achieved. Objectives of one search are put on one scale: the share of bad requests as a
//! multiple of what the objective allows, of the objective that is worst off. The line is where that is 1.

use crate::capacity::{Document, End, Step, Verdict, given, instead, knee, scaling, seen, sure, without, worst};
use crate::html::page::{Page, Part, file_name, title};
use crate::html::plots::{At, Axis, Line, Plot, Point, Series, Shape, Stretch, Tone};
use crate::html::run::sections::{cards, command, command_line, evidence};
use crate::html::table::{Cell, Table};
use crate::html::unit::Unit;
use crate::html::{data, frame, lines, pack};
use crate::text::{Options, Paint, Style};
use crate::words::{capitalized, counted};
use maud::{Markup, html};
use model::finding::ValidityState;
use model::units::{show_duration_ns, show_grouped};
use std::io::{self, Write};

/// How far from the line, as a factor, a step may be to be in the line's picture.
const NEAR: f64 = 2.0;
/// From this factor between the largest and the smallest load on, an axis of loads is logarithmic.
const WIDE: f64 = 12.0;
/// Points of a computed curve.
const CURVE: u32 = 120;
/// How far a knee is drawn, beyond shares of bad requests so many times what is allowed, or one in so many.
const KNEE: f64 = 30.0;

/// Writes the page. `command` shows the search again.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, document: &Document, command: Option<&str>) -> io::Result<()> {
    let plots = plots(document);
    let page = Page {
        heading: document.target.clone(),
        plan: format!("the load line, {}", document.pace),
        started_at_unix_ns: document.started_at_unix_ns,
        command,
        alert: alert(document),
        version: &document.version,
        goes_on: false,
        verdict: verdict(document)?,
        parts: vec![
            Part::new("line", "Load line", "The load line", drawn(&plots, &["line", "order"])),
            Part::new("curve", "Over load", "Over load", over_load(document, &plots)),
            Part::new("steps", "Steps", "Steps", vec![steps(document).markup()]),
            Part::new("again", "Do it again", "Do it again", again(document)),
        ],
    };
    let frame = frame::Frame {
        title: &title(&format!("Load line of {}", document.target)),
        body: page.markup(),
        data: &data::packed_plots(&plots)?,
        document: &pack::encoded(&[&serde_json::to_vec(document)?])?,
        name: &file_name("capacity-", document.started_at_unix_ns),
        asks: None,
    };
    to.write_all(frame.markup().into_string().as_bytes())
}

fn alert(document: &Document) -> Option<String> {
    match document.end {
        End::Complete | End::Disturbed => None,
        End::Interrupted => Some("the search was interrupted: what was known by then is shown".to_owned()),
        End::Partial => Some("the search is under way or was cut off: what is known by now is shown".to_owned()),
    }
}

fn whole(load: f64) -> String {
    show_grouped(load.max(0.0).round() as u64)
}

fn us(us: f64) -> String {
    show_duration_ns(1e3 * us)
}

/// How verdicts look, wherever they stand.
fn look(verdict: Verdict) -> (Shape, Tone, Paint) {
    match verdict {
        Verdict::Held => (Shape::Disc, Tone::Good, Paint::Good),
        Verdict::Missed => (Shape::Cross, Tone::Bad, Paint::Bad),
        Verdict::Undecided => (Shape::Triangle, Tone::Warn, Paint::Warn),
    }
}

const VERDICTS: [Verdict; 3] = [Verdict::Held, Verdict::Missed, Verdict::Undecided];

fn verdict(document: &Document) -> io::Result<Markup> {
    let found = &document.capacity;
    let mood = match (document.validity, document.end, found.load_line) {
        (ValidityState::NotValid, ..) | (_, End::Disturbed, _) => "bad",
        (ValidityState::Valid, End::Complete, Some(_)) => "good",
        _ => "warn",
    };
    let row =
        |label: &str, lines: Vec<Vec<(Paint, String)>>| lines::Row { label: (Paint::Dim, label.to_owned()), lines };
    let strong = |text: String| vec![(Paint::Strong, text)];
    let plain = |text: String| vec![(Paint::Plain, text)];
    let bounds = match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{} to {}, 95 %", whole(low), whole(high)),
        (Some(low), None) => format!("above {}", whole(low)),
        (None, Some(high)) => format!("below {}", whole(high)),
        (None, None) => "neither end is known".to_owned(),
    };
    let line = found.load_line.map_or("not enclosed".to_owned(), |load| format!("{} {}", whole(load), found.unit));
    let mut how_much = vec![strong(line), plain(bounds)];
    how_much.extend(knee(document).map(plain));
    let sure = sure(document);
    let (state, why) = sure.split_once(": ").unwrap_or((&sure, ""));
    let mut how_sure = vec![strong(capitalized(state)), plain(why.to_owned())];
    if let Some(busy) = &document.busy {
        how_sure.push(vec![(Paint::Warn, format!("{busy}: the line is that of what is left of it"))]);
    }
    let count = counted(document.steps.len() as u64, "step");
    let facts = [
        row("how much", how_much),
        row("objective", vec![strong(found.slo.clone()), plain("what a step had to hold".to_owned())]),
        row("how sure", how_sure),
        row(
            "how it was found",
            vec![strong(format!("{count} in {:.0} s", document.took_s)), plain(document.pace.clone())],
        ),
    ];
    let style = Style { color: true, width: usize::MAX / 2, unicode: true };
    let options = Options { style, describe: &|_| None, all: true, kept: None };
    Ok(html! {
        section #verdict aria-labelledby="verdict-title" {
            div class={ "gives " (mood) } {
                h2 #verdict-title { "Load line: " (lines::shown(&document.sentence)) }
                @match &document.gives {
                    Some(gives) => {
                        div {
                            h3 { "Gives first: " (lines::shown(&gives.finding.title)) " " span.id { (gives.finding.id) } }
                            @if let Some(given) = Some(given(gives)).filter(|given| !given.is_empty()) {
                                p.dim { (given.trim_start_matches(", ")) }
                            }
                        }
                        (evidence(&gives.finding, &options)?)
                        @if let Some(text) = without(gives, &found.unit) {
                            p { "Without it " (lines::shown(&text)) }
                        }
                        @if let Some(text) = seen(document) {
                            p { "Besides, " (lines::shown(&text)) }
                        }
                    },
                    None => {
                        @if let Some(text) = instead(document) {
                            p { "What gives first: " (lines::shown(&text)) }
                        }
                    },
                }
            }
            (cards(&facts))
        }
    })
}

fn drawn(plots: &[Plot], ids: &[&str]) -> Vec<Markup> {
    ids.iter().filter_map(|id| plots.iter().find(|plot| plot.id == *id)).map(Plot::markup).collect()
}

fn over_load(document: &Document, plots: &[Plot]) -> Vec<Markup> {
    let mut parts = drawn(plots, &["latency", "scaling", "throughput-latency", "achieved"]);
    if let Some(of) = &document.scaling {
        let [single, costs, turn] = scaling(of);
        let titles = ["parameter", "value", "low", "high"];
        let columns = titles.iter().enumerate().map(|(i, title)| ((*title).to_owned(), i > 0)).collect();
        let share = |value: f64| format!("{:.3} %", 100.0 * value);
        let of_three = |name: &str, ends: [f64; 3], show: &dyn Fn(f64) -> String| {
            let cells = ends.map(|end| Cell::figure(Some(end), show));
            std::iter::once(Cell::text(name)).chain(cells).collect()
        };
        let table = Table {
            caption: "The Universal Scalability Law’s parameters, with their 95 % intervals".to_owned(),
            columns,
            rows: vec![
                of_three("throughput of one connection", of.single_per_s, &|per_s| format!("{}/s", whole(per_s))),
                of_three("contention: the serial share", of.contention, &share),
                of_three("coherency: what each pair costs", of.coherency, &share),
            ],
        };
        parts.push(html! {
            h3 { "How throughput scales" }
            p { (capitalized(&single)) "; " (costs) ". " (capitalized(&turn)) "." }
            (table.markup())
        });
    }
    parts
}

/// The unit of a search's loads.
fn unit(document: &Document) -> Unit {
    match &*document.capacity.unit {
        "bytes/s" => Unit::Bytes,
        unit if unit.ends_with("/s") => Unit::PerS,
        _ => Unit::Count,
    }
}

/// Whether a load is so many that ask, and not a rate.
fn is_closed(document: &Document) -> bool {
    !document.capacity.unit.ends_with("/s")
}

/// The share of bad requests over what is allowed, of the objective that is worst off.
fn over_allowed(document: &Document, step: &Step) -> Option<f64> {
    let each = document.objectives.iter().enumerate().filter(|(_, one)| one.allowed > 0.0);
    each.filter_map(|(place, one)| Some(step.bad_share(place)? / one.allowed)).reduce(f64::max)
}

fn note(number: usize, step: &Step) -> String {
    let p99 = step.response_p99_us.map_or(String::new(), |p99| format!(", p99 {}", us(p99)));
    format!("step {}, {}: {}{p99}", number + 1, step.purpose, step.verdict.name())
}

/// A series for each verdict, of the steps that have a point.
fn by_verdict(document: &Document, point: impl Fn(usize, &Step) -> Option<(f64, f64)>) -> Vec<Series> {
    let of = |verdict: Verdict| {
        let (shape, tone, _) = look(verdict);
        let steps = document.steps.iter().enumerate().filter(|(_, step)| step.verdict == verdict);
        let points = steps
            .filter_map(|(number, step)| point(number, step).map(|(x, y)| Point { x, y, note: note(number, step) }));
        Series::points(verdict.name(), shape, tone, points.collect())
    };
    VERDICTS.map(of).to_vec()
}

fn plots(document: &Document) -> Vec<Plot> {
    let mut plots = vec![line(document), order(document), latency(document)];
    if is_closed(document) {
        plots.extend([scales(document), throughput_latency(document)]);
    } else {
        plots.push(achieved(document));
    }
    plots.retain(Plot::has_any);
    plots
}

/// An axis of loads, logarithmic where they are far apart.
fn axis(document: &Document, name: &str, loads: impl Iterator<Item = f64>) -> Axis {
    let (least, most) = loads.fold((f64::INFINITY, 0.0f64), |(least, most), load| (least.min(load), most.max(load)));
    let axis = Axis::new(name, unit(document));
    if least > 0.0 && most > WIDE * least { axis.logarithmic() } else { axis }
}

fn stretches(document: &Document) -> Vec<Stretch> {
    let found = &document.capacity;
    let both = found.low.zip(found.high).filter(|_| found.load_line.is_some());
    both.map(|(from, to)| Stretch { from, to, name: "95 % interval".to_owned() }).into_iter().collect()
}

fn uprights(document: &Document) -> Vec<At> {
    document.capacity.load_line.map(|at| At { at, name: "load line".to_owned() }).into_iter().collect()
}

/// The picture from which the line is read.
fn line(document: &Document) -> Plot {
    let found = &document.capacity;
    let middle = found.load_line.or(found.held).or(found.missed);
    let is_near = |load: f64| middle.is_none_or(|middle| load >= middle / NEAR && load <= middle * NEAR);
    let far = document.steps.iter().filter(|step| !is_near(step.load)).count();
    let rest = match far {
        0 => String::new(),
        far => format!("; {} farther from it are in the table of steps", counted(far as u64, "step")),
    };
    let several = if document.objectives.len() > 1 { ", of the objective that is worst off" } else { "" };
    let about = format!(
        "bad requests (late, failed or lost) of each step as a multiple of what the objective allows{several}, over the load it achieved{rest}"
    );
    let near = || document.steps.iter().map(|step| step.load).filter(|load| is_near(*load));
    let x = axis(document, &format!("achieved load, {}", found.unit), near());
    let mut plot = Plot::new(
        "line",
        "Where the objective is lost",
        about,
        x,
        Axis::new("bad requests over what is allowed", Unit::Times).logarithmic(),
    );
    plot.nothing = Some("none bad");
    plot.series =
        by_verdict(document, |_, step| is_near(step.load).then(|| Some((step.load, over_allowed(document, step)?)))?);
    // ln(share) is a straight line over ln(load): as it was fitted, through 1 at the line.
    if let (Some(line), Some(steepness)) = (found.load_line, found.steepness.filter(|steepness| *steepness > 0.0)) {
        let reach = KNEE.powf(1.0 / steepness).min(NEAR);
        let at = |i: u32| line / reach * (reach * reach).powf(f64::from(i) / f64::from(CURVE));
        let knee = (0..=CURVE).map(|i| (at(i), (at(i) / line).powf(steepness)));
        plot.series.push(Series::computed("knee, as fitted", Tone::Dim, knee));
    }
    plot.stretches = stretches(document);
    plot.uprights = uprights(document);
    plot.levels = vec![At { at: 1.0, name: format!("allowed: {}", found.slo) }];
    plot
}

/// The steps one after another: how the search went, and whether the line moved meanwhile.
fn order(document: &Document) -> Plot {
    let loads = || document.steps.iter().map(|step| step.load);
    let mut plot = Plot::new(
        "order",
        "Step after step",
        "the load of each, in the order they were run: what drifts shows as loads that held before and are missed later",
        Axis::new("step", Unit::Count),
        axis(document, &format!("achieved load, {}", document.capacity.unit), loads()),
    );
    plot.series = by_verdict(document, |number, step| Some(((number + 1) as f64, step.load)));
    plot.levels = uprights(document);
    plot
}

/// Response times over load.
fn latency(document: &Document) -> Plot {
    let x =
        axis(document, &format!("achieved load, {}", document.capacity.unit), document.steps.iter().map(|s| s.load));
    let mut plot = Plot::new(
        "latency",
        "Response time over load",
        "median and 99th percentile of each step, from when a request was due; logarithmic",
        x,
        Axis::new("response time", Unit::Ns).logarithmic(),
    );
    let of = |time: fn(&Step) -> Option<f64>| by_load(document, |step| Some((step.load, 1e3 * time(step)?)));
    plot.series = times(of(|step| step.response_p99_us), of(|step| step.response_p50_us));
    plot.stretches = stretches(document);
    plot.uprights = uprights(document);
    let bound = |one: &crate::capacity::Objective| Some(At { at: 1e3 * one.late_us?, name: one.text.clone() });
    plot.levels = document.objectives.iter().filter_map(bound).collect();
    plot
}

fn times(p99: Vec<Point>, p50: Vec<Point>) -> Vec<Series> {
    vec![
        Series::points("p99", Shape::Disc, Tone::First, p99).joined(Line::Whole),
        Series::points("p50", Shape::Ring, Tone::Second, p50).joined(Line::Dashed),
    ]
}

/// Points of all steps, by load.
fn by_load(document: &Document, point: impl Fn(&Step) -> Option<(f64, f64)>) -> Vec<Point> {
    let mut steps: Vec<(usize, &Step)> = document.steps.iter().enumerate().collect();
    steps.sort_by(|(_, a), (_, b)| a.load.total_cmp(&b.load));
    let point = |(number, step): (usize, &Step)| point(step).map(|(x, y)| Point { x, y, note: note(number, step) });
    steps.into_iter().filter_map(point).collect()
}

/// Asked and achieved rates.
fn achieved(document: &Document) -> Plot {
    let loads = || document.steps.iter().flat_map(|step| [step.asked, step.load]);
    let unit = &document.capacity.unit;
    let mut plot = Plot::new(
        "achieved",
        "Asked and achieved",
        "what each step asked for and what it came to: below the dashed line the server or the generator fell behind",
        axis(document, &format!("asked, {unit}"), loads()),
        axis(document, &format!("achieved, {unit}"), loads()),
    );
    plot.series = by_verdict(document, |_, step| Some((step.asked, step.load)));
    let (least, most) = loads().fold((f64::INFINITY, 0.0f64), |(least, most), load| (least.min(load), most.max(load)));
    if least < most {
        let at = |i: u32| least + (most - least) * f64::from(i) / f64::from(CURVE);
        plot.series.push(Series::computed("as much as asked", Tone::Dim, (0..=CURVE).map(|i| (at(i), at(i)))));
    }
    plot
}

/// Throughput over connections, with the law that was fitted to it.
fn scales(document: &Document) -> Plot {
    let loads = || document.steps.iter().map(|step| step.load);
    let mut plot = Plot::new(
        "scaling",
        "Throughput over connections",
        match document.scaling {
            Some(_) => "what each step came to, and the Universal Scalability Law that fits it",
            None => "what each step came to",
        },
        axis(document, &document.capacity.unit, loads()),
        Axis::new("requests a second", Unit::PerS).from_zero(),
    );
    plot.series = by_verdict(document, |_, step| Some((step.load, step.per_s()?)));
    if let Some(of) = &document.scaling {
        let [single, contention, coherency] = [of.single_per_s[0], of.contention[0], of.coherency[0]];
        let most = loads().fold(1.0f64, f64::max) * 1.05;
        let at = |i: u32| most.powf(f64::from(i) / f64::from(CURVE));
        // N. J. Gunther, "Guerrilla Capacity Planning", 2007, chapter 4.
        let per_s = |n: f64| single * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0));
        plot.series.push(Series::computed(
            "Universal Scalability Law",
            Tone::First,
            (0..=CURVE).map(|i| (at(i), per_s(at(i)))),
        ));
        plot.uprights =
            of.peak_at.filter(|at| *at <= most).map(|at| At { at, name: "it turns".to_owned() }).into_iter().collect();
    }
    plot.uprights.extend(uprights(document));
    plot
}

/// Response time over throughput, where throughput is what a load comes to.
fn throughput_latency(document: &Document) -> Plot {
    let mut plot = Plot::new(
        "throughput-latency",
        "Response time over throughput",
        "each step, joined by its number of connections: where the line turns up, more of them only wait",
        Axis::new("requests a second", Unit::PerS),
        Axis::new("response time", Unit::Ns).logarithmic(),
    );
    let of = |time: fn(&Step) -> Option<f64>| {
        let mut points = by_load(document, |step| Some((step.per_s()?, 1e3 * time(step)?)));
        let loads = by_load(document, |step| Some((step.per_s()?, step.load)));
        points
            .iter_mut()
            .zip(loads)
            .for_each(|(point, load)| point.note += &format!(", {} {}", whole(load.y), document.capacity.unit));
        points
    };
    plot.series = times(of(|step| step.response_p99_us), of(|step| step.response_p50_us));
    plot
}

fn steps(document: &Document) -> Table {
    let unit = &document.capacity.unit;
    let titles = [
        ("step", true),
        ("what for", false),
        (&*format!("asked, {unit}"), true),
        ("achieved", true),
        ("verdict", false),
        ("bad", true),
        ("p50", true),
        ("p99", true),
        ("requests", true),
        ("took", true),
        ("backlog", false),
        ("recording", false),
    ]
    .map(|(title, is_figure)| (title.to_owned(), is_figure))
    .to_vec();
    let objectives =
        document.steps.iter().flat_map(|step| &step.blocks).map(|block| block.bad.len()).max().unwrap_or(0);
    let row = |(number, step): (usize, &Step)| {
        let shares: Vec<f64> = (0..objectives).filter_map(|place| step.bad_share(place)).collect();
        let bad = shares.iter().copied().reduce(f64::max);
        let recording = step.recording.as_deref().map_or("–", |path| path.rsplit('/').next().unwrap_or(path));
        vec![
            Cell::count((number + 1) as u64),
            Cell::text(&*step.purpose),
            Cell::figure(Some(step.asked), whole),
            Cell::figure(Some(step.load), whole),
            Cell::text(step.verdict.name()).painted(look(step.verdict).2),
            Cell::figure(bad, |_| worst(&shares)),
            Cell::figure(step.response_p50_us, us),
            Cell::figure(step.response_p99_us, us),
            Cell::count(step.requests()),
            Cell::figure(Some(step.took_s), |s| format!("{s:.1} s")),
            Cell::text(if step.is_growing { "grew" } else { "" }),
            Cell::text(recording),
        ]
    };
    Table {
        caption: format!("{}, each a run of its own", capitalized(&counted(document.steps.len() as u64, "step"))),
        columns: titles,
        rows: document.steps.iter().enumerate().map(row).collect(),
    }
}

fn again(document: &Document) -> Vec<Markup> {
    let [held, missed] = document.recordings_at_line();
    let beside = [("the highest step that held, in full", held), ("the lowest that missed", missed)];
    let quoted = |path: &str| shlex::try_quote(path).map_or_else(|_| path.to_owned(), std::borrow::Cow::into_owned);
    vec![html! {
        (command_line(&document.command))
        @for (what, path) in beside {
            @if let Some(path) = path {
                p.dim { (capitalized(what)) ":" }
                (command(&format!("plimsoll report {}", quoted(path))))
            }
        }
        p #download { "All figures are in this file, as JSON (" code { (document.schema) } ")." }
    }]
}
