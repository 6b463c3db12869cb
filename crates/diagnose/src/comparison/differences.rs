//! What is not the same of two sides' runs beside their figures: settings, hosts, versions, and what was found.
//!
//! Of the plan as it is stored, so secrets are not in it. What differs in every run, seeds and the moment, is no difference.

use super::Side;
use model::Recording;
use model::finding::{About, Diagnosis, Severity, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// So many differences are listed.
const DIFFERENCES_MAX: usize = 40;
/// Longer values are cut, characters.
const VALUE_MAX: usize = 60;

/// A setting or a fact that the sides do not share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Its place, such as `plan.connections` or `host.kernel`.
    pub name: String,
    /// A's.
    pub a: String,
    /// B's.
    pub b: String,
}

/// A finding, and in how many runs of either side the evidence supports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingSeen {
    /// Its id.
    pub id: String,
    /// Runs of A that have it.
    pub a: u32,
    /// Runs of A there are.
    pub of_a: u32,
    /// Runs of B that have it.
    pub b: u32,
    /// Runs of B there are.
    pub of_b: u32,
    /// Runs of A in which it gives first.
    pub first_a: u32,
    /// Runs of B in which it gives first.
    pub first_b: u32,
}

/// What a run's diagnosis comes to here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whose.
    pub side: Side,
    /// Findings of the target that cost something.
    pub ids: BTreeSet<String>,
    /// The one that gives first.
    pub first: Option<String>,
}

impl Seen {
    /// Of a run.
    pub fn of(side: Side, diagnosis: &Diagnosis) -> Self {
        let of_target = diagnosis.findings.iter().filter(|finding| {
            finding.about == About::Target && finding.status == Status::Supported && finding.severity > Severity::Info
        });
        Seen {
            side,
            ids: of_target.map(|finding| finding.id.clone()).collect(),
            first: diagnosis.first_to_give().map(|finding| finding.id.clone()),
        }
    }
}

/// The findings of all runs; A's runs are those of A again, too.
pub fn findings_seen(runs: &[Seen]) -> Vec<FindingSeen> {
    let ids: BTreeSet<&String> = runs.iter().flat_map(|run| run.ids.iter().chain(&run.first)).collect();
    let of = |is_b: bool| runs.iter().filter(move |run| (run.side == Side::B) == is_b);
    let count = |is_b: bool, has: &dyn Fn(&Seen) -> bool| {
        u32::try_from(of(is_b).filter(|run| has(run)).count()).unwrap_or(u32::MAX)
    };
    ids.into_iter()
        .map(|id| {
            let has = |run: &Seen| run.ids.contains(id) || run.first.as_ref() == Some(id);
            let is_first = |run: &Seen| run.first.as_ref() == Some(id);
            FindingSeen {
                id: id.clone(),
                a: count(false, &has),
                of_a: count(false, &|_| true),
                b: count(true, &has),
                of_b: count(true, &|_| true),
                first_a: count(false, &is_first),
                first_b: count(true, &is_first),
            }
        })
        .collect()
}

/// What two runs do not share, in the order of names.
pub fn differences(a: &Recording, b: &Recording) -> Vec<Difference> {
    let (a, b) = (facts(a), facts(b));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let none = || "none".to_owned();
    names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| Difference {
            name: name.clone(),
            a: a.get(name).cloned().unwrap_or_else(none),
            b: b.get(name).cloned().unwrap_or_else(none),
        })
        .take(DIFFERENCES_MAX)
        .collect()
}

fn facts(recording: &Recording) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let plan = serde_json::to_value(model::hide::plan(&recording.plan)).unwrap_or(Value::Null);
    flatten("plan", &plan, &mut facts);
    facts.remove("plan.seed");
    let capsule = &recording.capsule;
    let mut fact = |name: &str, value: String| facts.insert(name.to_owned(), cut(value));
    fact("version", capsule.version.clone());
    fact("driver", capsule.driver.clone());
    fact("host.kernel", capsule.kernel.clone());
    fact("host.cpu", capsule.cpu.clone());
    fact("host.cores", capsule.cores.to_string());
    fact("host.memory_bytes", capsule.memory_bytes.to_string());
    for (name, value) in &capsule.sysctls {
        fact(&format!("host.{name}"), value.clone());
    }
    for (name, value) in &capsule.limits {
        fact(&format!("limit.{name}"), value.clone());
    }
    facts
}

fn flatten(name: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| flatten(&format!("{name}.{field}"), value, into));
        }
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(at, value)| flatten(&format!("{name}.{at}"), value, into));
        }
        Value::String(text) => drop(into.insert(name.to_owned(), cut(text.clone()))),
        other => drop(into.insert(name.to_owned(), other.to_string())),
    }
}

fn cut(text: String) -> String {
    if text.chars().count() <= VALUE_MAX {
        return text;
    }
    text.chars().take(VALUE_MAX - 1).chain(['…']).collect()
}
