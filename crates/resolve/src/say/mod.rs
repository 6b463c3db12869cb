//! What is said of a scenario: errors and warnings, in sentences that name its fields.

pub(crate) mod error;
pub(crate) mod field;
pub(crate) mod warnings;
pub(crate) mod words;
