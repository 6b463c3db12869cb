//! Descriptors of a worker and those of the rest of the process: neither keeps the other's open, and what a worker needs of
//! others it has.

use crate::common::*;
use engine::driver::clock::monotonic_ns;
use engine::{Fleet, Rendezvous};
use model::plan::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{PipeReader, Read, Write};
use std::sync::Arc;

/// What the descriptors of one thread lead to, as links say it.
fn of_thread(id: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/self/task/{id}/fd")).unwrap();
    files.filter_map(|file| Some(file.ok()?.path().read_link().ok()?.to_string_lossy().into_owned())).collect()
}

/// What comes to be at the reading end of a pipe; nothing after long.
fn seen_at(reader: &PipeReader) -> PollFlags {
    let guard = Timespec { tv_sec: testkit::HANG_GUARD.as_secs() as i64, tv_nsec: 0 };
    let mut wanted = [PollFd::new(reader, PollFlags::IN)];
    poll(&mut wanted, Some(&guard)).unwrap();
    wanted[0].revents()
}

#[test]
fn what_others_close_is_closed_while_a_worker_runs() {
    let server = Server::start(answering(echo_back)());
    let mut plan = plan(echo());
    plan.origins[0].addresses = vec![Address::Tcp(server.address)];
    // Until it is stopped.
    plan.stop = Stop { duration_ns: Some(600 * S), requests: None };
    let (reader, writer) = std::io::pipe().unwrap();
    let fleet = Fleet::start(&plan).unwrap();
    let worker = fleet.thread_ids()[0];
    testkit::wait_until("all connections are made", || {
        of_thread(worker).iter().filter(|link| link.starts_with("socket:")).count() == 4
    });
    drop(writer);
    assert_eq!(seen_at(&reader), PollFlags::HUP, "the worker keeps the pipe open: {:?}", of_thread(worker));
    fleet.control().stop();
    let sum = follow(fleet);
    assert!(sum.total.counts.ok > 0, "{:?}", sum.total.counts);
    server.settle();
}

#[test]
fn who_hears_that_a_burst_is_ready_can_write_to_what_is_open() {
    let server = Server::start(answering(echo_back)());
    let mut plan = plan(echo());
    plan.origins[0].addresses = vec![Address::Tcp(server.address)];
    plan.pace = Pace::Burst { rounds: 1, at: BurstAt::Send, pause_ns: 0 };
    plan.stop = Stop { duration_ns: None, requests: Some(4) };
    let (mut reader, writer) = std::io::pipe().unwrap();
    let told = move |round: u32| (&writer).write_all(&round.to_le_bytes()).unwrap();
    let rendezvous = Arc::new(Rendezvous::among_others(1, told));
    let fleet = Fleet::start_part(&plan, &(0..1), rendezvous.clone(), || Some(monotonic_ns())).unwrap();
    assert_eq!(seen_at(&reader), PollFlags::IN, "nothing was told");
    let mut round = [0; 4];
    reader.read_exact(&mut round).unwrap();
    assert_eq!(u32::from_le_bytes(round), 0);
    assert!(rendezvous.release(0, 0));
    let sum = follow(fleet);
    assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (4, 0));
    server.settle();
}
