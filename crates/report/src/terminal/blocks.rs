//! The parts of the view of a run, each in as many lines as there is room for.

use super::fit::{Block, Spans};
use super::spark;
use super::view::{QUANTILES, View};
use super::{Looks, threads};
use crate::progress::{Progress, bar};
use crate::text::Paint;
use crate::text::page::{fold, safe};
use crate::words::{bounded, counted, duration, figure, grouped, of_kind, percent, rate};
use model::interval::ErrorCounts;
use model::latency::AtLeast;
use model::{ErrorKind, LatencyKind};
use std::collections::VecDeque;

/// Where text begins beside its label.
pub const INDENT: usize = 11;
/// Where what is over time begins beside its figure.
const FIGURE: usize = 13;
/// Rows of what is over time: at the least, to be read well, and where there is room to spare.
const CHART_ROWS: [usize; 3] = [1, 2, 6];
/// Threads shown at a glance, and where there is room to spare.
const THREADS: [usize; 2] = [3, 12];
/// Lines of what was told, at a glance; of a search.
const TOLD: [usize; 2] = [3, 8];

/// A line that has a label; empty: that of the line above.
pub fn labelled(label: &str, paint: Paint, text: impl Into<String>) -> Spans {
    vec![(Paint::Dim, format!("{label:INDENT$}")), (paint, text.into())]
}

/// Parts in a row, as many as have room beside a label.
fn parts(label: &str, parts: &[String], width: usize) -> Spans {
    let room = width.saturating_sub(INDENT);
    let mut text = String::new();
    for part in parts {
        let separator = if text.is_empty() { "" } else { "  " };
        if text.chars().count() + separator.len() + part.chars().count() > room && !text.is_empty() {
            break;
        }
        text.push_str(separator);
        text.push_str(part);
    }
    labelled(label, Paint::Plain, text)
}

/// What is run, and how far it has come: always there.
pub fn head<'a>(view: &'a View, looks: Looks, width: usize) -> Block<'a> {
    Block::new(0, [2, 3, 3], move |rows| {
        let time = view.row.as_ref().map_or_else(|| "begins".to_owned(), |row| progress(view, row).time());
        let room = width.saturating_sub(time.chars().count() + 2);
        let label = view.label.trim_end();
        let what = if label.is_empty() { view.target.clone() } else { format!("{label}  {}", view.target) };
        let what: String = safe(&what, looks.unicode).chars().take(room).collect();
        let mut lines = vec![vec![(Paint::Strong, format!("{what:room$}  ")), (Paint::Plain, time)]];
        if rows > 2 {
            lines.push(vec![(Paint::Dim, view.plan.clone())]);
        }
        let elapsed_ns = view.row.map_or(0, |row| row.end_ns);
        lines.push(match view.planned_ns {
            Some(planned_ns) => vec![(Paint::Bar, bar(elapsed_ns, planned_ns, width, looks.unicode))],
            None => vec![(Paint::Dim, "until all requests are done".to_owned())],
        });
        lines
    })
}

/// The live line's facts of a row.
pub fn progress<'a>(view: &View, row: &'a model::recording::Row) -> Progress<'a> {
    Progress {
        row,
        elapsed_ns: row.end_ns,
        planned_ns: view.planned_ns,
        warmup_ns: view.warmup_ns,
        failed: view.failed,
    }
}

/// What was measured: rate and response time over time, connections, failures.
pub fn measured<'a>(view: &'a View, looks: Looks, width: usize) -> Vec<Block<'a>> {
    vec![
        rates(view, looks, width).group(),
        p99s(view, looks, width),
        response(view, width).group(),
        load(view, width).group(),
        failed(view, width),
    ]
}

/// What is known of target and generator, and what gives first; other findings in full, or in a line each.
pub fn known<'a>(view: &'a View, width: usize, in_full: bool) -> Vec<Block<'a>> {
    let mut blocks = vec![stands(view, width).group(), doubts(view, width)];
    if !in_full {
        blocks.push(others(view, width));
    }
    blocks.extend([target(view, width).group(), generator(view, width), told(view, width).group()]);
    if in_full {
        blocks.push(findings(view, width).group());
    }
    blocks
}

fn rates<'a>(view: &'a View, looks: Looks, width: usize) -> Block<'a> {
    let now = match view.row.as_ref() {
        None => "no tick yet".to_owned(),
        Some(row) if view.is_warmup(row) => "warming up".to_owned(),
        Some(row) if row.is_drain => "ending".to_owned(),
        Some(_) => view.rates.back().copied().flatten().map_or_else(String::new, rate),
    };
    over_time(view, looks, width, 1, Course { label: "rate", now, values: &view.rates, shown: rate })
}

fn p99s<'a>(view: &'a View, looks: Looks, width: usize) -> Block<'a> {
    let now = view.quantiles[1].map_or_else(|| "no reply".to_owned(), bounded);
    let shown = |ns: f64| duration(ns as u64);
    over_time(view, looks, width, 2, Course { label: "p99", now, values: &view.p99s, shown })
}

/// A figure over time.
struct Course<'a> {
    label: &'static str,
    now: String,
    values: &'a VecDeque<Option<f64>>,
    shown: fn(f64) -> String,
}

fn over_time<'a>(view: &'a View, looks: Looks, width: usize, rank: u8, course: Course<'a>) -> Block<'a> {
    Block::new(rank, CHART_ROWS, move |rows| {
        let cells = width.saturating_sub(INDENT + FIGURE);
        let values: Vec<Option<f64>> = course.values.iter().copied().collect();
        let wide = spark::widened(&values, cells, view.ticks_at_end());
        let each = wide.len() / values.len().max(1);
        let seen = (cells / each.max(1)).min(values.len());
        let shown = &values[values.len() - seen..];
        let top = shown.iter().flatten().copied().reduce(f64::max);
        let span_s = seen as f64 * view.tick_ns as f64 / 1e9;
        let beside = [
            (Paint::Strong, course.now.clone()),
            (Paint::Dim, top.map_or(String::new(), |top| format!("max {}", (course.shown)(top)))),
            (Paint::Dim, if seen > 1 { format!("over {} s", figure(span_s)) } else { String::new() }),
        ];
        let mut beside = beside.into_iter();
        let mut label = course.label;
        let drawn = spark::rows(&wide, cells, rows, looks.unicode);
        let line = |drawn: String| {
            let (paint, text) = beside.next().unwrap_or((Paint::Plain, String::new()));
            let mut line = labelled(std::mem::take(&mut label), paint, format!("{text:FIGURE$}"));
            line.push((Paint::Bar, drawn));
            line
        };
        drawn.into_iter().map(line).collect()
    })
}

fn response<'a>(view: &'a View, width: usize) -> Block<'a> {
    // In a row of one the p99 is not said twice; in two each figure has its place.
    Block::new(3, [1, 3, 3], move |rows| {
        let of = |named: &[(&str, Option<AtLeast>)]| -> Vec<String> {
            named.iter().filter_map(|(name, value)| Some(format!("{name} {}", bounded((*value)?)))).collect()
        };
        let [p50, p99, p999] = view.quantiles;
        let names = QUANTILES.map(|(name, _)| name);
        if rows == 1 {
            let now = of(&[(names[0], p50), (names[2], p999)]);
            return vec![parts("response", &if now.is_empty() { vec!["no reply".to_owned()] } else { now }, width)];
        }
        let column = |value: Option<AtLeast>| format!("{:FIGURE$}", value.map_or("-".to_owned(), bounded));
        let row = |label: &str, paint: Paint, cells: Vec<String>| {
            let room = width.saturating_sub(INDENT);
            labelled(label, paint, cells.into_iter().take(room / FIGURE).collect::<String>())
        };
        let heads = names.into_iter().chain(["max"]).map(|name| format!("{name:FIGURE$}"));
        let now = row("  now", Paint::Plain, [p50, p99, p999].map(column).into());
        let so_far = view.standing.as_ref().map_or([None; 4], |standing| standing.quantiles);
        let so_far = row("  so far", Paint::Plain, so_far.map(column).into());
        if rows == 2 {
            return vec![row("response", Paint::Dim, heads.collect()), now];
        }
        vec![row("response", Paint::Dim, heads.collect()), now, so_far]
    })
}

fn load<'a>(view: &'a View, width: usize) -> Block<'a> {
    let gauges = view.row.map(|row| row.gauges).unwrap_or_default();
    let mut facts = vec![counted(gauges.connections, "connection"), format!("{} in flight", grouped(gauges.in_flight))];
    facts.push(format!("{} queued", grouped(gauges.queued)));
    Block::of(4, vec![parts("load", &facts, width)], 0)
}

/// Kinds of failure, the most frequent first.
pub fn by_kind(counts: &ErrorCounts) -> Vec<(ErrorKind, u64)> {
    let mut seen: Vec<(ErrorKind, u64)> = counts.seen().collect();
    seen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    seen
}

fn failed<'a>(view: &'a View, width: usize) -> Block<'a> {
    let (kinds, of_connections) = (by_kind(&view.errors), by_kind(&view.connection_errors));
    let lines = 1 + kinds.len() + of_connections.len();
    Block::new(4, [1, lines, lines], move |rows| {
        let ended = view.ok + view.failed;
        let share = if ended > 0 { 100.0 * view.failed as f64 / ended as f64 } else { 0.0 };
        let mut facts = vec![format!("{} ({})", counted(view.failed, view.unit), percent(share))];
        if rows < lines {
            facts.extend(kinds.iter().chain(&of_connections).take(1).map(|(kind, _)| kind.name().to_owned()));
        }
        let connections = view.connection_errors.total();
        if connections > 0 {
            facts.push(counted(connections, "connection"));
        }
        if view.dropped > 0 {
            facts.push(format!("{} dropped", grouped(view.dropped)));
        }
        let mut all = vec![parts("failed", &facts, width)];
        if view.failed > 0
            && let Some((paint, _)) = all[0].get_mut(1)
        {
            *paint = Paint::Bad;
        }
        all.extend(kinds.iter().map(|(kind, count)| of_failure(*kind, *count, "")));
        all.extend(of_connections.iter().map(|(kind, count)| of_failure(*kind, *count, ", without a request")));
        all
    })
}

/// A kind of failure, with its count.
pub fn of_failure(kind: ErrorKind, count: u64, more: &str) -> Spans {
    vec![
        (Paint::Bad, format!("{:>width$}  ", grouped(count), width = INDENT - 2)),
        (Paint::Plain, kind.name().to_owned()),
        (Paint::Dim, format!(": {}{more}", of_kind(kind))),
    ]
}

fn stands<'a>(view: &'a View, width: usize) -> Block<'a> {
    let Some(standing) = &view.standing else {
        return Block::of(5, vec![labelled("so far", Paint::Dim, "Nothing can be said yet")], 0);
    };
    let (paint, text) = standing.sentence();
    let mut lines = fold(&labelled("so far", paint, text), width);
    let sentence = lines.len();
    lines.extend(standing.proof.iter().flat_map(|line| fold(line, width)));
    Block::of(5, lines, sentence).enough(sentence)
}

fn doubts<'a>(view: &'a View, width: usize) -> Block<'a> {
    let doubts = view.standing.iter().flat_map(|standing| &standing.doubts);
    let lines = doubts.enumerate().flat_map(|(at, doubt)| {
        let label = if at == 0 { "doubtful" } else { "" };
        fold(&labelled(label, Paint::Warn, doubt.clone()), width)
    });
    Block::of(8, lines.collect(), usize::MAX)
}

fn target<'a>(view: &'a View, width: usize) -> Block<'a> {
    let threads = &view.threads.busiest;
    let Some(first) = threads.first() else {
        return Block::of(6, vec![labelled("target", Paint::Dim, "no thread of it is seen")], 0);
    };
    let mut facts = vec![of_thread(first)];
    facts.extend(view.threads.cpus.map(|cpus| format!("{cpus:.2} CPUs in all")));
    facts.extend(first.sleeps_in.as_ref().map(|at| format!("in {at}")));
    let mut lines = vec![parts("target", &facts, width)];
    lines.extend(threads[1..].iter().take(THREADS[1] - 1).map(|thread| labelled("", Paint::Plain, of_thread(thread))));
    Block::of(6, lines, 0).enough(THREADS[0])
}

/// A thread, its share of a CPU, and what it did.
pub fn of_thread(thread: &threads::Use) -> String {
    format!("{} {}, {}", thread.name, percent(100.0 * thread.share), thread.state)
}

fn generator<'a>(view: &'a View, width: usize) -> Block<'a> {
    let Some(row) = &view.row else { return Block::of(7, Vec::new(), 0) };
    let mut facts = vec![format!("{} busy", percent(100.0 * row.worker_busy_max))];
    facts.push(format!("{} without a CPU", percent(100.0 * row.worker_wait_max)));
    facts.extend(row.lag_p99_ns.map(|ns| format!("{} p99 {}", LatencyKind::Lag.name(), duration(ns))));
    Block::of(7, vec![parts("generator", &facts, width)], 0)
}

fn told<'a>(view: &'a View, width: usize) -> Block<'a> {
    let lines = view.told.iter().rev().enumerate().flat_map(|(at, text)| {
        let label = if at == 0 { "told" } else { "" };
        fold(&labelled(label, Paint::Plain, text.clone()), width)
    });
    // Of a search it has the steps, which are what is waited for.
    let (rank, enough) = if view.label.is_empty() { (9, TOLD[0]) } else { (1, TOLD[1]) };
    Block::of(rank, lines.collect(), 0).enough(enough)
}

/// Other findings, in a line each.
fn others<'a>(view: &'a View, width: usize) -> Block<'a> {
    let others = view.standing.iter().flat_map(|standing| &standing.others);
    let lines = others
        .enumerate()
        .flat_map(|(at, (paint, text))| fold(&labelled(if at == 0 { "and" } else { "" }, *paint, text.clone()), width));
    Block::of(8, lines.collect(), usize::MAX)
}

/// Other findings with their evidence, and what could not be judged.
fn findings<'a>(view: &'a View, width: usize) -> Block<'a> {
    let lines = view.standing.iter().flat_map(|standing| &standing.findings).skip_while(|line| line.is_empty());
    let lines = lines.flat_map(|line| if line.is_empty() { vec![Vec::new()] } else { fold(line, width) });
    Block::of(10, lines.collect(), 0)
}
