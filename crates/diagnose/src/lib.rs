//! From a recording to findings and to the validity of its figures.
//!
//! Pure: no I/O, no clock, no threads; the same recording always gives the same diagnosis. Every rule answers, and what
//! could not be read is `not-observable`, never "fine". Only the generator, its machine, a clock or the audit of the figures
//! makes a result invalid: a slow, stalled or overloaded target never does. Cost: a few passes over timeline and
//! history.
#![forbid(unsafe_code)]

pub mod agreement;
mod busy;
pub mod catalogue;
pub mod check;
mod expectations;
pub mod facts;
pub mod harm;
mod held;
pub mod history;
pub mod limits;
pub mod quiet;
pub mod rule;
pub mod rules;
pub mod segments;
pub mod slow;
pub mod split;
mod statistics;
mod summary;
pub mod usage;
mod validity;

pub use busy::busy;
pub use rule::Rule;
pub use rules::RULES;

use facts::Facts;
use history::History;
use model::Recording;
use model::finding::{Diagnosis, Finding, Severity, Status};
use rule::{Bearing, Needs, Verdict};
use std::cmp::Reverse;
use validity::Judged;

/// What a rule says that needs a load where there was none.
pub const NO_LOAD: &str = "no load was put on: the recording is an import";

/// What a rule says that needs a connection where there never was one.
pub const NO_CONNECTION: &str = "nothing ever connected";

/// Judges a recording by every rule of [`RULES`].
///
/// Findings are ordered: supported before not observable before refuted; within these, errors first, then by
/// confidence, then as in [`RULES`].
///
/// Of snapshots only those that the recording keeps in memory are looked at; [`diagnose_with`] is given all of them.
pub fn diagnose(recording: &Recording) -> Diagnosis {
    diagnose_with(recording, &History::of(&recording.snapshots))
}

/// The same with all that was read over the run.
pub fn diagnose_with(recording: &Recording, history: &History) -> Diagnosis {
    let facts = Facts::of(recording, history);
    let (has, missing) = match recording {
        imported if imported.capsule.import.is_some() => (Needs::Nothing, NO_LOAD),
        hopeless if !hopeless.has_connected() => (Needs::Load, NO_CONNECTION),
        _ => (Needs::Connections, ""),
    };
    let answers: Vec<(Bearing, bool, Finding)> = RULES
        .iter()
        .map(|rule| {
            let verdict = match rule.needs {
                needs if needs > has => Verdict::not_observable("what a load would show", missing),
                _ => (rule.judge)(&facts),
            };
            (rule.bearing, verdict.is_open(), verdict.into_finding(rule.id, rule.about))
        })
        .collect();
    let judged: Vec<Judged<'_>> = answers
        .iter()
        .map(|(bearing, is_open, finding)| Judged { finding, bearing: *bearing, is_open: *is_open })
        .collect();
    let validity = validity::validity(&facts, &judged);
    let mut findings: Vec<Finding> = answers.into_iter().map(|(_, _, finding)| finding).collect();
    // A stable sort: equals stay in the registry's order.
    findings.sort_by_key(|f| (rank(f.status), Reverse(severity_rank(f)), Reverse((f.confidence * 1e6) as u64)));
    let expectations = expectations::judge(&facts, &validity);
    let summary = summary::summary(&facts, &expectations);
    // An import has no load whose levels could change.
    let segments = if has == Needs::Nothing { Vec::new() } else { segments::segments(&facts) };
    Diagnosis { validity, summary, expectations, findings, held: held::held(&facts), segments }
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Supported => 0,
        Status::NotObservable => 1,
        Status::Refuted => 2,
    }
}

/// Only what is supported is as severe as its rule says.
fn severity_rank(finding: &Finding) -> Severity {
    if finding.status == Status::Supported { finding.severity } else { Severity::Info }
}
