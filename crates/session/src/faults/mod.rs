//! Faults as a run knows them: whom they may mean.

mod around;

pub use around::Whom;
