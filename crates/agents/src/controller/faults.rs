//! Faults of a run that agents put on: its controller does them, on the machine where that is, by the moment at which all begin.
//!
//! So the command is typed where the target is, or where the way to it can be disturbed. What faults did is said in the run's stream as
//! well, for a controller that takes over: it does none itself, as it may be on another machine. One that is killed leaves its
//! journal, as any run does, for `plimsoll fault undo` there.

use super::Conduct;
use super::follow::{Follower, Known};
use crate::error::AgentsError;
use crate::message::{read, tamed, write};
use crate::subject;
use model::Event;
use model::event::is_fault;
use remote::monotonic_ns;
use session::RunError;
use session::faults::{Ready, Running};

/// The faults of a run, as far as this controller knows of them.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Those that it does itself.
    running: Option<Running>,
    /// When the load is over as planned, nanoseconds of this machine's CLOCK_MONOTONIC; `None`: a count ends it.
    over_at_ns: Option<i64>,
    /// Everything is undone.
    is_over: bool,
    /// Events that are known: the number of the next.
    pub(super) known: usize,
}

impl Follower {
    /// Begins them: the load begins at `at_ns` of this machine's CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// [`AgentsError::Run`]: no thread is to be had.
    pub(super) fn start_faults(&mut self, ready: Option<Ready>, at_ns: i64) -> Result<(), AgentsError> {
        let Some(ready) = ready else { return Ok(()) };
        let origin_ns = u64::try_from(at_ns).unwrap_or(0);
        self.faults.running = Some(ready.start(origin_ns).map_err(RunError::FaultThread)?);
        self.faults.over_at_ns = self.plan.planned_ns().map(|planned_ns| at_ns.saturating_add_unsigned(planned_ns));
        Ok(())
    }

    /// Tells what faults have done since it was called last; undoes them when the load is over.
    pub(super) async fn follow_faults(&mut self, conduct: &mut Conduct<'_>) {
        let Some(running) = self.faults.running.take() else { return };
        let mut events = running.take_events();
        let is_past = self.faults.over_at_ns.is_some_and(|over_at_ns| monotonic_ns() >= over_at_ns);
        let is_over = is_past || self.is_stopped || self.agents.iter().all(Known::is_settled);
        if is_over && !self.faults.is_over {
            self.faults.is_over = true;
            // It may take long, as what is undone may be a command; agents are heard again when it is done.
            let undone = tokio::task::spawn_blocking(move || {
                let events = running.end();
                (running, events)
            });
            if let Ok((running, undone)) = undone.await {
                events.extend(undone);
                self.faults.running = Some(running);
            }
        } else {
            self.faults.running = Some(running);
        }
        for event in events {
            conduct.watch.on_event(&event);
            if let Some(company) = &conduct.company {
                company.tell(&event);
            }
            let word = subject::word(&self.run, &subject::fault(self.faults.known));
            self.keep_fault(event.clone());
            // Who takes over would not know of it; this controller has it all the same.
            if let Err(why) = self.link.put_first(&word, write(&event)).await {
                (conduct.tell)(&format!("NATS does not keep what a fault did: {why}"));
            }
        }
    }

    /// The next thing that another controller said of a fault.
    pub(super) fn take_fault(&mut self, body: &[u8]) {
        if let Some(event) = read::<Event>(body).filter(|event| is_fault(&event.kind)) {
            let text = tamed(&event.text);
            self.keep_fault(Event { text, ..event });
        }
    }

    fn keep_fault(&mut self, event: Event) {
        self.faults.known += 1;
        self.events.push(event);
    }
}
