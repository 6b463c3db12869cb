//! All workers stop at once, every second, as for a collector of garbage.
//!
//! As there, a worker stops where it is safe to: when a connection wakes it. One that has nothing to do is not held.

use super::background::{Background, lock};
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(1);

pub(super) const DEFECT: Defect = Defect {
    name: "stop-the-world",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Time(Duration::from_millis(80)),
    about: "once a second a thread stops all workers for this long, which is less than a second",
    makes: "stop-the-world: each second a gap in which no worker answers and nearly all requests in flight are caught",
    see: "timeout 5 strace -f -T -e trace=futex -p PID under load: each second FUTEX_WAITs of all workers at once",
    make: |setting| {
        let stopped = setting.time();
        if stopped.is_zero() || stopped >= PERIOD {
            return Err(ServeError::DefectStrength {
                defect: setting.defect.name,
                expected: "more than 0s and less than 1s",
                got: format!("{stopped:?}"),
            });
        }
        Ok(Box::new(StopTheWorld::new(&setting, stopped)?))
    },
};

#[derive(Debug)]
struct StopTheWorld {
    world: Arc<World>,
    _stopper: Background,
}

#[derive(Debug, Default)]
struct World {
    is_stopped: Mutex<bool>,
    goes_on: Condvar,
}

impl StopTheWorld {
    fn new(setting: &Setting, stopped: Duration) -> Result<Self, ServeError> {
        let world = Arc::new(World::default());
        let theirs = Arc::clone(&world);
        let stopper = Background::start(setting, "stopper", move |end| {
            let mut is_over = false;
            while !is_over && !end.within(PERIOD.saturating_sub(stopped)) {
                *lock(&theirs.is_stopped) = true;
                is_over = end.within(stopped);
                *lock(&theirs.is_stopped) = false;
                theirs.goes_on.notify_all();
            }
        })?;
        Ok(Self { world, _stopper: stopper })
    }
}

impl Hook for StopTheWorld {
    fn woken(&self) {
        let mut is_stopped = lock(&self.world.is_stopped);
        while *is_stopped {
            is_stopped = self.world.goes_on.wait(is_stopped).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
