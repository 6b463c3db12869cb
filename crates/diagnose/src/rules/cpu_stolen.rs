//! `cpu-stolen`: the hypervisor took CPU time of the generator's machine, by enough to change a figure.
//!
//! Evidence: `steal` of `/proc/stat` over the measured time, and what it can have added ([`crate::harm`]): where no CPU is
//! full, work on a CPU is a small part of a slow reply, and only that part was stretched. So 15 % beside a target that
//! answers in 44 ms changes nothing that shows, and beside one that answers in 100 µs it does. Where lag or late turns
//! decide about a figure, and steal is the most that was read to explain them, it is the cause as well.
//! An error where a figure changed by more than a tenth; for information above 5 %; refuted below. Not observable where the
//! CPU time of the generator's machine was not read.

use super::generator_lag;
use crate::facts::{Facts, duration, percent};
use crate::harm::{Harm, SHARE_MAX, Stolen, Taken, Taker};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Evidence, Severity};

/// So much is worth a line, as a share of the CPU time.
const WORTH_SAYING: f64 = 0.05;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "cpu-stolen", about: About::Host, needs: Needs::Connections, bearing: Bearing::Measured, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the hypervisor took CPU time from the generator's machine";
    let harm = Harm::of(facts, &facts.whole);
    let Some(stolen) = harm.stolen else {
        let why = facts.why_not("host/cpu");
        return Verdict::not_observable(title, why.unwrap_or_else(|| "its CPU time was not read twice".to_owned()));
    };
    let is_taker = Taken::of(facts, &facts.whole).by(facts) == Some(Taker::Hypervisor);
    let is_decisive = stolen.is_decisive() || (harm.is_by_not_running() && is_taker);
    let evidence = [share(facts, &stolen), added(facts, &stolen)];
    if !is_decisive && stolen.share <= WORTH_SAYING {
        return Verdict::refuted("the hypervisor took no CPU time that would show").because_all(evidence);
    }
    let severity = if is_decisive { Severity::Error } else { Severity::Info };
    let what = if is_decisive { "" } else { ", which changes no figure by much" };
    let late = if is_taker { generator_lag::evidence(facts, &harm) } else { Vec::new() };
    Verdict::supported(severity, format!("{title}: {} of it{what}", percent(stolen.share)))
        .because_all(evidence)
        .because_all(late)
        .remedy("Run on a machine whose CPUs are its own, or again when its neighbours are quiet")
        .check("vmstat 1 5")
        .confidence(past(stolen.added_share.max(stolen.share), SHARE_MAX))
}

fn share(facts: &Facts<'_>, stolen: &Stolen) -> Evidence {
    let text =
        format!("the hypervisor took {} of the CPU time over {:.0} s", percent(stolen.share), facts.measured_s());
    facts.evidence(text, "host.steal", stolen.share, "ratio")
}

fn added(facts: &Facts<'_>, stolen: &Stolen) -> Evidence {
    let text = if stolen.is_full {
        format!(
            "a CPU was full, so that all of a request's time was stretched: by up to {}",
            percent(stolen.added_share)
        )
    } else {
        format!(
            "no CPU was full, and a request of {} takes {} of work on one: up to {} of its time was added",
            duration(stolen.response_ns),
            duration(stolen.work_ns.min(stolen.response_ns)),
            percent(stolen.added_share)
        )
    };
    facts.evidence(text, "response.stolen_share", stolen.added_share, "ratio")
}
