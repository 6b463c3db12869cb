//! What a list of recordings shows of one.

use super::End;
use serde::{Deserialize, Serialize};

/// What a list shows of a readable recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Wall clock at the start, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// Where the load went.
    pub target: String,
    /// Requests that ended, warm-up excluded.
    pub requests: u64,
    /// How it ended; of a run that is still going, [`End::Partial`].
    pub end: End,
    /// Whether something in the file is known not to be as it was written.
    pub is_damaged: bool,
}
