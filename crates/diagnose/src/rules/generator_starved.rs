//! `generator-starved`: the generator could have run and did not, by the doing of others, who are named.
//!
//! Evidence: its workers waited for a CPU (run-queue wait, schedstat), a CPU quota held them (`cpu.stat` of the control
//! group), or their turns were late though nothing of that was read (they were stopped: a signal, a frozen control group, a
//! paused machine); and what it can have done to a figure is more than a tenth of it ([`crate::harm`]). Whose doing: the
//! other processes that used most CPU meanwhile (`/proc`), or the target, where it shares the generator's CPUs.
//! A worker at 60 % run and 35 % wait had no room, but too much work was not the reason: more workers would wait as well.
//! For information where it waited for more than 5 % of the time and changed no figure by much: a healthy thread waits up
//! to 4 % of what it wants to run. Refuted below that, and while the target wanted all the CPU it could get. Not observable where neither wait, nor quota, nor
//! lateness was read.

use super::generator_lag;
use crate::facts::{Facts, duration, percent};
use crate::harm::{self, Harm, SHARE_MAX, Taken, Taker};
use crate::quiet::{WAITED_SHARE_MAX, disturbed_rows};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Evidence, Severity};

/// Other processes named.
const NAMED_MAX: usize = 3;
/// Cores that one must use to be named.
const NAMED_CORES_MIN: f64 = 0.05;

const TITLE: &str = "the generator was kept from running";

/// See the file's head.
pub const RULE: Rule = Rule {
    id: "generator-starved",
    about: About::Generator,
    needs: Needs::Connections,
    bearing: Bearing::Measured,
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict {
    let harm = Harm::of(facts, &facts.whole);
    let taken = Taken::of(facts, &facts.whole);
    if !was_read(facts) {
        return Verdict::not_observable(TITLE, "neither run-queue waits nor late turns of the workers were read");
    }
    let evidence = readings(facts, &taken);
    let taker = taken.by(facts).filter(|taker| *taker != Taker::Hypervisor);
    let is_decisive = harm.is_by_not_running();
    let is_much = taken.wait > WAITED_SHARE_MAX || taken.quota > WAITED_SHARE_MAX || taken.stopped > WAITED_SHARE_MAX;
    let Some(taker) = taker.filter(|_| is_decisive || is_much) else {
        return Verdict::refuted("the generator was given the CPU that it wanted, or nearly").because_all(evidence);
    };
    let severity = if is_decisive { Severity::Error } else { Severity::Info };
    let worst = [taken.wait, taken.quota, taken.stopped].into_iter().fold(0.0, f64::max);
    Verdict::supported(severity, format!("{TITLE}: {}", whose(facts, taker, &taken)))
        .because_all(evidence)
        .because_all(named(facts))
        .because_all(in_rows(facts))
        .because_all(generator_lag::evidence(facts, &harm))
        .remedy(remedy(facts, taker))
        .check(check(taker))
        .confidence(past(worst, SHARE_MAX))
}

/// Whether any of its signals was read. A thread that ran has always waited some nanoseconds.
fn was_read(facts: &Facts<'_>) -> bool {
    let is_of = |row: &&model::recording::Row| {
        row.worker_wait_max > 0.0 || row.worker_late_max > 0.0 || row.counts.cpu_wait_ns > 0 || row.counts.late_ns > 0
    };
    facts.throttled.is_some() || facts.rows.iter().any(is_of)
}

fn readings(facts: &Facts<'_>, taken: &Taken) -> Vec<Evidence> {
    let busy = facts.whole.mean_over_rows(harm::worst_busy);
    let text = format!(
        "the busiest worker ran {} of the time; the one that waited most waited for a CPU {}",
        percent(busy),
        percent(taken.wait)
    );
    let mut all = vec![facts.evidence(text, "generator.worker_wait", taken.wait, "ratio")];
    if taken.quota > 0.0 {
        let text = format!("a CPU quota held the generator {} of the time", percent(taken.quota));
        all.push(facts.evidence(text, "generator.throttled", taken.quota, "ratio"));
    }
    let late = facts.whole.mean_over_rows(harm::worst_late);
    if late > 0.0 {
        let longest = facts.rows.iter().map(|row| row.gauges.reap_delay_ns_max).max().unwrap_or(0);
        // Where the kernel stamps what comes, none is seen late.
        let seen = match longest {
            0 => String::new(),
            ns => format!(", and a reply may have waited {} to be seen", duration(ns as f64)),
        };
        let text = format!("turns of a worker's loop were late for {} of the time{seen}", percent(late));
        all.push(facts.evidence(text, "generator.worker_late", late, "ratio"));
    }
    all
}

/// In how many intervals.
fn in_rows(facts: &Facts<'_>) -> Option<Evidence> {
    let disturbed = disturbed_rows(&facts.whole);
    let text = format!("that was so in {disturbed} of {} intervals", facts.rows.len());
    (disturbed > 0).then(|| facts.evidence(text, "generator.intervals_disturbed", disturbed as f64, "intervals"))
}

/// The other processes that used most CPU.
fn named(facts: &Facts<'_>) -> Option<Evidence> {
    let list = names(facts);
    let cores: f64 = facts.neighbours.iter().map(|n| n.cores).sum();
    (!list.is_empty()).then(|| facts.evidence(format!("meanwhile {list}"), "neighbours.cores", cores, "cores"))
}

fn names(facts: &Facts<'_>) -> String {
    let named = facts.neighbours.iter().filter(|n| n.cores >= NAMED_CORES_MIN).take(NAMED_MAX);
    let each: Vec<String> = named.map(|n| format!("{} took {:.2} cores", n.named(), n.cores)).collect();
    each.join(", ")
}

fn whose(facts: &Facts<'_>, taker: Taker, taken: &Taken) -> String {
    match taker {
        Taker::Neighbour => match names(facts) {
            list if list.is_empty() => "other processes had its CPU".to_owned(),
            list => list,
        },
        Taker::Target => format!("the target shares its CPUs and took {:.2} cores", facts.target_cores.unwrap_or(0.0)),
        Taker::Quota => format!("a CPU quota held it {} of the time", percent(taken.quota)),
        Taker::Hypervisor | Taker::Stopped => {
            format!("its workers stood still {} of the time and were not waiting for a CPU", percent(taken.stopped))
        }
    }
}

fn remedy(facts: &Facts<'_>, taker: Taker) -> String {
    match taker {
        Taker::Neighbour => {
            let who = facts.neighbours.first().filter(|n| n.cores >= NAMED_CORES_MIN);
            let give = who
                .map_or("Give".to_owned(), |n| format!("End or move {} (taskset -cp CPU {}), or give", n.name, n.pid));
            format!("{give} the generator CPUs that nothing else uses (--pin, cpusets, another machine)")
        }
        Taker::Target => "Pin target and generator apart (--pin here, taskset -cp CPU PID for the target), or run the \
                          generator on another machine"
            .to_owned(),
        Taker::Quota => "Raise or remove the CPU quota of the generator's control group (cpu.max; docker --cpus; \
                         Kubernetes limits.cpu)"
            .to_owned(),
        Taker::Hypervisor | Taker::Stopped => {
            "Look for what stopped it: SIGSTOP, a debugger, a frozen control group, a machine that was paused"
                .to_owned()
        }
    }
}

fn check(taker: Taker) -> &'static str {
    match taker {
        Taker::Neighbour | Taker::Target => "top -d 1; grep -H . /proc/pressure/cpu",
        Taker::Quota => "grep -H . /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.stat",
        Taker::Hypervisor | Taker::Stopped => "ps -o pid,stat,wchan:20,comm -C plimsoll",
    }
}
