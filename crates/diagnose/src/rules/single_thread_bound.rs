//! `single-thread-bound`: one thread of the target uses a whole core while others stand idle.
//!
//! Evidence: (a) schedstat: that thread ran more than 95 % of the measured time, waiting for a CPU less than 20 % of what
//! it ran and waited, no other thread of the target above 50 %; and at least one of (b) `/proc/stat`: at least a tenth of a
//! core stood idle; (c) the client: requests stood in line, their mean response twice the thread's CPU time for each,
//! or waited for a connection. Thresholds: the catalogue's; a tenth of a core is what another thread could have had.
//! Refuted by a thread with time to spare, by a second busy thread (`cpu-saturated`), by waits for a CPU
//! (`cpu-contention`), by a machine without an idle core. Not observable without the target's threads and their schedstat.

use crate::facts::{Facts, duration, percent, quantile_name};
use crate::rule::{Bearing, Needs, Rule, Verdict};
use crate::usage::ThreadUse;
use model::finding::{About, Evidence, Severity};
use model::latency::Kind;

const RUN_MIN: f64 = 0.95;
const WAIT_MAX: f64 = 0.20;
const OTHER_MAX: f64 = 0.50;
const IDLE_CORES_MIN: f64 = 0.1;
const IN_LINE: f64 = 2.0;
const QUEUE_NS: u64 = 1_000_000;
/// A shorter stretch is mostly beginning and end, seconds.
const WINDOW_S_MIN: f64 = 0.5;

const TITLE: &str = "one thread of the target is the limit";

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "single-thread-bound", about: About::Target, needs: Needs::Nothing, bearing: Bearing::None, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
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
    if wait_share >= WAIT_MAX {
        return Verdict::refuted("the target's busiest thread waited for a CPU that others used").because(thread);
    }
    if run <= RUN_MIN {
        return Verdict::refuted("no thread of the target used a whole core").because(thread);
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
    if other > OTHER_MAX {
        return Verdict::refuted("more than one thread of the target was busy").because(thread).because(others);
    }
    let idle = facts.host.map(|host| host.idle_cores);
    let idle_evidence = idle.map(|idle| {
        let text = format!("{idle:.2} cores of this machine stood idle");
        facts.evidence(text, "host.idle_cores", idle, "cores")
    });
    if idle.is_some_and(|idle| idle < IDLE_CORES_MIN) {
        return Verdict::refuted("the whole machine was busy, not one thread alone")
            .because(thread)
            .because_all(idle_evidence);
    }
    let in_line = in_line(facts, run);
    if idle_evidence.is_none() && in_line.is_none() {
        let missing = "that a thread is busy is one piece of evidence, and a second was not read: ";
        let why = facts.why_not("host/cpu").unwrap_or_else(|| "no two snapshots have the host's CPU time".to_owned());
        return Verdict::not_observable(TITLE, format!("{missing}{why}")).because(thread);
    }
    let pieces = idle_evidence.is_some() as u8 + in_line.is_some() as u8;
    let above = ((run - RUN_MIN) / (1.0 - RUN_MIN)).clamp(0.0, 1.0);
    Verdict::supported(Severity::Error, format!("{TITLE}: {}, at {} of a core", named(busiest), percent(run.min(1.0))))
        .because(thread)
        .because(others)
        .because_all(idle_evidence)
        .because_all(in_line)
        .remedy("Spread its work over more threads or processes (workers, SO_REUSEPORT), or make each request cheaper")
        .check(format!("top -H -p {}", busiest.pid))
        .confidence(0.4 + 0.25 * f64::from(pieces) + 0.1 * above)
}

fn named(thread: &ThreadUse<'_>) -> String {
    if thread.name == thread.process || thread.process.is_empty() {
        format!("{} ({})", thread.name, thread.tid)
    } else {
        format!("{} of {} ({})", thread.name, thread.process, thread.tid)
    }
}

fn thread_evidence(facts: &Facts<'_>, thread: &ThreadUse<'_>, run: f64, wait_share: f64) -> Evidence {
    let text = format!(
        "thread {} ran {} of the time and waited for a CPU {} of what it wanted to run",
        named(thread),
        percent(run),
        percent(wait_share)
    );
    facts.evidence(text, "target.thread_run", run, "ratio")
}

/// What the client saw of a line in front of that thread.
fn in_line(facts: &Facts<'_>, run: f64) -> Option<Evidence> {
    if let Some((quantile, queue_ns)) = facts.tail(Kind::Queue)
        && queue_ns > QUEUE_NS
    {
        let name = quantile_name(quantile);
        let text = format!("requests waited for a free connection: queue {name} is {}", duration(queue_ns as f64));
        return Some(facts.evidence(text, "queue.p99_us", queue_ns as f64 / 1e3, "us"));
    }
    let in_time = &facts.recording.totals.in_time;
    let ended = in_time.arrived() as f64;
    if ended <= 0.0 {
        return None;
    }
    let cost_ns = run * 1e9 * facts.measured_s() / ended;
    let service = facts.latency(Kind::Service);
    if service.is_empty() || service.mean() < IN_LINE * cost_ns {
        return None;
    }
    let text = format!(
        "requests stood in line: {} on average, of which the thread worked {}",
        duration(service.mean()),
        duration(cost_ns)
    );
    Some(facts.evidence(text, "service.mean_us", service.mean() / 1e3, "us"))
}
