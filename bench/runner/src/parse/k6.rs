//! k6's `--summary-export`: metrics by name, times in milliseconds. `http_req_failed` is a rate
//! whose `passes` are the requests that failed.

use anyhow::{Context as _, Result};

use super::{Captured, Quantiles, Reported, count, json, number};

/// The file k6 is told to write.
pub const SUMMARY: &str = "k6-summary.json";

/// Reads the file.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let path = captured.folder.join(SUMMARY);
    let text = std::fs::read_to_string(&path).with_context(|| format!("it left no {}", path.display()))?;
    summary(&text)
}

fn summary(text: &str) -> Result<Reported> {
    let document = json(text)?;
    let all = count(&document, "/metrics/http_reqs/count")?;
    let failed = count(&document, "/metrics/http_req_failed/passes").unwrap_or(0);
    let duration = |name: &str| number(&document, &format!("/metrics/http_req_duration/{name}"), 1e3);
    Ok(Reported {
        ok: all.saturating_sub(failed),
        failed,
        response: Quantiles {
            p50_us: duration("med"),
            p90_us: duration("p(90)"),
            p95_us: duration("p(95)"),
            p99_us: duration("p(99)"),
            max_us: duration("max"),
        },
        ..Reported::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_its_form() {
        let text = r#"{"metrics":{
            "http_reqs":{"count":1000,"rate":333.2},
            "http_req_failed":{"passes":7,"fails":993,"value":0.007},
            "http_req_duration":{"avg":1.0,"med":0.5,"p(90)":2.0,"p(95)":3.0,"max":9.25}}}"#;
        let got = summary(text).unwrap();
        assert_eq!((got.ok, got.failed), (993, 7));
        assert_eq!(got.response.p50_us, Some(500.0));
        assert_eq!(got.response.p99_us, None);
        assert_eq!(got.response.max_us, Some(9250.0));
        assert!(summary("{}").is_err());
    }
}
