//! `docs/evidence.md` is made from `diagnose::catalogue`: `UPDATE_DOCS=1 cargo test -p plimsoll-observe` writes it anew.

#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use diagnose::catalogue::{CLIENT, GROUPS};
use observe::samplers::{SAMPLERS, TARGET, bpf};
use std::fmt::Write;

const HEAD: &str = "# Evidence

By what each cause can be told, which sampler or probe reads that, and from which level of observing on (`--observe`). Samplers
of `/proc`, sockets and control groups read at every level, `none` too. `client` is the load's own figures: intervals, single
requests, pauses, failures. What of a cause nobody records yet stands last. Made from `crates/diagnose/src/catalogue.rs`; do
not edit. That a cause can be told does not say that it is found yet: those that are, with their thresholds, are in [causes](causes.md).
";

/// From which level on a sampler or probe reads; `None`: there is none of that name.
fn level_of(name: &str) -> Option<String> {
    let is_sampler = name == TARGET.0 || SAMPLERS.iter().any(|entry| entry.name == name);
    if name == CLIENT || is_sampler { Some("none".to_owned()) } else { Some(bpf::level(name)?.to_string()) }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (heading, causes) in GROUPS {
        write!(page, "\n## {heading}\n\n| cause | evidence | from | level | not recorded |\n|---|---|---|---|---|\n")
            .unwrap();
        for cause in causes {
            for (i, (what, from)) in cause.evidence.iter().enumerate() {
                let level =
                    level_of(from).unwrap_or_else(|| panic!("{}: no sampler or probe is named {from}", cause.id));
                let (id, open) = if i == 0 { (format!("`{}`", cause.id), cause.open) } else { (String::new(), "") };
                writeln!(page, "| {id} | {what} | {from} | {level} | {open} |").unwrap();
            }
        }
    }
    page
}

#[test]
fn the_page_is_fresh_and_names_what_is_there() {
    let path = testkit::workspace().join("docs/evidence.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/evidence.md is not of the catalogue: UPDATE_DOCS=1 cargo test -p plimsoll-observe");
}
