//! What is looked at in a reply of HTTP beyond its framing: values taken from it for later requests, and checks on it.
//!
//! Each is a line of text, so that files, flags and reports say it alike: `token = json /token`, `header Location`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A text's first word, and what follows it.
fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

/// A value that is taken from a good reply and kept for the user's later requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Take {
    /// Its name in templates.
    pub name: String,
    /// Where it stands.
    pub from: Place,
}

/// Where in a reply a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The first header field of this name.
    Header(String),
    /// The cookie of this name, in `Set-Cookie`.
    Cookie(String),
    /// The JSON body at this pointer (RFC 6901): a string, a number, true or false.
    Json(String),
    /// The first group of a regular expression's first match in the body, or all of the match where it has no group.
    Regex(String),
}

/// What a reply must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyCheck {
    /// One of these statuses, inclusive ranges.
    Status(Vec<(u16, u16)>),
    /// A value at this place.
    Has(Place),
    /// A value at this place that is this text.
    Is(Place, String),
    /// A value at this place that has this text in it.
    Contains(Place, String),
    /// This text somewhere in the body.
    BodyContains(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, what) = match self {
            Place::Header(name) => ("header", name),
            Place::Cookie(name) => ("cookie", name),
            Place::Json(pointer) => ("json", pointer),
            Place::Regex(pattern) => ("regex", pattern),
        };
        write!(f, "{word} {what}")
    }
}

impl fmt::Display for Take {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.from)
    }
}

impl fmt::Display for ReplyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyCheck::Status(ranges) => {
                let shown = |(low, high): &(u16, u16)| {
                    if low == high { low.to_string() } else { format!("{low}-{high}") }
                };
                write!(f, "status {}", ranges.iter().map(shown).collect::<Vec<_>>().join(","))
            }
            ReplyCheck::Has(Place::Regex(pattern)) => write!(f, "body matches {pattern}"),
            ReplyCheck::Has(place) => place.fmt(f),
            ReplyCheck::Is(place, text) => write!(f, "{place} = {text}"),
            ReplyCheck::Contains(place, text) => write!(f, "{place} contains {text}"),
            ReplyCheck::BodyContains(text) => write!(f, "body contains {text}"),
        }
    }
}

impl Take {
    /// Reads `NAME = header NAME`, `… = cookie NAME`, `… = json /POINTER`, `… = regex PATTERN`.
    ///
    /// # Errors
    /// What was expected, as half a sentence.
    pub fn parse(text: &str) -> Result<Take, &'static str> {
        const EXPECTED: &str = "NAME = header NAME, cookie NAME, json /POINTER or regex PATTERN";
        let (name, from) = text.split_once('=').ok_or(EXPECTED)?;
        let name = name.trim();
        if !crate::template::is_name(name) || name.contains('.') {
            return Err("a name of letters, digits, '_' and '-' before '=', and none that is built in");
        }
        let from = Place::parse(from.trim()).ok_or(EXPECTED)?;
        Ok(Take { name: name.to_owned(), from })
    }
}

impl Place {
    fn parse(text: &str) -> Option<Place> {
        let (word, what) = first_word(text);
        match word {
            _ if what.is_empty() && word != "json" => None,
            "header" => Some(Place::Header(what.to_owned())),
            "cookie" => Some(Place::Cookie(what.to_owned())),
            // The empty pointer is the whole document.
            "json" if what.is_empty() || what.starts_with('/') => Some(Place::Json(what.to_owned())),
            "regex" => Some(Place::Regex(what.to_owned())),
            _ => None,
        }
    }
}

impl ReplyCheck {
    /// Reads `status 200,2xx` (statuses by `statuses`), `header NAME [= TEXT | contains TEXT]`, the same of `cookie` and
    /// `json /POINTER`, `body contains TEXT`, `body matches PATTERN`.
    ///
    /// # Errors
    /// What was expected, as half a sentence.
    pub fn parse(text: &str, statuses: impl Fn(&str) -> Option<(u16, u16)>) -> Result<ReplyCheck, &'static str> {
        const EXPECTED: &str = "status 200,404, header NAME contains TEXT, json /POINTER = TEXT, cookie NAME, body contains TEXT or body matches PATTERN";
        let text = text.trim();
        let (word, rest) = first_word(text);
        match word {
            "status" => {
                let ranges: Option<Vec<_>> = rest.split(',').map(|status| statuses(status.trim())).collect();
                ranges.map(ReplyCheck::Status).ok_or("statuses from 100 to 599 such as 200, 200-299 or 2xx")
            }
            "body" => match first_word(rest) {
                ("contains", what) if !what.is_empty() => Ok(ReplyCheck::BodyContains(what.to_owned())),
                ("matches", what) if !what.is_empty() => Ok(ReplyCheck::Has(Place::Regex(what.to_owned()))),
                _ => Err(EXPECTED),
            },
            "header" | "cookie" | "json" => {
                let (name, rest) = first_word(rest);
                let place = Place::parse(&format!("{word} {name}")).ok_or(EXPECTED)?;
                match first_word(rest) {
                    ("", _) => Ok(ReplyCheck::Has(place)),
                    ("=", what) => Ok(ReplyCheck::Is(place, what.to_owned())),
                    ("contains", what) if !what.is_empty() => Ok(ReplyCheck::Contains(place, what.to_owned())),
                    _ => Err(EXPECTED),
                }
            }
            _ => Err(EXPECTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again() {
        for text in ["token = json /a/b", "id = header Location", "sid = cookie s", "t = regex value=\"([^\"]+)\""] {
            assert_eq!(Take::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "x",
            "= json /a",
            "seq = json /a",
            "a b = json /a",
            "a.b = json /a",
            "a = json b",
            "a = header",
            "a = body x",
        ] {
            assert!(Take::parse(bad).is_err(), "{bad}");
        }
        let status = |text: &str| text.parse().ok().map(|status| (status, status));
        for text in [
            "status 200,404",
            "header Content-Type",
            "header Content-Type contains json",
            "json /a = 1 2",
            "json /a",
            "cookie s = x",
            "body contains a  b",
            "body matches a b",
        ] {
            assert_eq!(ReplyCheck::parse(text, status).unwrap().to_string(), text);
        }
        for bad in
            ["", "status", "status x", "header", "body", "body contains", "json a", "header X is y", "json /a contains"]
        {
            assert!(ReplyCheck::parse(bad, status).is_err(), "{bad}");
        }
    }
}
