//! `lock-contention`: the target's working threads wait for each other at one lock.
//!
//! Evidence: (kernel) in the probes' windows, futex waits without a time limit at one address by two threads and more, or
//! (process) readings of where the threads stood, a fifth of the working threads' time or more; and (client) requests took
//! longer than the work in them. Threads that help and do not work (a collector's, a timer's) are left out, as idle ones wait
//! in futex too; so are waits of threads that are without work, where no request waits (`loss`); and places where one thread
//! lets others go that it does not wait for, as work is handed over so. Who held it, and whether it ran, is told where it was
//! seen. Refuted below, and where several threads at a time are past it and wait, always as many: those are the places of a
//! pool (`pool-exhausted`). Source:
//! futex(2); the catalogue's fifth.

use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Facts, Stand, duration, percent};
use crate::ledger::in_target_ns;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{FUTEX_SHARE, FUTEX_STANDS};
use model::bpf::FutexUse;
use model::finding::{Evidence, LossKind, Severity};
use std::collections::BTreeSet;

/// Requests must take so many times the work in them.
const LINE_MIN: f64 = 2.0;
/// More readings of threads that wait for events than these: there was no work for them.
const IDLE_MAX: f64 = 0.5;
const READINGS_MIN: usize = 3;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "lock-contention",
    needs: Needs::Connections,
    reads: &[&["process/threads"], &["bpf/syscalls", "process/stands"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let working = facts.working();
    if working.len() < 2 {
        return Verdict::not_applicable("one thread of the target does the work: there is nobody to wait for");
    }
    let Some((in_ns, cost_ns)) = in_target_ns(facts).zip(facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "waits at a lock",
            "no request succeeded, or the target's CPU time was not read",
        );
    };
    let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
    let client = facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us").from(LINE_MIN * cost_ns / 1e3);
    if in_ns < LINE_MIN * cost_ns {
        return Verdict::refuted("requests did not wait in the target").because(client.into());
    }
    let stands = facts.stands(&working);
    if let Some(places) = stands.places().filter(|places| places.count > 1) {
        let text = format!("{} threads at a time were past it and waited, while others queued", places.count);
        let process = facts.evidence(text, "target.places", places.count as f64, "threads");
        return Verdict::refuted("the target's threads queue for one of several places, not for a lock")
            .because(process);
    }
    let events = stands.share(Stand::Events).unwrap_or(0.0);
    let futex = stands.share(Stand::Futex).unwrap_or(0.0);
    // A lock that processes share is another address in each: of these only where they stand is known.
    let processes: BTreeSet<u32> = working.iter().map(|(process, _)| process.pid).collect();
    let is_shared = processes.len() > 1 && processes.len() == working.len();
    if let (Some(calls_ns), Some(_), false) = (facts.calls_window_ns(), facts.window_replies(), is_shared) {
        let at_one =
            facts.probes().into_iter().flat_map(|probes| &probes.futexes).filter(|f| f.waiters >= 2 && f.count > 0);
        // Where work is handed over, one side waits and another wakes it: that is no lock.
        let worst = at_one.filter(|f| facts.is_lock(f.pid, f.address) != Some(false));
        // Of a thread's time, what it did not wait for work.
        let idle_ns = facts.calls(&["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select"]).1;
        let whole_ns = (calls_ns * working.len() as f64 - idle_ns).max(1.0);
        let Some(worst) = worst.max_by_key(|f| f.ns) else {
            return Verdict::refuted("no two threads of the target waited for each other at one lock");
        };
        // More waiters than work: the place where those wait that have nothing to do.
        if worst.waiters as usize > working.len() {
            return Verdict::refuted("more threads wait at one place than work: it is where idle ones stand");
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
        let is_often = worst.count as f64 >= 0.02 * facts.window_replies().unwrap_or(f64::MAX);
        if share < FUTEX_SHARE.value || !is_often {
            return Verdict::refuted("the target's threads hardly waited at a lock").because(kernel.into());
        }
        let verdict = Verdict::proved(Severity::Error, title(working.len(), share), kernel, client);
        return supported(verdict.because_all(held_by(facts, worst)), share);
    }
    if stands.readings.len() < READINGS_MIN {
        return Verdict::not_observable(
            "waits at a lock",
            "fewer than three readings of where the threads stand; --observe windows times their waits",
        );
    }
    let text = format!("the {} working threads stood in futex in {} of the readings", working.len(), percent(futex));
    let process = facts.piece::<Process>(text, "target.threads_futex", futex, "ratio").from(FUTEX_STANDS.value);
    if futex < FUTEX_STANDS.value || events > IDLE_MAX {
        return Verdict::refuted("the target's threads hardly waited at a lock").because(process.into());
    }
    supported(Verdict::proved(Severity::Warning, title(working.len(), futex), process, client), futex).confidence(0.6)
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

fn supported(verdict: Verdict<OfTarget>, share: f64) -> Verdict<OfTarget> {
    verdict
        .explains(LossKind::Waiting, share.max(0.5), share * 0.5, 1.0)
        .remedy("Hold the lock for less (compute and write outside it), cut it into several, or give each worker data of its own")
        .check("timeout 5 strace -f -c -e trace=futex -p PID; perf lock contention -p PID; report --flame off-cpu")
        .confidence(0.85)
}
