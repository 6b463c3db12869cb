//! What the first line says where what comes is not what the protocol has: another protocol, no echo, bytes that nobody asked for.

use crate::common::judged::status;
use crate::common::{Build, closed};
use diagnose::diagnose;
use model::finding::{Standing, Status};
use model::plan::Workload;
use model::{ErrorKind, Event};
use testkit::recordings::{echo, get, http1};

#[test]
fn what_is_not_the_protocol_is_no_doing_of_a_load() {
    let first = |kind: ErrorKind, with: fn(&mut Build)| {
        let failing = closed().each(move |s| (s.ok, s.failed) = (0, vec![(kind, 640)])).with(with);
        let gives = diagnose(&failing.recording()).gives.unwrap();
        assert_eq!((gives.standing, &gives.finding), (Standing::Unknown, &None), "{}", gives.text);
        gives.text
    };
    assert_eq!(
        first(ErrorKind::BadFraming, |_| ()),
        "nothing that came was a reply of this protocol (all 6,400 failed, bad-framing): the target speaks another, or TLS"
    );
    let told = |b: &mut Build| {
        b.connected = 0;
        b.events.push(Event::new(0, model::event::TLS_FAILED, "what answers is not TLS".to_owned()));
    };
    assert_eq!(first(ErrorKind::TlsHandshake, told), "no TLS handshake was completed: what answers is not TLS");
    // One good reply, and it does speak it.
    let one = closed().each(|s| (s.ok, s.failed) = (0, vec![(ErrorKind::BadFraming, 640)])).at(0, |s| s.ok = 1);
    assert!(!diagnose(&one.recording()).gives.unwrap().text.contains("this protocol"));
}

#[test]
fn who_does_not_echo_is_no_server_that_mixes_up_its_buffers() {
    let first = |workload: fn() -> Workload, ok: u64| {
        let failing = closed().each(move |s| (s.ok, s.failed) = (ok, vec![(ErrorKind::CorruptedReply, 640)]));
        let gives = diagnose(&failing.with(|b| b.plan.workload = workload()).recording()).gives.unwrap();
        (gives.text, gives.finding)
    };
    let (text, finding) = first(|| echo(128), 0);
    assert_eq!(
        text,
        "nothing came back as it was sent (all 6,400 failed, corrupted-reply): the target is no echo server, or changes every message"
    );
    assert_eq!(finding, None);
    // Half of them were reset: who is no echo server does not do that.
    let half =
        closed().each(|s| (s.ok, s.failed) = (0, vec![(ErrorKind::CorruptedReply, 320), (ErrorKind::Reset, 320)]));
    let text = diagnose(&half.with(|b| b.plan.workload = echo(128)).recording()).gives.unwrap().text;
    assert!(!text.contains("no echo server"), "{text}");
    // One that came back, and it is.
    assert_eq!(first(|| echo(128), 1).1.as_deref(), Some("corrupted-reply"));
    assert_eq!(first(|| http1(get()), 0).1.as_deref(), Some("corrupted-reply"));
}

#[test]
fn bytes_that_nobody_asked_for_are_said_where_they_are_many() {
    let padded = |count| {
        let mut recording = closed().recording();
        recording.totals.sum.connection_errors.add(ErrorKind::UnsolicitedReply, count);
        diagnose(&recording)
    };
    assert!(padded(0).summary.is_empty() && padded(3).summary.is_empty());
    let summary = padded(64_000).summary;
    assert_eq!(summary[0].id, "unsolicited-replies");
    let text = "bytes that no request had asked for came on 64,000 connections, behind a reply or between two";
    assert!(summary[0].text.starts_with(text), "{summary:?}");
}

#[test]
fn what_a_server_says_to_new_connections_is_no_reply_that_is_too_long() {
    let spoke = |count, ok| {
        let mut recording = closed().recording();
        recording.totals.sum.connection_errors.add(ErrorKind::SpokeFirst, count);
        recording.totals.sum.counts.ok = ok;
        recording
    };
    assert!(diagnose(&spoke(3, 64_000)).summary.is_empty());
    for (ok, words) in [(64_000, "while others were served"), (0, "is it a server of this protocol?")] {
        let recording = spoke(64_000, ok);
        let diagnosis = diagnose(&recording);
        let remark = diagnosis.summary.iter().find(|remark| remark.id == "spoke-first").unwrap();
        assert!(remark.text.starts_with("the server spoke on 64,000 new connections"), "{remark:?}");
        assert!(remark.text.contains(words), "{remark:?}");
        assert!(diagnosis.summary.iter().all(|remark| remark.id != "unsolicited-replies"), "{:?}", diagnosis.summary);
        assert_eq!(status(&recording, "padded-reply"), Status::Refuted);
    }
}
