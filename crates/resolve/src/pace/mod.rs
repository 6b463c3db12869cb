//! When requests are due and when the load ends: the texts people write for it, and what follows from them.
//!
//! An open profile starts when warm-up ends: during warm-up its first rate holds. After its last segment the end
//! rate holds, so a profile never ends a run by itself; it only gives the default duration.

pub(crate) mod faults;
pub(crate) mod phases;

use crate::defaults::DURATION_NS;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::words;
use model::Scenario;
use model::plan::{Arrivals, Pace, Segment, Sizes, Stop, Think};
use model::units::{UnitError, duration_ns, rate_per_s, size_bytes};

/// A rate that holds to the end, such as `5k/s`: one segment of length 0, which means just that.
///
/// ```
/// assert_eq!(resolve::pace::parse_rate("5k/s").unwrap()[0].to_per_s, 5000.0);
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no rate.
pub fn parse_rate(text: &str) -> Result<Vec<Segment>, UnitError> {
    let rate = rate_per_s(text)?;
    Ok(vec![Segment { from_per_s: rate, to_per_s: rate, for_ns: 0 }])
}

/// A ramp, such as `100/s..5k/s:30s`.
///
/// ```
/// assert_eq!(resolve::pace::parse_ramp("100/s..5k/s:30s").unwrap()[0].for_ns, 30_000_000_000);
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no ramp.
pub fn parse_ramp(text: &str) -> Result<Vec<Segment>, UnitError> {
    let error = || UnitError { got: text.to_owned(), expected: "FROM..TO:TIME such as 100/s..5k/s:30s" };
    let (rates, length) = text.rsplit_once(':').ok_or_else(error)?;
    let (from, to) = rates.split_once("..").ok_or_else(error)?;
    let segment = Segment {
        from_per_s: rate_per_s(from).map_err(|_| error())?,
        to_per_s: rate_per_s(to).map_err(|_| error())?,
        for_ns: positive_ns(length).ok_or_else(error)?,
    };
    Ok(vec![segment])
}

/// Steps, such as `1k/s,2k/s,4k/s:10s`: each lasts as long as the next time written after it.
///
/// ```
/// let steps = resolve::pace::parse_steps("1k/s:5s,2k/s,4k/s:10s").unwrap();
/// assert_eq!(steps.iter().map(|s| s.for_ns / 1_000_000_000).collect::<Vec<_>>(), [5, 10, 10]);
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no list of steps.
pub fn parse_steps(text: &str) -> Result<Vec<Segment>, UnitError> {
    let error = || UnitError { got: text.to_owned(), expected: "RATE,RATE,...:TIME such as 1k/s,2k/s,4k/s:10s" };
    let mut for_ns = None;
    let mut steps = Vec::new();
    for piece in text.rsplit(',') {
        let rate = match piece.rsplit_once(':') {
            None => piece,
            Some((rate, length)) => {
                for_ns = Some(positive_ns(length).ok_or_else(error)?);
                rate
            }
        };
        let rate = rate_per_s(rate).map_err(|_| error())?;
        steps.push(Segment { from_per_s: rate, to_per_s: rate, for_ns: for_ns.ok_or_else(error)? });
    }
    steps.reverse();
    Ok(steps)
}

/// Think time: `10ms`, `5ms..20ms` (uniform) or `exp:10ms` (exponential with this mean).
///
/// ```
/// use model::plan::Think;
/// assert_eq!(resolve::pace::parse_think("5ms..20ms"), Ok(Think::UniformNs(5_000_000, 20_000_000)));
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no think time.
pub fn parse_think(text: &str) -> Result<Think, UnitError> {
    let error = || UnitError { got: text.to_owned(), expected: "a think time such as 10ms, 5ms..20ms or exp:10ms" };
    let ns = |text| duration_ns(text).map_err(|_| error());
    if let Some(mean) = text.strip_prefix("exp:") {
        return Ok(Think::ExponentialNs(ns(mean)?));
    }
    match text.split_once("..") {
        None => Ok(match ns(text)? {
            0 => Think::None,
            fixed => Think::FixedNs(fixed),
        }),
        Some((low, high)) => match (ns(low)?, ns(high)?) {
            (low, high) if low <= high => Ok(Think::UniformNs(low, high)),
            _ => Err(error()),
        },
    }
}

/// Echo payload sizes: `128`, `16..32` (uniform, both included) or `1,2,4KiB` (in turn).
///
/// ```
/// use model::plan::Sizes;
/// assert_eq!(resolve::pace::parse_sizes("1,4KiB"), Ok(Sizes::List(vec![1, 4096])));
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no size, or one beyond 32 bits.
pub fn parse_sizes(text: &str) -> Result<Sizes, UnitError> {
    let error = || UnitError { got: text.to_owned(), expected: "sizes such as 128, 16..32 or 1,2,4KiB" };
    let size = |text: &str| size_bytes(text).ok().and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(error);
    match text.split_once("..") {
        Some((low, high)) => Ok(Sizes::Range(size(low)?, size(high)?)),
        None if text.contains(',') => Ok(Sizes::List(text.split(',').map(size).collect::<Result<_, _>>()?)),
        None => Ok(Sizes::Fixed(size(text)?)),
    }
}

/// When the load ends: `-n` and `-d`, whichever comes first; neither: as long as the profile, or 10 s.
pub(super) fn stop(scenario: &Scenario) -> Result<Stop, ResolveError> {
    if scenario.requests == Some(0) {
        return Err(ResolveError::bad_value(Field::Requests, "at least 1 request", 0));
    }
    if scenario.duration_ns == Some(0) {
        return Err(ResolveError::bad_value(Field::Duration, "a duration longer than 0", 0));
    }
    let duration_ns = match (scenario.duration_ns, scenario.requests) {
        (Some(duration), _) => Some(duration),
        (None, Some(_)) => None,
        (None, None) => Some(Some(profile_ns(&scenario.profile)).filter(|ns| *ns > 0).unwrap_or(DURATION_NS)),
    };
    Ok(Stop { duration_ns, requests: scenario.requests })
}

/// The written length of a profile, nanoseconds; 0 where it is one rate to the end.
pub(super) fn profile_ns(profile: &[Segment]) -> u64 {
    profile.iter().fold(0, |sum, segment| sum.saturating_add(segment.for_ns))
}

/// The highest rate of a profile, requests a second.
pub fn peak_per_s(profile: &[Segment]) -> f64 {
    profile.iter().flat_map(|s| [s.from_per_s, s.to_per_s]).fold(0.0, f64::max)
}

/// The pace: closed without a profile.
pub(super) fn pace(scenario: &Scenario, stop: &Stop, warmup_ns: u64) -> Result<Pace, ResolveError> {
    let Some(first) = scenario.profile.first() else {
        if scenario.arrivals == Some(Arrivals::Poisson) {
            return Err(ResolveError::Conflict {
                what: Field::Poisson.into(),
                with: "a closed pace".into(),
                instead: words!["add ", Field::Rate, ", ", Field::Ramp, " or ", Field::Steps],
            });
        }
        return Ok(Pace::Closed { think: scenario.think.unwrap_or(Think::None) });
    };
    if !matches!(scenario.think, None | Some(Think::None)) {
        return Err(ResolveError::Conflict {
            what: Field::Think.into(),
            with: "an open pace".into(),
            instead: words!["leave it out, or leave out ", Field::Rate, ", ", Field::Ramp, " or ", Field::Steps],
        });
    }
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    if let Some(bad) = scenario.profile.iter().find(|s| !is_rate(s.from_per_s) || !is_rate(s.to_per_s)) {
        let got = format!("{}/s..{}/s", bad.from_per_s, bad.to_per_s);
        return Err(ResolveError::bad_value(Field::Rate, "rates above 0", got));
    }
    let mut profile = scenario.profile.clone();
    let last = profile.len() - 1;
    for (at, segment) in profile.iter_mut().enumerate() {
        // Length 0 is "to the end": of no use before the last, and written out for the last.
        if segment.for_ns == 0 && at < last {
            return Err(ResolveError::bad_value(Field::Steps, "steps longer than 0", "0"));
        }
        if segment.for_ns == 0 {
            segment.for_ns = stop.duration_ns.unwrap_or(DURATION_NS);
        }
    }
    if warmup_ns > 0 {
        profile.insert(0, Segment { from_per_s: first.from_per_s, to_per_s: first.from_per_s, for_ns: warmup_ns });
    }
    Ok(Pace::Open { profile, arrivals: scenario.arrivals.unwrap_or(Arrivals::Constant) })
}

fn positive_ns(text: &str) -> Option<u64> {
    duration_ns(text).ok().filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn texts_that_are_nearly_right_are_refused_with_an_example() {
        for bad in ["", "5", "1..2", "1..2:", "1:2s", "..:1s", "0..5:1s", "1..5:0", "5k/s..100/s:x", "1..2..3:1s"] {
            let error = parse_ramp(bad).unwrap_err();
            assert_eq!(error.to_string(), format!("expected FROM..TO:TIME such as 100/s..5k/s:30s, got '{bad}'"));
        }
        for bad in ["", "1k/s", "1k/s,:1s", "1k/s:1s,2k/s", "1k/s,0:1s", "1k/s:0", ",1:1s"] {
            assert!(parse_steps(bad).is_err(), "{bad}");
        }
        for bad in ["", "x", "5ms..", "20ms..5ms", "exp:", "-1s", "exp:-1s"] {
            assert!(parse_think(bad).is_err(), "{bad}");
        }
        for bad in ["", "x", "1..", "1,,2", "5GiB", "-1", "1..2,3"] {
            assert!(parse_sizes(bad).is_err(), "{bad}");
        }
        assert!(parse_rate("0").is_err() && parse_rate("x").is_err());
    }

    #[test]
    fn texts_mean_what_they_say() {
        let down = parse_ramp("5k/s..6000/m:1m").unwrap();
        assert_eq!(down, [Segment { from_per_s: 5000.0, to_per_s: 100.0, for_ns: 60 * S }]);
        assert_eq!(parse_steps("1,2:1s").unwrap()[0], Segment { from_per_s: 1.0, to_per_s: 1.0, for_ns: S });
        assert_eq!(parse_think("0"), Ok(Think::None));
        assert_eq!(parse_think("10ms"), Ok(Think::FixedNs(10_000_000)));
        assert_eq!(parse_think("exp:10ms"), Ok(Think::ExponentialNs(10_000_000)));
        assert_eq!(parse_sizes("128"), Ok(Sizes::Fixed(128)));
        assert_eq!(parse_sizes("16..1KiB"), Ok(Sizes::Range(16, 1024)));
    }

    fn stop_of(change: impl FnOnce(&mut Scenario)) -> (Option<u64>, Option<u64>) {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        let stop = stop(&scenario).unwrap();
        (stop.duration_ns, stop.requests)
    }

    #[test]
    fn a_run_ends_by_time_count_or_profile() {
        assert_eq!(stop_of(|_| {}), (Some(10 * S), None));
        assert_eq!(stop_of(|s| s.requests = Some(7)), (None, Some(7)));
        assert_eq!(stop_of(|s| (s.requests, s.duration_ns) = (Some(7), Some(S))), (Some(S), Some(7)));
        assert_eq!(stop_of(|s| s.profile = parse_rate("5").unwrap()), (Some(10 * S), None));
        assert_eq!(stop_of(|s| s.profile = parse_steps("1,2,3:7s").unwrap()), (Some(21 * S), None));
        assert_eq!(stop_of(|s| (s.profile, s.requests) = (parse_ramp("1..2:7s").unwrap(), Some(1))), (None, Some(1)));
        let zero = Scenario { requests: Some(0), ..Scenario::default() };
        assert!(stop(&zero).unwrap_err().to_string().starts_with("requests: expected at least 1"));
        let zero = Scenario { duration_ns: Some(0), ..Scenario::default() };
        assert!(stop(&zero).unwrap_err().to_string().starts_with("duration: expected"));
    }

    #[track_caller]
    fn check(scenario: &Scenario, warmup_ns: u64, expected: &[(f64, f64, u64)]) {
        let stop = stop(scenario).unwrap();
        let Pace::Open { profile, .. } = pace(scenario, &stop, warmup_ns).unwrap() else {
            panic!("expected an open pace")
        };
        let got: Vec<_> = profile.iter().map(|s| (s.from_per_s, s.to_per_s, s.for_ns)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn warm_up_holds_the_first_rate_and_leaves_the_profile_whole() {
        let ramp = Scenario { profile: parse_ramp("10..20:5s").unwrap(), ..Scenario::default() };
        check(&ramp, 0, &[(10.0, 20.0, 5 * S)]);
        check(&ramp, 2 * S, &[(10.0, 10.0, 2 * S), (10.0, 20.0, 5 * S)]);
        let rate = Scenario { profile: parse_rate("10").unwrap(), duration_ns: Some(3 * S), ..Scenario::default() };
        check(&rate, S, &[(10.0, 10.0, S), (10.0, 10.0, 3 * S)]);
        let count = Scenario { profile: parse_rate("10").unwrap(), requests: Some(3), ..Scenario::default() };
        check(&count, 0, &[(10.0, 10.0, 10 * S)]);
    }

    #[test]
    fn what_belongs_to_the_other_pace_is_refused() {
        let stop = Stop { duration_ns: Some(S), requests: None };
        let poisson = Scenario { arrivals: Some(Arrivals::Poisson), ..Scenario::default() };
        assert!(pace(&poisson, &stop, 0).unwrap_err().to_string().contains("add rate"));
        let rate = parse_rate("10").unwrap();
        let think = Scenario { think: Some(Think::FixedNs(1)), profile: rate.clone(), ..Scenario::default() };
        assert!(pace(&think, &stop, 0).unwrap_err().is_usage());
        for rate_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let profile = vec![Segment { from_per_s: rate_per_s, ..rate[0] }];
            let scenario = Scenario { profile, ..Scenario::default() };
            assert!(pace(&scenario, &stop, 0).unwrap_err().is_usage(), "{rate_per_s}");
        }
    }
}
