//! Defects in the other of their ways, and with parts that are not the usual ones.

use crate::readings::Task;
use crate::subject::Subject;
use crate::work::two_of_twenty_sleep;
use std::time::{Duration, Instant};

/// How long a few requests take, one after the other, and what of it the workers used the processor for.
fn taken(defect: &str, requests: u32) -> (Duration, Duration) {
    let subject = Subject::start("http", 1, Some(defect));
    let mut client = subject.connect();
    client.exchange();
    let (start, before) = (Instant::now(), subject.cpu());
    (0..requests).for_each(|_| client.exchange());
    let took = start.elapsed();
    testkit::wait_until("its workers rest", || subject.workers().iter().all(Task::is_asleep));
    (took, subject.cpu() - before)
}

#[test]
fn asleep_it_takes_as_long_and_uses_no_processor() {
    std::thread::scope(|scope| {
        for name in ["single-thread", "global-lock", "head-of-line", "blocked-loop", "slow-path"] {
            let of = if ["head-of-line", "blocked-loop", "slow-path"].contains(&name) { ":of=1" } else { "" };
            scope.spawn(move || {
                let (took, used) = taken(&format!("{name}=30ms:sleep{of}"), 5);
                assert!(took >= Duration::from_millis(150) && used < took / 2, "{name} asleep: {used:?} of {took:?}");
                let (_, used) = taken(&format!("{name}=30ms:compute{of}"), 5);
                assert!(used >= Duration::from_millis(150) * 9 / 10, "{name} computing: {used:?}");
            });
        }
    });
}

#[test]
fn a_blocked_loop_can_sleep_in_as_many_requests_as_asked() {
    for (defect, is_so) in [("blocked-loop=5ms:sleep", true), ("blocked-loop=5ms:sleep:of=4", false)] {
        let subject = Subject::start("http", 1, Some(defect));
        let Some(shows) = two_of_twenty_sleep(&subject) else { return };
        assert_eq!(shows, is_so, "{defect}");
    }
}

#[test]
fn a_backend_computes_in_its_own_process() {
    let (took, used) = taken("slow-backend=30ms:compute", 5);
    assert!(took >= Duration::from_millis(150) * 9 / 10 && used < took / 2, "{used:?} of {took:?}");
}

#[test]
fn the_world_is_stopped_by_a_thread_that_computes() {
    let subject = Subject::start("http", 1, Some("stop-the-world=50ms:compute:every=60ms"));
    let mut client = subject.connect();
    let others =
        || subject.threads().iter().filter(|task| !task.name.starts_with("http-")).map(Task::cpu).sum::<Duration>();
    let before = others();
    testkit::wait_until("it computes while the workers stand", || {
        client.exchange();
        others() - before >= Duration::from_millis(200)
    });
}

#[test]
fn a_queue_is_as_long_as_asked() {
    let subject = Subject::start("http", 1, Some("slow-accept=60s:queue=3"));
    let output =
        std::process::Command::new("ss").args(["-tlnH", &format!("sport = :{}", subject.addr.port())]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert_eq!(text.split_whitespace().nth(2), Some("3"), "{text}");
}

#[test]
fn padding_is_as_long_as_asked() {
    let subject = Subject::start("echo", 1, Some("padded-reply=1:bytes=5"));
    assert_eq!(subject.connect().echoed(b"abc"), b"abc\0\0\0\0\0");
}
