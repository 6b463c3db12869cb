//! The first lines: what was done, what gives first, how much, how fast, how sure.
//!
//! If someone reads no further, they have read the result and whether to believe it. The second line is one sentence: what
//! gives first, or that nothing does; below it at most three pieces of evidence, the remedy, and a command that checks it. What the figures do not show by
//! themselves (a target that died, users that starved) stands before them; where only a quiet part of the run is valid,
//! its figures are the result, and those of the whole run are said below.

use super::page::{Page, Span};
use super::{Options, Paint, findings, slow};
use crate::figures::{Permille, quantile, requested_per_s, without_windows};
use crate::words::{
    bounded, byte_rate, capitalized, counted, duration, figure, grouped, listed, of_plan, percent, rate,
};
use model::finding::{Diagnosis, ExpectationState, Figure, FigureVerdict, Quiet, Standing, Validity, ValidityState};
use model::latency::AtLeast;
use model::recording::{End, Recording};
use model::{LatencyKind, Plan};
use std::io::{self, Write};

/// Where text begins beside the three questions.
const INDENT: usize = 13;

/// Writes them.
pub fn write<W: Write>(
    page: &mut Page<'_, W>,
    recording: &Recording,
    diagnosis: &Diagnosis,
    options: &Options<'_>,
) -> io::Result<()> {
    page.line(&[(Paint::Strong, target(recording)), (Paint::Dim, format!("  {}", of_plan(&recording.plan)))])?;
    gives(page, diagnosis, options)?;
    page.gap()?;
    facts(page, recording, diagnosis)
}

/// What must be known first, then the questions with their answers.
pub(crate) fn facts<W: Write>(page: &mut Page<'_, W>, recording: &Recording, diagnosis: &Diagnosis) -> io::Result<()> {
    for remark in &diagnosis.summary {
        page.wrapped(2, (Paint::Plain, String::new()), Paint::Bad, &capitalized(&remark.text))?;
    }
    let quiet = diagnosis.validity.used_quiet();
    how_much(page, recording, quiet)?;
    how_fast(page, recording, quiet)?;
    how_sure(page, recording, diagnosis)?;
    windows(page, recording)?;
    expected(page, diagnosis)?;
    asked_for(page, recording)
}

/// What the load was put on.
pub(crate) fn target(recording: &Recording) -> String {
    target_of(&recording.plan)
}

/// What a load is put on.
pub(crate) fn target_of(plan: &Plan) -> String {
    let names: Vec<&str> = plan.origins.iter().map(|o| o.name.as_str()).collect();
    match names.as_slice() {
        [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} more", rest.len()),
        _ => names.join(", "),
    }
}

/// The sentence, and of the finding it speaks of what proves it.
pub(crate) fn gives<W: Write>(page: &mut Page<'_, W>, diagnosis: &Diagnosis, options: &Options<'_>) -> io::Result<()> {
    let Some(gives) = &diagnosis.gives else { return Ok(()) };
    let paint = mood(diagnosis);
    let id = gives.finding.as_ref().map_or(String::new(), |id| format!(" [{id}]"));
    page.wrapped(0, (Paint::Plain, String::new()), paint, &format!("{}{id}", capitalized(&gives.text)))?;
    slow::bar(page, diagnosis)?;
    match diagnosis.first_to_give() {
        Some(finding) => findings::proof(page, finding, options),
        None => Ok(()),
    }
}

/// How well it is. Nothing is said to be well in a result that is not known to be valid.
pub(crate) fn mood(diagnosis: &Diagnosis) -> Paint {
    let standing = diagnosis.gives.as_ref().map_or(Standing::Unknown, |gives| gives.standing);
    match standing {
        Standing::Gives => Paint::Bad,
        Standing::Unexplained | Standing::SeenWithoutLoad => Paint::Warn,
        Standing::AtItsLimit | Standing::BelowItsLimit if diagnosis.validity.valid => Paint::Good,
        Standing::AtItsLimit | Standing::BelowItsLimit | Standing::Unknown => Paint::Plain,
    }
}

fn label(text: &str) -> Span {
    (Paint::Dim, format!("  {text}"))
}

fn how_much<W: Write>(page: &mut Page<'_, W>, recording: &Recording, quiet: Option<&Quiet>) -> io::Result<()> {
    let totals = &recording.totals;
    let counts = &totals.sum.counts;
    let requests_per_s = quiet.map_or(totals.requests_per_s(), |quiet| quiet.rate_per_s);
    let unit = recording.plan.unit();
    // Attempts to connect that fail are no throughput, however many there are.
    let rate_or_none = match recording.has_connected() {
        true => format!("{} {unit}s/s", figure(requests_per_s)),
        false => format!("no {unit} was carried"),
    };
    let mut first = vec![(Paint::Dim, format!("{:INDENT$}", "  how much")), (Paint::Strong, rate_or_none)];
    let in_time = &totals.in_time;
    if quiet.is_some() {
        first.push((Paint::Plain, format!("   {IN_QUIET}")));
    }
    for (bytes, way) in [(in_time.bytes_received, "received"), (in_time.bytes_sent, "sent")] {
        // Bytes are of the whole run.
        if bytes > 0 && totals.measured_ns > 0 && quiet.is_none() {
            first.push((Paint::Plain, format!("   {} {way}", byte_rate(totals.per_s(bytes)))));
        }
    }
    page.line(&first)?;
    let mut second =
        vec![(Paint::Plain, format!("{:INDENT$}", "")), (Paint::Plain, format!("{} ok", grouped(counts.ok)))];
    if counts.failed > 0 {
        second.push((Paint::Plain, format!(" ({})", rate(totals.per_s(in_time.ok_arrived())))));
    }
    let failed = if counts.failed > 0 {
        let share = 100.0 * counts.failed as f64 / counts.requests() as f64;
        (Paint::Bad, format!("{} failed ({})", grouped(counts.failed), percent(share)))
    } else {
        (Paint::Plain, "0 failed".to_owned())
    };
    second.extend([(Paint::Plain, ", ".to_owned()), failed]);
    for (n, what) in [
        (counts.dropped, "dropped"),
        (totals.in_flight_at_end, "unfinished"),
        (counts.never_taken_up, "never taken up"),
    ] {
        if n > 0 {
            second.extend([(Paint::Plain, ", ".to_owned()), (Paint::Warn, format!("{} {what}", grouped(n)))]);
        }
    }
    page.line(&second)?;
    if counts.retries == 0 {
        return Ok(());
    }
    let times = counts.attempts() as f64 / counts.started.max(1) as f64;
    let denied = match counts.retries_denied {
        0 => String::new(),
        n => format!(", {} more were beyond the budget", grouped(n)),
    };
    let text = format!(
        "{} attempts, {} of them retries: {} for each {unit}{denied}",
        grouped(counts.attempts()),
        grouped(counts.retries),
        figure(times)
    );
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, &text)
}

fn how_fast<W: Write>(page: &mut Page<'_, W>, recording: &Recording, quiet: Option<&Quiet>) -> io::Result<()> {
    let latency = &recording.totals.sum.latency;
    let (response, failed) = (latency.of(LatencyKind::Response), latency.of(LatencyKind::Failed));
    let quantiles = |kind| -> Vec<String> {
        [(500, "p50"), (990, "p99"), (999, "p99.9")]
            .into_iter()
            .filter_map(|(q, name)| Some(format!("{name} {}", bounded(quantile(latency, kind, Permille(q))?))))
            .collect()
    };
    let unit = recording.plan.unit();
    let open = latency.max(LatencyKind::Response).filter(|_| response.is_empty());
    let text = if let Some(quiet) = quiet {
        format!("{}, {IN_QUIET}", listed(&of_quiet(quiet)))
    } else if response.is_empty() && failed.is_empty() {
        let age = open.map_or(String::new(), |oldest| format!("; the oldest had waited {}", duration(oldest.ns)));
        format!("no {unit} ended{age}")
    } else if response.is_empty() {
        let shown = quantiles(LatencyKind::Failed);
        let shown = if shown.is_empty() { format!("up to {}", duration(failed.max())) } else { shown.join(", ") };
        format!("no {unit} succeeded; those that failed took {shown}")
    } else {
        let shown = quantiles(LatencyKind::Response);
        if shown.is_empty() {
            let mean = duration(response.mean() as u64);
            let (least, most) = (duration(response.min()), duration(response.max()));
            format!("mean {mean}, {least} to {most} (too few for a quantile)")
        } else {
            let max = latency.max(LatencyKind::Response).map(|max| format!("max {}", bounded(max)));
            listed(&shown.into_iter().chain(max).collect::<Vec<String>>())
        }
    };
    page.wrapped(INDENT, label("how fast"), if response.is_empty() { Paint::Bad } else { Paint::Strong }, &text)
}

/// What stands beside a figure of the quiet part.
const IN_QUIET: &str = "in the quiet part";

fn of_quiet(quiet: &Quiet) -> Vec<String> {
    let shown = |name: &str, us: Option<f64>, key: &str| {
        let is_bound = quiet.at_least.iter().any(|bound| bound == key);
        us.map(|us| format!("{name} {}", bounded(AtLeast { ns: (us * 1e3) as u64, is_bound })))
    };
    [
        shown("p50", quiet.response_p50_us, "response_p50_us"),
        shown("p99", quiet.response_p99_us, "response_p99_us"),
        shown("p99.9", quiet.response_p999_us, "response_p999_us"),
        shown("max", quiet.response_max_us, "response_max_us"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The share of a figure from which on it is said what the generator can have added to it.
const WORTH_SAYING: f64 = 0.01;

fn how_sure<W: Write>(page: &mut Page<'_, W>, recording: &Recording, diagnosis: &Diagnosis) -> io::Result<()> {
    let validity = &diagnosis.validity;
    let more =
        |page: &mut Page<'_, W>, paint, text: &str| page.wrapped(INDENT, (Paint::Plain, String::new()), paint, text);
    match validity.state {
        ValidityState::Valid if validity.used_quiet().is_none() => {
            let text = format!("valid: {}", because(recording, validity));
            page.wrapped(INDENT, label("how sure"), Paint::Good, &text)?;
        }
        ValidityState::Valid => {
            let quiet =
                validity.used_quiet().map_or(String::new(), |quiet| of_parts(quiet, "valid for the quiet part"));
            page.wrapped(INDENT, label("how sure"), Paint::Good, &quiet)?;
            let whole = whole_run(recording);
            more(page, Paint::Warn, &format!("all of the run, which is not valid: {whole}"))?;
        }
        ValidityState::Undetermined => {
            let verdict = "undetermined: whether these figures are the target's is not known";
            page.wrapped(INDENT, label("how sure"), Paint::Warn, verdict)?;
        }
        ValidityState::NotValid => {
            let verdict = "not valid: these figures are not a result";
            page.wrapped(INDENT, label("how sure"), Paint::Bad, verdict)?;
        }
    }
    let paint = if validity.state == ValidityState::Undetermined { Paint::Warn } else { Paint::Bad };
    for reason in &validity.reasons {
        more(page, paint, &format!("{}: {}", reason.id, reason.text))?;
    }
    // What of it stands, or does not, beside the verdict on the whole.
    for verdict in validity.figures.iter().filter(|verdict| verdict.state != validity.state) {
        let (paint, word) = match verdict.state {
            ValidityState::Valid => (Paint::Good, "stands"),
            ValidityState::Undetermined => (Paint::Warn, "undetermined"),
            ValidityState::NotValid => (Paint::Bad, "not valid"),
        };
        more(page, paint, &format!("{word}: {}: {}", verdict.figure.name(), verdict.text))?;
    }
    if let Some(quiet) = validity.quiet.as_ref().filter(|quiet| !quiet.is_used && quiet.intervals > 0) {
        let mut parts = vec![format!("{} {}s/s", figure(quiet.rate_per_s), recording.plan.unit())];
        parts.extend(of_quiet(quiet));
        more(page, Paint::Dim, &format!("{}: {}", of_parts(quiet, "the quiet part"), listed(&parts)))?;
    }
    let end = match recording.end {
        End::Complete => return Ok(()),
        End::Interrupted => "interrupted: the figures cover what was done until then",
        End::Partial => "partial: the recording stops in the middle of the run",
    };
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, end)
}

/// Why the figures are believed: how much of them can be the generator's.
fn because(recording: &Recording, validity: &Validity) -> String {
    let is_much = |verdict: &&FigureVerdict| verdict.up_to_share.is_some_and(|share| share >= WORTH_SAYING);
    let lag = quantile(&recording.totals.sum.latency, LatencyKind::Lag, Permille(990));
    if let Some(connections) = validity.figure(Figure::Connections) {
        return format!("connections {}", connections.text);
    }
    if let Some(response) = validity.figure(Figure::Response).filter(is_much) {
        return response.text.clone();
    }
    if let Some(throughput) = validity.figure(Figure::Throughput).filter(is_much) {
        return throughput.text.clone();
    }
    let unit = recording.plan.unit();
    match lag {
        Some(lag) => format!("99 % of {unit}s left at most {} late", duration(lag.ns)),
        None => "nothing speaks against the figures".to_owned(),
    }
}

/// How much of the run is quiet, and what disturbed the rest.
fn of_parts(quiet: &Quiet, what: &str) -> String {
    let all = quiet.intervals + quiet.disturbed_intervals;
    let by = match quiet.disturbed_by.join(", ") {
        by if by.is_empty() => "the generator was disturbed".to_owned(),
        by => by,
    };
    format!("{what}: {} of {} intervals, without those in which {by}", quiet.intervals, all)
}

/// The figures of the whole run in a line.
fn whole_run(recording: &Recording) -> String {
    let totals = &recording.totals;
    let of = |q, name: &str| {
        let figure = quantile(&totals.sum.latency, LatencyKind::Response, Permille(q))?;
        Some(format!("{name} {}", bounded(figure)))
    };
    let rate = format!("{} {}s/s", figure(totals.requests_per_s()), recording.plan.unit());
    let parts: Vec<String> = [Some(rate), of(500, "p50"), of(990, "p99")].into_iter().flatten().collect();
    listed(&parts)
}

/// What the observer's windows did, where it is more than they are known to cost.
fn windows<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let Some(rest) = without_windows(recording).filter(|rest| rest.is_beyond_cost) else { return Ok(()) };
    let mut parts = vec![format!("{} {}s/s", figure(rest.rate_per_s), recording.plan.unit())];
    parts.extend(rest.p50.map(|p50| format!("p50 {}", bounded(p50))));
    parts.extend(rest.p99.map(|p99| format!("p99 {}", bounded(p99))));
    let share = percent(100.0 * (1.0 - rest.share));
    let text = format!("without the probes' windows ({share} of the time): {}", listed(&parts));
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, &text)
}

/// Each expectation with its figure, in a line. What goes without saying is said above, where it is not so.
fn expected<W: Write>(page: &mut Page<'_, W>, diagnosis: &Diagnosis) -> io::Result<()> {
    let mut head = label("expected");
    for judgement in diagnosis.expectations.iter().filter(|judgement| judgement.is_stated) {
        let (paint, how) = match judgement.state {
            ExpectationState::Met => (Paint::Good, "met"),
            ExpectationState::NotMet => (Paint::Bad, "not met"),
            ExpectationState::Undetermined => (Paint::Warn, "undetermined"),
        };
        let text = format!("{}: {how}: {}", judgement.expected, judgement.got);
        page.wrapped(INDENT, std::mem::replace(&mut head, (Paint::Plain, String::new())), paint, &text)?;
    }
    Ok(())
}

/// Requested beside achieved, a line each.
fn asked_for<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let totals = &recording.totals;
    let wanted = u64::from(recording.plan.connections);
    let requested = requested_per_s(recording);
    let achieved = totals.requests_per_s();
    let short = requested.is_some_and(|r| achieved < 0.99 * r);
    let held = (Paint::Dim, format!("{:INDENT$}", "  asked for"));
    let is_until_failure = recording.plan.workload.protocol().is_until_failure();
    let connections = if is_until_failure {
        (Paint::Plain, format!("connections until something gives, {} reached", grouped(totals.connections_max)))
    } else if totals.connections_max < wanted && totals.sum.counts.connected >= wanted {
        // Short-lived ones: how many there are is known only where an interval ends.
        let (opened, most) = (grouped(totals.sum.counts.connected), grouped(totals.connections_max));
        (
            Paint::Plain,
            format!("{}, {opened} opened, {most} open at once where an interval ended", counted(wanted, "connection")),
        )
    } else if totals.connections_max < wanted {
        (Paint::Warn, format!("{}, {} reached", counted(wanted, "connection"), grouped(totals.connections_max)))
    } else {
        (Paint::Plain, format!("{}, reached", counted(wanted, "connection")))
    };
    let mut spans = vec![held];
    if let Some(requested) = requested {
        let paint = if short { Paint::Warn } else { Paint::Plain };
        spans.push((paint, format!("{}, {} reached; ", rate(requested), rate(achieved))));
    }
    spans.push(connections);
    page.line(&spans)
}
