//! What kept the generator from running.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kept the generator from running in an interval. By its own signals only, never by a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// A worker was runnable and waited for a CPU that others had.
    pub waited: bool,
    /// A worker's loop was late for a reason that is not seen: it was stopped, or its machine was.
    pub late: bool,
    /// The hypervisor took CPU time.
    pub stolen: bool,
    /// A CPU quota stopped the generator.
    pub throttled: bool,
    /// It follows a disturbed interval, whose requests may have ended in it.
    pub follows: bool,
}

impl Disturbance {
    /// Whether the interval is set apart.
    pub fn is_any(&self) -> bool {
        self.waited || self.late || self.stolen || self.throttled || self.follows
    }

    /// Whether it was disturbed itself, and does not only follow one that was.
    pub fn is_own(&self) -> bool {
        self.waited || self.late || self.stolen || self.throttled
    }

    /// Takes in those of another interval.
    pub fn merge(&mut self, other: &Disturbance) {
        self.waited |= other.waited;
        self.late |= other.late;
        self.stolen |= other.stolen;
        self.throttled |= other.throttled;
        self.follows |= other.follows;
    }
}
