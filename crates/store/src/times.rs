//! The histograms of one kind of latency, tick by tick: what a map of response times over time is made of.
//!
//! Those of ticks that were merged are of so many ticks together. Damaged ones are left out, as everywhere. Cost: one histogram
//! in memory, and the start and end of every tick.

use crate::error::StoreError;
use crate::histogram::{check, decode_into};
use crate::merging::packed::MergedTick;
use crate::reader::{Reader, fields, into_text};
use crate::rows::Value;
use crate::sums::{Intervals, blob};
use model::{Histogram, LatencyKind};
use std::collections::BTreeMap;

impl Reader {
    /// Shows `each` the start and the end of every tick that has durations of a kind (nanoseconds since the run's start), and
    /// these, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn each_histogram(
        &self,
        kind: LatencyKind,
        mut each: impl FnMut(u64, u64, &Histogram<u64>),
    ) -> Result<(), StoreError> {
        let mut times: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut ticks = Intervals::of(self);
        while let Some((number, row)) = ticks.next_numbered()? {
            times.insert(number, (row.start_ns, row.end_ns));
        }
        let mut show = |tick: u64, body: &[u8]| {
            let Some((from_ns, to_ns)) = times.get(&tick) else { return Ok(()) };
            let mut histogram = Histogram::new();
            check(body, 0)?;
            decode_into(body, &mut histogram)?;
            each(*from_ns, *to_ns, &histogram);
            Ok::<(), String>(())
        };
        if self.has_merged() {
            let mut merged = self.table("merged", &["ticks", "body"]);
            while merged
                .next(|tick, values| {
                    let [_, body] = fields(values)?;
                    let histograms = MergedTick::unpack(blob(&body)?)?.histograms;
                    let of_kind = histograms.iter().filter(|(name, _)| name == kind.name());
                    of_kind.map(|(_, body)| body).try_for_each(|body| show(tick, body))
                })?
                .is_some()
            {}
        }
        let mut histograms = self.table("histogram", &["tick", "kind", "body"]);
        while histograms
            .next(|_, values| {
                let [tick, name, body] = fields(values)?;
                let Value::Integer(tick @ 1..) = tick else { return Err("it is of no tick".to_owned()) };
                if into_text(name)? == kind.name() { show(tick.unsigned_abs(), blob(&body)?) } else { Ok(()) }
            })?
            .is_some()
        {}
        Ok(())
    }
}
