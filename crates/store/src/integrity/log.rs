//! SQLite's write-ahead log, looked at before SQLite does: of a killed run it holds the last ticks.
//!
//! SQLite takes a log up to the first frame whose checksum does not fit and says nothing of the rest, as it must after a
//! crash. A frame that was written whole by this run and does not fit any more is damage. Format:
//! <https://www.sqlite.org/fileformat2.html>, 4.1 and 4.2. What cannot be told: a log that was cut off between two
//! transactions looks as if the run had been killed earlier.

use crate::limits::LOG_READ_TIMES;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;
/// First word of a log, checksums made of little-endian words; of big-endian ones it is one more.
const MAGIC: u32 = 0x377f_0682;

/// What is wrong with a log; `None`: nothing, or there is none.
pub fn fault(log: &Path) -> Option<String> {
    let mut last = None;
    for _ in 0..LOG_READ_TIMES {
        let file = File::open(log).ok()?;
        let length = file.metadata().ok()?.len();
        if length == 0 {
            return None;
        }
        // What cannot be read is said when SQLite cannot read it either.
        match fault_of(&mut BufReader::with_capacity(64 * 1024, file)) {
            Ok(Some(fault)) => last = Some(fault),
            Ok(None) | Err(_) => return None,
        }
    }
    last
}

fn fault_of(from: &mut impl Read) -> std::io::Result<Option<String>> {
    let mut head = [0; HEAD_BYTES];
    let whole = read_whole(from, &mut head)?;
    let magic = word(&head, 0);
    let is_big_endian = magic == MAGIC + 1;
    let mut sum = Sum { is_big_endian, of: [0, 0] };
    sum.add(&head[..24]);
    if !whole || (magic & !1) != MAGIC || sum.of != [word(&head, 24), word(&head, 28)] {
        return Ok(Some("its head is not what was written, and all that is in it is left out".to_owned()));
    }
    // As in the file's own head: 1 stands for 65536 there, here the number itself does.
    let page_bytes = word(&head, 8) as usize;
    if !(512..=65_536).contains(&page_bytes) {
        return Ok(Some("its pages have a size that cannot be, and all that is in it is left out".to_owned()));
    }
    let salts = [word(&head, 16), word(&head, 20)];
    let mut frame = vec![0; FRAME_HEAD_BYTES + page_bytes];
    let mut number = 0u64;
    let mut first_bad = None;
    while read_whole(from, &mut frame)? {
        number += 1;
        let (own, page) = frame.split_at(FRAME_HEAD_BYTES);
        let its_salts = [word(own, 8), word(own, 12)];
        if first_bad.is_none() {
            sum.add(&own[..8]);
            sum.add(page);
            if its_salts == salts && sum.of == [word(own, 16), word(own, 20)] {
                continue;
            }
            first_bad = Some(number);
        }
        // Frames of the log's earlier uses are left behind the last one, with other salts, both of them.
        if its_salts[0] == salts[0] || its_salts[1] == salts[1] {
            let first = first_bad.unwrap_or(number);
            return Ok(Some(format!("from its frame {first} on it is not what was written, and is left out")));
        }
    }
    Ok(None)
}

/// The running checksum of a log.
struct Sum {
    is_big_endian: bool,
    of: [u32; 2],
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let number =
            |four: [u8; 4]| if self.is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        let [mut first, mut second] = self.of;
        for pair in bytes.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *pair;
            first = first.wrapping_add(number([a, b, c, d])).wrapping_add(second);
            second = second.wrapping_add(number([e, f, g, h])).wrapping_add(first);
        }
        self.of = [first, second];
    }
}

/// The big-endian number at a place; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Fills the buffer; `false` where the file ends before.
fn read_whole(from: &mut impl Read, into: &mut [u8]) -> std::io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
