//! Puts load: pace × source × machine × driver × stop.
//!
//! A worker per thread, each with its own driver, connections, timers, histograms and seed; nothing is shared. Workers
//! hand full intervals to the session and get empty ones back ([`link`]). What this crate does not do: resolve names,
//! read the host, write to disk, draw.

mod assembly;
pub mod driver;
pub mod errors;
pub mod fleet;
pub mod ledger;
pub mod link;
pub mod pace;
pub mod share;
mod start_error;
pub mod timers;
pub mod tls;
pub mod worker;

pub use fleet::{Fleet, SimSession};
pub use link::{Control, Finished, Message};
pub use share::plan_of;
pub use start_error::StartError;
pub use worker::burst::Rendezvous;
