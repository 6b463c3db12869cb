//! Recordings of several generators, written as one: their ticks are laid on one clock and added up.
//!
//! A tick of the result takes in each tick of the others whose middle lies in it, so that no histogram is ever split and every
//! count is in exactly one tick. Which recording's ticks give the boundaries: of those that overlap the longest (old ticks of a
//! long run are merged, [`crate::merging`]), and of equal ones the first. So a tick of another generator may stand for a moment
//! up to half a tick away from its own; of the sums nothing changes. Counters of a generator's own warm-up that fall into a tick
//! of the measured time are left out there, as they are of every run's totals.
//!
//! Not here: whether the recordings belong together, by how much their clocks differ, and the verdict (`session`). Cost: a pass over
//! each file, a tick of each in memory.

pub mod carried;
mod ticks;

use crate::error::StoreError;
use crate::reader::Reader;
use crate::writer::Writer;
use model::interval::{Gauges, Interval};
use model::recording::{Recording, Row, WorkerShares};
use model::request::{IntervalRequests, Kept, Set};
use ticks::{StoredTick, StoredTicks};

/// Ticks whose lengths differ by no more than this factor count as equally long: the last one before a drain is cut short.
const EQUAL_LENGTHS: u64 = 2;

/// A recording that is to be joined with others.
#[derive(Debug)]
pub struct Joined<'r> {
    /// Its file.
    pub reader: &'r Reader,
    /// What was read of it.
    pub recording: &'r Recording,
    /// How long after the result's start it began, nanoseconds.
    pub offset_ns: u64,
    /// Added to its workers' numbers.
    pub workers_before: u16,
}

/// Writes the ticks of several recordings as those of one, whose own warm-up is so long (nanoseconds), with their single requests
/// and what the target's machine saw of these.
///
/// # Errors
/// Those of reading one or of writing the other.
pub fn join(joined: &[Joined<'_>], warmup_ns: u64, writer: &mut Writer) -> Result<(), StoreError> {
    let mut sources = joined.iter().map(Source::new).collect::<Result<Vec<_>, _>>()?;
    let mut cells = Cells::default();
    while let Some(end_ns) = cells.next_end(&sources) {
        let (sum, row) = cells.take(&mut sources, end_ns, warmup_ns)?;
        writer.append_sum(&sum, &row)?;
    }
    for Joined { reader, offset_ns, workers_before, .. } in joined {
        reader.each_split(|mut split| {
            split.shift(*offset_ns);
            let all = split.sampled.iter_mut().chain(&mut split.slowest);
            all.for_each(|one| one.request.worker = one.request.worker.saturating_add(*workers_before));
            writer.append_split(&split)
        })?;
    }
    Ok(())
}

/// A recording's ticks, and the next of them.
struct Source<'r> {
    joined: &'r Joined<'r>,
    ticks: StoredTicks<'r>,
    next: Option<StoredTick>,
    /// Its readings at the end of the last tick that was taken.
    gauges: Gauges,
    /// Its single requests and gaps, latest first, on the result's clock.
    requests: IntervalRequestsOf,
}

impl<'r> Source<'r> {
    fn new(joined: &'r Joined<'r>) -> Result<Self, StoreError> {
        let mut ticks = StoredTicks::of(joined.reader);
        let next = ticks.next()?;
        let requests = IntervalRequestsOf::new(joined);
        Ok(Source { joined, ticks, next, gauges: Gauges::default(), requests })
    }

    /// Begin and end of the next tick, on the result's clock.
    fn span(&self) -> Option<(u64, u64)> {
        let row = &self.next.as_ref()?.row;
        let later = |ns: u64| ns.saturating_add(self.joined.offset_ns);
        Some((later(row.start_ns), later(row.end_ns)))
    }

    /// Whether the next tick belongs into a tick that ends so.
    fn is_due(&self, end_ns: u64) -> bool {
        self.span().is_some_and(|(start_ns, own_end_ns)| start_ns + (own_end_ns.saturating_sub(start_ns)) / 2 < end_ns)
    }
}

/// The single requests of a recording that are not written yet.
struct IntervalRequestsOf {
    kept: Vec<(Set, Kept)>,
    gaps: Vec<model::Gap>,
}

impl IntervalRequestsOf {
    fn new(joined: &Joined<'_>) -> Self {
        let Joined { recording, offset_ns, workers_before, .. } = joined;
        let mut kept: Vec<_> = recording.requests.kept().collect();
        for (_, one) in &mut kept {
            one.request.shift(*offset_ns);
            one.request.worker = one.request.worker.saturating_add(*workers_before);
        }
        let mut gaps: Vec<_> = recording.requests.gaps().copied().collect();
        for gap in &mut gaps {
            gap.shift(*offset_ns);
            gap.worker = gap.worker.saturating_add(*workers_before);
        }
        kept.sort_by_key(|(_, one)| std::cmp::Reverse(one.request.ended_ns));
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.to_ns));
        IntervalRequestsOf { kept, gaps }
    }

    /// Those that ended until then, or all. Of each of the uniform sample it is said from which key on some may lack: how many the result's
    /// tick has of them says nothing of it. (What a whole recording lacks, as it keeps but so many, the result lacks too: it keeps no more.)
    fn take(&mut self, until_ns: Option<u64>, into: &mut IntervalRequests) {
        let is_due = |ns: u64| until_ns.is_none_or(|until_ns| ns <= until_ns);
        while let Some((set, mut kept)) = self.kept.pop_if(|(_, kept)| is_due(kept.request.ended_ns)) {
            if set == Set::Sampled {
                kept.below = Some(kept.below.unwrap_or(u64::MAX));
            }
            into.offer(set, kept);
        }
        while let Some(gap) = self.gaps.pop_if(|gap| is_due(gap.to_ns)) {
            into.offer_any_gap(gap);
        }
    }
}

/// Where the ticks of the result lie.
#[derive(Default)]
struct Cells {
    /// The end of the last one.
    done_ns: u64,
    /// How many there are.
    count: u64,
}

impl Cells {
    /// The end of the next one; `None`: every tick has been taken.
    fn next_end(&self, sources: &[Source<'_>]) -> Option<u64> {
        let spans = || sources.iter().filter_map(Source::span);
        let (_, first_end_ns) = spans().min()?;
        let length = |(start_ns, end_ns): (u64, u64)| end_ns.saturating_sub(start_ns);
        let overlapping = || spans().filter(move |(start_ns, _)| *start_ns < first_end_ns);
        let longest = overlapping().map(length).max()?;
        // The first of those that are as long as any.
        let (_, end_ns) = overlapping().find(|span| length(*span).saturating_mul(EQUAL_LENGTHS) >= longest)?;
        Some(end_ns.max(self.done_ns.saturating_add(1)))
    }

    /// Adds up what belongs into the next one.
    fn take(
        &mut self,
        sources: &mut [Source<'_>],
        end_ns: u64,
        warmup_ns: u64,
    ) -> Result<(Box<Interval<u64>>, Row), StoreError> {
        let mut sum = Box::new(Interval::<u64>::new(0));
        let mut marks = Row { is_drain: true, ..Row::default() };
        let mut shares = WorkerShares::default();
        let mut start_ns = u64::MAX;
        let mut is_measured = false;
        let earliest = sources.iter().filter_map(Source::span).map(|(start_ns, _)| start_ns).min();
        let mut taken: Vec<(StoredTick, bool)> = Vec::new();
        for source in &mut *sources {
            let own_warmup_ns = source.joined.recording.plan.warmup_ns;
            while source.is_due(end_ns) || source.span().is_some_and(|(start_ns, _)| Some(start_ns) == earliest) {
                let own_start_ns = source.span().map_or(0, |(start_ns, _)| start_ns);
                let Some(tick) = std::mem::replace(&mut source.next, source.ticks.next()?) else { break };
                start_ns = start_ns.min(own_start_ns);
                source.gauges = tick.row.gauges;
                marks.is_drain &= tick.row.is_drain;
                marks.disturbance.merge(&tick.row.disturbance);
                marks.in_window |= tick.row.in_window;
                let Row { worker_busy_max, worker_wait_max, worker_late_max, .. } = tick.row;
                shares =
                    shares.max(WorkerShares { busy: worker_busy_max, wait: worker_wait_max, late: worker_late_max });
                let is_warmup = tick.row.end_ns <= own_warmup_ns;
                is_measured |= !is_warmup;
                taken.push((tick, is_warmup));
            }
        }
        // Of the measured time, by the result's clock or by somebody's.
        let is_counted = is_measured || end_ns > warmup_ns;
        for (tick, is_warmup) in &taken {
            tick.add_to(&mut sum, is_counted && *is_warmup);
        }
        let is_last = sources.iter().all(|source| source.next.is_none());
        for source in &mut *sources {
            let until_ns = (!is_last).then_some(end_ns);
            source.requests.take(until_ns, &mut sum.requests);
            sum.gauges.add_worker(&source.gauges);
            if source.next.is_none() {
                // It has ended: nothing of it is open or under way.
                source.gauges = Gauges::default();
            }
        }
        sum.requests.close();
        sum.sequence = self.count;
        sum.is_drain = marks.is_drain;
        sum.start_ns = start_ns.max(self.done_ns).min(end_ns);
        // What is measured must not pass for warm-up, to whose end its tick may have been drawn.
        sum.end_ns = if is_measured { end_ns.max(warmup_ns.saturating_add(1)) } else { end_ns };
        (self.count, self.done_ns) = (self.count + 1, sum.end_ns);
        let row = Row { disturbance: marks.disturbance, in_window: marks.in_window, ..Row::of(&sum, shares) };
        Ok((sum, row))
    }
}
