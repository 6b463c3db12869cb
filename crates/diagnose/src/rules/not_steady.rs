//! `not-steady`: the run's second half was not like its first, so one figure for both says little.
//!
//! Evidence: throughput, and mean response time, of the intervals of either half, compared by Welch's test at 99 %, and
//! large enough to matter: 10 % for throughput, 25 % for response time (whose mean a few slow replies move). Under a rate
//! that changes by plan, throughput is taken relative to what was due, and response times are not compared. Intervals
//! shorter than half the usual length are left out, and eight must remain. Refuted by a difference inside the interval.
//! A warm-up that is too short and a target that slows down look alike: the direction is said.

use crate::facts::{Facts, percent};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use crate::segments::usual;
use crate::statistics::{Sample, Welch};
use model::finding::{About, Evidence, Severity};
use model::recording::Row;

const ROWS_MIN: usize = 8;
const THROUGHPUT: f64 = 0.10;
const RESPONSE: f64 = 0.25;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "not-steady", about: About::Load, needs: Needs::Connections, bearing: Bearing::None, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the second half of the run was not like the first";
    let rows = usual(facts);
    if rows.len() < ROWS_MIN {
        let missing = format!("{} whole intervals were measured, and {ROWS_MIN} are needed", rows.len());
        return Verdict::not_observable(title, missing);
    }
    let throughput = compare(facts, &rows, "throughput", "intervals.throughput_change", |row| throughput(facts, row));
    let response = facts
        .is_constant_rate()
        .then(|| compare(facts, &rows, "mean response time", "intervals.response_change", mean_response))
        .flatten();
    let changes: Vec<(&Change, f64)> =
        throughput.iter().map(|c| (c, THROUGHPUT)).chain(response.iter().map(|c| (c, RESPONSE))).collect();
    if changes.is_empty() {
        return Verdict::not_observable(title, "too few intervals had replies to compare");
    }
    let evidence = changes.iter().map(|(change, _)| change.evidence.clone());
    let beyond = changes.iter().filter(|(change, threshold)| change.is_beyond && change.relative.abs() > *threshold);
    let Some(confidence) = beyond.map(|(c, threshold)| past(c.relative.abs(), *threshold)).reduce(f64::max) else {
        return Verdict::refuted("both halves of the run were alike").because_all(evidence);
    };
    let is_faster = throughput.as_ref().is_some_and(|c| c.is_beyond && c.relative > THROUGHPUT)
        || response.as_ref().is_some_and(|c| c.is_beyond && c.relative < -RESPONSE);
    Verdict::supported(Severity::Warning, title)
        .because_all(evidence)
        .remedy(if is_faster {
            "It became faster: leave the beginning out (--warmup), or run longer"
        } else {
            "It became slower: run longer to see where it settles, and look for what grows (memory, queues, logs)"
        })
        .check("plimsoll report RUN --csv intervals.csv && column -s, -t intervals.csv | less -S")
        .confidence(confidence)
}

/// Requests ended a second; under a changing rate, for each that was due.
fn throughput(facts: &Facts<'_>, row: &Row) -> Option<f64> {
    let ended = row.counts.ok as f64 + row.counts.failed as f64;
    let over = if facts.is_constant_rate() {
        row.end_ns.saturating_sub(row.start_ns) as f64 / 1e9
    } else {
        facts.due(row.start_ns, row.end_ns)?
    };
    (over > 0.0).then(|| ended / over)
}

fn mean_response(row: &Row) -> Option<f64> {
    (row.counts.ok > 0).then(|| row.response_sum_ns as f64 / row.counts.ok as f64)
}

struct Change {
    /// Second half over first, less one.
    relative: f64,
    /// Whether it is beyond the difference's confidence interval.
    is_beyond: bool,
    evidence: Evidence,
}

fn compare(
    facts: &Facts<'_>,
    rows: &[&Row],
    what: &str,
    metric: &str,
    of: impl Fn(&Row) -> Option<f64>,
) -> Option<Change> {
    let (first, second) = rows.split_at(rows.len() / 2);
    let sample = |rows: &[&Row]| Sample::of(&rows.iter().filter_map(|r| of(r)).collect::<Vec<f64>>());
    let (first, second) = (sample(first)?, sample(second)?);
    if first.count < ROWS_MIN as f64 / 2.0 || second.count < ROWS_MIN as f64 / 2.0 || first.mean <= 0.0 {
        return None;
    }
    let welch = Welch::of(first, second);
    let (relative, margin) = (welch.difference / first.mean, welch.margin / first.mean);
    let direction = if relative < 0.0 { "lower" } else { "higher" };
    let (relative_text, margin) = (percent(relative.abs()), percent(margin));
    let text = match welch.differs() {
        true => format!("{what} was {relative_text} {direction} in the second half (99 % interval ± {margin})"),
        // What chance explains is no difference, whatever its size.
        false => format!(
            "{what} of both halves cannot be told apart ({relative_text} {direction} in the second, 99 % interval ± {margin})"
        ),
    };
    let evidence = facts.evidence(text, metric, relative, "ratio");
    Some(Change { relative, is_beyond: welch.differs(), evidence })
}
