//! Histograms as blobs: HdrHistogram's V2 format, which other tools read too.
//!
//! Writing is the library's. Reading is ours: its decoder makes a new histogram of the blob's own stated size for
//! each blob and overflows on a zero run of 2⁶³; this one adds straight into a histogram that is there, bounded.
//! Format: <https://github.com/HdrHistogram/HdrHistogram>, `encodeIntoByteBuffer`: 40 bytes of head, big-endian, then
//! ZigZag LEB128 numbers of at most 9 bytes, where n ≥ 0 is a count and n < 0 stands for -n empty buckets.

use hdrhistogram::Counter;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use model::Histogram;
use model::limits::{LATENCY_DIGITS, LATENCY_NS_MAX, LATENCY_NS_MIN};

/// First four bytes of an uncompressed V2 histogram: base cookie 0x1c849303, word size 1.
const COOKIE: u32 = 0x1c84_9313;
/// Bytes before the counts.
const HEAD_BYTES: usize = 40;
/// Buckets of the first doubling at three significant digits: the power of two above 2 × 10³, halved after it.
const HALF_BUCKETS_LOG2: u32 = 10;

/// Makes blobs of histograms, in memory that is used again.
pub struct Encoder {
    serializer: V2Serializer,
    /// The library's own, which it writes.
    theirs: hdrhistogram::Histogram<u64>,
    blob: Vec<u8>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("blob_bytes", &self.blob.len()).finish_non_exhaustive()
    }
}

impl Encoder {
    /// One that has made none yet.
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "constant bounds, held by a test")]
        let theirs = hdrhistogram::Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS)
            .expect("constant bounds are valid");
        Encoder { serializer: V2Serializer::new(), theirs, blob: Vec::new() }
    }

    /// The blob of a histogram.
    ///
    /// # Errors
    /// In words, when a count does not fit the format (2⁶³ or more).
    pub fn encode<C: Counter>(&mut self, histogram: &Histogram<C>) -> Result<&[u8], String> {
        self.theirs.reset();
        for (ns, count) in histogram.iter_recorded() {
            self.theirs.saturating_record_n(ns, count.as_u64());
        }
        self.blob.clear();
        self.serializer.serialize(&self.theirs, &mut self.blob).map_err(|e| e.to_string())?;
        Ok(&self.blob)
    }
}

/// Adds a blob's counts to a histogram of the model's fixed range, and returns how many values they were.
///
/// # Errors
/// In words, when the blob is not such a histogram, or holds more than 2⁶³ − 1 values with what `into` holds.
pub fn decode_into(blob: &[u8], into: &mut Histogram<u64>) -> Result<u64, String> {
    decode(blob, into.len(), |value, count| into.record_n(value, count))
}

/// What [`decode_into`] would say of a blob and a histogram of `before` values, without adding anything.
///
/// # Errors
/// As [`decode_into`].
pub fn check(blob: &[u8], before: u64) -> Result<(), String> {
    decode(blob, before, |_, _| ()).map(drop)
}

/// Reads a blob, and hands over each value with its count.
fn decode(blob: &[u8], before: u64, mut record: impl FnMut(u64, u64)) -> Result<u64, String> {
    let (head, mut counts) = blob.split_at_checked(HEAD_BYTES).ok_or("it is shorter than a histogram's head")?;
    let expected = [
        u64::from(COOKIE) << 32 | counts.len() as u64,
        u64::from(LATENCY_DIGITS),
        LATENCY_NS_MIN,
        LATENCY_NS_MAX,
        1f64.to_bits(),
    ];
    let words = head.as_chunks::<8>().0;
    if words.iter().zip(expected).any(|(word, expected)| u64::from_be_bytes(*word) != expected) {
        return Err("it is not a histogram of the expected range".to_owned());
    }
    let mut index = 0u64;
    let mut total = before;
    while !counts.is_empty() {
        let (number, rest) = zig_zag(counts).ok_or("it ends in the middle of a number")?;
        counts = rest;
        if number < 0 {
            index = index.checked_add(number.unsigned_abs()).ok_or("it has too many buckets")?;
            continue;
        }
        if number > 0 {
            let value = value_of(index).ok_or("it has too many buckets")?;
            let count = number.unsigned_abs();
            total = total
                .checked_add(count)
                .filter(|total| i64::try_from(*total).is_ok())
                .ok_or("it holds more values than can be")?;
            record(value, count);
        }
        index = index.checked_add(1).ok_or("it has too many buckets")?;
    }
    Ok(total - before)
}

/// The lowest value of a bucket; `None` beyond the range.
fn value_of(index: u64) -> Option<u64> {
    let half = 1u64 << HALF_BUCKETS_LOG2;
    if index < 2 * half {
        return Some(index);
    }
    let doubling = index / half - 1;
    let value = (u128::from(index % half + half)) << doubling.min(64);
    // The library's array goes on to the end of the last doubling, past the highest value it promises to hold.
    u64::try_from(value).ok().filter(|value| *value < LATENCY_NS_MAX.next_power_of_two())
}

fn zig_zag(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        let (bits, last) = if i == 8 { (*byte, true) } else { (byte & 0x7f, byte & 0x80 == 0) };
        value |= u64::from(bits) << (7 * i);
        if last {
            return Some(((value >> 1) as i64 ^ -((value & 1) as i64), &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    fn blob(values: &[(u64, u64)]) -> (Histogram<u64>, Vec<u8>) {
        let mut h = Histogram::new();
        values.iter().for_each(|(value, count)| h.record_n(*value, *count));
        let bytes = Encoder::new().encode(&h).unwrap().to_vec();
        (h, bytes)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_the_library_agrees(
            values in prop::collection::vec((0u64..2 * LATENCY_NS_MAX, 1u64..1 << 40), 0..200),
            small in prop::collection::vec((0u64..5000, 1u64..9), 0..50),
        ) {
            let (h, bytes) = blob(&[values, small].concat());
            let mut ours = Histogram::<u64>::new();
            prop_assert_eq!(decode_into(&bytes, &mut ours), Ok(h.len()));
            prop_assert_eq!(&ours, &h);
            let theirs: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            let recorded = theirs.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()));
            prop_assert!(ours.iter_recorded().eq(recorded));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..64), cut in 0usize..60) {
            let mut into = Histogram::<u64>::new();
            let _ = decode_into(&body, &mut into);
            let mut bytes = blob(&[]).1[..HEAD_BYTES].to_vec();
            bytes[4..8].copy_from_slice(&(body.len() as u32).to_be_bytes());
            bytes.extend(&body);
            let _ = decode_into(&bytes, &mut into);
            bytes.truncate(cut);
            prop_assert!(cut >= bytes.len() || decode_into(&bytes, &mut into).is_err());
        }
    }

    #[test]
    fn a_run_of_zeros_without_end_and_a_count_without_bound_are_refused() {
        let head = |payload: &[u8]| {
            let mut bytes = blob(&[]).1[..HEAD_BYTES].to_vec();
            bytes[4..8].copy_from_slice(&(payload.len() as u32).to_be_bytes());
            bytes.extend(payload);
            bytes
        };
        let mut into = Histogram::<u64>::new();
        // i64::MIN, then a count.
        assert!(decode_into(&head(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), &mut into).is_err());
        // i64::MAX twice.
        let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(decode_into(&head(&[most, most].concat()), &mut into).is_err());
    }

    #[test]
    fn merging_two_blobs_is_the_sum() {
        let (mut whole, first) = blob(&[(10, 1), (1_000_000, 7)]);
        let (other, second) = blob(&[(10, 2), (LATENCY_NS_MAX, 1)]);
        let mut sum = Histogram::<u64>::new();
        decode_into(&first, &mut sum).unwrap();
        decode_into(&second, &mut sum).unwrap();
        whole.add(&other);
        assert_eq!(sum, whole);
    }
}
