//! All workers stop at once, every so often, as for a collector of garbage.
//!
//! As there, a worker stops where it is safe to: when a connection wakes it. One that has nothing to do is not held.
//! Workers that are processes share what they stand at, and a thread of the process they come from stops them, as one
//! does that writes down or clears memory that all of them use.

use super::background::{Background, refused};
use super::held::Held;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Setting, Strength, Way};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::defects::shared::{Among, Gate};
use crate::error::ServeError;
use std::sync::Arc;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "stop-the-world",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy, Server::Names],
    strength: Strength::Time(Duration::from_millis(80)),
    parts: &[Part { name: "every", default: Strength::Time(Duration::from_secs(1)) }],
    ways: &[Way::Sleep, Way::Compute],
    needs: &[Able::Wakes],
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
        Ok(Box::new(StopTheWorld { setting, held, period, world: None }))
    },
};

#[derive(Debug)]
struct StopTheWorld {
    setting: Setting,
    held: Held,
    period: Duration,
    /// Where the workers stand, and who stops them; once it is known what they are.
    world: Option<(Arc<Gate>, Background)>,
}

impl Hook for StopTheWorld {
    fn carried_by(&mut self, _: Server, among: Among) -> Result<(), ServeError> {
        let gate = Gate::new(among).map_err(|source| refused(&self.setting, "make what stops them", source))?;
        let gate = Arc::new(gate);
        let (theirs, held, period) = (Arc::clone(&gate), self.held, self.period);
        let stopper = Background::start(&self.setting, move |end| {
            let mut is_over = false;
            while !is_over && !end.within(period.saturating_sub(held.time)) {
                theirs.close();
                match held.way {
                    Way::Compute => held.hold(),
                    _ => is_over = end.within(held.time),
                }
                theirs.open();
            }
        })?;
        self.world = Some((gate, stopper));
        Ok(())
    }

    fn woken(&self) {
        if let Some((gate, _)) = &self.world {
            gate.pass();
        }
    }
}
