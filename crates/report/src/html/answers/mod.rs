//! Pages of what several runs came to together: a search for the load line, the same over parameters of the load, a comparison.

pub mod capacity;
pub mod comparison;
pub mod surface;
