//! What the program's maps hold, as it is told: places of waits, pauses of all threads, texts, addresses.

use super::untouched::Untouched;
use super::{IDLE, ON_CPU, Record, SLEEP, STALL_NS, state_name};
use crate::limits::STALLS_MAX;
use crate::source::bpf::{BpfError, Entry, Programs};
use model::threads::{Pause, STATES};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Places of waits that are told of a thread, the longest first.
pub(super) const PLACES_MAX: usize = 4;

/// Waits at one place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceUse {
    pub(super) count: u64,
    pub(super) ns: u64,
    pub(super) longest_ns: u64,
    /// Of the longest: the call's first argument, and whom the connection is to.
    pub(super) argument: u64,
    pub(super) remote: [u64; 3],
}

impl PlaceUse {
    pub(super) fn of(words: &[u64]) -> Option<Self> {
        let [count, ns, longest_ns, argument, remote @ ..] = words else { return None };
        let remote = *remote.first_chunk()?;
        Some(PlaceUse { count: *count, ns: *ns, longest_ns: *longest_ns, argument: *argument, remote })
    }

    pub(super) fn add(&mut self, more: PlaceUse) {
        if more.longest_ns > self.longest_ns {
            (self.longest_ns, self.argument, self.remote) = (more.longest_ns, more.argument, more.remote);
        }
        self.count = self.count.saturating_add(more.count);
        self.ns = self.ns.saturating_add(more.ns);
    }
}

/// `struct remote` of the program as an address and a port.
pub(super) fn remote(words: [u64; 3]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let address = bytes.get(8..24)?;
    let ip: IpAddr = match half(words[0], 0) & 0xffff {
        2 => (*address.first_chunk::<4>()?).into(),
        10 => IpAddr::from(*address.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?)).to_string())
}

/// One of the two numbers of 32 bits in a word, as they lie in memory.
pub(super) fn half(word: u64, which: usize) -> u32 {
    let bytes = word.to_ne_bytes();
    bytes.get(4 * which..).and_then(|half| half.first_chunk()).map_or(0, |half| u32::from_ne_bytes(*half))
}

pub(super) fn signed_half(word: u64, which: usize) -> i32 {
    half(word, which).cast_signed()
}

/// A name of 16 bytes at the most, ended by a zero.
pub(super) fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Pauses of all threads together.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The longest in which somebody had something to do.
    pub(super) longest: Vec<Pause>,
    /// How many there were in which all waited for something to do.
    pub(super) idle: u64,
}

impl Pauses {
    /// Takes those that the program saw, and one that had not ended when the window did. Threads that it knew nothing of
    /// are added: whose first event came later, and who had none. In a window in which one of those ran there is no pause.
    /// `ended_ns`: when the window ended; `None`: it goes on, and so may a pause.
    pub(super) fn take(
        &mut self,
        programs: &Programs,
        records: &[Record],
        still: &[Untouched],
        ended_ns: Option<u64>,
        origin_ns: i64,
    ) -> Result<(), BpfError> {
        let together = programs.first("all")?;
        let mut found: Vec<(u64, u64, u32, [u64; STATES.len()])> = Vec::new();
        for Entry { key, words } in programs.take("pauses")? {
            let (Some(from), [end_ns, by, threads @ ..]) = (key.first_chunk(), &words[..]) else { continue };
            let Some(threads) = threads.first_chunk() else { continue };
            found.push((u64::from_ne_bytes(*from), *end_ns, *by as u32, *threads));
        }
        if let ([on_cpu, last_ns, ..], Some(to_ns)) = (&together[..], ended_ns)
            && on_cpu.cast_signed() <= 0
            && *last_ns > 0
            && to_ns.saturating_sub(*last_ns) >= STALL_NS
        {
            let mut threads = [0; STATES.len()];
            for record in records {
                threads[record.state.min(STATES.len() - 1)] += 1;
            }
            found.push((*last_ns, to_ns, 0, threads));
        }
        if still.iter().any(|thread| thread.state == ON_CPU) {
            return Ok(());
        }
        for (from_ns, end_ns, ended_by, mut threads) in found {
            if records.iter().any(|record| record.first_state == ON_CPU && record.first_ns > from_ns) {
                continue;
            }
            let later = records.iter().filter(|record| record.first_ns > end_ns && record.started_ns < from_ns);
            for state in later.map(|record| record.first_state).chain(still.iter().map(|thread| thread.state)) {
                threads[state.min(STATES.len() - 1)] += 1;
            }
            let states: Vec<usize> = (0..STATES.len()).filter(|state| threads[*state] > 0).collect();
            // Threads without work do not all sleep for a time: then they do so within their work.
            if states.iter().all(|state| IDLE.contains(state)) && states != [SLEEP] {
                self.idle += 1;
                continue;
            }
            let by_state: BTreeMap<String, u64> =
                states.into_iter().map(|state| (state_name(state).to_owned(), threads[state])).collect();
            self.longest.push(Pause {
                from_ns: from_ns.cast_signed().saturating_sub(origin_ns),
                ns: end_ns.saturating_sub(from_ns),
                ended_by,
                threads: by_state,
            });
        }
        self.longest.sort_by_key(|pause| (std::cmp::Reverse(pause.ns), pause.from_ns));
        self.longest.truncate(STALLS_MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_read_as_the_program_lays_it_out() {
        let mut bytes = [0u8; 24];
        bytes[..2].copy_from_slice(&2u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&8080u16.to_be_bytes());
        bytes[8..12].copy_from_slice(&[127, 0, 0, 1]);
        let words = |bytes: [u8; 24]| [0, 8, 16].map(|at| u64::from_ne_bytes(*bytes[at..].first_chunk().unwrap()));
        assert_eq!(remote(words(bytes)).as_deref(), Some("127.0.0.1:8080"));
        bytes[..2].copy_from_slice(&10u16.to_ne_bytes());
        assert_eq!(remote(words(bytes)).as_deref(), Some("[7f00:1::]:8080"));
        assert_eq!(remote([0; 3]), None);
        assert_eq!(
            (half(words(bytes)[1], 0).to_ne_bytes(), text(&[u64::from_ne_bytes(*b"ab\0cdefg")])),
            ([127, 0, 0, 1], "ab".to_owned())
        );
    }
}
