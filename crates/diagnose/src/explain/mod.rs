//! What was lost, which of the causes found brought it about, and the sentence that says what gives first.

pub(crate) mod gives;
pub mod graph;
pub mod ledger;
pub(crate) mod without_load;
