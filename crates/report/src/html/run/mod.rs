//! The parts of a run's page: its sections, tables of its figures, the target, loads put on together.

pub mod loads;
pub(super) mod numbers;
pub(super) mod sections;
pub(super) mod target;
