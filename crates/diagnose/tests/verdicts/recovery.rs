//! What a disruption did, for whom, and how long until as before: recordings with faults at known moments.

use crate::common::{Build, SECOND, closed};
use diagnose::diagnose;
use diagnose::recovery::sentence::sentence;
use model::event::{Details, FAULT_BEGAN, FAULT_REFUSED, FAULT_UNDONE, OUTAGE};
use model::finding::Diagnosis;
use model::recovery::Recovery;
use model::snapshot::Role;
use model::{ErrorKind, Event};

const MS: u64 = 1_000_000;

fn event(kind: &str, at_ms: u64, text: &str, details: Details) -> Event {
    Event::new((at_ms * MS) as i64, kind, text).with(details)
}

fn of_fault(kind: &str, at_ms: u64, number: u32, name: &str) -> Event {
    let details = Details { fault: Some(number), of_kind: Some(name.to_owned()), ..Details::default() };
    event(kind, at_ms, &format!("{name} was asked for"), details)
}

fn outage(from_ms: u64, took_ms: Option<u64>) -> Event {
    let details = Details {
        took_ns: took_ms.map(|ms| ms * MS),
        times: Some(999),
        first_failed_ns: Some((from_ms + 1) * MS),
        last_failed_ns: Some((from_ms + 2) * MS),
        ..Details::default()
    };
    event(OUTAGE, from_ms, "nothing succeeded", details)
}

/// 6,400 requests a second; crashed at 4.2 s, and nobody there until 6.3 s. In the tenth second all is a little quicker.
fn crashed() -> Build {
    closed()
        .at(4, |s| (s.ok, s.failed) = (1280, vec![(ErrorKind::Reset, 60), (ErrorKind::ClosedEarly, 4)]))
        .at(5, |s| (s.ok, s.failed, s.connections) = (0, vec![(ErrorKind::Refused, 300)], 0))
        .at(6, |s| {
            (s.ok, s.failed, s.connections) = (3000, vec![(ErrorKind::Refused, 100), (ErrorKind::ReplyTimeout, 2)], 61);
            s.response_ns = 30_000_000;
        })
        .at(7, |s| (s.ok, s.response_ns, s.connections) = (6400, 15_000_000, 61))
        .at(8, |s| (s.ok, s.connections) = (8000, 61))
        .at(9, |s| s.connections = 61)
        .with(|b| b.events.push(outage(4199, Some(2101))))
}

fn told(build: &Build) -> (Vec<Recovery>, Diagnosis) {
    let diagnosis = diagnose(&build.recording());
    (diagnosis.recoveries.clone(), diagnosis)
}

#[test]
fn a_crash_is_told_with_its_moments_its_victims_and_its_end() {
    let build = crashed().with(|b| {
        b.events.push(of_fault(FAULT_BEGAN, 4200, 1, "oops"));
        b.events.push(of_fault(FAULT_UNDONE, 4201, 1, "oops"));
    });
    let (all, diagnosis) = told(&build);
    let [r] = &all[..] else { panic!("{all:#?}") };
    assert_eq!((r.fault, &*r.name, r.at_s, r.undone_at_s), (Some(1), "oops", 4.2, Some(4.201)));
    assert_eq!((r.last_success_s, r.first_failure_s, r.first_success_s), (Some(4.199), Some(4.2), Some(6.3)));
    assert_eq!((r.outage_s, r.outages), (Some(2.101), 1));
    assert_eq!((r.failed.requests, r.failed.refused, r.failed.aborted, r.failed.unanswered), (466, 400, 64, 2));
    assert_eq!(r.failed.per_s_max, 300.0);
    let (throughput, p99) = (r.throughput.unwrap(), r.response_p99_us.unwrap());
    assert_eq!((throughput.before, throughput.worst, throughput.back_s), (6400.0, Some(0.0), Some(7.0)));
    assert!(p99.has_left && p99.worst.is_none(), "a second without a success has no quantile: {p99:?}");
    assert_eq!((p99.back_s, r.recovered_s), (Some(8.0), Some(8.0)));
    assert_eq!(r.overshoot, Some(0.25));
    let connections = r.connections.unwrap();
    assert_eq!((connections.before, connections.least, connections.never_back), (64, 0, 3));
    assert_eq!((r.resolution.intervals_s, r.resolution.moments_s), (1.0, model::limits::LOOKOUT_NS as f64 / 1e9));
    let said = &diagnosis.summary.iter().find(|remark| remark.id == "disrupted").unwrap().text;
    assert!(said.starts_with("oops at 4.200 s: nothing succeeded for 2.10 s (from 4.199 s to 6.300 s)"), "{said}");
    assert!(said.contains("466 requests failed (400 refused, 64 aborted, 2 unanswered)"), "{said}");
    assert!(said.contains("all was as before after 3.80 s (known to 1.00 s)"), "{said}");
}

#[test]
fn what_befell_the_target_by_itself_has_its_name_and_what_is_not_known_has_none() {
    let died = Details { signal: Some(9), ..Details::default() };
    let build = crashed().with(|b| b.events.push(event("target-exit", 4205, "nginx was ended by SIGKILL", died)));
    let (all, _) = told(&build);
    let [r] = &all[..] else { panic!("{all:#?}") };
    assert_eq!((r.fault, &*r.name, &*r.what), (None, "process-crash", "nginx was ended by SIGKILL"));
    assert_eq!((r.at_s, r.recovered_s), (4.199, Some(8.0)));
    assert_eq!(told(&crashed()).0[0].name, "outage");
    // An end in order, long before, is not its reason.
    let ended = Details { exit_code: Some(0), ..Details::default() };
    let build = crashed().with(|b| b.events.push(event("target-exit", 4205, "a worker ended", ended)));
    assert_eq!(told(&build).0[0].name, "outage");
    assert!(told(&closed()).0.is_empty(), "a sound run has none");
}

#[test]
fn a_fault_that_was_refused_or_did_nothing_says_so() {
    let refused = of_fault(FAULT_REFUSED, 3000, 2, "loss");
    let done = of_fault(FAULT_BEGAN, 5000, 1, "nice");
    let build = closed().with(|b| b.events.extend([refused, done]));
    let (all, diagnosis) = told(&build);
    let [loss, nice] = &all[..] else { panic!("{all:#?}") };
    assert_eq!((loss.fault, loss.refused.as_deref(), loss.recovered_s), (Some(2), Some("loss was asked for"), None));
    assert!(sentence(loss, "request").contains("was not done"), "{}", sentence(loss, "request"));
    assert!(!nice.has_done_anything() && nice.recovered_s == Some(5.0), "{nice:#?}");
    assert_eq!(sentence(nice, "request"), "nice at 5.000 s: the load shows nothing of it");
    assert!(diagnosis.summary.iter().any(|remark| remark.id == "disrupted"));
}

#[test]
fn of_two_faults_each_has_its_own_and_one_without_end_says_so() {
    let second = of_fault(FAULT_BEGAN, 8500, 2, "kill");
    let build = crashed()
        .at(8, |s| (s.ok, s.failed) = (3200, vec![(ErrorKind::Reset, 64)]))
        .at(9, |s| (s.ok, s.failed, s.connections) = (0, vec![(ErrorKind::Refused, 10)], 0))
        .with(|b| b.events.extend([of_fault(FAULT_BEGAN, 4200, 1, "oops"), second, outage(8500, None)]));
    let (all, _) = told(&build);
    let [oops, kill] = &all[..] else { panic!("{all:#?}") };
    assert_eq!((oops.outages, oops.failed.requests, oops.until_s), (1, 466, 8.5));
    assert_eq!((kill.outages, kill.outage_s, kill.first_success_s, kill.recovered_s), (1, None, None, None));
    assert_eq!((kill.failed.aborted, kill.failed.refused), (64, 10));
    let said = sentence(kill, "request");
    assert!(said.contains("nothing succeeded from 8.500 s to the end of the run"), "{said}");
    let again = Recovery { outages: 3, first_success_s: Some(9.1), ..kill.clone() };
    let said = sentence(&again, "request");
    let spans = "nothing succeeded in 3 spans, the first from 8.500 s to 9.100 s, the last to the end of the run";
    assert!(said.contains(spans), "{said}");
    assert!(said.contains("throughput and p99 not as before until 10.0 s"), "{said}");
}

#[test]
fn memory_that_a_crash_frees_is_told_as_what_it_is() {
    let mut recording = crashed().with(|b| b.events.push(of_fault(FAULT_BEGAN, 4200, 1, "oops"))).recording();
    for snapshot in &mut recording.snapshots {
        let bytes = if snapshot.at_ns < 5 * SECOND as i64 { 25 << 20 } else { 20 << 20 };
        snapshot.processes.iter_mut().filter(|p| p.role == Role::Target).for_each(|p| p.rss_bytes = Some(bytes));
    }
    let diagnosis = diagnose(&recording);
    let memory = diagnosis.recoveries[0].memory.unwrap();
    assert_eq!((memory.before, memory.least, memory.freed()), (25 << 20, 20 << 20, 5 << 20));
    let said = &diagnosis.summary.iter().find(|remark| remark.id == "disrupted").unwrap().text;
    assert!(said.contains("of memory was freed by it, and what that held may be lost"), "{said}");
}
