//! Takes secrets out of what is stored and shown: plans, URLs, header fields, mixes of commands.
//!
//! Header values are hidden unless their field is known to be harmless; values of queries by the name they have, and any
//! that looks random. A name tells what somebody chose; randomness is what makes a good secret. Too much hidden costs a
//! reader a word, too little costs a password: in doubt it is hidden. What is hidden is always `***`, so that two plans
//! that differ in a secret only are the same. Not found are secrets that are plain words under a harmless name, and those
//! in a path that are not random.

use crate::plan::Plan;
use crate::secret::{HIDDEN, Secret};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Header fields whose values are kept: they say what is asked for, not who asks.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "dnt",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "max-forwards",
    "pragma",
    "priority",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-requested-with",
];

/// Fields whose values are URLs.
const URLS: &[&str] = &["origin", "referer"];

/// What the name of a secret has in it, letters and digits alone.
const IN_NAME: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "session",
    "credential",
    "signature",
    "cookie",
    "bearer",
    "assertion",
    "csrf",
    "xsrf",
    "privatekey",
];

/// What the name of a secret ends with; too short to mean much inside a word.
const ENDS_NAME: &[&str] = &["key", "code", "pwd", "pass", "pin", "otp", "sig", "sid", "jwt", "sas", "ticket"];

/// Fewest letters and digits of a value that may look random: 16 of base64 are 96 bits, of hex 64. Shorter ones are
/// found by their names.
const RANDOM_MIN: usize = 16;
/// Fewest changes between small letters, capitals and digits in it. Of neighbours in random base64 64 % differ so, in
/// random hex 47 %: below 4 of 15 are 0.1 % and 3 % of them, and of 32 characters none. A date with its time has 3.
const CHANGES_MIN: usize = 4;
/// Fewest characters of a part of a path that may look random: names of resources are longer than those of values.
const PATH_RANDOM_MIN: usize = 20;

/// The plan without its secrets. Nothing to send is left in it: bodies and keys are empty, passwords too.
pub fn plan(plan: &Plan) -> Plan {
    let mut plan = each_secret(plan, Secret::forgotten);
    plan.workload.protocol_mut().hide_names();
    plan
}

/// The plan with secrets that are stored as they are, but for what is never stored; see [`Secret::kept`].
pub fn plan_kept(plan: &Plan) -> Plan {
    each_secret(plan, Secret::kept)
}

/// Whether nothing is in a plan but what may be shown: all that is sent can be read from the stored one.
pub fn is_without_secrets(plan: &Plan) -> bool {
    let hidden = self::plan(plan);
    secrets(plan) == secrets(&hidden) && plan.workload == hidden.workload
}

/// The bytes of all secrets of a plan, in its own order: for whoever carries it where [`with_secrets`] puts them back.
pub fn secrets(plan: &Plan) -> Vec<Vec<u8>> {
    let found = std::cell::RefCell::new(Vec::new());
    each_secret(plan, |secret| {
        found.borrow_mut().push(secret.expose().to_vec());
        secret.clone()
    });
    found.into_inner()
}

/// A plan that was read back, with the secrets that [`secrets`] had taken from it; `None` where they are not as many.
pub fn with_secrets(plan: &Plan, bytes: Vec<Vec<u8>>) -> Option<Plan> {
    let (count, left) = (secrets(plan).len(), std::cell::RefCell::new(bytes.into_iter()));
    if left.borrow().len() != count {
        return None;
    }
    Some(each_secret(plan, |secret| secret.with_bytes(left.borrow_mut().next().unwrap_or_default())))
}

fn each_secret(plan: &Plan, become_: impl Fn(&Secret) -> Secret) -> Plan {
    let mut plan = plan.clone();
    let mut change = |secret: &mut Secret| *secret = become_(secret);
    if let Some(identity) = plan.tls.as_mut().and_then(|tls| tls.identity.as_mut()) {
        [&mut identity.certificate_pem, &mut identity.key_pem].into_iter().for_each(&mut change);
    }
    plan.workload.protocol_mut().each_secret(&mut change);
    plan
}

/// The target of a request.
pub fn secret_target(text: &str) -> Secret {
    Secret::shown_as(text, target(text))
}

/// A header field's value.
pub fn secret_field(name: &str, value: &str) -> Secret {
    Secret::shown_as(value, field_value(name, value))
}

/// The words of a RESP command.
pub fn secret_words(words: Vec<String>) -> Vec<Secret> {
    let mut shown = words.clone();
    self::words(&mut shown);
    words.iter().zip(shown).map(|(word, shown)| Secret::shown_as(word, shown)).collect()
}

/// A header field as it was written, `Name: value`.
pub fn secret_line(text: &str) -> Secret {
    Secret::shown_as(text, field(text))
}

/// A URL as it was written.
pub fn secret_url(text: &str) -> Secret {
    Secret::shown_as(text, bad_url(text))
}

/// Commands with their weights, as written.
pub fn secret_mix(text: &str) -> Secret {
    Secret::shown_as(text, mix(text))
}

pub(crate) fn read_target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(|text| secret_target(&text))
}

pub(crate) fn read_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Secret)>, D::Error> {
    let fields = Vec::<(String, String)>::deserialize(deserializer)?;
    let typed = |(name, value): (String, String)| {
        let value = secret_field(&name, &value);
        (name, value)
    };
    Ok(fields.into_iter().map(typed).collect())
}

pub(crate) fn read_words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret>, D::Error> {
    Vec::<String>::deserialize(deserializer).map(secret_words)
}

/// Whether who knows the rest of a body could guess a secret in it by the digest, at leisure.
pub(crate) fn is_guessable(body: &[u8]) -> bool {
    names_secret(&String::from_utf8_lossy(body))
}

/// A header field as it was written, `Name: value`.
pub fn field(text: &str) -> String {
    match text.split_once(':') {
        Some((name, value)) => format!("{name}: {}", field_value(name, value.trim())),
        // `Name;` has no value, and what is no field may be anything.
        None if text.ends_with(';') => text.to_owned(),
        None => HIDDEN.to_owned(),
    }
}

fn field_value(name: &str, value: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    match () {
        () if value.is_empty() => String::new(),
        () if HARMLESS.contains(&&*name) || name.starts_with("sec-fetch-") || name.starts_with("sec-ch-") => {
            value.to_owned()
        }
        () if URLS.contains(&&*name) => url(value),
        () => HIDDEN.to_owned(),
    }
}

/// A URL as it was written: without user and password, and as [`target`] from its path on.
pub fn url(text: &str) -> String {
    let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
    let (authority, rest) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rfind('@') {
        Some(at) => Cow::Owned(format!("{HIDDEN}{}", &authority[at..])),
        None => Cow::Borrowed(authority),
    };
    format!("{scheme}{authority}{}", target(rest))
}

/// A text that is no URL, though it was to be one: a password may stand anywhere before an `@`.
pub fn bad_url(text: &str) -> String {
    let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
    match rest.rfind('@') {
        Some(at) => format!("{scheme}{HIDDEN}{}", target(&rest[at..])),
        None => url(text),
    }
}

/// Path and query of a request: values by name, and what looks random.
pub fn target(text: &str) -> String {
    let (path, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let segments: Vec<&str> =
        path.split('/').map(|segment| if is_random_segment(segment) { HIDDEN } else { segment }).collect();
    let mut shown = segments.join("/");
    for part in rest.split_inclusive(['?', '&', ';', '#']) {
        let (part, separator) = match part.strip_suffix(['?', '&', ';', '#']) {
            Some(before) => part.split_at(before.len()),
            None => (part, ""),
        };
        match part.split_once('=') {
            Some((name, value)) if is_secret(name, value) => shown += &format!("{name}={HIDDEN}"),
            None if looks_random(part) => shown += HIDDEN,
            _ => shown += part,
        }
        shown += separator;
    }
    shown
}

fn is_secret(name: &str, value: &str) -> bool {
    // A value may be a URL of its own, escaped.
    !value.is_empty() && (is_secret_name(name) || looks_random(value) || names_secret(&unescaped(value)))
}

fn is_random_segment(segment: &str) -> bool {
    let has = |is: fn(&u8) -> bool| segment.bytes().any(|b| is(&b));
    segment.len() >= PATH_RANDOM_MIN
        && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=~:%".contains(&b))
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && looks_random(segment)
}

/// Commands with their weights, as written: `AUTH`'s arguments and their like are hidden.
pub fn mix(text: &str) -> String {
    let pieces = text.split(',').map(|piece| {
        let (command, weight) = match piece.rfind('=') {
            Some(at) if piece[at + 1..].trim().parse::<f64>().is_ok() => piece.split_at(at),
            _ => (piece, ""),
        };
        let mut all: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if words(&mut all) { format!("{}{weight}", all.join(" ")) } else { piece.to_owned() }
    });
    pieces.collect::<Vec<_>>().join(",")
}

/// Hides what is secret of a RESP command's words; whether anything was.
fn words(words: &mut [String]) -> bool {
    let Some((first, rest)) = words.split_first_mut() else { return false };
    let command = first.to_ascii_uppercase();
    // How many words from here on are secret.
    let mut due = if command == "AUTH" { usize::MAX } else { 0 };
    let mut changed = false;
    for word in rest {
        let upper = word.to_ascii_uppercase();
        let is_rule = command == "ACL" && word.starts_with(['>', '<', '#', '!']);
        let is_pair = word.split_once('=').is_some_and(|(name, value)| is_secret(name, value));
        let is_slot = word.contains("{key}") || word.contains("{value}");
        let is_due = due > 0;
        due = due.saturating_sub(1);
        if (is_due || is_rule || is_pair || looks_random(word)) && !is_slot {
            HIDDEN.clone_into(word);
            changed = true;
            continue;
        }
        match (&*command, &*upper) {
            ("HELLO", "AUTH") | ("MIGRATE", "AUTH2") => due = 2,
            ("MIGRATE", "AUTH") => due = 1,
            ("CONFIG", _) if is_secret_name(&upper) => due = 1,
            _ => {}
        }
    }
    changed
}

/// Whether a name is that of a secret.
fn is_secret_name(name: &str) -> bool {
    let name: String =
        unescaped(name).chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    // Whoever wrote something is no secret; who is authorised may be.
    let says_auth = name.replace("author", "").contains("auth") || name.contains("authori");
    says_auth || IN_NAME.iter().any(|word| name.contains(word)) || ENDS_NAME.iter().any(|word| name.ends_with(word))
}

/// Whether a text, a form or JSON or whatever else, gives a value to the name of a secret.
fn names_secret(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.%".contains(c);
    let mut rest = text;
    while let Some(from) = rest.find(is_of_name) {
        rest = &rest[from..];
        let (name, after) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
        if after.starts_with(['=', ':', '"', '\'', '>', ']', ' ']) && is_secret_name(name) {
            return true;
        }
        rest = after;
    }
    false
}

fn looks_random(value: &str) -> bool {
    let value = unescaped(value);
    let class = |c: char| match c {
        'a'..='z' => Some(0),
        'A'..='Z' => Some(1),
        '0'..='9' => Some(2),
        _ => None,
    };
    let classes: Vec<u8> = value.chars().filter_map(class).collect();
    classes.len() >= RANDOM_MIN && classes.windows(2).filter(|pair| pair[0] != pair[1]).count() >= CHANGES_MIN
}

/// Percent escapes decoded (RFC 3986 §2.1).
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_who_asks_and_keep_what_is_asked_for() {
        for (written, shown) in [
            ("http://h:1/x?a=1&b=two", "http://h:1/x?a=1&b=two"),
            ("http://a:b@h:1/x", "http://***@h:1/x"),
            ("resp://u:p,@w@a,b/3", "resp://***@a,b/3"),
            ("http://h/x@y", "http://h/x@y"),
            ("a:b@h/x", "***@h/x"),
            ("http://h?token=x", "http://h?token=***"),
            ("unix:/s.sock:/p?sig=x;y=1", "unix:/s.sock:/p?sig=***;y=1"),
            (
                "http://h/?%74oken=x&api_key=&X-Amz-Signature=0f#code=1",
                "http://h/?%74oken=***&api_key=&X-Amz-Signature=***#code=***",
            ),
            ("/?user%5Bpassword%5D=x&q=y", "/?user%5Bpassword%5D=***&q=y"),
            ("/?next=https%3A%2F%2Fo%2F%3Ftoken%3Dx", "/?next=***"),
            (
                "/?author=Poe&page=12&q=green+tea&at=2024-01-01T00:00:00Z",
                "/?author=Poe&page=12&q=green+tea&at=2024-01-01T00:00:00Z",
            ),
            ("/?id=9f86d081884c7d659a2feaa0c55ad015", "/?id=***"),
            ("/?Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5", "/?***"),
            ("/app.9f86d081884c7d659a2feaa0c55ad015.js", "/app.9f86d081884c7d659a2feaa0c55ad015.js"),
            ("/hooks/T1/Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5/x", "/hooks/T1/***/x"),
            ("/get/userAccountDetailsOfAll", "/get/userAccountDetailsOfAll"),
            ("/?", "/?"),
            ("", ""),
        ] {
            assert_eq!(url(written), shown);
            assert_eq!(url(shown), shown, "hidden twice is hidden once");
        }
        assert_eq!(bad_url("http://u:p/w?x@h/?token=y"), "http://***@h/?token=***");
        assert_eq!(bad_url("http://h/?token=y"), "http://h/?token=***");
    }

    #[test]
    fn fields_are_hidden_unless_they_are_harmless() {
        for (written, shown) in [
            ("Authorization: Bearer x", "Authorization: ***"),
            ("x-auth-token:x", "x-auth-token: ***"),
            ("Anything-Else: x", "Anything-Else: ***"),
            ("accept: text/html", "accept: text/html"),
            ("Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: cors"),
            ("Referer: http://u:p@h/?token=x", "Referer: http://***@h/?token=***"),
            ("Cookie:", "Cookie: "),
            ("User-Agent;", "User-Agent;"),
            ("sesame", "***"),
        ] {
            assert_eq!(field(written), shown);
        }
    }

    #[test]
    fn commands_lose_their_passwords() {
        for (written, shown) in [
            ("GET=80,SET=20", "GET=80,SET=20"),
            ("auth sesame=1,PING", "auth ***=1,PING"),
            ("AUTH ali sesame=2", "AUTH *** ***=2"),
            ("HELLO 3 auth ali sesame SETNAME x", "HELLO 3 auth *** *** SETNAME x"),
            ("CONFIG SET requirepass sesame", "CONFIG SET requirepass ***"),
            ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 1"),
            ("ACL SETUSER ali on >sesame ~*", "ACL SETUSER ali on *** ~*"),
            ("MIGRATE h 1 {key} 0 9 AUTH2 ali sesame KEYS a", "MIGRATE h 1 {key} 0 9 AUTH2 *** *** KEYS a"),
            ("HSET h:{key} f {value}=5", "HSET h:{key} f {value}=5"),
            ("SET k 9f86d081884c7d659a2feaa0c55ad015=1", "SET k ***=1"),
            ("AUTH {value}", "AUTH {value}"),
        ] {
            assert_eq!(mix(written), shown);
        }
    }

    #[test]
    fn bodies_that_name_a_secret_are_told_from_others() {
        for text in
            ["password=x", "a=1&api_key=x", "{\"accessToken\" : \"x\"}", "name=\"passwd\"\r\n\r\nx", "<pwd>x</pwd>"]
        {
            assert!(names_secret(text), "{text}");
        }
        for text in ["", "a=1&b=2", "{\"title\": \"All of it\", \"n\": 1}", "\0\u{fffd}", "author=Poe"] {
            assert!(!names_secret(text), "{text}");
        }
    }

    #[test]
    fn random_values_are_seen_as_such() {
        // xorshift64*, fixed: the test is the same each time.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
        };
        for (alphabet, length, most_missed) in [
            (&b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[..], 22, 5),
            (b"0123456789abcdef", 32, 5),
        ] {
            let made = |next: &mut dyn FnMut() -> u64| -> String {
                (0..length).map(|_| char::from(alphabet[next() as usize % alphabet.len()])).collect()
            };
            let missed = (0..1000).filter(|_| !looks_random(&made(&mut next))).count();
            assert!(missed <= most_missed, "{missed} of 1000 with {length} characters were not seen");
        }
        for word in ["internationalisation", "2024-01-01T00:00:00Z", "1700000000000000000", "a-long-name-of-an-article"]
        {
            assert!(!looks_random(word), "{word}");
        }
    }
}
