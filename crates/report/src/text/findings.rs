//! Findings: what gave first and why, what to do, how to check it by hand; then what could not be looked at.
//!
//! Refuted causes are not shown here (JSON has them). What is not observable is named, never passed over. What gives first
//! stands at the head of the page ([`super::headline`]), and is not said twice.

use super::page::Page;
use super::{Options, Paint};
use model::finding::{Diagnosis, Finding, Severity, Status};
use std::io::{self, Write};

const INDENT: usize = 15;
/// So many pieces of evidence are shown of a finding.
pub(crate) const PIECES_MAX: usize = 3;

/// Writes them: those that are there, then, by what they lack, those that could not be judged.
pub fn write<W: Write>(page: &mut Page<'_, W>, diagnosis: &Diagnosis, options: &Options<'_>) -> io::Result<()> {
    // An older diagnosis has no first line of what gives.
    let first = diagnosis.gives.as_ref().and(diagnosis.first_to_give());
    let is_other = |finding: &&Finding| first.is_none_or(|first| first.id != finding.id);
    for finding in diagnosis.findings.iter().filter(|f| f.status == Status::Supported).filter(is_other) {
        page.gap()?;
        supported(page, finding, options)?;
    }
    let unseen = unseen(diagnosis);
    if !unseen.is_empty() {
        page.gap()?;
        page.line(&[(Paint::Heading, "Could not be judged".to_owned())])?;
    }
    for (why, ids) in unseen {
        page.wrapped(4, (Paint::Plain, String::new()), Paint::Dim, &format!("{}: {why}", ids.join(", ")))?;
    }
    Ok(())
}

/// What was missing, and all that could not be judged for want of it.
pub(crate) fn unseen(diagnosis: &Diagnosis) -> Vec<(String, Vec<&str>)> {
    let mut unseen: Vec<(String, Vec<&str>)> = Vec::new();
    for finding in diagnosis.findings.iter().filter(|f| f.status == Status::NotObservable) {
        let missing: Vec<&str> = finding.because.iter().map(|evidence| evidence.text.as_str()).collect();
        let why = if missing.is_empty() { finding.title.clone() } else { missing.join("; ") };
        match unseen.iter_mut().find(|(other, _)| *other == why) {
            Some((_, ids)) => ids.push(&finding.id),
            None => unseen.push((why, vec![&finding.id])),
        }
    }
    unseen
}

/// How bad it is.
pub(crate) fn of_severity(severity: Severity) -> Paint {
    match severity {
        Severity::Info => Paint::Plain,
        Severity::Warning => Paint::Warn,
        Severity::Error => Paint::Bad,
    }
}

fn supported<W: Write>(page: &mut Page<'_, W>, finding: &Finding, options: &Options<'_>) -> io::Result<()> {
    let paint = of_severity(finding.severity);
    page.wrapped(9, (Paint::Heading, "Finding".to_owned()), paint, &format!("{} ({})", finding.title, finding.id))?;
    proof(page, finding, options)
}

/// What proves a finding, what to do, how to check it by hand.
pub(crate) fn proof<W: Write>(page: &mut Page<'_, W>, finding: &Finding, options: &Options<'_>) -> io::Result<()> {
    let mut label = "  because";
    let shown = if options.all { usize::MAX } else { PIECES_MAX };
    for evidence in finding.because.iter().take(shown) {
        let text = if evidence.is_against { format!("although {}", evidence.text) } else { evidence.text.clone() };
        page.wrapped(INDENT, (Paint::Dim, std::mem::take(&mut label).to_owned()), Paint::Plain, &text)?;
    }
    if !finding.because_of.is_empty() {
        let text = finding.because_of.join(", ");
        page.wrapped(INDENT, (Paint::Dim, "  brought by".to_owned()), Paint::Plain, &text)?;
    }
    if !finding.remedy.is_empty() {
        page.wrapped(INDENT, (Paint::Dim, "  remedy".to_owned()), Paint::Plain, &finding.remedy)?;
    }
    if !finding.check_yourself.is_empty() {
        // A command is not wrapped: it is there to be copied.
        page.row(&[(Paint::Dim, format!("{:INDENT$}", "  check")), (Paint::Plain, finding.check_yourself.clone())])?;
    }
    Ok(())
}
