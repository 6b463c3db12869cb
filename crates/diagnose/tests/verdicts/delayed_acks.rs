//! Replies whose end waits for a delayed ACK: told from a timer of 40 ms, and found behind what the target does itself.

use crate::common::SECOND;
use crate::common::judged::{of, sampled, status, waiting, with};
use diagnose::diagnose;
use model::finding::{Severity, Status};
use model::request::Request;

#[test]
fn forty_milliseconds_are_nagles_only_with_delayed_acks() {
    let slow = |acks: u64, service_ms: u64| {
        let mut recording = with(waiting(), move |second, s| s.network.set("delayed_acks", acks * second));
        sampled(&mut recording, 100, |n| Request {
            ready_ns: n,
            sent_ns: SECOND,
            ended_ns: SECOND + service_ms * 1_000_000,
            ordinal: 1 + n as u32 % 10,
            ..Request::default()
        });
        recording
    };
    let found = slow(390, 44);
    assert_eq!(status(&found, "nagle-delayed-ack"), Status::Supported);
    assert_eq!(of(&diagnose(&found), "nagle-delayed-ack").severity, Severity::Error);
    assert_eq!(status(&slow(3, 44), "nagle-delayed-ack"), Status::Refuted, "a timer of 40 ms");
    assert_eq!(status(&slow(390, 200), "nagle-delayed-ack"), Status::Refuted, "TCP_CORK's 200 ms");
}

/// A server that takes 10 ms before it writes head and body of a reply apart.
#[test]
fn a_delayed_ack_behind_the_targets_own_work_is_told_by_what_the_kernel_counts() {
    let slow = |acks: u64, busy_ms: u64, change: fn(&mut model::metrics::Metrics)| {
        // A hundred requests a second of 54 ms each: 5.4 are under way at a time.
        let mut recording = with(waiting(), move |second, s| {
            s.network.set("delayed_acks", acks * second);
            s.network.set("send_busy_ns", 100 * busy_ms * 1_000_000 * second);
            for (name, value) in [("send_window_limited_ns", 0), ("send_buffer_limited_ns", 0)] {
                s.network.set(name, value);
            }
            s.network.set("not_sent_bytes", 8);
            s.network.set("unacked_segments", 4);
            s.network.set("rtt_min_p50_ns", 50_000);
            change(&mut s.network);
        });
        sampled(&mut recording, 100, |n| Request {
            ready_ns: n,
            sent_ns: SECOND,
            ended_ns: SECOND + 54_000_000,
            ordinal: 1 + n as u32 % 10,
            ..Request::default()
        });
        recording
    };
    let rate = slow(95, 44, |_| {}).totals.requests_per_s();
    let each = |acks: f64, busy_ms: f64, change: fn(&mut model::metrics::Metrics)| {
        slow((acks * rate) as u64, (busy_ms * rate / 100.0) as u64, change)
    };
    let found = each(0.95, 44.0, |_| {});
    let diagnosis = diagnose(&found);
    let finding = of(&diagnosis, "nagle-delayed-ack");
    assert_eq!(finding.status, Status::Supported);
    assert!(
        finding.title.starts_with("the end of each reply waits 44.0 ms for a delayed ACK, of the 54.0 ms"),
        "{}",
        finding.title
    );
    for (what, other) in [
        ("no delayed ACKs", each(0.1, 44.0, |_| {})),
        ("a little under way", each(0.95, 5.0, |_| {})),
        ("for longer", each(0.95, 70.0, |_| {})),
        ("nothing behind it", each(0.95, 44.0, |m| m.set("not_sent_bytes", 0))),
        ("far away", each(0.95, 44.0, |m| m.set("rtt_min_p50_ns", 40_000_000))),
        ("a large reply", each(0.95, 44.0, |m| m.set("unacked_segments", 400))),
    ] {
        assert_eq!(status(&other, "nagle-delayed-ack"), Status::Refuted, "{what}");
    }
}
