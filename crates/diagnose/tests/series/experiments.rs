//! What experiments decide of steps whose truth is known: servers as arithmetic, with the scatter of a busy machine.

use diagnose::experiment::{Decision, Experiment, KEPT, Step, decide, sentence};
use model::finding::Status;
use std::collections::BTreeMap;

fn step(experiment: Experiment, dose: f64, round: u32) -> Step {
    Step {
        experiment,
        dose,
        label: format!("dose {dose}"),
        round,
        at_s: 0.0,
        measured_s: 0.5,
        ok: 100,
        failed: 0,
        unfinished: 0,
        errors: BTreeMap::new(),
        throughput_per_s: 200.0,
        asked_per_s: None,
        response_mean_us: Some(200.0),
        response_p50_us: Some(190.0),
        connect_mean_us: Some(50.0),
        connect_max_us: Some(300.0),
        connected: 1,
        closed: 0,
        reply_bytes: Some(1000.0),
        busy_cores: None,
        turned_away: 0,
        is_disturbed: false,
    }
}

/// Three rounds of some doses; the rounds differ by up to a tenth.
fn rounds(experiment: Experiment, doses: &[f64], change: impl Fn(&mut Step, f64, f64)) -> Vec<Step> {
    let mut all = Vec::new();
    for round in 0..3 {
        let scatter = [1.0, 1.05, 0.95][round as usize];
        for dose in doses {
            let mut step = step(experiment, *dose, round);
            change(&mut step, *dose, scatter);
            all.push(step);
        }
    }
    all
}

fn one(steps: &[Step]) -> Decision {
    let mut decisions = decide(steps);
    assert_eq!(decisions.len(), 1);
    decisions.remove(0)
}

#[track_caller]
fn check(decision: &Decision, status: Status, finding: Option<&str>, words: &str) {
    assert_eq!((decision.status, decision.finding.as_deref()), (status, finding), "{decision:#?}");
    assert!(decision.text.contains(words), "no '{words}': {}", decision.text);
}

/// A server of k slots of so many milliseconds each, asked by closed clients.
fn slots(k: f64, ms: f64, busy: Option<f64>) -> Vec<Step> {
    rounds(Experiment::Clients, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], |step, clients, scatter| {
        let served = clients.min(k);
        step.throughput_per_s = served / ms * 1e3 / scatter;
        let us = clients / served * ms * 1e3 * scatter;
        (step.response_mean_us, step.response_p50_us) = (Some(us), Some(us));
        step.busy_cores = busy;
    })
}

#[test]
fn slots_are_counted_and_whether_they_wait_is_told_by_idle_cores() {
    for k in [2.0, 3.0, 4.0, 8.0, 10.0] {
        let decision = one(&slots(k, 20.0, Some(0.2)));
        check(&decision, Status::Supported, Some("pool-exhausted"), &format!("serves {k:.0} requests at a time"));
        assert!(decision.text.contains("clients ÷ throughput"), "{}", decision.text);
    }
    let one_at_a_time = one(&slots(1.0, 20.0, Some(0.1)));
    check(&one_at_a_time, Status::Supported, None, "one request at a time");
    assert!(one_at_a_time.points_to.contains(&"event-loop-blocked".to_owned()), "{one_at_a_time:?}");
    let computes = one(&slots(1.0, 20.0, Some(1.1)));
    check(&computes, Status::Supported, None, "it computes");
    assert_eq!(computes.points_to, ["single-thread-bound"]);
    // Elsewhere nobody sees the cores: all that it may be is named.
    let remote = one(&slots(4.0, 20.0, None));
    check(&remote, Status::Supported, None, "cannot be told from outside");
    assert!(remote.points_to.len() >= 2, "{remote:?}");
}

#[test]
fn no_slots_are_seen_where_there_are_none() {
    check(&one(&slots(1000.0, 20.0, Some(0.2))), Status::Refuted, None, "rises with each client");
    check(&one(&slots(2.0, 0.1, Some(1.9))), Status::Refuted, None, "too short");
    let falls = rounds(Experiment::Clients, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], |step, clients, _| {
        step.throughput_per_s = 400.0 / (1.0 + (clients - 4.0).abs() / 4.0);
        step.response_mean_us = Some(5_000.0);
    });
    check(&one(&falls), Status::Supported, None, "falls from");
    let starved = rounds(Experiment::Clients, &[1.0, 2.0, 4.0, 8.0, 16.0], |step, clients, _| {
        step.failed = if clients > 4.0 { clients as u64 - 4 } else { 0 };
    });
    let decision = one(&starved);
    check(
        &decision,
        Status::Supported,
        None,
        "of 8 clients some are never answered while the others are; of 4 all are",
    );
    assert_eq!(decision.points_to, ["worker-starvation", "connection-limit"]);
    // A line that is too long for the timeout is everybody's.
    let late = rounds(Experiment::Clients, &[1.0, 2.0, 4.0, 8.0, 16.0], |step, clients, _| {
        step.failed = if clients > 4.0 { 3 } else { 0 };
        step.response_p50_us = Some(100_000.0 * clients);
    });
    assert!(one(&late).points_to.iter().all(|id| id != "worker-starvation"), "{:?}", one(&late));
    let failing = rounds(Experiment::Clients, &[1.0, 2.0, 4.0], |step, _, _| step.failed = 1000);
    check(&one(&failing), Status::NotObservable, None, "too few doses");
}

fn reuse(new_us: f64, two_us: f64, kept_us: f64) -> Vec<Step> {
    rounds(Experiment::Reuse, &[1.0, 2.0, KEPT], |step, dose, scatter| {
        let us = if dose == 1.0 {
            new_us
        } else if dose == 2.0 {
            two_us
        } else {
            kept_us
        };
        (step.response_mean_us, step.response_p50_us) = (Some(us * scatter), Some(us * scatter));
    })
}

#[test]
fn a_delayed_acknowledgement_rises_with_the_requests_on_a_connection() {
    check(
        &one(&reuse(300.0, 21_000.0, 42_000.0)),
        Status::Supported,
        Some("nagle-delayed-ack"),
        "delayed acknowledgement",
    );
    // A timer of 40 ms is as slow on a new connection; a delay at the first request only is none.
    check(&one(&reuse(42_000.0, 42_000.0, 42_000.0)), Status::Refuted, None, "as long");
    check(&one(&reuse(300.0, 310.0, 42_000.0)), Status::NotObservable, None, "or for something else");
    check(&one(&reuse(300.0, 100_000.0, 200_000.0)), Status::Supported, None, "longer on a kept connection");
    check(&one(&reuse(300.0, 280.0, 250.0)), Status::Refuted, None, "connection costs");
}

#[test]
fn a_server_that_closes_is_seen_by_its_closes() {
    let mut closes = reuse(300.0, 300.0, 300.0);
    for step in closes.iter_mut().filter(|step| step.dose == KEPT) {
        (step.connected, step.closed) = (100, 100);
    }
    check(&one(&closes), Status::Supported, Some("keepalive-off"), "closes after each reply");
    // Closed at the end of the step, or for failures: no.
    closes.iter_mut().for_each(|step| step.closed = 1);
    check(&one(&closes), Status::Refuted, None, "connection costs");
    closes.iter_mut().for_each(|step| (step.closed, step.failed) = (100, 100));
    assert_ne!(one(&closes).finding.as_deref(), Some("keepalive-off"));
}

/// On a machine that others disturb all the time, what an experiment decides does not hang on how many rounds were quiet: none
/// of three, one, or two.
#[test]
fn a_machine_that_is_always_disturbed_does_not_keep_what_is_counted_from_being_told() {
    for quiet in 0..=3 {
        let mut closes = reuse(300.0, 300.0, 300.0);
        for step in &mut closes {
            step.is_disturbed = step.round >= quiet;
            if step.dose == KEPT {
                (step.connected, step.closed) = (100, 100);
            }
        }
        check(&one(&closes), Status::Supported, Some("keepalive-off"), "closes after each reply");
    }
    // Two quiet rounds are believed rather than a third that was not.
    let mut slots = slots(4.0, 20.0, Some(0.2));
    for step in slots.iter_mut().filter(|step| step.round == 1) {
        (step.is_disturbed, step.throughput_per_s) = (true, 1.0);
    }
    check(&one(&slots), Status::Supported, Some("pool-exhausted"), "serves 4 requests at a time");
}

fn idle(limit: f64, kind: &str, turned_away: u64) -> Vec<Step> {
    rounds(Experiment::Idle, &[0.0, 2.0, 3.0, 16.0, 256.0], |step, beside, _| {
        if beside >= limit {
            (step.ok, step.failed, step.turned_away) = (0, 3, turned_away);
            step.errors = [(kind.to_owned(), 3)].into();
        }
    })
}

#[test]
fn silent_connections_that_cost_others_the_server_are_counted() {
    let starved = one(&idle(3.0, "reply-timeout", 0));
    check(&starved, Status::Supported, None, "with 2 silent connections beside the load, and with 3 no more");
    assert_eq!(starved.points_to, ["worker-starvation", "connection-limit"]);
    check(&one(&idle(16.0, "closed-early", 1)), Status::Supported, Some("connection-limit"), "refuses or closes");
    check(&one(&idle(1e9, "", 0)), Status::Refuted, None, "take nothing");
    // Lost without any, too: it is not they. Served beside more: neither.
    check(&one(&idle(0.0, "refused", 0)), Status::NotObservable, None, "without silent connections");
    let mut odd = idle(3.0, "reply-timeout", 0);
    odd.iter_mut().filter(|step| step.dose == 256.0).for_each(|step| (step.ok, step.failed) = (100, 0));
    check(&one(&odd), Status::NotObservable, None, "it is not they");
}

fn burst(longest_us: impl Fn(f64, f64) -> f64) -> Vec<Step> {
    rounds(Experiment::Burst, &[1.0, 16.0, 256.0], |step, dose, scatter| {
        step.connect_max_us = Some(longest_us(dose, scatter))
    })
}

#[test]
fn connects_that_are_sent_again_tell_a_full_queue() {
    let second = |dose: f64, _: f64| if dose >= 16.0 { 1_030_000.0 } else { 200.0 };
    check(&one(&burst(second)), Status::Supported, Some("accept-queue-overflow"), "overflows");
    check(&one(&burst(|_, _| 4_000.0)), Status::Refuted, None, "at the longest");
    check(&one(&burst(|_, _| 1_030_000.0)), Status::NotObservable, None, "already");
    let now_and_then = |dose: f64, scatter: f64| if dose > 200.0 && scatter > 1.0 { 1_030_000.0 } else { 900.0 };
    check(&one(&burst(now_and_then)), Status::NotObservable, None, "some rounds");
}

fn rate(p50_us: impl Fn(f64) -> f64, reached: f64) -> Vec<Step> {
    rounds(Experiment::Rate, &[0.8, 1.0, 1.2], |step, dose, scatter| {
        step.asked_per_s = Some(1000.0 * dose);
        step.throughput_per_s = 1000.0 * dose.min(reached);
        step.response_p50_us = Some(p50_us(dose) * scatter);
    })
}

#[test]
fn a_queue_is_what_depends_on_the_rate() {
    check(&one(&rate(|_| 300.0, 9.0)), Status::Refuted, None, "no queue");
    check(&one(&rate(|dose| 2_000.0 / (1.3 - dose), 9.0)), Status::Refuted, None, "there is a queue");
    check(
        &one(&rate(|dose| if dose > 0.9 { 9_000.0 } else { 300.0 }, 0.9)),
        Status::Supported,
        None,
        "more than it gives",
    );
    check(&one(&rate(|_| 90_000.0, 0.5)), Status::Supported, None, "more than it gives");
    check(&one(&rate(|_| 300.0, 0.9)), Status::Refuted, None, "no queue");
    let wild = |dose: f64| if dose > 1.1 { 3_000.0 } else { 2_000.0 };
    let mut wild = rate(wild, 9.0);
    wild.iter_mut()
        .filter(|step| step.round == 1)
        .for_each(|step| step.response_p50_us = Some(9_000.0 * (1.4 - step.dose)));
    check(&one(&wild), Status::NotObservable, None, "not decided");
}

fn sizes(doses: &[(f64, f64)]) -> Vec<Step> {
    let at: Vec<f64> = (0..doses.len()).map(|at| at as f64).collect();
    rounds(Experiment::Size, &at, |step, dose, scatter| {
        let (bytes, us) = doses[dose as usize];
        (step.reply_bytes, step.response_p50_us) = (Some(bytes), Some(us * scatter));
    })
}

#[test]
fn bytes_cost_and_a_path_that_is_slow_for_them_is_named() {
    check(&one(&sizes(&[(1e3, 300.0), (1e6, 10_300.0)])), Status::Refuted, None, "carries");
    check(&one(&sizes(&[(1e3, 300.0), (1e3, 9_000.0)])), Status::Supported, Some("slow-path"), "30 times as long");
    check(&one(&sizes(&[(1e3, 9_000.0), (1e6, 300.0)])), Status::Supported, Some("slow-path"), "not for its bytes");
    check(&one(&sizes(&[(1e3, 300.0), (2e3, 320.0)])), Status::Refuted, None, "does not depend");
    check(&one(&sizes(&[(1e3, 300.0)])), Status::NotObservable, None, "fewer than two");
}

#[test]
fn what_was_found_stands_first_and_is_the_sentence() {
    let steps: Vec<Step> = [slots(1000.0, 20.0, None), reuse(300.0, 21_000.0, 42_000.0), burst(|_, _| 900.0)].concat();
    let decisions = decide(&steps);
    assert_eq!(decisions[0].finding.as_deref(), Some("nagle-delayed-ack"));
    assert_eq!(sentence(&decisions), decisions[0].text);
    let nothing = decide(&[slots(1000.0, 20.0, None), burst(|_, _| 900.0)].concat());
    assert!(
        sentence(&nothing).starts_with("nothing was found from outside by 2 experiments"),
        "{}",
        sentence(&nothing)
    );
    assert!(sentence(&[]).contains("no experiment"));
}

#[test]
fn a_single_round_or_broken_figures_decide_nothing_and_break_nothing() {
    let all =
        [slots(4.0, 20.0, Some(0.1)), reuse(300.0, 21_000.0, 42_000.0), rate(|_| 300.0, 9.0), burst(|_, _| 900.0)]
            .concat();
    for value in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        let mut broken = all.clone();
        for step in &mut broken {
            step.throughput_per_s = value;
            (step.response_mean_us, step.response_p50_us, step.connect_max_us) =
                (Some(value), Some(value), Some(value));
            step.asked_per_s = Some(value);
        }
        assert!(decide(&broken).iter().all(|decision| decision.finding.is_none()), "{value}");
        assert_eq!(decide(&broken[..1]).len(), 1);
    }
    let first = |steps: Vec<Step>| steps.into_iter().filter(|step| step.round == 0).collect::<Vec<Step>>();
    assert_eq!(one(&first(rate(|dose| 1000.0 * dose, 9.0))).status, Status::NotObservable, "its scatter is not known");
    let decision = one(&first(reuse(300.0, 21_000.0, 42_000.0)));
    assert_eq!((decision.status, &decision.finding), (Status::NotObservable, &None), "it may be chance");
    assert_eq!(decision.points_to, ["nagle-delayed-ack"]);
}
