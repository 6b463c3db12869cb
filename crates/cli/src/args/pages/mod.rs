//! Arguments of what is shown in browsers: a run that goes on, recordings.

pub mod live;
pub mod ui;
