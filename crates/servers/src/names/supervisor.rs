//! The supervisor: starts the store, starts it again after a crash, and gives up when it crashes too often.
//!
//! One for one: connections and listeners live on. As Erlang's: more than `restarts_max` crashes within the period end
//! it. A pause before each restart doubles with each crash of the period.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::oneshot;

use super::NamesOptions;
use super::counters::count;
use super::error::NamesError;
use super::store::{Store, StoreParts};

/// The actor.
pub(super) struct Supervisor;

/// The message it sends itself when the pause before a restart is over.
pub(super) struct Restart;

/// What it is started with.
pub(super) struct SupervisorParts {
    pub(super) store: StoreParts,
    pub(super) names: NamesOptions,
    /// Told when it gives up.
    pub(super) gave_up: oneshot::Sender<NamesError>,
}

/// The state of the actor.
pub(super) struct Watch {
    store: StoreParts,
    intensity: Intensity,
    gave_up: Option<oneshot::Sender<NamesError>>,
}

/// How often the store may be started again.
struct Intensity {
    restarts_max: u32,
    period: Duration,
    backoff: Duration,
    backoff_max: Duration,
    /// Crashes within the period, `restarts_max` of them at most.
    crashes: VecDeque<Instant>,
}

impl Intensity {
    /// The pause before the restart that a crash at this moment calls for; `None`: it was one too many.
    fn crashed(&mut self, now: Instant) -> Option<Duration> {
        while self.crashes.front().is_some_and(|then| now.duration_since(*then) > self.period) {
            self.crashes.pop_front();
        }
        if self.crashes.len() >= self.restarts_max as usize {
            return None;
        }
        let doublings = u32::try_from(self.crashes.len()).unwrap_or(u32::MAX).min(31);
        self.crashes.push_back(now);
        Some(self.backoff.saturating_mul(1 << doublings).min(self.backoff_max))
    }
}

impl Actor for Supervisor {
    type Msg = Restart;
    type State = Watch;
    type Arguments = SupervisorParts;

    async fn pre_start(&self, myself: ActorRef<Restart>, parts: SupervisorParts) -> Result<Watch, ActorProcessingErr> {
        let SupervisorParts { store, names, gave_up } = parts;
        start(&myself, &store).await?;
        let intensity = Intensity {
            restarts_max: names.restarts_max,
            period: names.restart_period,
            backoff: names.backoff,
            backoff_max: names.backoff_max,
            crashes: VecDeque::new(),
        };
        Ok(Watch { store, intensity, gave_up: Some(gave_up) })
    }

    async fn handle(&self, myself: ActorRef<Restart>, _: Restart, watch: &mut Watch) -> Result<(), ActorProcessingErr> {
        match start(&myself, &watch.store).await {
            Ok(()) => count(&watch.store.gauges.restarts, 1),
            // A journal that cannot be read back: tried again like a crash, for the disk may recover.
            Err(why) => watch.crashed(&myself, why.to_string()),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Restart>,
        event: SupervisionEvent,
        watch: &mut Watch,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, why) => watch.crashed(&myself, why.to_string()),
            // Its end in order comes only behind our own.
            SupervisionEvent::ActorTerminated(..) | SupervisionEvent::ActorStarted(_) => {}
            _ => {}
        }
        Ok(())
    }
}

impl Watch {
    fn crashed(&mut self, myself: &ActorRef<Restart>, why: String) {
        count(&self.store.gauges.crashes, 1);
        self.store.queue.store_is_down(VecDeque::new());
        match self.intensity.crashed(Instant::now()) {
            Some(pause) => drop(myself.send_after(pause, || Restart)),
            None => {
                let Intensity { restarts_max, period, .. } = self.intensity;
                if let Some(tell) = self.gave_up.take() {
                    // Who is to be told may be ending by itself.
                    let _ = tell.send(NamesError::GaveUp { restarts_max, period, last: why });
                }
            }
        }
    }
}

async fn start(myself: &ActorRef<Restart>, store: &StoreParts) -> Result<(), ActorProcessingErr> {
    match Actor::spawn_linked(None, Store, store.clone(), myself.get_cell()).await {
        Ok(_) => Ok(()),
        Err(SpawnErr::StartupFailed(why)) => Err(why),
        Err(other) => Err(other.into()),
    }
}

/// Starts a supervisor, and with it the first store.
///
/// # Errors
/// The store could not start: its journal.
pub(super) async fn spawn(parts: SupervisorParts) -> Result<ActorRef<Restart>, NamesError> {
    match Actor::spawn(None, Supervisor, parts).await {
        Ok((supervisor, _)) => Ok(supervisor),
        Err(SpawnErr::StartupFailed(why)) => Err(match why.downcast::<NamesError>() {
            Ok(why) => *why,
            Err(other) => NamesError::Runtime { doing: "start the store", got: other.to_string() },
        }),
        Err(other) => Err(NamesError::Runtime { doing: "start the supervisor", got: other.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_one_crash_too_many_ends_it() {
        let ms = Duration::from_millis;
        let mut intensity = Intensity {
            restarts_max: 4,
            period: ms(1000),
            backoff: ms(10),
            backoff_max: ms(50),
            crashes: VecDeque::new(),
        };
        let start = Instant::now();
        let pauses: Vec<_> = (0..5).map(|n| intensity.crashed(start + ms(n * 100))).collect();
        assert_eq!(pauses, [Some(ms(10)), Some(ms(20)), Some(ms(40)), Some(ms(50)), None]);
        // The first two are out of the period by then.
        assert_eq!(intensity.crashed(start + ms(1150)), Some(ms(40)));
        assert_eq!(intensity.crashed(start + ms(9000)), Some(ms(10)));
        intensity.restarts_max = 0;
        assert_eq!(intensity.crashed(start + ms(99_000)), None);
    }
}
