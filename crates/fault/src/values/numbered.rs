//! Maps by number, as a journal keeps them: keys are texts, and are read as numbers again.
//!
//! A change is read by its kind's name first, and what serde holds meanwhile knows a key of JSON as a text alone: a number is not
//! found in it, and the whole line would be taken for damaged.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

pub(crate) fn serialize<S: Serializer>(map: &BTreeMap<u32, String>, to: S) -> Result<S::Ok, S::Error> {
    map.serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u32, String>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    let number = |(key, value): (String, String)| {
        let number =
            key.parse().map_err(|_| Error::custom(format!("expected a number, got '{}'", key.escape_debug())))?;
        Ok((number, value))
    };
    texts.into_iter().map(number).collect()
}
