//! Every tick of a recording with its histograms, oldest first: merged ones, then those that are as they were written.
//!
//! One tick is in memory at a time. What is damaged was noted when the recording was read, and is left out here as there.

use crate::error::StoreError;
use crate::figures::Figures;
use crate::histogram::{check, decode_into};
use crate::merging::packed::MergedTick;
use crate::reader::{Reader, fields, into_text, json};
use crate::rows::{Table, Value};
use crate::sums::{Guard, blob, known_kind};
use model::LatencyKind;
use model::interval::Interval;
use model::recording::Row;

/// A tick as it stands in the file.
pub(super) struct StoredTick {
    pub(super) row: Row,
    figures: Figures,
    histograms: Vec<(LatencyKind, Vec<u8>)>,
}

impl StoredTick {
    /// Adds it to a sum: of a tick that is warm-up there and not here, only what is known of each measured request.
    pub(super) fn add_to(&self, sum: &mut Interval<u64>, is_foreign_warmup: bool) {
        let counts = if is_foreign_warmup { self.row.counts.of_requests() } else { self.row.counts };
        sum.counts.add(&counts);
        self.figures.add_to(sum);
        for (kind, body) in &self.histograms {
            // It was checked when it was read.
            let _ = decode_into(body, sum.latency.of_mut(*kind));
        }
    }
}

/// The ticks of a recording.
pub(super) struct StoredTicks<'r> {
    merged: Option<Table<'r>>,
    rows: Table<'r>,
    histograms: Table<'r>,
    /// A histogram that was read and belongs to a later tick.
    ahead: Option<(u64, LatencyKind, Vec<u8>)>,
    /// The number of the last merged tick.
    from: u64,
    guard: Guard,
}

impl<'r> StoredTicks<'r> {
    pub(super) fn of(reader: &'r Reader) -> Self {
        StoredTicks {
            merged: reader.has_merged().then(|| reader.table("merged", &["ticks", "body"])),
            rows: reader.table("tick", &["sequence", "row", "figures"]),
            histograms: reader.table("histogram", &["tick", "kind", "body"]),
            ahead: None,
            from: 0,
            guard: Guard::default(),
        }
    }

    /// The next one; `None`: there is none left.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub(super) fn next(&mut self) -> Result<Option<StoredTick>, StoreError> {
        if let Some(tick) = self.next_merged()? {
            return Ok(Some(tick));
        }
        let StoredTicks { rows, from, guard, .. } = self;
        let next = rows.next(|number, values| {
            if number <= *from {
                return Ok(None);
            }
            let [_, row, figures] = fields(values)?;
            let (mut row, figures): (Row, Figures) = (json(&row)?, json(&figures)?);
            figures.check()?;
            guard.admit(&mut row, &figures)?;
            Ok(Some((number, row, figures)))
        });
        match next? {
            None => Ok(None),
            // It is among the merged ones.
            Some(None) => self.next(),
            Some(Some((number, row, figures))) => {
                let histograms = self.histograms_of(number)?;
                Ok(Some(StoredTick { row, figures, histograms }))
            }
        }
    }

    fn next_merged(&mut self) -> Result<Option<StoredTick>, StoreError> {
        let StoredTicks { merged, from, guard, .. } = self;
        let Some(table) = merged else { return Ok(None) };
        let next = table.next(|number, values| {
            let [_, body] = fields(values)?;
            let MergedTick { head: (mut row, figures), histograms } = MergedTick::unpack(blob(&body)?)?;
            figures.check()?;
            guard.admit(&mut row, &figures)?;
            let mut known = Vec::new();
            for (kind, body) in histograms {
                check(&body, 0)?;
                known.push((known_kind(&kind)?, body));
            }
            Ok((number, StoredTick { row, figures, histograms: known }))
        })?;
        if next.is_none() {
            *merged = None;
        }
        Ok(next.map(|(number, tick)| {
            *from = number;
            tick
        }))
    }

    fn histograms_of(&mut self, tick: u64) -> Result<Vec<(LatencyKind, Vec<u8>)>, StoreError> {
        let mut found = Vec::new();
        loop {
            let next = match self.ahead.take() {
                Some(ahead) => Some(ahead),
                None => self.histograms.next(|_, values| {
                    let [tick, kind, body] = fields(values)?;
                    let (Value::Integer(tick @ 1..), Value::Blob(body)) = (tick, body) else {
                        return Err("it is of no tick".to_owned());
                    };
                    check(&body, 0)?;
                    Ok((tick.unsigned_abs(), known_kind(&into_text(kind)?)?, body))
                })?,
            };
            match next {
                Some((of, kind, body)) if of == tick => found.push((kind, body)),
                Some(ahead) if ahead.0 > tick => {
                    self.ahead = Some(ahead);
                    return Ok(found);
                }
                // Of a tick that is left out.
                Some(_) => {}
                None => return Ok(found),
            }
        }
    }
}
