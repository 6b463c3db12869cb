//! URLs as people write them, taken apart and checked; which schemes there are is in [`crate::workload::PROTOCOLS`].
//!
//! Hosts and ports go through the `url` crate (IPv6 literals, IDNA, dot segments and escapes as browsers do);
//! the unix forms are ours. Other schemes are refused by name. Nothing is looked up here.

use crate::defaults::UNIX_PATH_BYTES_MAX;
use crate::say::error::ResolveError;
use crate::workload::{Link, Protocol, Scheme, of_scheme};
use model::{Secret, hide};
use std::path::PathBuf;
use url::{Host, Position, Url};

/// A URL taken apart.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) protocol: &'static dyn Protocol,
    pub(super) scheme: &'static Scheme,
    pub(super) place: Place,
}

/// Where a URL leads, and what it says beside that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) endpoint: Endpoint,
    /// Path and query as they are sent; `/` where there is none.
    pub(crate) target: String,
    /// Whether a path was written, where one says something.
    pub(crate) has_path: bool,
    /// `user:password` of the URL, escapes decoded.
    pub(crate) credentials: Option<Secret>,
}

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Some protocols have URLs with a range of ports; of any other both ends are the same.
    Tcp {
        host: Host<String>,
        port: u16,
        last_port: u16,
    },
    Unix(PathBuf),
}

impl Parsed {
    /// Whether TLS is between it and TCP.
    pub(super) fn has_tls(&self) -> bool {
        self.scheme.link == Link::Tls
    }

    /// The origin as a person would write it, without credentials and path.
    pub(super) fn origin_name(&self) -> String {
        let scheme = self.scheme.name;
        match &self.place.endpoint {
            Endpoint::Unix(path) => format!("{scheme}:{}", path.display()),
            Endpoint::Tcp { .. } if self.scheme.hides_port => format!("{scheme}://{}", self.authority()),
            Endpoint::Tcp { host, port, last_port } => {
                let range = if last_port > port { format!("-{last_port}") } else { String::new() };
                format!("{scheme}://{host}:{port}{range}")
            }
        }
    }

    /// The name or address a certificate of the server must have.
    pub(super) fn server_name(&self) -> String {
        match &self.place.endpoint {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host: Host::Domain(name), .. } => name.clone(),
            Endpoint::Tcp { host: Host::Ipv4(ip), .. } => ip.to_string(),
            Endpoint::Tcp { host: Host::Ipv6(ip), .. } => ip.to_string(),
        }
    }

    /// The value of the `Host` field: the port only where it is not the scheme's own (RFC 9110 §7.2).
    pub(super) fn authority(&self) -> String {
        match &self.place.endpoint {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host, port, .. } if self.scheme.hides_port && *port == self.scheme.port => host.to_string(),
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
    let Some((written, rest)) = text.split_once(':') else {
        return Err(bad(format!("has no scheme: write http://{shown}")));
    };
    match of_scheme(written) {
        Some((_, Scheme { link: Link::Tcp | Link::Tls, .. })) if !rest.starts_with("//") => {
            Err(bad(format!("expected '//' after '{written}:': write {written}://HOST:PORT/")))
        }
        Some((protocol, scheme)) => {
            protocol.parse(scheme, text).map_err(bad).map(|place| Parsed { protocol, scheme, place })
        }
        // `localhost:8080` reads as a scheme and a path.
        None if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(bad(format!("has no scheme: write http://{shown}")))
        }
        // `[::1]:8080` does so too.
        None if written.starts_with('[') => Err(bad(format!("has no scheme: write http://{shown}"))),
        None => Err(ResolveError::UnknownScheme { url: shown.clone(), scheme: written.to_ascii_lowercase() }),
    }
}

/// A URL of a scheme that the `url` crate knows as one of the web's: with its host, and the port that is meant.
pub(crate) fn web(scheme: &Scheme, text: &str) -> Result<Place, String> {
    let name = scheme.name;
    let after_slashes = &text[name.len() + "://".len()..];
    if after_slashes.is_empty() || after_slashes.starts_with(['/', '\\', '?', '#']) {
        return Err(no_host(name));
    }
    let url = Url::parse(text).map_err(|e| explain(e, name))?;
    let host = url.host().ok_or_else(|| no_host(name))?.to_owned();
    let port = nonzero(url.port().unwrap_or(scheme.port))?;
    Ok(Place {
        endpoint: Endpoint::Tcp { host, port, last_port: port },
        target: url[Position::BeforePath..Position::AfterQuery].to_owned(),
        has_path: after_slashes.contains('/'),
        credentials: credentials(&url),
    })
}

/// A URL of another scheme: taken apart, with its host and the port that is meant.
pub(crate) fn other(scheme: &Scheme, text: &str) -> Result<(Url, Host<String>, u16), String> {
    let url = Url::parse(text).map_err(|e| explain(e, scheme.name))?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| no_host(scheme.name))?;
    // For a scheme it does not know the crate leaves names as they are; as http's they are checked.
    let host = Host::parse(host).map_err(|e| explain(e, scheme.name))?;
    let port = nonzero(url.port().unwrap_or(scheme.port))?;
    Ok((url, host, port))
}

/// `user:password` of a URL, escapes decoded.
pub(crate) fn credentials(url: &Url) -> Option<Secret> {
    (!url.username().is_empty() || url.password().is_some()).then(|| {
        let mut both = percent_encoding::percent_decode_str(url.username()).collect::<Vec<u8>>();
        both.push(b':');
        both.extend(percent_encoding::percent_decode_str(url.password().unwrap_or_default()));
        Secret::new(both)
    })
}

/// A unix socket, and behind `:/` the target of requests: `unix:/run/server.sock:/path`.
pub(crate) fn unix(text: &str) -> Result<(Endpoint, Option<String>), String> {
    let rest = text.split_once(':').map_or(text, |(_, rest)| rest);
    let rest = if rest.starts_with("///") { &rest[2..] } else { rest };
    let (path, target) = match rest.find(":/") {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    if path.is_empty() || path.starts_with("//") {
        return Err("expected the path of a socket: write unix:/run/server.sock".to_owned());
    }
    unix_path_fits(path)?;
    // The request's path is escaped and tidied as that of any other URL.
    let tidied = |target: &str| {
        let url = Url::parse(&format!("http://localhost{target}")).map_err(|e| explain(e, "http"))?;
        Ok::<_, String>(url[Position::BeforePath..Position::AfterQuery].to_owned())
    };
    Ok((Endpoint::Unix(PathBuf::from(path)), target.map(tidied).transpose()?))
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
                let credentials = p.place.credentials.as_ref().map(|c| format!(" as {}", c.expose_text()));
                let path = if p.place.has_path { "" } else { " (no path)" };
                format!(
                    "{} | {} | {}{}{path}",
                    p.origin_name(),
                    p.authority(),
                    p.place.target,
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
        check("echo://h:80/", "echo://h:80 | h:80 | /");
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
        check("redis://u:p@h/3", "redis://h:6379 | h:6379 | /3 as u:p");
        check("rediss://h:1", "rediss://h:1 | h:1 | ");
        check("resp+unix:/r.sock:/2", "resp+unix:/r.sock | localhost | /2");
        check("unix:/run/a.sock", "unix:/run/a.sock | localhost | / (no path)");
        check("unix:///run/a.sock", "unix:/run/a.sock | localhost | / (no path)");
        check("unix:a.sock:/p?q", "unix:a.sock | localhost | /p?q");
        check("ws://h", "ws://h | h | / (no path)");
        check("WS://H:80/a?b#c", "ws://h | h | /a?b");
        check("wss://u:p@h:80/x", "wss://h:80 | h:80 | /x as u:p");
        check("wss://[::1]/", "wss://[::1] | [::1] | /");
        check("ws+unix:/w.sock:/x", "ws+unix:/w.sock | localhost | /x");
        check("echo+unix:/run/e", "echo+unix:/run/e | localhost | /");
    }

    #[test]
    fn an_echo_address_is_an_address_and_not_a_name() {
        let parsed = parse("echo://127.0.0.1:7").unwrap();
        assert!(matches!(parsed.place.endpoint, Endpoint::Tcp { host: Host::Ipv4(_), port: 7, .. }));
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
        check("hold://h:9-70000", "URL 'hold://h:9-70000': port 70000 does not exist: ports end at 65535");
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
        for scheme in ["memcached", "gopher", "http+unix", "file"] {
            let text = format!("{scheme}://h/");
            let error = parse(&text).unwrap_err();
            assert!(matches!(error, ResolveError::UnknownScheme { .. }), "{text}");
            assert!(
                error.to_string().contains(&format!("scheme '{scheme}' is not spoken by this version: use http://"))
            );
        }
    }
}
