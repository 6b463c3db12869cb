//! Records of the ring as events: what is known of each, one event for those that are alike, and a sentence for people.

use crate::source::bpf::names;
use model::Event;
use model::event::Details;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a record (`struct record`).
const RECORD: usize = 120;

/// Kinds of records (`enum` of the program).
const SIGNAL: u32 = 1;
const EXIT: u32 = 2;
const OOM_KILL: u32 = 3;

/// Families of sockets.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// What makes records alike: one event may stand for all of them, whichever threads they are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Likeness {
    kind: u32,
    pid: u32,
    /// When the process began, by CLOCK_MONOTONIC: its id is given again.
    started_ns: u64,
    code: i32,
    detail: i32,
    from: i32,
}

/// One record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    at_ns: u64,
    of: Likeness,
    tid: u32,
    argument: u64,
    /// Both ends of the socket that the argument is the descriptor of.
    socket: Option<[SocketAddr; 2]>,
    thread: String,
    process: String,
}

impl Record {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
        let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        let half = |at: usize| [bytes[at], bytes[at + 1]];
        let name = |at: usize| {
            let name = bytes[at..at + 16].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        let address = |at: usize, port: u16| {
            let ip: IpAddr = match u16::from_ne_bytes(half(48)) {
                AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[at..at + 4]).ok()?).into(),
                AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).ok()?).to_canonical(),
                _ => return None,
            };
            Some(SocketAddr::new(ip, port))
        };
        let ends = (address(56, u16::from_ne_bytes(half(50))), address(72, u16::from_be_bytes(half(52))));
        Some(Record {
            at_ns: long(0),
            of: Likeness {
                kind: word(24),
                pid: word(28),
                started_ns: long(8),
                code: word(36).cast_signed(),
                detail: word(40).cast_signed(),
                from: word(44).cast_signed(),
            },
            tid: word(32),
            argument: long(16),
            socket: if let (Some(local), Some(remote)) = ends { Some([local, remote]) } else { None },
            thread: name(88),
            process: name(104),
        })
    }

    /// What is known of it, `times` like it having come.
    fn details(&self, times: u64) -> Details {
        let Likeness { kind, pid, code, detail, from, .. } = self.of;
        let known = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        let mut details = Details {
            pid: Some(pid),
            tid: Some(self.tid),
            process: known(&self.process),
            thread: known(&self.thread),
            times: (times > 1).then_some(times),
            ..Details::default()
        };
        let ended_by = code & 0x7f;
        match kind {
            SIGNAL => {
                details.signal = Some(code);
                details.sender_pid = u32::try_from(from).ok().filter(|pid| *pid > 0);
            }
            // As wait(2) gives it.
            EXIT if ended_by == 0 => details.exit_code = Some((code >> 8) & 0xff),
            EXIT => {
                details.signal = Some(ended_by);
                details.left_core = (code & 0x80 != 0).then_some(true);
                if detail >= 0 {
                    let call = names::call(detail.into());
                    if names::takes_descriptor(&call) {
                        let socket = self.socket.as_ref();
                        details.socket_local = socket.map(|[local, _]| local.to_string());
                        details.socket_remote =
                            socket.filter(|[_, remote]| remote.port() != 0).map(|[_, remote]| remote.to_string());
                    }
                    details.call = Some(call);
                    details.call_argument = Some(self.argument);
                }
            }
            _ => {}
        }
        details
    }

    fn event(&self, times: u64, origin_ns: i64) -> Option<Event> {
        let details = self.details(times);
        let who = who(&details);
        let (kind, text) = match self.of.kind {
            SIGNAL => ("target-signal", format!("the target's process {who} took {}", taken(&details))),
            EXIT => ("target-exit", format!("the target's process {who} {}", ended(&details))),
            OOM_KILL => ("target-oom-kill", format!("the kernel chose the target's process {who} to free memory")),
            _ => return None,
        };
        let at_ns = i64::try_from(self.at_ns).unwrap_or(i64::MAX).saturating_sub(origin_ns);
        Some(Event::new(at_ns, kind, text).with(details))
    }
}

/// `name (pid)`.
fn who(details: &Details) -> String {
    let pid = details.pid.unwrap_or(0);
    details.process.as_ref().map_or_else(|| pid.to_string(), |name| format!("{name} ({pid})"))
}

/// Which signal, from whom.
fn taken(details: &Details) -> String {
    let mut text = names::signal(details.signal.unwrap_or(0));
    if let Some(sender) = details.sender_pid {
        text += &format!(" from process {sender}");
    }
    if let Some(times) = details.times {
        text += &format!(", {times} times within a tick");
    }
    text
}

/// How it ended.
fn ended(details: &Details) -> String {
    if let Some(code) = details.exit_code {
        return format!("exited with code {code}");
    }
    let mut text = format!("was ended by {}, ", names::signal(details.signal.unwrap_or(0)));
    match (&details.call, details.call_argument) {
        (Some(call), Some(descriptor)) if names::takes_descriptor(call) => {
            text += &format!("in the system call {call} of descriptor {descriptor}");
        }
        (Some(call), _) => text += &format!("in the system call {call}"),
        (None, _) => text += "in its own code",
    }
    match (&details.socket_local, &details.socket_remote) {
        (Some(local), Some(remote)) => text += &format!(" (its connection {local} with {remote})"),
        (Some(local), None) => text += &format!(" (its socket {local})"),
        (None, _) => {}
    }
    if details.left_core == Some(true) {
        text += ", and left a core";
    }
    text
}

/// The records of a tick in the order in which they came, one of each that are alike, with how often it came.
#[derive(Debug, Default)]
pub(super) struct Seen {
    records: Vec<(Record, u64)>,
    places: HashMap<Likeness, usize>,
}

impl Seen {
    pub(super) fn add(&mut self, record: Record) {
        let place = *self.places.entry(record.of).or_insert(self.records.len());
        match self.records.get_mut(place) {
            Some((_, times)) => *times += 1,
            None => self.records.push((record, 1)),
        }
    }

    /// What is told of them.
    pub(super) fn told(self, origin_ns: i64) -> Vec<Event> {
        let of_end = |of: &Likeness| (of.pid, of.started_ns, of.code & 0x7f);
        let ends: BTreeSet<_> = self.places.keys().filter(|of| of.kind == EXIT).map(of_end).collect();
        let event = |(record, times): &(Record, u64)| {
            // Each thread takes the signal that ends its process: it came once all the same.
            let is_last = record.of.kind == SIGNAL && ends.contains(&of_end(&record.of));
            record.event(if is_last { 1 } else { *times }, origin_ns)
        };
        self.records.iter().filter_map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the program writes it.
    fn bytes(kind: u32, pid: u32, started_ns: u64, code: i32, detail: i32) -> [u8; RECORD] {
        let mut bytes = [0_u8; RECORD];
        bytes[..8].copy_from_slice(&5_000_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&started_ns.to_ne_bytes());
        bytes[16..24].copy_from_slice(&7_u64.to_ne_bytes());
        let words = [kind, pid, pid + 1, code.cast_unsigned(), detail.cast_unsigned()];
        for (at, word) in (24..).step_by(4).zip(words) {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[88..96].copy_from_slice(b"worker-3");
        bytes[104..109].copy_from_slice(b"nginx");
        bytes
    }

    fn record(kind: u32, pid: u32, started_ns: u64, code: i32) -> Record {
        Record::parse(&bytes(kind, pid, started_ns, code, -1)).unwrap()
    }

    fn told(records: impl IntoIterator<Item = Record>) -> Vec<Event> {
        let mut seen = Seen::default();
        records.into_iter().for_each(|record| seen.add(record));
        seen.told(1_000)
    }

    #[test]
    fn a_record_becomes_fields_and_a_sentence_of_them() {
        let [killed, exited, dumped] = [9, 3 << 8, 6 | 0x80].map(|code| told([record(EXIT, 77, 1, code)]).remove(0));
        assert_eq!((killed.at_ns, &*killed.kind), (4_000, "target-exit"));
        assert_eq!(killed.text, "the target's process nginx (77) was ended by SIGKILL, in its own code");
        let known = Details {
            pid: Some(77),
            tid: Some(78),
            process: Some("nginx".to_owned()),
            thread: Some("worker-3".to_owned()),
            signal: Some(9),
            ..Details::default()
        };
        assert_eq!(killed.details, known);
        assert_eq!(exited.text, "the target's process nginx (77) exited with code 3");
        assert_eq!((exited.details.exit_code, exited.details.signal), (Some(3), None));
        assert!(dumped.text.ends_with("was ended by SIGABRT, in its own code, and left a core"), "{dumped:?}");
        let signal = Record { of: Likeness { from: 4, ..record(SIGNAL, 77, 1, 15).of }, ..record(SIGNAL, 77, 1, 15) };
        let three = told([signal.clone(), Record { thread: "other".to_owned(), tid: 9, ..signal.clone() }, signal]);
        assert_eq!(three.len(), 1);
        assert_eq!(three[0].text, "the target's process nginx (77) took SIGTERM from process 4, 3 times within a tick");
        assert_eq!((three[0].details.sender_pid, three[0].details.times), (Some(4), Some(3)));
        assert_eq!(Record::parse(&bytes(EXIT, 1, 1, 9, -1)[..RECORD - 1]), None);
    }

    #[test]
    fn the_socket_of_a_last_call_is_told_with_both_its_ends() {
        let mut bytes = bytes(EXIT, 77, 1, 9, libc::SYS_write as i32);
        bytes[48..50].copy_from_slice(&AF_INET.to_ne_bytes());
        bytes[50..52].copy_from_slice(&80_u16.to_ne_bytes());
        bytes[52..54].copy_from_slice(&5555_u16.to_be_bytes());
        bytes[56..60].copy_from_slice(&[10, 0, 0, 1]);
        bytes[72..76].copy_from_slice(&[10, 0, 0, 2]);
        let event = told(Record::parse(&bytes)).remove(0);
        let Details { call, call_argument, socket_local, socket_remote, .. } = &event.details;
        assert_eq!((call.as_deref(), *call_argument), (Some("write"), Some(7)));
        assert_eq!((socket_local.as_deref(), socket_remote.as_deref()), (Some("10.0.0.1:80"), Some("10.0.0.2:5555")));
        assert!(
            event
                .text
                .ends_with("in the system call write of descriptor 7 (its connection 10.0.0.1:80 with 10.0.0.2:5555)"),
            "{}",
            event.text
        );
        // A listener has no peer; what is no descriptor is not taken for one.
        bytes[52..54].fill(0);
        bytes[40..44].copy_from_slice(&(libc::SYS_accept4 as i32).to_ne_bytes());
        let event = told(Record::parse(&bytes)).remove(0);
        assert!(
            event.text.ends_with("in the system call accept4 of descriptor 7 (its socket 10.0.0.1:80)"),
            "{event:?}"
        );
        bytes[40..44].copy_from_slice(&(libc::SYS_futex as i32).to_ne_bytes());
        let event = told(Record::parse(&bytes)).remove(0);
        assert!(event.text.ends_with("in the system call futex") && event.details.socket_local.is_none(), "{event:?}");
    }

    #[test]
    fn the_signal_that_ends_a_process_came_once_however_many_threads_took_it() {
        let texts = |records: Vec<Record>| told(records).into_iter().map(|event| event.text).collect::<Vec<_>>();
        let taken = vec![record(SIGNAL, 77, 1, 9); 3];
        let [once, end] = [
            "the target's process nginx (77) took SIGKILL",
            "the target's process nginx (77) was ended by SIGKILL, in its own code",
        ];
        assert_eq!(texts([taken.clone(), vec![record(EXIT, 77, 1, 9)]].concat()), [once, end]);
        // Another process that was given the id before, or after, is another process.
        let others = texts([taken, vec![record(EXIT, 77, 2, 9), record(SIGNAL, 77, 2, 9)]].concat());
        assert_eq!(others, [&format!("{once}, 3 times within a tick"), end, once]);
    }

    #[test]
    fn of_twenty_thousand_records_each_is_told_as_often_as_it_came() {
        let count = 20_000_u32;
        let all: Vec<Record> = (0..count).map(|pid| record(EXIT, pid, 1, 0)).collect();
        let mut seen = Seen::default();
        all.iter().for_each(|record| seen.add(record.clone()));
        assert_eq!((seen.records.len(), seen.places.len()), (count as usize, count as usize));
        assert!(seen.told(0).iter().zip(0..).all(|(event, pid)| event.details.pid == Some(pid)));
        // Two hundred that are alike, a hundred times each, in turns.
        let events = told((0..count).map(|i| record(SIGNAL, i % 200, 1, 15)));
        assert_eq!(events.len(), 200);
        assert!(events.iter().all(|event| event.details.times == Some(100)));
    }
}
