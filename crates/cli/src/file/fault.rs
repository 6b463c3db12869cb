//! `[[fault]]` of a scenario file: what is done to the target or its host, when, and for how long.
//!
//! Each table is what one `--fault` says, and is read as that: so a fault that is typed wins over all of the file's.

use super::place::Place;
use super::{Given, Reader, keys, kind};
use crate::exit::Failure;
use crate::file::keys::Key;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key of faults.
pub const FAULT: &str = "fault";

/// Every key, and what it is; for errors and for the schema.
pub const KEYS: &[(&str, &str)] = &[
    ("fault", "Its name and arguments, such as \"stop target\"; 'plimsoll fault --list' has them all"),
    ("at", "When it is done, from the run's start, such as \"10s\""),
    ("for", "How long it lasts, such as \"5s\" [default: to the end of the load]"),
];

/// The faults of a file, where they are tables; as the words of flags.
pub(super) fn read(
    reader: &Reader<'_>,
    key: &Key,
    place: Place,
    list: &[Spanned<DeValue<'_>>],
) -> Result<Given, Failure> {
    let mut words = Vec::new();
    for value in list {
        let at = reader.source.place(value.span().start);
        let DeValue::Table(table) = value.get_ref() else {
            return Err(at.wrong(format!("fault: expected tables [[fault]], got {}", kind(value.get_ref()))));
        };
        let word = format!("--{FAULT}={}", one(reader, table, &at)?);
        if let Err(expected) = reader.keys.check(&word) {
            return Err(at.wrong(format!("fault: {expected}")));
        }
        words.push(word);
    }
    Ok(Given { key: key.clone(), words, place })
}

fn one(reader: &Reader<'_>, table: &DeTable<'_>, place: &Place) -> Result<String, Failure> {
    let mut texts = [None, None, None];
    for (name, value) in table.iter() {
        let name_place = reader.source.place(name.span().start);
        let name = &**name.get_ref();
        let Some(at) = KEYS.iter().position(|(known, _)| *known == name) else {
            return Err(keys::unknown(name, &name_place, KEYS.iter().map(|(known, _)| *known)));
        };
        texts[at] = Some(reader.text(name, value)?.0);
    }
    let missing =
        |key: &str, example: &str| place.wrong(format!("{key}: expected one for each fault, such as {example}"));
    let [fault, at, length] = texts;
    let fault = fault.ok_or_else(|| missing("fault", "fault = \"stop target\""))?;
    let at = at.ok_or_else(|| missing("at", "at = \"10s\""))?;
    Ok(format!("{fault}@{at}{}", length.map(|length| format!(":{length}")).unwrap_or_default()))
}
