//! What an HTTP/1.1 request says: method, fields in order, body, and what reply is a good one.
//!
//! Defaults are `Host`, `User-Agent`, `Accept`, and `Authorization` from `-u` or the URL; a field of the same name
//! replaces its default, `Name:` removes it, `Name;` sends it empty (as curl has it). `Content-Length` and
//! `Connection` are not defaults: they follow from body and keep-alive and are added when the request is written.
//! Every URL has its own copy of the body, so the sum is bounded.

use super::defaults::BODY_BYTES_MAX;
use super::error::ResolveError;
use super::host::Host;
use super::origin::Asked;
use base64::Engine as _;
use model::limits::HEAD_BYTES_MAX;
use model::plan::{Body, Expect, Http1, HttpRequest};
use model::{Scenario, Secret, hide};
use sha2::Digest as _;
use std::path::Path;

/// Smallest bound of a reply's head that lets a status line through, bytes.
const HEAD_BYTES_MIN: u32 = 64;

/// Builds the workload; `of_url` gives each URL's origin.
pub(super) fn build(
    scenario: &Scenario,
    asked: &[Asked],
    of_url: &[u16],
    host: &dyn Host,
) -> Result<Http1, ResolveError> {
    let body = body(scenario, asked.len(), host)?;
    let method = method(scenario, &body)?;
    let own = scenario.headers.iter().map(|text| field(text)).collect::<Result<Vec<_>, _>>()?;
    for field in &own {
        refuse_reserved(field, scenario.disable_keepalive)?;
    }
    let user = scenario.user.as_ref().map(user).transpose()?;
    let expect = expect(scenario)?;
    let head_bytes_max = match scenario.head_bytes_max {
        None => HEAD_BYTES_MAX,
        Some(bytes @ HEAD_BYTES_MIN..=0x0100_0000) => bytes,
        Some(bytes) => return Err(ResolveError::bad_value("--max-head", "64B to 16MiB", bytes)),
    };
    let requests = asked
        .iter()
        .zip(of_url)
        .map(|(url, origin)| HttpRequest {
            origin: *origin,
            weight: url.weight,
            method: method.clone(),
            target: url.parsed.target.clone(),
            headers: headers(&url.parsed.authority(), user.or(url.parsed.credentials.as_deref()), &own),
            body: body.clone(),
            expect: expect.clone(),
        })
        .collect();
    Ok(Http1 { requests, keep_alive: !scenario.disable_keepalive, head_bytes_max })
}

fn method(scenario: &Scenario, body: &Body) -> Result<String, ResolveError> {
    match scenario.method.as_deref() {
        None if body.sha256.is_empty() => Ok("GET".to_owned()),
        None => Ok("POST".to_owned()),
        Some(method) if !is_token(method) => Err(ResolveError::bad_value("-X", "a method such as GET or POST", method)),
        Some("CONNECT") => {
            Err(ResolveError::bad_value("-X", "a method other than CONNECT, which makes a tunnel", "CONNECT"))
        }
        Some(method) => Ok(method.to_owned()),
    }
}

fn body(scenario: &Scenario, urls: usize, host: &dyn Host) -> Result<Body, ResolveError> {
    let bytes_max = BODY_BYTES_MAX / urls.max(1) as u64;
    let bytes = match (&scenario.body, &scenario.body_file) {
        (None, None) => return Ok(Body::default()),
        (Some(_), Some(_)) => {
            return Err(ResolveError::Conflict {
                flag: "--body",
                with: "a body from a file".to_owned(),
                instead: "give the body once",
            });
        }
        (Some(text), None) => text.expose().to_vec(),
        (None, Some(path)) => read(path, bytes_max, host)?,
    };
    let length = bytes.len() as u64;
    if length > bytes_max {
        return Err(ResolveError::TooMuch {
            what: "--body, bytes for each URL",
            most: bytes_max,
            got: length,
            instead: "send a smaller body, or name fewer URLs",
        });
    }
    Ok(Body { sha256: hex(&sha2::Sha256::digest(&bytes)), bytes, length })
}

fn read(path: &Path, bytes_max: u64, host: &dyn Host) -> Result<Vec<u8>, ResolveError> {
    host.read_file(path, bytes_max).map_err(|source| ResolveError::CannotRead {
        flag: "--body",
        path: path.to_owned(),
        source,
    })
}

/// A field of the user's.
struct Field {
    name: String,
    /// `None`: the default of this name is not sent.
    value: Option<String>,
}

fn field(text: &str) -> Result<Field, ResolveError> {
    let bad = || ResolveError::bad_value("-H", "'Name: value' without control characters", hide::field(text));
    let (name, value) = match (text.split_once(':'), text.strip_suffix(';')) {
        (Some((name, value)), _) => {
            let value = value.trim_matches([' ', '\t']);
            (name, (!value.is_empty()).then(|| value.to_owned()))
        }
        (None, Some(name)) => (name, Some(String::new())),
        (None, None) => return Err(bad()),
    };
    // RFC 9110 §5.5: no CR, LF or NUL; the other controls are "invalid" too, but for the tab.
    let is_clean = value.as_deref().unwrap_or_default().chars().all(|c| !c.is_control() || c == '\t');
    if is_token(name) && is_clean { Ok(Field { name: name.to_owned(), value }) } else { Err(bad()) }
}

fn refuse_reserved(field: &Field, disable_keepalive: bool) -> Result<(), ResolveError> {
    let conflict = |with: &str, instead| ResolveError::Conflict { flag: "-H", with: with.to_owned(), instead };
    match field.name.to_ascii_lowercase().as_str() {
        "content-length" => Err(conflict("Content-Length", "leave it out, it is written from the body")),
        "connection" => match (field.value.as_deref().map(str::to_ascii_lowercase).as_deref(), disable_keepalive) {
            // These say what is done anyway.
            (None, _) | (Some("keep-alive"), false) | (Some("close"), true) => Ok(()),
            _ => Err(conflict("Connection", "leave it out, it follows from --disable-keepalive")),
        },
        _ => Ok(()),
    }
}

fn headers(authority: &str, credentials: Option<&[u8]>, own: &[Field]) -> Vec<(String, String)> {
    let mut fields = vec![
        ("Host".to_owned(), authority.to_owned()),
        ("User-Agent".to_owned(), concat!("plimsoll/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("Accept".to_owned(), "*/*".to_owned()),
    ];
    if let Some(credentials) = credentials {
        let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
        fields.push(("Authorization".to_owned(), format!("Basic {encoded}")));
    }
    let defaults = fields.len();
    let mut is_replaced = vec![false; defaults];
    for Field { name, value } in own {
        let default = fields[..defaults].iter().position(|(default, _)| default.eq_ignore_ascii_case(name));
        match (default, value) {
            // The first one takes its default's place; further ones of the name follow at the end.
            (Some(at), Some(value)) if !is_replaced[at] => {
                fields[at] = (name.clone(), value.clone());
                is_replaced[at] = true;
            }
            (Some(at), None) if !is_replaced[at] => {
                fields[at].0.clear();
                is_replaced[at] = true;
            }
            (_, Some(value)) => fields.push((name.clone(), value.clone())),
            (_, None) => {}
        }
    }
    fields.retain(|(name, _)| !name.is_empty());
    fields
}

/// `USER:PASSWORD`, checked.
pub(super) fn user(both: &Secret) -> Result<&[u8], ResolveError> {
    let is_clean = |text: &str| text.contains(':') && !text.chars().any(char::is_control);
    match std::str::from_utf8(both.expose()) {
        Ok(text) if is_clean(text) => Ok(both.expose()),
        _ => Err(ResolveError::bad_value("-u", "USER:PASSWORD", both)),
    }
}

fn expect(scenario: &Scenario) -> Result<Expect, ResolveError> {
    let status = scenario
        .expect_status
        .iter()
        .flat_map(|text| text.split(','))
        .map(|text| {
            statuses(text.trim()).ok_or_else(|| {
                ResolveError::bad_value("--expect-status", "statuses from 100 to 599 such as 200, 200-299 or 2xx", text)
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let body_sha256 = match scenario.expect_body_sha256.as_deref() {
        Some(hex) if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            return Err(ResolveError::bad_value("--expect-body-sha256", "64 hexadecimal digits", hex));
        }
        other => other.map(str::to_ascii_lowercase),
    };
    if let Some(text) = &scenario.expect_body {
        regex::bytes::Regex::new(text).map_err(|error| {
            // The crate draws the place over several lines; the last one names the fault.
            let shown = error.to_string();
            let why = shown.lines().last().unwrap_or_default().trim_start_matches("error: ");
            ResolveError::bad_value("--expect-body", format!("a regular expression ({why})"), text)
        })?;
    }
    Ok(Expect { status, body_sha256, body_regex: scenario.expect_body.clone() })
}

fn statuses(text: &str) -> Option<(u16, u16)> {
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (low.trim().parse().ok()?, high.trim().parse().ok()?),
        None => match text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
            Some(class) => {
                let class = class.parse::<u16>().ok().filter(|class| *class < 6)? * 100;
                (class, class + 99)
            }
            None => (text.parse().ok()?, text.parse().ok()?),
        },
    };
    (100 <= low && low <= high && high <= 599).then_some((low, high))
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::super::url;
    use super::*;

    fn built(url: &str, change: impl FnOnce(&mut Scenario)) -> Result<Http1, ResolveError> {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        let asked = [Asked { text: url.to_owned(), parsed: url::parse(url).unwrap(), weight: 1.0 }];
        build(&scenario, &asked, &[0], &FakeHost::default())
    }

    #[track_caller]
    fn check(url: &str, change: impl FnOnce(&mut Scenario), expected: &str) {
        let got = match built(url, change) {
            Ok(http) => {
                let request = &http.requests[0];
                let fields: Vec<String> = request.headers.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                let shown = format!("{} {} | {}", request.method, request.target, fields.join(" | "));
                shown.replace(env!("CARGO_PKG_VERSION"), "V")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    fn with_headers(headers: &[&str]) -> impl FnOnce(&mut Scenario) {
        let headers = headers.iter().map(|h| (*h).to_owned()).collect();
        |scenario| scenario.headers = headers
    }

    #[test]
    fn defaults_and_what_replaces_them() {
        check("http://h:81/x?y", |_| {}, "GET /x?y | Host: h:81 | User-Agent: plimsoll/V | Accept: */*");
        check(
            "http://h/",
            with_headers(&["host: other", "X-A: 1", "x-a:\t2 ", "Accept:", "User-Agent;", "HOST: third"]),
            "GET / | host: other | User-Agent:  | X-A: 1 | x-a: 2 | HOST: third",
        );
        check(
            "http://h/",
            with_headers(&["Accept: a", "Accept:", "X:"]),
            "GET / | Host: h | User-Agent: plimsoll/V | Accept: a",
        );
        check("unix:/s:/x", with_headers(&["User-Agent:", "Accept:"]), "GET /x | Host: localhost");
        check("http://[::1]:8080", with_headers(&["User-Agent:", "Accept:"]), "GET / | Host: [::1]:8080");
        check("http://h", with_headers(&["Host:", "User-Agent:", "Accept:", "X: a:b"]), "GET / | X: a:b");
    }

    #[test]
    fn credentials_come_from_flag_then_url_and_yield_to_a_header() {
        let basic =
            |encoded| format!("GET / | Host: h | User-Agent: plimsoll/V | Accept: */* | Authorization: {encoded}");
        // RFC 7617 §2 has this very example.
        check(
            "http://h/",
            |s| s.user = Some("Aladdin:open sesame".into()),
            &basic("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        );
        check("http://Aladdin:open%20sesame@h/", |_| {}, &basic("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        check(
            "http://a:b@h/",
            |s| s.user = Some("Aladdin:open sesame".into()),
            &basic("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        );
        check("http://a:b@h/", with_headers(&["Authorization: Bearer t"]), &basic("Bearer t"));
        check("http://h/", |s| s.user = Some("secret".into()), "-u: expected USER:PASSWORD, got '***'");
    }

    #[test]
    fn fields_that_would_break_the_framing_are_refused() {
        for bad in ["", "x", ": v", "a b: c", "a: b\r\nc: d", "a: \0", "a\n: b", "ä: b", ";", "a:\x7f"] {
            let error = built("http://h/", with_headers(&[bad])).unwrap_err();
            assert!(
                error.is_usage() && error.to_string().starts_with("-H: expected 'Name: value'"),
                "{bad:?}: {error}"
            );
            assert_eq!(error.to_string().lines().count(), 1);
        }
        for bad in ["content-length: 3", "Connection: close", "Connection: upgrade"] {
            let error = built("http://h/", with_headers(&[bad])).unwrap_err();
            assert!(matches!(error, ResolveError::Conflict { flag: "-H", .. }), "{bad}: {error}");
        }
        assert!(built("http://h/", with_headers(&["a: ü\tb"])).is_ok());
        let kept = built("http://h/", with_headers(&["Connection: Keep-Alive"])).unwrap();
        assert_eq!(kept.requests[0].headers.last().unwrap().1, "Keep-Alive", "it says what is done anyway");
    }

    #[test]
    fn bodies_choose_the_method_and_are_digested() {
        let posted = built("http://h/", |s| s.body = Some("abc".into())).unwrap().requests.remove(0);
        assert_eq!(
            (posted.method.as_str(), posted.body.length, posted.body.bytes.as_slice()),
            ("POST", 3, &b"abc"[..])
        );
        // FIPS 180-2, appendix B.1.
        assert_eq!(posted.body.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let put = built("http://h/", |s| (s.body_file, s.method) = (Some("/body".into()), Some("PUT".into()))).unwrap();
        assert_eq!((put.requests[0].method.as_str(), &put.requests[0].body.bytes[..]), ("PUT", &b"a\0b"[..]));
        let empty = built("http://h/", |s| s.body = Some("".into())).unwrap().requests.remove(0);
        assert_eq!(empty.method, "POST", "an empty body is a body");
        let error = built("http://h/", |s| s.body_file = Some("/gone".into())).unwrap_err();
        assert!(
            !error.is_usage()
                && error.to_string().starts_with("--body: expected a file that can be read, got '/gone' (")
        );
        for bad in ["", "GET /", "G\r\n", "CONNECT"] {
            assert!(built("http://h/", |s| s.method = Some(bad.to_owned())).unwrap_err().is_usage(), "{bad}");
        }
    }

    #[test]
    fn bodies_of_many_urls_are_bounded_together() {
        let scenario = Scenario { body_file: Some("/endless".into()), ..Scenario::default() };
        let error = body(&scenario, 1024, &FakeHost::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--body, bytes for each URL: expected at most 1048576, got 1048577: send a smaller body, or name fewer URLs"
        );
    }

    #[test]
    fn expectations_are_read() {
        let status = |text: &str| {
            let text = vec![text.to_owned()];
            built("http://h/", |s| s.expect_status = text).map(|http| http.requests[0].expect.status.clone())
        };
        assert_eq!(status("200").unwrap(), [(200, 200)]);
        assert_eq!(status("2xx, 404,500-503").unwrap(), [(200, 299), (404, 404), (500, 503)]);
        for bad in ["", "x", "99", "600", "300-200", "200-", "6xx", "xx", "655xx", "65535xx", "200,,"] {
            assert!(status(bad).unwrap_err().to_string().starts_with("--expect-status: expected statuses"), "{bad}");
        }
        let digest = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        let http = built("http://h/", |s| s.expect_body_sha256 = Some(digest.into())).unwrap();
        assert_eq!(http.requests[0].expect.body_sha256, Some(digest.to_lowercase()));
        assert!(built("http://h/", |s| s.expect_body_sha256 = Some("ab".into())).unwrap_err().is_usage());
        let error = built("http://h/", |s| s.expect_body = Some("a(b".into())).unwrap_err().to_string();
        assert_eq!(error, "--expect-body: expected a regular expression (unclosed group), got 'a(b'");
        assert!(built("http://h/", |s| s.head_bytes_max = Some(1)).unwrap_err().is_usage());
        assert_eq!(built("http://h/", |_| {}).unwrap().head_bytes_max, 65_536);
    }
}
