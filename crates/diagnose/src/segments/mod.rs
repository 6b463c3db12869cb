//! The stationary segments of a run: stretches of time in which throughput, response time and failures kept their levels.
//!
//! Found in the timeline's rows ([`change`]: the method, its penalty, its false alarms): requests ended a second (under a rate
//! that changes by plan, for each that was due), the logarithms of the intervals' p50 and p99, and the share that failed. An
//! event of fault kind always begins a new one. Of fewer rows than that takes, and before the third row, only a step to
//! something far worse is told (`worse`). Facts of a segment are asked of the history by its window. Of a run whose rows were
//! merged, times are as coarse as those.

pub mod change;
pub(crate) mod part;
pub(crate) mod worse;

use crate::facts::{Facts, seconds};
use crate::history::Window;
use crate::statistics::median;
use change::{Course, PIECE_MIN, VALUES_MIN, changes};
use model::finding::Segment;
use model::recording::Row;

/// Throughput that differs by less of itself is the same: as in `not-steady`.
const THROUGHPUT: f64 = 0.10;
/// The same of response times, as the logarithm of a quarter more.
const RESPONSE: f64 = 0.223;
/// The same of the share that failed.
const FAILED: f64 = 0.01;
/// The noise is taken to be at least a tenth of what matters, where the values themselves have less.
const NOISE: f64 = 0.1;

/// The segments of the measured time, in order; one, where nothing changed. None without a row.
pub fn segments(facts: &Facts<'_>) -> Vec<Segment> {
    let rows = usual(facts);
    let forced: Vec<usize> = facts
        .recording
        .events
        .iter()
        .filter(|event| model::event::is_fault(&event.kind))
        .map(|event| rows.partition_point(|row| i64::try_from(row.end_ns).unwrap_or(i64::MAX) <= event.at_ns))
        .collect();
    let mut starts = vec![0];
    starts.extend(forced.into_iter().filter(|at| *at > 0 && *at < rows.len()));
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([rows.len()]).collect::<Vec<_>>();
    let mut found = Vec::new();
    for (start, end) in starts.into_iter().zip(ends) {
        let part = &rows[start..end];
        let cuts = match part.len() < VALUES_MIN {
            true => worse::step(part, part.len(), facts.is_saturating()),
            false => with_early(worse::step(part, PIECE_MIN, facts.is_saturating()), changes(&courses(facts, part))),
        };
        let firsts = std::iter::once(0).chain(cuts.iter().copied());
        let lasts = cuts.iter().copied().chain([part.len()]);
        found.extend(firsts.zip(lasts).filter_map(|(first, last)| segment(part.get(first..last)?)));
    }
    found
}

/// Cuts of a run, with a step that came too early in it to be one: the piece before it would be shorter than any may be.
fn with_early(step: Vec<usize>, cuts: Vec<usize>) -> Vec<usize> {
    let Some(last) = step.last().copied() else { return cuts };
    step.into_iter().chain(cuts.into_iter().filter(|cut| *cut >= last + PIECE_MIN)).collect()
}

/// The window of a segment, to ask a history for facts of it.
pub fn window(segment: &Segment) -> Window {
    let ns = |s: f64| (s * 1e9) as i64;
    Window::new(ns(segment.from_s), ns(segment.to_s))
}

/// The measured rows, without those much shorter than the usual one: the last may be a rest.
pub(crate) fn usual<'r>(facts: &Facts<'r>) -> Vec<&'r Row> {
    let mut lengths: Vec<u64> = facts.rows.iter().map(|r| length_ns(r)).collect();
    lengths.sort_unstable();
    let median_ns = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    facts.rows.iter().copied().filter(|r| length_ns(r) >= median_ns / 2).collect()
}

fn length_ns(row: &Row) -> u64 {
    row.end_ns.saturating_sub(row.start_ns)
}

fn courses(facts: &Facts<'_>, rows: &[&Row]) -> Vec<Course> {
    if rows.len() < 2 * PIECE_MIN {
        return Vec::new();
    }
    let ended = |row: &Row| row.counts.arrived() as f64;
    let is_constant = facts.is_constant_rate();
    let over = |row: &Row| {
        let due = if is_constant { None } else { facts.due(row.start_ns, row.end_ns) };
        due.filter(|due| *due > 0.0).unwrap_or(length_ns(row) as f64 / 1e9)
    };
    let throughput: Vec<f64> = rows.iter().map(|row| ended(row) / over(row)).collect();
    let usual = median(throughput.clone());
    let requests = median(rows.iter().map(|row| ended(row)).collect()).max(1.0);
    let share = |row: &Row| (row.counts.failed as f64 + row.counts.carried_failed as f64) / ended(row).max(1.0);
    let failed: Vec<f64> = rows.iter().map(|row| share(row)).collect();
    let failing = failed.iter().sum::<f64>() / rows.len() as f64;
    // Where few requests end in a row, counting alone makes so much noise.
    let counting = (failing * (1.0 - failing).max(0.0) / requests).sqrt();
    let mut all = vec![
        Course {
            noise_min: usual * (NOISE * THROUGHPUT).max(1.0 / requests.sqrt()),
            difference_min: (usual * THROUGHPUT).max(f64::MIN_POSITIVE),
            values: throughput,
        },
        Course { noise_min: (NOISE * FAILED).max(counting), difference_min: FAILED, values: failed },
    ];
    for of in [|row: &Row| row.response_p50_ns, |row: &Row| row.response_p99_ns] {
        let read: Vec<Option<f64>> = rows.iter().map(|row| of(row).map(|ns| (ns.max(1) as f64).ln())).collect();
        let Some(mut last) = read.iter().flatten().next().copied() else { continue };
        // A row in which nothing ended tells nothing of times.
        let values = read.iter().map(|value| {
            last = value.unwrap_or(last);
            last
        });
        all.push(Course { values: values.collect(), noise_min: NOISE * RESPONSE, difference_min: RESPONSE });
    }
    all.retain(|course| course.values.iter().all(|value| value.is_finite()));
    all
}

fn segment(rows: &[&Row]) -> Option<Segment> {
    let (first, last) = (rows.first()?, rows.last()?);
    let length_s = rows.iter().map(|row| seconds(length_ns(row))).sum::<f64>().max(f64::MIN_POSITIVE);
    let sum = |of: &dyn Fn(&Row) -> u64| rows.iter().map(|row| of(row) as f64).sum::<f64>();
    let quantile_us = |of: &dyn Fn(&Row) -> Option<u64>| {
        let read: Vec<f64> = rows.iter().filter_map(|row| of(row)).map(|ns| ns as f64 / 1e3).collect();
        (!read.is_empty()).then(|| median(read))
    };
    Some(Segment {
        from_s: seconds(first.start_ns),
        to_s: seconds(last.end_ns),
        requests_per_s: sum(&|row| row.counts.arrived()) / length_s,
        response_p50_us: quantile_us(&|row| row.response_p50_ns),
        response_p99_us: quantile_us(&|row| row.response_p99_ns),
        failed_per_s: sum(&|row| row.counts.failed.saturating_add(row.counts.carried_failed)) / length_s,
    })
}
