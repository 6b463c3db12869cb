//! A lost agent's share, dealt to those that are left (`--on-lost redistribute`).
//!
//! The others put on more of the plan's own rate from a common moment on, each by the same factor, as far as its owner allows: so what
//! is asked of the target is the whole again from there. It is a load's rate that can be dealt so, and nothing else: connections of the
//! lost one are not opened anew, and a count of requests or rows that are used once were its own ([`unfit`]). What was not put on from
//! the moment that nothing is known of it until then is said, with its share of the load.
//! So that nothing is put on twice, an agent whose share may be dealt ends its load by itself once it has been cut off for a while.

use crate::limits::REDEAL_AFTER;
use crate::message::{Redeal, ShareOf};
use model::plan::{Pace, Plan, Workload};
use model::units::show_duration_ns;
use std::collections::BTreeMap;

/// Why a plan's shares cannot be dealt anew, in a sentence.
pub(super) fn unfit(plan: &Plan) -> Option<&'static str> {
    let has_unique_rows = match &plan.workload {
        Workload::Http1(http) => http.data.iter().any(|file| file.order == model::data::Order::Unique),
        _ => false,
    };
    match (&plan.pace, &plan.stop) {
        (Pace::Open { .. }, stop) if stop.requests.is_none() && stop.duration_ns.is_some() && !has_unique_rows => None,
        (Pace::Open { .. }, _) if has_unique_rows => Some(
            "--on-lost redistribute cannot be used with rows that are used once, as nobody knows which of them a lost agent has used: use continue or stop",
        ),
        (Pace::Open { .. }, _) => Some(
            "--on-lost redistribute cannot be used with a count of requests (-n), as nobody knows how many of them a lost agent has sent: give -d, or use continue or stop",
        ),
        _ => Some(
            "--on-lost redistribute is for loads that have a rate (--rate, --ramp or --steps): connections of a lost agent are not opened anew yet: use continue or stop",
        ),
    }
}

/// An agent that is left: its share, and how many times that its owner allows.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) share: ShareOf,
    pub(super) factor_max: Option<f64>,
}

/// Deals the shares of `lost` to those that are left, from a moment on that every one of them can have heard of; `until_ns`: the load had come so far
/// where it was heard of last. `None`: nobody is left.
pub(super) fn redealt(lost: Vec<String>, left: &[Left], workers: u16, until_ns: u64, tick_ns: u64) -> Option<Redeal> {
    let all = f64::from(workers.max(1));
    let own = |one: &Left| f64::from(one.share.workers) / all;
    // Those that may take only so much take that; the others the rest of it, each by the same factor.
    let mut capped: BTreeMap<&str, f64> = BTreeMap::new();
    let factor = loop {
        let taken: f64 = left.iter().filter_map(|one| Some(own(one) * capped.get(&*one.share.agent)?)).sum();
        let free: f64 = left.iter().filter(|one| !capped.contains_key(&*one.share.agent)).map(own).sum();
        if free <= 0.0 {
            break 1.0;
        }
        let factor = ((1.0 - taken) / free).max(1.0);
        let over = left.iter().find_map(|one| {
            let most = one.factor_max.filter(|most| *most < factor && !capped.contains_key(&*one.share.agent))?;
            Some((&*one.share.agent, most.max(1.0)))
        });
        match over {
            Some((name, most)) => drop(capped.insert(name, most)),
            None => break factor,
        }
    };
    let of = |one: &Left| capped.get(&*one.share.agent).copied().unwrap_or(factor);
    let put_on: f64 = left.iter().map(|one| own(one) * of(one)).sum();
    let tick_ns = tick_ns.max(1);
    let soonest_ns = until_ns.saturating_add(2 * tick_ns).saturating_add(REDEAL_AFTER.as_nanos() as u64);
    let factors: BTreeMap<String, f64> = left.iter().map(|one| (one.share.agent.clone(), of(one))).collect();
    (!factors.is_empty()).then(|| Redeal {
        lost,
        from_ns: soonest_ns.div_ceil(tick_ns).saturating_mul(tick_ns),
        factors,
        left: (1.0 - put_on).clamp(0.0, 1.0),
    })
}

/// What a second deal is, in a sentence.
pub(super) fn said(redeal: &Redeal) -> String {
    let each: Vec<String> =
        redeal.factors.iter().map(|(name, factor)| format!("'{name}' {:.0} %", 100.0 * factor)).collect();
    let lost: Vec<String> = redeal.lost.iter().map(|name| format!("'{name}'")).collect();
    let nobody = match redeal.left {
        left if left > 0.0005 => {
            format!("; {:.1} % of the load nobody puts on, as their owners do not allow it", 100.0 * left)
        }
        _ => String::new(),
    };
    format!(
        "what {} was to put on is dealt anew from {} on, over the connections that the others have: {} of what each had{nobody}",
        lost.join(", "),
        show_duration_ns(redeal.from_ns as f64),
        each.join(", ")
    )
}

/// How much of its own share of the load an agent that was lost owes, 0..=1, where `until_ns` is known of it: until the others took it
/// on, and what nobody did. `None`: its share was not dealt anew.
pub(super) fn owed(redeals: &[Redeal], name: &str, own: f64, until_ns: u64, planned_ns: u64) -> Option<f64> {
    let first = redeals.iter().position(|redeal| redeal.lost.iter().any(|lost| lost == name))?;
    let planned = planned_ns.max(1) as f64;
    // By then it may have had a part of another's share.
    let before = first.checked_sub(1).and_then(|before| redeals.get(before)?.factors.get(name).copied());
    let gap = before.unwrap_or(1.0) * redeals[first].from_ns.min(planned_ns).saturating_sub(until_ns) as f64 / planned;
    // What nobody puts on is shared by those that are lost at the time.
    let of_nobody = redeals.iter().enumerate().filter(|(_, redeal)| redeal.lost.iter().any(|lost| lost == name));
    let nobody: f64 = of_nobody
        .map(|(at, redeal)| {
            let to_ns = redeals.get(at + 1).map_or(planned_ns, |next| next.from_ns).min(planned_ns);
            let span = to_ns.saturating_sub(redeal.from_ns.max(until_ns)) as f64 / planned;
            redeal.left * span / redeal.lost.len().max(1) as f64
        })
        .sum();
    Some((own * gap + nobody).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn left(all: &[(&str, u16, Option<f64>)]) -> Vec<Left> {
        let mut first = 0;
        let one = |(name, workers, factor_max): &(&str, u16, Option<f64>)| {
            let share = ShareOf { agent: (*name).to_owned(), first, workers: *workers };
            first += workers;
            Left { share, factor_max: *factor_max }
        };
        all.iter().map(one).collect()
    }

    fn factors(all: &[(&str, u16, Option<f64>)], workers: u16) -> (Vec<f64>, f64) {
        let redeal = redealt(vec!["x".to_owned()], &left(all), workers, 0, S).unwrap();
        assert!(redeal.is_sound(), "{redeal:?}");
        (
            redeal.factors.values().map(|factor| (factor * 1e6).round() / 1e6).collect(),
            (redeal.left * 1e6).round() / 1e6,
        )
    }

    #[test]
    fn those_that_are_left_put_on_the_whole_as_far_as_they_may() {
        assert_eq!(factors(&[("a", 1, None), ("b", 1, None)], 3), (vec![1.5, 1.5], 0.0));
        assert_eq!(factors(&[("a", 1, None), ("b", 3, None)], 5), (vec![1.25, 1.25], 0.0));
        // One may only a little more: the other takes the rest.
        assert_eq!(factors(&[("a", 1, Some(1.2)), ("b", 1, None)], 3), (vec![1.2, 1.8], 0.0));
        // Neither may take all of it.
        assert_eq!(factors(&[("a", 1, Some(1.2)), ("b", 1, Some(1.0))], 3), (vec![1.2, 1.0], 0.266667));
        // An owner that allows less than it was dealt is none: it was refused before.
        assert_eq!(factors(&[("a", 1, Some(0.1))], 2), (vec![1.0], 0.5));
        assert_eq!(redealt(vec!["x".to_owned()], &[], 3, 0, S), None);
    }

    #[test]
    fn it_begins_with_a_tick_that_all_can_have_heard_of() {
        let one = left(&[("a", 1, None)]);
        let from = |until_ns, tick_ns| redealt(Vec::new(), &one, 2, until_ns, tick_ns).unwrap().from_ns;
        let after_ns = REDEAL_AFTER.as_nanos() as u64;
        assert_eq!(from(3 * S, S), (5 * S + after_ns).div_ceil(S) * S);
        assert!(from(3 * S, S / 5).is_multiple_of(S / 5));
    }

    #[test]
    fn what_a_lost_one_owes_ends_where_the_others_took_it_on() {
        let redeal = |lost: &[&str], from_s: u64, left| Redeal {
            lost: lost.iter().map(|name| (*name).to_owned()).collect(),
            from_ns: from_s * S,
            factors: BTreeMap::new(),
            left,
        };
        let third = 1.0 / 3.0;
        let one = [redeal(&["b"], 5, 0.0)];
        assert!((owed(&one, "b", third, 2 * S, 10 * S).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(owed(&one, "a", third, 2 * S, 10 * S), None);
        // It had done all, or was lost too late for it to begin.
        assert_eq!(owed(&one, "b", third, 6 * S, 10 * S), Some(0.0));
        assert!((owed(&one, "b", third, 2 * S, 4 * S).unwrap() - third / 2.0).abs() < 1e-9);
        // A tenth of the whole nobody put on for 5 of 10 s; then the second was lost, and of a half nobody did.
        let mut two = [redeal(&["b"], 5, 0.1), redeal(&["b", "c"], 8, 0.5)];
        assert!((owed(&two, "b", third, 5 * S, 10 * S).unwrap() - (0.1 * 0.3 + 0.25 * 0.2)).abs() < 1e-9);
        // The second had a part of the first one's by then.
        two[0].factors.insert("c".to_owned(), 1.35);
        assert!((owed(&two, "c", third, 6 * S, 10 * S).unwrap() - (0.45 * 0.2 + 0.25 * 0.2)).abs() < 1e-9);
    }
}
