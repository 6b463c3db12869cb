//! oha's `--output-format json`, after its published schema (times in seconds, counts by status).
//! Requests cut off by the end of the run are no failures of the target.

use anyhow::{Context as _, Result};

use super::{Captured, Quantiles, Reported, json, number, sum_of};

/// Reads the document.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let document = json(captured.stdout)?;
    let statuses = "/statusCodeDistribution";
    let good = |status: &str| status.starts_with(['2', '3']);
    let ok = sum_of(&document, statuses, good).context("there is no statusCodeDistribution")?;
    let refused = sum_of(&document, statuses, |status| !good(status)).unwrap_or(0);
    let broken = sum_of(&document, "/errorDistribution", |error| error != "aborted due to deadline");
    let percentile = |name: &str| number(&document, &format!("/latencyPercentiles/{name}"), 1e6);
    Ok(Reported {
        ok,
        failed: refused + broken.unwrap_or(0),
        response: Quantiles {
            p50_us: percentile("p50"),
            p90_us: percentile("p90"),
            p95_us: percentile("p95"),
            p99_us: percentile("p99"),
            max_us: number(&document, "/summary/slowest", 1e6),
        },
        ..Reported::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    #[test]
    fn a_document_of_its_schema() {
        let text = r#"{
            "summary": {"successRate": 1.0, "total": 1.0, "slowest": 0.004, "requestsPerSec": 9.0},
            "latencyPercentiles": {"p50": 0.0005, "p90": 0.001, "p95": null, "p99": 0.002},
            "statusCodeDistribution": {"200": 90, "204": 3, "404": 5},
            "errorDistribution": {"aborted due to deadline": 64, "connection error": 2}
        }"#;
        let got = parse_text(parse, text).unwrap();
        assert_eq!((got.ok, got.failed), (93, 7));
        assert_eq!(got.response.p50_us, Some(500.0));
        assert_eq!(got.response.p95_us, None);
        assert_eq!(got.response.max_us, Some(4000.0));
    }
}
