//! What is looked at in a reply beyond status and framing: checks on it, and values taken for the user's later requests.
//!
//! Head and body are looked at as they come whole; of a body in pieces the first MiB is kept for that, as for the regular
//! expression of `check`. JSON is read in one pass for each pointer, by serde_json; what is not asked for is passed over.
//! Not here: content codings. Cost: nothing for requests without either; a pointer costs a pass over the body; a string with
//! escapes in it allocates.

use super::detail;
use super::template::VALUE_BYTES_MAX;
use super::user::{Scope, User};
use crate::{Failure, WireError};
use model::ErrorKind;
use model::plan::HttpRequest;
use model::replies::{Place, ReplyCheck};
use regex::bytes::{CaptureLocations, Regex};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::cell::RefCell;
use std::fmt;
use std::io::Write as _;

/// What is looked at in the replies to one request, made ready.
#[derive(Debug)]
pub struct Looks {
    /// The request's place in the plan.
    entry: u32,
    checks: Vec<Look>,
    takes: Vec<Look>,
    wants_head: bool,
    wants_body: bool,
    /// Memory for a value that is compared.
    value: RefCell<Vec<u8>>,
}

/// One thing that is looked at.
#[derive(Debug)]
struct Look {
    finder: Finder,
    then: Then,
}

/// How a value is found.
#[derive(Debug)]
enum Finder {
    Status(Vec<(u16, u16)>),
    Header(String),
    Cookie(String),
    Json(Vec<String>),
    Regex(Regex, RefCell<CaptureLocations>),
    Text(Vec<u8>),
}

/// What becomes of it.
#[derive(Debug)]
enum Then {
    Exists,
    Is(Vec<u8>),
    Contains(Vec<u8>),
    /// It is kept under this place.
    Keep(u16),
}

impl Looks {
    /// Makes a request's ready; `None` where there are none. `index` is its place in the plan.
    ///
    /// # Errors
    /// A regular expression that `regex` refuses.
    pub fn new(index: usize, request: &HttpRequest, scope: &Scope) -> Result<Option<Looks>, WireError> {
        let check = |check: &ReplyCheck| {
            let (finder, then) = match check {
                ReplyCheck::Status(ranges) => (Finder::Status(ranges.clone()), Then::Exists),
                ReplyCheck::Has(place) => (Finder::new(index, place)?, Then::Exists),
                ReplyCheck::Is(place, text) => (Finder::new(index, place)?, Then::Is(text.clone().into())),
                ReplyCheck::Contains(place, text) => (Finder::new(index, place)?, Then::Contains(text.clone().into())),
                ReplyCheck::BodyContains(text) => (Finder::Text(text.clone().into()), Then::Exists),
            };
            Ok(Look { finder, then })
        };
        let take = |take: &model::replies::Take| {
            let place = scope.taken(&take.name).unwrap_or(u16::MAX);
            Ok(Look { finder: Finder::new(index, &take.from)?, then: Then::Keep(place) })
        };
        let checks = request.checks.iter().map(check).collect::<Result<Vec<_>, WireError>>()?;
        let takes = request.take.iter().map(take).collect::<Result<Vec<_>, WireError>>()?;
        let wants = |is: fn(&Finder) -> bool| checks.iter().chain(&takes).any(|look: &Look| is(&look.finder));
        let (wants_head, wants_body) = (wants(Finder::is_of_head), wants(Finder::is_of_body));
        let value = RefCell::new(Vec::with_capacity(VALUE_BYTES_MAX));
        let is_any = !checks.is_empty() || !takes.is_empty();
        Ok(is_any.then_some(Looks { entry: index as u32, checks, takes, wants_head, wants_body, value }))
    }

    /// Whether heads are looked at.
    pub fn wants_head(&self) -> bool {
        self.wants_head
    }

    /// Whether bodies are looked at.
    pub fn wants_body(&self) -> bool {
        self.wants_body
    }

    /// Looks at a head. What does not pass is said with the body.
    pub fn head(&self, user: &mut User, head: &[u8]) {
        user.fault = self.look(user, Finder::is_of_head, |finder, found| finder.in_head(head, found));
    }

    /// The verdict on a reply that is good otherwise: on its status, its head, which has been looked at, and its body.
    pub fn whole(&self, user: &mut User, status: u16, body: &[u8]) -> Option<Failure> {
        let is_rest = |finder: &Finder| !finder.is_of_head();
        let in_body = |finder: &Finder, found: &mut Vec<u8>| match finder {
            Finder::Status(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&status)),
            other => other.in_body(body, found),
        };
        let of_head = user.fault.take();
        of_head.or_else(|| self.look(user, is_rest, in_body))
    }

    /// The first of some looks that does not pass.
    fn look(
        &self,
        user: &mut User,
        is_asked: impl Fn(&Finder) -> bool,
        find: impl Fn(&Finder, &mut Vec<u8>) -> bool,
    ) -> Option<Failure> {
        let mut value = self.value.borrow_mut();
        let mut first = None;
        for (place, check) in self.checks.iter().enumerate().filter(|(_, look)| is_asked(&look.finder)) {
            value.clear();
            let passes = find(&check.finder, &mut value)
                && match &check.then {
                    Then::Is(text) => *value == *text,
                    Then::Contains(text) => memchr::memmem::find(&value, text).is_some(),
                    Then::Exists | Then::Keep(_) => true,
                };
            if !passes && first.is_none() {
                first = Some(Failure { kind: ErrorKind::Check, detail: detail::check(self.entry, place) });
            }
        }
        for (place, take) in self.takes.iter().enumerate().filter(|(_, look)| is_asked(&look.finder)) {
            value.clear();
            let Then::Keep(kept) = take.then else { continue };
            let is_found = find(&take.finder, &mut value) && !value.is_empty() && value.len() <= VALUE_BYTES_MAX;
            match user.taken.get_mut(usize::from(kept)) {
                Some(into) if is_found => {
                    into.clear();
                    into.extend_from_slice(&value);
                }
                _ if first.is_none() => {
                    let detail = detail::missing_value(self.entry, place);
                    first = Some(Failure { kind: ErrorKind::MissingValue, detail });
                }
                _ => {}
            }
        }
        first
    }
}

impl Finder {
    fn new(index: usize, place: &Place) -> Result<Finder, WireError> {
        Ok(match place {
            Place::Header(name) => Finder::Header(name.clone()),
            Place::Cookie(name) => Finder::Cookie(name.clone()),
            // RFC 6901 section 4: ~1 is a slash, ~0 a tilde, in this order.
            Place::Json(pointer) => {
                Finder::Json(pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect())
            }
            Place::Regex(pattern) => {
                let regex = Regex::new(pattern)
                    .map_err(|source| WireError::Regex { request: index, source: Box::new(source) })?;
                let locations = RefCell::new(regex.capture_locations());
                Finder::Regex(regex, locations)
            }
        })
    }

    fn is_of_head(&self) -> bool {
        matches!(self, Finder::Header(_) | Finder::Cookie(_))
    }

    fn is_of_body(&self) -> bool {
        matches!(self, Finder::Json(_) | Finder::Regex(..) | Finder::Text(_))
    }

    /// Finds it in a head, which is sound.
    fn in_head(&self, head: &[u8], found: &mut Vec<u8>) -> bool {
        let lines = head.split(|byte| *byte == b'\n').skip(1);
        let mut fields = lines.filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        });
        let value = match self {
            Finder::Header(wanted) => {
                fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes())).map(|(_, value)| value)
            }
            // RFC 6265 section 5.2: name and value stand before the first semicolon.
            Finder::Cookie(wanted) => {
                fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie")).find_map(|(_, value)| {
                    let pair = value.split(|byte| *byte == b';').next()?;
                    let equals = memchr::memchr(b'=', pair)?;
                    (pair[..equals].trim_ascii() == wanted.as_bytes()).then(|| pair[equals + 1..].trim_ascii())
                })
            }
            _ => None,
        };
        found.extend_from_slice(value.unwrap_or_default());
        value.is_some()
    }

    /// Finds it in a body.
    fn in_body(&self, body: &[u8], found: &mut Vec<u8>) -> bool {
        match self {
            Finder::Text(text) => memchr::memmem::find(body, text).is_some(),
            Finder::Regex(regex, locations) => {
                let locations = &mut *locations.borrow_mut();
                if regex.captures_read(locations, body).is_none() {
                    return false;
                }
                let (start, end) = locations.get(1).or_else(|| locations.get(0)).unwrap_or((0, 0));
                found.extend_from_slice(&body[start..end]);
                true
            }
            Finder::Json(path) => json(body, path, found),
            _ => false,
        }
    }
}

/// Finds the single value at a path of a JSON text.
fn json(body: &[u8], path: &[String], found: &mut Vec<u8>) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let is_there = Walk { path, found }.deserialize(&mut reader);
    // What follows the value is part of whether it is JSON; what a key appears twice with is the last of both.
    matches!(is_there, Ok(true)) && reader.end().is_ok()
}

/// Follows a path; says whether a single value stands at its end.
struct Walk<'p> {
    path: &'p [String],
    found: &'p mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Walk<'_> {
    fn found(self, text: fmt::Arguments<'_>) -> bool {
        if self.path.is_empty() {
            self.found.clear();
            // Writing to memory does not fail.
            let _ = self.found.write_fmt(text);
        }
        self.path.is_empty()
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<bool, E> {
        Ok(self.found(format_args!("{value}")))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<bool, E> {
        Ok(self.found(format_args!("{value}")))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<bool, E> {
        Ok(self.found(format_args!("{value}")))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<bool, E> {
        Ok(self.found(format_args!("{value}")))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<bool, E> {
        Ok(self.found(format_args!("{value}")))
    }

    /// Null is no value.
    fn visit_unit<E: de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<bool, A::Error> {
        // RFC 6901 section 4: digits without leading zeros.
        let is_index = |key: &&String| *key == "0" || !key.starts_with(['0', '+']);
        let wanted = self.path.first().filter(is_index).and_then(|key| key.parse::<usize>().ok());
        let (mut at, mut is_there) = (0, false);
        loop {
            let is_more = if wanted == Some(at) {
                match array.next_element_seed(Walk { path: &self.path[1..], found: &mut *self.found })? {
                    Some(found) => {
                        is_there = found;
                        true
                    }
                    None => false,
                }
            } else {
                array.next_element::<IgnoredAny>()?.is_some()
            };
            if !is_more {
                return Ok(is_there);
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<bool, A::Error> {
        let mut is_there = false;
        while let Some(is_wanted) = object.next_key_seed(Key(self.path.first().map(String::as_str)))? {
            if is_wanted {
                is_there = object.next_value_seed(Walk { path: &self.path[1..], found: &mut *self.found })?;
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(is_there)
    }
}

/// Whether a key is the wanted one.
struct Key<'k>(Option<&'k str>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<bool, E> {
        Ok(self.0 == Some(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(place: &Place, head: &str, body: &str) -> Option<String> {
        let finder = Finder::new(0, place).unwrap();
        let mut found = Vec::new();
        let is_there = match finder.is_of_head() {
            true => finder.in_head(head.as_bytes(), &mut found),
            false => finder.in_body(body.as_bytes(), &mut found),
        };
        is_there.then(|| String::from_utf8(found).unwrap())
    }

    #[test]
    fn values_are_found_where_they_stand() {
        let head =
            "HTTP/1.1 200 OK\r\nLocation: /a:b \r\nSet-Cookie: other=1\r\nset-cookie: sid=x=y; Path=/\r\nX:\r\n\r\n";
        let json = r#"{"a":{"b":[1,"two",-3.5,true,null,{"c":"\u00fc"}],"x/y":"s","m~n":"t","":"e"},"token":"abc"}"#;
        for (place, expected) in [
            (Place::Header("location".into()), Some("/a:b")),
            (Place::Header("X".into()), Some("")),
            (Place::Header("HTTP/1.1 200 OK".into()), None),
            (Place::Cookie("sid".into()), Some("x=y")),
            (Place::Cookie("SID".into()), None),
            (Place::Json("/token".into()), Some("abc")),
            (Place::Json("/a/b/0".into()), Some("1")),
            (Place::Json("/a/b/1".into()), Some("two")),
            (Place::Json("/a/b/2".into()), Some("-3.5")),
            (Place::Json("/a/b/3".into()), Some("true")),
            (Place::Json("/a/b/4".into()), None),
            (Place::Json("/a/b/5/c".into()), Some("ü")),
            (Place::Json("/a/x~1y".into()), Some("s")),
            (Place::Json("/a/m~0n".into()), Some("t")),
            (Place::Json("/a/".into()), Some("e")),
            (Place::Json("/a/b".into()), None),
            (Place::Json("/a/b/00".into()), None),
            (Place::Json("/a/b/6".into()), None),
            (Place::Json("/nothing".into()), None),
            (Place::Json("/token/x".into()), None),
            (Place::Regex("token\":\"([a-z]+)".into()), Some("abc")),
            (Place::Regex("two|three".into()), Some("two")),
            (Place::Regex("four".into()), None),
        ] {
            assert_eq!(found(&place, head, json).as_deref(), expected, "{place}");
        }
        assert_eq!(found(&Place::Json(String::new()), "", "7").as_deref(), Some("7"));
        for broken in ["", "{", "{\"token\":\"abc\"", "{\"token\":\"abc\"} x", "\u{0}", &"[".repeat(100_000)] {
            assert_eq!(found(&Place::Json("/token".into()), "", broken), None, "{:.20}", broken);
        }
    }
}
