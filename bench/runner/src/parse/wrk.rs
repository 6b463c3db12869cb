//! wrk and wrk2, which print alike; wrk2 adds decimals to its percentages and a detailed spectrum.
//! wrk counts every complete reply; those that are not 2xx or 3xx are told apart at its end.

use anyhow::{Context as _, Result};

use super::{Captured, Quantiles, Reported, duration_us};

/// Reads the text of `wrk --latency` or `wrk2 --latency`.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let text = captured.stdout;
    let replies: u64 = text
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "))
        .and_then(|(count, _)| count.parse().ok())
        .context("there is no line `N requests in`")?;
    let refused: u64 = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0);
    let broken: u64 = text.lines().find_map(|line| line.trim().strip_prefix("Socket errors:")).map_or(0, |kinds| {
        kinds.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok()).sum()
    });
    Ok(Reported {
        ok: replies.saturating_sub(refused),
        failed: refused + broken,
        response: quantiles(text),
        ..Reported::default()
    })
}

fn quantiles(text: &str) -> Quantiles {
    let mut quantiles = Quantiles::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [percent, duration] if percent.ends_with('%') => {
                let percent = percent.trim_end_matches('%').parse();
                if let (Ok(percent), Some(value_us)) = (percent, duration_us(duration)) {
                    quantiles.set(percent, value_us);
                }
            }
            // The spectrum: value in ms, quantile, count, 1/(1 − quantile).
            [value_ms, quantile, _, _] => {
                if let (Ok(value_ms), Ok(quantile)) = (value_ms.parse::<f64>(), quantile.parse::<f64>())
                    && (0.95..1.0).contains(&quantile)
                {
                    quantiles.set(95.0, value_ms * 1e3);
                }
            }
            // The line of the thread: mean, deviation, maximum, share.
            ["Latency", _, _, max, _] => {
                if let Some(max_us) = duration_us(max) {
                    quantiles.set(100.0, max_us);
                }
            }
            _ => {}
        }
    }
    quantiles
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    #[test]
    fn a_run_without_errors() {
        let got = parse_text(parse, include_str!("../../fixtures/wrk.txt")).unwrap();
        assert_eq!((got.ok, got.failed), (132_628, 0));
        let expected = Quantiles {
            p50_us: Some(236.0),
            p90_us: Some(294.0),
            p95_us: None,
            p99_us: Some(1190.0),
            max_us: Some(3130.0),
        };
        assert_eq!(got.response, expected);
    }

    #[test]
    fn errors_are_no_successes() {
        let got = parse_text(parse, include_str!("../../fixtures/wrk-errors.txt")).unwrap();
        assert_eq!((got.ok, got.failed), (15_234 - 3808, 3808 + 3807));
    }

    #[test]
    fn the_spectrum_of_wrk2_has_a_p95() {
        let text = "\
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   100.53ms  240.00ms   1.00s    88.00%
    Req/Sec        nan       nan   0.00      0.00%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    1.03ms
 75.000%    1.59ms
 90.000%   62.21ms
 99.000%  908.29ms
100.000%    1.00s

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.081     0.000000            1         1.00
     500.223     0.943750        47190        17.78
     533.503     0.950000        47501        20.00
    1000.447     1.000000        50000          inf
#[Mean    =      100.530, StdDeviation   =      240.000]
  49984 requests in 10.00s, 40.00MB read
";
        let got = parse_text(parse, text).unwrap();
        assert_eq!(got.ok, 49_984);
        assert_eq!(got.response.p50_us, Some(1030.0));
        assert_eq!(got.response.p90_us, Some(62_210.0));
        assert_eq!(got.response.p95_us, Some(533_503.0));
        assert_eq!(got.response.p99_us, Some(908_290.0));
        assert_eq!(got.response.max_us, Some(1e6));
    }
}
