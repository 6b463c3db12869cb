//! `[[load.phase]]` of a scenario file: rates one after another, each with a name and expectations of its own.

use super::{Reader, keys, kind};
use crate::exit::Failure;
use model::phase::PhaseAsked;
use model::plan::Segment;
use model::units;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Every key, and what it is; for errors and for the schema.
pub const KEYS: &[(&str, &str)] = &[
    ("name", "What it is called in reports and expectations"),
    ("for", "How long it is, in whole tenths of a second"),
    ("rate", "The rate it holds, such as 5k/s"),
    ("ramp", "The rates it goes from and to, such as 100/s..5k/s"),
    ("expect", "Bounds on its own figures, such as 'p99 < 50 ms'"),
];

/// The phases of a load.
pub(super) fn read(reader: &Reader<'_>, value: &Spanned<DeValue<'_>>) -> Result<Vec<PhaseAsked>, Failure> {
    let wrong = |value: &Spanned<DeValue<'_>>| {
        let place = reader.source.place(value.span().start);
        place.wrong(format!("phase: expected tables [[load.phase]], got {}", kind(value.get_ref())))
    };
    let DeValue::Array(list) = value.get_ref() else { return Err(wrong(value)) };
    let phase = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Table(table) => one(reader, table, value.span().start),
        _ => Err(wrong(value)),
    };
    list.iter().map(phase).collect()
}

fn one(reader: &Reader<'_>, table: &DeTable<'_>, start: usize) -> Result<PhaseAsked, Failure> {
    let (mut name, mut for_ns, mut rates) = (None, None, None);
    let mut expect = Vec::new();
    for (key, value) in table.iter() {
        let place = reader.source.place(key.span().start);
        let key = &**key.get_ref();
        if let ("expect", DeValue::Array(list)) = (key, value.get_ref()) {
            for one in list.iter() {
                expect.push(reader.text(key, one)?.0);
            }
            continue;
        }
        if KEYS.iter().all(|(known, _)| *known != key) {
            return Err(keys::unknown(key, &place, KEYS.iter().map(|(known, _)| *known)));
        }
        let (text, value_place) = reader.text(key, value)?;
        let wrong =
            |expected: &str| value_place.wrong(format!("{key}: expected {expected}, got '{}'", text.escape_debug()));
        match key {
            "name" => name = Some(text),
            "expect" => expect.push(text),
            "for" => {
                let ns = units::duration_ns(&text).map_err(|error| wrong(error.expected))?;
                for_ns = Some(Some(ns).filter(|ns| *ns > 0).ok_or_else(|| wrong("a time longer than 0"))?);
            }
            _ if rates.is_some() => return Err(place.wrong("rate cannot be used with ramp: leave one of them out")),
            "rate" => {
                let rate = units::rate_per_s(&text).map_err(|error| wrong(error.expected))?;
                rates = Some((rate, rate));
            }
            _ => {
                let ends = text.split_once("..").ok_or_else(|| wrong("FROM..TO such as 100/s..5k/s"))?;
                let rate =
                    |text: &str| units::rate_per_s(text.trim()).map_err(|_| wrong("FROM..TO such as 100/s..5k/s"));
                rates = Some((rate(ends.0)?, rate(ends.1)?));
            }
        }
    }
    let place = reader.source.place(start);
    let missing =
        |key: &str, example: &str| place.wrong(format!("{key}: expected one for each phase, such as {example}"));
    let (from_per_s, to_per_s) = rates.ok_or_else(|| missing("rate", "rate = \"1k/s\" or ramp = \"100/s..1k/s\""))?;
    let for_ns = for_ns.ok_or_else(|| missing("for", "for = \"10s\""))?;
    let name = name.ok_or_else(|| missing("name", "name = \"hold\""))?;
    Ok(PhaseAsked { name, segment: Segment { from_per_s, to_per_s, for_ns }, expect })
}
