//! The figures of one disruption.

use super::back::{Good, Point, back};
use super::{Disruption, Span, moments_s};
use crate::facts::{Facts, seconds};
use crate::history::{Metric, Subject};
use crate::statistics::median;
use model::recording::Row;
use model::recovery::{Connections, Failed, Memory, Recovery, Resolution, Return};
use model::request::RequestEnd;
use model::snapshot::Role;

/// Intervals after its return in which a throughput beyond that before is an overshoot.
const OVERSHOOT_ROWS: usize = 10;
/// An overshoot of less is none, as a share.
const OVERSHOOT_MIN: f64 = 0.05;
/// Connections whose number varies by more than this share before have no level.
const CONNECTIONS_VARY: f64 = 0.1;

/// What a disruption did until a moment (nanoseconds since the run's start), after those told before.
pub(super) fn of(facts: &Facts<'_>, disruption: &Disruption, told: &[Recovery], until_ns: u64) -> Recovery {
    let Disruption { fault, name, what, at_ns, undone_ns, refused, is_done, spans } = disruption;
    // The interval in which another disruption begins is that one's.
    let is_whole = |row: &Row| row.end_ns <= until_ns || (until_ns == facts.end_ns && row.start_ns < until_ns);
    // What earlier ones did is no level to come back to.
    let is_disrupted =
        |row: &Row| told.iter().any(|other| seconds(row.end_ns) > other.at_s && seconds(row.start_ns) < other.until_s);
    let before: Vec<&Row> =
        facts.rows.iter().copied().filter(|row| row.end_ns <= *at_ns && !is_disrupted(row)).collect();
    let after: Vec<&Row> =
        facts.rows.iter().copied().filter(|row| *is_done && row.end_ns > *at_ns && is_whole(row)).collect();
    let first_success_ns = spans.first().and_then(|span| span.to_ns);
    let back_from_ns = first_success_ns.unwrap_or(0);
    let throughput = of_rows(facts, &before, &after, Good::High, back_from_ns);
    let response = of_rows(facts, &before, &after, Good::Low, back_from_ns);
    let recovered_s = recovered(*at_ns, spans, [throughput, response]).filter(|_| *is_done);
    // A fault may come after the load, of which nothing is counted.
    let until_ns = if *is_done { until_ns } else { *at_ns };
    let counted_ns = recovered_s.map_or(until_ns, |s| (s * 1e9) as u64).min(until_ns).max(*at_ns);
    let counted: Vec<&Row> =
        after.iter().copied().filter(|row| row.start_ns < counted_ns.max(at_ns.saturating_add(1))).collect();
    let longest_ns = after.iter().map(|row| length_ns(row)).max().unwrap_or(facts.recording.plan.tick_ns);
    let readings = facts.history.readings(Metric::new(Subject::All(Role::Target), "rss_bytes"));
    let lengths = spans.iter().map(|span| Some(span.to_ns?.saturating_sub(span.from_ns)));
    let outage_ns = lengths.collect::<Option<Vec<u64>>>().map(|all| all.iter().sum::<u64>());
    Recovery {
        fault: *fault,
        name: name.clone(),
        what: what.clone(),
        at_s: seconds(*at_ns),
        undone_at_s: undone_ns.map(seconds),
        refused: refused.clone(),
        until_s: seconds(counted_ns),
        last_success_s: spans.first().map(|span| seconds(span.from_ns)),
        first_failure_s: first_failure_ns(facts, disruption, until_ns).map(seconds),
        first_success_s: first_success_ns.map(seconds),
        outage_s: outage_ns.map(seconds),
        outages: u32::try_from(spans.len()).unwrap_or(u32::MAX),
        failed: failed(&counted),
        aborted_connections: aborted(&before, &counted),
        throughput,
        response_p99_us: response,
        recovered_s,
        overshoot: throughput.and_then(|figure| overshoot(facts, &before, &after, figure)),
        memory: memory(&readings, *at_ns, counted_ns.max(at_ns.saturating_add(longest_ns.saturating_mul(2))))
            .filter(|_| *is_done),
        connections: connections(&before, &after, back_from_ns),
        resolution: Resolution {
            moments_s: moments_s(),
            intervals_s: seconds(longest_ns),
            memory_s: (readings.len() > 1).then(|| between(&readings)),
        },
    }
}

fn length_ns(row: &Row) -> u64 {
    row.end_ns.saturating_sub(row.start_ns)
}

/// Successes a second, under a rate that changes by plan, for each that was due.
fn level(facts: &Facts<'_>, row: &Row) -> f64 {
    let due = if facts.is_constant_rate() { None } else { facts.due(row.start_ns, row.end_ns) };
    row.counts.ok_arrived() as f64 / due.filter(|due| *due > 0.0).unwrap_or(seconds(length_ns(row)))
}

/// Throughput where good is high, else the 99th percentile of the response time.
fn of_rows(facts: &Facts<'_>, before: &[&Row], after: &[&Row], good: Good, since_ns: u64) -> Option<Return> {
    let value = |row: &Row| match good {
        Good::High => Some(level(facts, row)),
        Good::Low => row.response_p99_ns.map(|ns| ns as f64 / 1e3),
    };
    // The rest of an interval at the end of the load is not compared.
    let usual_ns = median(after.iter().map(|row| length_ns(row) as f64).collect()) as u64;
    let points: Vec<Point> =
        after.iter().filter(|row| length_ns(row) >= usual_ns / 2).map(|row| (row.start_ns, value(row))).collect();
    back(&before.iter().filter_map(|row| value(row)).collect::<Vec<f64>>(), &points, good, since_ns)
}

/// When all of it was as before; where nothing had changed, at once.
fn recovered(at_ns: u64, spans: &[Span], figures: [Option<Return>; 2]) -> Option<f64> {
    let mut last_s = seconds(at_ns);
    for span in spans {
        last_s = last_s.max(seconds(span.to_ns?));
    }
    for figure in figures.into_iter().flatten().filter(|figure| figure.has_left) {
        last_s = last_s.max(figure.back_s?);
    }
    // Without anything to compare with nobody knows.
    figures.iter().any(Option::is_some).then_some(last_s)
}

/// The first failure: of a span without success, else of the single requests that were kept.
fn first_failure_ns(facts: &Facts<'_>, disruption: &Disruption, until_ns: u64) -> Option<u64> {
    if !disruption.is_done {
        return None;
    }
    let of_spans = disruption.spans.iter().filter_map(|span| span.first_failed_ns).min();
    let kept = facts.recording.requests.failed().filter(|request| matches!(request.end, RequestEnd::Failed(_)));
    let is_then = |ns: &u64| *ns >= disruption.at_ns && *ns < until_ns;
    let of_requests = kept.map(|request| request.ended_ns).filter(is_then).min();
    of_spans.into_iter().chain(of_requests).min()
}

fn failed(rows: &[&Row]) -> Failed {
    let sum = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    let all = |row: &Row| row.counts.failed.saturating_add(row.counts.carried_failed);
    let per_s = rows.iter().map(|row| all(row) as f64 / seconds(length_ns(row)).max(f64::MIN_POSITIVE));
    Failed {
        requests: sum(all),
        refused: sum(|row| row.failed_refused),
        aborted: sum(|row| row.failed_aborted),
        unanswered: sum(|row| row.failed_unanswered),
        per_s_max: per_s.fold(0.0, f64::max),
    }
}

/// Connections closed by the target, without as many as it closed before in that time.
fn aborted(before: &[&Row], counted: &[&Row]) -> u64 {
    let closed = |rows: &[&Row]| rows.iter().map(|row| row.counts.closed_by_peer as f64).sum::<f64>();
    let length = |rows: &[&Row]| rows.iter().map(|row| length_ns(row) as f64).sum::<f64>();
    let usual = if before.is_empty() { 0.0 } else { closed(before) / length(before).max(1.0) };
    (closed(counted) - usual * length(counted)).max(0.0).round() as u64
}

fn overshoot(facts: &Facts<'_>, before: &[&Row], after: &[&Row], figure: Return) -> Option<f64> {
    let back_ns = (figure.back_s? * 1e9) as u64;
    let share = |row: &&Row| level(facts, row) / figure.before.max(f64::MIN_POSITIVE) - 1.0;
    let most = after.iter().filter(|row| row.start_ns >= back_ns).take(OVERSHOOT_ROWS).map(share).fold(0.0, f64::max);
    let usual = before.iter().map(share).fold(OVERSHOOT_MIN, f64::max);
    (most > usual).then_some(most)
}

/// The memory at a moment, and after it until another.
fn memory(readings: &[(i64, u64)], at_ns: u64, until_ns: u64) -> Option<Memory> {
    let at = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let (_, before) = readings.iter().rev().find(|(ns, _)| *ns <= at(at_ns))?;
    let after: Vec<u64> =
        readings.iter().filter(|(ns, _)| *ns > at(at_ns) && *ns <= at(until_ns)).map(|(_, bytes)| *bytes).collect();
    Some(Memory { before: *before, least: *after.iter().min()?, after: *after.last()? })
}

/// The usual time between two readings, seconds.
fn between(readings: &[(i64, u64)]) -> f64 {
    median(readings.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0) as f64 / 1e9).collect())
}

fn connections(before: &[&Row], after: &[&Row], first_success_ns: u64) -> Option<Connections> {
    let open = |row: &&Row| row.gauges.connections;
    let level = median(before.iter().map(|row| open(row) as f64).collect());
    let is_off = |row: &&Row| (open(row) as f64 - level).abs() > CONNECTIONS_VARY * level;
    if before.is_empty() || level < 1.0 || before.iter().filter(|row| is_off(row)).count() * 10 > before.len() {
        return None;
    }
    let best = after.iter().filter(|row| row.end_ns > first_success_ns).map(open).max()?;
    let before = level as u64;
    Some(Connections { before, least: after.iter().map(open).min()?, never_back: before.saturating_sub(best) })
}
