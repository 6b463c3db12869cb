//! ab, which counts a reply of another length than the first one as failed and yet as complete,
//! and gives its percentiles in whole milliseconds.

use anyhow::{Context as _, Result};

use super::{Captured, Quantiles, Reported};

/// Reads the text of `ab`.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let text = captured.stdout;
    let field = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)).and_then(|value| value.trim().parse().ok())
    };
    let complete = field("Complete requests:").context("there is no line `Complete requests:`")?;
    let failed = field("Failed requests:").context("there is no line `Failed requests:`")?
        + field("Non-2xx responses:").unwrap_or(0);
    let mut response = Quantiles::default();
    for line in text.lines() {
        if let Some((percent, rest)) = line.trim().split_once('%')
            && let Ok(percent) = percent.parse()
            && let Some(value_ms) = rest.split_whitespace().next()
            && let Ok(value_ms) = value_ms.parse::<f64>()
        {
            response.set(percent, value_ms * 1e3);
        }
    }
    Ok(Reported { ok: complete.saturating_sub(failed), failed, response, ..Reported::default() })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    const RUN: &str = include_str!("../../fixtures/ab.txt");

    #[test]
    fn a_run_without_errors() {
        let got = parse_text(parse, RUN).unwrap();
        assert_eq!((got.ok, got.failed), (165_210, 0));
        assert_eq!(got.response.p99_us, Some(1000.0));
        assert_eq!(got.response.max_us, Some(3000.0));
    }

    #[test]
    fn refusals_are_no_successes() {
        let text =
            RUN.replace("Failed requests:        0\n", "Failed requests:        10\nNon-2xx responses:      200\n");
        let got = parse_text(parse, &text).unwrap();
        assert_eq!((got.ok, got.failed), (165_000, 210));
    }
}
