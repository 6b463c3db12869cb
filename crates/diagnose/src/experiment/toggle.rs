//! A remedy toggled: with it and without it in turn, and whether what the finding claims goes away with it.
//!
//! Pairs of short runs, the order alternating, so that a drift of the machine falls on both. Of times and rates the ratio of
//! each pair is taken (its logarithm: a half and a double weigh the same), of losses the difference; Student's 95 % interval
//! over the pairs decides: all of it better by the bound, confirmed; none of it, not confirmed; else undetermined, as with
//! fewer than three pairs. Requests are never pooled: they are not independent.

use super::Estimate;
use model::finding::LossKind;
use model::recording::End;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document's name and version.
pub const CONFIRMATION_SCHEMA: &str = "plimsoll.confirmation/1";
/// Pairs at the least.
pub const PAIRS_MIN: usize = 3;
/// A ratio nearer to one than this is no remedy that anybody would feel.
const RATIO: f64 = 0.05;
/// Of the requests that are lost without it, so many must not be lost with it: how many that are of all depends on how many
/// others go on well, such as those of connections that have a place.
const GONE: f64 = 0.5;
/// A remedy that costs so many more of the requests is none.
const LOST_MORE: f64 = 0.05;

/// What a finding claims, as a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Requests without the reply that was due, and those that never ended, as a share.
    LostShare,
    /// The mean response time of successes, microseconds.
    ResponseMeanUs,
    /// Good replies a second.
    ThroughputPerS,
}

impl Claim {
    /// What a loss of this kind is seen by.
    pub fn of(loss: Option<LossKind>) -> Self {
        match loss {
            Some(LossKind::Failed | LossKind::Starved) => Claim::LostShare,
            Some(LossKind::Capacity) => Claim::ThroughputPerS,
            Some(LossKind::Slow | LossKind::Waiting) | None => Claim::ResponseMeanUs,
        }
    }

    /// The word in the document and in text.
    pub const fn name(self) -> &'static str {
        match self {
            Claim::LostShare => "lost requests",
            Claim::ResponseMeanUs => "mean response time",
            Claim::ThroughputPerS => "good replies a second",
        }
    }
}

/// One short run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// What is claimed; null where it could not be measured.
    pub value: Option<f64>,
    /// Share of the requests that was lost.
    pub lost_share: f64,
    /// Whether the generator's own figures are not valid.
    pub is_disturbed: bool,
}

/// A run with the remedy and one without.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Whether the one with the remedy was first.
    pub with_first: bool,
    /// Without it.
    pub without: Arm,
    /// With it.
    pub with: Arm,
}

/// Whether a finding's remedy does what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confirmed {
    /// With the remedy it is gone, or less.
    Confirmed,
    /// It is as it was.
    NotConfirmed,
    /// The pairs differ too much to say.
    Undetermined,
}

/// The answer: the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    /// Always `plimsoll.confirmation/1`.
    pub schema: String,
    /// The tool's version.
    pub version: String,
    /// The finding, by id.
    pub finding: String,
    /// What was toggled, in words.
    pub toggle: String,
    /// What is measured.
    pub claim: Claim,
    /// How it ended.
    pub end: End,
    /// The answer.
    pub state: Confirmed,
    /// One sentence for people.
    pub text: String,
    /// What is claimed without the remedy.
    pub without: Option<Estimate>,
    /// With it.
    pub with: Option<Estimate>,
    /// With it over without it; of lost requests with it less without it.
    pub change: Option<Estimate>,
    /// The pairs, in order.
    pub pairs: Vec<Pair>,
}

impl Confirmation {
    /// Judges the pairs.
    pub fn of(version: &str, finding: &str, toggle: &str, claim: Claim, end: End, pairs: Vec<Pair>) -> Self {
        let measured: Vec<(f64, f64)> =
            pairs.iter().filter_map(|pair| Some((pair.without.value?, pair.with.value?))).collect();
        let column = |of: fn(&(f64, f64)) -> f64| Estimate::of(&measured.iter().map(of).collect::<Vec<f64>>());
        let (without, with) = (column(|pair| pair.0), column(|pair| pair.1));
        let change = change(claim, &measured);
        let lost = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64;
        let more_lost = lost(|pair| pair.with.lost_share) - lost(|pair| pair.without.lost_share);
        let (state, why) = judge(claim, change, without, (measured.len(), pairs.len()), more_lost);
        let figures = match (without, with) {
            (Some(without), Some(with)) => {
                format!("{} {} without, {} with", claim.name(), shown(claim, without.value), shown(claim, with.value))
            }
            _ => format!("{} was not measured", claim.name()),
        };
        let by = change.map_or(String::new(), |change| format!(", {}", shown_change(claim, change)));
        let word = match state {
            Confirmed::Confirmed => "confirmed",
            Confirmed::NotConfirmed => "not confirmed",
            Confirmed::Undetermined => "undetermined",
        };
        let text = format!("{word}: {toggle}: {figures}{by}, in {} pairs{why}", measured.len());
        Confirmation {
            schema: CONFIRMATION_SCHEMA.to_owned(),
            version: version.to_owned(),
            finding: finding.to_owned(),
            toggle: toggle.to_owned(),
            claim,
            end,
            state,
            text,
            without,
            with,
            change,
            pairs,
        }
    }
}

/// The change over the pairs, as a ratio or a difference.
fn change(claim: Claim, pairs: &[(f64, f64)]) -> Option<Estimate> {
    if claim == Claim::LostShare {
        return Estimate::of(&pairs.iter().map(|(without, with)| with - without).collect::<Vec<f64>>());
    }
    let logs: Vec<f64> = pairs.iter().map(|(without, with)| (with / without).ln()).collect();
    let of = Estimate::of(&logs)?;
    Some(Estimate { value: of.value.exp(), low: of.low.map(f64::exp), high: of.high.map(f64::exp) })
}

fn judge(
    claim: Claim,
    change: Option<Estimate>,
    without: Option<Estimate>,
    (measured, pairs): (usize, usize),
    more_lost: f64,
) -> (Confirmed, String) {
    let Some(change) = change.filter(|_| measured >= PAIRS_MIN) else {
        return (Confirmed::Undetermined, format!("; {PAIRS_MIN} pairs are needed, of {pairs} run"));
    };
    if claim != Claim::LostShare && more_lost > LOST_MORE {
        return (
            Confirmed::NotConfirmed,
            format!("; with it {:.0} % more of the requests are lost", 100.0 * more_lost),
        );
    }
    let (is_better, is_not) = match claim {
        Claim::LostShare => {
            // Fewer beyond chance, and half of them gone at the least.
            let gone = -GONE * without.map_or(0.0, |without| without.value);
            (change.is_below(0.0) && change.value <= gone, change.is_above(gone))
        }
        Claim::ResponseMeanUs => (change.is_below(1.0 - RATIO), change.is_above(1.0 - RATIO)),
        Claim::ThroughputPerS => (change.is_above(1.0 + RATIO), change.is_below(1.0 + RATIO)),
    };
    match (is_better, is_not) {
        (true, _) => (Confirmed::Confirmed, String::new()),
        // Those that were lost without it have no time there, and are among the others with it.
        (false, true) if claim == Claim::ResponseMeanUs && -more_lost > LOST_MORE => (
            Confirmed::Undetermined,
            format!(
                "; but with it {:.0} % fewer of the requests are lost, whose times are in no mean without it",
                -100.0 * more_lost
            ),
        ),
        (false, true) => (Confirmed::NotConfirmed, String::new()),
        (false, false) => (Confirmed::Undetermined, "; more repeats, or longer ones, may decide".to_owned()),
    }
}

fn shown(claim: Claim, value: f64) -> String {
    match claim {
        Claim::LostShare => format!("{:.2} %", 100.0 * value),
        Claim::ResponseMeanUs => model::units::show_duration_ns(value * 1e3),
        Claim::ThroughputPerS => format!("{value:.0}"),
    }
}

fn shown_change(claim: Claim, change: Estimate) -> String {
    let one = |value: f64| match claim {
        Claim::LostShare => format!("{:+.2}", 100.0 * value),
        _ => format!("{value:.2}"),
    };
    let unit = if claim == Claim::LostShare { " points" } else { " times" };
    match (change.low, change.high) {
        (Some(low), Some(high)) => format!("{}{unit} ({} to {})", one(change.value), one(low), one(high)),
        _ => format!("{}{unit}", one(change.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(claim: Claim, values: &[(f64, f64)]) -> Confirmed {
        let arm = |value: f64| Arm { value: Some(value), lost_share: 0.0, is_disturbed: false };
        let pairs = values.iter().map(|(a, b)| Pair { with_first: false, without: arm(*a), with: arm(*b) }).collect();
        Confirmation::of("0", "x", "toggled", claim, End::Complete, pairs).state
    }

    #[test]
    fn only_a_change_beyond_scatter_and_bound_confirms() {
        use super::Confirmed::{Confirmed, NotConfirmed, Undetermined};
        let mean = Claim::ResponseMeanUs;
        assert_eq!(state(mean, &[(100.0, 50.0), (110.0, 52.0), (95.0, 49.0), (102.0, 55.0)]), Confirmed);
        assert_eq!(state(mean, &[(100.0, 101.0), (110.0, 109.0), (95.0, 96.0), (102.0, 102.0)]), NotConfirmed);
        assert_eq!(state(mean, &[(100.0, 150.0), (110.0, 152.0), (95.0, 149.0)]), NotConfirmed, "it got worse");
        assert_eq!(state(mean, &[(100.0, 20.0), (100.0, 300.0), (100.0, 80.0)]), Undetermined);
        assert_eq!(state(mean, &[(100.0, 50.0), (100.0, 50.0)]), Undetermined, "two pairs are too few");
        assert_eq!(state(mean, &[]), Undetermined);
        let rate = Claim::ThroughputPerS;
        assert_eq!(state(rate, &[(100.0, 200.0), (110.0, 205.0), (95.0, 190.0)]), Confirmed);
        assert_eq!(state(rate, &[(200.0, 100.0), (205.0, 110.0), (190.0, 95.0)]), NotConfirmed);
        let lost = Claim::LostShare;
        assert_eq!(state(lost, &[(0.9, 0.0), (0.95, 0.0), (0.92, 0.01)]), Confirmed);
        assert_eq!(state(lost, &[(0.9, 0.9), (0.95, 0.95), (0.92, 0.92)]), NotConfirmed);
        assert_eq!(
            state(rate, &[(0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]),
            Undetermined,
            "nothing over nothing is no number"
        );
    }

    #[test]
    fn a_remedy_that_loses_requests_is_none() {
        let arm = |value, lost_share| Arm { value: Some(value), lost_share, is_disturbed: false };
        let pair = Pair { with_first: true, without: arm(100.0, 0.0), with: arm(10.0, 0.4) };
        let of = Confirmation::of("0", "x", "t", Claim::ResponseMeanUs, End::Complete, vec![pair; 4]);
        assert_eq!(of.state, Confirmed::NotConfirmed, "{}", of.text);
    }

    #[test]
    fn a_mean_without_those_that_were_lost_does_not_speak_against_a_remedy_that_loses_none() {
        let arm = |value, lost_share| Arm { value: Some(value), lost_share, is_disturbed: false };
        let state = |lost_without: f64| {
            let pair = Pair { with_first: true, without: arm(300.0, lost_without), with: arm(676.0, 0.0) };
            let of = Confirmation::of("0", "x", "t", Claim::ResponseMeanUs, End::Complete, vec![pair; 4]);
            (of.state, of.text)
        };
        let (undetermined, text) = state(0.09);
        assert_eq!(undetermined, Confirmed::Undetermined);
        assert!(
            text.ends_with("but with it 9 % fewer of the requests are lost, whose times are in no mean without it"),
            "{text}"
        );
        assert_eq!(state(0.04).0, Confirmed::NotConfirmed);
    }
}
