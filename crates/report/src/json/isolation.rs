//! What held the machine still for the run, `isolation` of the document: by the run's events what could be set and what could not.

use model::Event;
use model::event::{ISOLATED, ISOLATED_ALREADY, ISOLATION_NOT_UNDONE, ISOLATION_UNDONE, NOT_ISOLATED};
use model::recording::Recording;
use schemars::JsonSchema;
use serde::Serialize;

/// One thing that was to be set for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Isolated {
    /// `generator`, `addresses`, `target`, `interrupts`, `governor` or `turbo`.
    pub what: String,
    /// What became of it.
    pub state: IsolatedState,
    /// What was set and put back, or why not, a sentence each.
    pub said: Vec<String>,
}

/// What became of one thing that was to be set for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsolatedState {
    /// It was set, and nothing lasts that would have to be undone, or the recording ends before.
    Set,
    /// It was set, and is as it was before.
    Undone,
    /// It was so before.
    WasSo,
    /// It could not be set: `said` has why.
    NotSet,
    /// It was set, and could not be put back: `said` has why, and the journal (`plimsoll fault list`) what.
    NotUndone,
}

impl Isolated {
    /// Those of a recording, in the order in which they were set; empty: nothing was asked for.
    pub fn all_of(recording: &Recording) -> Vec<Self> {
        let of_what = |event: &Event| event.details.of_kind.clone();
        let begun = recording.events.iter().filter_map(|event| {
            let state = match &*event.kind {
                ISOLATED => IsolatedState::Set,
                ISOLATED_ALREADY => IsolatedState::WasSo,
                NOT_ISOLATED => IsolatedState::NotSet,
                _ => return None,
            };
            Some((of_what(event)?, state, event.text.clone()))
        });
        let ends = |what: &str| {
            let is_end = |event: &&Event| [ISOLATION_UNDONE, ISOLATION_NOT_UNDONE].contains(&&*event.kind);
            recording.events.iter().filter(is_end).find(|event| of_what(event).as_deref() == Some(what))
        };
        begun
            .map(|(what, state, text)| {
                let end = ends(&what);
                let state = match end.map(|event| &*event.kind) {
                    Some(ISOLATION_UNDONE) => IsolatedState::Undone,
                    Some(_) => IsolatedState::NotUndone,
                    None => state,
                };
                let said = [Some(text), end.map(|event| event.text.clone())].into_iter().flatten().collect();
                Isolated { what, state, said }
            })
            .collect()
    }
}
