//! `http://`: what an HTTP/1.1 request says, method, fields in order, body, and what reply is a good one.
//!
//! Defaults are `Host`, `User-Agent`, `Accept`, and `Authorization` from `-u` or the URL; a field of the same name
//! replaces its default, `Name:` removes it, `Name;` sends it empty (as curl has it). `Content-Length` and
//! `Connection` are not defaults: they follow from body and keep-alive and are added when the request is written.
//! Every URL has its own copy of the body, so the sum is bounded.

use crate::defaults::{BODY_BYTES_MAX, HTTP_PORT, HTTPS_PORT};
use crate::host::Host;
use crate::origin::Asked;
use crate::requests::data::DATA;
use crate::requests::{self, keyed, named, of_urls};
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::url::{Endpoint, Place, unix, web};
use crate::workload::resp::{KEY_DISTRIBUTION, KEYS_FIELD, MIXED, VERIFY_WRITES};
use crate::workload::{Link, MadeOf, Protocol, Scheme};
use base64::Engine as _;
use model::limits::HEAD_BYTES_MAX;
use model::plan::{Body, Expect, Http1, HttpRequest, Plan, Workload};
use model::workload::Asked as _;
use model::workload::http::{HttpAsked, RequestAsked};
use model::{Scenario, Secret, hide};
use sha2::Digest as _;
use std::path::Path;

/// Smallest bound of a reply's head that lets a status line through, bytes.
const HEAD_BYTES_MIN: u32 = 64;

/// The method.
pub(crate) const METHOD: Field = Field::Own("method");
/// Header fields.
pub(crate) const HEADERS: Field = Field::Own("headers");
/// Body, text or a file.
pub(crate) const BODY: Field = Field::Own("body");
/// User and password; RESP's, too.
pub(crate) const USER: Field = Field::Own("user");
/// Accepted statuses.
const EXPECT_STATUS: Field = Field::Own("expect_status");
/// What every body must match.
const EXPECT_BODY: Field = Field::Own("expect_body");
/// The digest every body must have.
const EXPECT_BODY_SHA256: Field = Field::Own("expect_body_sha256");
/// Close after each reply.
const DISABLE_KEEPALIVE: Field = Field::Own("disable_keepalive");
/// The bound of a reply's head.
const MAX_HEAD: Field = Field::Own("max_head");

/// See the file's head.
pub(crate) struct HttpProtocol;

impl Protocol for HttpProtocol {
    fn name(&self) -> &'static str {
        HttpAsked::PROTOCOL
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[
            Scheme { name: "http", link: Link::Tcp, port: HTTP_PORT, hides_port: true },
            Scheme { name: "https", link: Link::Tls, port: HTTPS_PORT, hides_port: true },
            Scheme { name: "unix", link: Link::Unix, port: 0, hides_port: false },
        ]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["http:// or https://HOST:PORT/PATH", "unix:/PATH.sock[:/PATH]"]
    }

    fn examples(&self) -> &'static [&'static str] {
        &["http://HOST:PORT/PATH", "https://HOST/", "unix:/PATH.sock", "unix:/PATH.sock:/PATH"]
    }

    fn fields(&self) -> &'static [Field] {
        &[
            METHOD,
            HEADERS,
            BODY,
            USER,
            EXPECT_STATUS,
            EXPECT_BODY,
            EXPECT_BODY_SHA256,
            DISABLE_KEEPALIVE,
            MAX_HEAD,
            requests::REQUESTS,
            requests::SEQUENCE,
            DATA,
            requests::DATA_ORDER,
            requests::CHECK,
            requests::NO_TEMPLATES,
            MIXED,
            KEYS_FIELD,
            KEY_DISTRIBUTION,
            VERIFY_WRITES,
        ]
    }

    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String> {
        if scheme.link != Link::Unix {
            return web(scheme, text);
        }
        let (endpoint, target) = unix(text)?;
        let has_path = target.is_some();
        Ok(Place { endpoint, target: target.unwrap_or_else(|| "/".to_owned()), has_path, credentials: None })
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["http/1.1"]
    }

    fn closes_after_each(&self, scenario: &Scenario) -> Option<Field> {
        scenario.asked::<HttpAsked>().disable_keepalive.then_some(DISABLE_KEEPALIVE)
    }

    fn says_what_is_good(&self, scenario: &Scenario) -> bool {
        let asked: HttpAsked = scenario.asked();
        let of_request = |r: &RequestAsked| !(r.expect_status.is_empty() && r.check.is_empty());
        !asked.expect_status.is_empty()
            || asked.expect_body.is_some()
            || asked.expect_body_sha256.is_some()
            || !asked.check.is_empty()
            || asked.requests.iter().any(of_request)
    }

    fn of_requests(&self, scenario: &Scenario) -> Option<Field> {
        let asked: HttpAsked = scenario.asked();
        let given = [
            (METHOD, asked.method.is_some()),
            (HEADERS, !asked.headers.is_empty()),
            (BODY, asked.body.is_some() || asked.body_file.is_some()),
            (USER, asked.user.is_some()),
            (EXPECT_STATUS, !asked.expect_status.is_empty()),
            (EXPECT_BODY, asked.expect_body.is_some()),
            (EXPECT_BODY_SHA256, asked.expect_body_sha256.is_some()),
            (DISABLE_KEEPALIVE, asked.disable_keepalive),
            (MAX_HEAD, asked.head_bytes_max.is_some()),
            (requests::REQUESTS, !asked.requests.is_empty()),
            (requests::SEQUENCE, asked.sequence),
            (DATA, !asked.data.is_empty()),
            (requests::DATA_ORDER, asked.data_order.is_some()),
            (requests::CHECK, !asked.check.is_empty()),
            (requests::NO_TEMPLATES, asked.no_templates),
            (MIXED, asked.mix.is_some()),
            (KEYS_FIELD, asked.keys.is_some()),
            (KEY_DISTRIBUTION, asked.key_distribution.is_some()),
            (VERIFY_WRITES, asked.verify_writes),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
    }

    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError> {
        let asked: HttpAsked = made_of.scenario.asked();
        requests::refuse(&asked, made_of.scenario, made_of.pace)?;
        build(&asked, made_of.asked, made_of.of_url, made_of.host).map(Workload::Http1)
    }

    fn warnings(&self, plan: &Plan, scenario: &Scenario, asked: &[Asked], found: &mut Vec<Words>) {
        let on_tls_port = |url: &&Asked| {
            url.parsed.scheme.link == Link::Tcp
                && matches!(url.parsed.place.endpoint, Endpoint::Tcp { port: HTTPS_PORT, .. })
        };
        if let Some(url) = asked.iter().find(on_tls_port) {
            found.push(
                format!(
                    "URL '{}' speaks plain HTTP to port {HTTPS_PORT}, where servers expect TLS: check scheme and port",
                    url.text
                )
                .into(),
            );
        }
        let of_scenario: HttpAsked = scenario.asked();
        if let Some(method) = of_scenario.method.filter(|m| m.chars().any(|c| c.is_ascii_lowercase())) {
            found.push(
                format!(
                    "methods are case-sensitive: '{method}' is sent as written, most servers know {}",
                    method.to_ascii_uppercase()
                )
                .into(),
            );
        }
        let is_other = |protocol: &&String| !["http/1.1", "http/1.0"].contains(&protocol.as_str());
        if let Some(other) = plan.tls.iter().flat_map(|tls| &tls.alpn).find(is_other) {
            found.push(words![
                (Field::Alpn, other),
                ": a server that takes it up expects it, and HTTP/1.1 is what is spoken"
            ]);
        }
    }
}

/// Builds the workload; `of_url` gives each URL's origin.
fn build(http: &HttpAsked, asked: &[Asked], of_url: &[u16], host: &dyn Host) -> Result<Http1, ResolveError> {
    let head_bytes_max = match http.head_bytes_max {
        None => HEAD_BYTES_MAX,
        Some(bytes @ HEAD_BYTES_MIN..=0x0100_0000) => bytes,
        Some(bytes) => return Err(ResolveError::bad_value(MAX_HEAD, "64B to 16MiB", bytes)),
    };
    let checks = requests::checks(&http.check)?;
    let mut all = match http.requests.is_empty() {
        true => of_urls(http, asked, of_url, host)?,
        false => named(http, asked, host)?,
    };
    for request in &mut all {
        request.checks.splice(..0, checks.iter().cloned());
    }
    if http.sequence && all.len() > 1 && asked.len() > 1 {
        return Err(ResolveError::Conflict {
            what: requests::SEQUENCE.into(),
            with: "several URLs".into(),
            instead: words!["name the requests in a file, with ", requests::REQUESTS],
        });
    }
    let data = requests::files(http)?;
    requests::templates(http, &data, &mut all)?;
    let keys = keyed::keys(http, &data, &mut all)?;
    let (keep_alive, sequence) = (!http.disable_keepalive, http.sequence);
    Ok(Http1 { requests: all, keep_alive, head_bytes_max, sequence, data, keys })
}

/// What is the same of all requests of one kind: of all URLs, or one named request.
pub(crate) struct Common {
    body: Body,
    method: String,
    fields: Vec<Header>,
    expect: Expect,
}

impl Common {
    /// `kinds`: how many there are, as bodies are bounded together.
    pub(crate) fn of(http: &HttpAsked, kinds: usize, host: &dyn Host) -> Result<Common, ResolveError> {
        let body = body(http, kinds, host)?;
        let fields = http.headers.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        for field in &fields {
            refuse_reserved(field, http.disable_keepalive)?;
        }
        Ok(Common { method: method(http, &body)?, body, fields, expect: expect(http)? })
    }

    pub(crate) fn request(&self, http: &HttpAsked, url: &Asked, target: &str) -> Result<HttpRequest, ResolveError> {
        let user = http.user.as_ref().map(user).transpose()?;
        let credentials = user.or(url.parsed.place.credentials.as_ref().map(Secret::expose));
        Ok(HttpRequest {
            method: self.method.clone(),
            target: hide::secret_target(target),
            headers: headers(&url.parsed.authority(), credentials, &self.fields),
            body: self.body.clone(),
            expect: self.expect.clone(),
            ..HttpRequest::default()
        })
    }
}

fn method(asked: &HttpAsked, body: &Body) -> Result<String, ResolveError> {
    match asked.method.as_deref() {
        None if body.sha256.is_empty() => Ok("GET".to_owned()),
        None => Ok("POST".to_owned()),
        Some(method) if !is_token(method) => {
            Err(ResolveError::bad_value(METHOD, "a method such as GET or POST", method))
        }
        Some("CONNECT") => {
            Err(ResolveError::bad_value(METHOD, "a method other than CONNECT, which makes a tunnel", "CONNECT"))
        }
        Some(method) => Ok(method.to_owned()),
    }
}

fn body(asked: &HttpAsked, urls: usize, host: &dyn Host) -> Result<Body, ResolveError> {
    let bytes_max = BODY_BYTES_MAX / urls.max(1) as u64;
    let bytes = match (&asked.body, &asked.body_file) {
        (None, None) => return Ok(Body::default()),
        (Some(_), Some(_)) => {
            return Err(ResolveError::Conflict {
                what: BODY.into(),
                with: "a body from a file".into(),
                instead: "give the body once".into(),
            });
        }
        (Some(text), None) => text.expose().to_vec(),
        (None, Some(path)) => read(path, bytes_max, host)?,
    };
    let length = bytes.len() as u64;
    if length > bytes_max {
        return Err(ResolveError::TooMuch {
            what: words![BODY, ", bytes for each URL"],
            most: bytes_max,
            got: length,
            instead: "send a smaller body, or name fewer URLs".into(),
        });
    }
    let sha256 = hex(&sha2::Sha256::digest(&bytes));
    Ok(Body::new(bytes, sha256))
}

fn read(path: &Path, bytes_max: u64, host: &dyn Host) -> Result<Vec<u8>, ResolveError> {
    host.read_file(path, bytes_max).map_err(|source| ResolveError::of_file(BODY, path, bytes_max, source))
}

/// A field of the user's.
struct Header {
    name: String,
    /// `None`: the default of this name is not sent.
    value: Option<Secret>,
}

fn field(line: &Secret) -> Result<Header, ResolveError> {
    let bad = || ResolveError::bad_value(HEADERS, "'Name: value' without control characters", line);
    let text = &*line.expose_text();
    let (name, value) = match (text.split_once(':'), text.strip_suffix(';')) {
        (Some((name, value)), _) => {
            let value = value.trim_matches([' ', '\t']);
            (name, (!value.is_empty()).then_some(value))
        }
        (None, Some(name)) => (name, Some("")),
        (None, None) => return Err(bad()),
    };
    // RFC 9110 §5.5: no CR, LF or NUL; the other controls are "invalid" too, but for the tab.
    let is_clean = value.unwrap_or_default().chars().all(|c| !c.is_control() || c == '\t');
    if !is_token(name) || !is_clean {
        return Err(bad());
    }
    Ok(Header { name: name.to_owned(), value: value.map(|value| hide::secret_field(name, value)) })
}

fn refuse_reserved(field: &Header, disable_keepalive: bool) -> Result<(), ResolveError> {
    let conflict =
        |with: &str, instead: Words| ResolveError::Conflict { what: HEADERS.into(), with: with.into(), instead };
    match field.name.to_ascii_lowercase().as_str() {
        "transfer-encoding" => {
            Err(conflict("Transfer-Encoding", "leave it out, the body is sent whole with its Content-Length".into()))
        }
        "content-length" => Err(conflict("Content-Length", "leave it out, it is written from the body".into())),
        "connection" => {
            match (field.value.as_ref().map(|v| v.expose().to_ascii_lowercase()).as_deref(), disable_keepalive) {
                // These say what is done anyway.
                (None, _) | (Some(b"keep-alive"), false) | (Some(b"close"), true) => Ok(()),
                _ => Err(conflict("Connection", words!["leave it out, it follows from ", DISABLE_KEEPALIVE])),
            }
        }
        _ => Ok(()),
    }
}

fn headers(authority: &str, credentials: Option<&[u8]>, own: &[Header]) -> Vec<(String, Secret)> {
    let with = |name: &str, value: &str| (name.to_owned(), hide::secret_field(name, value));
    let mut fields = vec![
        with("Host", authority),
        with("User-Agent", concat!("plimsoll/", env!("CARGO_PKG_VERSION"))),
        with("Accept", "*/*"),
    ];
    if let Some(credentials) = credentials {
        let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
        fields.push(with("Authorization", &format!("Basic {encoded}")));
    }
    let defaults = fields.len();
    let mut is_replaced = vec![false; defaults];
    for Header { name, value } in own {
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
pub(crate) fn user(both: &Secret) -> Result<&[u8], ResolveError> {
    let is_clean = |text: &str| text.contains(':') && !text.chars().any(char::is_control);
    match std::str::from_utf8(both.expose()) {
        Ok(text) if is_clean(text) => Ok(both.expose()),
        _ => Err(ResolveError::bad_value(USER, "USER:PASSWORD", both)),
    }
}

fn expect(asked: &HttpAsked) -> Result<Expect, ResolveError> {
    let status = asked
        .expect_status
        .iter()
        .flat_map(|text| text.split(','))
        .map(|text| {
            statuses(text.trim()).ok_or_else(|| {
                ResolveError::bad_value(EXPECT_STATUS, "statuses from 100 to 599 such as 200, 200-299 or 2xx", text)
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let body_sha256 = match asked.expect_body_sha256.as_deref() {
        Some(hex) if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            return Err(ResolveError::bad_value(EXPECT_BODY_SHA256, "64 hexadecimal digits", hex));
        }
        other => other.map(str::to_ascii_lowercase),
    };
    if let Some(text) = &asked.expect_body {
        regex::bytes::Regex::new(text).map_err(|error| {
            // The crate draws the place over several lines; the last one names the fault.
            let shown = error.to_string();
            let why = shown.lines().last().unwrap_or_default().trim_start_matches("error: ");
            ResolveError::bad_value(EXPECT_BODY, format!("a regular expression ({why})"), text)
        })?;
    }
    Ok(Expect { status, body_sha256, body_regex: asked.expect_body.clone() })
}

pub(crate) fn statuses(text: &str) -> Option<(u16, u16)> {
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
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use crate::url;

    fn built(url: &str, change: impl FnOnce(&mut HttpAsked)) -> Result<Http1, ResolveError> {
        let mut http = HttpAsked::default();
        change(&mut http);
        let asked = [Asked { text: url.to_owned(), parsed: url::parse(url).unwrap(), weight: 1.0 }];
        build(&http, &asked, &[0], &FakeHost::default())
    }

    #[track_caller]
    fn check(url: &str, change: impl FnOnce(&mut HttpAsked), expected: &str) {
        let got = match built(url, change) {
            Ok(http) => {
                let request = &http.requests[0];
                let fields: Vec<String> =
                    request.headers.iter().map(|(n, v)| format!("{n}: {}", v.expose_text())).collect();
                let shown = format!("{} {} | {}", request.method, request.target.expose_text(), fields.join(" | "));
                shown.replace(env!("CARGO_PKG_VERSION"), "V")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    fn with_headers(headers: &[&str]) -> impl FnOnce(&mut HttpAsked) {
        let headers = headers.iter().map(|line| hide::secret_line(line)).collect();
        |http| http.headers = headers
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
        check("http://h/", |s| s.user = Some("secret".into()), "user: expected USER:PASSWORD, got '***'");
    }

    #[test]
    fn fields_that_would_break_the_framing_are_refused() {
        for bad in ["", "x", ": v", "a b: c", "a: b\r\nc: d", "a: \0", "a\n: b", "ä: b", ";", "a:\x7f"] {
            let error = built("http://h/", with_headers(&[bad])).unwrap_err();
            assert!(
                error.is_usage() && error.to_string().starts_with("headers: expected 'Name: value'"),
                "{bad:?}: {error}"
            );
            assert_eq!(error.to_string().lines().count(), 1);
        }
        for bad in [
            "content-length: 3",
            "Transfer-Encoding: chunked",
            "transfer-encoding;",
            "Connection: close",
            "Connection: upgrade",
        ] {
            let error = built("http://h/", with_headers(&[bad])).unwrap_err();
            assert!(matches!(error, ResolveError::Conflict { .. }), "{bad}: {error}");
        }
        assert!(built("http://h/", with_headers(&["a: ü\tb"])).is_ok());
        let kept = built("http://h/", with_headers(&["Connection: Keep-Alive"])).unwrap();
        assert_eq!(kept.requests[0].headers.last().unwrap().1.expose(), b"Keep-Alive", "it says what is done anyway");
    }

    #[test]
    fn bodies_choose_the_method_and_are_digested() {
        let posted = built("http://h/", |s| s.body = Some("abc".into())).unwrap().requests.remove(0);
        assert_eq!((posted.method.as_str(), posted.body.length, posted.body.bytes.expose()), ("POST", 3, &b"abc"[..]));
        // FIPS 180-2, appendix B.1.
        assert_eq!(posted.body.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let put = built("http://h/", |s| (s.body_file, s.method) = (Some("/body".into()), Some("PUT".into()))).unwrap();
        assert_eq!((put.requests[0].method.as_str(), put.requests[0].body.bytes.expose()), ("PUT", &b"a\0b"[..]));
        let empty = built("http://h/", |s| s.body = Some("".into())).unwrap().requests.remove(0);
        assert_eq!(empty.method, "POST", "an empty body is a body");
        let error = built("http://h/", |s| s.body_file = Some("/gone".into())).unwrap_err();
        assert!(
            error.is_usage() && error.to_string().starts_with("body: expected a file that can be read, got '/gone' (")
        );
        for bad in ["", "GET /", "G\r\n", "CONNECT"] {
            assert!(built("http://h/", |s| s.method = Some(bad.to_owned())).unwrap_err().is_usage(), "{bad}");
        }
    }

    #[test]
    fn bodies_of_many_urls_are_bounded_together() {
        let http = HttpAsked { body_file: Some("/endless".into()), ..HttpAsked::default() };
        let error = body(&http, 1024, &FakeHost::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "body: expected at most 1048576 bytes, but '/endless' has more: name a smaller file"
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
            assert!(status(bad).unwrap_err().to_string().starts_with("expect_status: expected statuses"), "{bad}");
        }
        let digest = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        let http = built("http://h/", |s| s.expect_body_sha256 = Some(digest.into())).unwrap();
        assert_eq!(http.requests[0].expect.body_sha256, Some(digest.to_lowercase()));
        assert!(built("http://h/", |s| s.expect_body_sha256 = Some("ab".into())).unwrap_err().is_usage());
        let error = built("http://h/", |s| s.expect_body = Some("a(b".into())).unwrap_err().to_string();
        assert_eq!(error, "expect_body: expected a regular expression (unclosed group), got 'a(b'");
        assert!(built("http://h/", |s| s.head_bytes_max = Some(1)).unwrap_err().is_usage());
        assert_eq!(built("http://h/", |_| {}).unwrap().head_bytes_max, 65_536);
    }
}
