//! `[vary]` of a scenario file: what differs from one variant of the run to the next. Every combination is a variant, and each is run.
//!
//! A key is an axis, its list the values: texts or numbers, or tables of texts with a `name`. In every text of the file `{key}` is
//! the value of that axis, and a key of the tables is that text of the value. It is put in before anything else is read, so a
//! variant is a file as any other, with errors at their own places. What no text refers to is refused: it would vary nothing.
//!
//! Where a key's text comes to nothing the key is as good as absent, so that one variant may have a flag that another must not have.
//!
//! Not here: a text with `{{key}}` in it is a template of requests (`docs/requests.md`), and is left as it is.

use super::place::Place;
use super::{Reader, kind};
use crate::exit::Failure;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The table of what varies.
pub const VARY: &str = "vary";
/// What it is; for the schema.
pub const ABOUT: &str = "What differs from one variant of the run to the next: lists of values, each combination of which is run; '{key}' in a text is the value";
/// Variants of a file at the most.
pub const VARIANTS_MAX: usize = 200;
/// The key of a value's name, where it is a table.
const NAME: &str = "name";

/// Texts by the names they are referred to by, and which of them were.
#[derive(Debug, Default)]
pub struct Texts {
    by_name: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Texts {
    /// The text with `{name}` filled in wherever that is the name of one.
    pub fn filled_in(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            filled += before;
            if let Some(template) = from.strip_prefix("{{") {
                filled += "{{";
                rest = template;
                // Of a template all up to its end is its own.
                let end = rest.find("}}").map_or(0, |end| end + 2);
                filled += &rest[..end];
                rest = &rest[end..];
                continue;
            }
            let name = from[1..].split_once('}').map(|(name, _)| name);
            let known = name.and_then(|name| Some((name, self.by_name.get(name)?)));
            match known {
                Some((name, value)) => {
                    self.used.borrow_mut().insert(name.to_owned());
                    filled += value;
                    rest = &from[name.len() + 2..];
                }
                None => {
                    filled.push('{');
                    rest = &from[1..];
                }
            }
        }
        filled + rest
    }
}

/// A value of an axis.
#[derive(Debug)]
struct Value {
    shown: String,
    texts: Vec<(String, String)>,
}

/// What varies together.
#[derive(Debug)]
struct Axis {
    name: String,
    place: Place,
    values: Vec<Value>,
}

/// A variant: what each axis is in it, and the texts that stand for that.
#[derive(Debug, Default)]
pub struct Combination {
    /// Each axis with the name of its value, in the order of the file.
    pub values: Vec<(String, String)>,
    /// What `{key}` stands for.
    pub texts: Texts,
}

/// All that varies.
#[derive(Debug)]
pub struct Vary {
    axes: Vec<Axis>,
}

impl Vary {
    pub(super) fn read(reader: &Reader<'_>, value: &Spanned<DeValue<'_>>) -> Result<Self, Failure> {
        let place = reader.source.place(value.span().start);
        let DeValue::Table(table) = value.get_ref() else {
            return Err(place.wrong(format!("{VARY}: expected a table [{VARY}], got {}", kind(value.get_ref()))));
        };
        let mut keys: Vec<_> = table.iter().collect();
        // The last varies fastest, so their order is of use to who reads the report.
        keys.sort_by_key(|(name, _)| name.span().start);
        let mut axes: Vec<Axis> = Vec::new();
        for (name, value) in keys {
            let axis = axis(reader, name, value)?;
            let names = |axis: &Axis| axis.values[0].texts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            let taken: Vec<String> = axes.iter().flat_map(names).collect();
            if let Some(twice) = names(&axis).into_iter().find(|name| taken.contains(name)) {
                return Err(axis.place.wrong(format!("expected each name to stand for one text, got '{twice}' twice")));
            }
            axes.push(axis);
        }
        let count = axes.iter().try_fold(1usize, |all, axis| all.checked_mul(axis.values.len()));
        match count {
            _ if axes.is_empty() => {
                Err(place.wrong(format!("{VARY}: expected a list of values, such as size = [16, 4096], got none")))
            }
            Some(count) if count <= VARIANTS_MAX => Ok(Vary { axes }),
            _ => {
                Err(place
                    .wrong(format!("{VARY}: expected at most {VARIANTS_MAX} variants, got more: leave values out")))
            }
        }
    }

    /// Every combination, the last axis varying fastest.
    pub fn combinations(&self) -> Vec<Combination> {
        let mut all = vec![Combination::default()];
        for axis in &self.axes {
            let with = |before: &Combination, value: &Value| Combination {
                values: before.values.iter().cloned().chain([(axis.name.clone(), value.shown.clone())]).collect(),
                texts: Texts {
                    by_name: before.texts.by_name.clone().into_iter().chain(value.texts.iter().cloned()).collect(),
                    used: RefCell::default(),
                },
            };
            all = all.iter().flat_map(|before| axis.values.iter().map(move |value| with(before, value))).collect();
        }
        all
    }

    /// Refuses a name that no text of a variant referred to.
    ///
    /// # Errors
    /// There is one.
    pub fn refuse_unused(&self, texts: &Texts) -> Result<(), Failure> {
        let used = texts.used.borrow();
        for axis in &self.axes {
            if let Some((name, _)) = axis.values[0].texts.iter().find(|(name, _)| !used.contains(name)) {
                let sentence = format!("expected a text with '{{{name}}}' in it, got none: {name} would vary nothing");
                return Err(axis.place.wrong(sentence));
            }
        }
        Ok(())
    }
}

fn axis(reader: &Reader<'_>, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) -> Result<Axis, Failure> {
    let place = reader.source.place(name.span().start);
    let name = name.get_ref().as_ref();
    check_name(name, &place)?;
    let list = match value.get_ref() {
        DeValue::Array(list) if !list.is_empty() => list,
        DeValue::Array(_) => return Err(place.wrong(format!("{name}: expected a list of values, got an empty one"))),
        other => return Err(place.wrong(format!("{name}: expected a list of values, got {}", kind(other)))),
    };
    let mut values: Vec<Value> = Vec::new();
    for one in list.iter() {
        let here = reader.source.place(one.span().start);
        let value = match one.get_ref() {
            DeValue::Table(table) => of_table(reader, name, table, &here)?,
            _ => {
                let (text, _) = reader.text(name, one)?;
                Value { shown: text.clone(), texts: vec![(name.to_owned(), text)] }
            }
        };
        let names = |value: &Value| value.texts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if let Some(first) = values.first().filter(|first| names(first) != names(&value)) {
            let (expected, got) = (names(first).join(", "), names(&value).join(", "));
            return Err(here.wrong(format!("{name}: expected {expected} as in the first value, got {got}")));
        }
        if values.iter().any(|known| known.shown == value.shown) {
            return Err(here.wrong(format!("{name}: expected different values, got '{}' twice", value.shown)));
        }
        values.push(value);
    }
    Ok(Axis { name: name.to_owned(), place, values })
}

/// A value of several texts. Its name is the axis' text only where something refers to that.
fn of_table(reader: &Reader<'_>, axis: &str, table: &DeTable<'_>, place: &Place) -> Result<Value, Failure> {
    let (mut shown, mut texts) = (None, Vec::new());
    for (key, value) in table.iter() {
        let key_place = reader.source.place(key.span().start);
        let (text, _) = reader.text(key.get_ref(), value)?;
        match &**key.get_ref() {
            NAME => shown = Some(text),
            key => {
                check_name(key, &key_place)?;
                texts.push((key.to_owned(), text));
            }
        }
    }
    let shown = shown.ok_or_else(|| {
        place.wrong(format!("{axis}: expected a name in each table, such as {{ name = \"small\", … }}"))
    })?;
    texts.sort();
    match texts.is_empty() {
        true => Err(place.wrong(format!("{axis}: expected texts beside the name, got none: write the name alone"))),
        false => Ok(Value { shown, texts }),
    }
}

fn check_name(name: &str, place: &Place) -> Result<(), Failure> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    match is_word && name.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => Ok(()),
        false => Err(place
            .wrong(format!("{VARY}: expected names of small letters, digits and '-', got '{}'", name.escape_debug()))),
    }
}

/// Its shape, for the schema.
pub fn schema() -> serde_json::Value {
    use serde_json::json;
    let scalar = json!({"type": ["string", "number"]});
    let table = json!({
        "type": "object",
        "properties": {"name": {"type": ["string", "number"], "description": "What it is called in the report"}},
        "required": ["name"],
        "additionalProperties": scalar,
    });
    json!({
        "type": "object",
        "description": ABOUT,
        "minProperties": 1,
        "additionalProperties": {"type": "array", "minItems": 1, "items": {"anyOf": [scalar, table]}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_templates_and_other_braces_are_left() {
        let by_name = [("size", "16"), ("a-b", "{size}")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let texts = Texts { by_name: by_name.into(), used: RefCell::default() };
        let cases = [
            ("{size}", "16"),
            ("x{size}y{size}", "x16y16"),
            ("{a-b}", "{size}"),
            ("{{size}} {{ {size} }}{size}", "{{size}} {{ {size} }}16"),
            ("{{size", "{{size"),
            ("{\"a\": {size}}", "{\"a\": 16}"),
            ("${size} {other} {", "$16 {other} {"),
            ("", ""),
        ];
        for (from, to) in cases {
            assert_eq!(texts.filled_in(from), to, "{from}");
        }
        assert_eq!(texts.used.borrow().len(), 2);
    }
}
