//! What is said of a recording without a load: of a target that was watched, or of another instrument's text.
//!
//! What users lost is not in it, so no cause is said to give: what is there is named, and that its cost was not seen. Of a
//! text without processes only the machine is told.

use crate::causes::thresholds::{DEMAND_FULL, MACHINE_BUSY, SWAPPED_IN};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use model::finding::{About, Finding, Standing, Status, WhatGives};

/// The sentence. Findings come ranked.
pub(crate) fn gives(facts: &Facts<'_>, findings: &[Finding]) -> WhatGives {
    let of_target = || findings.iter().filter(|finding| finding.about == About::Target);
    let says = |standing, text: String, finding: Option<&Finding>| WhatGives {
        standing,
        text,
        finding: finding.map(|finding| finding.id.clone()),
        behind: None,
    };
    if let Some(first) = of_target().find(|finding| finding.status == Status::Supported) {
        let text = format!("{}; what it costs users was not seen, as no load was put on", first.title);
        return says(Standing::SeenWithoutLoad, text, Some(first));
    }
    let unseen = of_target().filter(|finding| finding.status == Status::NotObservable).count();
    let rest = match unseen {
        0 => String::new(),
        unseen => format!("; {unseen} causes could not be judged, most for want of a load"),
    };
    if let Some(demand) = facts.busiest_demand().filter(|demand| *demand >= DEMAND_FULL.value) {
        let text = format!(
            "the target's busiest thread wants {} of a core, so it is near its limit, or others keep it from running{rest}",
            percent(demand)
        );
        return says(Standing::Unknown, text, None);
    }
    if let Some(demand) = facts.busiest_demand() {
        let text = format!(
            "nothing gives that can be told without a load: the target's busiest thread wants {} of a core{rest}",
            percent(demand)
        );
        return says(Standing::Unknown, text, None);
    }
    let machine = machine(facts);
    let text = match machine.as_slice() {
        [] => format!("neither the target nor its machine's CPUs were seen{rest}"),
        seen => format!("{}; whose doing that is was not seen{rest}", seen.join(", ")),
    };
    says(Standing::Unknown, text, None)
}

/// What the machine did, as far as it was read.
fn machine(facts: &Facts<'_>) -> Vec<String> {
    let mut seen = Vec::new();
    if let Some(host) = facts.host.filter(|host| host.cores > 0.0) {
        let busy = (1.0 - host.idle_cores / host.cores).clamp(0.0, 1.0);
        let full = if busy >= MACHINE_BUSY.value { "full: " } else { "" };
        seen.push(format!("the machine's CPUs were {full}{} busy", percent(busy)));
    }
    let measured_s = facts.measured_s();
    let swapped_in = facts.grown(Subject::Machine, "swap_in_pages").filter(|_| measured_s > 0.0);
    if let Some(rate) = swapped_in.map(|pages| pages / measured_s).filter(|rate| *rate >= SWAPPED_IN.value) {
        seen.push(format!("{rate:.0} pages a second were read back from swap"));
    }
    seen
}
