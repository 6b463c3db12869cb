//! Kept connections against new ones: `nagle-delayed-ack`, `keepalive-off`, what a connection costs.
//!
//! Dose: requests on a connection before it is replaced (1, 2, all). A delayed ACK holds up replies from a connection's second
//! request on: so the mean rises with the dose, from quick replies at 1 to 36 to 48 ms when it is kept, with the half of that
//! at 2. A server whose every reply takes 40 ms is as slow at 1. One that closes after each reply is seen by its closes.
//! Source: TCP_DELACK_MIN; RFC 1122, 4.2.3.2.

use super::steps::{Step, Steps, us};
use super::{Decision, Experiment};
use crate::thresholds::{CLOSES, NAGLE_HIGH_NS, NAGLE_LOW_NS};

/// The dose of a connection that is kept.
pub const KEPT: f64 = 1000.0;
/// Between two doses the mean must rise by so much, microseconds: a fourth of what two requests with one delay have.
const RISE_US: f64 = 5_000.0;
/// So much of a request is a connection's: worth telling.
const COST_MIN: f64 = 0.2;
/// Fewer requests say nothing of closes.
const REQUESTS_MIN: u64 = 5;

pub(super) fn judge(steps: &Steps<'_>) -> Decision {
    let of = Experiment::Reuse;
    let mean = |step: &Step| step.response_mean_us;
    let responses = steps.responses("response_mean_us", "us", mean);
    let (Some(new), Some(kept)) = (steps.mean(1.0, mean), steps.mean(KEPT, mean)) else {
        return Decision::open(of, "no request succeeded on a new connection, or on a kept one", responses);
    };
    let closes = |step: &Step| {
        let all = step.ok + step.failed;
        all >= REQUESTS_MIN
            && step.lost_share() < 0.1
            && step.connected.min(step.closed) as f64 >= CLOSES.value * all as f64
    };
    if steps.always(KEPT, closes) {
        let connect = steps.mean(KEPT, |step| step.connect_mean_us).map_or(0.0, |connect| connect.value);
        let share = connect / (connect + kept.value).max(1e-9);
        return Decision::supported(
            of,
            format!(
                "the server closes after each reply, though connections would be kept: a connection costs {}, {:.0} % of a request's {}",
                us(connect),
                100.0 * share,
                us(connect + kept.value)
            ),
            responses,
        )
        .finding("keepalive-off")
        .remedy(
            "Turn keep-alive on in the server",
            "curl -sv -o /dev/null -o /dev/null URL URL 2>&1 | grep -i -e '^< connection' -e re-us",
        );
    }
    let band = NAGLE_LOW_NS.value / 1e3..=NAGLE_HIGH_NS.value / 1e3;
    let is_delayed = |step: &Step| step.response_p50_us.is_some_and(|p50| band.contains(&p50));
    let is_quick = |step: &Step| step.response_p50_us.is_some_and(|p50| p50 < NAGLE_LOW_NS.value / 2e3);
    if steps.always(KEPT, is_delayed) && steps.always(1.0, is_quick) {
        let text = format!(
            "a reply takes {} on a kept connection and {} on a new one: it waits for a delayed acknowledgement",
            us(kept.value),
            us(new.value)
        );
        let rises = steps
            .mean(2.0, mean)
            .is_some_and(|two| new.value + RISE_US < two.value && two.value + RISE_US < kept.value);
        if !rises {
            let text = format!(
                "{text}, or for something else that a new connection has not: with two requests on each the mean is not between"
            );
            return Decision::open(of, text, responses).points_to(&["nagle-delayed-ack"]);
        }
        return Decision::supported(of, text, responses).finding("nagle-delayed-ack").remedy(
            "Set TCP_NODELAY on each accepted connection, or write head and body of a reply in one call (writev, MSG_MORE)",
            "strace -f -e trace=network,write -p PID: two sends a reply and no TCP_NODELAY; nstat -z TcpExtDelayedACKs",
        );
    }
    let later = steps.difference(1.0, KEPT, mean);
    if later.is_some_and(|later| later.is_above(RISE_US)) {
        return Decision::supported(
            of,
            format!(
                "replies take longer on a kept connection ({}) than on a new one ({}), and not as long as a delayed acknowledgement",
                us(kept.value),
                us(new.value)
            ),
            responses,
        )
        .remedy(
            "Look for a timer between requests of one connection: TCP_CORK without an end holds the last segment for 200 ms",
            "strace -f -r -e trace=network,write -p PID",
        );
    }
    let connect = steps.mean(1.0, |step| step.connect_mean_us).map_or(0.0, |connect| connect.value);
    let share = connect / (connect + new.value).max(1e-9);
    let cost =
        if share >= COST_MIN { format!(", {:.0} % of a request on a new one", 100.0 * share) } else { String::new() };
    Decision::refuted(
        of,
        format!(
            "replies take as long on kept connections ({}) as on new ones ({}), or less; a connection costs {}{cost}",
            us(kept.value),
            us(new.value),
            us(connect)
        ),
        responses,
    )
}
