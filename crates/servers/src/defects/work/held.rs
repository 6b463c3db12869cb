//! How a defect holds a worker up for a time: it computes, or it sleeps.

use crate::clock;
use crate::defects::defect::{Setting, Way};
use std::time::Duration;

/// A time, and what a worker does meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) time: Duration,
    pub(super) way: Way,
}

impl Held {
    /// As the setting's strength and way say.
    pub(super) fn of(setting: &Setting) -> Self {
        Self { time: setting.time(), way: setting.way.unwrap_or(Way::Compute) }
    }

    /// Holds the calling thread up: computing if that is the way, asleep otherwise.
    pub(super) fn hold(self) {
        match self.way {
            Way::Compute => clock::burn_us(u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX)),
            _ => std::thread::sleep(self.time),
        }
    }
}
