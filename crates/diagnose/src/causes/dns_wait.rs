//! `dns-wait`: requests wait in the target for a name to be looked up.
//!
//! Evidence: (sockets) the target had sockets of its own connected to port 53, new ones again and again, and by Little's law as
//! many at a time as a tenth of the requests under way, so that a tenth and more of their time is a lookup's; (client) requests take
//! far longer than the work in them. Resolvers that put several lookups on one socket (c-ares) close it with the last of
//! them: where each reading finds another one, it is told from how many readings found any. Refuted where there was hardly such
//! a socket, and where the same ones stay: a program with a resolver of its own keeps them without asking. Not observable where the
//! readings are too few to tell hardly any lookup from many that share a socket. Where a pool of threads does the lookups, requests stand in line for it, and
//! their share of the time is larger than what is said. Questions to a local daemon over a unix socket are not seen. Source:
//! resolver(3); getaddrinfo(3); Little's law.

use crate::evidence::{Client, Sockets};
use crate::facts::{Facts, duration, percent};
use crate::history::Subject;
use crate::ledger::{in_target_at_a_time, in_target_ns};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::LOOKUP_SHARE;
use model::finding::{LossKind, Severity};

const READINGS_MIN: usize = 3;
/// Fewer sockets, all in all, may be kept ones.
const SEEN_MIN: f64 = 3.0;
/// Requests must take so many times the work in them.
const TIMES_WORK: f64 = 3.0;

/// Of the readings with a socket, so many must have found another one than before.
const RENEWED_MIN: f64 = 0.8;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "dns-wait", needs: Needs::Connections, reads: &[&["network/lookups"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let read = facts.snapshots().filter(|s| s.network.of("lookup_sockets").is_some()).count();
    let level = facts.level(Subject::Network, "lookup_sockets");
    let seen = facts.grown(Subject::Network, "lookup_sockets_seen");
    let (Some(level), Some(seen), true) = (level, seen, read >= READINGS_MIN) else {
        return Verdict::not_observable("names looked up", "fewer than three readings of the target's own sockets");
    };
    let Some((in_ns, cost_ns)) = in_target_ns(facts).zip(facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "waits for names",
            "no request succeeded, or the target's CPU time was not read",
        );
    };
    let under_way = in_target_at_a_time(facts, in_ns);
    let with_one = facts.snapshots().filter(|s| s.network.of("lookup_sockets") > Some(0)).count();
    // Where each reading found another socket, each was closed when no lookup was left on it.
    let shared = shared(with_one, read).filter(|_| seen >= RENEWED_MIN * with_one as f64 && seen >= SEEN_MIN);
    let lookups = level.mean.max(shared.unwrap_or(0.0));
    let share = (lookups / under_way.max(f64::MIN_POSITIVE)).min(1.0);
    let text = match shared.filter(|shared| *shared > level.mean) {
        Some(lookups) => format!(
            "{with_one} of {read} readings found a socket of the target's that was connected to port 53, another one each time ({seen:.0} in all): by chance that takes {lookups:.1} lookups at a time, and {under_way:.1} requests were under way: {} of their time",
            percent(share)
        ),
        None => format!(
            "{:.1} sockets of the target's were connected to port 53 at a time, {seen:.0} in all, and {under_way:.1} requests were under way: {} of their time",
            level.mean,
            percent(share)
        ),
    };
    let sockets = facts.piece::<Sockets>(text, "lookup_sockets", share, "ratio").from(LOOKUP_SHARE.value);
    let at_most = shared.map(|_| shared_at_most(with_one, read) / under_way.max(f64::MIN_POSITIVE));
    if share < LOOKUP_SHARE.value && at_most.is_some_and(|at_most| at_most >= LOOKUP_SHARE.value) {
        let why = format!(
            "{with_one} of {read} readings found a socket of the target's that was connected to port 53, another one each time; lookups may share one, so that they are {} of the requests' time at the least: a longer run tells how many",
            percent(share)
        );
        return Verdict::not_observable("names looked up", why);
    }
    if share < LOOKUP_SHARE.value || seen < SEEN_MIN {
        return Verdict::refuted("the target hardly looked names up").because(sockets.into());
    }
    let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
    let client = facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us").from(TIMES_WORK * cost_ns / 1e3);
    if in_ns < TIMES_WORK * cost_ns {
        return Verdict::refuted("requests did not wait in the target").because(sockets.into()).because(client.into());
    }
    Verdict::proved(Severity::Error, "requests wait in the target for a name to be looked up", sockets, client)
        .explains(LossKind::Waiting, share, share * 0.5, 1.0)
        .remedy("Keep what a name was (a cache in the target, or one on its machine such as nscd or dnsmasq), keep connections to backends open, or write addresses in place of names; look at the resolver too")
        .check("ss -unp dst :53; time getent ahosts NAME; resolvectl statistics")
        .confidence(0.85)
}

/// How many lookups were under way at a time, at the least, where several may share a socket that is closed with the last of them: at
/// so many of the readings there was one. Of lookups that begin at random none is under way for e^-n of the time, where n are so on average
/// (M/G/∞); half a reading more than was seen stands for those that were not.
fn shared(with_one: usize, readings: usize) -> Option<f64> {
    let none = (readings.saturating_sub(with_one) as f64 + 0.5) / (readings as f64 + 1.0);
    (with_one > 0).then(|| -none.ln())
}

/// As [`shared`], the most that the readings leave room for: by the lower end of the 95 % interval (Wilson's) of the share of readings
/// without a socket. Without any such reading there is no bound.
fn shared_at_most(with_one: usize, readings: usize) -> f64 {
    const Z: f64 = 1.96;
    let n = readings.max(1) as f64;
    let none = readings.saturating_sub(with_one) as f64 / n;
    let middle = none + Z * Z / (2.0 * n);
    let half = Z * (none * (1.0 - none) / n + Z * Z / (4.0 * n * n)).sqrt();
    let least = (middle - half) / (1.0 + Z * Z / n);
    if least > f64::EPSILON { -least.ln() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::{shared, shared_at_most};

    #[test]
    fn a_socket_that_is_always_there_and_always_another_one_has_several_lookups() {
        assert_eq!(shared(0, 6), None);
        assert!(shared(1, 6).unwrap() < 0.3);
        assert!((shared(6, 6).unwrap() - 14.0_f64.ln()).abs() < 1e-9);
        assert!(shared(60, 60).unwrap() > shared(6, 6).unwrap());
    }

    #[test]
    fn the_more_readings_the_nearer_is_the_most_that_can_be() {
        assert!(shared_at_most(6, 6).is_infinite());
        assert!((shared_at_most(4, 5) - 3.32).abs() < 0.05, "{}", shared_at_most(4, 5));
        assert!(shared_at_most(48, 60) < 2.5);
        for with_one in 1..60 {
            assert!(shared_at_most(with_one, 60) > shared(with_one, 60).unwrap());
        }
    }
}
