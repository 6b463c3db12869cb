//! A run as the session has it: in memory, and in its recording.

use super::*;
use diagnose::history::History;
use model::recording::Recording;

/// See the module's head.
pub struct Run {
    pub writer: Writer,
    pub recording: Recording,
    pub history: History,
    pub merges: u64,
}

impl Run {
    /// One that has just begun.
    pub fn new(path: &Path) -> Self {
        let writer = Writer::create(path, &capsule(), &plan()).unwrap();
        let recording = Recording::new(capsule(), plan());
        Run { writer, recording, history: History::default(), merges: 0 }
    }

    /// A tick, its snapshot and now and then an event.
    pub fn tick(&mut self, sequence: u64) {
        self.put(sequence);
        if self.writer.is_merge_due() {
            self.writer.merge(&self.recording, &self.history).unwrap();
            self.merges += 1;
        }
    }

    /// The same without a merge.
    pub fn put(&mut self, sequence: u64) {
        let mut tick = Tick::of(&[interval(0, sequence)]);
        tick.row.disturbance.late = sequence % 11 == 3;
        tick.row.in_window = sequence % 10 == 4;
        let totals = &mut self.recording.totals;
        totals.sum.add(&tick.sum);
        totals.in_time.add(&tick.sum.counts);
        for (part, kinds) in totals.add_to_parts(&tick.row, 0, false).into_iter().flatten() {
            part.sum.latency.add_kinds(&tick.sum.latency, kinds);
        }
        totals.connections_max = totals.connections_max.max(tick.row.gauges.connections);
        self.recording.timeline.push(tick.row);
        tick.sum.requests.thin(sequence);
        self.recording.requests.push(sequence, tick.row.counts.requests(), &tick.sum.requests);
        let mut snapshot = snapshot(sequence);
        // More processes than one, which come and go.
        snapshot.processes[0].pid = 1 + (sequence / 500) as u32;
        snapshot.host.set("forks", sequence * 3);
        let events: Vec<Event> = (sequence % 700 == 5).then(|| event(sequence as i64)).into_iter().collect();
        self.writer.append(Some(&tick), Some(&snapshot), &events).unwrap();
        events.into_iter().for_each(|event| self.recording.push_event(event));
        self.history.push(&snapshot);
        self.recording.push_snapshot(sequence, snapshot);
    }

    /// Ends it, as the session does.
    pub fn finish(mut self, ticks: u64) -> (Recording, History) {
        let totals = &mut self.recording.totals;
        totals.measured_ns = ticks * SECOND_NS;
        totals.in_flight_at_end = totals.sum.counts.started - totals.sum.counts.requests();
        self.recording.end = End::Complete;
        self.recording.samplers = samplers();
        self.writer.finish(&self.recording.totals, &samplers(), End::Complete, None).unwrap();
        (self.recording, self.history)
    }
}
