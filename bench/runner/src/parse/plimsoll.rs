//! plimsoll's report document (`--json`, schema `plimsoll.report/1`), read by its fixed names and
//! not by its types: the runner measures a binary, and must not be built from what it measures.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{Captured, Quantiles, Reported, count, json, number};

/// Reads the document.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let document = json(captured.stdout)?;
    let schema = document.pointer("/schema").and_then(Value::as_str);
    ensure!(schema == Some("plimsoll.report/1"), "its schema is {schema:?}, not plimsoll.report/1");
    let latency = |kind: &str, quantile: &str| number(&document, &format!("/latency/{kind}/{quantile}_us"), 1.0);
    let reasons = document.pointer("/validity/reasons").and_then(Value::as_array).map(|reasons| {
        let ids = reasons.iter().filter_map(|reason| reason.get("id"));
        ids.filter_map(Value::as_str).map(str::to_owned).collect()
    });
    Ok(Reported {
        ok: count(&document, "/totals/ok")?,
        failed: count(&document, "/totals/failed")?,
        response: Quantiles {
            p50_us: latency("response", "p50"),
            p90_us: latency("response", "p90"),
            p95_us: latency("response", "p95"),
            p99_us: latency("response", "p99"),
            max_us: latency("response", "max"),
        },
        without_windows_p99_us: number(&document, "/without_windows/response_p99_us", 1.0),
        lag_p99_us: latency("lag", "p99"),
        queue_p99_us: latency("queue", "p99"),
        service_p99_us: latency("service", "p99"),
        peak_rss_bytes: count(&document, "/generator/peak_rss_bytes").ok(),
        driver: document.pointer("/generator/driver").and_then(Value::as_str).map(str::to_owned),
        valid: document.pointer("/validity/valid").and_then(Value::as_bool),
        reasons: reasons.unwrap_or_default(),
    })
}

/// Reads the document of a run that held connections: those established are what was done.
pub fn parse_held(captured: Captured<'_>) -> Result<Reported> {
    let document = json(captured.stdout)?;
    Ok(Reported {
        ok: count(&document, "/held/established_max")?,
        failed: count(&document, "/held/connects_failed")?,
        ..parse(captured)?
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    const DOCUMENT: &str = r#"{
        "schema": "plimsoll.report/1",
        "validity": {"valid": false, "reasons": [{"id": "generator-lag", "text": "…"}]},
        "totals": {"started": 12, "requests": 11, "ok": 10, "failed": 1, "in_flight_at_end": 1},
        "latency": {
            "response": {"count": 11, "p50_us": 200.5, "p90_us": 1.0, "p95_us": 2.0, "p99_us": null, "max_us": 4.0},
            "lag": {"p99_us": 30.25}, "queue": {"p99_us": 5.0}
        },
        "without_windows": {"share": 0.9, "response_p99_us": 150.5},
        "generator": {"peak_rss_bytes": 9000000, "driver": "uring"}
    }"#;

    #[test]
    fn the_fixed_names_are_read() {
        let got = parse_text(parse, DOCUMENT).unwrap();
        assert_eq!((got.ok, got.failed), (10, 1));
        assert_eq!(got.response.p50_us, Some(200.5));
        assert_eq!(got.response.p99_us, None);
        assert_eq!(got.without_windows_p99_us, Some(150.5));
        assert_eq!(got.lag_p99_us, Some(30.25));
        assert_eq!(got.queue_p99_us, Some(5.0));
        assert_eq!(got.service_p99_us, None);
        assert_eq!(got.valid, Some(false));
        assert_eq!(got.reasons, ["generator-lag"]);
        assert!(parse_text(parse_held, DOCUMENT).is_err(), "it held nothing");
        let held = DOCUMENT.replacen('{', r#"{"held": {"established_max": 500, "connects_failed": 3},"#, 1);
        let got = parse_text(parse_held, &held).unwrap();
        assert_eq!((got.ok, got.failed, got.peak_rss_bytes), (500, 3, Some(9_000_000)));
        assert_eq!(got.driver.as_deref(), Some("uring"));
    }

    #[test]
    fn another_schema_is_refused() {
        let text = DOCUMENT.replace("plimsoll.report/1", "plimsoll.report/9");
        assert!(parse_text(parse, &text).is_err());
    }
}
