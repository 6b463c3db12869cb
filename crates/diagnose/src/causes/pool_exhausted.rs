//! `pool-exhausted`: all of the target's workers wait for the same thing, and further requests stand in line for a worker while
//! the processor is free.
//!
//! Evidence: (process) the working threads stood in one kind of wait that is none for work (a sleep, a receive, a lock) in most
//! readings, two of them at least, or in poll(2) while connections waited to be accepted; or several threads did, always as many,
//! and the others stood in futex: they queue for one of so many places (connections of a pool, permits); or threads that hardly
//! run did, each time a request came: a pool behind an event loop; or the only working thread slept, once for each reply (by its calls, or
//! by how often it left its CPU, with replies at even times); (client) requests took at least 1.5 times what one wait takes,
//! and far longer than the work in them; a processor was free. Refuted where threads wait for events, or run, or where as many
//! sleep as there are requests: each has a thread of its own. What they wait for
//! has a name of its own, and is then the root. Source: Little's law: with k workers, throughput is k ÷ the wait, and the rest is
//! the line.

use crate::evidence::{Client, Process};
use crate::facts::{Facts, Stand, duration, percent};
use crate::history::ProcessId;
use crate::ledger::{in_target_at_a_time, in_target_ns};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, WAITING_NS};
use model::finding::{LossKind, Severity};
use model::snapshot::Runtime;
use std::collections::BTreeSet;

const STOOD_MIN: f64 = 0.7;
const READINGS_MIN: usize = 3;
/// Of the working threads, one that stood in the wait in fewer of its readings is no worker.
const WORKER_MIN: f64 = 0.5;
/// Requests must take so many times the work in them.
const TIMES_WORK: f64 = 5.0;
/// A thread that serves alone sleeps in each request, and not in one of many: that is an event loop's (`event-loop-blocked`).
const SLEEPS_MIN: f64 = 0.5;
/// Fewer sleeps in the windows say nothing of how often there is one.
const SLEEPS_COUNTED_MIN: u64 = 5;
/// The line in front of the workers: requests under way for each of them.
const LINE_MIN: f64 = 1.5;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "pool-exhausted",
    needs: Needs::Connections,
    reads: &[&["process/stands"], &["process/threads"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let stands = facts.stands(&facts.working());
    if stands.readings.len() < READINGS_MIN {
        return Verdict::not_observable(
            "where the workers stood",
            "fewer than three readings of the target's working threads were made",
        );
    }
    // Threads that wait for a place stand in futex: theirs is the line, and those that have one are the workers.
    let places = stands.places().filter(|places| places.count > 1);
    let of = |stand| (stand, stands.share(stand).unwrap_or(0.0));
    let most = [Stand::Sleep, Stand::Receive, Stand::PipeWrite, Stand::Child, Stand::Disk, Stand::Other].map(of);
    // One that waits in poll(2) while connections wait to be accepted waits for something else: a sleep of Ruby's, too.
    let polling = (Stand::Events, facts.share_polling_beside_a_queue(&facts.working()).unwrap_or(0.0));
    let most = most
        .into_iter()
        .chain([polling])
        .fold((Stand::Other, 0.0), |most, one| if one.1 > most.1 { one } else { most });
    // A wait in futex that nobody but its own time limit ended is a sleep (Ruby's, Java's, Python's). Whoever hands out work to those
    // that sleep so waits there for them, and is none of them.
    let sleepers =
        Some(facts.sleepers_in_futex(STOOD_MIN)).filter(|sleepers| most.1 < STOOD_MIN && !sleepers.is_empty());
    let slept = sleepers.map(|sleepers| (Stand::Futex, sleepers));
    // Those that hardly run serve, too, where each request makes one of them wait: a pool behind an event loop.
    let behind = slept.clone().or_else(|| facts.waiters().filter(|_| most.1 < STOOD_MIN));
    let (workers, stand, share) = match (places, &behind) {
        (Some(places), _) => (places.count, places.wait, of(places.wait).1 + places.queued),
        (None, Some((wait, threads))) => (threads.len(), *wait, facts.stands(threads).share(*wait).unwrap_or(0.0)),
        (None, None) if most.0 == Stand::Events => (stands.threads, most.0, most.1),
        // Who hands out work, or accepts, works too, and is none of them.
        (None, None) => {
            let own = |thread| facts.stands(&[thread].into()).share(most.0).unwrap_or(0.0);
            (facts.working().into_iter().filter(|thread| own(*thread) >= WORKER_MIN).count(), most.0, most.1)
        }
    };
    let what = match stand {
        Stand::Sleep | Stand::Futex => "slept",
        Stand::Receive => "waited in a receive",
        Stand::PipeWrite => "waited for room in a pipe",
        Stand::Child => "waited for a process that they had started",
        Stand::Events => "waited in poll(2), and took none of the connections that waited,",
        Stand::Disk => "waited for a disk",
        _ => "waited for the same thing",
    };
    let text = match places {
        Some(places) => format!(
            "{workers} of its {} working threads {what} at any time, and the others queued for a place ({} of the time)",
            stands.threads,
            percent(places.queued)
        ),
        None if workers == 1 => format!("its only working thread {what} {} of the time", percent(share)),
        None => format!("its {workers} working threads {what} {} of the time", percent(share)),
    };
    let process = facts.piece::<Process>(text, "target.threads_in_one_wait", share, "ratio").from(STOOD_MIN);
    let is_alone = workers == 1
        && match (stand, &slept) {
            (Stand::Sleep, _) => sleeps_in_each(facts),
            // Go's threads wait so for the timers of many goroutines.
            (Stand::Futex, Some((_, sleepers))) => !facts.is_of(Runtime::Go) && leaves_in_each(facts, sleepers),
            _ => false,
        };
    if (workers < 2 && !is_alone)
        || share < STOOD_MIN
        || facts.busiest_demand().is_none_or(|demand| demand >= DEMAND_FULL.value)
    {
        return Verdict::refuted("the target's workers were not all in the same wait").because(process.into());
    }
    let Some((in_ns, cost_ns)) = in_target_ns(facts).zip(facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "requests in line",
            "no request succeeded, or the target's CPU time was not read",
        );
    };
    let under_way = in_target_at_a_time(facts, in_ns);
    let line = under_way / workers as f64;
    let text = format!(
        "{under_way:.1} requests were in the target at a time, {line:.1} for each worker: {} each, of which it worked {}",
        duration(in_ns),
        duration(cost_ns)
    );
    let client = facts.piece::<Client>(text, "target.requests_a_worker", line, "ratio").from(LINE_MIN);
    if line < LINE_MIN || in_ns < TIMES_WORK * cost_ns || in_ns < WAITING_NS.value {
        return Verdict::refuted("hardly a request stood in line for a worker")
            .because(process.into())
            .because(client.into());
    }
    // A thread for each request, and all of them sleep: for a lock that is asked for again and again, as SQLite's is.
    let asleep = facts.stands(&facts.all_threads()).at_a_time(Stand::Sleep);
    if stand == Stand::Sleep && behind.is_none() && under_way < LINE_MIN * asleep {
        let text = format!("{asleep:.1} threads of the target slept at a time, with {under_way:.1} requests in it");
        let process = facts.evidence(text, "target.threads_asleep", asleep, "threads");
        return Verdict::refuted("each request has a thread of its own, and none waits for one").because(process);
    }
    // One thread of a runtime may wait for the timers of many requests.
    let at_a_time = facts.first_round().and_then(|round| round.at_a_time()).filter(|_| is_alone);
    if let Some(count) = at_a_time.filter(|count| *count > 1) {
        let text = format!("about {count} requests are served at a time, by the first of the run and by its rate");
        let client = facts.evidence(text, "target.served_at_a_time", f64::from(count), "requests");
        return Verdict::refuted("more requests are served at a time than by one worker")
            .because(process.into())
            .because(client);
    }
    let in_line = 1.0 - 1.0 / line;
    let title = match places {
        Some(_) => {
            format!("the target has {workers} places for work that waits, and requests stand in line for one of them")
        }
        None if is_alone => {
            "the target's only worker waits in each request, and the others stand in line for it".to_owned()
        }
        None => format!("all {workers} workers of the target wait at once, and requests stand in line for one of them"),
    };
    Verdict::proved(Severity::Error, title, process, client)
        .because_all(facts.waits_at(&facts.working()))
        .explains(LossKind::Waiting, in_line, in_line * 0.7, 1.0)
        .remedy("Have more workers than wait at a time (requests a second × the time of one wait), or do not wait in a worker (an event loop)")
        .check("for t in /proc/PID/task/*; do cat $t/wchan; echo; done | sort | uniq -c")
        .confidence(0.8)
}

/// Whether the target slept once for each reply, nearly: by the sleeps in the probes' windows. Where none were counted, by how often its
/// threads left their CPU of their own accord, if requests ended at even times: one that sleeps in few of them is long asleep while none ends.
fn sleeps_in_each(facts: &Facts<'_>) -> bool {
    let slept_per_s = match facts.calls_window_ns() {
        Some(window_ns) => {
            let count = facts.calls(&["nanosleep", "clock_nanosleep"]).0;
            if count < SLEEPS_COUNTED_MIN {
                return false;
            }
            count as f64 / (window_ns / 1e9)
        }
        None => return leaves_in_each(facts, &facts.working()),
    };
    is_each(facts, slept_per_s)
}

/// Whether some threads left their CPU once for each reply, nearly, with replies at even times.
fn leaves_in_each(facts: &Facts<'_>, threads: &BTreeSet<(ProcessId, u32)>) -> bool {
    facts.ends_evenly() && is_each(facts, threads.iter().filter_map(|thread| facts.left_cpu_per_s(*thread)).sum())
}

fn is_each(facts: &Facts<'_>, waits_per_s: f64) -> bool {
    let replies_per_s = facts.recording.totals.requests_per_s();
    replies_per_s > 0.0 && waits_per_s >= SLEEPS_MIN * replies_per_s
}
