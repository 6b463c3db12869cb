//! The stretch of a run in which it was markedly worse than before, where there is one: what it lost then is looked for there.
//!
//! Worse than the best segment before it, at no higher rate: half of the requests took five times as long and 0.4 ms more, or one in
//! a hundred five times as long and a millisecond more, or one in a hundred more failed, or a closed loop was served a third as fast.
//! A slow start is none, as nothing went before it. Segments that follow each other and are all worse are one stretch. Of one of few readings or requests rules could say nothing ([`Worse::is_seen`]): it has
//! its times, and the run's own faults that acted then.

use crate::facts::{Facts, seconds};
use model::Event;
use model::event::{FAULT_BEGAN, FAULT_UNDONE};
use model::finding::Segment;
use model::recording::Row;

/// So many times as long, and so much longer (microseconds), is worse; and the rate was higher by no more than this.
const TIMES: f64 = 5.0;
/// Half of the requests: what a crowded machine does to them all is less (measured: an fsync for each takes 0.5 ms).
const P50_BY_US: f64 = 400.0;
/// One in a hundred: a scheduler's doing is up to that.
const P99_BY_US: f64 = 1000.0;
const RATE: f64 = 1.1;
/// A closed loop asks as fast as it is answered: of its rate no more than this is left. Who shares a crowded machine's CPUs keeps more.
const RATE_LEFT: f64 = 1.0 / 3.0;
/// A piece of one row in which something began is told from what follows by so much; and a row is no longer than this many.
const BEYOND: f64 = 1.5;
const ROW_MOST: f64 = 1.5;
/// So much more of the requests failed.
const FAILED: f64 = 0.01;
/// Fewer requests of a stretch in the uniform sample, or fewer snapshots, say too little.
const SAMPLED_MIN: usize = 10;
const SNAPSHOTS_MIN: usize = 3;
/// What a fault of the run is called in sentences.
const OWN: &str = "this run's own fault";

/// A stretch of the run, seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worse {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Whether it lasts up to the end of the load.
    pub(crate) is_to_end: bool,
    /// How long half of the requests took before it and in it, microseconds, where that was far longer.
    pub(crate) half_us: Option<(f64, f64)>,
    /// Requests a second of a closed loop before it and in it, where that was far less.
    pub(crate) rate_per_s: Option<(f64, f64)>,
    /// The run's own faults that acted for half of it and more: what is found then may be their doing.
    pub(crate) faults: Vec<Acting>,
}

/// One of the run's own faults that was undone: its name, and from when to when it acted, seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Acting {
    pub(crate) name: String,
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
}

impl Worse {
    /// Its window, nanoseconds since the run's start.
    pub(crate) fn window_ns(&self) -> (u64, u64) {
        let ns = |s: f64| (s * 1e9).round() as u64;
        // Seconds of a segment are those of its rows: half a microsecond is what a float may be off.
        (ns(self.from_s).saturating_sub(500), ns(self.to_s).saturating_add(500))
    }

    /// What of the run's own may be why, behind a sentence of the whole run; nothing where that names a fault already.
    pub(crate) fn may_be_why(&self, sentence: &str) -> Option<String> {
        let acted = |fault: &Acting| format!("{} from second {:.1} to {:.1}", fault.name, fault.from_s, fault.to_s);
        let all: Vec<String> = self.faults.iter().map(acted).collect();
        let faults = if all.len() == 1 { "" } else { "s" };
        let is_named = all.is_empty() || sentence.contains(OWN);
        (!is_named).then(|| format!("{OWN}{faults} acted meanwhile ({}), which may be why", all.join(", ")))
    }

    /// Whether there are readings and requests enough of it to ask rules about it alone.
    pub(crate) fn is_seen(&self, facts: &Facts<'_>) -> bool {
        let (from_ns, to_ns) = self.window_ns();
        let sampled = facts.recording.requests.within(from_ns, to_ns, 0).sampled().count();
        let is_in = |at_ns: i64| u64::try_from(at_ns).is_ok_and(|at_ns| at_ns > from_ns && at_ns <= to_ns);
        let snapshots = facts.snapshots().filter(|snapshot| is_in(snapshot.at_ns)).count();
        sampled >= SAMPLED_MIN && snapshots >= SNAPSHOTS_MIN
    }

    /// A sentence of it: what it says is so in this stretch.
    pub(crate) fn said(&self, text: &str) -> String {
        let names: Vec<&str> = self.faults.iter().map(|fault| &*fault.name).collect();
        let of_run = match names.as_slice() {
            [] => String::new(),
            [one] => format!("while {OWN} {one} acted, "),
            all => format!("while {OWN}s {} acted, ", all.join(", ")),
        };
        match self.is_to_end {
            true => format!("from second {:.1} on, {of_run}{text}", self.from_s),
            false => format!("from second {:.1} to {:.1}, {of_run}{text}", self.from_s, self.to_s),
        }
    }
}

/// Levels of a stretch.
#[derive(Debug, Clone, Copy)]
struct Levels {
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    failed: f64,
    rate: f64,
    /// Whether it is a closed loop's, whose rate is the target's.
    is_saturating: bool,
}

impl Levels {
    fn of(segment: &Segment, is_saturating: bool) -> Self {
        let share = |part: f64| if segment.requests_per_s > 0.0 { part / segment.requests_per_s } else { 0.0 };
        Levels {
            p50_us: segment.response_p50_us,
            p99_us: segment.response_p99_us,
            failed: share(segment.failed_per_s),
            rate: segment.requests_per_s,
            is_saturating,
        }
    }

    fn is_worse_than(&self, was: &Levels) -> bool {
        let is_any = self.half_slower(was).is_some()
            || is_slower(self.p99_us, was.p99_us, P99_BY_US)
            || self.failed >= was.failed + FAILED
            || self.fallen_from(was).is_some();
        is_any && self.rate <= RATE * was.rate
    }

    /// How long half of the requests took before and now, where that is far longer.
    fn half_slower(&self, was: &Levels) -> Option<(f64, f64)> {
        was.p50_us.zip(self.p50_us).filter(|_| is_slower(self.p50_us, was.p50_us, P50_BY_US))
    }

    /// Whether half of the requests take longer still, or a closed loop has fewer still, than where something began.
    fn is_beyond(&self, begun: &Levels) -> bool {
        let is_slower = begun.p50_us.zip(self.p50_us).is_some_and(|(was, now)| now >= BEYOND * was);
        is_slower || (self.is_saturating && self.rate * BEYOND <= begun.rate)
    }

    /// Requests a second before and now, where a closed loop had far fewer.
    fn fallen_from(&self, was: &Levels) -> Option<(f64, f64)> {
        (self.is_saturating && has_fallen(was.rate, self.rate)).then_some((was.rate, self.rate))
    }

    /// How good: by the share that failed, then by half of the requests.
    fn is_better_than(&self, was: &Levels) -> bool {
        let us = |levels: &Levels| levels.p50_us.unwrap_or(f64::INFINITY);
        (self.failed, us(self)) < (was.failed, us(was))
    }
}

fn is_slower(now_us: Option<f64>, then_us: Option<f64>, by_us: f64) -> bool {
    now_us.zip(then_us).is_some_and(|(now, then)| now >= TIMES * then && now - then >= by_us)
}

fn has_fallen(was_per_s: f64, now_per_s: f64) -> bool {
    was_per_s > 0.0 && now_per_s <= RATE_LEFT * was_per_s
}

/// The first such stretch of some segments.
pub(crate) fn worse(facts: &Facts<'_>, segments: &[Segment]) -> Option<Worse> {
    let (first, rest) = segments.split_first()?;
    let levels_of = |segment: &Segment| Levels::of(segment, facts.is_saturating());
    let mut best = levels_of(first);
    let mut found: Option<Worse> = None;
    let end_s = segments.last()?.to_s;
    let row_s = facts.rows.iter().map(|row| seconds(row.end_ns.saturating_sub(row.start_ns))).fold(0.0, f64::max);
    for (segment, next) in rest.iter().zip(rest.iter().skip(1).map(Some).chain([None])) {
        let levels = levels_of(segment);
        // The row in the midst of which it began is none of it.
        let is_row = segment.to_s - segment.from_s < ROW_MOST * row_s;
        if found.is_none() && is_row && next.is_some_and(|next| levels_of(next).is_beyond(&levels)) {
            continue;
        }
        match (levels.is_worse_than(&best), &mut found) {
            (true, None) => {
                found = Some(Worse {
                    from_s: segment.from_s,
                    to_s: segment.to_s,
                    is_to_end: false,
                    half_us: levels.half_slower(&best),
                    rate_per_s: levels.fallen_from(&best),
                    faults: Vec::new(),
                });
            }
            (true, Some(stretch)) => stretch.to_s = segment.to_s,
            (false, Some(_)) => break,
            (false, None) if levels.is_better_than(&best) => best = levels,
            (false, None) => {}
        }
    }
    let mut stretch = found?;
    stretch.is_to_end = stretch.to_s >= end_s;
    if stretch.is_to_end {
        // The last row, too, which may be a rest that is in no segment.
        stretch.to_s = facts.rows.last().map_or(stretch.to_s, |row| seconds(row.end_ns)).max(stretch.to_s);
    }
    stretch.faults = acting(facts, &stretch);
    Some(stretch)
}

/// Faults that acted for half of a stretch and more, in the order in which they began. What cannot be undone acts at a moment.
fn acting(facts: &Facts<'_>, stretch: &Worse) -> Vec<Acting> {
    let events = &facts.recording.events;
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event.kind == kind);
    let ends = |began: &Event| of_kind(FAULT_UNDONE).find(|undone| undone.details.fault == began.details.fault);
    let s = |event: &Event| event.at_ns as f64 / 1e9;
    let acted = of_kind(FAULT_BEGAN).filter_map(|began| {
        let (from_s, to_s) = (s(began), s(ends(began)?));
        let both_s = to_s.min(stretch.to_s) - from_s.max(stretch.from_s);
        let name = began.details.of_kind.clone()?;
        (both_s * 2.0 >= stretch.to_s - stretch.from_s).then_some(Acting { name, from_s, to_s })
    });
    acted.collect()
}

/// Where a run stepped to something far worse, of rows too few for changes of level to be told from noise: where all that follow
/// are worse than all before, by as much; the place that parts them most. A change falls into the midst of a row, which is
/// then neither the one nor the other: it may be left out, and is a piece of its own.
///
/// Before it, two rows, or a single one of many requests in a closed loop, where the rate fell, too: more clients
/// would have made requests slower at no lower rate. Looked for are those with fewer rows than `most` before them.
pub(crate) fn step(rows: &[&Row], most: usize, is_saturating: bool) -> Vec<usize> {
    const AFTER_MIN: usize = 3;
    let apart = |(before, after): (usize, usize)| {
        let (was, is) = (rows.get(..before)?, rows.get(after..)?);
        let is_told = before > 1 || (is_saturating && is_alone_enough(was, is));
        (is_told && is.len() >= AFTER_MIN)
            .then(|| times_worse(was, is, is_saturating))
            .flatten()
            .map(|times| (before, after, times))
    };
    let places = 1..most.min(rows.len());
    let clean = places.clone().map(|at| (at, at));
    let mixed = places.map(|at| (at, at + 1));
    // A clean cut before one that leaves a row out, where both part as much: not where the row behind it is told from all that follow.
    let best = |found: Vec<(usize, usize, f64)>| found.into_iter().reduce(|a, b| if b.2 > a.2 { b } else { a });
    let clean = best(clean.filter_map(apart).collect()).map(|(at, _, times)| {
        let rest = (rows.get(at..at + 1), rows.get(at + 1..));
        let is_begun = rest.0.zip(rest.1).is_some_and(|(begun, rest)| {
            let (was_per_s, now_per_s) = rates(begun, rest);
            rest.len() >= AFTER_MIN && is_saturating && now_per_s * BEYOND <= was_per_s
        });
        (at, at + usize::from(is_begun), times)
    });
    let found = clean.or_else(|| best(mixed.filter_map(apart).collect()));
    found.map_or_else(Vec::new, |(before, after, _)| if before == after { vec![before] } else { vec![before, after] })
}

/// Whether a single row says enough of what was before: by its requests, and by a rate that fell to half of it and less.
fn is_alone_enough(before: &[&Row], after: &[&Row]) -> bool {
    const REQUESTS_MIN: u64 = 1000;
    const RATE_MOST: f64 = 0.5;
    let (least, most) = rates(before, after);
    before.iter().all(|row| row.counts.ok_arrived() >= REQUESTS_MIN) && most <= RATE_MOST * least
}

/// Requests a second that ended well: the least of the rows before, and the most of those after.
fn rates(before: &[&Row], after: &[&Row]) -> (f64, f64) {
    let rate = |row: &&Row| row.counts.ok_arrived() as f64 / seconds(row.end_ns.saturating_sub(row.start_ns));
    (before.iter().map(rate).fold(f64::INFINITY, f64::min), after.iter().map(rate).fold(0.0, f64::max))
}

/// How many times as long requests took after as before, or as many failed, or as many a closed loop had before, where that is far worse
/// for all rows.
fn times_worse(before: &[&Row], after: &[&Row], is_saturating: bool) -> Option<f64> {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let failed = |row: &Row| row.counts.failed as f64 / (row.counts.arrived() as f64).max(1.0);
    let ratio = |by_us: f64, of: &dyn Fn(&Row) -> Option<f64>| {
        let most = before.iter().map(|row| of(row)).try_fold(0.0, |most: f64, value| Some(most.max(value?)))?;
        // A row in which nothing ended well has no time, and is none that was quick.
        let least = after.iter().filter_map(|row| of(row)).reduce(f64::min)?;
        (least >= TIMES * most && least - most >= by_us).then(|| least / most.max(1.0))
    };
    let slower = [ratio(P50_BY_US, &|row| us(row.response_p50_ns)), ratio(P99_BY_US, &|row| us(row.response_p99_ns))];
    let most = before.iter().map(|row| failed(row)).fold(0.0, f64::max);
    let least = after.iter().map(|row| failed(row)).fold(f64::INFINITY, f64::min);
    let failing = (least >= most + FAILED).then(|| least / most.max(FAILED));
    let (was_per_s, now_per_s) = rates(before, after);
    // One that is not answered at all is told by its failures, and by what has no end.
    let is_fewer = is_saturating && now_per_s > 0.0 && has_fallen(was_per_s, now_per_s);
    let fewer = is_fewer.then(|| was_per_s / now_per_s);
    slower.into_iter().chain([failing, fewer]).flatten().reduce(f64::max)
}
