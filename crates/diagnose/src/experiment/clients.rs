//! Clients at once: one request at a time, k at a time (`pool-exhausted`), or more with each client.
//!
//! Dose: clients, each with its next request after the reply. Response: throughput. With k slots it rises in proportion to the
//! clients up to k, and is flat from there on; then latency is clients ÷ throughput (Little's law), and k is the flat
//! throughput × the time of a single request. Whether the slots wait or compute, no client can see: where the server is on
//! this machine, the cores that are busy for it tell; else both are named. A single request must take a millisecond: below that wake-ups
//! and the generator's own cores bend the curve of a healthy server as a pool does.

use super::steps::{Step, Steps, us};
use super::{Decision, Experiment};

/// A single request takes so long at the least, microseconds.
const SINGLE_US: f64 = 1_000.0;
/// So flat, in either direction.
const FLAT: f64 = 0.25;
/// Below the bend it rises by at least so much of what the clients' number says.
const LINEAR: f64 = 0.7;
/// Cores busy for each slot: below, slots wait; above, they compute.
const WAITS: f64 = 0.5;
const COMPUTES: f64 = 0.7;
/// Clients beyond the bend: so many times the slots.
const PAST: f64 = 1.2;
/// The median of who is answered is no more than so many times that of a single client, and as much.
const QUICK_TIMES: f64 = 3.0;
const QUICK_US: f64 = 1_000.0;
/// A step in which more than this is lost says nothing of throughput.
const LOST: f64 = 0.1;

/// Clients that are never answered while others are, from some number on.
fn left_out(steps: &Steps<'_>, responses: &[super::Response]) -> Option<Decision> {
    let doses = steps.doses();
    // Those that are answered are so at once: else it is a line that is too long for the timeout, and everybody's.
    let least = steps.mean(*doses.first()?, |step| step.response_p50_us)?.value;
    let is_quick = |step: &Step| step.response_p50_us.is_some_and(|p50| p50 <= QUICK_TIMES * least + QUICK_US);
    let loses = |step: &Step| step.ok > 0 && step.failed + step.unfinished > 0 && is_quick(step);
    let first = doses.iter().position(|dose| steps.always(*dose, loses))?;
    let (with_all, others) = (doses.get(..first)?, doses.get(first..)?);
    let none_lost = |dose: &f64| steps.always(*dose, |step| step.failed + step.unfinished == 0);
    if with_all.is_empty() || !with_all.iter().all(none_lost) || !others.iter().all(|dose| steps.always(*dose, loses)) {
        return None;
    }
    let (most, least) = (with_all.last()?, others.first()?);
    let text = format!(
        "of {least:.0} clients some are never answered while the others are; of {most:.0} all are: a connection holds a worker, or a place, that the others want"
    );
    let decision = Decision::supported(Experiment::Clients, text, responses.to_vec());
    Some(decision.points_to(&["worker-starvation", "connection-limit"]).remedy(
        "Serve more connections than there are workers (an event loop), have more workers, or raise the limit of connections",
        "for t in /proc/PID/task/*; do cat $t/wchan; echo; done | sort | uniq -c: all in a receive",
    ))
}

pub(super) fn judge(steps: &Steps<'_>) -> Decision {
    let of = Experiment::Clients;
    let throughput = |step: &Step| (step.lost_share() <= LOST).then_some(step.throughput_per_s);
    let responses = steps.responses("throughput_per_s", "1/s", throughput);
    let curve: Vec<(f64, f64)> =
        steps.doses().into_iter().filter_map(|dose| Some((dose, steps.mean(dose, throughput)?.value))).collect();
    if let Some(decision) = left_out(steps, &responses) {
        return decision;
    }
    let single = steps.mean(1.0, |step| step.response_mean_us).map(|mean| mean.value);
    let (Some(single_us), [.., (before, previous), (most, last)]) = (single, curve.as_slice()) else {
        return Decision::open(of, "too few doses were answered to see what more clients bring", responses);
    };
    let (before, previous, most, last) = (*before, *previous, *most, *last);
    let top = curve.iter().map(|(_, per_s)| *per_s).fold(0.0, f64::max);
    if single_us < SINGLE_US {
        let text = format!(
            "a single request takes {}, too short to see from outside how many are served at a time; up to {top:.0} a second were answered",
            us(single_us)
        );
        return Decision::refuted(of, text, responses);
    }
    if last > previous * (1.0 + FLAT) {
        let text = format!(
            "throughput rises with each client up to {most:.0} ({last:.0} a second): no number of slots is reached"
        );
        return Decision::refuted(of, text, responses);
    }
    if last < top * (1.0 - FLAT) {
        let at = curve.iter().find(|(_, per_s)| *per_s == top).map_or(before, |(dose, _)| *dose);
        let text = format!(
            "throughput falls from {top:.0} a second at {at:.0} clients to {last:.0} at {most:.0}: they are in each other's way"
        );
        return Decision::supported(of, text, responses).points_to(&["lock-contention", "swap-thrash"]).remedy(
            "Serve fewer at once, and look for the lock or memory that they share",
            "perf record -g -p PID; perf report",
        );
    }
    let slots = last.max(previous) * single_us / 1e6;
    let k = slots.round().max(1.0);
    let flat_from: Vec<f64> = curve.iter().filter(|(dose, _)| *dose >= PAST * k).map(|(_, per_s)| *per_s).collect();
    let is_flat = flat_from.len() >= 2 && flat_from.iter().all(|per_s| (per_s / top - 1.0).abs() <= FLAT);
    let first = curve.first().map_or(0.0, |(_, per_s)| *per_s);
    let rises = curve.iter().filter(|(dose, _)| *dose <= k * 0.75).all(|(dose, per_s)| *per_s >= LINEAR * dose * first);
    if !is_flat || !rises {
        let text = format!(
            "throughput bends at about {k:.0} clients without a flat line behind it: no number of slots is decided"
        );
        return Decision::open(of, text, responses);
    }
    let at_a_time = if k > 1.0 { format!("{k:.0} requests at a time") } else { "one request at a time".to_owned() };
    let text = format!(
        "the server serves {at_a_time}: throughput is flat at {last:.0} a second from {k:.0} clients on, and latency is clients ÷ throughput ({} for {most:.0} clients, {} for one)",
        us(most / last * 1e6),
        us(single_us)
    );
    let busy = steps.mean(most, |step| step.busy_cores).map(|busy| busy.value);
    match busy.map(|busy| (busy, busy / k)) {
        Some((busy, share)) if share < WAITS && k > 1.0 => {
            let text =
                format!("{text}; only {busy:.1} cores of this machine are busy for it, so its {k:.0} slots wait");
            Decision::supported(of, text, responses).finding("pool-exhausted").remedy(
                "Have more workers (or backend connections) than wait at a time, or do not wait in a worker",
                "for t in /proc/PID/task/*; do cat $t/wchan; echo; done | sort | uniq -c",
            )
        }
        Some((busy, share)) if share < WAITS => {
            let text = format!(
                "{text}; only {busy:.1} cores of this machine are busy for it, so it waits while it serves one"
            );
            Decision::supported(of, text, responses)
                .points_to(&["event-loop-blocked", "lock-contention", "pool-exhausted"])
                .remedy(
                    "Do not wait where all requests stand in line: a second worker, or an event loop",
                    "strace -f -c -p PID",
                )
        }
        Some((busy, share)) if share >= COMPUTES => {
            let text = format!("{text}; {busy:.1} cores of this machine are busy for it, so it computes");
            let points_to = if k > 1.0 { "cpu-saturated" } else { "single-thread-bound" };
            Decision::supported(of, text, responses)
                .points_to(&[points_to])
                .remedy("Make each request cheaper, or serve from more cores", "pidstat -u -t 1")
        }
        Some((busy, _)) => {
            let text = format!(
                "{text}; {busy:.1} cores of this machine are busy for it, which tells neither that it waits nor that it computes"
            );
            Decision::supported(of, text, responses).points_to(&[
                "pool-exhausted",
                "cpu-saturated",
                "single-thread-bound",
            ])
        }
        None => {
            let text = format!("{text}; whether these wait or compute cannot be told from outside");
            Decision::supported(of, text, responses).points_to(&["pool-exhausted", "cpu-saturated", "single-thread-bound"]).remedy(
                "Look at the server's CPU under this load: idle cores tell a pool that waits, full ones a machine at its limit",
                "mpstat -P ALL 1, at the server",
            )
        }
    }
}
