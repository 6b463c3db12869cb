//! A metric as the samplers' tables list it: name, unit, kind, meaning, where it comes from, and its name in
//! OpenTelemetry's semantic conventions where there is one. `docs/metrics.md` is made from these tables.
//!
//! The tables drive the reading where a file is a list of names and numbers: what is in the table is taken, the rest
//! is not, and what a kernel does not have is absent.

pub use model::metrics::Kind;
use model::metrics::Metrics;

/// A metric as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its fixed name, in recordings and reports.
    pub name: &'static str,
    /// In what it is counted: `bytes`, `ns`, or the thing's own name.
    pub unit: &'static str,
    /// Growing, or as it is.
    pub kind: Kind,
    /// The kernel's own name for it.
    pub source: &'static str,
    /// What it says, in a phrase.
    pub meaning: &'static str,
    /// Its name in OpenTelemetry's semantic conventions; empty: there is none.
    pub otel: &'static str,
}

impl Metric {
    /// The same with its name in OpenTelemetry.
    pub(crate) const fn otel(mut self, name: &'static str) -> Self {
        self.otel = name;
        self
    }
}

/// A growing one.
pub(crate) const fn counter(
    name: &'static str,
    unit: &'static str,
    source: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric { name, unit, kind: Kind::Counter, source, meaning, otel: "" }
}

/// One that is as it is.
pub(crate) const fn gauge(
    name: &'static str,
    unit: &'static str,
    source: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric { name, unit, kind: Kind::Gauge, source, meaning, otel: "" }
}

/// Takes what the table lists: `find` gives the number of a source's name. Says how many there were.
pub(crate) fn fill(table: &[Metric], into: &mut Metrics, find: impl Fn(&str) -> Option<u64>) -> usize {
    let before = into.len();
    for metric in table {
        into.set_if(metric.name, find(metric.source));
    }
    into.len() - before
}
