//! WebSocket connections that are held: pings go out, and pongs with their payload must come back.
//!
//! A ping is sixteen hexadecimal digits of chance, so that no pong can belong to another. What the server says of its own
//! accord is welcome: its pings are answered, its messages and its pongs are told ([`Progress::Came`]) and thrown away,
//! compressed ones as they are. A pong with another payload may be one that was never asked for (RFC 6455 §5.5.3), so the
//! right one is waited for; where it does not come, that is told. Every close ends the connection, with its code. Cost:
//! some 500 bytes a connection.

use super::handshake::{Greeting, Openings};
use super::machine::{Event, Machine};
use super::{DeflateOffer, Detail, Kind, Place, SAID_BYTES_MAX, detail};
use crate::{Failure, Fed, Progress, Protocol, Reply, Source, Stream};
use model::ErrorKind;
use model::workload::hold_websocket::{Came, HoldWebSocket, PING_BYTES};
use std::sync::Arc;

/// WebSocket connections that are held, for one worker.
#[derive(Debug)]
pub struct HoldProtocol {
    openings: Openings,
}

/// A ping: the number that its payload is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ping(u64);

/// The state of one connection.
#[derive(Debug)]
pub struct Held {
    greeting: Greeting,
    /// There once the handshake is answered.
    machine: Option<Machine>,
    /// Whether a pong with another payload came since the last ping was sent.
    other_pong: bool,
}

impl Ping {
    /// What a pong must have.
    pub fn payload(self) -> [u8; PING_BYTES] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        std::array::from_fn(|at| DIGITS[(self.0 >> (60 - 4 * at)) as usize & 15])
    }
}

impl HoldProtocol {
    /// As a plan says.
    pub fn new(plan: &HoldWebSocket) -> Self {
        let deflate = plan.compress.then(DeflateOffer::default);
        HoldProtocol { openings: Openings::new(&plan.handshakes, &plan.subprotocols, deflate) }
    }

    /// Reads on; `oldest`: the ping whose pong is due.
    fn read(connection: &mut Held, oldest: Option<Ping>, bytes: &[u8]) -> Fed {
        let Held { machine: Some(machine), other_pong, .. } = connection else {
            return broken(bytes.len(), ErrorKind::UnsolicitedReply, Detail::Unasked as u32);
        };
        let mut consumed = 0;
        loop {
            let (taken, event) = machine.take(&bytes[consumed..]);
            consumed += taken;
            let came = match event {
                Event::More if consumed < bytes.len() => continue,
                Event::More => return Fed { consumed, progress: Progress::More },
                Event::Data(_) => continue,
                Event::End(Kind::Text) => Came::Text,
                Event::End(Kind::Binary) => Came::Binary,
                Event::Pinged => Came::Ping,
                Event::Pong(payload) if oldest.is_some_and(|ping| ping.payload() == payload) => {
                    let reply = Reply { status: 0, keep: true, failure: None };
                    return Fed { consumed, progress: Progress::Reply(reply) };
                }
                Event::Pong(_) => {
                    *other_pong = true;
                    Came::Pong
                }
                Event::Closed(code) => return broken(consumed, ErrorKind::ClosedEarly, detail::of_close(code)),
                Event::Bad(detail) => return broken(consumed, ErrorKind::BadFraming, detail as u32),
            };
            return Fed { consumed, progress: Progress::Came(came.number()) };
        }
    }
}

impl Protocol for HoldProtocol {
    type Connection = Held;
    type Request = Ping;
    type Transport = Stream;

    const FRAMED: bool = true;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        Vec::new()
    }

    fn connection(&self) -> Held {
        Held { greeting: Greeting::default(), machine: None, other_pong: false }
    }

    fn next_request(&mut self, _origin: u16, random: u64) -> Ping {
        Ping(random)
    }

    fn source(&self, _ping: Ping) -> Source {
        Source::Template
    }

    fn write(&self, connection: &mut Held, _number: u32, ping: Ping, to: &mut Vec<u8>) {
        connection.other_pong = false;
        if let Some(machine) = &mut connection.machine {
            machine.ping(&ping.payload(), to);
        }
    }

    fn written_bytes_max(&self) -> usize {
        SAID_BYTES_MAX
    }

    fn greeting(&self, connection: &mut Held, origin: u16, random: u64, to: &mut Vec<u8>) {
        self.openings.write(&mut connection.greeting, origin, random, to);
    }

    fn greeted(&self, connection: &mut Held, origin: u16, bytes: &[u8]) -> Fed {
        let (consumed, judged) = self.openings.take(&mut connection.greeting, origin, bytes);
        let progress = match judged {
            None => Progress::More,
            Some(Err(failure)) => Progress::Broken(failure),
            Some(Ok(agreed)) => {
                connection.machine = Some(Machine::unread(&agreed, connection.greeting.seed()));
                Progress::Reply(Reply { status: 0, keep: true, failure: None })
            }
        };
        Fed { consumed, progress }
    }

    fn feed(&self, connection: &mut Held, oldest: Ping, bytes: &[u8]) -> Fed {
        Self::read(connection, Some(oldest), bytes)
    }

    fn feed_idle(&self, connection: &mut Held, bytes: &[u8]) -> Fed {
        Self::read(connection, None, bytes)
    }

    fn say(&self, connection: &mut Held, to: &mut Vec<u8>) {
        if let Some(machine) = &mut connection.machine {
            machine.say(to);
        }
    }

    fn closed(&self, _connection: &mut Held, _oldest: Ping) -> Progress {
        Progress::Broken(Failure { kind: ErrorKind::ClosedEarly, detail: Detail::NoClose as u32 })
    }

    fn timed_out(&self, connection: &mut Held, _number: u32, _ping: Ping) -> Failure {
        if connection.other_pong {
            return Failure { kind: ErrorKind::CorruptedReply, detail: Detail::OtherPong as u32 };
        }
        let detail = match connection.machine.as_ref().map(Machine::place) {
            Some(Place::InFrame | Place::InMessage) => Detail::NoPongInside,
            None | Some(Place::Between) => Detail::NoPong,
        };
        Failure { kind: ErrorKind::ReplyTimeout, detail: detail as u32 }
    }

    fn outcome_of_end(&self, failure: Failure) -> u16 {
        if failure.kind != ErrorKind::ClosedEarly {
            return 0;
        }
        let came = match detail::close_of(failure.detail) {
            Some(Some(code)) => Came::Close(code),
            Some(None) => Came::CloseWithoutCode,
            None => Came::End,
        };
        came.number()
    }

    fn describe(detail: u32) -> Option<&'static str> {
        detail::describe(detail)
    }
}

fn broken(consumed: usize, kind: ErrorKind, detail: u32) -> Fed {
    Fed { consumed, progress: Progress::Broken(Failure { kind, detail }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::workload::websocket::Opening;
    use testkit::websocket::{Said, frame, read_all};

    fn protocol(compress: bool) -> HoldProtocol {
        let opening = Opening { target: "/chat".into(), headers: vec![("Host".into(), "local".into())] };
        let (handshakes, subprotocols) = (vec![opening], vec![]);
        HoldProtocol::new(&HoldWebSocket { handshakes, subprotocols, compress, until_failure: false })
    }

    /// A connection whose handshake is answered, with what stands behind the answer.
    fn open(protocol: &HoldProtocol, extension: &str, behind: &[u8]) -> (Held, usize, Fed) {
        let (mut connection, mut asked) = (protocol.connection(), Vec::new());
        protocol.greeting(&mut connection, 0, 7, &mut asked);
        let asked = String::from_utf8(asked).unwrap();
        let key = asked.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{extension}\r\n"
        );
        let fed = protocol.greeted(&mut connection, 0, &[head.as_bytes(), behind].concat());
        (connection, head.len(), fed)
    }

    fn usable(protocol: &HoldProtocol) -> Held {
        let (connection, length, fed) = open(protocol, "", b"\x89\x00");
        assert!(matches!(fed.progress, Progress::Reply(_)), "{fed:?}");
        assert_eq!(fed.consumed, length, "frames behind it are left");
        connection
    }

    /// What bytes come to, and what was said to them; they are given as two pieces, cut there.
    fn fed(protocol: &HoldProtocol, ping: Option<Ping>, bytes: &[u8], cut: usize) -> (Vec<Progress>, Vec<u8>) {
        let mut connection = usable(protocol);
        let (mut all, mut said) = (Vec::new(), Vec::new());
        let mut due = ping;
        for mut piece in [&bytes[..cut], &bytes[cut..]] {
            while !piece.is_empty() {
                let fed = match due {
                    Some(ping) => protocol.feed(&mut connection, ping, piece),
                    None => protocol.feed_idle(&mut connection, piece),
                };
                assert!(fed.consumed > 0, "{fed:?}");
                piece = &piece[fed.consumed..];
                match fed.progress {
                    Progress::More => assert!(piece.is_empty()),
                    Progress::Reply(_) => due = None,
                    _ => {}
                }
                protocol.say(&mut connection, &mut said);
                if fed.progress != Progress::More {
                    all.push(fed.progress);
                }
                if matches!(fed.progress, Progress::Broken(_)) {
                    return (all, said);
                }
            }
        }
        (all, said)
    }

    const PING: Ping = Ping(0x0123_4567_89ab_cdef);
    const GOOD: Progress = Progress::Reply(Reply { status: 0, keep: true, failure: None });

    fn came(came: Came) -> Progress {
        Progress::Came(came.number())
    }

    /// Frames of the server, and what they come to however they are cut.
    #[track_caller]
    fn check(ping: Option<Ping>, frames: &[(u8, &[u8])], expected: &[Progress], says: &[Said]) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(first, bytes)| frame(*first, bytes).bytes(false, 0)).collect();
        let protocol = protocol(false);
        for cut in 0..=bytes.len() {
            let (all, said) = fed(&protocol, ping, &bytes, cut);
            assert_eq!(all, expected, "cut at {cut}");
            assert_eq!(read_all(&said, true), says, "cut at {cut}");
        }
    }

    #[test]
    fn a_ping_is_masked_and_its_payload_is_its_own() {
        let protocol = protocol(false);
        let mut connection = usable(&protocol);
        let mut bytes = Vec::new();
        protocol.write(&mut connection, 0, PING, &mut bytes);
        let ((first, is_masked, payload), rest) = testkit::websocket::read(&bytes).unwrap();
        assert_eq!((first, is_masked, &payload[..], rest), (0x89, true, &b"0123456789abcdef"[..], &b""[..]));
        assert!(bytes.len() <= protocol.written_bytes_max());
        assert_ne!(Ping(1).payload(), Ping(2).payload());
    }

    #[test]
    fn a_pong_with_the_payload_is_the_reply_and_none_other() {
        check(Some(PING), &[(0x8a, b"0123456789abcdef")], &[GOOD], &[]);
        let strange = [came(Came::Pong), came(Came::Pong), GOOD, came(Came::Pong)];
        let pongs: [(u8, &[u8]); 4] =
            [(0x8a, b""), (0x8a, b"0123456789abcdee"), (0x8a, b"0123456789abcdef"), (0x8a, b"0123456789abcdef")];
        check(Some(PING), &pongs, &strange, &[]);
        check(None, &pongs[2..3], &[came(Came::Pong)], &[]);
    }

    #[test]
    fn what_the_server_says_by_itself_is_told_and_its_pings_are_answered() {
        let frames: [(u8, &[u8]); 6] =
            [(0x81, b"news"), (0x02, b"in "), (0x89, b"there?"), (0x80, b"two"), (0x82, &[7; 300]), (0x8a, b"")];
        let told = [Came::Text, Came::Ping, Came::Binary, Came::Binary, Came::Pong].map(came);
        for ping in [None, Some(PING)] {
            check(ping, &frames, &told, &[Said::Pong(b"there?".to_vec())]);
        }
        let two = [came(Came::Ping), came(Came::Ping)];
        let pongs = [Said::Pong(b"one".to_vec()), Said::Pong(b"two".to_vec())];
        check(None, &[(0x89, b"one"), (0x89, b"two")], &two, &pongs);
    }

    #[test]
    fn a_close_is_answered_and_told_with_its_code() {
        let closed = |code| Progress::Broken(Failure { kind: ErrorKind::ClosedEarly, detail: detail::of_close(code) });
        for ping in [None, Some(PING)] {
            check(ping, &[(0x88, b"\x03\xe9gone"), (0x81, b"")], &[closed(Some(1001))], &[Said::Close(Some(1001))]);
            check(ping, &[(0x88, b"")], &[closed(None)], &[Said::Close(None)]);
        }
        let protocol = protocol(false);
        let outcome = |kind, detail| protocol.outcome_of_end(Failure { kind, detail });
        let closed = |code| outcome(ErrorKind::ClosedEarly, detail::of_close(code));
        assert_eq!(closed(Some(1001)), Came::Close(1001).number());
        assert_eq!(closed(Some(4000)), Came::Close(4000).number());
        assert_eq!(closed(None), Came::CloseWithoutCode.number());
        assert_eq!(outcome(ErrorKind::ClosedEarly, Detail::NoClose as u32), Came::End.number());
        assert_eq!(outcome(ErrorKind::BadFraming, Detail::NotUtf8 as u32), 0);
    }

    #[test]
    fn what_is_no_websocket_is_broken_and_told_the_server() {
        let bad = |detail: Detail| Progress::Broken(Failure { kind: ErrorKind::BadFraming, detail: detail as u32 });
        check(None, &[(0x83, b"")], &[bad(Detail::UnknownOpcode)], &[Said::Close(Some(1002))]);
        check(Some(PING), &[(0xc1, b"x")], &[bad(Detail::ReservedBits)], &[Said::Close(Some(1002))]);
        check(None, &[(0x81, b"\xff")], &[bad(Detail::NotUtf8)], &[Said::Close(Some(1007))]);
    }

    #[test]
    fn messages_that_are_compressed_are_not_read() {
        let protocol = protocol(true);
        let extension = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
        let (mut connection, _, opened) = open(&protocol, extension, b"");
        assert_eq!(opened.progress, GOOD);
        let message = frame(0xc1, b"\xff no DEFLATE, and no text").bytes(false, 0);
        let fed = protocol.feed_idle(&mut connection, &message);
        assert_eq!((fed.consumed, fed.progress), (message.len(), came(Came::Text)));

        let (_, _, refused) = open(&protocol, "", b"");
        let failure = Failure { kind: ErrorKind::BadFraming, detail: Detail::DeflateRefused as u32 };
        assert_eq!(refused.progress, Progress::Broken(failure));
    }

    #[test]
    fn silence_is_told_from_a_wrong_pong() {
        let protocol = protocol(false);
        let mut connection = usable(&protocol);
        let told = |connection: &mut Held| protocol.timed_out(connection, 0, PING);
        let failure = |kind, detail: Detail| Failure { kind, detail: detail as u32 };
        let mut sent = Vec::new();
        protocol.write(&mut connection, 0, PING, &mut sent);
        assert_eq!(told(&mut connection), failure(ErrorKind::ReplyTimeout, Detail::NoPong));
        protocol.feed(&mut connection, PING, b"\x81\x05ne");
        assert_eq!(told(&mut connection), failure(ErrorKind::ReplyTimeout, Detail::NoPongInside));
        protocol.feed(&mut connection, PING, b"wsy");
        protocol.feed(&mut connection, PING, b"\x8a\x01x");
        assert_eq!(told(&mut connection), failure(ErrorKind::CorruptedReply, Detail::OtherPong));
        // A pong that belonged to an earlier ping says nothing of this one.
        protocol.write(&mut connection, 1, PING, &mut sent);
        assert_eq!(told(&mut connection), failure(ErrorKind::ReplyTimeout, Detail::NoPong));
    }

    #[test]
    fn a_connection_at_rest_is_small() {
        assert!(size_of::<Held>() <= 512, "{}", size_of::<Held>());
    }
}
