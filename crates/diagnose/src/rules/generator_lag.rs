//! `generator-lag`: requests were taken up later than they were due, for whatever reason, beyond 1 ms at p99.
//!
//! Evidence: the lag histogram's tail (ready − intended). Waiting for a free connection is `queue`, the target's, and
//! is not in it: a stalled target leaves lag as it was. Refuted where `generator-cpu` is the cause, and in a closed pace
//! without think time, where no request has a moment to be late for. 1 ms: a hundred wake-ups of a sleeping thread.

use super::generator_cpu;
use crate::facts::{Facts, duration, quantile_name};
use crate::rule::{Rule, Verdict, past};
use model::finding::Severity;
use model::latency::Kind;

const LAG_NS_MAX: u64 = 1_000_000;

/// See the file's head.
#[derive(Debug)]
pub struct GeneratorLag;

impl Rule for GeneratorLag {
    fn id(&self) -> &'static str {
        "generator-lag"
    }

    fn needs_load(&self) -> bool {
        true
    }

    fn invalidates(&self) -> bool {
        true
    }

    fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let title = "the generator took requests up late";
        if facts.is_saturating() {
            return Verdict::refuted("in a closed pace without think time no request can be late");
        }
        let Some((quantile, lag_ns)) = facts.tail(Kind::Lag) else {
            return Verdict::not_observable(title, "fewer than 20 requests were due after warm-up");
        };
        let text = format!("lag {} is {}", quantile_name(quantile), duration(lag_ns as f64));
        let evidence = facts.evidence(text, "lag.p99_us", lag_ns as f64 / 1e3, "us");
        if lag_ns <= LAG_NS_MAX {
            return Verdict::refuted("requests were taken up in time").because(evidence);
        }
        if generator_cpu::is_supported(facts) {
            return Verdict::refuted("requests were taken up late, and generator-cpu says why").because(evidence);
        }
        let late = facts.rows.iter().filter(|r| r.lag_p99_ns.is_some_and(|ns| ns > LAG_NS_MAX)).count();
        let text = format!("it was above {} in {late} of {} intervals", duration(LAG_NS_MAX as f64), facts.rows.len());
        Verdict::supported(
            Severity::Error,
            format!("{title}: {} at {}", duration(lag_ns as f64), quantile_name(quantile)),
        )
        .because(evidence)
        .because(facts.evidence(text, "lag.intervals_late", late as f64, "intervals"))
        .remedy(
            "Give the generator CPUs that nothing else uses (--pin, or another machine), and look for what stopped it: \
                 other processes, a CPU quota, the hypervisor",
        )
        .check("grep -H . /proc/pressure/cpu /sys/fs/cgroup/cpu.stat")
        .confidence(past(lag_ns as f64, LAG_NS_MAX as f64))
    }
}
