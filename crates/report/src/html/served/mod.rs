//! Pages that ask the server that they came from: a run that goes on, the recordings of a folder.

pub mod library;
pub mod live;
