//! New connections at one moment: `accept-queue-overflow`.
//!
//! Dose: how many at once. Response: the longest time to connect. Where the queue in front of accept(2) is full, the kernel
//! drops what would enter it, and the client asks again after a second (RFC 6298, 2.1; TCP_TIMEOUT_INIT): so with the dose
//! the longest connect jumps from next to nothing to a second and more, in every round. A far server's connects are long
//! at one, too. A loss on the way looks alike, but not in every round and only with many.

use super::steps::{Step, Steps, us};
use super::{Decision, Experiment};
use crate::thresholds::CONNECT_NS;

pub(super) fn judge(steps: &Steps<'_>) -> Decision {
    let of = Experiment::Burst;
    let longest = |step: &Step| step.connect_max_us;
    let responses = steps.responses("connect_max_us", "us", longest);
    let doses = steps.doses();
    let (Some(least), Some(most)) = (doses.first().copied(), doses.last().copied()) else {
        return Decision::open(of, "no burst of connections was made", responses);
    };
    let is_again = |step: &Step| step.connect_max_us.is_some_and(|us| us >= CONNECT_NS.value / 1e3);
    let is_quick = |step: &Step| step.connect_max_us.is_some_and(|us| us < CONNECT_NS.value / 2e3);
    let shown = |dose: f64| steps.mean(dose, longest).map_or("nothing".to_owned(), |longest| us(longest.value));
    if !steps.always(least, is_quick) {
        return Decision::open(
            of,
            format!("{least:.0} new connections at once take {} already", shown(least)),
            responses,
        );
    }
    let Some(first) = doses.iter().copied().find(|dose| steps.always(*dose, is_again)) else {
        if doses.iter().any(|dose| steps.at(*dose).into_iter().any(is_again)) {
            let text = "a connection took a second and more in some rounds and not in others: a loss on the way does that, too";
            return Decision::open(of, text, responses);
        }
        let text = format!("{most:.0} new connections at one moment are made in {} at the longest", shown(most));
        return Decision::refuted(of, text, responses);
    };
    if !steps.always(most, is_again) {
        let text =
            format!("{first:.0} new connections at once took a second, and {most:.0} did not: it is not their number");
        return Decision::open(of, text, responses);
    }
    let text = format!(
        "of {first:.0} new connections at one moment the last is made after {}, of {least:.0} after {}: the queue in front of accept overflows",
        shown(first),
        shown(least)
    );
    Decision::supported(of, text, responses).finding("accept-queue-overflow").remedy(
        "Raise the backlog that the server gives to listen(2), and net.core.somaxconn if that is lower; accept sooner",
        "ss -ltn (Recv-Q beside Send-Q of the listener); nstat -az TcpExtListenOverflows",
    )
}
