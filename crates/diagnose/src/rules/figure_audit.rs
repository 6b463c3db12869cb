//! `figure-audit`: what is reported contradicts itself, or what was asked. A defect of the generator, never the target's.
//!
//! Evidence, each an independent account of the same thing: every started request is accounted for; counters, histograms,
//! error kinds, statuses and timeline agree; every success has its bytes; no more was started than asked; Little's law
//! (L = λW, J. D. C. Little, Operations Research 9, 1961): in a closed pace the time spent in requests fits into the
//! users' time (2 % over: the histogram's precision), and without think time fills it (80 % of what the busiest worker's
//! own work and its waits for a CPU leave; only where nothing was stuck at the end, and next to nothing was carried over from
//! warm-up, as the times of those are not in the sum).
//! Refuted where all that can be checked holds. The link's capacity is not read, and that is said.

use crate::audit::{FULL as UNDER, fits};
use crate::facts::{Facts, percent};
use crate::rule::{Bearing, Needs, Rule, Verdict};
use model::LatencyKind;
use model::finding::{About, Evidence, Severity};
use model::recording::End;

/// Successes needed to compare times.
const SAMPLES_MIN: u64 = 1000;
/// One account held against another; `holds` is `None` where it could not be checked.
struct Check {
    holds: Option<bool>,
    evidence: Evidence,
}

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "figure-audit", about: About::Generator, needs: Needs::Load, bearing: Bearing::All, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let mut checks = vec![conservation(facts), workers(facts)];
    checks.extend(counters(facts));
    checks.extend(bytes(facts));
    checks.extend(asked(facts));
    checks.extend(little(facts));
    let of = |wanted: Option<bool>| checks.iter().filter(move |c| c.holds == wanted).map(|c| c.evidence.clone());
    if of(Some(false)).next().is_some() {
        return Verdict::supported(Severity::Error, "the figures contradict each other, or what was asked")
            .because_all(of(Some(false)))
            .remedy("This is a defect of plimsoll: keep the recording and report it; do not use the figures")
            .check("plimsoll report RUN --json | jq '.totals, .latency'");
    }
    if of(Some(true)).next().is_none() {
        return Verdict::not_observable("the figures could not be held against each other", "no account is whole");
    }
    let link = (!facts.is_loopback()).then(|| {
        let text = "the link's capacity was not read, so bytes/s are not held against it";
        facts.evidence(text, "host.link_bytes_per_s", None, "B/s")
    });
    Verdict::refuted("the figures agree with each other and with what was asked")
        .because_all(of(Some(true)))
        .because_all(of(None))
        .because_all(link)
}

fn is_whole(facts: &Facts<'_>) -> bool {
    facts.recording.end != End::Partial
}

fn conservation(facts: &Facts<'_>) -> Check {
    let (counts, left) = (&facts.recording.totals.sum.counts, facts.recording.totals.in_flight_at_end);
    let (started, ended) = (u128::from(counts.started), u128::from(counts.ok) + u128::from(counts.failed));
    let is_kept = started == ended + u128::from(left);
    let text = if is_whole(facts) {
        format!(
            "started {started} = ended {ended} + in flight at the end {left}{}",
            if is_kept { "" } else { " does not hold" }
        )
    } else {
        "the recording is partial: what was in flight at its end is not known".to_owned()
    };
    let off = started as f64 - ended as f64 - left as f64;
    Check {
        holds: is_whole(facts).then_some(is_kept),
        evidence: facts.evidence(text, "audit.unaccounted", off, "requests"),
    }
}

fn workers(facts: &Facts<'_>) -> Check {
    let failed: Vec<&str> =
        facts.recording.events.iter().filter(|e| e.kind == "worker-failed").map(|e| &*e.text).collect();
    let text = if failed.is_empty() { "every worker ran to the end".to_owned() } else { failed.join("; ") };
    Check {
        holds: Some(failed.is_empty()),
        evidence: facts.evidence(text, "audit.workers_failed", failed.len() as f64, "workers"),
    }
}

fn same(facts: &Facts<'_>, name: &str, one: (&str, u128), other: (&str, u128)) -> Check {
    let holds = one.1 == other.1;
    let text = format!("{} {} {} {} {}", one.0, one.1, if holds { "=" } else { "but" }, other.0, other.1);
    let off = one.1 as f64 - other.1 as f64;
    Check { holds: Some(holds), evidence: facts.evidence(text, name, off, "requests") }
}

fn counters(facts: &Facts<'_>) -> Vec<Check> {
    let sum = &facts.recording.totals.sum;
    let (ok, failed) = (u128::from(sum.counts.ok), u128::from(sum.counts.failed));
    let kinds: u128 = sum.errors.seen().map(|(_, n)| u128::from(n)).sum();
    let statuses: u128 = sum.outcomes.seen().map(|(_, n)| u128::from(n)).sum();
    let recorded = |kind| u128::from(facts.latency(kind).len());
    let mut checks = vec![
        same(facts, "audit.response_samples", ("successes", ok), ("response times", recorded(LatencyKind::Response))),
        same(facts, "audit.service_samples", ("successes", ok), ("service times", recorded(LatencyKind::Service))),
        same(facts, "audit.failed_samples", ("failures", failed), ("their times", recorded(LatencyKind::Failed))),
        same(facts, "audit.error_kinds", ("failures", failed), ("the sum over their kinds", kinds)),
    ];
    let left = u128::from(facts.recording.totals.in_flight_at_end) + u128::from(sum.counts.never_taken_up);
    let bounds = recorded(LatencyKind::ResponseCensored);
    if is_whole(facts) && bounds > 0 {
        let text = format!("{bounds} lower bounds of response times for {left} unfinished requests");
        let evidence = facts.evidence(text, "audit.unfinished_samples", bounds as f64, "requests");
        checks.push(Check { holds: Some(bounds <= left), evidence });
    }
    if is_whole(facts) {
        let rows = facts.recording.timeline.rows().iter();
        let ended: u128 = rows.map(|r| u128::from(r.counts.ok) + u128::from(r.counts.failed)).sum();
        checks.push(same(facts, "audit.timeline", ("ended", ok + failed), ("ended over all intervals", ended)));
    }
    if facts.recording.plan.is_handshake_only() {
        let counts = &sum.counts;
        // Those of connections begun in warm-up are counted with it, and told apart only by request.
        if facts.recording.plan.warmup_ns == 0 {
            let done = u128::from(counts.handshakes_full) + u128::from(counts.handshakes_resumed);
            checks.push(same(facts, "audit.handshakes", ("successes", ok), ("handshakes full or resumed", done)));
        }
    } else if facts.recording.plan.workload.protocol().failure_replies().is_some() {
        // An attempt that was answered by a failure and made anew left a reply, and its request ended with another.
        let retries = u128::from(sum.counts.retries);
        let more = if retries > 0 { format!(", and {retries} retries") } else { String::new() };
        let text = format!("{statuses} whole replies for {ok} successes and {failed} failures{more}");
        checks.push(Check {
            holds: Some((ok..=ok + failed + retries).contains(&statuses)),
            evidence: facts.evidence(text, "audit.statuses", statuses as f64, "replies"),
        });
    }
    checks
}

fn bytes(facts: &Facts<'_>) -> Vec<Check> {
    if facts.recording.plan.is_handshake_only() {
        // Nothing is sent but what TLS sends on its own account.
        return Vec::new();
    }
    let (request, reply) = facts.recording.plan.workload.protocol().least_bytes();
    let counts = &facts.recording.totals.sum.counts;
    // What was under way when the warm-up ended was sent, and partly received, in it, and ended after it.
    let plan = &facts.recording.plan;
    let under_way = if plan.warmup_ns > 0 { u64::from(plan.connections) * u64::from(plan.pipeline) } else { 0 };
    let whole = counts.ok.saturating_sub(under_way);
    [("sent", counts.bytes_sent, request), ("received", counts.bytes_received, reply)]
        .into_iter()
        .map(|(what, bytes, least)| {
            let due = u128::from(whole) * u128::from(least);
            let text = format!("{bytes} bytes {what}; {whole} successes need {due} at the least");
            let metric = if what == "sent" { "totals.bytes_sent" } else { "totals.bytes_received" };
            Check { holds: Some(u128::from(bytes) >= due), evidence: facts.evidence(text, metric, bytes as f64, "B") }
        })
        .collect()
}

/// No more was started than was asked for.
fn asked(facts: &Facts<'_>) -> Vec<Check> {
    let counts = &facts.recording.totals.sum.counts;
    let mut checks = Vec::new();
    if let Some(quota) = facts.recording.plan.stop.requests {
        let text = format!("{} requests were started of {quota} asked for", counts.started);
        let evidence = facts.evidence(text, "totals.started", counts.started as f64, "requests");
        checks.push(Check { holds: Some(counts.started <= quota), evidence });
    }
    if let Some(due) = facts.due(facts.start_ns, facts.end_ns) {
        let taken = counts.started as f64 + counts.dropped as f64 + counts.never_taken_up as f64;
        // A Poisson process strays by its root: six of them is chance's one in a thousand million. Each worker has a
        // schedule of its own, which begins and ends with a request.
        let slack = 6.0 * due.sqrt() + 2.0 * f64::from(facts.recording.plan.threads) + 1.0;
        let text = format!("{taken:.0} requests were taken up or left of {due:.0} due");
        let evidence = facts.evidence(text, "audit.taken_up", taken, "requests");
        checks.push(Check { holds: Some(taken <= due + slack), evidence });
    }
    checks
}

/// Little's law, for a closed pace.
fn little(facts: &Facts<'_>) -> Vec<Check> {
    let plan = &facts.recording.plan;
    let totals = &facts.recording.totals;
    let ok: u64 = facts.rows.iter().fold(0, |sum, r| sum.saturating_add(r.counts.ok));
    let from_ns = facts.rows.iter().map(|r| r.start_ns).min().unwrap_or(0);
    let to_ns = facts.rows.iter().map(|r| r.end_ns).max().unwrap_or(0);
    let passed_ns = to_ns.saturating_sub(from_ns) as f64;
    let closed: f64 = facts.rows.iter().map(|r| r.counts.closed_by_us as f64 + r.counts.closed_by_peer as f64).sum();
    // Users of one connection that wait for it together are stamped with the first one's moment.
    let is_exact = plan.pipeline <= 1 || closed == 0.0;
    if facts.is_open() || ok < SAMPLES_MIN || passed_ns <= 0.0 || !is_exact {
        return Vec::new();
    }
    let spent_ns: f64 = facts.rows.iter().map(|r| r.response_sum_ns as f64).sum();
    let concurrency = spent_ns / passed_ns;
    let users = facts.users();
    let text = format!(
        "Little's law: {:.0}/s × {:.3} ms = {concurrency:.1} requests under way, of {users:.0} users",
        ok as f64 * 1e9 / passed_ns,
        spent_ns / ok as f64 / 1e6,
    );
    let evidence = facts.evidence(text, "audit.concurrency", concurrency, "requests");
    let mut checks = vec![Check { holds: Some(fits(concurrency, users)), evidence }];

    // How full the users' time was can only be said where nothing else took it.
    let longest_ns = facts.latency(LatencyKind::Response).max().max(facts.latency(LatencyKind::Failed).max()) as f64;
    let failures = totals.sum.counts.failed as f64 + totals.sum.counts.connect_failed as f64;
    let failed = facts.latency(LatencyKind::Failed);
    // A few that nobody answered may have waited longer than all others together.
    let failed_ns = failed.mean() * failed.len() as f64;
    let carried: f64 = facts.rows.iter().map(|r| r.counts.carried_ok as f64 + r.counts.carried_failed as f64).sum();
    let is_full = facts.is_saturating()
        && carried <= 0.01 * ok as f64
        && totals.in_flight_at_end == 0
        && longest_ns <= 0.05 * passed_ns
        && failures <= 0.01 * ok as f64
        && failed_ns <= 0.01 * spent_ns
        && closed <= 0.01 * ok as f64
        && facts.rows.len() >= 5;
    // Of the workers' own readings: those of the process have the observer's threads too, which give way to everyone.
    let waited = facts.rows.iter().map(|r| r.worker_wait_max.max(r.worker_late_max)).fold(0.0, f64::max);
    let of_threads = facts.generator_threads.iter().filter_map(|t| t.wait).fold(0.0, f64::max);
    let is_read = waited > 0.0 || facts.generator_threads.iter().any(|t| t.wait.is_some());
    let waited = Some(if waited > 0.0 { waited } else { of_threads }).filter(|_| is_read);
    if let Some(waited) = waited.filter(|_| is_full) {
        let count = facts.rows.len() as f64;
        let under_way: f64 = facts.rows.iter().map(|r| r.gauges.in_flight as f64).sum::<f64>() / count;
        let busy = facts.rows.iter().map(|r| r.worker_busy_max).fold(0.0, f64::max).clamp(0.0, 1.0);
        let least = under_way * (1.0 - busy - waited).max(0.0) * UNDER;
        let text = format!(
            "{under_way:.1} requests were under way at the intervals' ends, the busiest worker worked {} of the time: {concurrency:.1} by Little's law",
            percent(busy)
        );
        let evidence = facts.evidence(text, "audit.concurrency_read", under_way, "requests");
        checks.push(Check { holds: Some(concurrency >= least), evidence });
    }
    checks
}
