//! URLs as people write them: `http://`, `https://`, `unix:`, `echo://`, `echo+tls://`,
//! `echo+unix:`, `resp://`, `resp+tls://`, `resp+unix:`, taken apart and checked.
//!
//! Hosts and ports go through the `url` crate (IPv6 literals, IDNA, dot segments and escapes as browsers do);
//! the unix forms are ours. Other schemes are refused by name. Nothing is looked up here.

use super::defaults::{ECHO_PORT, HTTP_PORT, HTTPS_PORT, PORTS_MAX, RESP_PORT, UNIX_PATH_BYTES_MAX};
use super::error::ResolveError;
use model::hide;
use std::path::PathBuf;
use url::{Host, Position, Url};

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) protocol: Protocol,
    /// Whether TLS is between it and TCP.
    pub(super) tls: bool,
    pub(super) endpoint: Endpoint,
    /// Path and query as they are sent; `/` where there is none.
    pub(super) target: String,
    /// Whether a path was written.
    pub(super) has_path: bool,
    /// `user:password` of the URL, escapes decoded.
    pub(super) credentials: Option<Vec<u8>>,
}

/// What a URL's scheme speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Echo,
    Hold,
    Resp,
}

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// Of `echo` and `hold` a range of ports may be named; of any other both ends are the same.
    Tcp {
        host: Host<String>,
        port: u16,
        last_port: u16,
    },
    Unix(PathBuf),
}

impl Parsed {
    /// The origin as a person would write it, without credentials and path.
    pub(super) fn origin_name(&self) -> String {
        match (&self.protocol, &self.endpoint) {
            (Protocol::Http, Endpoint::Unix(path)) => format!("unix:{}", path.display()),
            (Protocol::Echo, Endpoint::Unix(path)) => format!("echo+unix:{}", path.display()),
            (Protocol::Hold, Endpoint::Unix(path)) => format!("hold+unix:{}", path.display()),
            (Protocol::Resp, Endpoint::Unix(path)) => format!("resp+unix:{}", path.display()),
            (Protocol::Http, Endpoint::Tcp { .. }) => format!("{}://{}", self.scheme(), self.authority()),
            (Protocol::Echo | Protocol::Hold | Protocol::Resp, Endpoint::Tcp { host, port, last_port }) => {
                let range = if last_port > port { format!("-{last_port}") } else { String::new() };
                format!("{}://{host}:{port}{range}", self.scheme())
            }
        }
    }

    fn scheme(&self) -> &'static str {
        match (self.protocol, self.tls) {
            (Protocol::Http, false) => "http",
            (Protocol::Http, true) => "https",
            (Protocol::Echo, false) => "echo",
            (Protocol::Echo, true) => "echo+tls",
            (Protocol::Hold, false) => "hold",
            (Protocol::Hold, true) => "hold+tls",
            (Protocol::Resp, false) => "resp",
            (Protocol::Resp, true) => "resp+tls",
        }
    }

    /// The name or address a certificate of the server must have.
    pub(super) fn server_name(&self) -> String {
        match &self.endpoint {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host: Host::Domain(name), .. } => name.clone(),
            Endpoint::Tcp { host: Host::Ipv4(ip), .. } => ip.to_string(),
            Endpoint::Tcp { host: Host::Ipv6(ip), .. } => ip.to_string(),
        }
    }

    /// The value of the `Host` field: the port only where it is not the scheme's own (RFC 9110 §7.2).
    pub(super) fn authority(&self) -> String {
        match &self.endpoint {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host, port: HTTP_PORT, .. } if !self.tls => host.to_string(),
            Endpoint::Tcp { host, port: HTTPS_PORT, .. } if self.tls => host.to_string(),
            Endpoint::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

/// Takes a URL apart.
pub(super) fn parse(text: &str) -> Result<Parsed, ResolveError> {
    let shown = &hide::bad_url(text);
    let bad = |why: String| ResolveError::BadUrl { url: shown.clone(), why };
    if let Some(c) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Err(bad(format!("has a space or control character, {c:?}: write it as a percent escape, such as %20")));
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(bad(format!("has no scheme: write http://{shown}")));
    };
    match (scheme.to_ascii_lowercase().as_str(), rest) {
        ("http", rest) if rest.starts_with("//") => http(text, false).map_err(bad),
        ("https", rest) if rest.starts_with("//") => http(text, true).map_err(bad),
        ("echo", rest) if rest.starts_with("//") => echo(Protocol::Echo, "echo", text).map_err(bad),
        ("echo+tls", rest) if rest.starts_with("//") => echo(Protocol::Echo, "echo+tls", text).map_err(bad),
        ("hold", rest) if rest.starts_with("//") => echo(Protocol::Hold, "hold", text).map_err(bad),
        ("hold+tls", rest) if rest.starts_with("//") => echo(Protocol::Hold, "hold+tls", text).map_err(bad),
        ("resp", rest) if rest.starts_with("//") => resp("resp", text).map_err(bad),
        ("resp+tls", rest) if rest.starts_with("//") => resp("resp+tls", text).map_err(bad),
        ("unix", rest) => unix(Protocol::Http, rest).map_err(bad),
        ("echo+unix", rest) => unix(Protocol::Echo, rest).map_err(bad),
        ("resp+unix", rest) => unix(Protocol::Resp, rest).map_err(bad),
        ("http" | "https" | "resp" | "resp+tls" | "echo" | "echo+tls" | "hold" | "hold+tls", _) => {
            Err(bad(format!("expected '//' after '{scheme}:': write {scheme}://HOST:PORT/")))
        }
        // `localhost:8080` reads as a scheme and a path.
        (_, rest) if rest.starts_with(|c: char| c.is_ascii_digit()) && !rest.starts_with("//") => {
            Err(bad(format!("has no scheme: write http://{shown}")))
        }
        // `[::1]:8080` does so too.
        (scheme, _) if scheme.starts_with('[') => Err(bad(format!("has no scheme: write http://{shown}"))),
        (scheme, _) => Err(ResolveError::UnknownScheme { url: shown.clone(), scheme: scheme.to_owned() }),
    }
}

fn http(text: &str, tls: bool) -> Result<Parsed, String> {
    let (scheme, default_port) = if tls { ("https", HTTPS_PORT) } else { ("http", HTTP_PORT) };
    let after_slashes = &text[scheme.len() + "://".len()..];
    if after_slashes.is_empty() || after_slashes.starts_with(['/', '\\', '?', '#']) {
        return Err(no_host(scheme));
    }
    let url = Url::parse(text).map_err(|e| explain(e, scheme))?;
    let host = url.host().ok_or_else(|| no_host(scheme))?.to_owned();
    let port = nonzero(url.port().unwrap_or(default_port))?;
    let credentials = credentials(&url);
    Ok(Parsed {
        protocol: Protocol::Http,
        tls,
        endpoint: Endpoint::Tcp { host, port, last_port: port },
        target: url[Position::BeforePath..Position::AfterQuery].to_owned(),
        has_path: after_slashes.contains('/'),
        credentials,
    })
}

fn echo(protocol: Protocol, scheme: &str, text: &str) -> Result<Parsed, String> {
    let (one_port, last_port) = take_range(text)?;
    let url = Url::parse(&one_port).map_err(|e| explain(e, scheme))?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| no_host(scheme))?;
    // For a scheme it does not know the crate leaves names as they are; as http's they are checked.
    let host = Host::parse(host).map_err(|e| explain(e, scheme))?;
    let port = nonzero(url.port().unwrap_or(ECHO_PORT))?;
    if !matches!(url.path(), "" | "/") || url.query().is_some() || !url.username().is_empty() {
        return Err(format!(
            "an {} URL has no path, query or user: write {scheme}://HOST:PORT",
            scheme.trim_end_matches("+tls")
        ));
    }
    let last_port = last_port.unwrap_or(port);
    if last_port < port || last_port - port >= PORTS_MAX {
        return Err(format!(
            "expected at most {PORTS_MAX} ports, the first not above the last, got {port}-{last_port}: write {scheme}://HOST:9000-9004"
        ));
    }
    Ok(Parsed {
        protocol,
        tls: scheme.ends_with("+tls"),
        endpoint: Endpoint::Tcp { host, port, last_port },
        target: "/".to_owned(),
        has_path: true,
        credentials: None,
    })
}

/// `user:password` of a URL, escapes decoded.
fn credentials(url: &Url) -> Option<Vec<u8>> {
    (!url.username().is_empty() || url.password().is_some()).then(|| {
        let mut both = percent_encoding::percent_decode_str(url.username()).collect::<Vec<u8>>();
        both.push(b':');
        both.extend(percent_encoding::percent_decode_str(url.password().unwrap_or_default()));
        both
    })
}

fn resp(scheme: &str, text: &str) -> Result<Parsed, String> {
    let url = Url::parse(text).map_err(|e| explain(e, scheme))?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| no_host(scheme))?;
    // For a scheme it does not know the crate leaves names as they are; as http's they are checked.
    let host = Host::parse(host).map_err(|e| explain(e, scheme))?;
    let port = nonzero(url.port().unwrap_or(RESP_PORT))?;
    if url.query().is_some() {
        return Err(format!("a resp URL has no query: write {scheme}://USER:PASSWORD@HOST:PORT/DATABASE"));
    }
    Ok(Parsed {
        protocol: Protocol::Resp,
        tls: scheme.ends_with("+tls"),
        endpoint: Endpoint::Tcp { host, port, last_port: port },
        target: url.path().to_owned(),
        has_path: true,
        credentials: credentials(&url),
    })
}

/// Takes a range of ports out of a URL: `echo://h:9000-9004` is `echo://h:9000` to 9004.
fn take_range(text: &str) -> Result<(String, Option<u16>), String> {
    let trimmed = text.strip_suffix('/').unwrap_or(text);
    let Some((before, ports)) = trimmed.rsplit_once(':') else { return Ok((text.to_owned(), None)) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match ports.split_once('-') {
        Some((first, last)) if is_number(first) && is_number(last) => {
            let last = last.parse().map_err(|_| format!("port {last} is none: ports end at 65535"))?;
            Ok((format!("{before}:{first}"), Some(last)))
        }
        _ => Ok((text.to_owned(), None)),
    }
}

fn unix(protocol: Protocol, rest: &str) -> Result<Parsed, String> {
    let rest = if rest.starts_with("///") { &rest[2..] } else { rest };
    let (path, target) = match rest.find(":/") {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    if path.is_empty() || path.starts_with("//") {
        return Err("expected the path of a socket: write unix:/run/server.sock".to_owned());
    }
    unix_path_fits(path)?;
    if protocol == Protocol::Echo && target.is_some() {
        return Err("an echo URL has no request path: write echo+unix:/run/server.sock".to_owned());
    }
    // The request's path is escaped and tidied as that of any other URL.
    let sent = match target {
        None => "/".to_owned(),
        Some(target) => {
            let url = Url::parse(&format!("http://localhost{target}")).map_err(|e| explain(e, "http"))?;
            url[Position::BeforePath..Position::AfterQuery].to_owned()
        }
    };
    Ok(Parsed {
        protocol,
        tls: false,
        endpoint: Endpoint::Unix(PathBuf::from(path)),
        target: sent,
        has_path: target.is_some() || protocol != Protocol::Http,
        credentials: None,
    })
}

/// Whether the kernel can take a path as that of a unix socket.
pub(super) fn unix_path_fits(path: &str) -> Result<(), String> {
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(format!(
            "a unix socket's path has at most {UNIX_PATH_BYTES_MAX} bytes, this one {}: use a shorter or relative one",
            path.len()
        ));
    }
    Ok(())
}

fn nonzero(port: u16) -> Result<u16, String> {
    if port == 0 {
        Err("port 0 cannot be connected to: write the port the server listens on".to_owned())
    } else {
        Ok(port)
    }
}

fn no_host(scheme: &str) -> String {
    format!("has no host: write {scheme}://HOST:PORT/")
}

fn explain(error: url::ParseError, scheme: &str) -> String {
    format!("{error}: write {scheme}://HOST:PORT/, an IPv6 address in brackets")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let got = match parse(text) {
            Ok(p) => {
                let credentials = p.credentials.as_deref().map(|c| format!(" as {}", String::from_utf8_lossy(c)));
                let path = if p.has_path { "" } else { " (no path)" };
                format!(
                    "{} | {} | {}{}{path}",
                    p.origin_name(),
                    p.authority(),
                    p.target,
                    credentials.unwrap_or_default()
                )
            }
            Err(error) => {
                assert!(error.is_usage());
                error.to_string()
            }
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn good_urls() {
        check("http://localhost", "http://localhost | localhost | / (no path)");
        check("HTTP://LocalHost:80/", "http://localhost | localhost | /");
        check("http://h:8080/a/b?c=d&e#frag", "http://h:8080 | h:8080 | /a/b?c=d&e");
        check("http://h?c=d", "http://h | h | /?c=d (no path)");
        check("http://[::1]:8080/", "http://[::1]:8080 | [::1]:8080 | /");
        check("http://[2001:DB8:0::1]/x", "http://[2001:db8::1] | [2001:db8::1] | /x");
        check("http://u%3Aser:p%40ss@h/", "http://h | h | / as u:ser:p@ss");
        check("http://user@h/", "http://h | h | / as user:");
        check("http://h/a%20b/ü", "http://h | h | /a%20b/%C3%BC");
        check("http://bücher.example/", "http://xn--bcher-kva.example | xn--bcher-kva.example | /");
        check("echo://h", "echo://h:7777 | h:7777 | /");
        check("echo://h:80/", "echo://h:80 | h | /");
        check("echo://[::1]:7", "echo://[::1]:7 | [::1]:7 | /");
        check("echo://127.0.0.1:7", "echo://127.0.0.1:7 | 127.0.0.1:7 | /");
        check("echo://h:9000-9004", "echo://h:9000-9004 | h:9000 | /");
        check("hold://[::1]:9000-9000/", "hold://[::1]:9000 | [::1]:9000 | /");
        check("hold://h", "hold://h:7777 | h:7777 | /");
        check("https://h", "https://h | h | / (no path)");
        check("HTTPS://H:443/x", "https://h | h | /x");
        check("https://h:80/", "https://h:80 | h:80 | /");
        check("http://h:443/", "http://h:443 | h:443 | /");
        check("https://[::1]:8443/", "https://[::1]:8443 | [::1]:8443 | /");
        check("echo+tls://h", "echo+tls://h:7777 | h:7777 | /");
        check("resp://h", "resp://h:6379 | h:6379 | ");
        check("resp://u:p%40@[::1]:1/3", "resp://[::1]:1 | [::1]:1 | /3 as u:p@");
        check("resp+tls://h", "resp+tls://h:6379 | h:6379 | ");
        check("resp+unix:/r.sock:/2", "resp+unix:/r.sock | localhost | /2");
        check("unix:/run/a.sock", "unix:/run/a.sock | localhost | / (no path)");
        check("unix:///run/a.sock", "unix:/run/a.sock | localhost | / (no path)");
        check("unix:a.sock:/p?q", "unix:a.sock | localhost | /p?q");
        check("echo+unix:/run/e", "echo+unix:/run/e | localhost | /");
    }

    #[test]
    fn an_echo_address_is_an_address_and_not_a_name() {
        let parsed = parse("echo://127.0.0.1:7").unwrap();
        assert!(matches!(parsed.endpoint, Endpoint::Tcp { host: Host::Ipv4(_), port: 7, .. }));
    }

    #[test]
    fn a_certificate_is_for_a_name_or_a_bare_address() {
        let name = |text: &str| parse(text).unwrap().server_name();
        assert_eq!(
            ["https://H.test:1/", "https://127.0.0.1/", "https://[::1]:8/"].map(name),
            ["h.test", "127.0.0.1", "::1"]
        );
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        check("", "URL '': has no scheme: write http://");
        check("localhost", "URL 'localhost': has no scheme: write http://localhost");
        check("localhost:8080/x", "URL 'localhost:8080/x': has no scheme: write http://localhost:8080/x");
        check("[::1]:80", "URL '[::1]:80': has no scheme: write http://[::1]:80");
        check("http:/h", "URL 'http:/h': expected '//' after 'http:': write http://HOST:PORT/");
        check("http://", "URL 'http://': has no host: write http://HOST:PORT/");
        check("http:///x", "URL 'http:///x': has no host: write http://HOST:PORT/");
        check("http://?x", "URL 'http://?x': has no host: write http://HOST:PORT/");
        check("echo://", "URL 'echo://': has no host: write echo://HOST:PORT/");
        check(
            "http://h:99999/",
            "URL 'http://h:99999/': invalid port number: write http://HOST:PORT/, an IPv6 address in brackets",
        );
        check("http://::1/", "URL 'http://::1/': empty host: write http://HOST:PORT/, an IPv6 address in brackets");
        check("http://h:0/", "URL 'http://h:0/': port 0 cannot be connected to: write the port the server listens on");
        check(
            "http://h/a b",
            "URL 'http://h/a b': has a space or control character, ' ': write it as a percent escape, such as %20",
        );
        check(
            "http://h/\r\nX: y",
            "URL 'http://h/\\r\\nX: y': has a space or control character, '\\r': write it as a percent escape, such as %20",
        );
        check("unix:", "URL 'unix:': expected the path of a socket: write unix:/run/server.sock");
        check("unix://run/x", "URL 'unix://run/x': expected the path of a socket: write unix:/run/server.sock");
        check(
            "hold://h:9-8",
            "URL 'hold://h:9-8': expected at most 4096 ports, the first not above the last, got 9-8: write hold://HOST:9000-9004",
        );
        check("hold://h:9-70000", "URL 'hold://h:9-70000': port 70000 is none: ports end at 65535");
        check("https://", "URL 'https://': has no host: write https://HOST:PORT/");
        check("https:h", "URL 'https:h': expected '//' after 'https:': write https://HOST:PORT/");
        check(
            "echo+tls://h/x",
            "URL 'echo+tls://h/x': an echo URL has no path, query or user: write echo+tls://HOST:PORT",
        );
        check("echo://h/path", "URL 'echo://h/path': an echo URL has no path, query or user: write echo://HOST:PORT");
        let long = format!("unix:/{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        assert!(parse(&long).unwrap_err().to_string().contains("at most 107 bytes, this one 108"));
        assert!(parse(&long[..long.len() - 1]).is_ok());
    }

    #[test]
    fn schemes_to_come_are_refused_by_name() {
        for scheme in ["redis", "ws", "http+unix", "file"] {
            let text = format!("{scheme}://h/");
            let error = parse(&text).unwrap_err();
            assert!(matches!(error, ResolveError::UnknownScheme { .. }), "{text}");
            assert!(
                error.to_string().contains(&format!("scheme '{scheme}' is not spoken by this version: use http://"))
            );
        }
    }
}
