//! Held connections as data: what each sends, and how often it is looked at.

use super::ProtocolPlan;
use super::echo::Echo;
use crate::payload::{Content, Sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be asked of connections that are held.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldAsked {
    /// Sizes of a connection's messages.
    pub message: Option<Sizes>,
    /// Content of a message.
    pub content: Option<Content>,
    /// Time from one message of a connection to its next, nanoseconds; 0: none is sent.
    pub every_ns: Option<u64>,
    /// Messages are not expected back.
    pub sent_only: bool,
    /// Connections made a second.
    pub connects_per_s: Option<f64>,
    /// How often a connection that rests is looked at, nanoseconds.
    pub sweep_ns: Option<u64>,
    /// Every connection is watched all the time.
    pub watch_close: bool,
    /// Connections are added until something gives.
    pub until_failure: bool,
}

/// Connections that are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// What each sends, on its own phase; the pace says how often.
    pub message: Echo,
    /// Whether a message must come back as it went. Otherwise it is done when the kernel has taken it.
    pub is_echoed: bool,
    /// How often a connection on which no reply is due is looked at, nanoseconds: so late its close is seen. `None`:
    /// each is watched all the time, which costs the kernel more memory.
    pub sweep_ns: Option<u64>,
    /// Connections are added until something gives; the plan's number is where it stops at the latest.
    pub until_failure: bool,
}

impl ProtocolPlan for Hold {
    fn is_held(&self) -> bool {
        true
    }

    fn is_until_failure(&self) -> bool {
        self.until_failure
    }

    fn least_bytes(&self) -> (u64, u64) {
        let message = self.message.smallest();
        (message, if self.is_echoed { message } else { 0 })
    }
}
