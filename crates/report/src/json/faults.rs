//! The faults of a run, `faults` of the document: what was asked for, and by the run's events what became of each.
//!
//! Nothing is judged here: what a fault cost, and when all was as before, is diagnosis' to say ([`super::effects`]).

use super::effects::Effects;
use model::Event;
use model::event::{FAULT_BEGAN, FAULT_REFUSED, FAULT_UNDONE};
use model::finding::Diagnosis;
use model::recording::Recording;
use schemars::JsonSchema;
use serde::Serialize;

/// A fault of the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fault {
    /// Its number, from 1 in the order in which they were asked for: `events[].fault`.
    pub number: u32,
    /// Its name, such as `stop`.
    pub name: String,
    /// As it was asked for, name and arguments.
    pub fault: String,
    /// What became of it.
    pub state: FaultState,
    /// When it was asked to be done, seconds since the run's start.
    pub asked_at_s: f64,
    /// How long it was asked to last, seconds; null: to the end of the load, or it cannot be undone.
    pub asked_for_s: Option<f64>,
    /// When it began to act, seconds since the run's start; null: it was not done.
    pub at_s: Option<f64>,
    /// How long the doing took, milliseconds; null likewise.
    pub took_ms: Option<f64>,
    /// When it was undone, seconds since the run's start; null: it was not, or cannot be.
    pub undone_at_s: Option<f64>,
    /// What was done, what was undone, and why it was not, a sentence each.
    pub said: Vec<String>,
    /// What it did to the load, and how long until all was as before.
    #[serde(flatten)]
    pub effects: Effects,
}

/// What became of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultState {
    /// The load ended before its moment.
    NotReached,
    /// It was not done: `said` has why.
    Refused,
    /// It was done, and nothing says that it was undone: it cannot be, or the recording ends before.
    Done,
    /// It was done and undone.
    Undone,
    /// It was done, and could not be undone: `said` has why, and the journal (`plimsoll fault list`) what.
    NotUndone,
}

impl Fault {
    /// The same with what each did.
    pub fn with_effects(recording: &Recording, diagnosis: &Diagnosis) -> Vec<Self> {
        let mut all = Fault::all_of(recording);
        for fault in &mut all {
            let of_it = diagnosis.recoveries.iter().find(|recovery| recovery.fault == Some(fault.number));
            fault.effects = of_it.map(Effects::of).unwrap_or_default();
        }
        all
    }

    /// Those of a recording, in the order in which they were asked for.
    pub fn all_of(recording: &Recording) -> Vec<Self> {
        let faults = recording.plan.faults.iter().zip(1_u32..);
        faults
            .map(|(asked, number)| {
                let own = || recording.events.iter().filter(|event| event.details.fault == Some(number));
                let first = |kind: &str| own().find(|event| event.kind == kind);
                let (began, undone, refused) = (first(FAULT_BEGAN), first(FAULT_UNDONE), first(FAULT_REFUSED));
                let state = match (began, undone, refused) {
                    (None, _, None) => FaultState::NotReached,
                    (None, _, Some(_)) => FaultState::Refused,
                    (Some(_), _, Some(_)) => FaultState::NotUndone,
                    (Some(_), Some(_), None) => FaultState::Undone,
                    (Some(_), None, None) => FaultState::Done,
                };
                let s = |event: &Event| event.at_ns as f64 / 1e9;
                Fault {
                    number,
                    name: asked.name().to_owned(),
                    fault: asked.fault.clone(),
                    state,
                    asked_at_s: crate::figures::s(asked.at_ns),
                    asked_for_s: asked.for_ns.map(crate::figures::s),
                    at_s: began.map(s),
                    took_ms: began.and_then(|event| event.details.took_ns).map(|ns| ns as f64 / 1e6),
                    undone_at_s: undone.map(s),
                    effects: Effects::default(),
                    said: own().map(|event| event.text.clone()).collect(),
                }
            })
            .collect()
    }
}
