//! Bursts on every driver: all at one moment, round by round, each request accounted for.

use crate::common::*;
use engine::driver::sim::{Action, Weather};
use model::plan::*;
use model::{ErrorKind, LatencyKind};

fn burst(workload: Workload, at: BurstAt) -> Plan {
    let mut plan = plan(workload);
    plan.connections = 40;
    plan.pace = Pace::Burst { rounds: 5, at, pause_ns: 5 * MS };
    plan.stop = Stop { duration_ns: None, requests: Some(200) };
    plan
}

#[test]
fn all_requests_of_a_round_are_due_at_its_moment() {
    let check = |name: &str, sum: &Sum| {
        let c = &sum.total.counts;
        assert_eq!((c.started, c.ok, c.failed), (200, 200, 0), "{name}");
        assert_eq!((c.connected, c.closed_by_us), (40, 0), "{name}: connections last over rounds");
        assert_eq!(sum.total.latency.of(LatencyKind::Lag).len(), 200, "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Queue).max(), 0, "{name}");
        if name == "sim" {
            assert_eq!(sum.total.latency.of(LatencyKind::Lag).max(), 0, "released at one moment");
        }
    };
    on_all(&burst(echo(), BurstAt::Send), answering(echo_back), check);
    on_all(&burst(http(), BurstAt::Send), answering(http_ok), check);
}

#[test]
fn a_burst_of_connects_makes_new_ones_each_round() {
    on_all(&burst(echo(), BurstAt::Connect), answering(echo_back), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.started, c.ok, c.connected), (200, 200, 200), "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Connect).len(), 200, "{name}");
        // The connect is in the response time.
        let response = sum.total.latency.of(LatencyKind::Response).min();
        assert!(response >= sum.total.latency.of(LatencyKind::Connect).min(), "{name}");
    });
}

#[test]
fn workers_meet_for_each_round() {
    let mut plan = burst(echo(), BurstAt::Send);
    plan.threads = 3;
    for driver in [DriverKind::Epoll, DriverKind::Uring] {
        let Some(sum) = run(driver, plan.clone(), Weather::default(), answering(echo_back)) else { continue };
        sum.assert_conserved(driver.name());
        assert_eq!(sum.total.counts.ok, 200, "{}", driver.name());
    }
}

#[test]
fn silence_and_closes_end_a_round_and_not_the_run() {
    let mut plan = burst(echo(), BurstAt::Send);
    plan.timeouts.reply_ns = 50 * MS;
    on_all(&plan, answering(|_| vec![]), |name, sum| {
        assert_eq!((sum.total.counts.failed, sum.of(ErrorKind::ReplyTimeout)), (200, 200), "{name}");
        assert_eq!(sum.total.counts.connected, 200, "{name}: each round has new connections");
    });
    // On a busy machine the server may take its time to close.
    plan.timeouts.reply_ns = 20 * S;
    on_all(&plan, answering(|_| vec![Action::Close { after_ns: 0 }]), |name, sum| {
        assert_eq!(sum.total.counts.failed, 200, "{name}");
        assert_eq!(sum.of(ErrorKind::MissingReply) + sum.of(ErrorKind::Reset), 200, "{name}");
    });
}

#[test]
fn what_cannot_be_connected_is_counted_and_the_rest_goes_on() {
    let weather = Weather { refuse: 0.3, ..Weather::default() };
    let plan = burst(echo(), BurstAt::Connect);
    let sum = run(DriverKind::Sim, plan, weather, answering(echo_back)).unwrap();
    sum.assert_conserved("sim");
    let c = &sum.total.counts;
    assert_eq!(c.started, 200);
    assert!(c.ok > 50 && sum.of(ErrorKind::Refused) == c.failed && c.failed > 20, "{c:?}");
}
