//! Sentences that name fields of a scenario: what is said is decided here, how a field is written by whoever shows it.

use crate::say::field::Field;
use std::fmt;

/// A sentence, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(Field),
    /// A field with a value it has, or could have.
    Set(Field, String),
}

/// How a field is written, alone or with a value.
pub type Spell<'a> = dyn Fn(Field, Option<&str>) -> String + 'a;

impl Words {
    /// With more at the end.
    #[must_use]
    pub fn and(mut self, more: impl Into<Words>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// The first field it names.
    pub fn field(&self) -> Option<Field> {
        self.0.iter().find_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Field(field) | Piece::Set(field, _) => Some(*field),
        })
    }

    /// The sentence, with fields as they are written where it is shown.
    pub fn show(&self, spell: &Spell<'_>) -> String {
        let mut shown = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => shown.push_str(text),
                Piece::Field(field) => shown.push_str(&spell(*field, None)),
                Piece::Set(field, value) => shown.push_str(&spell(*field, Some(value))),
            }
        }
        shown
    }
}

/// With the fields' plain names.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spell = |field: Field, value: Option<&str>| match value {
            None => field.key().to_owned(),
            Some(value) => format!("{} {value}", field.key()),
        };
        f.write_str(&self.show(&spell))
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        Words::from(text.to_owned())
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Words(vec![Piece::Text(text)])
    }
}

impl From<&Words> for Words {
    fn from(words: &Words) -> Self {
        words.clone()
    }
}

impl From<Field> for Words {
    fn from(field: Field) -> Self {
        Words(vec![Piece::Field(field)])
    }
}

impl<T: ToString> From<(Field, T)> for Words {
    fn from((field, value): (Field, T)) -> Self {
        Words(vec![Piece::Set(field, value.to_string())])
    }
}

/// Puts texts, fields and fields with values together: `words!["leave ", Field::Driver, " out"]`.
macro_rules! words {
    ($($piece:expr),+ $(,)?) => { $crate::Words::default()$(.and($piece))+ };
}
pub(crate) use words;
