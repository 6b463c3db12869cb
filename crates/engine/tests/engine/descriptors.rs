//! Descriptors of a worker and those of the rest of the process: neither keeps the other's open, and what a worker needs of
//! others it has.

use crate::common::*;
use engine::driver::clock::monotonic_ns;
use engine::driver::sim::Action;
use engine::{Fleet, Rendezvous};
use model::data::{Column, DataFile, Order, RowBuffer, RowSource, Rows};
use model::plan::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::unix::fs::FileExt;
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

/// Rows of one letter each, in a file.
#[derive(Debug)]
struct Letters(File);

impl Rows for Letters {
    fn read(&self, row: u64, into: &mut RowBuffer) -> bool {
        let mut letter = [0];
        let is_read = self.0.read_exact_at(&mut letter, row).is_ok();
        into.bytes.extend_from_slice(&letter);
        into.end_field();
        is_read
    }
}

#[test]
fn rows_are_read_from_a_file_that_was_opened_before() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"abc").unwrap();
    let rows = DataFile {
        name: String::new(),
        path: "letters".into(),
        columns: vec![Column { name: "letter".to_owned(), longest: 1 }],
        rows: 3,
        order: Order::Sequential,
        source: RowSource(Some(Arc::new(Letters(file)))),
    };
    let Workload::Http1(mut http) = http() else { panic!("an HTTP workload") };
    (http.requests[0].target, http.requests[0].is_template, http.data) = ("/{{letter}}".into(), true, vec![rows]);
    let mut plan = plan(Workload::Http1(http));
    plan.stop = Stop { duration_ns: None, requests: Some(30) };
    on_all(&plan, answering(only_letters), |driver, sum| {
        assert_eq!(sum.total.counts.ok, 30, "{driver}: {:?}", sum.total.errors.seen().collect::<Vec<_>>());
        assert_eq!(sum.total.outcomes.seen().collect::<Vec<_>>(), [(200, 30)], "{driver}");
    });
}

/// A reply for a request whose path is one of the letters, and 404 for any other.
fn only_letters(bytes: &[u8]) -> Vec<Action> {
    let is_one = ["/a", "/b", "/c"].iter().any(|path| bytes.starts_with(format!("GET {path} ").as_bytes()));
    if is_one { http_ok(bytes) } else { vec![reply(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")] }
}
