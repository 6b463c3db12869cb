//! What messages without a meaning of their own are made of: how long, of which bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Payload sizes, bytes, each at least 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// Always the same.
    Fixed(u32),
    /// Uniform, both ends included.
    Range(u32, u32),
    /// In turn, round and round.
    List(Vec<u32>),
}

impl Sizes {
    /// The largest size that may be drawn.
    pub fn largest(&self) -> u32 {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(_, high) => *high,
            Sizes::List(sizes) => sizes.iter().copied().max().unwrap_or(1),
        }
    }
}

/// What an echo payload is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Random printable ASCII.
    Text,
    /// Random bytes, every fourth a NUL on average.
    Binary,
    /// Random bytes.
    Incompressible,
}
