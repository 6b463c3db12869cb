//! A comparison in words.

use super::{Change, Comparison, Judgement, Pairing, Quantity, State};
use model::units::{show_duration_ns, show_figure};

/// A quantity in words.
pub fn words(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Throughput => "throughput",
        Quantity::P50 => "p50",
        Quantity::P99 => "p99",
        Quantity::Cpu => "CPU a request",
        Quantity::Failures => "failures",
    }
}

/// A figure with its unit.
pub fn shown_figure(quantity: Quantity, figure: f64) -> String {
    match quantity {
        Quantity::Throughput => format!("{}/s", show_figure(figure)),
        Quantity::P50 | Quantity::P99 | Quantity::Cpu => show_duration_ns(figure * 1e3),
        Quantity::Failures => format!("{} %", points(100.0 * figure)),
    }
}

/// A change with its sign: `+3.1 %`, or of failures `+0.4 points`.
pub fn shown_change(quantity: Quantity, value: f64) -> String {
    let unit = if quantity.entry().method.is_ratio() { "%" } else { "points" };
    format!("{} {unit}", signed(100.0 * value))
}

fn signed(value: f64) -> String {
    let text = points(value.abs());
    if value.abs() < 0.005 {
        "0".to_owned()
    } else if value < 0.0 {
        format!("−{text}")
    } else {
        format!("+{text}")
    }
}

fn points(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 1.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// The answer.
pub(super) fn of(comparison: &Comparison) -> String {
    let of = |state: State| -> Vec<&Judgement> {
        comparison.judgements.iter().filter(|judgement| judgement.state == state).collect()
    };
    if comparison.pairing == Pairing::Single {
        let all: Vec<String> = comparison.judgements.iter().filter_map(|j| moved(j, false)).collect();
        let what = if all.is_empty() { "they have no figure in common".to_owned() } else { listed(&all) };
        return format!("One run each cannot tell chance from change: from A to B {what}");
    }
    if comparison.whole_repeats() == 0 {
        return "Undecided: no repeat was measured whole".to_owned();
    }
    let mut parts = Vec::new();
    let (worse, better): (Vec<&Judgement>, Vec<&Judgement>) =
        of(State::Different).into_iter().partition(|judgement| judgement.is_worse);
    for (all, word) in [(worse, "worse"), (better, "better")] {
        let moved: Vec<String> = all.into_iter().filter_map(|j| moved(j, true)).collect();
        if !moved.is_empty() {
            parts.push(format!("B is {word} than A: {}", listed(&moved)));
        }
    }
    let alike: Vec<String> = of(State::Equivalent).iter().map(|j| words(j.quantity).to_owned()).collect();
    if !alike.is_empty() {
        let tolerance = format!("{:.2}", 100.0 * comparison.tolerance);
        let tolerance = tolerance.trim_end_matches('0').trim_end_matches('.');
        parts.push(match (alike.len() == comparison.declared.len(), parts.is_empty()) {
            (true, true) => format!("B is as A within {tolerance} %: {}", listed(&alike)),
            _ => format!("within {tolerance} % of A: {}", listed(&alike)),
        });
    }
    let (unsteady, open): (Vec<&Judgement>, Vec<&Judgement>) =
        of(State::Undecided).into_iter().partition(|judgement| judgement.is_unsteady);
    if !open.is_empty() {
        let all: Vec<String> = open.iter().map(|j| open_words(j)).collect();
        parts.push(format!("undecided: {}", listed(&all)));
    }
    if !unsteady.is_empty() {
        let all: Vec<String> = unsteady.iter().map(|j| words(j.quantity).to_owned()).collect();
        parts.push(format!("not to be told, as A differed from itself: {}", listed(&all)));
    }
    let text = parts.join("; ");
    let mut letters = text.chars();
    letters.next().map_or(text.clone(), |first| first.to_uppercase().chain(letters).collect())
}

fn open_words(judgement: &Judgement) -> String {
    let more = match (&judgement.change, judgement.more_repeats) {
        (None, _) => "no figure on both sides".to_owned(),
        (_, Some(1)) => "1 more repeat would decide".to_owned(),
        (_, Some(more)) => format!("about {more} more repeats would decide"),
        (_, None) => "no number of repeats in reach would decide".to_owned(),
    };
    format!("{} ({more})", words(judgement.quantity))
}

/// `p99 +12 % (+8.1 to +16 %)`.
fn moved(judgement: &Judgement, with_interval: bool) -> Option<String> {
    let Change { value, low, high } = judgement.change?;
    let name = words(judgement.quantity);
    Some(match low.zip(high).filter(|_| with_interval) {
        Some((low, high)) => format!(
            "{name} {} ({} to {})",
            shown_change(judgement.quantity, value),
            signed(100.0 * low),
            shown_change(judgement.quantity, high)
        ),
        None => format!("{name} {}", shown_change(judgement.quantity, value)),
    })
}

fn listed(all: &[String]) -> String {
    all.join(", ")
}
