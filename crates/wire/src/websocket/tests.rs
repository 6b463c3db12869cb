//! The table of cases against the client's machine, cut at every byte; compression; messages as a load sends them.

use super::deflate::Deflate;
use super::*;
use crate::WireError;
use model::plan::{Content, Sizes};
use testkit::websocket::{Frame, Said, cases, frame, read_all};

/// Longer messages than this are not taken.
const LIMIT: u64 = 70_000;
const FIN: u8 = 0x80;

/// What a machine receives and answers when `pieces` come.
fn said<'a>(machine: &mut Machine, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Said>, Detail> {
    let (mut said, mut message, mut fault) = (Vec::new(), Vec::new(), None);
    for piece in pieces {
        let mut rest = piece;
        loop {
            let (taken, event) = machine.take(rest);
            rest = &rest[taken..];
            match event {
                Event::More => break,
                Event::Data(data) => {
                    assert!(!data.is_empty());
                    message.extend_from_slice(data);
                }
                Event::End(Kind::Text) => said.push(Said::Text(std::mem::take(&mut message))),
                Event::End(Kind::Binary) => said.push(Said::Binary(std::mem::take(&mut message))),
                Event::Pinged | Event::Pong(_) | Event::Closed(_) => {}
                Event::Bad(detail) => {
                    fault = Some(detail);
                    break;
                }
            }
            said.extend(answers(machine));
        }
        said.extend(answers(machine));
    }
    match fault {
        Some(detail) if !matches!(said.last(), Some(Said::Close(_))) => Err(detail),
        _ => Ok(said),
    }
}

/// What it owes, as it is read.
fn answers(machine: &mut Machine) -> Vec<Said> {
    let mut bytes = Vec::new();
    machine.say(&mut bytes);
    assert!(bytes.len() <= SAID_BYTES_MAX);
    read_all(&bytes, true)
}

fn plain() -> Machine {
    Machine::new(&Agreed::default(), LIMIT, 7)
}

fn compressed(server_bits: u8, server_no_context_takeover: bool) -> Machine {
    let deflate = DeflateAgreed {
        server_no_context_takeover,
        client_no_context_takeover: false,
        server_window_bits: server_bits,
        client_window_bits: 15,
    };
    Machine::new(&Agreed { subprotocol: None, deflate: Some(deflate) }, LIMIT, 7)
}

#[test]
fn every_case_of_the_table_is_answered_however_it_is_cut() {
    let cases = cases();
    assert!(cases.len() > 200, "{}", cases.len());
    for case in cases {
        let bytes = case.bytes(false);
        let check = |pieces: Vec<&[u8]>, how: &str| {
            assert_eq!(said(&mut plain(), pieces).as_ref(), Ok(&case.said), "{}, {how}", case.name);
        };
        check(vec![&bytes], "whole");
        check(bytes.chunks(1).collect(), "byte by byte");
        let cuts = if bytes.len() < 1000 { 1 } else { bytes.len() / 97 };
        for at in (0..=bytes.len()).step_by(cuts) {
            check(vec![&bytes[..at], &bytes[at..]], &format!("cut at {at}"));
        }
    }
}

#[test]
fn failures_are_told_apart() {
    let reserved = frame(FIN | 0x42, b"");
    let masked = Frame { mask_is_wrong: true, ..frame(0x82, b"") };
    let not_minimal = Frame { extended: Some(2), ..frame(0x82, b"five.") };
    let huge = Frame { length: Some(1 << 63), ..frame(0x82, b"") };
    for (frames, detail) in [
        (vec![reserved], Detail::ReservedBits),
        (vec![frame(0x83, b"")], Detail::UnknownOpcode),
        (vec![masked], Detail::MaskedFrame),
        (vec![frame(0x89, &[0; 126])], Detail::ControlTooLong),
        (vec![frame(0x09, b"")], Detail::ControlFragmented),
        (vec![not_minimal], Detail::LengthNotMinimal),
        (vec![huge], Detail::LengthTooLarge),
        (vec![frame(0x80, b"")], Detail::NothingToContinue),
        (vec![frame(0x01, b""), frame(0x82, b"")], Detail::MessageInMessage),
        (vec![frame(0x81, b"\xff")], Detail::NotUtf8),
        (vec![frame(0x82, &vec![0; LIMIT as usize + 1])], Detail::MessageTooLong),
        (vec![frame(0x88, b"\x03")], Detail::CloseTooShort),
        (vec![frame(0x88, b"\x03\xed")], Detail::CloseCode),
        (vec![frame(0x88, b"\x03\xe8\xff")], Detail::CloseReason),
    ] {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes(false, 0)).collect();
        let mut machine = plain();
        let mut rest = &bytes[..];
        let got = loop {
            let (taken, event) = machine.take(rest);
            rest = &rest[taken..];
            match event {
                Event::Bad(detail) => break detail,
                Event::More => panic!("{detail:?}: nothing was found"),
                _ => {}
            }
        };
        assert_eq!(got, detail);
        assert_eq!(machine.take(b"\x81\x00"), (2, Event::Bad(detail)), "it stays so");
    }
}

/// Frames of compressed messages, as a server sends them.
fn deflated(first: u8, message: &[u8], fragment: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    Deflate::new(15).message(message, &mut payload);
    let pieces: Vec<&[u8]> = payload.chunks(fragment).collect();
    let last = pieces.len() - 1;
    let frames = pieces.iter().enumerate().map(|(at, piece)| {
        let opcode = if at == 0 { 0x40 | first } else { 0 };
        frame(opcode | if at == last { FIN } else { 0 }, piece)
    });
    frames.flat_map(|frame| frame.bytes(false, 0)).collect()
}

#[test]
fn compressed_messages_are_read_however_they_are_cut() {
    let text = "κόσμε, und so weiter. ".repeat(60);
    let mut bytes = deflated(1, text.as_bytes(), 11);
    bytes.extend(frame(0x89, b"between").bytes(false, 0));
    bytes.extend(frame(0x81, b"plain").bytes(false, 0));
    bytes.extend(deflated(2, b"", 1));
    bytes.extend(deflated(2, &[7; 70_000], 30));
    let expected = vec![
        Said::Text(text.into_bytes()),
        Said::Pong(b"between".to_vec()),
        Said::Text(b"plain".to_vec()),
        Said::Binary(Vec::new()),
        Said::Binary(vec![7; 70_000]),
    ];
    for (bits, forgets) in [(15, false), (15, true), (8, false), (11, true)] {
        // Distances of these messages are short enough for any window.
        let check = |pieces: Vec<&[u8]>| {
            let got = said(&mut compressed(bits, forgets), pieces);
            assert!(got.as_ref() == Ok(&expected), "{bits} {forgets}: {got:?}");
        };
        check(vec![&bytes]);
        check(bytes.chunks(1).collect());
        (0..bytes.len()).for_each(|at| check(vec![&bytes[..at], &bytes[at..]]));
    }
}

#[test]
fn compressed_messages_that_are_none_close_the_connection() {
    let bomb = deflated(2, &vec![0; LIMIT as usize + 1], usize::MAX);
    let not_text = deflated(1, b"good, then \xff", 5);
    let bytes = |frames: Vec<Frame>| frames.iter().flat_map(|frame| frame.bytes(false, 0)).collect::<Vec<_>>();
    for (bytes, code) in [
        (bomb, 1009),
        (not_text, 1007),
        (bytes(vec![frame(0xc2, b"\x06")]), 1007),
        (bytes(vec![frame(0xc2, b"\xf2\x48\xcd")]), 1007),
        (bytes(vec![frame(0xc2, b"")]), 1007),
        (bytes(vec![frame(0x42, b"\xf2\x48"), frame(0xc0, b"")]), 1002),
        (bytes(vec![frame(0xc9, b"")]), 1002),
        // Empty blocks without end.
        (bytes(vec![frame(0xc2, &b"\0\0\0\xff\xff".repeat(200_000))]), 1009),
    ] {
        for piece in [1, 1000, usize::MAX] {
            let got = said(&mut compressed(15, false), bytes.chunks(piece)).unwrap();
            assert_eq!(got.last(), Some(&Said::Close(Some(code))), "{code}, in pieces of {piece}");
        }
    }
}

#[test]
fn our_close_is_the_last_that_is_said() {
    let mut machine = plain();
    let ping = |payload: &[u8]| frame(0x89, payload).bytes(false, 0);
    for payload in [&b"first"[..], &[7; 125]] {
        assert_eq!(machine.take(&ping(payload)).1, Event::Pinged);
    }
    machine.close(NORMAL);
    machine.close(1001);
    assert!(machine.is_closing());
    let last = [Said::Pong(vec![7; 125]), Said::Close(Some(1000))];
    assert_eq!(answers(&mut machine), last, "of pings that were not answered in time the last one is");
    // What the peer still says is heard, and answered by nothing.
    let rest = [ping(b"p"), frame(0x81, b"last").bytes(false, 0), frame(0x88, b"\x03\xe8").bytes(false, 0)];
    assert_eq!(said(&mut machine, [rest.concat().as_slice()]), Ok(vec![Said::Text(b"last".to_vec())]));
    assert_eq!(machine.place(), Place::Between);
}

#[test]
fn keys_of_frames_differ() {
    let mut machine = plain();
    let mut keys = std::collections::BTreeSet::new();
    for _ in 0..100 {
        machine.take(&frame(0x89, b"").bytes(false, 0));
        let mut pong = Vec::new();
        machine.say(&mut pong);
        keys.insert(pong[2..6].to_vec());
    }
    assert_eq!(keys.len(), 100);
}

#[test]
fn a_connection_without_compression_is_small() {
    assert!(size_of::<Reader>() <= 256, "{}", size_of::<Reader>());
    assert!(size_of::<Machine>() <= 416, "{}", size_of::<Machine>());
}

fn shape(kind: Kind, sizes: Sizes) -> Shape {
    Shape { kind, sizes, content: Content::Binary, fragment_bytes: None, window_bits: None }
}

#[test]
fn messages_are_written_once_and_found_again() {
    for (kind, fragment_bytes, window_bits) in [
        (Kind::Binary, None, None),
        (Kind::Text, Some(100), None),
        (Kind::Binary, Some(7), Some(15)),
        (Kind::Text, None, Some(9)),
    ] {
        let shape = Shape { fragment_bytes, window_bits, ..shape(kind, Sizes::Range(1, 3000)) };
        let mut messages = Messages::new(&shape, 5).unwrap();
        let blob = messages.blob();
        assert_eq!(blob, Messages::new(&shape, 5).unwrap().blob(), "the same seed, the same messages");
        let mut machine = compressed(window_bits.unwrap_or(15), false);
        let mut masks = crate::random::SplitMix64::new(1);
        let (mut keys, mut wide) = (std::collections::BTreeSet::new(), 0);
        for _ in 0..300 {
            let request = messages.draw(masks.bits());
            let mut bytes = &blob[request.start as usize..][..request.length as usize];
            let mut unmasked = Vec::new();
            while !bytes.is_empty() {
                let ((first, is_masked, payload), rest) = testkit::websocket::read(bytes).unwrap();
                assert!(is_masked && payload.len() <= fragment_bytes.unwrap_or(usize::MAX));
                let head = bytes.len() - rest.len() - payload.len();
                keys.insert(bytes[head - 4..head].to_vec());
                unmasked.extend(frame(first, &payload).bytes(false, 0));
                bytes = rest;
            }
            let message = messages.message(request).to_vec();
            wide += message.iter().filter(|byte| !byte.is_ascii()).count();
            let expected = if kind == Kind::Text { Said::Text(message) } else { Said::Binary(message) };
            assert_eq!(said(&mut machine, [unmasked.as_slice()]), Ok(vec![expected]));
        }
        assert!(keys.len() > 200 && wide > 100, "{} {wide}", keys.len());
    }
}

#[test]
fn sizes_of_a_list_come_in_turn_and_bad_ones_are_refused() {
    let mut messages = Messages::new(&shape(Kind::Binary, Sizes::List(vec![9, 2, 500])), 1).unwrap();
    let lengths: Vec<usize> = (0..3000)
        .map(|n| {
            let request = messages.draw(n);
            messages.message(request).len()
        })
        .collect();
    assert!(lengths.chunks(3).all(|three| three == [9, 2, 500]));
    let refuse = |sizes| Messages::new(&shape(Kind::Binary, sizes), 0).unwrap_err();
    assert!(matches!(refuse(Sizes::Fixed(0)), WireError::Size { size: 0 }));
    assert!(matches!(refuse(Sizes::Range(5, 4)), WireError::SizeRange { low: 5, high: 4 }));
    assert!(matches!(refuse(Sizes::List(vec![])), WireError::NoSizes));
    let largest = Messages::new(&shape(Kind::Binary, Sizes::Fixed(20_000_000)), 0).unwrap();
    assert_eq!(largest.blob().len(), 20_000_000 + 14, "one is written in any case");
}

/// A few frames, mostly in order, with a byte that is not.
fn almost_frames() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let first =
        prop_oneof![Just(0x81_u8), Just(0x82), Just(1), Just(0), Just(0x80), Just(0x89), Just(0xc1), Just(0x88)];
    let payload =
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..20), Just(b"\xf2\x48\xcd\xc9\xc9\x07\0".to_vec())];
    let frames = proptest::collection::vec((first, payload), 1..6);
    (frames, proptest::option::of((any::<proptest::sample::Index>(), any::<u8>()))).prop_map(|(frames, wrong)| {
        let mut bytes: Vec<u8> =
            frames.iter().flat_map(|(first, payload)| frame(*first, payload).bytes(false, 0)).collect();
        if let Some((at, byte)) = wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in almost_frames(), cuts: Vec<proptest::sample::Index>, deflate: bool) {
        let machine = || if deflate { compressed(9, false) } else { plain() };
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.extend([0, bytes.len()]);
        ends.sort_unstable();
        let pieces = ends.windows(2).map(|two| &bytes[two[0]..two[1]]);
        let whole = said(&mut machine(), [bytes.as_slice()]);
        proptest::prop_assert_eq!(said(&mut machine(), pieces), whole.clone());
        proptest::prop_assert_eq!(said(&mut machine(), bytes.chunks(1)), whole);
    }
}
