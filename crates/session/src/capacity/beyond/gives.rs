//! What gives first: the finding of the target at the first missed load that was not there at the highest held one.
//!
//! A cause that is there at both loads may be the reason all the same (one thread at 97 % and at 100 %): it is named, and said
//! to have been there before. The first missed load may be so near the line that nothing is found there; then the next one that
//! missed speaks. Only steps of this process have a diagnosis.

use super::super::decision::Verdict;
use super::super::live::Ran;
use super::super::search::Line;
use model::finding::{About, Diagnosis, Finding, Severity, Status};

/// A cause of less than this of what was lost is a part of what gives.
const MOST: f64 = 0.5;
/// Whoever wants a CPU that is not to be had makes requests wait for each other by that: there is nothing else to be looked for in the server.
const OF_CPU: [&str; 6] =
    ["neighbour", "cpu-contention", "cpu-throttled", "cpu-saturated", "single-thread-bound", "at-its-limit"];

/// A finding, and whether it came with the load.
#[derive(Debug, Clone, PartialEq)]
pub struct Gives {
    /// The finding at the first missed load.
    pub finding: Finding,
    /// Whether it was not there at the held one.
    pub is_new: bool,
    /// The missed load at which it was found, where that is not the lowest.
    pub at: Option<f64>,
}

impl Gives {
    /// Whether it explains a part only, so that what is seen of the rest tells more.
    pub fn is_part(&self) -> bool {
        let is_small = self.finding.explains.is_some_and(|explains| explains.share < MOST);
        is_small && !OF_CPU.contains(&&*self.finding.id)
    }
}

/// The steps on either side of the line: of the highest load that held, and of the lowest that missed.
pub fn at_line<'a>(ran: &'a [Ran], line: &Line) -> (Option<&'a Ran>, Option<&'a Ran>) {
    let with = |verdict: Verdict| ran.iter().filter(move |one| one.step.verdict == verdict && one.diagnosis.is_some());
    let is_below = |one: &&Ran| line.missed.is_none_or(|missed| one.step.load < missed);
    let is_above = |one: &&Ran| line.held.is_none_or(|held| one.step.load > held);
    let held = with(Verdict::Held).filter(is_below).max_by(|a, b| a.step.load.total_cmp(&b.step.load));
    let missed = with(Verdict::Missed).filter(is_above).min_by(|a, b| a.step.load.total_cmp(&b.step.load));
    (held, missed)
}

/// What gives first; `None`: no step missed, or none of its findings is of the target.
pub fn gives(ran: &[Ran], line: &Line) -> Option<Gives> {
    let (held, missed) = at_line(ran, line);
    let from = missed?.step.load;
    let mut beyond: Vec<&Ran> =
        ran.iter().filter(|one| one.step.verdict == Verdict::Missed && one.step.load >= from).collect();
    beyond.sort_by(|a, b| a.step.load.total_cmp(&b.step.load));
    beyond.into_iter().find_map(|one| {
        let gives = gives_at(one.diagnosis.as_ref()?, held)?;
        Some(Gives { at: (one.step.load > from).then_some(one.step.load), ..gives })
    })
}

/// What gives at a missed load, with the highest held one beside it.
fn gives_at(missed: &Diagnosis, held: Option<&Ran>) -> Option<Gives> {
    let before = held.and_then(|held| held.diagnosis.as_ref()).map(ids).unwrap_or_default();
    let is_new = |finding: &Finding| !before.contains(&&*finding.id);
    let first = missed.first_to_give();
    // What is for information alone, and explains nothing of what was lost, is there beside: memory that grows, a cache that fills.
    let explains = |finding: &&Finding| finding.severity > Severity::Info || finding.explains.is_some();
    let mut of_target = missed.findings.iter().filter(|finding| is_of_target(finding)).filter(explains);
    let newest = of_target.find(|finding| is_new(finding));
    let finding = first.filter(|finding| is_new(finding)).or(newest.filter(|_| first.is_none())).or(first)?;
    Some(Gives { is_new: is_new(finding), finding: finding.clone(), at: None })
}

fn is_of_target(finding: &Finding) -> bool {
    finding.status == Status::Supported && finding.about == About::Target
}

fn ids(diagnosis: &Diagnosis) -> Vec<&str> {
    diagnosis.findings.iter().filter(|finding| is_of_target(finding)).map(|finding| &*finding.id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::search::{Purpose, Step};
    use super::*;
    use model::finding::{Explains, LossKind, Standing, WhatGives};

    fn finding(id: &str) -> Finding {
        Finding {
            id: id.to_owned(),
            about: About::Target,
            status: Status::Supported,
            severity: Severity::Info,
            title: String::new(),
            because: Vec::new(),
            remedy: String::new(),
            check_yourself: String::new(),
            confidence: 1.0,
            causes: Vec::new(),
            because_of: Vec::new(),
            explains: None,
        }
    }

    fn ran(load: f64, verdict: Verdict, ids: &[&str]) -> Ran {
        let step = Step {
            asked: load,
            load,
            took_s: 1.0,
            verdict,
            is_growing: false,
            purpose: Purpose::Find,
            blocks: Vec::new(),
        };
        let diagnosis = Diagnosis { findings: ids.iter().map(|id| finding(id)).collect(), ..Diagnosis::default() };
        Ran { diagnosis: Some(diagnosis), ..Ran::known(step) }
    }

    fn said(missed: &[(f64, &[&str])]) -> Option<(String, bool, Option<f64>)> {
        let mut all = vec![ran(100.0, Verdict::Held, &["there-before"])];
        all.extend(missed.iter().map(|(load, ids)| ran(*load, Verdict::Missed, ids)));
        let line = Line { held: Some(100.0), missed: Some(110.0), ..Line::default() };
        gives(&all, &line).map(|gives| (gives.finding.id, gives.is_new, gives.at))
    }

    #[test]
    fn what_came_with_the_load_gives_and_what_was_there_before_is_said_to_have_been() {
        assert_eq!(said(&[(110.0, &["full"])]), Some(("full".to_owned(), true, None)));
        assert_eq!(said(&[(110.0, &["there-before"])]), Some(("there-before".to_owned(), false, None)));
        assert_eq!(said(&[(110.0, &[])]), None);
    }

    #[test]
    fn what_explains_nothing_of_a_loss_that_is_not_known_does_not_give() {
        let said = |severity: Severity| {
            let mut missed = ran(110.0, Verdict::Missed, &["beside"]);
            let diagnosis = missed.diagnosis.as_mut().unwrap();
            diagnosis.findings[0].severity = severity;
            let text = "requests were slow; why is not known".to_owned();
            diagnosis.gives = Some(WhatGives { standing: Standing::Unexplained, text, finding: None, behind: None });
            let line = Line { held: Some(100.0), missed: Some(110.0), ..Line::default() };
            gives(&[ran(100.0, Verdict::Held, &[]), missed], &line).map(|gives| gives.finding.id)
        };
        assert_eq!(said(Severity::Info), None);
        assert_eq!(said(Severity::Warning).as_deref(), Some("beside"));
    }

    #[test]
    fn a_cause_of_the_smaller_part_leaves_room_for_what_is_seen_but_not_where_a_cpu_is_wanted() {
        let is_part = |id: &str, share: f64| {
            let explains = Some(Explains { of: LossKind::Slow, share, low: share, high: share });
            Gives { finding: Finding { explains, ..finding(id) }, is_new: true, at: None }.is_part()
        };
        assert!(is_part("nagle-delayed-ack", 0.2) && !is_part("nagle-delayed-ack", 0.6));
        assert!(!is_part("neighbour", 0.2) && !is_part("cpu-throttled", 0.2) && !is_part("at-its-limit", 0.2));
    }

    #[test]
    fn where_the_first_missed_load_shows_nothing_the_next_one_that_does_speaks_and_is_named() {
        let beyond: &[(f64, &[&str])] = &[(150.0, &["far"]), (110.0, &[]), (130.0, &["near"]), (120.0, &[])];
        assert_eq!(said(beyond), Some(("near".to_owned(), true, Some(130.0))));
    }
}
