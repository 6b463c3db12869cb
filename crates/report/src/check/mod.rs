//! What `plimsoll check` found, for people and for machines: what binds first is read first.
//!
//! Judged elsewhere; here are only words and lines. A limit that was not read is shown as such, never left out.

mod document;
mod text;

pub use document::{Document, SCHEMA, schema};
pub use text::write;

use model::check::{Check, Fix};

/// What is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Where the load would go, as written; empty: nowhere in particular.
    pub target: String,
    /// The limits, as they are at the end.
    pub check: Check,
    /// What was changed, or would be; empty where nobody asked for it.
    pub fixes: Vec<Fix>,
}
