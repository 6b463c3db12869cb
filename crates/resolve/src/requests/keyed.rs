//! Keys of `http://` requests, `{{key}}`, methods drawn by weight, and whether what was acknowledged can be looked for.
//!
//! A column of data or a value taken from a reply that is called `key` stands in the key's place. To look for what was
//! acknowledged (`verify_writes`) is refused wherever a server that has lost nothing could seem to have: where requests take
//! away in a way that is not known, or a read does not ask for the very thing that a write made.

pub(crate) use crate::workload::resp::MIXED;

use crate::defaults::{KEYS, WEIGHT_MAX};
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::workload::http::{BODY, METHOD, is_token};
use crate::workload::resp::{KEY_DISTRIBUTION, KEYS_FIELD, VERIFY_WRITES, refuse_several_servers};
use model::data::DataFile;
use model::hide;
use model::plan::{HttpRequest, OnError, Workload};
use model::resp::KeyDistribution;
use model::template::{self, KEY, Name, Piece};
use model::workload::http::{HttpAsked, HttpKeys, Use};

/// Methods of one mix at most.
const METHODS_MAX: usize = 16;
/// Statuses that are good where to find nothing is as good as a value.
const OR_NOTHING: &[(u16, u16)] = &[(100, 399), (404, 404), (410, 410)];

/// Whether a body is given.
pub(crate) fn has_body(http: &HttpAsked) -> bool {
    http.body.is_some() || http.body_file.is_some()
}

/// What is asked with each method of the mix, and its weight; without a mix the one thing that is asked. A body goes with
/// the methods that write.
///
/// # Errors
/// A mix that is none, or that contradicts what else is asked.
pub(crate) fn mixed(http: &HttpAsked) -> Result<Vec<(HttpAsked, f64)>, ResolveError> {
    let Some(mix) = &http.mix else { return Ok(vec![(http.clone(), 1.0)]) };
    let conflict =
        |with: Words, instead: &str| Err(ResolveError::Conflict { what: MIXED.into(), with, instead: instead.into() });
    if http.method.is_some() {
        return conflict(METHOD.into(), "name each method once, in the mix");
    }
    let bad = |expected: String| ResolveError::bad_value(MIXED, expected, hide::mix(mix));
    let form = || bad("METHOD=WEIGHT,…, such as GET=50,PUT=50, each weight above 0 and at most 1e9".to_owned());
    let mut kinds: Vec<(HttpAsked, f64)> = Vec::new();
    for piece in mix.split(',') {
        let (method, weight) = match piece.split_once('=') {
            None => (piece.trim(), 1.0),
            Some(_) if http.sequence => {
                return conflict("a weight in a sequence".into(), "leave it out, each is sent in its turn");
            }
            Some((method, weight)) => (method.trim(), weight.trim().parse::<f64>().map_err(|_| form())?),
        };
        if !(weight > 0.0 && weight <= WEIGHT_MAX && is_token(method)) {
            return Err(form());
        }
        if kinds.iter().any(|(other, _)| other.method.as_deref() == Some(method)) {
            return Err(bad("each method once, with its whole weight".to_owned()));
        }
        let mut kind = HttpAsked { method: Some(method.to_owned()), ..http.clone() };
        if Use::of(method) != Use::Writes {
            (kind.body, kind.body_file) = (None, None);
        }
        kinds.push((kind, weight));
    }
    if kinds.len() > METHODS_MAX {
        return Err(bad(format!("at most {METHODS_MAX} methods")));
    }
    if has_body(http) && !kinds.iter().any(|(kind, _)| has_body(kind)) {
        return Err(ResolveError::Conflict {
            what: BODY.into(),
            with: words!["a mix without PUT, POST or PATCH"],
            instead: "leave it out, no method of the mix has one".into(),
        });
    }
    Ok(kinds)
}

/// The keys of requests whose templates have been looked through; `None` where none names one.
///
/// # Errors
/// Something is said of keys and no request names one; none at all; writes that cannot be looked for.
pub(crate) fn keys(
    http: &HttpAsked,
    files: &[DataFile],
    requests: &mut [HttpRequest],
) -> Result<Option<HttpKeys>, ResolveError> {
    let is_taken = requests.iter().flat_map(|request| &request.take).any(|take| take.name == KEY);
    let is_another = is_taken || files.iter().any(|file| file.column(KEY).is_some());
    if is_another || !requests.iter().any(names_key) {
        let said = [
            (KEYS_FIELD, http.keys.is_some()),
            (KEY_DISTRIBUTION, http.key_distribution.is_some()),
            (VERIFY_WRITES, http.verify_writes),
        ];
        let Some((field, _)) = said.into_iter().find(|(_, is_said)| *is_said) else { return Ok(None) };
        let with = match is_another {
            true => "a column or a value that is called 'key'",
            false => "requests without '{{key}}'",
        };
        let instead = match is_another {
            true => "give that another name",
            false => "write it where the key belongs, such as /items/{{key}}",
        };
        return Err(ResolveError::Conflict { what: field.into(), with: with.into(), instead: instead.into() });
    }
    let count = http.keys.unwrap_or(KEYS);
    if count == 0 {
        return Err(ResolveError::bad_value(KEYS_FIELD, "at least 1 key", 0));
    }
    if http.verify_writes {
        refuse_unverifiable(requests)?;
        for request in requests.iter_mut().filter(|request| request.expect.status.is_empty()) {
            if matches!(Use::of(&request.method), Use::Reads | Use::Deletes) && names_key_in_target(request) {
                request.expect.status = OR_NOTHING.to_vec();
            }
        }
    }
    let distribution = http.key_distribution.unwrap_or(KeyDistribution::Uniform);
    Ok(Some(HttpKeys { count, distribution, verify_writes: http.verify_writes }))
}

fn is_key(piece: &Piece) -> bool {
    matches!(piece, Piece::Value(Name::Named(name), _) if name == KEY)
}

/// The pieces of a text of a request; one without braces is a piece of its own.
fn pieces(request: &HttpRequest, text: &[u8]) -> Vec<Piece> {
    // Texts that are no templates were refused before.
    if request.is_template { template::pieces(text).unwrap_or_default() } else { Vec::new() }
}

fn names_key_in_target(request: &HttpRequest) -> bool {
    pieces(request, request.target.expose()).iter().any(is_key)
}

fn names_key(request: &HttpRequest) -> bool {
    let in_text = |text: &[u8]| pieces(request, text).iter().any(is_key);
    names_key_in_target(request)
        || in_text(request.body.bytes.expose())
        || request.headers.iter().any(|(_, value)| in_text(value.expose()))
}

/// What was acknowledged can be looked for only where it is written and read under one name, which says it all, and nothing
/// takes it away unknown.
fn refuse_unverifiable(requests: &[HttpRequest]) -> Result<(), ResolveError> {
    let conflict = |with: String, instead: &str| {
        Err(ResolveError::Conflict { what: VERIFY_WRITES.into(), with: with.into(), instead: instead.into() })
    };
    let shown = |request: &HttpRequest| format!("'{} {}'", request.method, request.target);
    let is_value = |piece: &&Piece| matches!(piece, Piece::Value(..));
    let keyed: Vec<&HttpRequest> = requests.iter().filter(|request| names_key_in_target(request)).collect();
    for request in requests {
        let names_key = names_key_in_target(request);
        match Use::of(&request.method) {
            Use::Unknown => {
                return conflict(
                    shown(request),
                    "what it does to values is not known, use GET, HEAD, PUT, POST, PATCH and DELETE",
                );
            }
            Use::Writes | Use::Deletes if !names_key => {
                return conflict(
                    shown(request),
                    "what it does to values is not known, write '{{key}}' into its path or leave it out",
                );
            }
            _ => {}
        }
        if !names_key {
            continue;
        }
        if pieces(request, request.target.expose()).iter().filter(is_value).any(|piece| !is_key(piece)) {
            return conflict(
                shown(request),
                "'{{key}}' must be all that differs in the path, as it alone is remembered",
            );
        }
        if let Some(first) = keyed.first().filter(|first| first.target != request.target) {
            let with = format!("{} and {}", shown(first), shown(request));
            return conflict(with, "what one writes need not be what the other reads, give both the same path");
        }
        let depends_on_user =
            |piece: &Piece| matches!(piece, Piece::Value(Name::User | Name::Named(_), _)) && !is_key(piece);
        let fields = request.headers.iter().flat_map(|(_, value)| pieces(request, value.expose()));
        if fields.into_iter().any(|piece| depends_on_user(&piece)) {
            let with = format!("{} with a header field of its own for each user", shown(request));
            return conflict(with, "what one user writes another need not see, send the same field for all");
        }
    }
    let has = |wanted: Use| keyed.iter().any(|request| Use::of(&request.method) == wanted);
    if !has(Use::Reads) || !has(Use::Writes) {
        let instead = "what is to be looked for is written and read, such as with a mix of GET=50,PUT=50";
        return conflict("requests without both GET and PUT, POST or PATCH of '{{key}}'".to_owned(), instead);
    }
    refuse_several_servers(keyed.iter().map(|request| request.origin))
}

/// Whether requests take away what they are to look for: then each worker needs a key of its own, and an attempt that
/// seems to have failed must not be followed by another, as it may still take something away.
///
/// # Errors
/// Fewer keys than workers; a policy that tries again.
pub(crate) fn refuse_deletes(workload: &Workload, threads: u16, policy: OnError) -> Result<(), ResolveError> {
    let Workload::Http1(http) = workload else { return Ok(()) };
    let deletes = http.requests.iter().any(|request| request.method == "DELETE");
    let Some(keys) = http.keys.as_ref().filter(|keys| keys.verify_writes && deletes) else { return Ok(()) };
    if keys.count < u32::from(threads) {
        let expected = format!("at least {threads} keys, one for each worker thread, as each deletes its own alone");
        return Err(ResolveError::bad_value(KEYS_FIELD, expected, keys.count));
    }
    if !policy.is_fail_fast() {
        return Err(ResolveError::Conflict {
            what: VERIFY_WRITES.into(),
            with: words![Field::OnError, " and DELETE"],
            instead: "one that is tried again may be done twice, and later than it is answered, leave one of them out"
                .into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mix: &str, change: impl FnOnce(&mut HttpAsked)) -> String {
        let mut http = HttpAsked { mix: Some(mix.to_owned()), ..HttpAsked::default() };
        change(&mut http);
        match mixed(&http) {
            Ok(kinds) => {
                let one = |(kind, weight): &(HttpAsked, f64)| {
                    let body = if has_body(kind) { "+body" } else { "" };
                    format!("{}{body}={weight}", kind.method.as_deref().unwrap_or_default())
                };
                kinds.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_mix_is_methods_with_weights_and_the_body_goes_with_those_that_write() {
        let body = |http: &mut HttpAsked| http.body = Some("x".into());
        assert_eq!(shown("GET=80, PUT=20", body), "GET=80 PUT+body=20");
        assert_eq!(shown("POST,PATCH,DELETE=0.5,HEAD", body), "POST+body=1 PATCH+body=1 DELETE=0.5 HEAD=1");
        assert_eq!(shown("PUT,GET", |http| http.sequence = true), "PUT=1 GET=1");
        for (bad, why) in [
            ("", "METHOD=WEIGHT"),
            ("GET,", "METHOD=WEIGHT"),
            ("HSET h f", "METHOD=WEIGHT"),
            ("GET=x", "METHOD=WEIGHT"),
            ("GET=0", "METHOD=WEIGHT"),
            ("GET=-1", "METHOD=WEIGHT"),
            ("GET=inf", "METHOD=WEIGHT"),
            ("GET,GET=2", "each method once"),
            ("A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P,Q", "at most 16"),
        ] {
            let said = shown(bad, |_| {});
            assert!(said.starts_with("mix: expected ") && said.contains(why), "{bad}: {said}");
        }
        let conflict = |mix, change: fn(&mut HttpAsked), with: &str| {
            let said = shown(mix, change);
            assert!(said.contains("cannot be used with") && said.contains(with), "{said}");
        };
        conflict("GET", |http| http.method = Some("PUT".into()), "method");
        conflict("GET", |http| http.body = Some("x".into()), "a mix without PUT");
        conflict("GET=1,PUT=2", |http| http.sequence = true, "a weight in a sequence");
    }

    /// Requests as they were resolved: method, target, and a header field where it is not empty.
    fn verified(requests: &[(&str, &str, &str)]) -> Result<HttpKeys, String> {
        let request = |(method, target, field): &(&str, &str, &str)| HttpRequest {
            method: (*method).to_owned(),
            target: hide::secret_target(target),
            headers: vec![("X".to_owned(), (*field).into())],
            is_template: true,
            ..HttpRequest::default()
        };
        let mut requests: Vec<HttpRequest> = requests.iter().map(request).collect();
        let http = HttpAsked { verify_writes: true, ..HttpAsked::default() };
        keys(&http, &[], &mut requests).map(Option::unwrap).map_err(|error| error.to_string())
    }

    #[test]
    fn only_what_can_be_looked_for_is_verified() {
        for good in [
            &[("GET", "/i/{{key}}", ""), ("PUT", "/i/{{key}}", "")][..],
            &[("HEAD", "/i?id={{key}}", "a"), ("POST", "/i?id={{key}}", "b"), ("DELETE", "/i?id={{key}}", "")],
            &[
                ("GET", "/i/{{key}}", "{{uuid}}"),
                ("PATCH", "/i/{{key}}", "{{key}} {{seq}}"),
                ("GET", "/other", "{{user}}"),
            ],
        ] {
            assert_eq!(verified(good).map(|keys| (keys.count, keys.verify_writes)), Ok((10_000, true)), "{good:?}");
        }
        for (bad, why) in [
            (&[("GET", "/i/1", ""), ("PUT", "/i/1", "")][..], "requests without '{{key}}'"),
            (&[("GET", "/i/{{key}}", "")], "without both GET and PUT"),
            (&[("PUT", "/i/{{key}}", ""), ("DELETE", "/i/{{key}}", "")], "without both GET and PUT"),
            (&[("GET", "/i/{{key}}", ""), ("PUT", "/i/{{key}}", ""), ("POST", "/clear", "")], "'POST /clear'"),
            (
                &[("GET", "/i/{{key}}", ""), ("PUT", "/i/{{key}}", ""), ("PURGE", "/i/{{key}}", "")],
                "'PURGE /i/{{key}}'",
            ),
            (&[("GET", "/a/{{key}}", ""), ("PUT", "/b/{{key}}", "")], "give both the same path"),
            (&[("GET", "/{{uuid}}/{{key}}", ""), ("PUT", "/{{uuid}}/{{key}}", "")], "all that differs in the path"),
            (&[("GET", "/i/{{key}}", "{{user}}"), ("PUT", "/i/{{key}}", "")], "a header field of its own"),
            (&[("GET", "/i/{{key}}", ""), ("PUT", "/i/{{key}}", "{{token}}")], "a header field of its own"),
        ] {
            let said = verified(bad).unwrap_err();
            assert!(said.starts_with("verify_writes cannot be used with ") && said.contains(why), "{bad:?}: {said}");
            assert_eq!(said.lines().count(), 1);
        }
    }

    #[test]
    fn what_nobody_has_written_may_be_missing() {
        let request = |method: &str| HttpRequest {
            method: method.to_owned(),
            target: "/i/{{key}}".into(),
            is_template: true,
            ..HttpRequest::default()
        };
        let mut requests = ["GET", "PUT", "DELETE"].map(request);
        let http = HttpAsked { verify_writes: true, ..HttpAsked::default() };
        keys(&http, &[], &mut requests).unwrap();
        assert_eq!(requests.each_ref().map(|request| request.expect.accepts(404)), [true, false, true]);
        assert!(requests[0].expect.accepts(304) && !requests[0].expect.accepts(403));
        requests[0].expect.status = vec![(200, 200)];
        keys(&http, &[], &mut requests).unwrap();
        assert!(!requests[0].expect.accepts(404), "what was said stays");
    }
}
