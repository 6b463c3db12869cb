//! The ticks of a recording, and the totals that are kept or, where there are none or they are damaged, made by adding the
//! ticks up.
//!
//! Every sum of what is read is guarded: no figure of a file can make one overflow.

use crate::error::StoreError;
use crate::figures::{Figures, StoredTotals, histograms_mut, is_absurd, largest_count, largest_gauge};
use crate::histogram::{check, decode_into};
use crate::merging::packed::MergedTick;
use crate::merging::state::State;
use crate::reader::{Reader, fields, into_text, json};
use crate::rows::{Table, Value};
use model::phase::phase_of;
use model::recording::{Recording, Row, Totals};
use model::{Histogram, LatencyKind};
use std::collections::BTreeMap;

/// The numbers of ticks that belong to a part of the run.
type Rows = std::collections::BTreeSet<u64>;

impl Reader {
    /// The totals as they were kept; `None` where they, or a histogram of them, are damaged.
    pub(crate) fn totals(&self, stored: StoredTotals) -> Result<Option<Totals>, StoreError> {
        let mut totals = match stored.into_totals() {
            Ok(totals) => totals,
            Err(what) => {
                self.found().place("totals", &format!("{what}; they are left out"));
                return Ok(None);
            }
        };
        let mut rows = self.table("total_histogram", &["kind", "body"]);
        let mut histograms: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
        let of_row = |_, values| {
            let [kind, body] = fields(values)?;
            let kind = into_text(kind)?;
            let mut histogram = Histogram::default();
            decode_into(blob(&body)?, &mut histogram).map_err(|what| format!("{kind}: {what}"))?;
            Ok((kind, histogram))
        };
        let known: Vec<String> = histograms_mut(&mut totals).into_iter().map(|(name, _)| name).collect();
        while let Some((kind, histogram)) = rows.next(of_row)? {
            if known.contains(&kind) {
                histograms.insert(kind, histogram);
            }
        }
        for (name, into) in histograms_mut(&mut totals) {
            if let Some(histogram) = histograms.remove(&name) {
                *into = histogram;
            }
        }
        let found = self.found();
        let is_whole = !found.is_noted("total_histogram") && !found.is_noted("the totals' histograms");
        Ok(is_whole.then_some(totals))
    }

    /// The totals of a run that did not come to its end: those of its older part, where there is one, and from its ticks.
    pub(crate) fn sum_up(&self, recording: &Recording, older: Option<&State>) -> Result<Totals, StoreError> {
        let mut totals = older.map_or_else(Totals::default, |older| older.totals.clone());
        let from = older.map_or(0, |older| older.ticks);
        let mut ticks = Intervals::after(self, from);
        let first_row = recording.timeline.rows().first().filter(|_| older.is_some());
        let mut first_ns = first_row.map(|row| row.start_ns);
        let loaded = recording.timeline.rows().iter().rev().find(|row| !row.is_drain && older.is_some());
        let mut load_end_ns = loaded.map_or(0, |row| row.end_ns);
        // Messages sent while connections are made are warm-up: where the first one counts, that is over.
        let mut first_measured_ns = None;
        let is_ramp_warmup = recording.plan.is_ramp_warmup();
        if let Some(older) = older {
            first_measured_ns = older.first_started_ns.filter(|_| is_ramp_warmup);
            totals.sum.gauges = recording.timeline.rows().last().map_or(totals.sum.gauges, |row| row.gauges);
        }
        let (mut all, mut disturbed, mut in_windows) = (Rows::default(), Rows::default(), Rows::default());
        let mut phases: BTreeMap<u64, usize> = BTreeMap::new();
        while let Some((number, row, figures)) = ticks.next_with_figures()? {
            all.insert(number);
            let counts = if row.end_ns <= recording.plan.warmup_ns { row.counts.of_requests() } else { row.counts };
            totals.sum.counts.add(&counts);
            totals.sum.gauges = row.gauges;
            figures.add_to(&mut totals.sum);
            totals.connections_max = totals.connections_max.max(row.gauges.connections);
            totals.sum.end_ns = row.end_ns;
            first_ns.get_or_insert(row.start_ns);
            if is_ramp_warmup && row.counts.started > 0 {
                first_measured_ns.get_or_insert(row.start_ns);
            }
            if !row.is_drain {
                totals.in_time.add(&counts);
                load_end_ns = row.end_ns;
            }
            let parts = totals.add_to_parts(&row, recording.plan.warmup_ns, is_ramp_warmup);
            for (part, rows) in parts.into_iter().zip([&mut disturbed, &mut in_windows]) {
                if part.is_some() {
                    rows.insert(number);
                }
            }
            if totals.add_to_phase(&recording.plan.phases, &row).is_some() {
                phases.extend(phase_of(&recording.plan.phases, &row).map(|at| (number, at)));
            }
        }
        let tick_ns = recording.plan.tick_ns;
        let add = |totals: &mut Totals, tick: u64, known: LatencyKind, body: &[u8]| {
            let into = [
                Some(&mut totals.sum),
                totals.disturbed.as_mut().filter(|_| disturbed.contains(&tick)).map(|part| &mut part.sum),
                totals
                    .in_windows
                    .as_mut()
                    .filter(|_| in_windows.contains(&tick) && LatencyKind::OF_WINDOWS.contains(&known))
                    .map(|part| &mut part.sum),
                phases.get(&tick).and_then(|at| totals.phases.get_mut(*at)).map(|part| &mut part.sum),
            ];
            for sum in into.into_iter().flatten() {
                // It was checked for the whole, and the parts hold less.
                let _ = decode_into(body, sum.latency.of_mut(known));
            }
        };
        // Where what was made of the older part is damaged, it is made of the merged ticks.
        if self.has_merged() && older.is_none() {
            let mut merged = self.table("merged", &["ticks", "body"]);
            while let Some((tick, histograms)) = merged.next(|tick, values| {
                let [_, body] = fields(values)?;
                let mut histograms = Vec::new();
                for (kind, body) in MergedTick::unpack(blob(&body)?)?.histograms {
                    let known = known_kind(&kind)?;
                    check(&body, totals.sum.latency.of(known).len()).map_err(|what| format!("{kind}: {what}"))?;
                    histograms.push((known, body));
                }
                Ok((tick, histograms))
            })? {
                for (known, body) in histograms.iter().filter(|_| all.contains(&tick)) {
                    add(&mut totals, tick, *known, body);
                }
            }
        }
        let mut histograms = self.table("histogram", &["tick", "kind", "body"]);
        loop {
            let row = histograms.next(|_, values| {
                let [tick, kind, body] = fields(values)?;
                let Value::Integer(tick @ 1..) = tick else { return Err("it is of no tick".to_owned()) };
                let (tick, kind) = (tick.unsigned_abs(), into_text(kind)?);
                let known = known_kind(&kind)?;
                // First: what turns out to be damaged must not have been added by half.
                let before = totals.sum.latency.of(known).len();
                check(blob(&body)?, before).map_err(|what| format!("{kind} of tick {tick}: {what}"))?;
                Ok((tick, known, body))
            })?;
            let Some((tick, known, body)) = row else { break };
            histograms.reached(i64::try_from(tick.saturating_mul(tick_ns)).unwrap_or(i64::MAX));
            // Of a tick that is left out, its histograms are, too.
            if !all.contains(&tick) {
                continue;
            }
            add(&mut totals, tick, known, blob(&body).unwrap_or_default());
        }
        let start_ns = first_ns.unwrap_or(0).max(recording.plan.warmup_ns).max(first_measured_ns.unwrap_or(0));
        totals.sum.start_ns = first_ns.unwrap_or(0);
        totals.measured_from_ns = start_ns;
        totals.measured_ns = load_end_ns.saturating_sub(start_ns);
        totals.cpu_user_ns = totals.sum.counts.cpu_user_ns;
        totals.cpu_system_ns = totals.sum.counts.cpu_system_ns;
        // Accounting: what was started and has no end was in flight when the recording stopped.
        let counts = &totals.sum.counts;
        totals.in_flight_at_end = counts.started.saturating_sub(counts.requests());
        Ok(totals)
    }
}

pub(crate) fn known_kind(name: &str) -> Result<LatencyKind, String> {
    let known = LatencyKind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| format!("'{name}' is not a known kind of latency"))
}

pub(crate) fn blob(value: &Value) -> Result<&[u8], String> {
    match value {
        Value::Blob(bytes) => Ok(bytes),
        _ => Err("it is not a histogram".to_owned()),
    }
}

/// Every tick of a recording, oldest first.
#[derive(Debug)]
pub struct Intervals<'r> {
    /// The merged ones, until the last of them was read.
    merged: Option<Table<'r>>,
    rows: Table<'r>,
    /// The number of the last tick that is passed over.
    from: u64,
    guard: Guard,
    ended: bool,
}

impl<'r> Intervals<'r> {
    pub(crate) fn of(reader: &'r Reader) -> Self {
        Self::after(reader, 0)
    }

    /// Those after the tick of a number.
    pub(crate) fn after(reader: &'r Reader, from: u64) -> Self {
        let rows = reader.table("tick", &["sequence", "row", "figures"]);
        let merged = reader.has_merged().then(|| reader.table("merged", &["ticks", "body"]));
        Intervals { merged, rows, from, guard: Guard::default(), ended: false }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, StoreError> {
        Ok(self.next_numbered()?.map(|(_, row)| row))
    }

    /// Number and row of the next tick.
    pub(crate) fn next_numbered(&mut self) -> Result<Option<(u64, Row)>, StoreError> {
        Ok(self.next_with_figures()?.map(|(number, row, _)| (number, row)))
    }

    /// Number, row and figures of the next tick.
    pub(crate) fn next_with_figures(&mut self) -> Result<Option<(u64, Row, Figures)>, StoreError> {
        let Intervals { merged, rows, from, guard, .. } = self;
        let mut sound = |number: u64, head: Result<(Row, Figures), String>| {
            let (mut row, figures) = head?;
            figures.check()?;
            guard.admit(&mut row, &figures)?;
            Ok(Some((number, row, figures)))
        };
        loop {
            let (table, is_merged) = match merged {
                Some(merged) => (merged, true),
                None => (&mut *rows, false),
            };
            let next = table.next(|number, values| {
                if number <= *from {
                    return Ok(None);
                }
                if is_merged {
                    let [_, body] = fields(values)?;
                    return sound(number, MergedTick::unpack_head(blob(&body)?));
                }
                let [_, row, figures] = fields(values)?;
                sound(number, json(&row).and_then(|row| Ok((row, json(&figures)?))))
            })?;
            match next {
                Some(None) => {}
                Some(Some((number, row, figures))) => {
                    table.reached(i64::try_from(row.end_ns).unwrap_or(i64::MAX));
                    return Ok(Some((number, row, figures)));
                }
                None if is_merged => *merged = None,
                None => return Ok(None),
            }
        }
    }
}

impl Iterator for Intervals<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_row();
        self.ended = next.is_err();
        next.transpose()
    }
}

/// Sees to it that no sum over the admitted rows can overflow.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// At least as large as the sum of any one counter.
    counted: u64,
    response_sum_ns: u64,
}

impl Guard {
    pub(crate) fn admit(&mut self, row: &mut Row, figures: &Figures) -> Result<(), String> {
        if is_absurd(row.end_ns) || row.start_ns > row.end_ns || is_absurd(largest_gauge(&row.gauges)) {
            return Err("a tick has a time or a reading that cannot be".to_owned());
        }
        self.counted = self
            .counted
            .checked_add(largest_count(&row.counts).max(figures.largest()))
            .filter(|sum| !is_absurd(*sum))
            .ok_or("its ticks count more than can be")?;
        // Long queues of an overloaded target really reach this one: it saturates.
        row.response_sum_ns = row.response_sum_ns.min(u64::MAX - self.response_sum_ns);
        self.response_sum_ns += row.response_sum_ns;
        Ok(())
    }
}
