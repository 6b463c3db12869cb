//! `slow-path`: some of what can be asked of the target costs it many times what the rest does, and the mix explains the tail.
//!
//! Evidence: (client) the fast band of some URLs or commands is five times that of the rest and a millisecond more, of a minority
//! of the requests; and (kernel) from the first read of such a request to the last send of its reply the target took three times as
//! long too, or (process) its CPU time a request is what they would cost, were it computing. Refuted where larger replies
//! explain it, or where the target answers both alike and they only wait. Not applicable where all that is asked is of one
//! kind. Looks alike: `head-of-line`, where what is slow depends on the request before. What it explains: requests of the
//! cheap kinds that stand behind a costly one. By the formula of Pollaczek and Khinchine the mean time in line goes with the mean
//! square of the times of service, so the costly ones' part of that is theirs.

use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Band, Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::statistics::median;
use crate::thresholds::{SLOW_PATH_NS, SLOW_PATH_TIMES};
use model::finding::{LossKind, Severity};
use model::request::Request;

/// Of so many of the requests it is what they cost, and no exception.
const MINORITY: f64 = 0.5;
/// The target must be seen to take so many times as long.
const IN_TARGET_TIMES: f64 = 3.0;
/// So many requests of each must have been seen in it.
const SEEN_MIN: usize = 5;
/// So much of what they would cost it must have worked.
const WORKED_MIN: f64 = 0.5;

/// See the file's head.
pub const RULE: CauseRule = CauseRule { id: "slow-path", needs: Needs::Connections, reads: &[], judge };

/// Whether the target was seen to take long for what is costly, for whoever asks whose doing late replies are: those behind one are
/// late by it, however few the probes saw.
pub(crate) fn is_seen_in_target(facts: &Facts<'_>) -> bool {
    judge(facts).is_supported()
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let mut bands = facts.bands_from_sent();
    bands.sort_by(|a, b| a.fast.ns.total_cmp(&b.fast.ns));
    let all: usize = bands.iter().map(|band| band.fast.count).sum();
    let Some(usual) = usual(&bands, all).filter(|_| bands.len() > 1) else {
        return Verdict::not_applicable("all requests were of one kind: one URL or command, replies of one size");
    };
    let is_costly = |band: &Band| {
        band.fast.ns >= SLOW_PATH_TIMES.value * usual.fast.ns && band.fast.ns >= usual.fast.ns + SLOW_PATH_NS.value
    };
    let (costly, cheap): (Vec<Band>, Vec<Band>) = bands.iter().copied().partition(is_costly);
    let Some(worst) = costly.last() else {
        return Verdict::refuted("all that was asked for costs about the same");
    };
    let count: usize = costly.iter().map(|band| band.fast.count).sum();
    let share = count as f64 / all.max(1) as f64;
    let name = facts.recording.plan.workload.protocol().entry_name(worst.entry);
    let name = name.unwrap_or_else(|| format!("a reply of {} bytes or more", worst.bytes_min));
    let text = format!(
        "{} of {} kinds of request ({} of all requests) took {} and more: {name} {}, the usual ones {}",
        costly.len(),
        bands.len(),
        percent(share),
        duration(costly.iter().map(|band| band.fast.ns).fold(f64::INFINITY, f64::min)),
        duration(worst.fast.ns),
        duration(usual.fast.ns)
    );
    let times = worst.fast.ns / usual.fast.ns.max(1.0);
    let client = facts.piece::<Client>(text, "requests.kind_times", times, "ratio").from(SLOW_PATH_TIMES.value);
    // A reply that is as many times as large takes as many times as long on any server.
    let larger = worst.bytes_min as f64 / usual.bytes_min.max(1) as f64;
    if larger >= times / 2.0 {
        return Verdict::refuted("what takes longer has the larger replies").because(client.into());
    }
    if share > MINORITY {
        return Verdict::refuted("what takes longer is most of what is asked").because(client.into());
    }
    let line = in_line(&costly, &cheap);
    let title = format!("{name} costs the target {times:.0} times what other requests do");
    let in_target = in_target_ns(facts, &costly);
    let verdict = match in_target {
        Some((costly_ns, cheap_ns)) => {
            let text = format!(
                "from the first read of such a request to the last send of its reply it took {}, of others {} (medians)",
                duration(costly_ns),
                duration(cheap_ns)
            );
            let kernel = facts
                .piece::<Kernel>(text, "exchanges.kind_times", costly_ns / cheap_ns.max(1.0), "ratio")
                .from(IN_TARGET_TIMES);
            if costly_ns < IN_TARGET_TIMES * cheap_ns {
                return Verdict::refuted("the target takes as long for the rest: they wait elsewhere")
                    .because(client.into())
                    .because(kernel.into());
            }
            Verdict::proved(Severity::Error, title, client, kernel).confidence(0.9)
        }
        None => {
            let beyond = |band: &Band| (band.fast.ns - usual.fast.ns) * band.fast.count as f64 / all.max(1) as f64;
            let cost_ns: f64 = costly.iter().map(beyond).sum();
            let worked = facts.cpu_ns_per_request().filter(|ns| *ns >= WORKED_MIN * cost_ns);
            let Some(worked_ns) = worked else {
                return Verdict::not_observable(
                    "what costly requests cost the target",
                    "their times are one piece of evidence; how long the target was at them is seen by --observe windows",
                )
                .because(client.into());
            };
            let text = format!(
                "it worked {} a request: costly ones alone would make {}",
                duration(worked_ns),
                duration(cost_ns)
            );
            let process =
                facts.piece::<Process>(text, "target.cpu_ns_per_request", worked_ns, "ns").from(WORKED_MIN * cost_ns);
            Verdict::proved(Severity::Error, title, client, process).confidence(0.7)
        }
    };
    verdict
        .explains(LossKind::Slow, line, line * 0.7, 1.0)
        .remedy("Make that one cheaper (an index, a cache, a limit on what may be asked), or serve it apart, by workers of its own")
        .check("plimsoll report last --flame on-cpu # or off-cpu: what the costly ones do; and time each URL or command alone, ten times")
}

/// The kind that the median request is of, by cost; `None` without one.
fn usual(bands: &[Band], all: usize) -> Option<Band> {
    let mut seen = 0;
    bands.iter().copied().find(|band| {
        seen += band.fast.count;
        2 * seen >= all
    })
}

/// The part of the costly kinds in the mean square of the times of service.
fn in_line(costly: &[Band], cheap: &[Band]) -> f64 {
    let squares =
        |bands: &[Band]| bands.iter().map(|band| band.fast.count as f64 * band.fast.ns * band.fast.ns).sum::<f64>();
    let (of_costly, of_cheap) = (squares(costly), squares(cheap));
    if of_costly + of_cheap > 0.0 { of_costly / (of_costly + of_cheap) } else { 0.0 }
}

/// How long the target was at costly requests and at others, from first read to last send, nanoseconds, medians; `None`: too few
/// were seen.
fn in_target_ns(facts: &Facts<'_>, costly: &[Band]) -> Option<(f64, f64)> {
    let is_costly = |request: &Request| {
        let band = facts.kinds.band(request)?;
        Some(costly.iter().any(|one| (one.entry, one.bytes_min) == (band.entry, band.bytes_min)))
    };
    let (mut of_costly, mut of_others) = (Vec::new(), Vec::new());
    for one in facts.recording.split.sampled() {
        let Ok(passage) = one.passage else { continue };
        let ns = passage.written_ns.saturating_sub(passage.read_ns) as f64;
        match is_costly(&one.request) {
            Some(true) => of_costly.push(ns),
            Some(false) => of_others.push(ns),
            None => {}
        }
    }
    let is_enough = of_costly.len() >= SEEN_MIN && of_others.len() >= SEEN_MIN;
    is_enough.then(|| (median(of_costly), median(of_others)))
}
