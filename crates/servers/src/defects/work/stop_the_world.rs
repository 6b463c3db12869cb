//! All workers stop at once, every so often, as for a collector of garbage.
//!
//! As there, a worker stops where it is safe to: when a connection wakes it. One that has nothing to do is not held.

use super::background::{Background, lock};
use super::held::Held;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Setting, Strength, Way};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "stop-the-world",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Time(Duration::from_millis(80)),
    parts: &[Part { name: "every", default: Strength::Time(Duration::from_secs(1)) }],
    ways: &[Way::Sleep, Way::Compute],
    needs: &[Able::OneProcess, Able::Wakes],
    about: "once in a while (every=1s) a thread stops all workers for this long, which is less, and sleeps meanwhile, or computes",
    makes: "stop-the-world: each time a gap in which no worker answers and nearly all requests in flight are caught",
    see: "timeout 5 strace -f -T -e trace=futex -p PID under load: each time FUTEX_WAITs of all workers at once",
    make: |setting| {
        let (held, period) = (Held::of(&setting), Duration::from_nanos(setting.part("every")));
        if held.time >= period {
            return Err(ServeError::DefectPart {
                defect: setting.defect.name,
                part: "every",
                expected: format!("more than {:?}, for which all are stopped,", held.time),
                got: format!("{period:?}"),
            });
        }
        Ok(Box::new(StopTheWorld::new(&setting, held, period)?))
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
    fn new(setting: &Setting, held: Held, period: Duration) -> Result<Self, ServeError> {
        let world = Arc::new(World::default());
        let theirs = Arc::clone(&world);
        let stopper = Background::start(setting, move |end| {
            let mut is_over = false;
            while !is_over && !end.within(period.saturating_sub(held.time)) {
                *lock(&theirs.is_stopped) = true;
                match held.way {
                    Way::Sleep => is_over = end.within(held.time),
                    Way::Compute => held.hold(),
                }
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
