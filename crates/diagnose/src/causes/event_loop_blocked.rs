//! `event-loop-blocked`: one piece of work holds a thread of the target, and all requests on it stall together.
//!
//! Evidence: (client) pauses in which several requests were under way and none ended; and one of these:
//! (kernel) calls of the target that took as long as such a pause and are none for work (a sleep, a file, a receive);
//! (process) the only working thread slept, or waited for a disk or for a process that it had started, for half of the pauses' time;
//! (process) one of several workers did so all the time, while the others worked or waited for work, or was full while they had room, or
//! computed for much of the time while they hardly did; that one is told, too, by connections that starve beside others, or slow requests that are behind slow ones on their connection;
//! (process) the thread ran for half of the pauses' time, or (kernel) ran and waited for a CPU so, with no wait as long as a pause;
//! (process) the only working thread neither ran nor wanted a CPU for most of that time, asks nobody, and nothing but this host is
//! between it and its clients.
//!
//! Refuted where as many threads do the work as requests were under way, where pauses come at regular times over several threads
//! (`stop-the-world`), where the thread had to wait for a CPU as long (or others had that CPU, and too few pauses lay in the
//! probes' windows to tell), where segments were sent again, as many as requests stood still, and where only requests stood that
//! were the first on their connection, though others came. Needs four pauses of 10 ms.

use super::held_worker::{are_behind_slow_ones, held, held_worker, is_held};
use super::of_loss;
use super::pauses::{Pauses, is_alone, of_new_connections, pauses, slow_share};
use crate::evidence::{Client, Kernel, Piece, Process};
use crate::explain::standstill::stopped_again;
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::statistics::at_most_by_chance;
use crate::thresholds::{PAUSED_SHARE, PAUSES_IDLE, PERIODIC, SLOW_TIME};
use model::bpf::LongCall;
use model::finding::{LossKind, Severity};

const OUT_OF_LOOP: &str = "Take long work out of the event loop (a thread for it, smaller pieces); report --flame on-cpu and off-cpu show which it is";
const OTHERS_FREE: &str = "Look at what that one does (report --flame on-cpu and off-cpu), and let the others take its connections: one listener for all, or work handed to whoever is free";

/// Calls in which a thread waits for work, or for another thread.
const FOR_WORK: [&str; 11] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "io_uring_enter",
    "accept",
    "accept4",
    "futex",
];

/// Kinds of descriptors at which a thread waits for work.
const AT_WORK: [&str; 4] = ["listener", "client", "epoll", "event"];

/// What comes by chance so rarely is none.
const CHANCE_MAX: f64 = 0.01;

/// Fewer readings of where the thread stood say nothing.
const READINGS_MIN: usize = 5;
/// Whom it asks must have been read so often.
const READINGS_ASKED_MIN: usize = 4;
/// A reading that began so long before the end of a pause lies in it.
const LOOKED_NS: u64 = 10_000_000;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "event-loop-blocked", needs: Needs::Connections, reads: &[&["process/threads"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(pauses) = pauses(facts) else {
        let none = "there were no pauses of several requests at once, or hardly any";
        return of_one_worker(facts, false).unwrap_or_else(|| Verdict::refuted(none));
    };
    if let Some(recycled) = super::deaths::recycled(facts) {
        return recycled.refutes();
    }
    if let Some(stopped) =
        stopped_again(facts).filter(|stopped| stopped.times.saturating_mul(2) >= pauses.all.len() as u64)
    {
        return stopped.refutes(facts);
    }
    let is_alone = is_alone(facts);
    let text = format!(
        "{} pauses in which {}, {} long (median), {} of the time",
        pauses.all.len(),
        if is_alone { "the only request under way did not end" } else { "none of several requests ended" },
        duration(pauses.median_ns),
        percent(pauses.share)
    );
    let client = facts.piece::<Client>(text, "pauses.share", pauses.share, "ratio").from(PAUSED_SHARE.value);
    if let Some((stood, others)) = of_new_connections(facts, pauses) {
        let text = format!(
            "those that stood in pauses were the first on their connection ({} of them, {} of the others): whom it had accepted it answered",
            percent(stood),
            percent(others)
        );
        return Verdict::refuted(text).because(client.into());
    }
    let working = facts.working().len();
    if pauses.in_flight() <= working as f64 && !is_alone {
        let text = "as many threads do the work as requests were under way: none waits behind another's";
        return of_one_worker(facts, false).unwrap_or_else(|| Verdict::refuted(text).because(client.into()));
    }
    if let Some(verdict) = of_one_worker(facts, true) {
        return verdict;
    }
    if working > 1 && pauses.scatter.is_some_and(|scatter| scatter <= PERIODIC.value) {
        return Verdict::refuted("the pauses came at regular times over several threads").because(client.into());
    }
    let busiest = facts.target_threads.first();
    let (run, wait) = busiest.map_or((0.0, 0.0), |thread| (thread.run.unwrap_or(0.0), thread.wait.unwrap_or(0.0)));
    // Who is taken off its CPU within a call is long in it: where its waits for a CPU are enough to be the pauses, and others had
    // that CPU, no call is to blame.
    let is_kept_off = wait >= 0.5 * pauses.share && super::cpu_contention::is_contended(facts);
    let call = long_call(facts, pauses.median_ns, run, wait).or_else(|| slow_call(facts, pauses.median_ns));
    let kernel = call.filter(|_| !is_kept_off);
    let stalled = pauses.all.len() as f64 * pauses.in_flight();
    let is_lossy = super::packet_loss::is_lossy(facts) || super::packet_loss::has_sent_again(facts, stalled);
    if kernel.is_none() && is_lossy {
        return Verdict::refuted("segments were lost on the way: what does not end meanwhile is not held by a thread")
            .because(client.into());
    }
    // The waits were counted in the probes' windows alone: of the pauses as many as fall there.
    let in_windows = pauses.all.len() as f64 * windows_share(facts);
    // Where others had that CPU for long, that so few were among them must be no chance.
    let is_few = |waits: u64| match is_kept_off {
        true => at_most_by_chance(waits, in_windows) < CHANCE_MAX,
        false => 2.0 * (waits as f64) < in_windows,
    };
    let title = match is_alone {
        true => {
            format!("whatever is asked stalls every {}, for {}", duration(pauses.every_ns), duration(pauses.median_ns))
        }
        false => format!("all requests of a thread stall together, for {} at a time", duration(pauses.median_ns)),
    };
    let stood = stood(facts, pauses.share);
    let verdict = match (kernel, stood) {
        (Some(kernel), _) => Verdict::proved(Severity::Error, title, client, kernel),
        (None, Some(process)) => Verdict::proved(Severity::Error, title, client, process),
        (None, None) if run >= 0.5 * pauses.share && wait < 0.5 * run && working >= 1 => {
            let text = format!(
                "its busiest thread ran {} of the time, and hardly waited for a CPU ({})",
                percent(run),
                percent(wait)
            );
            let process = facts.piece::<Process>(text, "target.thread_run", run, "ratio").from(0.5 * pauses.share);
            Verdict::proved(Severity::Error, title, client, process)
        }
        // On a crowded machine its work takes as many times longer as others share its CPU: many short waits, none as long.
        (None, None) if run + wait >= 0.5 * pauses.share && long_waits(facts, pauses.median_ns).is_some_and(is_few) => {
            let waits = long_waits(facts, pauses.median_ns).unwrap_or(0);
            let text = format!(
                "it ran or wanted a CPU {} of the time, and only {waits} of its waits for one were a quarter as long as a pause, \
                 with {in_windows:.1} pauses in the same time",
                percent(run + wait)
            );
            let kernel =
                facts.piece::<Kernel>(text, "runqueue.long_waits", waits as f64, "waits").from(in_windows / 2.0);
            Verdict::proved(Severity::Error, title, client, kernel)
        }
        (None, None) if is_kept_off || wait >= 0.5 * run && run + wait > 0.1 => {
            return Verdict::refuted("the thread had to wait for a CPU").because(client.into());
        }
        (None, None) => match did_nothing(facts, pauses, run + wait) {
            Some(process) => Verdict::proved(Severity::Error, title, client, process),
            None => {
                let more = match facts.calls_window_ns() {
                    Some(_) => "hardly a pause fell into the probes' windows: a longer run, or --observe full",
                    None => "--observe windows",
                };
                let missing = format!(
                    "pauses are one piece of evidence; which call, or what its thread did meanwhile, was not seen: {more}"
                );
                return Verdict::not_observable("what holds a thread", missing).because(client.into());
            }
        },
    };
    let slow = slow_share(facts);
    advised(verdict.explains(LossKind::Slow, slow, slow * 0.7, 1.0), OUT_OF_LOOP)
}

/// One worker's are those that starve, or are slow, also where the others answer meanwhile, so that there is no pause of all: then slow ones
/// are seen to be a connection's.
fn of_one_worker(facts: &Facts<'_>, has_pauses: bool) -> Option<Verdict<OfTarget>> {
    let held = held_worker(facts)?;
    let slow_time = facts.kinds.slow_time.unwrap_or(0.0);
    let starved = facts.recording.totals.users.filter(|users| users.starved > 0);
    let (client, of) = match starved {
        Some(users) => {
            let text = crate::rules::starved_users::words(&users);
            (
                facts.piece::<Client>(text, "users.starved", users.starved as f64, "connections").from(1.0),
                LossKind::Starved,
            )
        }
        None => (of_loss::slow_requests(facts), LossKind::Slow),
    };
    if starved.is_none() && (slow_time < SLOW_TIME.value || !(has_pauses || are_behind_slow_ones(facts))) {
        return None;
    }
    let verdict = Verdict::proved(Severity::Error, held.title, client, held.process);
    Some(advised(verdict.explains(of, 0.9, 0.6, 1.0), OTHERS_FREE))
}

fn advised(verdict: Verdict<OfTarget>, remedy: &str) -> Verdict<OfTarget> {
    verdict
        .remedy(remedy)
        .check("timeout 5 strace -f -r -T -p PID # long times between a receive and its send")
        .confidence(0.85)
}

/// A call that was as long as a pause whenever it was long, and at what; or that a thread was in no call for so long, where it had
/// its CPU.
fn long_call(facts: &Facts<'_>, pause_ns: f64, run: f64, wait: f64) -> Option<Piece<Kernel>> {
    let is_one = |call: &&LongCall| {
        let is_for_work = FOR_WORK.contains(&&*call.name) || AT_WORK.contains(&&*call.at);
        let is_its_own = call.name != "none" || wait < 0.5 * run;
        call.count > 0 && !is_for_work && is_its_own && call.ns as f64 / call.count as f64 >= 0.5 * pause_ns
    };
    let call = facts.probes()?.long_calls.iter().filter(is_one).max_by_key(|call| call.ns)?;
    let each_ns = call.ns as f64 / call.count as f64;
    let what = match (&*call.name, &*call.at) {
        ("none", _) => "it was in no system call, and computed".to_owned(),
        (name, "none" | "unknown") => format!("its system call {name} took"),
        (name, at) => format!("its system call {name} at a descriptor of the kind '{at}' took"),
    };
    let text = format!(
        "{what} {} at a time, {} times in the probes' windows, at most {} (thread {})",
        duration(each_ns),
        call.count,
        duration(call.longest_ns as f64),
        call.longest_tid
    );
    Some(facts.piece::<Kernel>(text, "syscalls.long_mean_us", each_ns / 1e3, "us").from(pause_ns / 2e3))
}

/// That the only thread which does the work slept, or waited for a disk or a process that it had started, for half of the pauses' time.
fn stood(facts: &Facts<'_>, paused: f64) -> Option<Piece<Process>> {
    let working = facts.working();
    let stands = facts.stands(&working);
    if working.len() != 1 || stands.readings.len() < READINGS_MIN {
        return None;
    }
    let (share, what) = held(&stands);
    let text = format!("its only working thread {what} {} of the time", percent(share));
    let piece = facts.piece::<Process>(text, "target.threads_in_one_wait", share, "ratio").from(0.5 * paused);
    (share > 0.0 && share >= 0.5 * paused).then_some(piece)
}

/// That the only working thread had nothing that it could wait for but something of its own: it neither ran nor wanted a CPU for most of the
/// pauses' time, asks nobody, and was not found waiting for work in one of them. What stands between it and its clients must be this host alone: a
/// path that stalls looks the same.
fn did_nothing(facts: &Facts<'_>, pauses: &Pauses, wanted: f64) -> Option<Piece<Process>> {
    let working = facts.working();
    let asks_nobody = facts.asked(READINGS_ASKED_MIN).is_some_and(|asked| asked.is_empty());
    let idle = 1.0 - wanted / pauses.share;
    if working.len() != 1 || idle < PAUSES_IDLE.value || !asks_nobody || !facts.is_loopback() {
        return None;
    }
    let is_within = |at_ns: i64| {
        let at_ns = u64::try_from(at_ns).unwrap_or(0);
        pauses.all.iter().any(|gap| gap.from_ns <= at_ns && at_ns.saturating_add(LOOKED_NS) <= gap.to_ns)
    };
    let mut within = facts.snapshots().filter(|snapshot| is_within(snapshot.at_ns));
    if within.any(|snapshot| facts.stands_at(snapshot, &working).into_iter().any(|stand| !is_held(stand))) {
        return None;
    }
    let text = format!(
        "its only working thread ran or wanted a CPU {} of the time, and asks nobody else: for most of the pauses it did nothing, with \
         requests before it",
        percent(wanted)
    );
    Some(facts.piece::<Process>(text, "pauses.idle", idle, "ratio").from(PAUSES_IDLE.value))
}

/// A call that takes as long as a pause on average.
fn slow_call(facts: &Facts<'_>, pause_ns: f64) -> Option<Piece<Kernel>> {
    let long = facts.probes().into_iter().flat_map(|probes| &probes.calls).filter(|call| {
        call.count > 0 && !FOR_WORK.contains(&&*call.name) && call.ns as f64 / call.count as f64 >= 0.5 * pause_ns
    });
    let call = long.max_by_key(|call| call.ns)?;
    let each_ns = call.ns as f64 / call.count as f64;
    let text = format!(
        "its system call {} took {} each, {} times in the probes' windows",
        call.name,
        duration(each_ns),
        call.count
    );
    Some(facts.piece::<Kernel>(text, "syscalls.mean_us", each_ns / 1e3, "us").from(pause_ns / 2e3))
}

/// Of the time that was observed, what lay in the probes' windows, 0..=1; 1 where that is not known.
fn windows_share(facts: &Facts<'_>) -> f64 {
    let of_probes = || facts.probes().map(|probes| probes.calls_window_ns as f64).filter(|ns| *ns > 0.0);
    let windows_ns = facts.thread_states().map(|states| states.window_ns as f64).or_else(of_probes);
    let whole_ns = facts.history.whole().map(|whole| whole.length_ns() as f64).filter(|ns| *ns > 0.0);
    windows_ns.zip(whole_ns).map_or(1.0, |(windows_ns, whole_ns)| (windows_ns / whole_ns).min(1.0))
}

/// How many of the target's waits for a CPU were at least a quarter as long as a pause, as the kernel saw them; `None`: it was
/// not read.
fn long_waits(facts: &Facts<'_>, pause_ns: f64) -> Option<u64> {
    let waits = facts.histogram("runqueue.wait_ns", 1)?;
    let is_long = |bucket: usize| model::bpf::Log2::edges(bucket).1 as f64 >= pause_ns / 4.0;
    let long = waits.buckets.iter().enumerate().filter(|(bucket, _)| is_long(*bucket));
    Some(long.map(|(_, count)| *count).fold(0, u64::saturating_add))
}
