//! Phases: the profile they come to, where they begin and end, and intervals that fit them.

use crate::Choice;
use crate::defaults as d;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::words;
use model::Scenario;
use model::phase::{LoadPhase, PHASES_MAX};
use model::units::show_duration_ns;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Intervals that phases may be made of, nanoseconds: the longest that fits is taken.
const TICKS_NS: [u64; 5] = [1_000_000_000, 500_000_000, 250_000_000, 200_000_000, TENTH_NS];
/// Lengths of phases are multiples of the shortest of them.
const TENTH_NS: u64 = 100_000_000;

/// The scenario with its phases as a profile, and with intervals whose boundaries are those of the phases.
pub(crate) fn as_profile<'a>(
    scenario: &'a Scenario,
    choices: &mut Vec<Choice>,
) -> Result<Cow<'a, Scenario>, ResolveError> {
    if scenario.phases.is_empty() {
        return Ok(Cow::Borrowed(scenario));
    }
    let conflict = |with: Field| ResolveError::Conflict {
        what: Field::Phase.into(),
        with: words!["", with],
        instead: "each phase has its own rate, leave one of them out".into(),
    };
    if !scenario.profile.is_empty() {
        return Err(conflict(Field::Rate));
    }
    if scenario.burst.is_some() {
        return Err(conflict(Field::Burst));
    }
    if scenario.phases.len() > PHASES_MAX {
        return Err(ResolveError::TooMuch {
            what: "phases".into(),
            most: PHASES_MAX as u64,
            got: scenario.phases.len() as u64,
            instead: "join some of them".into(),
        });
    }
    let mut names = BTreeSet::new();
    for phase in &scenario.phases {
        let is_name = |c: char| c.is_alphanumeric() || " -_.".contains(c);
        if phase.name.trim() != phase.name || phase.name.is_empty() || !phase.name.chars().all(is_name) {
            return Err(ResolveError::bad_value(
                Field::Phase,
                "a name of letters, digits, spaces, - _ and .",
                &phase.name,
            ));
        }
        if !names.insert(&*phase.name) {
            return Err(ResolveError::bad_value(Field::Phase, "names of which no two are the same", &phase.name));
        }
        if phase.segment.for_ns == 0 {
            return Err(ResolveError::bad_value(Field::Phase, "a time longer than 0 for each", &phase.name));
        }
    }
    let warmup_ns = scenario.warmup_ns.unwrap_or(0);
    let lengths = || scenario.phases.iter().map(|phase| phase.segment.for_ns).chain([warmup_ns]);
    let fits = |tick_ns: u64| tick_ns > 0 && lengths().all(|ns| ns % tick_ns == 0);
    let tick_ns = match scenario.tick_ns {
        Some(tick_ns) if fits(tick_ns) => tick_ns,
        Some(tick_ns) => {
            let expected = "intervals that the length of each phase, and of warm-up, is a multiple of";
            return Err(ResolveError::bad_value(Field::Tick, expected, show_duration_ns(tick_ns as f64)));
        }
        None => {
            let odd = lengths().find(|ns| ns % TENTH_NS != 0).unwrap_or_default();
            let whole: u64 = lengths().fold(0, u64::saturating_add);
            let longest = if whole < d::SHORT_RUN_NS { d::TICK_SHORT_NS } else { d::TICK_NS };
            let found = TICKS_NS.into_iter().find(|tick_ns| *tick_ns <= longest && fits(*tick_ns));
            let expected = "lengths in whole tenths of a second, those of phases and of warm-up";
            found.ok_or_else(|| ResolveError::bad_value(Field::Phase, expected, show_duration_ns(odd as f64)))?
        }
    };
    if scenario.tick_ns.is_none() {
        choices.push(Choice::new("tick", show_duration_ns(tick_ns as f64), "phases begin and end with an interval"));
    }
    let profile = scenario.phases.iter().map(|phase| phase.segment).collect();
    Ok(Cow::Owned(Scenario { profile, tick_ns: Some(tick_ns), ..scenario.clone() }))
}

/// When each is; without what is expected of them.
pub(crate) fn phases(scenario: &Scenario, warmup_ns: u64) -> Vec<LoadPhase> {
    let mut start_ns = warmup_ns;
    let place = |asked: &model::phase::PhaseAsked| {
        let end_ns = start_ns.saturating_add(asked.segment.for_ns);
        let phase = LoadPhase { name: asked.name.clone(), start_ns, end_ns, expectations: Vec::new() };
        start_ns = end_ns;
        phase
    };
    scenario.phases.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::phase::PhaseAsked;
    use model::plan::Segment;

    fn scenario(lengths_ms: &[u64]) -> Scenario {
        let phase = |(at, ms): (usize, &u64)| PhaseAsked {
            name: format!("p{at}"),
            segment: Segment { from_per_s: 5.0, to_per_s: 5.0, for_ns: ms * 1_000_000 },
            expect: Vec::new(),
        };
        Scenario { phases: lengths_ms.iter().enumerate().map(phase).collect(), ..Scenario::default() }
    }

    #[track_caller]
    fn check(scenario: &Scenario, expected: &str) {
        let got = match as_profile(scenario, &mut Vec::new()) {
            Ok(made) => {
                let ends: Vec<u64> = phases(&made, 0).iter().map(|phase| phase.end_ns / 1_000_000).collect();
                format!("tick {:?} ms, ends {ends:?}", made.tick_ns.map(|ns| ns / 1_000_000))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn intervals_fit_the_phases() {
        check(&scenario(&[5000, 10_000]), "tick Some(1000) ms, ends [5000, 15000]");
        check(&scenario(&[5000, 2500]), "tick Some(500) ms, ends [5000, 7500]");
        check(&scenario(&[5000, 5600]), "tick Some(200) ms, ends [5000, 10600]");
        check(&scenario(&[1000, 1000]), "tick Some(250) ms, ends [1000, 2000]");
        check(
            &scenario(&[1050, 1000]),
            "phase: expected lengths in whole tenths of a second, those of phases and of warm-up, got '1.05 s'",
        );
        let mut odd = scenario(&[1000, 1000]);
        odd.tick_ns = Some(300_000_000);
        check(
            &odd,
            "tick: expected intervals that the length of each phase, and of warm-up, is a multiple of, got '300 ms'",
        );
    }

    #[test]
    fn names_are_names_and_each_is_one_phases() {
        let mut same = scenario(&[1000, 1000]);
        same.phases[1].name = "p0".to_owned();
        check(&same, "phase: expected names of which no two are the same, got 'p0'");
        same.phases[1].name = "a\"b".to_owned();
        check(&same, "phase: expected a name of letters, digits, spaces, - _ and ., got 'a\\\"b'");
        let mut both = scenario(&[1000]);
        both.profile = crate::pace::parse_rate("5").unwrap();
        check(&both, "phase cannot be used with rate: each phase has its own rate, leave one of them out");
    }
}
