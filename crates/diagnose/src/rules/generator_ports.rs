//! `generator-ports`: the generator ran out of local ports, or was told to use an address that is not this host's.
//!
//! Evidence: EADDRNOTAVAIL from the kernel, counted by kind; beside it the port range and the sockets in TIME_WAIT, which
//! tell the two apart. One is enough: those failures were counted against the target. Refuted by none: many sockets in
//! TIME_WAIT alone are harmless.

use crate::facts::Facts;
use crate::history::{Metric, Window};
use crate::rule::{Bearing, Needs, Rule, Verdict};
use model::ErrorKind;
use model::finding::{About, Severity};
use model::units::show_grouped;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "generator-ports", about: About::Generator, needs: Needs::Load, bearing: Bearing::All, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let count = facts.errors(ErrorKind::AddressNotAvailable);
    let text = format!("{} connections had no local port or address (EADDRNOTAVAIL)", show_grouped(count));
    let evidence = facts.evidence(text, "errors.address-not-available", count as f64, "count");
    if count == 0 && !facts.has_tried() {
        return Verdict::not_observable("whether the generator had local ports enough", "it made no connection at all");
    }
    if count == 0 {
        return Verdict::refuted("the generator had local ports enough").because(evidence);
    }
    let ports = facts.recording.capsule.sysctls.get("net.ipv4.ip_local_port_range").and_then(|r| ports(r));
    let range = ports.map(|ports| {
        let text = format!("net.ipv4.ip_local_port_range leaves {ports} ports to each address of the target");
        facts.evidence(text, "host.local_ports", ports, "ports")
    });
    let time_wait = Metric::new(facts.history.generators(), "time_wait");
    let waiting = facts.history.level(time_wait, Window::EVER).ok().map(|level| {
        let most = level.value.max;
        let text = format!("up to {} sockets were in TIME_WAIT", show_grouped(most));
        facts.evidence(text, "host.time_wait", most as f64, "sockets")
    });
    Verdict::supported(Severity::Error, "the generator ran out of local ports")
        .because(evidence)
        .because_all(range)
        .because_all(waiting)
        .remedy(
            "Keep connections open, widen the range (sysctl net.ipv4.ip_local_port_range='1024 65535'), or let the \
             target listen on more addresses or ports",
        )
        .check("sysctl net.ipv4.ip_local_port_range; ss -tan state time-wait | wc -l")
}

/// How many ports a range such as `32768 60999` has.
fn ports(range: &str) -> Option<f64> {
    let mut ends = range.split_whitespace().map(str::parse::<f64>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (high >= low).then_some(high - low + 1.0)
}
