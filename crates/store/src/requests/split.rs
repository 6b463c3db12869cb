//! Single requests with what the target's machine saw of them, packed as those without are ([`crate::requests`]).
//!
//! Since format 5 the keys below which the requests' ticks lack none stand at the end: each with how many of the sample, in their
//! order, have it.
//!
//! A row a reading, of no tick: their moments are the run's, and what was seen on another machine comes later.

use super::{PackedRequest, with_more};
use crate::error::StoreError;
use crate::reader::{Reader, fields};
use crate::rows::Value;
use model::Recording;
use model::limits::{REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT};
use model::request::Kept;
use model::split::{Passage, SplitRequest, TickSplit, Unsplit};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Ticks of whose requests one reading may tell: those of another machine come late, several at once.
const TICKS_MAX: usize = 64;

#[derive(Serialize, Deserialize)]
struct Packed {
    sampled: Vec<PackedSplit>,
    slowest: Vec<PackedSplit>,
    cut: u64,
}

/// A request, our end of its connection, and the target's moments as they are; or the reason, by its place among all.
#[derive(Serialize, Deserialize)]
struct PackedSplit {
    request: PackedRequest,
    local: Option<SocketAddr>,
    passage: Result<[u64; 3], u8>,
}

impl PackedSplit {
    fn of(one: &SplitRequest) -> Self {
        let moments = |passage: Passage| [passage.arrived_ns, passage.read_ns, passage.written_ns];
        PackedSplit {
            request: PackedRequest::of(&Kept::new(one.key, one.request), 0),
            local: one.request.local,
            passage: one.passage.map(moments).map_err(|why| why as u8),
        }
    }

    fn unpacked(self) -> Result<SplitRequest, String> {
        let Kept { key, mut request, .. } = self.request.unpacked(0)?;
        request.local = self.local;
        let passage = match self.passage {
            Ok([arrived_ns, read_ns, written_ns]) => Ok(Passage { arrived_ns, read_ns, written_ns }),
            Err(place) => Err(*Unsplit::ALL.get(usize::from(place)).ok_or("it names a reason that is not known")?),
        };
        Ok(SplitRequest { key, below: None, request, passage })
    }
}

/// As bytes.
///
/// # Errors
/// None that can come: the format has no limit that these values reach.
pub(crate) fn pack(split: &TickSplit) -> Result<Vec<u8>, postcard::Error> {
    let all = |list: &[SplitRequest]| list.iter().map(PackedSplit::of).collect();
    let packed = Packed { sampled: all(&split.sampled), slowest: all(&split.slowest), cut: split.cut };
    let of_one_tick = split.sampled.chunk_by(|one, next| one.below == next.below);
    let below: Vec<Below> = of_one_tick.map(|all| (all.len(), all.first().and_then(|one| one.below))).collect();
    postcard::to_extend(&below, postcard::to_stdvec(&packed)?)
}

/// So many of the sample, and below which key their tick lacks none.
type Below = (usize, Option<u64>);

/// The opposite of [`pack`], of a recording of such a format.
///
/// # Errors
/// In words, where the bytes are not such a value.
fn unpack(bytes: &[u8], format: usize) -> Result<TickSplit, String> {
    let (packed, below, rest): (Packed, Vec<Below>, &[u8]) = with_more(bytes, format)?;
    let is_too_many =
        packed.sampled.len() > TICKS_MAX * REQUESTS_KEPT || packed.slowest.len() > TICKS_MAX * REQUESTS_SLOWEST_KEPT;
    if !rest.is_empty() || is_too_many {
        return Err("it holds more split requests than readings have".to_owned());
    }
    let all = |list: Vec<PackedSplit>| list.into_iter().map(PackedSplit::unpacked).collect::<Result<Vec<_>, _>>();
    let mut split = TickSplit { sampled: all(packed.sampled)?, slowest: all(packed.slowest)?, cut: packed.cut };
    let mut rest = &mut split.sampled[..];
    for (count, below) in below {
        let (of_one_tick, after) = rest.split_at_mut_checked(count).ok_or("it has more keys than requests")?;
        of_one_tick.iter_mut().for_each(|one| one.below = below);
        rest = after;
    }
    Ok(split)
}

impl Reader {
    /// What is known of single requests on the target's machine.
    pub(crate) fn load_split(&self, recording: &mut Recording) -> Result<(), StoreError> {
        self.each_split(|split| {
            recording.split.push(&split);
            Ok(())
        })
    }

    /// Hands over what is known of them, reading by reading.
    pub(crate) fn each_split(
        &self,
        mut each: impl FnMut(TickSplit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if !self.has_table("split") {
            return Ok(());
        }
        let mut rows = self.table("split", &["body"]);
        while let Some(split) = rows.next(|_, values| {
            let [body] = fields(values)?;
            let Value::Blob(body) = body else { return Err("it is no packed value".to_owned()) };
            unpack(&body, self.format())
        })? {
            each(split)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{VERSION, WITH_BELOW};
    use model::Request;

    #[test]
    fn what_was_split_is_read_as_it_was_written_and_no_bytes_make_it_stop() {
        let one = |at_ns: u64, local: &str, passage| {
            let local = local.parse().ok();
            let request = Request { intended_ns: at_ns, sent_ns: at_ns / 2, local, ..Request::default() };
            SplitRequest { key: at_ns, below: (at_ns == 1 << 33).then_some(7), request, passage }
        };
        let passage = Passage { arrived_ns: 3, read_ns: u64::MAX, written_ns: 1 << 40 };
        let mut split = TickSplit { cut: 7, ..TickSplit::default() };
        split.sampled.push(one(9, "127.0.0.1:40001", Ok(passage)));
        split.slowest.push(one(u64::MAX, "[::1]:2", Ok(Passage::default())));
        split.sampled.extend(Unsplit::ALL.map(|why| one(1 << 33, "", Err(why))));
        let bytes = pack(&split).unwrap();
        assert_eq!(unpack(&bytes, VERSION).unwrap(), split);
        // Before format 5 nothing is said of what lacks: the keys are what stands behind the rest.
        let keys = postcard::to_stdvec(&[(1_usize, None), (5, Some(7_u64))][..]).unwrap();
        let before = unpack(bytes.strip_suffix(&keys[..]).unwrap(), WITH_BELOW - 1).unwrap();
        assert!(before.sampled.iter().all(|one| one.below.is_none()) && before.slowest == split.slowest);
        assert!(unpack(&bytes, WITH_BELOW - 1).is_err());
        for cut in 0..bytes.len() {
            assert!(unpack(&bytes[..cut], VERSION).is_err(), "cut at {cut}");
            let mut other = bytes.clone();
            other[cut] ^= 0x81;
            // Sense or none: it must not panic.
            let _ = unpack(&other, VERSION);
        }
    }
}
