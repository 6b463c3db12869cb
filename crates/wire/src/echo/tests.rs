//! Every reply cut at every byte; every way a reply can be wrong, told apart.

use super::*;
use model::plan::Content;
use proptest::prelude::*;
use std::sync::LazyLock;

fn protocol(sizes: Sizes) -> EchoProtocol {
    EchoProtocol::new(&Echo { sizes, content: Content::Binary }, 7).unwrap()
}

fn sent(protocol: &EchoProtocol, payload: Payload) -> Vec<u8> {
    protocol.blobs()[payload.blob as usize][payload.start as usize..][..payload.length as usize].to_vec()
}

/// What one request comes to when `pieces` come back and then the end.
fn exchange<'a>(
    protocol: &EchoProtocol,
    request: Payload,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    then_closed: bool,
) -> Progress {
    let mut connection = protocol.connection();
    let mut any = false;
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        any = true;
        let fed = protocol.feed(&mut connection, request, piece);
        match fed.progress {
            Progress::More => assert_eq!(fed.consumed, piece.len()),
            // What is left was not asked for: the engine says the same of it.
            Progress::Reply(_) if fed.consumed < piece.len() => panic!("left {} bytes", piece.len() - fed.consumed),
            progress => {
                assert!(connection.came == 0, "state is left");
                return progress;
            }
        }
    }
    assert_eq!((connection.came > 0), any);
    let end = if then_closed {
        protocol.closed(&mut connection, request)
    } else {
        Progress::Broken(protocol.timed_out(&mut connection, 0, request))
    };
    assert!(connection.came == 0, "state is left");
    end
}

fn failed(kind: ErrorKind, detail: Detail) -> Progress {
    Progress::Broken(Failure { kind, detail: detail.number() })
}

const GOOD: Progress = Progress::Reply(Reply { status: 0, keep: true, failure: None });

#[test]
fn a_reply_is_good_however_it_is_cut() {
    let mut protocol = protocol(Sizes::Fixed(300));
    let request = protocol.next_request(0, 0x1234_5678_9abc_def0);
    let reply = sent(&protocol, request);
    assert_eq!(exchange(&protocol, request, reply.chunks(1), true), GOOD);
    for cut in 0..=reply.len() {
        assert_eq!(exchange(&protocol, request, [&reply[..cut], &reply[cut..]], true), GOOD);
    }
}

#[test]
fn wrong_replies_are_told_apart_however_they_are_cut() {
    let mut protocol = protocol(Sizes::Fixed(64));
    let request = protocol.next_request(0, 99);
    let reply = sent(&protocol, request);
    for cut in 0..=reply.len() {
        for at in 0..reply.len() {
            let mut corrupted = reply.clone();
            corrupted[at] ^= 0x40;
            let got = exchange(&protocol, request, [&corrupted[..cut], &corrupted[cut..]], true);
            assert_eq!(got, failed(ErrorKind::CorruptedReply, Detail::DiffersAt(at as u32)), "{at} cut at {cut}");
            let mut longer = corrupted.clone();
            longer.push(b'x');
            let got = exchange(&protocol, request, [longer.as_slice()], true);
            assert_eq!(got, failed(ErrorKind::CorruptedReply, Detail::DiffersAt(at as u32)), "and longer");
        }
        for end in cut.max(1)..reply.len() {
            let pieces = [&reply[..cut], &reply[cut..end]];
            let came = Detail::CameBack(end as u32);
            assert_eq!(exchange(&protocol, request, pieces, true), failed(ErrorKind::TruncatedReply, came));
            assert_eq!(exchange(&protocol, request, pieces, false), failed(ErrorKind::ShortReply, came));
        }
        let padded = [reply.as_slice(), b"xyz"].concat();
        if cut < reply.len() {
            let got = exchange(&protocol, request, [&padded[..cut], &padded[cut..]], true);
            assert_eq!(got, failed(ErrorKind::PaddedReply, Detail::Extra(3)), "cut at {cut}");
        }
    }
    let nothing = Detail::CameBack(0);
    assert_eq!(exchange(&protocol, request, [], true), failed(ErrorKind::MissingReply, nothing));
    assert_eq!(exchange(&protocol, request, [], false), failed(ErrorKind::ReplyTimeout, nothing));
}

#[test]
fn pipelined_replies_in_one_piece_are_each_their_own() {
    let mut protocol = protocol(Sizes::List(vec![5, 1, 300])).pipelined(true);
    let requests: Vec<_> = (0..7).map(|n| protocol.next_request(0, n * 0x0123_4567_89ab_cdef)).collect();
    let replies: Vec<u8> = requests.iter().flat_map(|request| sent(&protocol, *request)).collect();
    let mut connection = protocol.connection();
    let mut rest = replies.as_slice();
    for request in &requests {
        let fed = protocol.feed(&mut connection, *request, rest);
        assert_eq!((fed.consumed, fed.progress), (request.length as usize, GOOD));
        rest = &rest[fed.consumed..];
    }
    assert!(rest.is_empty());
}

#[test]
fn sizes_and_places_are_drawn_as_the_plan_says() {
    let mut fixed = protocol(Sizes::Fixed(1));
    let pool = fixed.blobs()[0].len() as u32;
    assert_eq!(fixed.next_request(0, 0), Payload { blob: 0, start: 0, length: 1 });
    assert_eq!(fixed.next_request(0, u64::MAX), Payload { blob: 0, start: pool - 1, length: 1 });

    let mut range = protocol(Sizes::Range(3, 7));
    let mut counts = [0u32; 8];
    for n in 0..5000u64 {
        let payload = range.next_request(0, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert!(payload.start + payload.length <= pool);
        counts[payload.length as usize] += 1;
    }
    assert_eq!(counts[..3], [0; 3]);
    assert!(counts[3..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");

    let mut list = protocol(Sizes::List(vec![9, 2, 5]));
    let lengths: Vec<_> = (0..7).map(|n| list.next_request(0, n).length).collect();
    assert_eq!(lengths, [9, 2, 5, 9, 2, 5, 9]);

    let mut largest = protocol(Sizes::Fixed(ECHO_BYTES_MAX));
    let payload = largest.next_request(0, u64::MAX);
    assert_eq!(payload.start as usize + payload.length as usize, POOL_BYTES_MAX);
}

#[test]
fn sizes_that_cannot_be_sent_are_refused() {
    let refuse = |sizes| EchoProtocol::new(&Echo { sizes, content: Content::Text }, 0).unwrap_err();
    assert!(matches!(refuse(Sizes::Fixed(0)), WireError::Size { size: 0 }));
    assert!(matches!(refuse(Sizes::Range(0, 5)), WireError::Size { size: 0 }));
    assert!(matches!(refuse(Sizes::Range(5, 4)), WireError::SizeRange { low: 5, high: 4 }));
    assert!(matches!(refuse(Sizes::Range(5, u32::MAX)), WireError::Size { size: u32::MAX }));
    assert!(matches!(refuse(Sizes::List(vec![])), WireError::NoSizes));
    assert!(matches!(refuse(Sizes::List(vec![5, ECHO_BYTES_MAX + 1])), WireError::Size { .. }));
}

#[test]
fn a_connection_keeps_no_bytes() {
    assert!(size_of::<Connection>() <= 8);
}

/// Made once: its pool has room for every start and size below.
static ANY_SIZE: LazyLock<EchoProtocol> = LazyLock::new(|| protocol(Sizes::Fixed(1)));

proptest! {
    #[test]
    fn any_cuts_give_the_same(size in 1u32..400, start in 0..(POOL_BYTES_MIN as u32 - 400), mut cuts in proptest::collection::vec(0usize..400, 0..6), flip in proptest::option::of(0usize..400)) {
        let protocol = &*ANY_SIZE;
        let request = Payload { blob: 0, start, length: size };
        let mut reply = sent(protocol, request);
        let expected = match flip {
            Some(at) if at < reply.len() => {
                reply[at] ^= 1;
                failed(ErrorKind::CorruptedReply, Detail::DiffersAt(at as u32))
            }
            _ => GOOD,
        };
        cuts.retain(|cut| *cut <= reply.len());
        cuts.extend([0, reply.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|w| &reply[w[0]..w[1]]).collect();
        prop_assert_eq!(exchange(protocol, request, pieces, true), expected);
    }
}
