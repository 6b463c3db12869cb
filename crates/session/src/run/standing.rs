//! How a run stands while it goes on: as if it had ended with the tick that is over, for whoever wants to see that.
//!
//! A session tells it of its own recording. Of a run whose ticks come from elsewhere, as from agents, a [`Standing`] has what its ticks tell:
//! counts, histograms and errors, without readings of any machine, single requests and what the generator used.

use super::Watch;
use crate::ticks::add_to_totals;
use diagnose::history::History;
use model::plan::Plan;
use model::recording::{Capsule, End, Recording, Row, Tick};
use model::snapshot::{SamplerState, SamplerStatus};
use observe::own::Usage;

/// A run's ticks so far.
#[derive(Debug)]
pub struct Standing {
    recording: Recording,
    history: History,
}

impl Standing {
    /// Of a run that begins.
    pub fn new(capsule: Capsule, plan: Plan) -> Self {
        Standing { recording: Recording::new(capsule, plan), history: History::default() }
    }

    /// Takes a tick in, and says how the run stands where that is wanted.
    pub fn push(&mut self, tick: &Tick, watch: &mut dyn Watch) {
        add(&mut self.recording, tick);
        let known = || {
            let reason = "agents read their own machines, and hand that over at the end".to_owned();
            let status = SamplerStatus { name: "observe/all".to_owned(), status: SamplerState::Disabled, reason };
            Known { samplers: vec![status], used: Usage::default() }
        };
        tell(&mut self.recording, &self.history, &tick.row, known, watch);
    }
}

/// Adds a tick to a recording's totals and timeline.
pub(super) fn add(recording: &mut Recording, tick: &Tick) {
    let (warmup_ns, is_ramp_warmup) = (recording.plan.warmup_ns, recording.plan.is_ramp_warmup());
    add_to_totals(&mut recording.totals, tick, warmup_ns, is_ramp_warmup);
    let Recording { totals, plan, .. } = &mut *recording;
    if let Some(part) = totals.add_to_phase(&plan.phases, &tick.row) {
        part.sum.latency.add(&tick.sum.latency);
    }
    recording.timeline.push(tick.row);
    recording.requests.push(tick.sum.sequence, tick.row.counts.requests(), &tick.sum.requests);
}

/// What the generator's own process knows of itself, asked only where somebody wants to know how the run stands.
pub(super) struct Known {
    /// How its samplers fare.
    pub(super) samplers: Vec<SamplerStatus>,
    /// What it used.
    pub(super) used: Usage,
}

/// Says how the run stands, where somebody wants to know: as if it had ended with this tick.
pub(super) fn tell(
    recording: &mut Recording,
    history: &History,
    row: &Row,
    known: impl FnOnce() -> Known,
    watch: &mut dyn Watch,
) {
    if row.is_drain || !watch.wants_standing() {
        return;
    }
    let Known { samplers, used } = known();
    let (totals, end) = (&mut recording.totals, recording.end);
    let before = (
        totals.measured_from_ns,
        totals.measured_ns,
        totals.in_flight_at_end,
        totals.cpu_user_ns,
        totals.cpu_system_ns,
    );
    let from_ns = totals.measured_from_ns.max(recording.plan.warmup_ns).min(row.end_ns);
    (totals.measured_from_ns, totals.measured_ns) = (from_ns, row.end_ns - from_ns);
    totals.in_flight_at_end = row.gauges.in_flight;
    (totals.cpu_user_ns, totals.cpu_system_ns) = (used.user_ns, used.system_ns);
    recording.end = End::Complete;
    // Without them a reading would be taken for one that nobody made.
    recording.samplers = samplers;
    let diagnosis = diagnose::diagnose_with(recording, history);
    watch.on_standing(recording, &diagnosis);
    recording.samplers.clear();
    recording.end = end;
    let totals = &mut recording.totals;
    (totals.measured_from_ns, totals.measured_ns, totals.in_flight_at_end, totals.cpu_user_ns, totals.cpu_system_ns) =
        before;
}
