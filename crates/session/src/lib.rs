//! One run: with engine, observe and store from a plan to a recording and its diagnosis.
//!
//! Also the search for the load line, and the demo that shows it. Blocking, one thread beside the workers'.
#![forbid(unsafe_code)]

pub mod capacity;
pub mod check;
pub mod comparison;
pub mod confirm;
pub mod connections;
pub mod demo;
pub mod embedded;
pub mod experiment;
pub mod faults;
pub mod generators;
pub mod importing;
mod made;
mod observation;
pub mod observing;
pub mod pages;
mod run;
pub mod target;
mod ticks;
pub mod tls_matrix;
mod watch;
pub mod watching;
mod without_load;

pub use made::MadeError;
pub use run::{
    Aborting, BehindSpec, Hands, Load, OneOf, Options, Outcome, RecordTo, RunError, Standing, ThisProcess, Watch,
    places, run, run_among_others, run_beside, run_on, run_together, run_together_on, run_with_faults,
};
