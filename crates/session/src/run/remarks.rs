//! What is said of a run while it goes: how its samplers fare, that nobody is there, that somebody is again, that a phase begins.

use super::Session;
use engine::Fleet;
use model::Event;
use model::limits::GONE_NS;
use model::recording::{Row, Tick};
use model::units::{show_duration_ns, show_grouped};

/// A target that takes no connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Away {
    since_ns: u64,
    /// Connections that it was asked for meanwhile.
    asked: u64,
    is_said: bool,
}

/// Time after which a recording is told anew how the samplers fare, nanoseconds.
const SAMPLERS_EVERY_NS: u64 = 10_000_000_000;

impl Session<'_> {
    /// Keeps how the samplers fare, for a recording that is cut off: whoever reads it is to know what was not looked at.
    pub(super) fn keep_samplers(&mut self, now_ns: u64) {
        if now_ns < self.samplers_due_ns || self.writer.is_none() {
            return;
        }
        self.samplers_due_ns = now_ns.saturating_add(SAMPLERS_EVERY_NS);
        let samplers = self.observation.statuses();
        if samplers != self.recording.samplers {
            self.append(|writer| writer.keep_samplers(&samplers));
            self.recording.samplers = samplers;
        }
    }

    /// Marks the beginning of each phase that a tick has in it, at its own moment.
    pub(super) fn say_if_phase_begins(&mut self, row: &Row) {
        if row.is_drain {
            return;
        }
        let phases = self.recording.plan.phases.iter();
        // Boundaries are those of ticks.
        let begun = phases.filter(|phase| (row.start_ns..row.end_ns).contains(&phase.start_ns));
        let events: Vec<Event> = begun
            .map(|phase| {
                Event::new(phase.start_ns as i64, model::event::PHASE, format!("phase \"{}\" begins", phase.name))
            })
            .collect();
        events.into_iter().for_each(|event| self.keep_event(event));
    }

    /// Ends the run where something is so with which it was not to go on (`--abort-when`).
    pub(super) fn abort_if_due(&mut self, tick: &Tick, fleet: &Fleet) {
        if fleet.control().is_stopped() {
            return;
        }
        let Some(event) = self.aborting.ended_by(tick) else { return };
        fleet.control().stop();
        // Another load may have ended it just before: then that is why.
        let _ = self.end_of_all.set(event.text.clone());
        self.event(event);
    }

    /// Ends this load where another has ended the run.
    pub(super) fn end_with_the_others(&mut self, fleet: &mut Fleet) {
        if fleet.control().is_stopped() {
            return;
        }
        let Some(why) = self.end_of_all.get().cloned() else { return };
        fleet.control().stop();
        self.event(Event::new(fleet.now_ns(), model::event::ENDED_TOGETHER, why));
    }

    /// Ends a run whose target was never there. Once something has connected, what comes later may heal.
    pub(super) fn give_up_if_hopeless(&mut self, now_ns: u64, fleet: &Fleet) {
        let Some(give_up_ns) = self.recording.plan.give_up_ns else { return };
        if now_ns < give_up_ns || self.recording.has_connected() || fleet.control().is_stopped() {
            return;
        }
        fleet.control().stop();
        let after = show_duration_ns(give_up_ns as f64);
        let text = format!("nothing had connected within {after}, so the run was given up (--give-up)");
        self.event(Event::new(i64::try_from(now_ns).unwrap_or(i64::MAX), model::event::GAVE_UP, text));
    }

    /// Says of a target that is gone for long that the run goes on, where nothing but a count ends it, and when it is back.
    pub(super) fn say_if_away(&mut self, row: &Row) {
        let at_ns = i64::try_from(row.end_ns).unwrap_or(i64::MAX);
        if !row.is_nobody_there() {
            if let Some(Away { since_ns, is_said: true, .. }) = self.away.take() {
                let after = show_duration_ns(row.start_ns.saturating_sub(since_ns) as f64);
                let text = format!("connections are taken again, after {after} without any");
                self.event(Event::new(at_ns, model::event::TARGET_BACK, text));
            }
            return;
        }
        let away = self.away.get_or_insert(Away { since_ns: row.start_ns, ..Away::default() });
        away.asked = away.asked.saturating_add(row.counts.connect_failed);
        let Away { since_ns, asked, is_said } = *away;
        let Some(requests) =
            self.recording.plan.stop.requests.filter(|_| self.recording.plan.stop.duration_ns.is_none())
        else {
            return;
        };
        let is_long = asked > 0 && row.end_ns.saturating_sub(since_ns) >= GONE_NS;
        if is_said || !is_long || !self.recording.has_connected() {
            return;
        }
        self.away = Some(Away { since_ns, asked, is_said: true });
        let text = format!(
            "nobody has taken a connection for {}: the run goes on until its {} {}s are done, for the target may come back; \
             Ctrl-C ends it with its report, and -d bounds it",
            show_duration_ns(GONE_NS as f64),
            show_grouped(requests),
            self.recording.plan.unit()
        );
        self.event(Event::new(at_ns, model::event::TARGET_AWAY, text));
    }
}
