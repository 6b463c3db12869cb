//! Whether a recording that was read back is as it was written, and what of it is not.
//!
//! What is damaged is left out of the recording, or stands in it with this beside it; which of both is said.

use schemars::JsonSchema;
use serde::Serialize;

/// How much of a recording is as it was written. By default: all of it, as of one that was never on a disk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Integrity {
    /// The recording has no checksums: it was made by a version that wrote none, and damage may not show.
    pub without_checksums: bool,
    /// What is not as it was written, in the order it was found.
    pub damage: Vec<Damage>,
    /// Damage beyond what is kept.
    pub damage_lost: u64,
}

impl Integrity {
    /// Whether anything is known to be damaged.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }
}

/// A place of a recording that is not as it was written.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Damage {
    /// The place: a row by its table and number, such as `tick 3`, a table, or a part of the run's own row, such as `plan`.
    pub place: String,
    /// The second of the run after which it lies; null where that is not known.
    pub at_s: Option<f64>,
    /// What is wrong with it, and what became of it.
    pub what: String,
}
