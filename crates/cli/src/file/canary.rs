//! `[canary]` of a scenario file: one request now and then beside the loads. Every key of a load that says where, what and how;
//! when it asks is said by `every` alone.

use super::place::Place;
use super::{LoadPart, PHASE, Reader};
use crate::exit::Failure;
use model::units;
use toml::de::DeTable;

/// The key of the time between two requests.
pub const EVERY: &str = "every";
/// What it is; for the schema.
pub const EVERY_ABOUT: &str = "Time from one request to the next [default: 1s]";

/// Keys of loads that say when, and for how long.
const WHEN: &[&str] = &[
    PHASE,
    "main",
    "name",
    "duration",
    "requests",
    "rate",
    "ramp",
    "steps",
    "poisson",
    "burst",
    "rounds",
    "burst-at",
    "burst-pause",
    "think",
    "warmup",
    "after",
    "threads",
    "tick",
    "abort-when",
];

/// Whether a key of loads is one of a canary, too.
pub fn has(key: &str) -> bool {
    !WHEN.contains(&key)
}

/// As it stands in a file.
#[derive(Debug, Clone)]
pub struct CanaryPart {
    /// Where it goes, what it asks, and how.
    pub load: LoadPart,
    /// Time from one request to the next, nanoseconds; `None`: the default.
    pub every_ns: Option<u64>,
}

impl CanaryPart {
    pub(super) fn read(reader: &Reader<'_>, table: &DeTable<'_>, place: &Place) -> Result<Self, Failure> {
        let mut every_ns = None;
        for (name, value) in table.iter() {
            let key_place = reader.source.place(name.span().start);
            match &**name.get_ref() {
                EVERY => {
                    let (text, place) = reader.text(EVERY, value)?;
                    let ns = units::duration_ns(&text).ok().filter(|ns| *ns > 0);
                    every_ns = Some(ns.ok_or_else(|| {
                        place.wrong(format!(
                            "{EVERY}: expected a time longer than 0, such as 1s, got '{}'",
                            text.escape_debug()
                        ))
                    })?);
                }
                key if !has(key) => {
                    return Err(key_place.wrong(format!(
                        "'{key}' is not a canary's, which asks once each '{EVERY}' as long as a load runs: leave it out"
                    )));
                }
                _ => {}
            }
        }
        let load = reader.load_without(table, place, &[EVERY])?;
        if load.given.iter().all(|given| given.key.name != super::URL) {
            return Err(place.wrong("url: expected the URL that the canary asks, got none: name it below [canary]"));
        }
        Ok(CanaryPart { load, every_ns })
    }
}
