//! vegeta's `report -type json`: times in nanoseconds, counts by status, `0` for no reply at all.

use anyhow::{Context as _, Result};

use super::{Captured, Quantiles, Reported, json, number, sum_of};

/// Reads the document.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let document = json(captured.stdout)?;
    let good = |status: &str| status.starts_with(['2', '3']);
    let ok = sum_of(&document, "/status_codes", good).context("there are no status_codes")?;
    let failed = sum_of(&document, "/status_codes", |status| !good(status)).unwrap_or(0);
    let latency = |name: &str| number(&document, &format!("/latencies/{name}"), 1e-3);
    Ok(Reported {
        ok,
        failed,
        response: Quantiles {
            p50_us: latency("50th"),
            p90_us: latency("90th"),
            p95_us: latency("95th"),
            p99_us: latency("99th"),
            max_us: latency("max"),
        },
        ..Reported::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    #[test]
    fn a_document_of_its_form() {
        let text = r#"{"latencies":{"total":9,"mean":5,"50th":60648,"90th":1412939033,
            "95th":1833621254,"99th":4292365164,"max":5075331800,"min":18900},
            "requests":103,"success":0.97,"status_codes":{"0":2,"200":100,"503":1},"errors":[]}"#;
        let got = parse_text(parse, text).unwrap();
        assert_eq!((got.ok, got.failed), (100, 3));
        assert_eq!(got.response.p50_us, Some(60.648));
        assert_eq!(got.response.max_us, Some(5_075_331.8));
    }
}
