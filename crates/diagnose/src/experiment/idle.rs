//! Silent connections beside the load: `connection-limit`, `worker-starvation`.
//!
//! Dose: connections that are open and say nothing. Response: the share of requests beside them that are lost. None is lost
//! without them and all are with so many, in every round, alternating: so it is they. Silent ones that were refused or closed
//! tell a limit of connections; where they are held and others are not answered, a worker stands at each of them, or the
//! limit is one of connections that are accepted and never read: from outside these look alike.

use super::steps::{Step, Steps};
use super::{Decision, Experiment};

/// Next to nothing is lost.
const SERVED: f64 = 0.1;
/// Next to all is lost.
const LOST: f64 = 0.9;

pub(super) fn judge(steps: &Steps<'_>) -> Decision {
    let of = Experiment::Idle;
    let lost = |step: &Step| Some(step.lost_share());
    let responses = steps.responses("lost_share", "ratio", lost);
    let doses = steps.doses();
    let is_served = |dose: f64| steps.always(dose, |step| step.lost_share() <= SERVED);
    let is_lost = |dose: f64| steps.always(dose, |step| step.lost_share() >= LOST);
    if !is_served(0.0) {
        return Decision::open(of, "requests are lost without silent connections beside them, too", responses);
    }
    let most = doses.last().copied().unwrap_or(0.0);
    if most <= 0.0 {
        return Decision::open(of, "no silent connection could be held beside the load", responses);
    }
    let most_served = doses.iter().copied().filter(|dose| is_served(*dose)).fold(0.0, f64::max);
    let Some(first_lost) = doses.iter().copied().find(|dose| is_lost(*dose)) else {
        if !is_served(most) {
            let text =
                format!("with {most:.0} silent connections beside them some requests are lost, and not in every round");
            return Decision::open(of, text, responses);
        }
        let turned_away = steps.at(most).iter().map(|step| step.turned_away).max().unwrap_or(0);
        if turned_away as f64 > 0.5 * most {
            let text = format!(
                "requests are answered, but {turned_away} of {most:.0} silent connections were refused or closed: the server keeps few that say nothing"
            );
            return Decision::refuted(of, text, responses);
        }
        let text = format!("{most:.0} silent connections beside them take nothing from requests");
        return Decision::refuted(of, text, responses);
    };
    // Every dose above must lose too, or it is not the dose.
    if doses.iter().copied().filter(|dose| *dose > first_lost).any(|dose| !is_lost(dose)) || most_served > first_lost {
        let text =
            format!("requests are lost beside {first_lost:.0} silent connections, and not beside more: it is not they");
        return Decision::open(of, text, responses);
    }
    let steps_lost = steps.at(first_lost);
    let turned_away = steps_lost.iter().map(|step| step.turned_away).max().unwrap_or(0);
    let of_kind = |kinds: &[&str]| -> u64 {
        steps_lost
            .iter()
            .flat_map(|step| &step.errors)
            .filter(|(kind, _)| kinds.contains(&kind.as_str()))
            .map(|(_, n)| n)
            .sum()
    };
    let refused = of_kind(&["refused", "reset", "closed-early", "connect-failed", "unexpected-status"]);
    let silent = of_kind(&["reply-timeout", "connect-timeout", "queue-timeout"])
        + steps_lost.iter().map(|step| step.unfinished).sum::<u64>();
    let limit = match first_lost - most_served {
        apart if apart > 1.0 => format!("between {:.0} and {first_lost:.0}", most_served + 1.0),
        _ => format!("{first_lost:.0}"),
    };
    let text = format!(
        "the server serves with {most_served:.0} silent connections beside the load, and with {first_lost:.0} no more: it takes {limit} connections at once"
    );
    if refused > silent || turned_away > 0 && refused > 0 {
        return Decision::supported(of, format!("{text}, and refuses or closes further ones"), responses)
            .finding("connection-limit")
            .remedy(
                "Raise the server's limit of connections (and its descriptors), or close idle ones sooner",
                "ss -Htn state established '( sport = :PORT )' | wc -l, and try one more by hand",
            );
    }
    Decision::supported(of, format!("{text}, and leaves further ones without an answer"), responses)
        .points_to(&["worker-starvation", "connection-limit"])
        .remedy(
            "Do not let a silent connection hold a worker: an event loop, more workers, or a short timeout for the first and the next request",
            "for t in /proc/PID/task/*; do cat $t/wchan; echo; done | sort | uniq -c: all in a receive",
        )
}
