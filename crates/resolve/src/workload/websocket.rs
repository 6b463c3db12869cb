//! `ws://`: what opens a WebSocket connection, and what its messages are made of.
//!
//! The opening handshake is an HTTP request, so HTTP says what its target, fields and `Authorization` are; what belongs to
//! the switch itself is written by the machine and refused here. Messages are drawn by the run from the plan's seed.

use crate::defaults::{ECHO_BYTES, HTTP_PORT, HTTPS_PORT};
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::url::{Place, unix, web};
use crate::workload::echo::CONTENT;
use crate::workload::http::{HttpProtocol, USER};
use crate::workload::{Link, MadeOf, Protocol, Scheme, sizes};
use model::plan::{Content, Pace, Sizes, Workload};
use model::workload::Asked as _;
use model::workload::http::HttpAsked;
use model::workload::websocket::{Opening, WebSocket, WebSocketAsked};
use model::{Scenario, Secret};

/// Sizes of messages.
const SIZE: Field = Field::Own("size");
/// Messages of text.
const TEXT: Field = Field::Own("text");
/// permessage-deflate.
pub(super) const COMPRESS: Field = Field::Own("compress");
/// Subprotocols.
pub(super) const SUBPROTOCOL: Field = Field::Own("subprotocol");
/// Header fields.
pub(super) const HEADERS: Field = Field::Own("headers");

/// Most subprotocols asked for.
const SUBPROTOCOLS_MAX: usize = 16;

/// See the file's head.
pub(crate) struct WebSocketProtocol;

impl Protocol for WebSocketProtocol {
    fn name(&self) -> &'static str {
        WebSocketAsked::PROTOCOL
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[
            Scheme { name: "ws", link: Link::Tcp, port: HTTP_PORT, hides_port: true },
            Scheme { name: "wss", link: Link::Tls, port: HTTPS_PORT, hides_port: true },
            Scheme { name: "ws+unix", link: Link::Unix, port: 0, hides_port: false },
        ]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["ws:// or wss://HOST:PORT/PATH", "ws+unix:/PATH.sock[:/PATH]"]
    }

    fn examples(&self) -> &'static [&'static str] {
        &["ws://HOST:PORT/PATH", "wss://HOST/PATH", "ws+unix:/PATH.sock[:/PATH]"]
    }

    fn fields(&self) -> &'static [Field] {
        &[SIZE, CONTENT, TEXT, COMPRESS, SUBPROTOCOL, HEADERS, USER]
    }

    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String> {
        place(scheme, text)
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["http/1.1"]
    }

    fn of_requests(&self, scenario: &Scenario) -> Option<Field> {
        given(&scenario.asked())
    }

    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError> {
        let asked: WebSocketAsked = made_of.scenario.asked();
        if matches!(made_of.pace, Pace::Burst { .. }) {
            return Err(ResolveError::Conflict {
                what: Field::Burst.into(),
                with: "the handshake of a ws URL".into(),
                instead: "choose another pace, such as an open one".into(),
            });
        }
        if let (true, Some(Content::Binary | Content::Incompressible)) = (asked.text, asked.content) {
            return Err(ResolveError::Conflict {
                what: TEXT.into(),
                with: "other content than text".into(),
                instead: "leave one of them out: bytes that are no text go in binary messages".into(),
            });
        }
        check_subprotocols(&asked)?;
        Ok(Workload::WebSocket(WebSocket {
            handshakes: handshakes(made_of, &asked)?,
            subprotocols: asked.subprotocols,
            text: asked.text,
            sizes: sizes(SIZE, asked.sizes.unwrap_or(Sizes::Fixed(ECHO_BYTES)))?,
            content: asked.content.unwrap_or(Content::Text),
            compress: asked.compress,
        }))
    }
}

/// Takes a URL apart.
pub(super) fn place(scheme: &'static Scheme, text: &str) -> Result<Place, String> {
    if scheme.link != Link::Unix {
        return web(scheme, text);
    }
    let (endpoint, target) = unix(text)?;
    let has_path = target.is_some();
    Ok(Place { endpoint, target: target.unwrap_or_else(|| "/".to_owned()), has_path, credentials: None })
}

/// A field that was given and says something of messages, or of what opens a connection.
pub(super) fn given(asked: &WebSocketAsked) -> Option<Field> {
    let given = [
        (SIZE, asked.sizes.is_some()),
        (CONTENT, asked.content.is_some()),
        (TEXT, asked.text),
        (COMPRESS, asked.compress),
        (SUBPROTOCOL, !asked.subprotocols.is_empty()),
        (HEADERS, !asked.headers.is_empty()),
        (USER, asked.user.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
}

/// Refuses subprotocols that cannot be asked for.
pub(super) fn check_subprotocols(asked: &WebSocketAsked) -> Result<(), ResolveError> {
    for name in &asked.subprotocols {
        if !is_token(&name.expose_text()) {
            return Err(ResolveError::bad_value(SUBPROTOCOL, "a name without spaces and separators", name));
        }
    }
    let got = asked.subprotocols.len();
    if got > SUBPROTOCOLS_MAX {
        return Err(ResolveError::bad_value(SUBPROTOCOL, format!("at most {SUBPROTOCOLS_MAX} names"), got));
    }
    Ok(())
}

/// What opens connections to each origin.
pub(super) fn handshakes(made_of: &MadeOf<'_>, asked: &WebSocketAsked) -> Result<Vec<Opening>, ResolveError> {
    if let Some(name) = asked.headers.iter().find_map(of_the_switch) {
        return Err(ResolveError::Conflict {
            what: HEADERS.into(),
            with: name.into(),
            instead: "leave it out, it is written with the handshake".into(),
        });
    }
    let mut scenario = made_of.scenario.clone();
    let (headers, user) = (asked.headers.clone(), asked.user.clone());
    scenario.what = Some(HttpAsked { headers, user, ..HttpAsked::default() }.into());
    let Workload::Http1(http) = HttpProtocol.build(&MadeOf { scenario: &scenario, ..*made_of })? else {
        return Ok(Vec::new());
    };
    let origins = made_of.of_url.iter().map(|at| usize::from(*at) + 1).max().unwrap_or(0);
    let mut openings: Vec<Option<Opening>> = vec![None; origins];
    for request in http.requests {
        let mut opening = Opening { target: request.target, headers: request.headers };
        // Says of a page what it may be; there is none.
        opening.headers.retain(|(name, value)| !(name == "Accept" && value.expose() == b"*/*"));
        let slot = &mut openings[usize::from(request.origin)];
        if slot.as_ref().is_some_and(|other| *other != opening) {
            return Err(ResolveError::Conflict {
                what: "one server's URL".into(),
                with: "another path or user of it".into(),
                instead: "put load on them in separate runs".into(),
            });
        }
        *slot = Some(opening);
    }
    Ok(openings.into_iter().map(Option::unwrap_or_default).collect())
}

/// The name of a field that the handshake itself has.
fn of_the_switch(line: &Secret) -> Option<&'static str> {
    const NAMES: [&str; 8] = [
        "Upgrade",
        "Connection",
        "Sec-WebSocket-Key",
        "Sec-WebSocket-Version",
        "Sec-WebSocket-Protocol",
        "Sec-WebSocket-Extensions",
        "Content-Length",
        "Transfer-Encoding",
    ];
    let line = line.expose_text();
    let name = line.split([':', ';']).next().unwrap_or_default();
    NAMES.into_iter().find(|reserved| reserved.eq_ignore_ascii_case(name.trim()))
}

/// Whether a text is a token (RFC 9110 §5.6.2), as names of subprotocols are (RFC 6455 §4.1).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
