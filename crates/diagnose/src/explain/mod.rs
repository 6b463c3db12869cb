//! What was lost and where its time went, which of the causes found brought it about, and the sentence that says what gives first.

pub(crate) mod by_hand;
mod concentration;
mod drain;
mod flow;
pub(crate) mod gives;
pub mod graph;
pub mod ledger;
mod run_queue;
pub(crate) mod standstill;
mod states;
mod stretch;
pub(crate) mod waits;
pub(crate) mod without_load;

pub(crate) use concentration::concentrations;
pub(crate) use flow::{fit, measure, untie};
pub(crate) use stretch::take_in;
