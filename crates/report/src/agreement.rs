//! Where two sources of one metric did not agree: for the document, and as notes in the text.
//!
//! The comparison is diagnosis's ([`diagnose::agreement`]); nothing is judged here.

use crate::text::Paint;
use crate::text::page::Page;
use crate::words::counted;
use diagnose::agreement::{Disagreement as Found, Relation, disagreements};
use model::Snapshot;
use model::units::{show_bytes, show_count};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};

/// Two sources of one metric that did not agree.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Disagreement {
    /// What both tell.
    pub metric: &'static str,
    /// Where from.
    pub sources: [&'static str; 2],
    /// How the first should stand to the second: `equal`, or `at-most` where it is a part of it.
    pub expected: &'static str,
    /// What they said the first time, in the order of `sources`.
    pub values: [f64; 2],
    /// In what.
    pub unit: &'static str,
    /// From when to when that was, seconds of the run.
    pub window_s: [f64; 2],
    /// By how much they might have differed there.
    pub tolerance: f64,
    /// Why by so much.
    pub why: &'static str,
    /// How many times they did not agree.
    pub count: u64,
    /// How many times they were compared.
    pub compared: u64,
}

/// Those of some snapshots.
pub fn of(snapshots: &[Snapshot]) -> Vec<Disagreement> {
    disagreements(snapshots).into_iter().map(one).collect()
}

fn one(found: Found) -> Disagreement {
    Disagreement {
        metric: found.check.metric,
        sources: found.check.sources,
        expected: match found.check.relation {
            Relation::Equal => "equal",
            Relation::AtMost => "at-most",
        },
        values: found.values,
        unit: found.check.unit,
        window_s: found.window_s,
        tolerance: found.tolerance,
        why: found.check.why,
        count: found.count,
        compared: found.compared,
    }
}

/// Writes a note for each; `indent`: where its text begins.
pub(crate) fn write<W: Write>(page: &mut Page<'_, W>, indent: usize, snapshots: &[Snapshot]) -> io::Result<()> {
    for found in of(snapshots) {
        page.wrapped(indent, (Paint::Heading, "Disagree".to_owned()), Paint::Warn, &in_words(&found))?;
    }
    Ok(())
}

fn in_words(found: &Disagreement) -> String {
    let show = |value: f64| match found.unit {
        "ns" => crate::words::duration(value as u64),
        "bytes" => show_bytes(value),
        unit => format!("{} {unit}", show_count(value)),
    };
    let ([a, b], [of_a, of_b]) = (found.values, found.sources);
    let expected = if found.expected == "equal" { "should be" } else { "should be at most" };
    format!(
        "{}: {} by {of_a}, {expected} {} by {of_b} (± {}); {} of {}, first from {:.1} to {:.1} s",
        found.metric,
        show(a),
        show(b),
        show(found.tolerance),
        counted(found.count, "time"),
        found.compared,
        found.window_s[0],
        found.window_s[1],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Style;

    #[test]
    fn a_disagreement_is_said_with_both_values() {
        let snapshot = |at_s: i64, overflows, drops| {
            let mut snapshot = Snapshot { at_ns: at_s * 1_000_000_000, ..Snapshot::default() };
            snapshot.network.set("listen_overflows", overflows);
            snapshot.network.set("listen_drops", drops);
            snapshot
        };
        let snapshots = [snapshot(0, 0, 0), snapshot(1, 500, 500), snapshot(2, 5500, 600)];
        let found = of(&snapshots);
        assert_eq!(found.len(), 1, "{found:?}");
        // The second pair, and the run as a whole.
        assert_eq!((found[0].values, found[0].count, found[0].compared), ([5000.0, 100.0], 2, 3));
        let mut out = Vec::new();
        write(&mut Page::new(&mut out, Style { color: false, width: 80, unicode: true }), 13, &snapshots).unwrap();
        let text = String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Disagree connections not accepted: 5,000 connections by netstat"), "{text}");
        assert!(text.contains("2 times of 3, first from 1.0 to 2.0 s"), "{text}");
        assert!(of(&snapshots[..2]).is_empty() && of(&[]).is_empty());
    }
}
