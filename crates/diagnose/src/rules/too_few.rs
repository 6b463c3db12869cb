//! `too-few`: not enough successes for some of the quantiles a report has; those are null.
//!
//! Evidence: the number of response times against 10 / (1 − q), ten samples above the quantile, below which its value is
//! one or two requests' chance. Refuted where all have enough, and where every request
//! failed: more of them would be no more successes. A warning where p99 itself is null, else for information.

use crate::facts::{Facts, quantile_name};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Severity};
use model::latency::Kind;
use model::quantile::Permille;
use model::units::{show_figure, show_grouped};

/// The report's quantiles, lowest first, in thousandths so that what they need is exact.
const QUANTILES_PERMILLE: [u64; 6] = [500, 750, 900, 950, 990, 999];

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "too-few", about: About::Load, needs: Needs::Connections, bearing: Bearing::None, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let count = facts.latency(Kind::Response).len();
    let needed = |permille: u64| Permille(permille).samples_needed();
    let missing: Vec<u64> = QUANTILES_PERMILLE.into_iter().filter(|q| count < needed(*q)).collect();
    let Some(lowest) = missing.first() else {
        let text = format!("{} successes suffice for every quantile of the report", show_grouped(count));
        return Verdict::refuted("there were enough requests for every quantile").because(facts.evidence(
            text,
            "latency.response.count",
            count as f64,
            "requests",
        ));
    };
    if count == 0 && facts.ended > 0.0 {
        let text = format!("{} requests ended, and all of them failed", show_figure(facts.ended));
        return Verdict::refuted("none succeeded, which more time does not change").because(facts.evidence(
            text,
            "latency.response.count",
            0.0,
            "requests",
        ));
    }
    let names: Vec<String> = missing.iter().map(|q| quantile_name(*q as f64 / 1000.0)).collect();
    let highest = missing.last().copied().unwrap_or(*lowest);
    let text = format!(
        "there were {} successes, and {} need {}",
        show_grouped(count),
        names.join(", "),
        list(&missing, needed)
    );
    let severity = if missing.contains(&990) { Severity::Warning } else { Severity::Info };
    Verdict::supported(severity, format!("too few requests for {}", names.join(", ")))
        .because(facts.evidence(text, "latency.response.count", count as f64, "requests"))
        .remedy(format!(
            "Run longer: at least {} successes for {}",
            show_grouped(needed(highest)),
            quantile_name(highest as f64 / 1000.0)
        ))
        .check("plimsoll report RUN --json | jq .latency.response")
        .confidence(past(needed(highest) as f64, count as f64))
}

fn list(permille: &[u64], needed: impl Fn(u64) -> u64) -> String {
    permille.iter().map(|q| show_grouped(needed(*q))).collect::<Vec<_>>().join(", ")
}
