//! A target on another machine: what speaks against the generator is read on its machine, what speaks of the target on
//! the target's. The same recording, once as of one machine and once as of two.

use crate::common::open;
use diagnose::diagnose;
use diagnose::history::{History, Metric, Subject};
use model::finding::{Finding, Status};
use model::remote::TargetHost;
use model::snapshot::CpuTimes;
use model::{ErrorKind, Recording, Snapshot};

/// Splits each snapshot: its machine is the generator's, and `there` makes the target's.
fn apart(mut recording: Recording, there: impl Fn(usize, &mut Snapshot)) -> Recording {
    recording.capsule.target_host = Some(TargetHost { name: "web1".to_owned(), ..TargetHost::default() });
    for (i, snapshot) in recording.snapshots.iter_mut().enumerate() {
        let mut own = snapshot.clone();
        own.keep_as_generators();
        let mut target = std::mem::take(snapshot);
        there(i, &mut target);
        *snapshot = target.beside(&own);
    }
    recording
}

fn finding(recording: &Recording, id: &str) -> Finding {
    diagnose(recording).findings.into_iter().find(|finding| finding.id == id).unwrap()
}

/// CPU time of a machine of two cores whose hypervisor takes a third of it.
fn stolen(i: usize) -> CpuTimes {
    let s = i as u64 * 1_000_000_000;
    CpuTimes { steal_ns: s * 2 / 3, user_ns: s * 4 / 3, ..CpuTimes::default() }
}

#[test]
fn time_stolen_from_the_target_does_not_speak_against_the_generator() {
    let sound = apart(open().recording(), |i, target| target.cpu = Some(stolen(i)));
    assert_eq!(finding(&sound, "cpu-stolen").status, Status::Refuted);
    let mut stolen_here = apart(open().recording(), |_, _| {});
    for (i, snapshot) in stolen_here.snapshots.iter_mut().enumerate() {
        snapshot.generator_host.as_mut().unwrap().cpu = Some(stolen(i));
    }
    assert_eq!(finding(&stolen_here, "cpu-stolen").status, Status::Supported);
    assert_eq!(finding(&stolen_here, "clock-step").status, Status::Refuted, "the hypervisor stops no clock");
}

#[test]
fn ports_and_memory_are_the_generators_machines() {
    let mut recording = apart(open().recording(), |_, target| {
        (target.time_wait, target.memory_available_bytes) = (Some(99_999), Some(1));
    });
    recording.totals.sum.errors.add(ErrorKind::AddressNotAvailable, 5);
    recording.totals.sum.errors.add(ErrorKind::OutOfMemory, 5);
    let said = |id| finding(&recording, id).because.iter().map(|evidence| evidence.text.clone()).collect::<String>();
    let ports = said("generator-ports");
    assert!(ports.contains("up to 7 sockets") && !ports.contains("99999"), "{ports}");
    assert!(said("generator-memory").contains("1024 MiB"), "{}", said("generator-memory"));
}

#[test]
fn a_busy_target_elsewhere_is_seen_as_one_here_is() {
    let busy = || open().each(|s| (s.busy, s.target) = (0.97, vec![(0.98, 0.01)])).recording();
    let (here, there) = (finding(&busy(), "generator-cpu"), finding(&apart(busy(), |_, _| {}), "generator-cpu"));
    assert_eq!((here.status, &here.title), (there.status, &there.title));
    let idle = open().each(|s| (s.busy, s.target) = (0.97, vec![(0.1, 0.0)])).recording();
    assert_eq!(finding(&apart(idle, |_, _| {}), "generator-cpu").status, Status::Supported);
}

#[test]
fn the_network_counters_of_both_machines_are_kept_beside_each_other() {
    let mut recording = open().recording();
    for (i, snapshot) in recording.snapshots.iter_mut().enumerate() {
        snapshot.network.set("tcp_retransmits", 10 * i as u64);
        snapshot.interfaces.entry("eth0".to_owned()).or_default().set("received_bytes", 1000 * i as u64);
    }
    let readings = recording.snapshots.len() as u64;
    let recording = apart(recording, |i, target| {
        target.network.set("tcp_retransmits", i as u64);
        target.interfaces.clear();
    });
    let history = History::of(&recording.snapshots);
    let whole = history.whole().unwrap();
    let grown = |of, name| history.growth(Metric::new(of, name), whole).unwrap().value;
    assert_eq!(grown(Subject::Network, "tcp_retransmits"), (readings - 1) as f64);
    assert_eq!(grown(Subject::GeneratorNetwork, "tcp_retransmits"), (10 * (readings - 1)) as f64);
    assert_eq!(grown(Subject::GeneratorInterface("eth0"), "received_bytes"), (1000 * (readings - 1)) as f64);
    assert!(history.growth(Metric::new(Subject::Interface("eth0"), "received_bytes"), whole).is_err());
}
