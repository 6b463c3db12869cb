//! Recordings on disk: one SQLite file a run, appended every tick, readable after a kill.
//!
//! [`Writer`] keeps a run as it happens, [`Reader`] gives it back as a [`model::Recording`], [`list`] and [`find`]
//! look through a folder of them. All SQL of the project is in this crate. It draws nothing, diagnoses nothing and
//! never changes a file that it only reads. A long run's old ticks are merged (`merging`), so that a day takes some 50 MB. What is damaged is told by checksums: of each row, each table and the whole. Cost:
//! one transaction a tick, about 1 MiB of memory however long the run.
#![forbid(unsafe_code)]

mod error;
mod figures;
mod folder;
mod histogram;
mod index;
mod integrity;
mod joining;
pub mod limits;
mod merging;
mod migrate;
mod open;
mod reader;
mod requests;
mod rows;
mod schema;
mod sums;
mod times;
mod writer;

pub use error::StoreError;
pub use folder::{Summary, Verdict, default_folder, delete, find, list, named, new_path, probe};
pub use joining::{Joined, carried, join};
pub use reader::Reader;
pub use sums::Intervals;
pub use writer::Writer;

/// The file extension of a recording, without the dot.
pub const EXTENSION: &str = "plimsoll";
