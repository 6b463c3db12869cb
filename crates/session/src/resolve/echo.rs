//! What an echo request is made of.
//!
//! Sizes only: the bytes are drawn by the run from the plan's seed.

use super::defaults::ECHO_BYTES;
use super::error::ResolveError;
use model::Scenario;
use model::limits::ECHO_BYTES_MAX;
use model::plan::{Content, Echo, Sizes};

/// Builds the workload.
pub(super) fn build(scenario: &Scenario) -> Result<Echo, ResolveError> {
    let sizes = scenario.sizes.clone().unwrap_or(Sizes::Fixed(ECHO_BYTES));
    let good = |size: &u32| (1..=ECHO_BYTES_MAX).contains(size);
    let is_good = match &sizes {
        Sizes::Fixed(size) => good(size),
        Sizes::Range(low, high) => good(low) && good(high) && low <= high,
        Sizes::List(sizes) => !sizes.is_empty() && sizes.iter().all(good),
    };
    if !is_good {
        let got = match &sizes {
            Sizes::Fixed(size) => size.to_string(),
            Sizes::Range(low, high) => format!("{low}..{high}"),
            Sizes::List(sizes) => sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        return Err(ResolveError::bad_value("--size", "sizes from 1B to 64MiB, a range upwards", got));
    }
    Ok(Echo { sizes, content: scenario.content.unwrap_or(Content::Text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded() {
        let of = |sizes| build(&Scenario { sizes, ..Scenario::default() });
        assert_eq!(of(None).unwrap(), Echo { sizes: Sizes::Fixed(128), content: Content::Text });
        assert!(of(Some(Sizes::Range(1, ECHO_BYTES_MAX))).is_ok());
        for (bad, got) in [
            (Sizes::Fixed(0), "0"),
            (Sizes::Fixed(ECHO_BYTES_MAX + 1), "67108865"),
            (Sizes::Range(3, 2), "3..2"),
            (Sizes::Range(0, 2), "0..2"),
            (Sizes::List(vec![]), ""),
            (Sizes::List(vec![1, 0]), "1,0"),
        ] {
            let error = of(Some(bad)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("--size: expected sizes from 1B to 64MiB, a range upwards, got '{got}'")
            );
        }
    }
}
