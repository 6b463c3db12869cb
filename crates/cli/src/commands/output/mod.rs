//! Where commands print: results on stdout, progress on stderr, or a view of it on the whole terminal, intervals into files; what the terminal can show.

pub mod intervals;
pub mod live;
pub mod outlet;
pub mod progress;
pub mod results;
mod seldom;
pub mod terminal;
pub mod timeline;
pub mod together;
pub mod view;
