//! Several loads that were put on together: each has a recording of its own, which names the others'.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// That a load was put on together with others, on one clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Which of `loads` this is, from 0.
    pub number: usize,
    /// Every load of the run, the main one first, the canary last.
    pub loads: Vec<LoadOfRun>,
}

/// A load of a run of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadOfRun {
    /// What it is called.
    pub name: String,
    /// What it is among the others.
    pub role: LoadRole,
    /// The name of its recording's file, in the folder of this one; null where none was kept.
    pub recording: Option<String>,
}

/// What a load is among those of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadRole {
    /// The one that the report is of first.
    Main,
    /// Put on beside it.
    Beside,
    /// A single request now and then, which asks only whether the target still answers.
    Canary,
}

impl Together {
    /// This load; `None` of a recording that was put together wrongly.
    pub fn this(&self) -> Option<&LoadOfRun> {
        self.loads.get(self.number)
    }

    /// Whether this is the canary.
    pub fn is_canary(&self) -> bool {
        self.this().is_some_and(|load| load.role == LoadRole::Canary)
    }
}
