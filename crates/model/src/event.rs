//! Something with a moment: a signal, a restart, a driver that fell back, a fault.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Nanoseconds since the run's start (negative: before it).
    pub at_ns: i64,
    /// A fixed kebab-case word, such as `interrupted`, `driver-fallback`, `target-gone`, `recording-stopped`.
    pub kind: String,
    /// One sentence for people.
    pub text: String,
}
