//! Recordings with what a test adds to them, and what a cause is found to be in them.

use super::{Build, closed};
use diagnose::diagnose;
use model::finding::{Diagnosis, Finding, Source, Status};
use model::request::{IntervalRequests, Kept, Request};
use model::snapshot::Snapshot;
use model::{LatencyKind, Recording};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;

/// A recording whose snapshots a test adds to: each with its second, from 0 on.
pub fn with(build: Build, change: impl Fn(u64, &mut Snapshot)) -> Recording {
    let mut recording = build.recording();
    recording.snapshots.iter_mut().enumerate().for_each(|(second, snapshot)| change(second as u64, snapshot));
    recording
}

pub fn of<'d>(diagnosis: &'d Diagnosis, id: &str) -> &'d Finding {
    diagnosis.findings.iter().find(|finding| finding.id == id).unwrap()
}

#[track_caller]
pub fn status(recording: &Recording, id: &str) -> Status {
    let diagnosis = diagnose(recording);
    let finding = of(&diagnosis, id);
    if finding.status == Status::Supported {
        let sources: BTreeSet<Option<Source>> = finding.because.iter().map(|e| e.source).collect();
        assert!(sources.len() >= 2, "{finding:#?}");
        assert!(!finding.remedy.is_empty() && !finding.check_yourself.is_empty(), "{finding:#?}");
        assert_is_shell(&finding.check_yourself);
    }
    finding.status
}

/// That a line can be pasted into a shell: it is looked at, and not run.
#[track_caller]
fn assert_is_shell(line: &str) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SEEN.lock().unwrap().insert(line.to_owned()) {
        let said = Command::new("bash").args(["-n", "-c", line]).output().unwrap();
        assert!(said.status.success(), "{line}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

/// One of the sample of a tick that lacks none, however many it has.
pub fn one_of_all(key: u64, request: Request) -> Kept {
    Kept { below: Some(u64::MAX), ..Kept::new(key, request) }
}

/// Lets a run's histograms be of these requests: as many of each as make all of those that the run had.
pub fn told<'r>(recording: &mut Recording, requests: impl Iterator<Item = &'r Request> + Clone) {
    let latency = &mut recording.totals.sum.latency;
    let each = latency.of(LatencyKind::Response).len() / requests.clone().count().max(1) as u64;
    for kind in [LatencyKind::Response, LatencyKind::Undelayed, LatencyKind::Service] {
        latency.of_mut(kind).reset();
    }
    for request in requests {
        // Tests do not say when one was due: it was taken up then.
        let response_ns = request.ended_ns.saturating_sub(request.ready_ns);
        latency.of_mut(LatencyKind::Response).record_n(response_ns, each.max(1));
        latency.of_mut(LatencyKind::Undelayed).record_n(response_ns, each.max(1));
        if let Some(ns) = request.service_ns() {
            latency.of_mut(LatencyKind::Service).record_n(ns, each.max(1));
        }
    }
}

/// The sample of a run's requests: so many, each made from its number.
pub fn sampled(recording: &mut Recording, count: u64, request: impl Fn(u64) -> Request) {
    let mut tick = IntervalRequests::default();
    for key in 0..count {
        tick.sampled.offer(1000, one_of_all(key, request(key)));
    }
    told(recording, tick.sampled.iter().map(|kept| &kept.request));
    recording.requests.push(0, count, &tick);
}

/// Sixteen requests at a time in four workers that hardly work: each takes 40 ms.
pub fn waiting() -> Build {
    closed().with(|b| b.plan.connections = 16).each(|s| {
        (s.ok, s.in_flight, s.connections, s.response_ns) = (400, 16, 16, 40_000_000);
        (s.target, s.idle_cores) = (vec![(0.01, 0.0); 4], 1.8);
    })
}
