//! WebSocket as data: what opens a connection, and the messages that must come back as they went.
//!
//! The opening handshake is an HTTP request, so its target and fields are secrets as HTTP's are; names of subprotocols, too,
//! which some servers take tokens in.

use super::ProtocolPlan;
use crate::hide;
use crate::payload::{Content, Sizes};
use crate::plan::Origin;
use crate::secret::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The least beside a message's payload: the head of a frame with its masking key.
const SENT_BYTES_MIN: u64 = 6;
/// The least beside an echo's payload: the head of a frame.
const GOT_BYTES_MIN: u64 = 2;
/// So many bytes shorter a text message may be than asked: it ends with a whole character.
const CUT_BYTES_MAX: u64 = 3;

/// What may be asked of WebSocket.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSocketAsked {
    /// Sizes of messages.
    pub sizes: Option<Sizes>,
    /// Content of messages.
    pub content: Option<Content>,
    /// Messages of text, not binary ones.
    pub text: bool,
    /// permessage-deflate.
    pub compress: bool,
    /// Subprotocols asked for, the one liked best first.
    pub subprotocols: Vec<Secret>,
    /// Header fields of the handshake as written, `Name: value`; see [`crate::hide::secret_line`].
    pub headers: Vec<Secret>,
    /// `user:password` for Basic authentication.
    pub user: Option<Secret>,
}

/// A workload of WebSocket messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WebSocket {
    /// What opens a connection, for each origin.
    pub handshakes: Vec<Opening>,
    /// Subprotocols asked for, the one liked best first.
    #[serde(deserialize_with = "read_names")]
    pub subprotocols: Vec<Secret>,
    /// Whether messages are text, of characters of one to four bytes; otherwise they are binary.
    pub text: bool,
    /// Sizes of messages before compression, bytes; text is up to three bytes shorter, as it ends with a whole character.
    pub sizes: Sizes,
    /// What binary messages are made of.
    pub content: Content,
    /// Whether messages are compressed, by permessage-deflate.
    pub compress: bool,
}

/// What opens a connection to an origin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Opening {
    /// The request target, as sent: path and query.
    #[serde(deserialize_with = "hide::read_target")]
    pub target: Secret,
    /// Header fields in order, `Host` among them; those of the switch itself are added when it is written.
    #[serde(deserialize_with = "hide::read_fields")]
    pub headers: Vec<(String, Secret)>,
}

impl Opening {
    /// Hands over every secret it holds.
    pub(super) fn each_secret(&mut self, change: &mut dyn FnMut(&mut Secret)) {
        change(&mut self.target);
        self.headers.iter_mut().for_each(|(_, value)| change(value));
    }
}

/// A command that asks for the switch by hand, to see the answer; `scheme`: what stands for `http` in the origin's name.
pub(super) fn switch_by_hand(origin: Option<&Origin>, scheme: &str, opening: Option<&Opening>) -> String {
    let origin = origin.map_or("URL", |origin| &origin.name);
    let origin = match origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("+unix:")) {
        Some(path) => format!("--unix-socket '{path}' 'http://localhost"),
        None => format!("'{}", origin.replacen(scheme, "http", 1)),
    };
    let target = opening.map_or("/", |opening| opening.target.shown());
    let fields = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='";
    format!("curl -sv --http1.1 --max-time 2 {fields} {origin}{target}'")
}

/// What the code of a close frame means, in the words of IANA's registry.
pub fn close_meaning(code: u16) -> &'static str {
    match code {
        1000 => "normal closure",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1007 => "invalid payload data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "an extension is missing",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        3000..=3999 => "a library's own",
        4000..=4999 => "an application's own",
        _ => "no meaning",
    }
}

/// Subprotocols by their names: one that looks random is not shown.
pub fn secret_names(names: impl IntoIterator<Item = String>) -> Vec<Secret> {
    names.into_iter().map(|name| hide::secret_target(&name)).collect()
}

pub(super) fn read_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret>, D::Error> {
    Vec::<String>::deserialize(deserializer).map(secret_names)
}

impl WebSocket {
    /// Fewest bytes of a message, as it travels.
    fn least(&self) -> u64 {
        let smallest = match &self.sizes {
            Sizes::Fixed(size) | Sizes::Range(size, _) => u64::from(*size),
            Sizes::List(sizes) => sizes.iter().copied().min().map_or(0, u64::from),
        };
        match (self.compress, self.text) {
            // How far they shrink is known only once they are written.
            (true, _) => 0,
            (false, true) => smallest.saturating_sub(CUT_BYTES_MAX),
            (false, false) => smallest,
        }
    }
}

impl ProtocolPlan for WebSocket {
    fn unit(&self) -> &'static str {
        "message"
    }

    fn least_bytes(&self) -> (u64, u64) {
        (SENT_BYTES_MIN + self.least(), GOT_BYTES_MIN + self.least())
    }

    fn by_hand(&self, origin: Option<&Origin>) -> String {
        switch_by_hand(origin, "ws", self.handshakes.first())
    }

    fn each_secret(&mut self, change: &mut dyn FnMut(&mut Secret)) {
        self.handshakes.iter_mut().for_each(|opening| opening.each_secret(change));
        self.subprotocols.iter_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_a_message_is_less_than_any_can_be() {
        let of = |text, sizes, compress| {
            let (handshakes, subprotocols, content) = (Vec::new(), Vec::new(), Content::Text);
            WebSocket { handshakes, subprotocols, text, sizes, content, compress }.least_bytes()
        };
        assert_eq!(of(false, Sizes::Fixed(100), false), (106, 102));
        assert_eq!(of(true, Sizes::Range(2, 100), false), (6, 2));
        assert_eq!(of(true, Sizes::List(vec![100, 50]), false), (53, 49));
        assert_eq!(of(false, Sizes::Fixed(100), true), (6, 2));
    }

    #[test]
    fn names_of_subprotocols_are_shown_unless_they_look_random() {
        let names = secret_names(["chat.v1".to_owned(), "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5".to_owned()]);
        assert_eq!(names.iter().map(Secret::shown).collect::<Vec<_>>(), ["chat.v1", "***"]);
    }
}
