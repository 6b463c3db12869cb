//! The end of a search for the load line, as text.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::cases;
use model::finding::{About, Diagnosis, Status};
use report::text::Style;
use report::text::load_line::{LoadLine, Step, write};
use std::path::Path;

fn text(diagnosis: &Diagnosis, color: bool) -> String {
    let cases = cases();
    let (_, recording, _) = cases.iter().find(|(name, ..)| *name == "healthy").unwrap();
    let recorded_at = Some(Path::new("/runs/a.plimsoll"));
    let missed = Step { rate_per_s: 4_000.0, recording, diagnosis, recorded_at };
    let found = LoadLine {
        met_per_s: Some(3_900.0),
        missed_per_s: Some(4_000.0),
        objective: "p99 < 10 ms",
        steps: 7,
        met: None,
        missed: Some(missed),
        disturbed: None,
        seen_busy: None,
    };
    let mut out = Vec::new();
    write(&mut out, &found, Style { color, width: 80, unicode: true }).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_of_the_target_gave_is_told_with_its_evidence() {
    let cases = cases();
    let (_, _, diagnosis) = cases.iter().find(|(name, ..)| *name == "healthy").unwrap();
    let shown = text(diagnosis, false);
    assert!(shown.starts_with("Load line   3,900 requests/s (3,900 holds, 4,000 does not)\n"), "{shown}");
    assert!(shown.contains("Objective   p99 < 10 ms, open loop, 7 steps\nGives first "), "{shown}");
    assert!(shown.contains("(single-thread-bound)\n            - "), "{shown}");
    assert!(shown.contains("\n  remedy    ") && shown.contains("\nVerdict     valid: "), "{shown}");
    assert!(shown.ends_with("Report      beyond it: plimsoll report /runs/a.plimsoll\n"), "{shown}");
    assert!(text(diagnosis, true).starts_with("\u{1b}[1mLoad line\u{1b}[0m   "));
}

#[test]
fn what_is_not_the_targets_does_not_give_first() {
    let cases = cases();
    let (_, _, diagnosis) = cases.iter().find(|(name, ..)| *name == "healthy").unwrap();
    for (about, status) in [(About::Generator, Status::Supported), (About::Target, Status::Refuted)] {
        let mut other = diagnosis.clone();
        other.findings.iter_mut().for_each(|finding| (finding.about, finding.status) = (about, status));
        let shown = text(&other, false);
        assert!(shown.contains("\nGives first not known: no rule found its evidence in this run\n"), "{shown}");
    }
}
