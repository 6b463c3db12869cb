//! From a recording to findings and to the validity of its figures.
//!
//! Pure: no I/O, no clock, no threads; the same recording always gives the same diagnosis. Every rule answers, and what
//! could not be read is `not-observable`, never "fine". Only the generator, a clock or the audit of the figures makes a
//! result invalid: a slow, stalled or overloaded target never does. Cost: a few passes over timeline and snapshots.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod check;
pub mod facts;
mod held;
pub mod rule;
pub mod rules;
pub mod slow;
mod statistics;

pub use rule::Rule;
pub use rules::RULES;

use facts::Facts;
use model::Recording;
use model::finding::{Diagnosis, Finding, Reason, Severity, Status, Validity};
use rule::Verdict;
use std::cmp::Reverse;

/// What a rule says that needs a load where there was none.
pub const NO_LOAD: &str = "no load was put on: the recording is an import";

/// Judges a recording by every rule of [`RULES`].
///
/// Findings are ordered: supported before not observable before refuted; within these, errors first, then by
/// confidence, then as in [`RULES`].
pub fn diagnose(recording: &Recording) -> Diagnosis {
    let facts = Facts::of(recording);
    let mut findings: Vec<Finding> = Vec::with_capacity(RULES.len());
    let mut reasons = Vec::new();
    for rule in RULES {
        let verdict = match recording.capsule.import {
            Some(_) if rule.needs_load() => Verdict::not_observable("what a load would show", NO_LOAD),
            _ => rule.judge(&facts),
        };
        let finding = verdict.into_finding(rule.id());
        if rule.invalidates() && finding.status == Status::Supported {
            let text = format!("{}. {}", finding.title, finding.remedy);
            reasons.push(Reason { id: finding.id.clone(), text: text.trim_end_matches([' ', '.']).to_owned() });
        }
        findings.push(finding);
    }
    // A stable sort: equals stay in the registry's order.
    findings.sort_by_key(|f| (rank(f.status), Reverse(severity_rank(f)), Reverse((f.confidence * 1e6) as u64)));
    Diagnosis { validity: Validity { valid: reasons.is_empty(), reasons }, findings, held: held::held(&facts) }
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
