//! Whether somebody else uses the machine, in a sentence: for a run that the user did not set up, as the demo's, and where
//! a target had to wait for them.
//!
//! By the CPU time of other processes over the measured time, and by what the hypervisor took. It judges no figure.

use crate::facts::{Facts, percent};
use crate::history::History;
use model::Recording;

/// Cores that others must take together before the machine is called busy.
const CORES_MIN: f64 = 0.2;
/// Cores that one of them must take to be named.
const NAMED_MIN: f64 = 0.05;
/// How many are named.
const NAMED_MAX: usize = 3;
/// Share of its CPU time that a machine may lack.
const STOLEN_MAX: f64 = 0.05;

/// "this machine is busy: NAME (pid) takes x cores"; `None` where it is not, or nobody looked.
pub fn busy(recording: &Recording) -> Option<String> {
    let history = History::of(&recording.snapshots);
    let facts = Facts::of(recording, &history);
    let mut who = neighbours(&facts);
    let stolen = facts.generator_host.map_or(0.0, |host| host.steal);
    if stolen > STOLEN_MAX {
        who.push(format!("the hypervisor takes {} of its CPU time", percent(stolen)));
    }
    (!who.is_empty()).then(|| sentence(&who))
}

/// The sentence that says who else uses the generator's machine.
pub(crate) fn sentence(who: &[String]) -> String {
    format!("this machine is busy: {}", who.join(", "))
}

/// The processes that use the machine and do not work for the target, each with what it takes; empty where they take too little
/// together.
pub(crate) fn neighbours(facts: &Facts<'_>) -> Vec<String> {
    if facts.strangers().map(|n| n.cores).sum::<f64>() < CORES_MIN {
        return Vec::new();
    }
    let named = facts.strangers().filter(|n| n.cores >= NAMED_MIN).take(NAMED_MAX);
    named.map(|n| format!("{} takes {:.1} cores", n.named(), n.cores)).collect()
}
