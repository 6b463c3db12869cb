//! h2load, which gives no percentiles, only the extremes of its request times.

use anyhow::{Context as _, Result};

use super::{Captured, Quantiles, Reported, duration_us};

/// Reads the text of `h2load`.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let text = captured.stdout;
    let counts =
        text.lines().find_map(|line| line.strip_prefix("requests: ")).context("there is no line `requests:`")?;
    let count = |name: &str| -> Result<u64> {
        counts
            .split(", ")
            .find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
            .with_context(|| format!("its line `requests:` has no `{name}`"))
    };
    let max_us = text
        .lines()
        .find_map(|line| line.strip_prefix("time for request:"))
        .and_then(|values| duration_us(values.split_whitespace().nth(1)?));
    Ok(Reported {
        ok: count("succeeded")?,
        failed: count("failed")?,
        response: Quantiles { max_us, ..Quantiles::default() },
        ..Reported::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    #[test]
    fn runs_as_captured() {
        for (text, ok, failed, max_us) in [
            (include_str!("../../fixtures/h2load.txt"), 117_339, 0, 4000.0),
            (include_str!("../../fixtures/h2load-rps.txt"), 5041, 0, 907.0),
            (include_str!("../../fixtures/h2load-errors.txt"), 12, 4, 601.0),
        ] {
            let got = parse_text(parse, text).unwrap();
            assert_eq!((got.ok, got.failed), (ok, failed));
            assert_eq!(got.response.max_us, Some(max_us));
        }
    }
}
