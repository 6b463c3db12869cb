//! `generator-memory`: the kernel had no memory for the generator's sockets.
//!
//! Evidence: ENOBUFS or ENOMEM, counted by kind, and the memory that was left on the host. One is enough: those failures
//! were counted against the target. Refuted by none. On one machine the target's memory may be what is missing, but
//! the generator's requests are what failed for it, so the figures are no figures of the target either way.

use crate::facts::Facts;
use crate::history::{Metric, Window};
use crate::rule::{Bearing, Needs, Rule, Verdict};
use model::ErrorKind;
use model::finding::{About, Severity};
use model::units::show_grouped;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "generator-memory", about: About::Generator, needs: Needs::Load, bearing: Bearing::All, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let count = facts.errors(ErrorKind::OutOfMemory);
    let text = format!("{} operations failed for want of memory (ENOBUFS, ENOMEM)", show_grouped(count));
    let evidence = facts.evidence(text, "errors.out-of-memory", count as f64, "count");
    if count == 0 && !facts.has_tried() {
        return Verdict::not_observable("whether the generator had memory enough", "it made no connection at all");
    }
    if count == 0 {
        return Verdict::refuted("the generator had memory enough").because(evidence);
    }
    let available = Metric::new(facts.history.generators(), "memory_available_bytes");
    let left = facts.history.level(available, Window::EVER).ok().map(|level| {
        let least = level.value.min;
        let text = format!("at the least {} MiB were available on this host", least >> 20);
        facts.evidence(text, "host.memory_available_bytes", least as f64, "bytes")
    });
    Verdict::supported(Severity::Error, "the kernel had no memory for the generator's sockets")
        .because(evidence)
        .because_all(left)
        .remedy(
            "Ask for fewer connections, raise the generator's limits (cgroup memory, ulimit -l, net.ipv4.tcp_mem), or \
             free memory on this host",
        )
        .check("free -m; sysctl net.ipv4.tcp_mem; cat /proc/net/sockstat")
}
