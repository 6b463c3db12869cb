//! Something with a moment: a signal, a restart, a driver that fell back, a fault.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of the event that says what TLS agreed on with the first connection.
pub const TLS_AGREED: &str = "tls-agreed";
/// Kind of the event that says all there is to say about the first failure of TLS.
pub const TLS_FAILED: &str = "tls-failed";
/// Kind of the event that says since when the target on another machine is not seen, and why.
pub const OBSERVER_LOST: &str = "observer-lost";
/// Kind of the event that says that it is seen again.
pub const OBSERVER_BACK: &str = "observer-back";

/// Kind of the event that says that an observer on another machine runs cheaper probes than it was asked for.
pub const PROBES_LIMITED: &str = "probes-limited";

/// Kind of the event that says that a run was ended early, as nothing had connected.
pub const GAVE_UP: &str = "gave-up";

/// Kind of the event that says that the load has ended and the machine is read on.
pub const LOAD_ENDED: &str = "load-ended";

/// Kind of the event that says that nobody has taken connections for [`crate::limits::GONE_NS`], and that the run goes on.
pub const TARGET_AWAY: &str = "target-away";
/// Kind of the event that says that somebody takes them again.
pub const TARGET_BACK: &str = "target-back";

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Nanoseconds since the run's start (negative: before it).
    pub at_ns: i64,
    /// A fixed kebab-case word, such as `interrupted`, `driver-fallback`, `target-gone`, `tls-agreed`, `tls-failed`, `recording-stopped`.
    pub kind: String,
    /// One sentence for people.
    pub text: String,
}
