//! Templates: text with `{{…}}` in it, taken apart into what is always the same and what is put in its place.
//!
//! A name stands for itself or has a filter behind it: `{{id}}`, `{{id|raw}}`. Which names there are beyond the built-in
//! ones (columns of data, values taken from replies) is decided by who resolves them. How a value is escaped follows from
//! where it lands, unless a filter says otherwise.
//! Not here: nesting, conditions, arithmetic. Cost: taken apart once, when a load is set up.

use std::fmt;

/// The longest text between braces, bytes.
const NAME_BYTES_MAX: usize = 200;
/// What names a key, where requests have keys and neither a column nor a value taken is called so.
pub const KEY: &str = "key";
/// Characters of a bad name that an error shows.
const SHOWN_MAX: usize = 40;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes that are always the same.
    Text(Vec<u8>),
    /// What is put in at this place.
    Value(Name, Filter),
}

/// What is put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `seq`: 1, 2, 3 … over the requests of the run, each number once.
    Seq,
    /// `user`: the number of the user, from 1 on.
    User,
    /// `uuid`: a random UUID of version 4 (RFC 9562 section 5.4).
    Uuid,
    /// `random:LOW..HIGH`: a number from LOW to HIGH, both included.
    Random(u64, u64),
    /// A column of data, or a value taken from a reply.
    Named(String),
}

/// How a value is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// As the place wants it.
    ByPlace,
    /// `raw`: not at all, but for what would break the message's framing.
    Raw,
    /// `url`: percent-encoded, all but unreserved characters (RFC 3986 section 2.3).
    Url,
    /// `json`: as the inside of a JSON string (RFC 8259 section 7).
    Json,
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTemplate {
    /// Offset of the braces, bytes.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for NoTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.what)
    }
}

/// Whether a text has anything to put in.
pub fn is_template(text: &[u8]) -> bool {
    find(text, b"{{").is_some()
}

/// Takes a text apart.
///
/// # Errors
/// Braces that are not closed, an empty or unknown name, a range that is none.
pub fn pieces(text: &[u8]) -> Result<Vec<Piece>, NoTemplate> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = find(&text[from..], b"{{").map(|at| from + at) {
        let no = |what: String| NoTemplate { at, what };
        let inside = &text[at + 2..];
        let within = &inside[..inside.len().min(NAME_BYTES_MAX)];
        let Some(length) = find(within, b"}}") else {
            return Err(no("'{{' has no '}}' behind it".to_owned()));
        };
        let Ok(written) = std::str::from_utf8(&within[..length]) else {
            return Err(no("what stands between '{{' and '}}' is not UTF-8".to_owned()));
        };
        if at > from {
            all.push(Piece::Text(text[from..at].to_vec()));
        }
        let (name, filter) = value(written.trim()).map_err(no)?;
        all.push(Piece::Value(name, filter));
        from = at + 2 + length + 2;
    }
    if from < text.len() {
        all.push(Piece::Text(text[from..].to_vec()));
    }
    Ok(all)
}

/// The names of a template that are not built in.
pub fn names(pieces: &[Piece]) -> impl Iterator<Item = &str> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Value(Name::Named(name), _) => Some(name.as_str()),
        _ => None,
    })
}

/// Whether a column or a value may have this name: letters, digits, `_`, `-` and `.`, and none that is built in.
pub fn is_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_of_name) && !["seq", "user", "uuid", "random"].contains(&name)
}

fn value(written: &str) -> Result<(Name, Filter), String> {
    let (name, filter) = match written.split_once('|') {
        None => (written, Filter::ByPlace),
        Some((name, filter)) => (
            name.trim_end(),
            match filter.trim_start() {
                "raw" => Filter::Raw,
                "url" => Filter::Url,
                "json" => Filter::Json,
                other => return Err(format!("expected raw, url or json behind '|', got '{}'", shown(other))),
            },
        ),
    };
    let name = match name {
        "seq" => Name::Seq,
        "user" => Name::User,
        "uuid" => Name::Uuid,
        _ => match name.strip_prefix("random:") {
            Some(range) => {
                let bounds = range.split_once("..").and_then(|(low, high)| {
                    let bound = |text: &str| text.trim().parse::<u64>().ok();
                    bound(low).zip(bound(high)).filter(|(low, high)| low <= high)
                });
                let Some((low, high)) = bounds else {
                    return Err(format!("expected a range upwards such as random:1..1000, got '{}'", shown(name)));
                };
                Name::Random(low, high)
            }
            None if is_name(name) => Name::Named(name.to_owned()),
            None => {
                let names = "seq, user, uuid, random:1..1000, a column or a value";
                return Err(format!("expected {names} between '{{{{' and '}}}}', got '{}'", shown(name)));
            }
        },
    };
    Ok((name, filter))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect()
}

fn find(text: &[u8], what: &[u8; 2]) -> Option<usize> {
    text.windows(2).position(|pair| pair == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> Name {
        Name::Named(name.to_owned())
    }

    #[test]
    fn texts_are_taken_apart() {
        let value = |name, filter| Piece::Value(name, filter);
        let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
        for (written, expected) in [
            ("", vec![]),
            ("{a}", vec![text("{a}")]),
            ("{{seq}}", vec![value(Name::Seq, Filter::ByPlace)]),
            (
                "/{{ id }}?u={{user}}",
                vec![text("/"), value(named("id"), Filter::ByPlace), text("?u="), value(Name::User, Filter::ByPlace)],
            ),
            (
                "{{random:1..6}}{{uuid}}",
                vec![value(Name::Random(1, 6), Filter::ByPlace), value(Name::Uuid, Filter::ByPlace)],
            ),
            ("{\"a\":{\"b\":{{x.y|raw}}}}", vec![text("{\"a\":{\"b\":"), value(named("x.y"), Filter::Raw), text("}}")]),
            ("{{a | json}}{{b|url}}", vec![value(named("a"), Filter::Json), value(named("b"), Filter::Url)]),
        ] {
            assert_eq!(pieces(written.as_bytes()).unwrap(), expected, "{written}");
        }
        let both = pieces(b"{{seq}}{{a}}{{b}}").unwrap();
        assert_eq!(names(&both).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn what_is_no_template_is_refused_in_one_sentence() {
        for (written, expected) in [
            ("ab{{", "at byte 2: '{{' has no '}}' behind it"),
            ("{{a}", "at byte 0: '{{' has no"),
            ("{{}}", "got ''"),
            ("{{a b}}", "got 'a b'"),
            ("{{random}}", "got 'random'"),
            ("{{random:5..1}}", "expected a range upwards"),
            ("{{random:-1..1}}", "expected a range upwards"),
            ("{{a|b}}", "expected raw, url or json behind '|', got 'b'"),
            ("{{a\r\nb}}", "got 'a\\r\\nb'"),
        ] {
            let error = pieces(written.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.lines().count() == 1, "{written}: {error}");
        }
        assert!(pieces(b"{{\xff}}").is_err());
        assert!(pieces(&[b"{{".as_slice(), &[b'a'; 300], b"}}"].concat()).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_texts_without_braces_are_one_piece(text: Vec<u8>) {
            let taken_apart = pieces(&text);
            if !is_template(&text) {
                prop_assert_eq!(taken_apart.unwrap().len(), usize::from(!text.is_empty()));
            }
        }
    }
}
