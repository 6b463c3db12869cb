//! Single requests and gaps of a tick, packed: one value for all of a tick, numbers of a few bytes, moments as differences.
//!
//! A request takes some 40 bytes. The layout is postcard's (varints in the order of the fields), so fields may only be
//! added with another format: format 5 has at the end the key from which on the sample may lack some ([`Kept::below`]).
//! A value that does not unpack, or holds more than a tick keeps, is damage.

pub(crate) mod split;

use crate::error::StoreError;
use crate::reader::{Reader, fields};
use crate::rows::Value;
use crate::schema::WITH_BELOW;
use model::limits::{REQUESTS_FAILED_KEPT, REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT, TICK_GAPS_KEPT};
use model::request::{Gap, IntervalRequests, Kept, Request, RequestEnd, Set, Smallest};
use model::{ErrorKind, Recording};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All of a tick.
#[derive(Serialize, Deserialize)]
struct Packed {
    sampled: Vec<PackedRequest>,
    slowest: Vec<PackedRequest>,
    failed: Vec<PackedRequest>,
    gaps: Vec<PackedGap>,
}

/// A request; each moment is the difference to the one before it, the first to the tick's end. 0 stays 0 where it says that
/// there was none.
#[derive(Serialize, Deserialize)]
struct PackedRequest {
    key: u64,
    intended: i64,
    ready: i64,
    sent: Option<i64>,
    first_byte: Option<i64>,
    ended: i64,
    connect: Option<i64>,
    before_ns: Option<u64>,
    worker: u16,
    connection: u32,
    life: u32,
    ordinal: u32,
    origin: u16,
    address: u16,
    entry: u16,
    sent_bytes: u32,
    received_bytes: u32,
    outcome: u16,
    /// 0: well; 1: not before the run did; from 2 on: kinds of failure.
    end: u16,
}

#[derive(Serialize, Deserialize)]
struct PackedGap {
    from: i64,
    length_ns: u64,
    in_flight: u64,
    connections: u64,
    open: u64,
    worker: u16,
    own_ns_max: u64,
}

/// What is kept of a tick that ends at `end_ns`, as bytes.
///
/// # Errors
/// None that can come: the format has no limit that these values reach.
pub(crate) fn pack(requests: &IntervalRequests, end_ns: u64) -> Result<Vec<u8>, postcard::Error> {
    let all = |set: &Smallest| set.iter().map(|kept| PackedRequest::of(kept, end_ns)).collect();
    let gap = |gap: &Gap| PackedGap {
        from: since(gap.from_ns, end_ns),
        length_ns: gap.length_ns(),
        in_flight: gap.in_flight,
        connections: gap.connections,
        open: gap.open,
        worker: gap.worker,
        own_ns_max: gap.own_ns_max,
    };
    let packed = postcard::to_stdvec(&Packed {
        sampled: all(&requests.sampled),
        slowest: all(&requests.slowest),
        failed: all(&requests.failed),
        gaps: requests.gaps.iter().map(gap).collect(),
    })?;
    postcard::to_extend(&requests.sampled.iter().filter_map(|kept| kept.below).min(), packed)
}

/// The opposite of [`pack`], of a recording of such a format.
///
/// # Errors
/// In words, where the bytes are not such a value.
pub(crate) fn unpack(bytes: &[u8], end_ns: u64, format: usize) -> Result<IntervalRequests, String> {
    let (packed, below, rest): (Packed, Option<u64>, &[u8]) = with_more(bytes, format)?;
    let rooms = [REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT, REQUESTS_FAILED_KEPT, TICK_GAPS_KEPT];
    let sizes = [packed.sampled.len(), packed.slowest.len(), packed.failed.len(), packed.gaps.len()];
    if !rest.is_empty() || sizes.iter().zip(rooms).any(|(size, room)| *size > room) {
        return Err("it holds more single requests than a tick keeps".to_owned());
    }
    let mut requests = IntervalRequests::default();
    for (set, packed) in [(Set::Sampled, packed.sampled), (Set::Slowest, packed.slowest), (Set::Failed, packed.failed)]
    {
        for request in packed {
            let below = below.filter(|_| set == Set::Sampled);
            requests.restore(set, Kept { below, ..request.unpacked(end_ns)? });
        }
    }
    for gap in packed.gaps {
        let from_ns = at(gap.from, end_ns);
        requests.gaps.push(Gap {
            from_ns,
            to_ns: from_ns.saturating_add(gap.length_ns),
            in_flight: gap.in_flight,
            connections: gap.connections,
            open: gap.open,
            worker: gap.worker,
            own_ns_max: gap.own_ns_max,
        });
    }
    Ok(requests)
}

/// A value, what stands behind it since format 5 (before, what there is by default), and the bytes that are left.
fn with_more<'b, T, More>(bytes: &'b [u8], format: usize) -> Result<(T, More, &'b [u8]), String>
where
    T: Deserialize<'b>,
    More: Deserialize<'b> + Default,
{
    let said = |error: postcard::Error| error.to_string();
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(said)?;
    if format < WITH_BELOW {
        return Ok((value, More::default(), rest));
    }
    let (more, rest) = postcard::take_from_bytes(rest).map_err(said)?;
    Ok((value, more, rest))
}

/// A moment as the difference to another. Wraps, as [`at`] does: whatever is written is read.
fn since(at_ns: u64, other_ns: u64) -> i64 {
    at_ns.wrapping_sub(other_ns) as i64
}

fn at(since: i64, other_ns: u64) -> u64 {
    other_ns.wrapping_add(since as u64)
}

fn some_since(at_ns: u64, other_ns: u64) -> Option<i64> {
    (at_ns > 0).then(|| since(at_ns, other_ns))
}

impl PackedRequest {
    fn of(Kept { key, request, .. }: &Kept, end_ns: u64) -> Self {
        let end = match request.end {
            RequestEnd::Ok => 0,
            RequestEnd::Unfinished => 1,
            RequestEnd::Failed(kind) => 2 + kind.index() as u16,
        };
        PackedRequest {
            key: *key,
            intended: since(request.intended_ns, end_ns),
            ready: since(request.ready_ns, request.intended_ns),
            sent: some_since(request.sent_ns, request.ready_ns),
            first_byte: some_since(request.first_byte_ns, request.ended_ns),
            ended: since(request.ended_ns, request.intended_ns),
            connect: some_since(request.connect_ns, request.intended_ns),
            before_ns: request.before_ns,
            worker: request.worker,
            connection: request.connection,
            life: request.life,
            ordinal: request.ordinal,
            origin: request.origin,
            address: request.address,
            entry: request.entry,
            sent_bytes: request.sent_bytes,
            received_bytes: request.received_bytes,
            outcome: request.outcome,
            end,
        }
    }

    fn unpacked(self, end_ns: u64) -> Result<Kept, String> {
        let end = match self.end {
            0 => RequestEnd::Ok,
            1 => RequestEnd::Unfinished,
            kind => RequestEnd::Failed(
                *ErrorKind::ALL.get(usize::from(kind - 2)).ok_or("it names a failure that is not known")?,
            ),
        };
        let intended_ns = at(self.intended, end_ns);
        let (ready_ns, ended_ns) = (at(self.ready, intended_ns), at(self.ended, intended_ns));
        let some = |since: Option<i64>, other_ns| since.map_or(0, |since| at(since, other_ns));
        let request = Request {
            intended_ns,
            ready_ns,
            sent_ns: some(self.sent, ready_ns),
            first_byte_ns: some(self.first_byte, ended_ns),
            ended_ns,
            connect_ns: some(self.connect, intended_ns),
            before_ns: self.before_ns,
            worker: self.worker,
            connection: self.connection,
            life: self.life,
            ordinal: self.ordinal,
            origin: self.origin,
            address: self.address,
            entry: self.entry,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            outcome: self.outcome,
            end,
            local: None,
        };
        Ok(Kept::new(self.key, request))
    }
}

impl Reader {
    /// The single requests and gaps. `ended`: of each sound tick, when it ended and how many requests did in it. Of a tick
    /// that is left out, its requests are, too.
    pub(crate) fn load_requests(
        &self,
        recording: &mut Recording,
        ended: &BTreeMap<u64, (u64, u64)>,
    ) -> Result<(), StoreError> {
        if !self.has_table("request") {
            return Ok(());
        }
        let mut rows = self.table("request", &["tick", "body"]);
        let mut done = 0;
        loop {
            let row = rows.next(|_, values| {
                let [tick, body] = fields(values)?;
                let (Value::Integer(tick @ 1..), Value::Blob(body)) = (tick, body) else {
                    return Err("it is of no tick".to_owned());
                };
                let tick = tick.unsigned_abs();
                let Some((end_ns, _)) = ended.get(&tick) else { return Ok((tick, None)) };
                unpack(&body, *end_ns, self.format()).map(|requests| (tick, Some(requests)))
            })?;
            let Some((tick, requests)) = row else { break };
            // The sample is one of all requests, so ticks without any count.
            push_empty(recording, ended.range(done + 1..tick.max(done + 1)));
            if let Some(requests) = requests
                && tick > done
            {
                let count = ended.get(&tick).map_or(0, |(_, count)| *count);
                recording.requests.push(tick - 1, count, &requests);
            }
            done = done.max(tick);
        }
        push_empty(recording, ended.range(done + 1..));
        Ok(())
    }
}

/// Ticks of which nothing is kept.
fn push_empty<'e>(recording: &mut Recording, ticks: impl Iterator<Item = (&'e u64, &'e (u64, u64))>) {
    for (tick, (_, ended)) in ticks {
        recording.requests.push(tick - 1, *ended, &IntervalRequests::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::VERSION;

    #[test]
    fn any_request_is_read_as_it_was_written_and_no_bytes_make_it_stop() {
        let request = |at_ns: u64| Request {
            intended_ns: at_ns,
            ready_ns: at_ns.wrapping_mul(3),
            sent_ns: at_ns / 2,
            first_byte_ns: at_ns.wrapping_add(9),
            ended_ns: u64::MAX - at_ns,
            connect_ns: at_ns,
            end: RequestEnd::Failed(ErrorKind::ALL[ErrorKind::COUNT - 1]),
            ..Request::default()
        };
        let mut requests = IntervalRequests::default();
        for at_ns in [0, 1, 1 << 40, u64::MAX / 2, u64::MAX] {
            requests.restore(Set::Sampled, Kept::new(at_ns, request(at_ns)));
            requests.restore(Set::Failed, Kept::new(at_ns, request(at_ns)));
            requests.gaps.push(Gap { from_ns: at_ns / 2, to_ns: at_ns / 2 + 5, ..Gap::default() });
        }
        for end_ns in [0, 7, u64::MAX] {
            let bytes = pack(&requests, end_ns).unwrap();
            assert_eq!(unpack(&bytes, end_ns, VERSION).unwrap(), requests);
            for cut in 0..bytes.len() {
                assert!(unpack(&bytes[..cut], end_ns, VERSION).is_err(), "cut at {cut}");
                let mut other = bytes.clone();
                other[cut] ^= 0x81;
                // Sense or none: it must not panic.
                let _ = unpack(&other, end_ns, VERSION);
            }
        }
    }

    #[test]
    fn more_than_a_tick_keeps_is_damage() {
        let mut requests = IntervalRequests::default();
        (0..=REQUESTS_KEPT as u64).for_each(|key| requests.restore(Set::Sampled, Kept { key, ..Kept::default() }));
        assert!(unpack(&pack(&requests, 0).unwrap(), 0, VERSION).unwrap_err().contains("more single requests"));
    }
}
