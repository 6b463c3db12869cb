//! `lock-contention`: the target's working threads wait for each other at one lock.
//!
//! Evidence: (kernel) in the probes' windows, waits in futex that threads ended for each other, each woken so itself, as
//! many at a time as half of the requests in the target (`Handovers`); or futex waits without a time limit at one address
//! by two threads and more; or waits for the lock of a file (flock(2), fcntl(2)); or, where no call is counted, (process) readings of where the
//! threads stood, a fifth of the working threads' time or more, while another of those that take turns had the lock; and (client) requests took longer than the work in them.
//! Where each request has a thread of its own, that ends with it: as many threads as replies waited at one address, and about as many at a time as
//! requests were in the target.
//! Threads that help and do not work (a collector's, a timer's) are left out, as idle ones wait in futex too; so are waits
//! that their own time limit ends; waits of threads that are without work, where no request waits (`loss`), or where
//! requests wait before they are read or after they are answered (`split`); and places where one thread lets others go that
//! it does not wait for, as work is handed over so. More that wait at a time than requests are in the target's hand idle
//! (Little's law): whoever waits at a lock has a request. Who held it, and whether it ran, is told where it was seen. For
//! information where the target and it alone fills the machine's cores, or nearly, and its threads wait for them longer than they run. Refuted below, and where several threads at a time
//! are past it and wait, always as many: those are the places of a pool (`pool-exhausted`). Source: futex(2); the
//! catalogue's fifth.

use super::at_its_limit;
use crate::evidence::{Client, Kernel, Piece, Process};
use crate::facts::{Facts, Stand, Stands, duration, percent};
use crate::history::ProcessId;
use crate::ledger::{in_target_at_a_time, in_target_ns};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{FUTEX_LEAVES, FUTEX_SHARE, FUTEX_STANDS, IN_HAND, IN_HAND_TIMES, IN_TARGET_TIMES, NEIGHBOURS};
use model::bpf::FutexUse;
use model::finding::{Evidence, LossKind, Severity};
use model::snapshot::{Runtime, Snapshot};
use model::units::show_figure;
use std::collections::BTreeSet;

/// Requests must take so many times the work in them.
const LINE_MIN: f64 = 2.0;
/// More readings of threads that wait for events than these: there was no work for them.
const IDLE_MAX: f64 = 0.5;
const READINGS_MIN: usize = 3;
/// Of the machine's cores, less than this idle is hardly any. Measured: Python with threads beside its generator on two cores, at half
/// of its limit: 21 % idle, and its threads wait for a CPU twice as long as they run.
const HARDLY_IDLE: f64 = 0.25;
/// Waits of which so much ends by itself are sleeps.
const SLEPT_MIN: f64 = 0.7;
/// So many waits there must be for a reply.
const OFTEN_MIN: f64 = 0.02;
/// With fewer requests in the target at a time nobody waits for another's.
const REQUESTS_MIN: f64 = 1.5;
/// A lock is held by one of those that take turns, in so many of the readings in which others wait. They are read one after the other, so where it
/// is held for microseconds it is seen in two of three; where idle threads wait for work, hardly ever.
const HELD_MIN: f64 = 0.8;
const HELD_SOME: f64 = 0.3;
/// Requests in the target for each thread that is elsewhere: the others wait.
const REQUESTS_A_HOLDER: f64 = 2.0;
/// Each request has a thread of its own where as many stand in futex as there are requests, give or take so much.
const A_THREAD_EACH: f64 = 0.25;

/// Threads that come and go: for each reply so many must have waited at the place, and so many replies there must be.
const A_WAITER_EACH: f64 = 0.5;
const REPLIES_MIN: f64 = 20.0;
const ONE_HOLDER_MAX: f64 = 0.5;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "lock-contention",
    needs: Needs::Connections,
    reads: &[&["process/threads"], &["bpf/syscalls", "process/stands"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let working = facts.working();
    if working.len() < 2
        && let Some(verdict) = of_threads_that_come_and_go(facts)
    {
        return verdict;
    }
    if working.len() < 2 {
        return Verdict::not_applicable("one thread of the target does the work: there is nobody to wait for");
    }
    let Some((in_ns, cost_ns)) = in_target_ns(facts).zip(facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "waits at a lock",
            "no request succeeded, or the target's CPU time was not read",
        );
    };
    let client = time_beside_work(facts, in_ns, cost_ns);
    if in_ns < LINE_MIN * cost_ns {
        return Verdict::refuted("requests did not wait in the target").because(client.into());
    }
    if let Some(in_hand) = facts.in_hand().filter(|share| *share < IN_HAND.value) {
        let text = format!(
            "of the time that requests took, {} was between their being read by the target and its reply",
            percent(in_hand)
        );
        let kernel = facts.evidence(text, "split.server_share", in_hand, "ratio");
        return Verdict::refuted("requests wait before they are read, or after they are answered: not at a lock")
            .because(kernel);
    }
    let stands = facts.stands(&working);
    if let Some((piece, share)) = lock_of_a_file(facts, &working, &stands) {
        let title = format!(
            "the target's {} threads wait for the lock of a file, {} of the time they have work",
            working.len(),
            percent(share)
        );
        let verdict = match piece {
            Ok(kernel) => Verdict::proved(Severity::Error, title, kernel, client),
            Err(process) => Verdict::proved(Severity::Warning, title, process, client),
        };
        return supported(facts, verdict, share)
            .remedy("Hold the file's lock for less: close a session, commit, or unlock before what takes long; or give what is locked apart files of its own")
            .check("cat /proc/locks; timeout 5 strace -f -e trace=flock,fcntl -p PID # who waits has ->; the last but two is major:minor:inode");
    }
    if let Some(places) = stands.places().filter(|places| places.count > 1) {
        let text = format!("{} threads at a time were past it and waited, while others queued", places.count);
        let process = facts.evidence(text, "target.places", places.count as f64, "threads");
        return Verdict::refuted("the target's threads queue for one of several places, not for a lock")
            .because(process);
    }
    if let Some((kernel, share, threads)) = handed_on(facts, in_ns) {
        let severity = if is_machine_full(facts) { Severity::Info } else { Severity::Error };
        return supported(facts, Verdict::proved(severity, title(threads, share), kernel, client), share);
    }
    // A lock that processes share is another address in each: of these only where they stand is known.
    let processes: BTreeSet<u32> = working.iter().map(|(process, _)| process.pid).collect();
    let is_shared = processes.len() > 1 && processes.len() == working.len();
    if let (Some(calls_ns), Some(replies), false) = (facts.calls_window_ns(), facts.window_replies(), is_shared) {
        return by_calls(facts, working.len(), calls_ns, replies, client);
    }
    by_readings(facts, &working, &stands, in_target_at_a_time(facts, in_ns), client)
}

/// How long requests were in the target, beside the work in them.
fn time_beside_work(facts: &Facts<'_>, in_ns: f64, cost_ns: f64) -> Piece<Client> {
    let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
    facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us").from(LINE_MIN * cost_ns / 1e3)
}

/// Of a thread for each request none lives for long enough to be one that works, and their waits were counted all the same: as many threads as
/// requests waited at one place, about as many at a time as requests were in the target.
fn of_threads_that_come_and_go(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let (in_ns, cost_ns) = in_target_ns(facts).zip(facts.cpu_ns_per_request())?;
    let (calls_ns, replies) = facts.calls_window_ns().zip(facts.window_replies())?;
    let in_target = in_target_at_a_time(facts, in_ns);
    // Each lets it go for the next: where one of them does for nearly all, it hands out work.
    let is_lock = |f: &&FutexUse| {
        let holders = facts.holders(f.pid, f.address);
        let is_in_turn = !holders.is_empty() && holders.iter().all(|holder| holder.of_waits <= ONE_HOLDER_MAX);
        f.count > 0 && f.waiters as f64 >= A_WAITER_EACH * replies && is_in_turn
    };
    let worst = facts.probes()?.futexes.iter().filter(is_lock).max_by_key(|f| f.ns)?;
    let waiting = worst.ns as f64 / calls_ns.max(1.0);
    let share = waiting / in_target.max(f64::MIN_POSITIVE);
    let is_so = (FUTEX_SHARE.value..=IN_TARGET_TIMES.value).contains(&share);
    if in_ns < LINE_MIN * cost_ns || in_target < REQUESTS_MIN || replies < REPLIES_MIN || !is_so {
        return None;
    }
    let text = format!(
        "{} threads waited at one futex ({}) in the probes' windows, for {replies:.0} replies: {waiting:.1} at a time, with {in_target:.1} requests in the target",
        worst.waiters, worst.place
    );
    let kernel = facts.piece::<Kernel>(text, "futex.wait_share", share, "ratio").from(FUTEX_SHARE.value);
    let share = share.min(1.0);
    let title = format!(
        "the target's threads, one for each request, wait for each other at a lock, {} of the time they are there",
        percent(share)
    );
    let severity = if is_machine_full(facts) { Severity::Info } else { Severity::Error };
    let verdict = Verdict::proved(severity, title, kernel, time_beside_work(facts, in_ns, cost_ns));
    Some(supported(facts, verdict.because_all(held_by(facts, worst)), share))
}

/// By the waits that were counted in windows of so long all together, in which so many replies were sent.
fn by_calls(
    facts: &Facts<'_>,
    working: usize,
    calls_ns: f64,
    replies: f64,
    client: Piece<Client>,
) -> Verdict<OfTarget> {
    let at_one =
        facts.probes().into_iter().flat_map(|probes| &probes.futexes).filter(|f| f.waiters >= 2 && f.count > 0);
    // Where work is handed over, one side waits and another wakes it: that is no lock.
    let worst = at_one.filter(|f| facts.is_lock(f.pid, f.address) != Some(false));
    // Of a thread's time, what it did not wait for work. Other threads' waits for it are none of theirs.
    let whole_ns = facts.busy_ns().unwrap_or_else(|| {
        let idle_ns = facts.calls(&["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select"]).1;
        (calls_ns * working as f64 - idle_ns).max(1.0)
    });
    let Some(worst) = worst.max_by_key(|f| f.ns) else {
        return Verdict::refuted("no two threads of the target waited for each other at one lock");
    };
    // More waiters than work: the place where those wait that have nothing to do.
    if worst.waiters as usize > working {
        return Verdict::refuted("more threads wait at one place than work: it is where idle ones stand");
    }
    if is_for_work(facts) && facts.is_lock(worst.pid, worst.address) != Some(true) {
        return Verdict::refuted(
            "no thread woke another that waited in futex and was woken so itself: idle ones stand there",
        );
    }
    let share = (worst.ns as f64 / whole_ns).min(1.0);
    let text = format!(
        "{} threads waited at one futex ({}) for {} of the time they had work, {} on average",
        worst.waiters,
        worst.place,
        percent(share),
        duration(worst.ns as f64 / worst.count as f64)
    );
    let kernel = facts.piece::<Kernel>(text, "futex.wait_share", share, "ratio").from(FUTEX_SHARE.value);
    let is_often = worst.count as f64 >= OFTEN_MIN * replies;
    if share < FUTEX_SHARE.value || !is_often {
        return Verdict::refuted("the target's threads hardly waited at a lock").because(kernel.into());
    }
    let severity = if is_machine_full(facts) { Severity::Info } else { Severity::Error };
    let verdict = Verdict::proved(severity, title(working, share), kernel, client);
    supported(facts, verdict.because_all(held_by(facts, worst)), share)
}

/// By readings of where the threads stood, where no call was counted, with so many requests in the target at a time.
fn by_readings(
    facts: &Facts<'_>,
    of: &BTreeSet<(ProcessId, u32)>,
    stands: &Stands,
    in_target: f64,
    client: Piece<Client>,
) -> Verdict<OfTarget> {
    let working = of.len();
    let events = stands.share(Stand::Events).unwrap_or(0.0);
    let futex = stands.share(Stand::Futex).unwrap_or(0.0);
    if stands.readings.len() < READINGS_MIN {
        return Verdict::not_observable(
            "waits at a lock",
            "fewer than three readings of where the threads stand; --observe windows times their waits",
        );
    }
    if facts.slept_in_futex().is_some_and(|share| share >= SLEPT_MIN) {
        return Verdict::refuted("the threads' own time limits ended their waits in futex: they slept");
    }
    // Where those that serve sleep, the others wait for work.
    if facts.sleepers_in_futex(SLEPT_MIN).len() > 1 {
        return Verdict::refuted("threads' own time limits ended the waits in futex of several of them: they slept");
    }
    let text = format!("the {} working threads stood in futex {} of the time", working, percent(futex));
    let process = facts.piece::<Process>(text, "target.threads_futex", futex, "ratio").from(FUTEX_STANDS.value);
    if futex < FUTEX_STANDS.value || events > IDLE_MAX {
        return Verdict::refuted("the target's threads hardly waited at a lock").because(process.into());
    }
    if let Some(process) = hardly_leave(facts, of) {
        return Verdict::refuted(
            "those that stood in futex waited there far less often than requests came: they had no work",
        )
        .because(process);
    }
    if is_asking(facts) {
        return Verdict::refuted("replies to the target's own requests were due: what waits in it waits for those")
            .because(process.into());
    }
    // Go's own threads wait in futex when they have no work; its locks have goroutines wait, and no thread.
    if facts.is_of(Runtime::Go) {
        return Verdict::refuted("Go's threads wait in futex where they have no work, and for no lock of its programs")
            .because(process.into());
    }
    // Idle threads stand in futex, too. A lock is held by one of those that take turns, while most requests wait for it. Whoever has it
    // may have run for less than those that count as working.
    let in_futex = stands.at_a_time(Stand::Futex);
    let has_a_thread = (in_futex - in_target).abs() <= A_THREAD_EACH * in_target;
    let held = facts.held(&facts.all_threads(), has_a_thread).unwrap_or_default();
    let are_idle = held.share < HELD_SOME && in_target < in_futex;
    if are_idle || in_target < REQUESTS_A_HOLDER * held.elsewhere {
        let text = format!(
            "of the readings in which threads stood in futex {} found another of them elsewhere, {:.1} at a time, with {in_target:.1} requests in the target",
            percent(held.share),
            held.elsewhere
        );
        return Verdict::refuted("who stood in futex had no work: nobody had a lock, or all requests were elsewhere")
            .because(facts.evidence(text, "target.lock_held", held.share, "ratio"));
    }
    if held.share < HELD_MIN {
        return Verdict::not_observable(
            "waits at a lock",
            "threads stood in futex, and whether for a lock or for work is not known from where they stand; --observe windows tells who woke whom",
        );
    }
    let severity = if is_machine_full(facts) { Severity::Info } else { Severity::Warning };
    supported(facts, Verdict::proved(severity, title(working, futex), process, client), futex).confidence(0.6)
}

/// That the threads which stood in futex left their CPU far less often than requests were answered: a compiler's, or others that a runtime
/// has beside those that serve, and that ran for more of the time than these.
fn hardly_leave(facts: &Facts<'_>, of: &BTreeSet<(ProcessId, u32)>) -> Option<Evidence> {
    let is_there = |thread: &&(ProcessId, u32)| {
        facts.stands(&[**thread].into()).share(Stand::Futex).is_some_and(|share| share >= FUTEX_STANDS.value)
    };
    let left: Option<Vec<f64>> = of.iter().filter(is_there).map(|thread| facts.left_cpu_per_s(*thread)).collect();
    let (left_per_s, rate) = (left?.iter().sum::<f64>(), facts.recording.totals.requests_per_s());
    let text = format!(
        "the threads that stood in futex left their CPU {} times a second, with {} requests",
        show_figure(left_per_s),
        show_figure(rate)
    );
    let is_rare = left_per_s < FUTEX_LEAVES.value * rate;
    is_rare.then(|| facts.evidence(text, "target.futex_left_per_s", left_per_s, "1/s"))
}

/// By the probes, or by where the threads stood.
type Seen = Result<Piece<Kernel>, Piece<Process>>;

/// That threads wait for the lock of a file: by the probes, or by where they stood; and for how much of the time.
fn lock_of_a_file(facts: &Facts<'_>, working: &BTreeSet<(ProcessId, u32)>, stands: &Stands) -> Option<(Seen, f64)> {
    if let Some((share, longest_ns)) = facts.share_waiting_in(working, &["flock", "fcntl"]) {
        let text = format!(
            "{} of the time they had work they waited in flock(2) or fcntl(2), up to {}",
            percent(share),
            duration(longest_ns as f64)
        );
        let kernel = facts.piece::<Kernel>(text, "file_lock.wait_share", share, "ratio").from(FUTEX_SHARE.value);
        return (share >= FUTEX_SHARE.value).then_some((Ok(kernel), share));
    }
    let share = stands.share(Stand::FileLock).filter(|_| stands.readings.len() >= READINGS_MIN)?;
    let text =
        format!("the {} working threads stood at the lock of a file {} of the time", working.len(), percent(share));
    let process = facts.piece::<Process>(text, "target.threads_file_lock", share, "ratio").from(FUTEX_STANDS.value);
    (share >= FUTEX_STANDS.value).then_some((Err(process), share))
}

/// Whether the target, not a neighbour, has left no core: without the lock its threads would wait for a CPU instead. Or hardly any, and its
/// threads waited for one longer than they ran: so did whoever held the lock.
fn is_machine_full(facts: &Facts<'_>) -> bool {
    let others: f64 = facts.strangers().map(|neighbour| neighbour.cores).sum();
    let used = |thread: &crate::usage::ThreadUse<'_>| Some((thread.run?, thread.wait?));
    let threads = facts.target_threads.iter().filter_map(used);
    let (run, wait) = threads.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let is_short = wait > run && facts.host.is_some_and(|host| host.idle_cores < HARDLY_IDLE * host.cores);
    others < NEIGHBOURS.value && (at_its_limit::is_machine_full(facts) || is_short)
}

/// Whether threads that wait at one futex do not wake each other: they wait for somebody to give them work.
fn is_for_work(facts: &Facts<'_>) -> bool {
    facts.handovers().is_some_and(|handovers| handovers.count == 0)
}

/// That threads hand something on to each other, one waiting for the other; for how much of their time, and how many.
///
/// Runtimes let idle threads wake each other too: so at least half of the requests that are in the target must be in such
/// waits, and the target must not be waiting for replies of its own.
fn handed_on(facts: &Facts<'_>, in_ns: f64) -> Option<(Piece<Kernel>, f64, usize)> {
    let handovers = facts.handovers().filter(|h| h.threads >= 2 && h.whole_ns > 0.0)?;
    let share = (handovers.handed_on_ns / handovers.whole_ns).min(1.0);
    let in_target = in_target_at_a_time(facts, in_ns);
    let text = format!(
        "{} threads woke each other from waits in futex, {} on average, {} of the time they had work; {:.1} waited so at a time, with {in_target:.1} requests in the target",
        handovers.threads,
        duration(handovers.handed_on_ns / handovers.count.max(1) as f64),
        percent(share),
        handovers.waiting
    );
    let kernel = facts.piece::<Kernel>(text, "futex.handed_on_share", share, "ratio").from(FUTEX_SHARE.value);
    let is_requests = in_target >= REQUESTS_MIN && handovers.waiting >= 0.5 * (in_target - 1.0).max(1.0);
    // Who waits for a lock has a request in hand, and by Little's law as many are so at a time as come in the time that each is.
    let in_hand = facts.in_hand().map(|share| IN_HAND_TIMES.value * share * in_target);
    let is_idle = handovers.waiting > in_hand.unwrap_or(f64::INFINITY).min(IN_TARGET_TIMES.value * in_target);
    (share >= FUTEX_SHARE.value && is_requests && !is_idle && !is_asking(facts)).then_some((
        kernel,
        share,
        handovers.threads,
    ))
}

/// Whether replies to requests of its own were due to the target in half of the readings.
fn is_asking(facts: &Facts<'_>) -> bool {
    let asks = |s: &&Snapshot| s.outgoing.iter().any(|o| o.metrics.of("awaiting").unwrap_or(0) > 0);
    facts.snapshots().filter(asks).count() * 2 >= facts.snapshots().count().max(1)
}

/// Who held it, and whether it ran meanwhile.
fn held_by(facts: &Facts<'_>, lock: &FutexUse) -> Option<Evidence> {
    let holders = facts.holders(lock.pid, lock.address);
    let first = holders.first()?;
    let ran = holders.iter().map(|holder| holder.of_waits * holder.ran).sum::<f64>();
    let who = match holders.len() {
        1 => format!("{} ({}) held it", first.name, first.tid),
        n => format!(
            "{n} threads held it in turn, {} ({}) longest, {} of the waits",
            first.name,
            first.tid,
            percent(first.of_waits)
        ),
    };
    let doing = match first.is_owner || ran >= HOLDER_RAN {
        true if ran >= HOLDER_RAN => format!("and ran {} of that time: it works under the lock", percent(ran)),
        true => format!("and ran only {} of that time: it waits under the lock", percent(ran)),
        // Of who let it go the time before its first event is not known.
        false => format!("and ran at least {} of that time", percent(ran)),
    };
    Some(facts.evidence(format!("{who}, {doing}"), "futex.holder_ran", ran, "ratio"))
}

/// A holder that ran for more of the time worked.
const HOLDER_RAN: f64 = 0.5;

fn title(threads: usize, share: f64) -> String {
    format!(
        "the target's {threads} threads wait for each other at a lock, {} of the time they have work",
        percent(share)
    )
}

fn supported(facts: &Facts<'_>, verdict: Verdict<OfTarget>, share: f64) -> Verdict<OfTarget> {
    verdict
        .explains(LossKind::Waiting, facts.of_what_is_done(share), share * 0.5, 1.0)
        .remedy("Hold the lock for less (compute and write outside it), cut it into several, or give each worker data of its own")
        .check("timeout 5 strace -f -c -e trace=futex -p PID; perf lock contention -p PID; plimsoll report last --flame off-cpu")
        .confidence(0.85)
}
