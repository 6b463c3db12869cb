//! Readings by their fixed names, as the samplers' tables list them (`docs/metrics.md`).
//!
//! A map and no fields: which of them there are depends on the kernel, and what was not read is absent, never zero.
//! The name's end says the unit (`_bytes`, `_ns`, `_per_s`); without one it is a number. Counters are as the kernel gives
//! them, growing since boot or since the process began: a rate is the difference of two snapshots.

use crate::metric_kinds::KINDS;
use schemars::JsonSchema;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// How a metric goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from boot or from the process's start on.
    Counter,
    /// As it is at the moment.
    Gauge,
}

impl Kind {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// How the metric of a name goes on, in whatever place; `None` of one that no table of this version lists.
pub fn kind_of(name: &str) -> Option<Kind> {
    KINDS.binary_search_by(|(known, _)| (*known).cmp(name)).ok().map(|at| KINDS[at].1)
}

/// Readings by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Metrics(BTreeMap<Cow<'static, str>, u64>);

impl Metrics {
    /// The reading of this name; `None`: it was not read.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Keeps a reading.
    pub fn set(&mut self, name: &'static str, value: u64) {
        self.0.insert(Cow::Borrowed(name), value);
    }

    /// Keeps a reading that may not be there.
    pub fn set_if(&mut self, name: &'static str, value: Option<u64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Takes the other's in.
    pub fn extend(&mut self, other: &Metrics) {
        self.0.extend(other.0.iter().map(|(name, value)| (name.clone(), *value)));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A name as it is read: of the known ones nothing is copied, and a recording has them at every snapshot.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(Cow<'static, str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Known;
        impl Visitor<'_> for Known {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a metric")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                let known = KINDS.binary_search_by(|(known, _)| (*known).cmp(name));
                Ok(Name(known.map_or_else(|_| Cow::Owned(name.to_owned()), |at| Cow::Borrowed(KINDS[at].0))))
            }
        }
        from.deserialize_str(Known)
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = Metrics;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("readings by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    all.insert(name, value);
                }
                Ok(Metrics(all))
            }
        }
        from.deserialize_map(ByName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_absent() {
        let mut metrics = Metrics::default();
        metrics.set("b", 0);
        metrics.set_if("a", None);
        metrics.set_if("c", Some(7));
        assert_eq!((metrics.of("a"), metrics.of("b"), metrics.of("c")), (None, Some(0), Some(7)));
        assert_eq!(metrics.iter().collect::<Vec<_>>(), [("b", 0), ("c", 7)]);
        let mut other = Metrics::default();
        other.set("b", 9);
        metrics.extend(&other);
        assert_eq!((metrics.of("b"), metrics.len(), metrics.is_empty()), (Some(9), 2, false));
    }
}
