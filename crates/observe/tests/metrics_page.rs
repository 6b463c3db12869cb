//! `docs/metrics.md` is made from the samplers' tables: `UPDATE_DOCS=1 cargo test -p plimsoll-observe` writes it anew.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use diagnose::agreement::{CHECKS, Relation};
use observe::import::names;
use observe::metric::{Kind, Metric};
use observe::samplers::{SAMPLERS, TARGET};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const HEAD: &str = "# Metrics

What the samplers read into a recording: `plimsoll report RUN --json` sums them up as `observed.metrics`, `--timeline` shows
them by time. Made from the samplers' tables by `UPDATE_DOCS=1 cargo test -p plimsoll-observe`; do not edit.

A counter grows from boot or from its process's start on: what matters is its difference. A gauge is as it is at the
moment. What a kernel does not have, or what may not be read, is absent and never zero. `[]` stands for each of several.
The last column is the name in OpenTelemetry's semantic conventions, where there is one; units there may differ.
";

const CHECKED: &str = "
## Two sources of one metric

Each is set against the other over every two snapshots that follow and over the whole run; where they differ by more than
both tolerances together, it stands in the report and in the JSON as `observed.disagreements`. What was not read is not
compared. Made from `CHECKS` of `crates/diagnose/src/agreement`.

| metric | first source | | second source | tolerance | why |
|---|---|---|---|---|---|
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut section = |name: &str, about: &str, metrics: &[Metric]| {
        write!(page, "\n## {name}\n\n{}.\n\n", capital(about)).unwrap();
        page.push_str("| name | unit | kind | from | meaning | OpenTelemetry |\n|---|---|---|---|---|---|\n");
        for m in metrics {
            let otel = if m.otel.is_empty() { String::new() } else { format!("`{}`", m.otel) };
            let kind = m.kind.name();
            writeln!(page, "| `{}` | {} | {kind} | {} | {} | {otel} |", m.name, m.unit, m.source, m.meaning).unwrap();
        }
    };
    section(TARGET.0, TARGET.1, TARGET.2);
    for entry in SAMPLERS {
        section(entry.name, entry.about, entry.metrics);
    }
    let about = "only of imported texts: of the machine; the samplers' metrics are taken where the meaning is the same";
    section("import", about, names::HOST);
    section("import/disks", "only of imported texts: of each disk", names::DISKS);
    page.push_str(CHECKED);
    for check in CHECKS {
        let relation = if check.relation == Relation::Equal { "=" } else { "≤" };
        let [a, b] = check.sources;
        let share = check.tolerance_share * 100.0;
        let tolerance = match check.unit {
            "ns" => format!("{} ms", check.tolerance / 1e6),
            "bytes" => format!("{} MB", check.tolerance / 1e6),
            _ => check.tolerance.to_string(),
        };
        let metric = check.metric;
        writeln!(page, "| {metric} | {a} | {relation} | {b} | {tolerance}, {share:.0} % | {} |", check.why).unwrap();
    }
    page
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[test]
fn the_page_is_fresh() {
    let path = testkit::workspace().join("docs/metrics.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/metrics.md is not of these tables: UPDATE_DOCS=1 cargo test -p plimsoll-observe");
}

const KINDS_HEAD: &str = "//! How each metric goes on, for whoever reads recordings and does not know the samplers.
//!
//! Made from the samplers' tables by `UPDATE_DOCS=1 cargo test -p plimsoll-observe`; do not edit. In the order of the names.

use crate::metrics::Kind;

/// Name and kind of every metric that is kept by its name.
pub const KINDS: &[(&str, Kind)] = &[
";

/// A name has one kind, wherever it is read.
fn kinds() -> String {
    let tables = SAMPLERS.iter().map(|entry| entry.metrics).chain([TARGET.2, names::HOST, names::DISKS]);
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    for metric in tables.flatten().filter(|metric| !metric.name.contains(['[', '.'])) {
        let before = kinds.insert(metric.name, metric.kind);
        assert!(before.is_none_or(|before| before == metric.kind), "{} has two kinds", metric.name);
    }
    let rows = kinds.iter().map(|(name, kind)| format!("    (\"{name}\", Kind::{kind:?}),\n"));
    format!("{KINDS_HEAD}{}];\n", rows.collect::<String>())
}

#[test]
fn the_model_knows_the_kinds() {
    let path = testkit::workspace().join("crates/model/src/seen/metric_kinds.rs");
    let made = kinds();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is not of these tables: UPDATE_DOCS=1 cargo test -p plimsoll-observe", path.display());
}

#[test]
fn names_are_distinct_in_each_place_and_say_their_unit() {
    let places = |name: &str| match name {
        "host/disks" | "import/disks" => "disks",
        "import" => "host",
        "network/interfaces" => "interfaces",
        name => name.split('/').next().unwrap_or_default().to_owned().leak(),
    };
    let mut seen = BTreeSet::new();
    let tables = SAMPLERS.iter().map(|entry| (entry.name, entry.metrics)).chain([(TARGET.0, TARGET.2)]);
    let tables = tables.chain([("import", names::HOST), ("import/disks", names::DISKS)]);
    for (sampler, metrics) in tables {
        for m in metrics {
            assert!(seen.insert((places(sampler), m.name)), "{sampler}: {} is there twice", m.name);
            let end = match m.unit {
                "bytes" => "_bytes",
                "ns" => "_ns",
                "ms" => "_ms",
                "pages" => "",
                "bytes/s" => "_per_s",
                _ => continue,
            };
            assert!(m.name.ends_with(end), "{sampler}: {} is in {}", m.name, m.unit);
            assert!(!m.meaning.is_empty() && !m.source.contains('|') && !m.meaning.contains('|'));
        }
    }
}

#[test]
fn every_reading_is_in_a_table() {
    let own_pid = std::process::id();
    let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = observe::ObserveSpec { target: vec![own_pid], own_pid, ..Default::default() };
    let snapshot = observe::Observer::new(spec).snapshot(0);
    let known: BTreeSet<&str> = SAMPLERS.iter().flat_map(|e| e.metrics).chain(TARGET.2).map(|m| m.name).collect();
    let target = snapshot.processes.iter().find(|p| p.role == model::snapshot::Role::Target).unwrap();
    let devices = snapshot.disks.values().chain(snapshot.interfaces.values());
    for metrics in devices.chain([&snapshot.host, &snapshot.network, &target.metrics]) {
        assert!(!metrics.is_empty());
        for (name, _) in metrics.iter() {
            assert!(known.contains(name), "{name} is in no table");
        }
    }
}
