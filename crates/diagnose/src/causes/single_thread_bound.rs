//! `single-thread-bound`: one thread of the target uses a whole core while others stand idle.
//!
//! Evidence: (process) schedstat: that thread ran more than 95 % of the measured time, waiting for a CPU less than 20 % of
//! what it ran and waited, no other thread of the target above 50 %; and at least one of (kernel) `/proc/stat`: at least a
//! tenth of a core stood idle; (client): requests stood in line, their mean response twice the thread's CPU time for each,
//! or waited for a connection. A full thread is a limit and no fault by itself, so it is for information. Refuted by a
//! thread with time to spare, by a second busy thread (`cpu-saturated`), by waits for a CPU (`cpu-contention`), by a
//! machine without an idle core. Not observable without the target's threads and their schedstat.

use crate::evidence::{Client, Kernel, Piece, Process};
use crate::facts::{Facts, duration, percent, quantile_name};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{IDLE_CORES, LINE, OTHER_THREAD_RUN, THREAD_RUN, THREAD_WAIT};
use crate::usage::ThreadUse;
use model::finding::{Evidence, Severity};
use model::latency::Kind;

const QUEUE_NS: u64 = 1_000_000;
/// A shorter stretch is mostly beginning and end, seconds.
const WINDOW_S_MIN: f64 = 0.5;

/// Fewer that wait for it, on average, are not told.
const WAITED_FOR_MIN: f64 = 0.5;

const TITLE: &str = "one thread of the target is the limit";

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "single-thread-bound",
    needs: Needs::Nothing,
    reads: &[&["process/target"], &["process/threads"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(busiest) = facts.target_threads.first() else {
        return Verdict::not_observable(TITLE, facts.why_no_target());
    };
    let (Some(run), Some(wait)) = (busiest.run, busiest.wait) else {
        let why = facts.why_not("process/threads").unwrap_or_else(|| "this kernel keeps no schedstat".to_owned());
        return Verdict::not_observable(
            TITLE,
            format!("the target's threads were seen, their CPU time was not: {why}"),
        );
    };
    if facts.measured_s() < WINDOW_S_MIN {
        return Verdict::not_observable(TITLE, format!("less than {WINDOW_S_MIN} s were measured"));
    }
    let wait_share = if run + wait > 0.0 { wait / (run + wait) } else { 0.0 };
    let thread = thread_evidence(facts, busiest, run, wait_share);
    if wait_share >= THREAD_WAIT.value {
        return Verdict::refuted("the target's busiest thread waited for a CPU that others used")
            .because(thread.into());
    }
    if run <= THREAD_RUN.value {
        return Verdict::refuted("no thread of the target used a whole core").because(thread.into());
    }
    let other = facts.target_threads.get(1).and_then(|t| t.run).unwrap_or(0.0);
    let others = facts.evidence(
        match other > 0.0 {
            true => format!("no other thread of the target used more than {} of a core", percent(other)),
            false => "no other thread of the target used a core at all".to_owned(),
        },
        "target.second_thread_run",
        other,
        "ratio",
    );
    if other > OTHER_THREAD_RUN.value {
        return Verdict::refuted("more than one thread of the target was busy").because(thread.into()).because(others);
    }
    let idle = facts.host.map(|host| host.idle_cores);
    let idle_evidence = idle.map(|idle| {
        let text = format!("{idle:.2} cores of this machine stood idle");
        facts.piece::<Kernel>(text, "host.idle_cores", idle, "cores").from(IDLE_CORES.value)
    });
    if idle.is_some_and(|idle| idle < IDLE_CORES.value) {
        return Verdict::refuted("the whole machine was busy, not one thread alone")
            .because(thread.into())
            .because_all(idle_evidence.map(Into::into));
    }
    let in_line = in_line(facts, run);
    let pieces = idle_evidence.is_some() as u8 + in_line.is_some() as u8;
    let above = ((run - THREAD_RUN.value) / (1.0 - THREAD_RUN.value)).clamp(0.0, 1.0);
    let title = format!("{TITLE}: {}, at {} of a core", named(busiest), percent(run.min(1.0)));
    let verdict = match (idle_evidence, in_line) {
        (Some(idle), in_line) => {
            Verdict::proved(Severity::Info, title, thread, idle).because_all(in_line.map(Into::into))
        }
        (None, Some(in_line)) => Verdict::proved(Severity::Info, title, thread, in_line),
        (None, None) => {
            let missing = "that a thread is busy is one piece of evidence, and a second was not read: ";
            let why =
                facts.why_not("host/cpu").unwrap_or_else(|| "no two snapshots have the host's CPU time".to_owned());
            return Verdict::not_observable(TITLE, format!("{missing}{why}")).because(thread.into());
        }
    };
    verdict
        .because(others)
        .because_all(waited_for(facts, busiest))
        .remedy("Spread its work over more threads or processes (workers, SO_REUSEPORT), or make each request cheaper")
        .check(format!("top -H -p {}", busiest.pid))
        .confidence(0.4 + 0.25 * f64::from(pieces) + 0.1 * above)
}

/// That others wait for this thread, by the futexes it lets go.
fn waited_for(facts: &Facts<'_>, thread: &ThreadUse<'_>) -> Option<Evidence> {
    let threads = facts.waited_for(thread.pid, thread.tid).filter(|threads| *threads >= WAITED_FOR_MIN)?;
    let text = format!("{threads:.1} other threads waited for it at a time, by the futexes that it let go");
    Some(facts.evidence(text, "threads.waited_for", threads, "threads"))
}

fn named(thread: &ThreadUse<'_>) -> String {
    if thread.name == thread.process || thread.process.is_empty() {
        format!("{} ({})", thread.name, thread.tid)
    } else {
        format!("{} of {} ({})", thread.name, thread.process, thread.tid)
    }
}

fn thread_evidence(facts: &Facts<'_>, thread: &ThreadUse<'_>, run: f64, wait_share: f64) -> Piece<Process> {
    let text = format!(
        "thread {} ran {} of the time and waited for a CPU {} of what it wanted to run",
        named(thread),
        percent(run),
        percent(wait_share)
    );
    facts.piece(text, "target.thread_run", run, "ratio").from(THREAD_RUN.value)
}

/// What the client saw of a line in front of that thread.
fn in_line(facts: &Facts<'_>, run: f64) -> Option<Piece<Client>> {
    if let Some((quantile, queue_ns)) = facts.tail(Kind::Queue)
        && queue_ns > QUEUE_NS
    {
        let name = quantile_name(quantile);
        let text = format!("requests waited for a free connection: queue {name} is {}", duration(queue_ns as f64));
        return Some(facts.piece(text, "queue.p99_us", queue_ns as f64 / 1e3, "us"));
    }
    let in_time = &facts.recording.totals.in_time;
    let ended = in_time.arrived() as f64;
    if ended <= 0.0 {
        return None;
    }
    let cost_ns = run * 1e9 * facts.measured_s() / ended;
    let service = facts.latency(Kind::Service);
    if service.is_empty() || service.mean() < LINE.value * cost_ns {
        return None;
    }
    let text = format!(
        "requests stood in line: {} on average, of which the thread worked {}",
        duration(service.mean()),
        duration(cost_ns)
    );
    Some(facts.piece(text, "service.mean_us", service.mean() / 1e3, "us"))
}
