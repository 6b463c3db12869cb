//! What costs many times more than the rest: seen in the target, and from the client's side alone.

use crate::common::judged::{of, sampled, status};
use crate::common::stalled::paused;
use crate::common::{SECOND, closed};
use diagnose::diagnose;
use model::Recording;
use model::bpf::{BpfSample, Log2};
use model::finding::{LossKind, Severity, Status};
use model::request::Request;
use model::split::{Passage, SplitRequest, TickSplit};

const MS: u64 = 1_000_000;

/// Requests of two entries: one of ten is of the second, takes so long, and its reply has so many bytes; others 1 ms.
fn mixed(costly_ms: u64, bytes: u32, in_target_ms: Option<u64>) -> Recording {
    mixed_after(0, costly_ms, bytes, in_target_ms)
}

/// The same, where each waited so long for a connection.
fn mixed_after(queued_ms: u64, costly_ms: u64, bytes: u32, in_target_ms: Option<u64>) -> Recording {
    let mut recording = closed().each(|s| (s.ok, s.response_ns) = (12_800, 5 * MS)).recording();
    let request = |n: u64| {
        let is_costly = n.is_multiple_of(10);
        // Of the cheap ones some stand behind a costly one.
        let cheap_ms = if n % 10 == 1 { costly_ms } else { 1 };
        let took_ms = if is_costly { costly_ms } else { cheap_ms };
        Request {
            entry: u16::from(is_costly),
            received_bytes: if is_costly { bytes } else { 200 },
            ready_ns: SECOND,
            sent_ns: SECOND + queued_ms * MS,
            ended_ns: SECOND + (queued_ms + took_ms) * MS,
            ..Request::default()
        }
    };
    sampled(&mut recording, 400, request);
    if let Some(in_target_ms) = in_target_ms {
        let split = |n: u64| {
            let request = request(n);
            let took_ns = if request.entry == 1 { in_target_ms * MS } else { MS / 2 };
            let passage = Passage { arrived_ns: SECOND, read_ns: SECOND, written_ns: SECOND + took_ns };
            SplitRequest { key: n, below: None, request, passage: Ok(passage) }
        };
        recording.split.push(&TickSplit { sampled: (0..100).map(split).collect(), ..TickSplit::default() });
    }
    recording
}

#[test]
fn a_path_is_slow_where_the_target_takes_longer_for_it() {
    let found = mixed(20, 200, Some(19));
    assert_eq!(status(&found, "slow-path"), Status::Supported);
    let diagnosis = diagnose(&found);
    let finding = of(&diagnosis, "slow-path");
    assert_eq!(finding.explains.as_ref().map(|explains| explains.of), Some(LossKind::Slow), "{finding:#?}");
    assert!(finding.explains.is_some_and(|explains| explains.share > 0.9), "{finding:#?}");
    // The probes' windows saw cheap requests, nearly all, which are served at once: those behind a costly one are late by it all the same.
    let mut missed = found.clone();
    let histogram = Log2 { sum: 40 * MS / 50, buckets: [vec![0; 14], vec![40]].concat() };
    for snapshot in &mut missed.snapshots {
        let histograms = [("sockets.service_ns".to_owned(), histogram.clone())].into();
        snapshot.bpf = Some(BpfSample { histograms, ..BpfSample::default() });
    }
    let seen = of(&diagnose(&missed), "slow-path").clone();
    assert_eq!((seen.severity, seen.explains.map(|e| e.of)), (Severity::Error, Some(LossKind::Slow)), "{seen:#?}");
    assert_eq!(status(&mixed(20, 200, Some(1)), "slow-path"), Status::Refuted, "it waits elsewhere");
    assert_eq!(status(&mixed(20, 200 * 20, Some(19)), "slow-path"), Status::Refuted, "its replies are as much larger");
    assert_eq!(status(&mixed(4, 200, Some(4)), "slow-path"), Status::Refuted, "four times is not five");
    // Where more is asked for than is carried, all wait three seconds for a connection, and it is slow all the same.
    let queued = mixed_after(3000, 20, 200, Some(19));
    assert_eq!(status(&queued, "slow-path"), Status::Supported);
    let from_outside = mixed(20, 200, None);
    assert_eq!(status(&from_outside, "slow-path"), Status::NotObservable);
    let first = diagnose(&from_outside).gives.unwrap().text;
    assert!(
        first.contains("; 1 of 2 kinds of request (10 % of all requests) took ")
            && first.contains("the usual ones 1.00 ms; why is not known"),
        "{first}"
    );
    assert!(first.contains("; `--observe windows` tells how long the target is at them"), "{first}");
    let mut stepped = from_outside.clone();
    stepped
        .snapshots
        .iter_mut()
        .skip(5)
        .for_each(|s| s.wall_offset_ns = s.wall_offset_ns.map(|ns| ns + 3_600_000_000_000));
    let no_result = diagnose(&stepped).gives.unwrap().text;
    assert!(
        !no_result.contains("kinds of request"),
        "where the generator may be why, nothing else is said to be: {no_result}"
    );
    assert_eq!(status(&paused(&[], 0, 1), "slow-path"), Status::NotApplicable, "one URL");
}
