//! From a recording to findings and to the validity of its figures.
//!
//! Pure: no I/O, no clock, no threads; the same recording always gives the same diagnosis. Every rule answers, and what
//! could not be read is `not-observable`, never "fine". Only the generator, its machine, a clock or the audit of the figures
//! makes a result invalid: a slow, stalled or overloaded target never does. Cost: a few passes over timeline and
//! history.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod audit;
mod busy;
pub mod catalogue;
pub mod causes;
pub mod check;
pub mod comparison;
mod expectations;
pub mod experiment;
pub mod explain;
pub mod facts;
mod held;
pub mod history;
pub mod limits;
pub mod recovery;
pub mod repeats;
pub mod rule;
pub mod rules;
pub mod segments;
pub mod slow;
pub mod split;
mod statistics;
mod summary;
pub mod usage;
mod validity;
pub mod variants;

pub use busy::busy;
pub use causes::deaths::target_ended;
pub use causes::{CAUSES, evidence, thresholds};
pub use explain::gives::failures::failures_in_words;
pub use explain::{graph, ledger};
pub use rule::{CauseRule, Rule};
pub use rules::RULES;
pub use statistics::critical_t;
pub use validity::{harm, quiet};

use explain::{gives, waits, without_load};
use facts::Facts;
use history::History;
use model::event::{ABORTED, TARGET_ENDED};
use model::finding::{About, Diagnosis, Explains, Finding, Loss, LossKind, Severity, Standing, Status, WhatGives};
use model::{Event, Recording};
use rule::{Bearing, Needs, Verdict};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use validity::Judged;

/// A cause that can explain less of the time lost than this share is for information.
const EXPLAINS_MIN: f64 = 0.1;

/// What a rule says that needs a connection where there never was one.
pub const NO_CONNECTION: &str = "nothing ever connected";

/// Every id that is judged: rules first, then causes.
pub fn ids() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id).chain(CAUSES.iter().map(|cause| cause.id))
}

/// Judges a recording by every rule of [`RULES`] and every cause of [`CAUSES`].
///
/// Findings are ordered: supported before not observable before refuted before not applicable; within these, those that make
/// a result invalid or explain a loss first, roots before what they bring about, by how much of the loss they explain, then as
/// in the registries. Where nothing is lost, nothing of the target is above "info".
///
/// Of snapshots only those that the recording keeps in memory are looked at; [`diagnose_with`] is given all of them.
pub fn diagnose(recording: &Recording) -> Diagnosis {
    diagnose_with(recording, &History::of(&recording.snapshots))
}

/// The same with all that was read over the run.
pub fn diagnose_with(recording: &Recording, history: &History) -> Diagnosis {
    let facts = Facts::of(recording, history);
    let (has, missing) = match recording.capsule.why_no_load() {
        Some(why) => (Needs::Nothing, why),
        None if !recording.has_connected() => (Needs::Load, NO_CONNECTION),
        None => (Needs::Connections, ""),
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
    // Without a load nothing of it could be lost, and it has no levels that could change.
    let segments = if has == Needs::Nothing { Vec::new() } else { segments::segments(&facts) };
    let (mut losses, mut causes) = judged_causes(&facts, has, missing);
    // What begins part-way is diluted in the whole: where it is worse, the same is asked of that stretch.
    let stretch = segments::worse::worse(&facts, &segments);
    let seen = stretch.as_ref().filter(|stretch| stretch.is_seen(&facts));
    let cut = seen.map(|stretch| {
        let (from_ns, to_ns) = stretch.window_ns();
        (stretch, segments::part::part(recording, from_ns, to_ns))
    });
    let of_stretch = cut.as_ref().map(|(stretch, part)| (*stretch, Facts::of(part, history)));
    if let Some((stretch, part)) = &of_stretch {
        ledger::know_before(part, &facts, stretch);
    }
    let mut of_time = &facts;
    if let Some((stretch, part)) = &of_stretch
        && explain::take_in(stretch, judged_causes(part, has, missing), &mut losses, &mut causes)
    {
        of_time = part;
    }
    let mut findings: Vec<Finding> = answers.into_iter().map(|(_, _, finding)| finding).chain(causes).collect();
    graph::join(&mut findings);
    let slow = losses.iter().any(|loss| loss.kind == LossKind::Slow).then(|| waits::slow_time(of_time)).flatten();
    if let Some((account, _)) = &slow {
        explain::untie(&mut findings, account);
        explain::measure(&mut findings, account);
    }
    explain::fit(&mut findings, &losses);
    ledger::pass_on(&mut findings);
    findings.iter_mut().for_each(weigh);
    for finding in findings.iter_mut().filter(|finding| finding.about == About::Target) {
        finding.check_yourself = explain::by_hand::filled(&facts, &finding.check_yourself);
    }
    // A stable sort: equals stay in the registries' order.
    findings.sort_by(|a, b| place(b, &losses).total_cmp(&place(a, &losses)));
    let severities: BTreeMap<String, Severity> = findings.iter().map(|f| (f.id.clone(), severity_rank(f))).collect();
    findings.sort_by_key(|f| {
        let severity = severity_with_symptoms(f, &severities);
        (rank(f.status), Reverse(severity), f.about == About::Target && !f.because_of.is_empty())
    });
    ledger::settle(&facts, of_time, &mut losses, &findings, slow.map(|(_, time)| time));
    let mut expectations = expectations::judge(&facts, &validity);
    expectations.extend(expectations::judge_phases(&facts, &validity));
    expectations.extend(expectations::judge_findings(&recording.plan.finding_expectations, &findings));
    expectations.extend(expectations::judge_aborts(recording));
    let recoveries = recovery::recoveries(&facts);
    let summary = summary::summary(&facts, &expectations, &recoveries);
    let gives = match has {
        Needs::Nothing => without_load::gives(&facts, &findings),
        _ => ended(recording, &findings).unwrap_or_else(|| {
            let gives = gives::gives(&facts, &validity, &findings, &losses, &segments);
            let gives = gives::with_failures(gives, &facts, &losses);
            gives::with_behind(gives::with_own_faults(gives, &losses, stretch.as_ref()), &facts)
        }),
    };
    Diagnosis {
        validity,
        summary,
        expectations,
        findings,
        gives: Some(gives),
        losses,
        held: held::held(&facts),
        segments,
        recoveries,
    }
}

/// What was lost, and every cause's finding as far as that goes, in the registry's order.
fn judged_causes(facts: &Facts<'_>, has: Needs, missing: &str) -> (Vec<Loss>, Vec<Finding>) {
    let losses = if has == Needs::Nothing { Vec::new() } else { ledger::losses(facts).to_vec() };
    let causes = CAUSES.iter().map(|cause| {
        let verdict = match cause.needs {
            needs if needs > has => Verdict::not_observable("what a load would show", missing),
            _ => cause.verdict(facts),
        };
        within(verdict.into_finding(cause.id, About::Target), &losses)
    });
    let causes = causes.collect();
    (losses, causes)
}

/// That the target which the run had started ended by itself, and of what, where that is found: whatever else was found is of a
/// server that was not there. Or that the run was ended early, and why.
fn ended(recording: &Recording, findings: &[Finding]) -> Option<WhatGives> {
    let of = |kind: &str| recording.events.iter().find(|event| event.kind == kind);
    let says =
        |text: String, finding: Option<String>| WhatGives { standing: Standing::Gives, text, finding, behind: None };
    let Some(event) = of(TARGET_ENDED) else { return of(ABORTED).map(|event| says(event.text.clone(), None)) };
    Some(match findings.iter().find(|finding| is_end_of(finding, event)) {
        Some(finding) => says(format!("{}; {}", finding.title, event.text), Some(finding.id.clone())),
        None => says(event.text.clone(), None),
    })
}

/// Whether a finding says of what the target's command ended: it ended by the signal that the finding is about.
fn is_end_of(finding: &Finding, event: &Event) -> bool {
    let signal = causes::deaths::NAMED.iter().find(|(id, _)| *id == finding.id).map(|(_, signal)| *signal);
    // A shell that had started what the signal ended exits with 128 more than its number.
    let of_shell = event.details.exit_code.map(|code| code - 128);
    signal.is_some() && finding.status == Status::Supported && (event.details.signal == signal || of_shell == signal)
}

/// A finding of the target as far as there is a loss: above "info" only where there is one, and explaining only what is lost.
fn within(mut finding: Finding, losses: &[Loss]) -> Finding {
    if losses.is_empty() {
        finding.severity = Severity::Info;
    }
    let had = finding.explains;
    finding.explains = had.and_then(|explains| ledger::of(explains, losses));
    // What makes others late is no answer where nobody was late.
    if had.is_some() && finding.explains.is_none() && finding.severity == Severity::Warning {
        finding.severity = Severity::Info;
    }
    finding
}

/// What explains next to nothing of time lost is no answer to what gives.
fn weigh(finding: &mut Finding) {
    // Nor is what another cause brings about, where it is measured to be next to nothing.
    let is_symptom = !finding.because_of.is_empty();
    let is_little = |explains: Explains| {
        let most = if is_symptom { explains.share } else { explains.high };
        ledger::is_of_time(explains.of) && most < EXPLAINS_MIN
    };
    if finding.explains.is_some_and(is_little) {
        finding.severity = Severity::Info;
    }
}

/// How much of the weightiest losses it explains; of the others, how sure it is.
fn place(finding: &Finding, losses: &[Loss]) -> f64 {
    if finding.about != About::Target {
        return finding.confidence;
    }
    finding.explains.map_or(0.0, |explains| explains.share * ledger::weight_of(explains.of, losses))
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Supported => 0,
        Status::NotObservable => 1,
        Status::Refuted => 2,
        Status::NotApplicable => 3,
    }
}

/// A root is as severe as the worst that it brings about: a warning that explains an error stands before it. What is for
/// information remains so.
fn severity_with_symptoms(finding: &Finding, severities: &BTreeMap<String, Severity>) -> Severity {
    let own = severity_rank(finding);
    if own == Severity::Info {
        return own;
    }
    finding.causes.iter().filter_map(|id| severities.get(id)).copied().fold(own, Severity::max)
}

/// Only what is supported is as severe as its rule says.
fn severity_rank(finding: &Finding) -> Severity {
    if finding.status == Status::Supported { finding.severity } else { Severity::Info }
}
