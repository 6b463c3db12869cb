//! `too-few`: not enough successes for some of the quantiles a report has; those are null.
//!
//! Evidence: the number of response times against 10 / (1 − q), ten samples above the quantile, below which its value is
//! one or two requests' chance. Refuted where all have enough. A warning where p99 itself is null, else for information.

use crate::facts::{Facts, quantile_name};
use crate::rule::{Needs, Rule, Verdict, past};
use model::finding::Severity;
use model::latency::Kind;

/// The report's quantiles, lowest first, in thousandths so that what they need is exact.
const QUANTILES_PERMILLE: [u64; 6] = [500, 750, 900, 950, 990, 999];

/// See the file's head.
#[derive(Debug)]
pub struct TooFew;

impl Rule for TooFew {
    fn id(&self) -> &'static str {
        "too-few"
    }

    fn needs(&self) -> Needs {
        Needs::Connections
    }

    fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let count = facts.latency(Kind::Response).len();
        let needed = |permille: u64| 10_000u64.div_ceil(1000 - permille);
        let missing: Vec<u64> = QUANTILES_PERMILLE.into_iter().filter(|q| count < needed(*q)).collect();
        let Some(lowest) = missing.first() else {
            let text = format!("{count} successes suffice for every quantile of the report");
            return Verdict::refuted("there were enough requests for every quantile").because(facts.evidence(
                text,
                "latency.response.count",
                count as f64,
                "requests",
            ));
        };
        let names: Vec<String> = missing.iter().map(|q| quantile_name(*q as f64 / 1000.0)).collect();
        let highest = missing.last().copied().unwrap_or(*lowest);
        let text = format!("there were {count} successes; {} needs {}", names.join(", "), list(&missing, needed));
        let severity = if missing.contains(&990) { Severity::Warning } else { Severity::Info };
        Verdict::supported(severity, format!("too few requests for {}", names.join(", ")))
            .because(facts.evidence(text, "latency.response.count", count as f64, "requests"))
            .remedy(format!(
                "Run longer: at least {} successes for {}",
                needed(highest),
                quantile_name(highest as f64 / 1000.0)
            ))
            .check("plimsoll report RUN --json | jq .latency.response")
            .confidence(past(needed(highest) as f64, count as f64))
    }
}

fn list(permille: &[u64], needed: impl Fn(u64) -> u64) -> String {
    permille.iter().map(|q| needed(*q).to_string()).collect::<Vec<_>>().join(", ")
}
