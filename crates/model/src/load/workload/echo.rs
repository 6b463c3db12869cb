//! Echo as data: bytes that must come back as they went.

use super::ProtocolPlan;
use crate::payload::{Content, Sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be asked of echo.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EchoAsked {
    /// Payload sizes.
    pub sizes: Option<Sizes>,
    /// Payload content.
    pub content: Option<Content>,
}

/// An echo workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Echo {
    /// Payload sizes, bytes.
    pub sizes: Sizes,
    /// What the payload is made of.
    pub content: Content,
}

impl Echo {
    /// Bytes of the smallest payload.
    pub fn smallest(&self) -> u64 {
        match &self.sizes {
            Sizes::Fixed(size) | Sizes::Range(size, _) => u64::from(*size),
            Sizes::List(sizes) => sizes.iter().copied().min().map_or(1, u64::from),
        }
    }
}

impl ProtocolPlan for Echo {
    fn least_bytes(&self) -> (u64, u64) {
        (self.smallest(), self.smallest())
    }
}
