//! Requests without a good reply, where something else gives first, or nothing that is known.
//!
//! A user who lost one request in twenty has to know that before how long the others took, and before that a resource is full.

use super::is_of_overload;
use crate::causes::deaths::is_bad_end;
use crate::explain::ledger;
use crate::facts::Facts;
use crate::history::History;
use crate::summary::death;
use model::finding::{Loss, LossKind, Standing, WhatGives};
use model::request::Gap;
use model::units::show_grouped;
use model::{ErrorKind, Recording};

/// A smaller share of all requests is said in the figures alone.
const MANY: f64 = 0.01;
/// So much of them no cause explains.
const UNEXPLAINED_MIN: f64 = 0.5;
/// So many of them failed in one way, where it is said in which.
const OF_ONE_KIND: f64 = 0.9;
/// Nobody was answered any more for so long at the end of the load, nanoseconds.
const SILENT_NS_MIN: u64 = 1_000_000_000;
/// Of the measured time so much is what the run was, whatever was before.
const MOST_OF_RUN: f64 = 0.25;

/// How many requests had no good reply by the target's doing, and how they failed where nearly all did in one way; `None`: all had one.
pub fn failures_in_words(recording: &Recording) -> Option<String> {
    let history = History::of(&recording.snapshots);
    let facts = Facts::of(recording, &history);
    ledger::failed(&facts).map(|loss| seen(&facts, &loss))
}

/// The sentence, with the failures that it does not speak of and no cause explains: before what else is not known and before a limit,
/// behind a cause.
pub(crate) fn with_failures(gives: WhatGives, facts: &Facts<'_>, losses: &[Loss]) -> WhatGives {
    let is_much =
        |loss: &&Loss| loss.kind == LossKind::Failed && loss.share >= MANY && loss.unexplained >= UNEXPLAINED_MIN;
    let is_news = |loss: &&Loss| !gives.text.contains(&*loss.text) && !is_of_overload(facts, loss.kind);
    // Of a target that is gone it is said.
    let loss = losses.iter().find(is_much).filter(is_news).filter(|_| death(facts).is_none());
    let Some(seen) = loss.map(|loss| seen(facts, loss)) else { return gives };
    // What is to blame for how long others took is not what ended it.
    let is_cut = silent_ns(facts).is_some_and(|ns| ns as f64 / 1e9 >= MOST_OF_RUN * facts.measured_s());
    match gives.standing {
        Standing::Gives if is_cut => {
            let text = format!("{seen}; why is not known; besides, {}", gives.text);
            WhatGives { text, standing: Standing::Unexplained, finding: None, behind: None }
        }
        Standing::Unexplained | Standing::AtItsLimit | Standing::BelowItsLimit => {
            let text = format!("{seen}; besides, {}", gives.text);
            WhatGives { text, standing: Standing::Unexplained, ..gives }
        }
        Standing::Gives => WhatGives { text: format!("{}; besides, {seen}", gives.text), ..gives },
        Standing::Unknown | Standing::SeenWithoutLoad => gives,
    }
}

/// For how long nobody was answered at the end of the load, nanoseconds, where those that were under way then are what was lost; `None`:
/// for less than a second.
pub(super) fn silent_ns(facts: &Facts<'_>) -> Option<u64> {
    let totals = &facts.recording.totals;
    let waiting = totals.in_flight_at_end;
    if waiting == 0 || totals.sum.counts.failed as f64 > (1.0 - OF_ONE_KIND) * waiting as f64 {
        return None;
    }
    let gaps = facts.recording.requests.common_gaps(facts.recording.plan.threads.max(1));
    // One of which the generator may have made more than half itself says nothing.
    let is_last =
        |gap: &Gap| gap.to_ns >= facts.end_ns && gap.from_ns < facts.end_ns && gap.others_ns() >= gap.length_ns() / 2;
    let last = gaps.into_iter().find(is_last)?;
    Some(facts.end_ns.saturating_sub(last.from_ns.max(facts.start_ns))).filter(|ns| *ns >= SILENT_NS_MIN)
}

/// The same in words.
fn silent_since(facts: &Facts<'_>) -> Option<String> {
    let from_s = facts.end_ns.saturating_sub(silent_ns(facts)?) as f64 / 1e9;
    let waiting = show_grouped(facts.recording.totals.in_flight_at_end);
    Some(format!("nobody was answered any more from second {from_s:.1} on, while {waiting} waited"))
}

/// What was lost, and how: where nearly all failed in one way that the target brought about.
pub(super) fn seen(facts: &Facts<'_>, loss: &Loss) -> String {
    if let Some(since) = silent_since(facts) {
        return format!("{}: {since}", loss.text);
    }
    let sum = &facts.recording.totals.sum;
    let most = sum.errors.seen().max_by_key(|(_, count)| *count);
    let kind = most.filter(|(_, count)| *count as f64 >= OF_ONE_KIND * sum.counts.failed as f64).map(|(kind, _)| kind);
    let how = match kind {
        Some(ErrorKind::ClosedEarly) => ": their connections were closed instead, and the target lived on",
        Some(ErrorKind::Reset) => ": their connections were reset instead, and the target lived on",
        _ => return loss.text.clone(),
    };
    let is_alive = facts.target_cores.is_some() && !facts.recording.events.iter().any(is_bad_end);
    if is_alive { format!("{}{how}", loss.text) } else { loss.text.clone() }
}
