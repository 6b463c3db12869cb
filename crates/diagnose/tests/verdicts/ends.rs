//! How processes of a target ended: by what signal, in order after a reload, for good, by a fault of the run.

use crate::common::judged::{of, status};
use crate::common::{Build, SECOND, closed};
use diagnose::diagnose;
use model::event::Details;
use model::finding::{LossKind, Standing, Status};
use model::snapshot::SamplerState;
use model::{ErrorKind, Event};

pub(crate) fn ended(kind: &str, signal: Option<i32>, pid: u32) -> Event {
    let details = Details { signal, pid: Some(pid), process: Some("server".to_owned()), ..Details::default() };
    Event::new(5 * SECOND as i64, kind, "it ended").with(details)
}

/// A target that serves for five seconds and is not there any more.
pub(crate) fn dead() -> Build {
    closed().with(|b| b.seconds.iter_mut().skip(5).for_each(|s| (s.ok, s.failed) = (0, vec![(ErrorKind::Refused, 90)])))
}

/// The clock goes on: whoever waits for a connection to a dead target has failed because of it, and until it is back only.
#[test]
fn requests_that_waited_for_a_dead_target_are_explained_by_its_death() {
    let share = |back_at: usize| {
        let waiting = vec![(ErrorKind::Refused, 10), (ErrorKind::QueueTimeout, 990)];
        let build = closed().with(|b| {
            b.events = vec![ended("target-exit", Some(11), 20)];
            for (at, second) in b.seconds.iter_mut().enumerate().skip(5) {
                let ok = if at >= back_at { 100 } else { 0 };
                (second.ok, second.failed) = (ok, waiting.clone());
            }
        });
        let diagnosis = diagnose(&build.recording());
        let finding = diagnosis.findings.iter().find(|finding| finding.id == "process-crash").unwrap();
        assert_eq!(finding.status, Status::Supported);
        finding.explains.as_ref().unwrap().share
    };
    assert!(share(99) > 0.99, "{}", share(99));
    assert!((0.3..0.5).contains(&share(7)), "{}", share(7));
}

#[test]
fn a_process_that_died_is_named_by_how_it_died() {
    let died = |events: Vec<Event>| dead().with(|b| b.events = events).recording();
    let crash = died(vec![ended("target-exit", Some(11), 20)]);
    assert_eq!(status(&crash, "process-crash"), Status::Supported);
    assert_eq!(status(&crash, "sigpipe-death"), Status::Refuted);
    let diagnosis = diagnose(&crash);
    let gives = diagnosis.gives.as_ref().unwrap();
    assert_eq!((gives.standing, gives.finding.as_deref()), (Standing::Gives, Some("process-crash")), "{gives:?}");
    assert!(diagnosis.losses.iter().any(|loss| loss.kind == LossKind::Failed), "{:?}", diagnosis.losses);

    let pipe = died(vec![ended("target-exit", Some(13), 20)]);
    assert_eq!((status(&pipe, "sigpipe-death"), status(&pipe, "process-crash")), (Status::Supported, Status::Refuted));
    let killed = died(vec![ended("target-oom-kill", None, 20), ended("target-exit", Some(9), 20)]);
    assert_eq!((status(&killed, "oom-kill"), status(&killed, "process-crash")), (Status::Supported, Status::Refuted));
    // An operator's kill -9 is none for want of memory.
    let by_hand = died(vec![ended("target-exit", Some(9), 20)]);
    assert_eq!((status(&by_hand, "oom-kill"), status(&by_hand, "process-crash")), (Status::Refuted, Status::Supported));
    // What the run itself asked for has no remedy.
    let fault = |at_s: u64, name: &str| {
        let details = Details { of_kind: Some(name.to_owned()), fault: Some(1), ..Details::default() };
        Event::new((at_s * SECOND) as i64, model::event::FAULT_BEGAN, "it began").with(details)
    };
    let remedy = |began: Event| {
        let diagnosis = diagnose(&died(vec![began, ended("target-exit", Some(9), 20)]));
        diagnosis.findings.iter().find(|finding| finding.id == "process-crash").unwrap().clone()
    };
    let asked = remedy(fault(5, "kill"));
    assert!(asked.title.ends_with("by this run's own fault 'kill'"), "{}", asked.title);
    assert!(asked.remedy.starts_with("None: it was asked for"), "{}", asked.remedy);
    for other in [fault(2, "kill"), fault(5, "nice")] {
        assert!(!remedy(other).title.contains("own fault"));
    }
    // Without probes it is gone, and how is not known.
    let mut gone = died(vec![ended("target-gone", None, 20)]);
    gone.samplers.iter_mut().filter(|s| s.name.starts_with("bpf/")).for_each(|s| s.status = SamplerState::Disabled);
    assert_eq!(status(&gone, "process-crash"), Status::Supported);
    assert_eq!(status(&gone, "sigpipe-death"), Status::NotObservable);
    // A child that had done its work.
    let child = closed().with(|b| b.events = vec![ended("target-exit", None, 21)]).recording();
    assert_eq!(status(&child, "process-crash"), Status::Refuted);
    let harmless = closed().with(|b| b.events = vec![ended("target-exit", Some(15), 21)]).recording();
    assert_eq!(status(&harmless, "process-crash"), Status::Refuted);
}

/// Two workers that end with code 0, and a server that goes on: each lost what was under way.
#[test]
fn workers_that_a_reload_replaced_are_no_crash() {
    let exited = |pid: u32, code: i32| {
        let details =
            Details { exit_code: Some(code), pid: Some(pid), process: Some("server".to_owned()), ..Details::default() };
        Event::new(5 * SECOND as i64, "target-exit", "it exited").with(details)
    };
    let hup = Details { signal: Some(1), sender_pid: Some(99), pid: Some(19), ..Details::default() };
    let hup =
        Event::new(5 * SECOND as i64 - 1000, "target-signal", "server (19) took SIGHUP from process 99").with(hup);
    let gone = [ended("target-gone", None, 20), ended("target-gone", None, 21)];
    let events = |code: i32| [&gone[..], &[hup.clone(), exited(20, code), exited(21, code)]].concat();
    let lost = |at: std::ops::Range<usize>| {
        move |b: &mut Build| b.seconds[at].iter_mut().for_each(|s| s.failed = vec![(ErrorKind::ClosedEarly, 14)])
    };
    let run = |code: i32, at| closed().with(|b| b.events = events(code)).with(lost(at)).recording();
    let diagnosis = diagnose(&run(0, 5..6));
    let first = diagnosis.gives.as_ref().unwrap();
    assert_eq!((first.standing, first.finding.as_deref()), (Standing::Gives, Some("process-restart")), "{first:?}");
    let text = "2 processes of the target (server) ended in order from second 5.0 on, and others serve since, as in a reload: \
        server (19) took SIGHUP from process 99 (nearly all of the failures)";
    assert_eq!(first.text, text);
    assert_eq!(of(&diagnosis, "process-crash").status, Status::Refuted);
    // With another code they did not end in order; and what is lost all along is not lost by that.
    assert_eq!(status(&run(1, 5..6), "process-crash"), Status::Supported);
    assert_eq!(status(&run(0, 0..10), "process-restart"), Status::Refuted);
    assert_eq!(status(&run(0, 0..10), "process-crash"), Status::Refuted);
    // A program that a worker started and waited for, as a page's script does: nobody serves in its place.
    let mut helpers = events(0);
    for event in helpers.iter_mut().filter(|event| event.kind == "target-exit") {
        event.details.process = Some("sleep".to_owned());
    }
    let helped = closed().with(|b| b.events = helpers).with(lost(5..6)).recording();
    assert_eq!(status(&helped, "process-restart"), Status::Refuted);
    // A child for each connection: they end all along.
    let mut children = events(0);
    children.extend((0..9).map(|second| Event { at_ns: second * SECOND as i64, ..exited(30 + second as u32, 0) }));
    let forking = closed().with(|b| b.events = children).with(lost(5..6)).recording();
    assert_eq!(status(&forking, "process-restart"), Status::Refuted);
    // Nobody serves since, and nobody asked.
    let unasked = closed().with(|b| b.events = events(0)).with(lost(5..6));
    let unasked = unasked.with(|b| b.seconds.iter_mut().skip(5).for_each(|s| s.ok = 0)).recording();
    assert_eq!(status(&unasked, "process-restart"), Status::Refuted);
    // The run itself asked for it.
    let details = Details { of_kind: Some("term".to_owned()), fault: Some(1), ..Details::default() };
    let began = Event::new(5 * SECOND as i64 - 2000, model::event::FAULT_BEGAN, "it began").with(details);
    let asked = closed().with(|b| b.events = [&events(0)[..], &[began]].concat()).with(lost(5..6)).recording();
    let diagnosis = diagnose(&asked);
    assert!(of(&diagnosis, "process-crash").title.ends_with("by this run's own fault 'term'"), "{:?}", diagnosis.gives);
    // Nobody serves any more: it was stopped, and that is said as it is.
    let crowded =
        |build: Build| build.each(|s| (s.target, s.neighbours, s.idle_cores) = (vec![(0.2, 0.2)], [1.2, 0.0], 0.2));
    let stopped = diagnose(&crowded(dead()).with(|b| b.events = events(0)).recording());
    assert_eq!(of(&stopped, "neighbour").status, Status::Supported);
    let first = stopped.gives.as_ref().unwrap();
    assert!(
        first.text.ends_with("as the target ended in order at second 5.0; server (19) took SIGHUP from process 99"),
        "{first:?}"
    );
    assert_eq!(
        (of(&stopped, "process-crash").status, of(&stopped, "process-restart").status),
        (Status::Refuted, Status::Refuted)
    );
}

/// A server with a process for each connection: its children end with code 0 all along, and tell nothing of the server.
#[test]
fn children_that_end_in_order_do_not_make_a_server_stopped() {
    let child = |pid: u32| {
        let details = Details { exit_code: Some(0), pid: Some(pid), ..Details::default() };
        Event::new(5 * SECOND as i64 - 1000, "target-exit", "a child exited with code 0").with(details)
    };
    let gives = |more: Vec<Event>| {
        let events = [vec![child(30), child(31)], more].concat();
        diagnose(&dead().with(|b| b.events = events).recording()).gives.unwrap()
    };
    // It does not answer any more, and is there.
    let silent = gives(Vec::new());
    assert!(!silent.text.contains("in order"), "{silent:?}");
    // It died itself, by a signal, or of what is not known.
    let own = Details { exit_code: Some(3), pid: Some(20), ..Details::default() };
    let own = Event::new(5 * SECOND as i64, "target-exit", "it exited with code 3").with(own);
    for died in [vec![ended("target-exit", Some(11), 20)], vec![own], vec![ended("target-gone", None, 20)]] {
        let first = gives(died);
        assert_eq!(first.finding.as_deref(), Some("process-crash"), "{first:?}");
        assert!(!first.text.contains("in order"), "{first:?}");
    }
}

/// The run had started it itself, and saw it end: of what is the first line where the signal is the finding's.
#[test]
fn what_ended_a_command_of_the_run_is_the_first_line_where_it_has_a_name() {
    const GONE: &str = "the target's command is gone: it ended after 5.00 s";
    let gives = |signal: i32, command: Details| {
        let end = Event::new(5 * SECOND as i64, model::event::TARGET_ENDED, GONE).with(command);
        let build = dead().with(|b| b.events = vec![ended("target-exit", Some(signal), 20), end]);
        diagnose(&build.recording()).gives.unwrap()
    };
    let by_signal = |signal: i32| Details { signal: Some(signal), ..Details::default() };
    let of_shell = |exit_code: i32| Details { exit_code: Some(exit_code), ..Details::default() };
    for command in [by_signal(13), of_shell(128 + 13)] {
        let first = gives(13, command);
        assert_eq!((first.standing, first.finding.as_deref()), (Standing::Gives, Some("sigpipe-death")));
        assert!(first.text.contains("died of SIGPIPE at second 5.0") && first.text.ends_with(GONE), "{}", first.text);
    }
    // One of its processes died of that; the command did not. Or what it died of has no name, or is not known.
    for (signal, command) in [(13, of_shell(1)), (13, by_signal(15)), (11, by_signal(11)), (13, Details::default())] {
        let first = gives(signal, command);
        assert_eq!((&*first.text, first.finding), (GONE, None));
    }
}
