//! Readings of replies: a bare client, byte for byte.

use servers::http::GENERATED_LINE;

use crate::subject::Subject;
use crate::{ALL, BOTH, cases};

cases! {
    error_status: "error-status" "=429/3", 1, &["http"] => every_third_is_429;
    truncated_reply: "truncated-reply" "=3", 1, BOTH => one_is_cut;
    one_receive_reply: "one-receive-reply" "=1KiB", 1, &["echo"] => above_1024_is_cut;
    strlen_reply: "strlen-reply" "", 1, &["echo"] => ends_at_a_nul;
    padded_reply: "padded-reply" "=3", 1, BOTH => one_has_more_behind_it;
    fixed_size_reply: "fixed-size-reply" "=1KiB", 1, &["echo"] => all_are_1024;
    corrupted_reply: "corrupted-reply" "=3", 1, BOTH => one_has_a_wrong_byte;
    missing_reply: "missing-reply" "=3", 1, ALL => two_of_six_never_come;
    full_buffer_reply: "full-buffer-reply" "=1KiB", 1, &["echo"] => multiples_of_1024_never_come;
}

const BYTES: usize = 1000;

/// Bodies that are copied behind their head, made in pieces, and those of more than one.
const SIZES: [usize; 3] = [1000, 50_000, 200_000];

fn due(bytes: usize) -> Vec<u8> {
    GENERATED_LINE.iter().copied().cycle().take(bytes).collect()
}

fn path(bytes: usize) -> String {
    format!("/bytes?n={bytes}")
}

/// Whether exactly one of three replies is not as it should be, for each size.
fn one_of_three(subject: &Subject, is_sound: impl Fn(&Subject, usize) -> bool) -> Option<bool> {
    let sizes = if subject.server == "http" { &SIZES[..] } else { &SIZES[..1] };
    Some(sizes.iter().all(|bytes| (0..3).filter(|_| !is_sound(subject, *bytes)).count() == 1))
}

fn every_third_is_429(subject: &Subject) -> Option<bool> {
    let mut client = subject.connect();
    let lines = (0..6).map(|_| {
        let reply = client.get(&path(BYTES));
        assert!(reply.body == due(BYTES), "the body stays");
        reply.head.lines().next().unwrap().to_owned()
    });
    let lines: Vec<_> = lines.collect();
    let failed = lines.iter().filter(|line| *line == "HTTP/1.1 429 Too Many Requests").count();
    assert_eq!(failed + lines.iter().filter(|line| *line == "HTTP/1.1 200 OK").count(), 6, "{lines:?}");
    Some(failed == 2)
}

fn one_is_cut(subject: &Subject) -> Option<bool> {
    one_of_three(subject, |subject, bytes| {
        let mut client = subject.connect();
        if subject.server == "http" {
            let reply = client.get(&path(bytes));
            assert!(
                reply.head.contains(&format!("Content-Length: {bytes}\r\n")) && due(bytes).starts_with(&reply.body)
            );
            return !reply.is_cut;
        }
        let sent = vec![b'a'; bytes];
        let came = client.echoed(&sent);
        assert!(sent.starts_with(&came));
        came.len() == sent.len()
    })
}

fn one_has_more_behind_it(subject: &Subject) -> Option<bool> {
    if subject.server == "http" {
        let is_sound = |_: usize| {
            let mut client = subject.connect();
            client.send(format!("GET {} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", path(BYTES)).as_bytes());
            let reply = client.reply();
            assert!(reply.body == due(BYTES));
            let behind = client.rest();
            assert!(behind.iter().all(|byte| *byte == 0));
            behind.is_empty()
        };
        return Some((0..3).filter(|at| !is_sound(*at)).count() == 1);
    }
    one_of_three(subject, |subject, bytes| {
        let sent = vec![b'a'; bytes];
        let came = subject.connect().echoed(&sent);
        assert!(came.starts_with(&sent) && came[sent.len()..].iter().all(|byte| *byte == 0));
        came.len() == sent.len()
    })
}

fn one_has_a_wrong_byte(subject: &Subject) -> Option<bool> {
    one_of_three(subject, |subject, bytes| {
        let mut client = subject.connect();
        let (came, due) = if subject.server == "http" {
            (client.get(&path(bytes)).body, due(bytes))
        } else {
            let sent = vec![b'a'; bytes];
            (client.echoed(&sent), sent)
        };
        assert_eq!(came.len(), due.len(), "the length is right");
        let wrong = came.iter().zip(&due).filter(|(came, due)| came != due).count();
        assert!(wrong <= 1);
        wrong == 0
    })
}

/// Whether two of six replies never come. They are told apart by their sizes, and others come on the same connection.
fn two_of_six_never_come(subject: &Subject) -> Option<bool> {
    let mut client = subject.connect();
    // The largest has more than one piece; it is last, because it waits for the client to read.
    let sizes = [10, 20, 60_000, 30, 40, 200_000];
    let is_http = subject.server == "http";
    for bytes in sizes {
        if is_http {
            client.send_apart(format!("GET {} HTTP/1.1\r\nHost: t\r\n\r\n", path(bytes)).as_bytes());
        } else {
            // By its first byte, too: what stands behind a large one may come in pieces.
            client.send_apart(&subject.message(&[bytes as u8; 10]));
        }
    }
    client.end();
    let mut came = Vec::new();
    if is_http {
        while let Some(reply) = client.next_reply() {
            assert!(!reply.is_cut && reply.body == due(reply.body.len()));
            came.push(reply.body.len());
        }
    } else {
        let rest = subject.messages(&client.rest());
        assert_eq!(rest.len() % 10, 0);
        came.extend(rest.chunks(10).filter_map(|ten| sizes.iter().find(|bytes| ten == [**bytes as u8; 10])));
    }
    let mut left = sizes.iter();
    assert!(came.iter().all(|one| left.any(|bytes| bytes == one)), "in order: {came:?}");
    Some(came.len() == 4)
}

/// What comes back for a message of each size, on connections of their own.
fn echoed<const N: usize>(subject: &Subject, sizes: [usize; N]) -> [usize; N] {
    sizes.map(|bytes| {
        let came = subject.connect().echoed(&vec![b'a'; bytes]);
        assert!(came.iter().all(|byte| [b'a', 0].contains(byte)));
        came.len()
    })
}

fn above_1024_is_cut(subject: &Subject) -> Option<bool> {
    let sizes = [1, 1023, 1024, 1025, 5000];
    one_or_other(echoed(subject, sizes), sizes, [1, 1023, 1024, 1024, 1024])
}

fn all_are_1024(subject: &Subject) -> Option<bool> {
    let sizes = [1, 1023, 1024, 1025, 5000];
    one_or_other(echoed(subject, sizes), sizes, [1024; 5])
}

fn multiples_of_1024_never_come(subject: &Subject) -> Option<bool> {
    let sizes = [1023, 1024, 1025, 2048, 2049, 4096];
    one_or_other(echoed(subject, sizes), sizes, [1023, 0, 1025, 0, 2049, 0])
}

fn ends_at_a_nul(subject: &Subject) -> Option<bool> {
    let messages: [&[u8]; 4] = [b"abcd", b"ab\0cd", b"\0abc", b"abc\0"];
    let came = messages.map(|message| subject.connect().echoed(message).len());
    one_or_other(came, messages.map(<[u8]>::len), [4, 2, 0, 3])
}

fn one_or_other<const N: usize>(came: [usize; N], sound: [usize; N], defective: [usize; N]) -> Option<bool> {
    // While it begins, some may be the one and some the other.
    let each = came.iter().zip(sound.iter().zip(&defective));
    assert!(each.into_iter().all(|(came, (sound, defective))| came == sound || came == defective), "{came:?}");
    Some(came == defective)
}
