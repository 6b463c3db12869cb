//! Named requests from what others have written: a HAR file of a browser, an OpenAPI document, a curl command.
//!
//! Each reader is given text and says what is asked, and in words what it left out. Text from outside is bounded and refused in
//! one sentence. Credentials in it are kept, as a request without them would be another one: what is made of it is as
//! secret as its source.
//! Not here: replies, timing, YAML.

mod curl;
mod har;
mod openapi;

use crate::requests::REQUESTS_MAX;
use model::Secret;
use model::workload::http::RequestAsked;
use url::{Position, Url};

/// Longest text that is read, bytes.
pub const TEXT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// An HTTP archive (HAR 1.2), as browsers save it.
    Har,
    /// An OpenAPI 3 document, as JSON.
    OpenApi,
    /// A curl command.
    Curl,
}

/// Requests that were found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The server they go to, such as `https://example.org:8443`.
    pub url: String,
    /// The requests, in the text's order.
    pub requests: Vec<RequestAsked>,
    /// What was left out and what is to be filled in, a sentence each.
    pub notes: Vec<String>,
}

/// Reads a text.
///
/// # Errors
/// Why there are no requests in it, in a sentence.
pub fn read(kind: TextKind, text: &str) -> Result<Imported, String> {
    let imported = match kind {
        TextKind::Har => har::read(text),
        TextKind::OpenApi => openapi::read(text),
        TextKind::Curl => curl::read(text),
    }?;
    let got = imported.requests.len();
    match got {
        0 => Err("expected at least one request to http:// or https://, got none".to_owned()),
        1..=REQUESTS_MAX => Ok(imported),
        _ => Err(format!("expected at most {REQUESTS_MAX} requests, got {got}: take a part of them")),
    }
}

/// Server, and path with query, of a URL that load can be put on.
fn apart(url: &str) -> Result<(String, String), String> {
    let parsed = Url::parse(url).map_err(|error| format!("expected a URL, got '{}' ({error})", shown(url)))?;
    if !["http", "https"].contains(&parsed.scheme()) || parsed.host_str().is_none() {
        return Err(format!("expected a URL of http:// or https://, got '{}'", shown(url)));
    }
    Ok((parsed[..Position::AfterPort].to_owned(), parsed[Position::BeforePath..Position::AfterQuery].to_owned()))
}

/// Header fields that follow from the connection and the body, and are not asked for.
fn is_written_anyway(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.is_empty()
        || name.starts_with(':')
        || [
            "host",
            "connection",
            "content-length",
            "transfer-encoding",
            "keep-alive",
            "te",
            "upgrade",
            "proxy-connection",
            "http2-settings",
        ]
        .contains(&&*name)
}

/// A header field as it is asked for.
fn field(name: &str, value: &str) -> Secret {
    model::hide::secret_line(&format!("{name}: {value}"))
}

/// As it may be shown in a sentence.
fn shown(text: &str) -> String {
    model::hide::bad_url(text).chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_server_and_the_path_are_told_apart() {
        let parts = |url: &str| apart(url).map(|(server, path)| format!("{server} {path}"));
        assert_eq!(parts("https://u:p@h.test:8443/a/b?c=d#e").unwrap(), "https://u:p@h.test:8443 /a/b?c=d");
        assert_eq!(parts("http://h.test").unwrap(), "http://h.test /");
        for bad in ["", "h.test", "ftp://h/", "data:text/plain,x", "http://"] {
            assert_eq!(parts(bad).unwrap_err().lines().count(), 1, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic(text: String, quoted: String) {
            for kind in [TextKind::Har, TextKind::OpenApi, TextKind::Curl] {
                let _ = read(kind, &text);
            }
            let _ = read(TextKind::Curl, &format!("curl -d '{quoted}' http://h/{text}"));
        }
    }
}
