//! `neighbour-request`: what another client asks of the same server holds it, and the requests of this load stall meanwhile.
//!
//! Evidence: (client) pauses in which several requests were under way and none ended; (sockets) requests of clients other than
//! the generator that the target took as long for as such a pause lasts, about as many as there were pauses. Refuted where
//! there were none of others' (`stop-the-world`, `event-loop-blocked`), where theirs were quick, and where far more of theirs
//! were slow than there were pauses: then they stall with ours. Not observable where their quick requests are so many that some of them
//! come into pauses by chance, without the probe of the sockets, which looks in windows, or with a generator on another machine. Source: the catalogue's `KEYS *` once a second.

use super::pauses::{pauses, slow_share};
use crate::evidence::{Client, Sockets};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::statistics::at_most_by_chance;
use crate::thresholds::{OTHERS_AS_LONG, PAUSED_SHARE};
use model::Gap;
use model::bpf::Log2;
use model::finding::{LossKind, Severity};

/// Of the pauses that fell into the probes' windows so many must have such a request, and no more than so many each.
const FEWEST: f64 = 0.5;
const MOST: f64 = 2.0;
/// One may have come into a pause by chance.
const LONG_MIN: u64 = 2;
/// As many as there are come by chance at most so often, by Poisson, where quick ones of theirs come as they do.
const CHANCE_MAX: f64 = 0.01;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "neighbour-request",
    needs: Needs::Connections,
    reads: &[&["process/threads"], &["bpf/sockets"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(pauses) = pauses(facts) else {
        return Verdict::refuted("there were no pauses of several requests at once, or hardly any");
    };
    let text = format!(
        "{} pauses in which none of several requests ended, {} long (median), {} of the time",
        pauses.all.len(),
        duration(pauses.median_ns),
        percent(pauses.share)
    );
    let client = facts.piece::<Client>(text, "pauses.share", pauses.share, "ratio").from(PAUSED_SHARE.value);
    let Some(others) = facts.counted("sockets.others_requests") else {
        return Verdict::not_observable(
            "requests of other clients",
            "the probes did not see the generator connect: it is on another machine, or has no connection of TCP",
        )
        .because(client.into());
    };
    if facts.asks_itself() {
        let why = "the target has connections to itself, and its own requests come as those of others do";
        return Verdict::not_observable("requests of other clients", why).because(client.into());
    }
    let none = Log2::default();
    let times = facts.histogram("sockets.others_service_ns", 1).unwrap_or(&none);
    let long = at_least(times, OTHERS_AS_LONG.value * pauses.median_ns);
    let windows_s = facts.probes().map_or(0.0, |probes| probes.window_ns as f64 / 1e9);
    let expected = within_windows(facts, &pauses.all, pauses.median_ns / 1e9, windows_s);
    let text = format!(
        "in the probes' windows ({windows_s:.1} s) {others} requests of other clients came, and {long} of them took about as long as a pause: {expected:.1} pauses fell into them"
    );
    let sockets =
        facts.piece::<Sockets>(text, "sockets.others_long", long as f64, "requests").from((FEWEST * expected).max(1.0));
    if long < LONG_MIN {
        // Of a window that no pause fell into nothing is known, and a single one may have been a victim itself.
        return match expected < LONG_MIN as f64 {
            true => Verdict::not_observable(
                "requests of other clients",
                "hardly a pause fell into the probes' windows: a longer run, or --observe full",
            )
            .because(client.into())
            .because(sockets.into()),
            false => Verdict::refuted("hardly a request of another client took as long as a pause")
                .because(client.into())
                .because(sockets.into()),
        };
    }
    if (long as f64) < FEWEST * expected || long as f64 > MOST * expected + 1.0 {
        return Verdict::refuted("other clients' long requests are not as many as the pauses")
            .because(client.into())
            .because(sockets.into());
    }
    // Who asks much is in a pause now and then, and waits as long: a victim as the others are.
    // One that had begun before its window is seen in part, and seems quick.
    let quick = others.saturating_sub(long).saturating_sub(windows(facts) as u64);
    let quick_per_s = quick as f64 / windows_s.max(1e-9);
    let victims = expected * (1.0 - (-quick_per_s * pauses.median_ns / 1e9).exp());
    if victims > 0.0 && 1.0 - at_most_by_chance(long - 1, victims) > CHANCE_MAX {
        return Verdict::not_observable(
            "requests of other clients",
            format!("their quick requests are so many, {quick_per_s:.1} a second, that the long ones may have come into pauses by chance"),
        )
        .because(client.into())
        .because(sockets.into());
    }
    let slow = slow_share(facts);
    let title = format!(
        "a request of another client holds the target for {}, and all others wait meanwhile",
        duration(pauses.median_ns)
    );
    Verdict::proved(Severity::Error, title, client, sockets)
        .explains(LossKind::Slow, slow, slow * 0.7, 1.0)
        .remedy("Find who asks for it (the check below), and have it asked elsewhere (a replica), in pieces (SCAN in place of KEYS), or not in the loop that serves all")
        .check("ss -tnp 'dport = :PORT' # clients that are not the load; of redis: SLOWLOG GET 10")
        .confidence(0.8)
}

/// How many pauses can be expected from their beginning to their end within the probes' windows: those that began in an interval with a window,
/// times the part of these intervals that the windows took, less what such a pause takes, for one that reaches out of its window is not
/// seen whole. A pause elsewhere tells nothing: the only window may have been before the other client came.
fn within_windows(facts: &Facts<'_>, pauses: &[Gap], pause_s: f64, windows_s: f64) -> f64 {
    let with_window = || facts.rows.iter().filter(|row| row.in_window);
    let length_s = with_window().map(|row| row.end_ns.saturating_sub(row.start_ns)).sum::<u64>() as f64 / 1e9;
    if length_s <= 0.0 {
        return pauses.len() as f64 / facts.measured_s().max(1e-9) * windows_s;
    }
    let begins = |pause: &&Gap| with_window().any(|row| (row.start_ns..row.end_ns).contains(&pause.from_ns));
    let whole_s = (windows_s - windows(facts) as f64 * pause_s).max(0.0);
    pauses.iter().filter(begins).count() as f64 * (whole_s / length_s).min(1.0)
}

/// How many windows the probes had; those that follow on each other are one.
fn windows(facts: &Facts<'_>) -> usize {
    let is_first = |at: &usize| facts.rows[*at].in_window && (*at == 0 || !facts.rows[*at - 1].in_window);
    (0..facts.rows.len()).filter(is_first).count()
}

/// How many values are in buckets that reach so far.
fn at_least(histogram: &Log2, ns: f64) -> u64 {
    let is_long = |bucket: usize| Log2::edges(bucket).1 as f64 >= ns;
    let long = histogram.buckets.iter().enumerate().filter(|(bucket, _)| is_long(*bucket));
    long.map(|(_, count)| *count).fold(0, u64::saturating_add)
}
