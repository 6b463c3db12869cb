//! `docs/causes.md` is made from the registry, the thresholds and the graph: `UPDATE_DOCS=1 cargo test -p plimsoll-diagnose`
//! writes it anew.

use diagnose::rule::Needs;
use diagnose::{CAUSES, graph, ids, thresholds};
use std::fmt::Write;

const HEAD: &str = "# Causes

What a diagnosis can find of the target, its machine and the path, from which value on, and what brings about what. Made from
`crates/diagnose/src/causes` and `crates/diagnose/src/explain/graph.rs`; do not edit. By what each cause is told: [evidence](evidence.md);
how often it is told rightly: [truth](truth.md). A finding needs two sources that do not depend on each other, of these: the
client's stamps, what replies hold, single sockets, the kernel's counters and probes, the target's processes. It is above
\"info\" only where something was lost: requests without a reply, connections that starved, slow requests, time waited beside a
free processor, or less carried than was due. A threshold is changed only with a dated decision and its numbers.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n## Found\n\n| cause | reads (one of each group) |\n|---|---|\n");
    for cause in CAUSES {
        let groups: Vec<String> = cause.reads.iter().map(|group| group.join(" or ")).collect();
        let load = if cause.needs == Needs::Nothing { "" } else { "the load" };
        let all: Vec<&str> =
            std::iter::once(load).chain(groups.iter().map(String::as_str)).filter(|w| !w.is_empty()).collect();
        writeln!(page, "| `{}` | {} |", cause.id, all.join("; ")).unwrap();
    }
    page.push_str("\n## Thresholds\n\n| of | what | from | unit | why |\n|---|---|---|---|---|\n");
    for t in thresholds::ALL {
        let causes: Vec<String> = t.causes.iter().map(|cause| format!("`{cause}`")).collect();
        writeln!(page, "| {} | {} | {} | {} | {} |", causes.join(", "), t.what, t.value, t.unit, t.source).unwrap();
    }
    page.push_str("\n## What brings about what\n\n| cause | can bring about |\n|---|---|\n");
    for (cause, symptoms) in graph::EDGES {
        let symptoms: Vec<String> = symptoms.iter().map(|symptom| format!("`{symptom}`")).collect();
        writeln!(page, "| `{cause}` | {} |", symptoms.join(", ")).unwrap();
    }
    page
}

#[test]
fn the_page_is_fresh() {
    let path = testkit::workspace().join("docs/causes.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/causes.md is not of the tables: UPDATE_DOCS=1 cargo test -p plimsoll-diagnose");
}

#[test]
fn thresholds_are_of_causes_or_losses_that_there_are() {
    let losses = ["slow", "waiting"];
    for threshold in thresholds::ALL {
        for cause in threshold.causes {
            assert!(losses.contains(cause) || ids().any(|id| id == *cause), "{cause}");
        }
        assert!(threshold.value > 0.0 && !threshold.source.is_empty() && !threshold.what.is_empty(), "{threshold:?}");
    }
}
