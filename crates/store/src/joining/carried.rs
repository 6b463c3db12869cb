//! A tick as it is carried from the machine that measured it to the one that keeps it: counts, figures and histograms as they
//! stand in a file, in one piece.
//!
//! Of a generator that is lost these are all that is left, and a recording can be made of them ([`Writer::append_carried`]).
//! Single requests are not in it: they come with the recording itself. All that is read is checked as a file is.
//! Layout: the length of the head (4 bytes, big-endian), the head as JSON, and for each histogram that is not empty the length of
//! its name (1 byte), the name, the length of its body (4 bytes), the body.

use crate::error::StoreError;
use crate::figures::{Figures, is_absurd, largest_count, largest_gauge};
use crate::histogram::{Encoder, check, decode_into};
use crate::writer::Writer;
use model::recording::Row;
use model::{Interval, LatencyKind};
use serde::{Deserialize, Serialize};

/// What stands before the histograms.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    sequence: u64,
    row: Row,
    figures: Figures,
}

/// Packs ticks, in memory that is used again.
#[derive(Debug)]
pub struct Packer {
    encoder: Encoder,
}

impl Default for Packer {
    fn default() -> Self {
        Packer { encoder: Encoder::new() }
    }
}

impl Packer {
    /// A tick in one piece.
    ///
    /// # Errors
    /// In words, where a count does not fit the format.
    pub fn pack(&mut self, sum: &Interval<u32>, row: &Row) -> Result<Vec<u8>, String> {
        let head = Head { sequence: sum.sequence, row: *row, figures: Figures::of(sum) };
        let head = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
        let mut bytes = (head.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&head);
        for kind in LatencyKind::ALL {
            let histogram = sum.latency.of(kind);
            if !histogram.is_empty() {
                let (name, body) = (kind.name(), self.encoder.encode(histogram)?);
                bytes.push(name.len() as u8);
                bytes.extend_from_slice(name.as_bytes());
                bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
                bytes.extend_from_slice(body);
            }
        }
        Ok(bytes)
    }
}

/// The row of a tick that was carried, and its number; `None`: it is not one.
pub fn row(bytes: &[u8]) -> Option<(u64, Row)> {
    let (head, _) = head(bytes)?;
    Some((head.sequence, head.row))
}

/// All of it, its number in the sum; `None`: it is not a tick, or one with figures that no run can have.
pub fn tick(bytes: &[u8]) -> Option<(Box<Interval<u64>>, Row)> {
    let (head, mut rest) = head(bytes)?;
    let Head { sequence, row, figures } = head;
    figures.check().ok()?;
    let largest = largest_count(&row.counts).max(largest_gauge(&row.gauges)).max(figures.largest());
    if is_absurd(largest) || row.end_ns < row.start_ns {
        return None;
    }
    let mut sum = Box::new(Interval::<u64>::new(0));
    (sum.sequence, sum.start_ns, sum.end_ns, sum.is_drain) = (sequence, row.start_ns, row.end_ns, row.is_drain);
    (sum.counts, sum.gauges) = (row.counts, row.gauges);
    figures.add_to(&mut sum);
    while let Some((length, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(*length))?;
        let (body, after) = sized(after)?;
        let kind = LatencyKind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)?;
        let into = sum.latency.of_mut(kind);
        check(body, into.len()).ok()?;
        decode_into(body, into).ok()?;
        rest = after;
    }
    Some((sum, row))
}

fn head(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let (head, rest) = sized(bytes)?;
    Some((serde_json::from_slice(head).ok()?, rest))
}

/// What is behind its length, and what follows.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

impl Writer {
    /// Keeps a tick that was carried; `false`: it is none, and nothing was kept.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn append_carried(&mut self, bytes: &[u8]) -> Result<bool, StoreError> {
        let Some((sum, row)) = tick(bytes) else { return Ok(false) };
        self.append_sum(&sum, &row)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick() -> (Interval<u32>, Row) {
        let mut sum = Interval::<u32>::new(0);
        (sum.sequence, sum.start_ns, sum.end_ns) = (7, 1_000, 2_000);
        (sum.counts.started, sum.counts.ok, sum.counts.failed) = (3, 2, 1);
        sum.latency.record_n(LatencyKind::Response, 1_500_000, 2);
        sum.latency.record(LatencyKind::Lag, 10);
        let row = Row::of(&sum, Default::default());
        (sum, row)
    }

    #[test]
    fn a_tick_comes_back_as_it_was() {
        let (sum, row) = tick();
        let bytes = Packer::default().pack(&sum, &row).unwrap();
        assert_eq!(super::row(&bytes), Some((7, row)));
        let (back, back_row) = super::tick(&bytes).unwrap();
        assert_eq!((back_row, back.counts, back.sequence), (row, sum.counts, 7));
        for kind in LatencyKind::ALL {
            let pairs = |from: Vec<(u64, u64)>| from;
            let own: Vec<(u64, u64)> = sum.latency.of(kind).iter_recorded().map(|(ns, n)| (ns, u64::from(n))).collect();
            assert_eq!(pairs(back.latency.of(kind).iter_recorded().collect()), own);
        }
    }

    #[test]
    fn what_is_no_tick_is_none_wherever_it_is_cut_or_changed() {
        let (sum, row) = tick();
        let bytes = Packer::default().pack(&sum, &row).unwrap();
        for cut in 0..bytes.len() {
            // Cut between two histograms it is a tick with fewer of them; it stops nothing.
            let _ = super::tick(&bytes[..cut]);
            assert!(cut > 600 || super::tick(&bytes[..cut.min(40)]).is_none());
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _ = (super::tick(&changed), super::row(&changed));
        }
        assert!(super::tick(&[0xff; 64]).is_none());
    }
}
