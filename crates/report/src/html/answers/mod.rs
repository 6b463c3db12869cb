//! Pages of what several runs came to together: a search for the load line, a comparison.

pub mod capacity;
pub mod comparison;
