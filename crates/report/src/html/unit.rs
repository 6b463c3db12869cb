//! Units of what is drawn: their name for the page's script, how fine they are kept, and how a figure is said.
//!
//! The script says the figures under its cursor by the same rules; `web/tests/figures.json` holds both to that.

use crate::words::{percent, rate};
use model::units::{show_bytes, show_count, show_duration_ns};
use serde::Serialize;

/// In what something is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// So many a second.
    PerS,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Processors.
    Cpus,
    /// A share, 0..=1.
    Share,
    /// A number.
    Count,
    /// So many times something else.
    Times,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 7] = [Unit::PerS, Unit::Ns, Unit::Bytes, Unit::Cpus, Unit::Share, Unit::Count, Unit::Times];

    /// What a value is multiplied by to be kept as a whole number.
    pub fn scale(self) -> f64 {
        match self {
            Unit::Ns | Unit::Bytes => 1.0,
            Unit::PerS | Unit::Count => 100.0,
            Unit::Cpus => 1000.0,
            Unit::Share => 100_000.0,
            Unit::Times => 1e6,
        }
    }

    /// A figure in words.
    pub fn shown(self, value: f64) -> String {
        match self {
            Unit::PerS => rate(value),
            Unit::Ns if value == 0.0 => "0".to_owned(),
            Unit::Ns => show_duration_ns(value),
            Unit::Bytes => show_bytes(value),
            Unit::Cpus => format!("{value:.2}"),
            Unit::Share => percent(100.0 * value),
            Unit::Count => show_count(value),
            Unit::Times if value > 0.0 && value < 0.01 => "< 0.01 ×".to_owned(),
            Unit::Times => format!("{} ×", show_count(value)),
        }
    }
}
