//! What is said first of a recording that is not as it was written: where, at which second of the run, what became of it.

use model::integrity::{Damage, Integrity};

/// Places that are named in the sentence; the JSON has more.
const NAMED: usize = 3;

/// One sentence; `None` where no damage is known.
pub fn sentence(integrity: &Integrity) -> Option<String> {
    if !integrity.is_damaged() {
        return None;
    }
    let named: Vec<String> = integrity.damage.iter().take(NAMED).map(place).collect();
    let all = integrity.damage.len() as u64 + integrity.damage_lost;
    let more = match all.saturating_sub(named.len() as u64) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!("this recording is damaged, what follows is made of the rest: {}{more}", named.join("; ")))
}

fn place(damage: &Damage) -> String {
    let at = damage.at_s.map_or(String::new(), |s| format!(" (after second {s:.1})"));
    format!("{}{at}: {}", damage.place, damage.what)
}

/// What stands beside a recording whose damage would not show.
pub const WITHOUT_CHECKSUMS: &str =
    "the recording has no checksums (it was made before there were any): damage to it may not show";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_the_first_places_and_counts_the_others() {
        let damage = |n: u64| Damage {
            place: format!("tick {n}"),
            at_s: (n > 1).then_some(n as f64),
            what: "it is left out".to_owned(),
        };
        let mut integrity = Integrity { damage: vec![damage(1), damage(2)], ..Integrity::default() };
        let two = "this recording is damaged, what follows is made of the rest: \
                   tick 1: it is left out; tick 2 (after second 2.0): it is left out";
        assert_eq!(sentence(&integrity).as_deref(), Some(two));
        integrity.damage.extend([damage(3), damage(4)]);
        integrity.damage_lost = 5;
        assert!(sentence(&integrity).unwrap().ends_with("tick 3 (after second 3.0): it is left out; and 6 more"));
        assert_eq!(sentence(&Integrity::default()), None);
    }
}
