//! What a canary came to: one request now and then beside a load, which asks only whether the target still answers.
//!
//! Read from the counters and the timeline of its recording. When an answer was last there is known to a tick; of a run so long
//! that its timeline was merged, to a row of that. A request that was due and had not ended counts as not answered.

use crate::figures::s;
use crate::words::{counted, duration, grouped, of_kind};
use model::LatencyKind;
use model::plan::Pace;
use model::recording::{Recording, Row};
use schemars::JsonSchema;
use serde::Serialize;

/// A stretch without an answer is told from so many times the wait between two requests on.
const SILENT_TIMES: u64 = 2;

/// What a canary came to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Canary {
    /// From one request to the next, seconds.
    pub every_s: f64,
    /// Requests that were sent, or waited for their connection.
    pub asked: u64,
    /// Those with a good reply.
    pub answered: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those without an end when the run ended.
    pub unanswered_at_end: u64,
    /// The longest time from when a request was due to its reply, milliseconds; of one without an end, what it had waited. Null
    /// where none ended well or was under way.
    pub slowest_ms: Option<f64>,
    /// The longest stretch in which no reply came, where that is more than the wait between requests explains.
    pub longest_silence: Option<Silence>,
    /// Since when nothing was answered, seconds after the start; null where the last request was.
    pub unanswered_since_s: Option<f64>,
}

/// A stretch without a good reply.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Silence {
    /// Its beginning, seconds after the run's start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
}

impl Canary {
    /// Of a canary's recording.
    pub fn of(recording: &Recording) -> Self {
        let totals = &recording.totals;
        let counts = &totals.sum.counts;
        let every_ns = every_ns(recording);
        let rows = recording.timeline.rows();
        let (longest, since_ns) = silences(rows);
        let is_long = |(from, to): &(u64, u64)| to - from > SILENT_TIMES * every_ns;
        let is_open = counts.failed > 0 || totals.in_flight_at_end > 0;
        let slowest = totals.sum.latency.max(LatencyKind::Response);
        Canary {
            every_s: s(every_ns),
            asked: counts.started,
            answered: counts.ok,
            failed: counts.failed,
            unanswered_at_end: totals.in_flight_at_end,
            slowest_ms: slowest.map(|slowest| slowest.ns as f64 / 1e6),
            longest_silence: longest.filter(is_long).map(|(from, to)| Silence { from_s: s(from), to_s: s(to) }),
            unanswered_since_s: since_ns.filter(|_| is_open).map(s),
        }
    }

    /// In a sentence or two.
    pub fn words(&self, recording: &Recording) -> String {
        let every = duration((self.every_s * 1e9) as u64);
        let mut text =
            format!("{} of {} answered, one every {every}", grouped(self.answered), counted(self.asked, "request"));
        if let Some(ms) = self.slowest_ms.filter(|_| self.answered > 0 || self.unanswered_at_end > 0) {
            text += &format!(", the slowest after {}", duration((ms * 1e6) as u64));
        }
        if self.failed > 0 {
            let kinds = recording.totals.sum.errors.seen();
            let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{} × {n}", of_kind(kind))).collect();
            text += &format!("; {} failed ({})", self.failed, kinds.join(", "));
        }
        match (self.unanswered_since_s, self.longest_silence) {
            (Some(since_s), _) => text += &format!("; no answer since second {since_s:.1}"),
            (None, Some(Silence { from_s, to_s })) => {
                text += &format!("; no answer from second {from_s:.1} to second {to_s:.1}");
            }
            (None, None) => {}
        }
        text
    }

    /// Whether every request was answered.
    pub fn is_well(&self) -> bool {
        self.failed == 0 && self.unanswered_at_end == 0 && self.answered > 0
    }
}

fn every_ns(recording: &Recording) -> u64 {
    match &recording.plan.pace {
        Pace::Open { profile, .. } => {
            let rate = profile.first().map_or(1.0, |segment| segment.from_per_s);
            (1e9 / rate.max(1e-9)) as u64
        }
        Pace::Closed { .. } | Pace::Burst { .. } | Pace::Held { .. } => 1_000_000_000,
    }
}

/// The longest stretch without a good reply, and since when there has been none if the run ended so; nanoseconds.
fn silences(rows: &[Row]) -> (Option<(u64, u64)>, Option<u64>) {
    let mut longest: Option<(u64, u64)> = None;
    let mut from = rows.first().map_or(0, |row| row.start_ns);
    let is_longer = |longest: Option<(u64, u64)>, to: u64, from: u64| longest.is_none_or(|(a, b)| to - from > b - a);
    for row in rows.iter().filter(|row| row.counts.ok + row.counts.carried_ok > 0) {
        if row.start_ns > from && is_longer(longest, row.start_ns, from) {
            longest = Some((from, row.start_ns));
        }
        from = row.end_ns;
    }
    let end = rows.last().map_or(0, |row| row.end_ns);
    if end <= from {
        return (longest, None);
    }
    if is_longer(longest, end, from) {
        longest = Some((from, end));
    }
    (longest, Some(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::recording::Capsule;

    const S: u64 = 1_000_000_000;

    /// A canary that asks once a second, with so many good replies in each second.
    fn recording(ok: &[u64], failed: u64, in_flight: u64) -> Recording {
        let pace = Pace::Open {
            profile: vec![model::plan::Segment { from_per_s: 1.0, to_per_s: 1.0, for_ns: S }],
            arrivals: model::plan::Arrivals::Constant,
        };
        let plan = testkit::recordings::plan(testkit::recordings::echo(1), Vec::new());
        let mut recording = Recording::new(Capsule::default(), model::Plan { pace, ..plan });
        for (at, ok) in ok.iter().enumerate() {
            let mut row = Row { start_ns: at as u64 * S, end_ns: (at as u64 + 1) * S, ..Row::default() };
            row.counts.ok = *ok;
            recording.timeline.push(row);
        }
        let totals = &mut recording.totals;
        totals.sum.counts.ok = ok.iter().sum();
        totals.sum.counts.failed = failed;
        totals.in_flight_at_end = in_flight;
        totals.sum.counts.started = totals.sum.counts.ok + failed + in_flight;
        recording
    }

    #[test]
    fn a_silence_is_told_with_its_ends() {
        let of = |ok: &[u64], failed, open| Canary::of(&recording(ok, failed, open));
        let well = of(&[1, 1, 0, 1, 1], 0, 0);
        assert!(well.is_well() && well.longest_silence.is_none() && well.unanswered_since_s.is_none());
        let back = of(&[1, 0, 0, 0, 4, 1], 0, 0);
        assert_eq!(back.longest_silence, Some(Silence { from_s: 1.0, to_s: 4.0 }));
        assert_eq!(back.unanswered_since_s, None);
        let hung = of(&[1, 1, 0, 0, 0, 0], 1, 3);
        assert_eq!((hung.unanswered_since_s, hung.asked), (Some(2.0), 6));
        assert!(hung.words(&recording(&[1, 1], 0, 0)).ends_with("; no answer since second 2.0"));
        assert_eq!(of(&[0, 0, 0], 0, 3).unanswered_since_s, Some(0.0), "never answered");
    }
}
