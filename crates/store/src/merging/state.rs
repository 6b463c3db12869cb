//! What was made of the older part of a run, kept in place of it: the parts of a recording that a run has in memory, its
//! totals so far, and its history.
//!
//! Parts that grow with the model are JSON, as everywhere in a recording; the history and the histograms have layouts of their
//! own. Each stands under its name, so that a part more is no new format. Nothing in it is trusted: what cannot have come of a
//! run is damage.

use crate::error::StoreError;
use crate::figures::{Figures, StoredTotals, histogram_name, is_absurd, is_plausible, latencies, latencies_mut};
use crate::histogram::{Encoder, decode_into};
use crate::integrity::seal::Books;
use crate::limits::STATE_BYTES_MAX;
use crate::merging::packed::{deflated, inflating};
use crate::reader::{Reader, fields};
use crate::rows::Value;
use crate::sums::Guard;
use diagnose::history::History;
use model::courses::RunCourses;
use model::profile::RunProfile;
use model::recording::{Recording, STRIDE_MAX, Timeline, Totals};
use model::run_requests::RunRequests;
use model::{LatencyKind, Snapshot};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::Read;

/// The names of the parts.
const RECORDING: &str = "recording";
const HISTORY: &str = "history";
const HISTOGRAMS: &str = "histograms";

/// The parts of a recording in memory, and how far in the run they reach.
#[derive(Serialize, Deserialize)]
struct Stored<'r> {
    /// The number of the last tick that is in it.
    ticks: u64,
    /// How many snapshots are in it.
    snapshots: u64,
    timeline: Cow<'r, Timeline>,
    requests: Cow<'r, RunRequests>,
    courses: Cow<'r, RunCourses>,
    kept: Cow<'r, [Snapshot]>,
    kept_stride: u64,
    after: Cow<'r, [Snapshot]>,
    after_stride: u64,
    after_count: u64,
    profile: Cow<'r, RunProfile>,
    totals: StoredTotals,
    first_started_ns: Option<u64>,
}

/// What was made of the older part of a run, as it is read.
#[derive(Debug)]
pub(crate) struct State {
    /// The number of the last tick that is in it.
    pub ticks: u64,
    /// How many snapshots are in it.
    pub snapshots: u64,
    /// Totals so far.
    pub totals: Totals,
    /// When the first tick began in which a request was started, nanoseconds since the run's start.
    pub first_started_ns: Option<u64>,
    /// The history's bytes.
    history: Vec<u8>,
}

/// All of it as bytes.
///
/// # Errors
/// In words; none that can come of a run.
pub(crate) fn pack(
    encoder: &mut Encoder,
    books: &Books,
    first_started_ns: Option<u64>,
    recording: &Recording,
    history: &History,
) -> Result<Vec<u8>, String> {
    let stored = Stored {
        ticks: books.last_id("tick").unsigned_abs(),
        snapshots: books.last_id("snapshot").unsigned_abs(),
        timeline: Cow::Borrowed(&recording.timeline),
        requests: Cow::Borrowed(&recording.requests),
        courses: Cow::Borrowed(&recording.courses),
        kept: Cow::Borrowed(&recording.snapshots),
        kept_stride: recording.snapshot_stride,
        after: Cow::Borrowed(&recording.after),
        after_stride: recording.after_stride,
        after_count: recording.after_count,
        profile: Cow::Borrowed(&recording.profile),
        totals: StoredTotals::of(&recording.totals),
        first_started_ns,
    };
    let mut histograms: Vec<(String, Vec<u8>)> = Vec::new();
    for (part, latency) in latencies(&recording.totals) {
        for kind in LatencyKind::ALL {
            let histogram = latency.of(kind);
            if !histogram.is_empty() {
                histograms.push((histogram_name(&part, kind), encoder.encode(histogram)?.to_vec()));
            }
        }
    }
    let parts: [(&str, Vec<u8>); 3] = [
        (RECORDING, serde_json::to_vec(&stored).map_err(|error| error.to_string())?),
        (HISTORY, history.save()?),
        (HISTOGRAMS, postcard::to_stdvec(&histograms).map_err(|error| error.to_string())?),
    ];
    // Names and lengths first, as they are few; then the parts as they are.
    let lengths = parts.each_ref().map(|(name, part)| (*name, part.len() as u64));
    let head = postcard::to_stdvec(&lengths[..]).map_err(|error| error.to_string())?;
    let [(_, a), (_, b), (_, c)] = &parts;
    deflated(&[&head, a, b, c])
}

impl State {
    /// Reads it, and lets its parts be those of a recording.
    fn unpack(body: &[u8], recording: &mut Recording) -> Result<Self, String> {
        let mut bytes = Vec::new();
        inflating(body, STATE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let (lengths, mut rest): (Vec<(&str, u64)>, &[u8]) =
            postcard::take_from_bytes(&bytes).map_err(|error| error.to_string())?;
        let (mut stored, mut history, mut histograms) = (&[][..], &[][..], &[][..]);
        for (name, length) in lengths {
            let part = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
            let Some((part, after)) = part else { return Err("it ends early".to_owned()) };
            rest = after;
            match name {
                RECORDING => stored = part,
                HISTORY => history = part,
                HISTOGRAMS => histograms = part,
                // Of a later version, which has something more.
                _ => {}
            }
        }
        let stored: Stored<'_> = serde_json::from_slice(stored).map_err(|error| error.to_string())?;
        stored.check()?;
        let mut guard = Guard::default();
        stored.timeline.rows().iter().try_for_each(|row| guard.admit(&mut row.clone(), &Figures::default()))?;
        let mut totals = stored.totals.into_totals()?;
        let histograms: Vec<(String, Vec<u8>)> = postcard::from_bytes(histograms).map_err(|error| error.to_string())?;
        for (part, latency) in latencies_mut(&mut totals) {
            for kind in LatencyKind::ALL {
                let name = histogram_name(&part, kind);
                if let Some((_, body)) = histograms.iter().find(|(known, _)| *known == name) {
                    decode_into(body, latency.of_mut(kind)).map_err(|what| format!("{name}: {what}"))?;
                }
            }
        }
        recording.timeline = stored.timeline.into_owned();
        recording.requests = stored.requests.into_owned();
        recording.courses = stored.courses.into_owned();
        recording.snapshots = stored.kept.into_owned();
        recording.snapshot_stride = stored.kept_stride;
        recording.after = stored.after.into_owned();
        recording.after_stride = stored.after_stride;
        recording.after_count = stored.after_count;
        recording.profile = stored.profile.into_owned();
        let (ticks, snapshots, first_started_ns) = (stored.ticks, stored.snapshots, stored.first_started_ns);
        Ok(State { ticks, snapshots, totals, first_started_ns, history: history.to_vec() })
    }

    /// The history of what is in it.
    ///
    /// # Errors
    /// In words, where it cannot be read.
    pub fn history(&self) -> Result<History, String> {
        History::restore(&self.history)
    }
}

impl Stored<'_> {
    /// Whether it can have come of a run.
    fn check(&self) -> Result<(), String> {
        let strides = [self.kept_stride, self.after_stride];
        let counts = [self.ticks, self.snapshots, self.after_count];
        let most = model::limits::SNAPSHOTS_MAX;
        let is_sound = strides.iter().all(|stride| (1..=STRIDE_MAX).contains(stride))
            && !counts.into_iter().any(is_absurd)
            && self.kept.len().max(self.after.len()) <= most
            && self.kept.iter().chain(&*self.after).all(is_plausible)
            && self.timeline.is_sound()
            && self.requests.is_sound()
            && self.courses.is_sound();
        if is_sound { Ok(()) } else { Err("it holds what no run can have left".to_owned()) }
    }
}

impl Reader {
    /// What was made of the older part of the run, whose parts become those of the recording; `None`: nothing was merged, or
    /// it is damaged.
    pub(crate) fn state(&self, recording: &mut Recording) -> Result<Option<State>, StoreError> {
        if !self.has_merged() {
            return Ok(None);
        }
        let mut rows = self.table("state", self.columns("state"));
        let mut last = None;
        while let Some(state) = rows.next(|_, values| {
            let [body] = fields(values)?;
            let Value::Blob(body) = body else { return Err("it is not what was made of a run".to_owned()) };
            State::unpack(&body, recording)
        })? {
            last = Some(state);
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::Plan;
    use model::recording::{Capsule, Tick};
    use model::{Interval, LatencyKind};

    fn run() -> (Recording, History) {
        let plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        let mut recording = Recording::new(Capsule::default(), plan);
        let mut history = History::default();
        for sequence in 0..9u64 {
            let mut interval = Interval::<u32>::new(0);
            (interval.start_ns, interval.end_ns) = (sequence * 100, sequence * 100 + 100);
            interval.counts.ok = 5;
            interval.latency.record(LatencyKind::Response, 1000 + sequence);
            let tick = Tick::of([&interval]);
            recording.totals.sum.add(&interval);
            recording.timeline.push(tick.row);
            let mut snapshot = Snapshot { at_ns: sequence as i64 * 100, ..Snapshot::default() };
            snapshot.host.set("forks", sequence);
            history.push(&snapshot);
            recording.push_snapshot(sequence, snapshot);
        }
        (recording, history)
    }

    #[test]
    fn what_was_kept_is_read_and_what_no_run_can_have_left_is_refused_or_does_no_harm() {
        let (recording, history) = run();
        let body = pack(&mut Encoder::new(), &Books::default(), Some(7), &recording, &history).unwrap();
        let mut read = Recording::new(recording.capsule.clone(), recording.plan.clone());
        let state = State::unpack(&body, &mut read).unwrap();
        assert!(state.history().unwrap() == history);
        read.totals = state.totals;
        assert_eq!((read, state.first_started_ns), (recording.clone(), Some(7)));
        let mut plain = Vec::new();
        inflating(&body, STATE_BYTES_MAX).read_to_end(&mut plain).unwrap();
        let (mut refused, mut taken) = (0, 0);
        for at in (0..plain.len()).step_by(5) {
            for change in [0x01, 0x08] {
                let mut other = plain.clone();
                other[at] ^= change;
                let mut read = Recording::new(recording.capsule.clone(), recording.plan.clone());
                let Ok(state) = State::unpack(&deflated(&[&other]).unwrap(), &mut read) else {
                    refused += 1;
                    continue;
                };
                taken += 1;
                // It is gone on with.
                let mut history = state.history().unwrap_or_default();
                for sequence in 9..12 {
                    let snapshot = Snapshot { at_ns: sequence as i64 * 100, ..Snapshot::default() };
                    history.push(&snapshot);
                    read.push_snapshot(sequence, snapshot);
                    read.timeline.push(Default::default());
                    read.requests.push(sequence, 3, &Default::default());
                }
                let _ = diagnose::diagnose_with(&read, &history);
            }
        }
        assert!(refused > plain.len() / 20 && taken > 10, "{refused} refused, {taken} taken");
        let mut read = recording.clone();
        let bomb = deflated(&[&vec![0; 1 << 24]]).unwrap();
        assert!(State::unpack(&bomb, &mut read).is_err() && read == recording, "nothing of it is half there");
    }

    #[test]
    fn a_stride_of_none_or_a_row_too_many_is_none_of_a_run() {
        let (recording, history) = run();
        for change in [
            |recording: &mut Recording| recording.snapshot_stride = 0,
            |recording: &mut Recording| recording.after_stride = u64::MAX,
            |recording: &mut Recording| recording.snapshots = vec![Snapshot::default(); 1000],
            |recording: &mut Recording| recording.totals.sum.counts.ok = u64::MAX,
        ] {
            let mut other = recording.clone();
            change(&mut other);
            let body = pack(&mut Encoder::new(), &Books::default(), None, &other, &history).unwrap();
            assert!(State::unpack(&body, &mut recording.clone()).is_err());
        }
    }
}
