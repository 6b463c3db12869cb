//! What is told of WebSocket connections that are held: what opens them, how the server ended them, what came unasked.
//! How many were held, lost and when is in `text::held`.

use super::websocket::opening;
use super::{Replies, Told};
use crate::text::explain::Page;
use crate::words::{counted, grouped, listed};
use model::outcomes::OutcomeCounts;
use model::workload::hold_websocket::{Came, HoldWebSocket, PING_BYTES, tally};
use model::workload::websocket::close_meaning;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What came on held WebSocket connections beside the pongs that were due.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct HoldWebSocketReplies {
    /// Connections that the server ended by code of its close frame: `without-code`, `other-code`, and `without-frame` where
    /// there was none; of WebSocket connections that are held.
    pub websocket_closes: BTreeMap<String, u64>,
    /// What came unasked and was taken: `text` and `binary` messages, `pings`, `pongs` that answer none of ours; of WebSocket
    /// connections that are held.
    pub websocket_unasked: BTreeMap<&'static str, u64>,
}

impl Told for HoldWebSocket {
    fn what(&self, page: &mut Page) {
        page.row(
            "what",
            &format!("held WebSocket connections; pings of {PING_BYTES} B, each pong must have its ping's payload"),
        );
        page.row("", "watched all the time: the server's pings are answered, its messages are counted");
        if self.compress {
            page.row("compression", "permessage-deflate is agreed on; a server must accept it");
        }
        opening(page, &self.handshakes, &self.subprotocols);
    }

    fn paragraphs(&self, outcomes: &OutcomeCounts) -> Vec<(&'static str, String)> {
        let unasked = tally(outcomes).into_iter().filter(|(came, _)| !came.is_end());
        let unasked: Vec<String> = unasked.map(|(came, n)| words(came, n)).collect();
        if unasked.is_empty() { Vec::new() } else { vec![("Unasked", listed(&unasked))] }
    }

    fn ends(&self, outcomes: &OutcomeCounts) -> Vec<String> {
        let mut ends: Vec<(Came, u64)> = tally(outcomes).into_iter().filter(|(came, _)| came.is_end()).collect();
        ends.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        ends.into_iter().map(|(came, n)| words(came, n)).collect()
    }

    fn fill(&self, outcomes: &OutcomeCounts, replies: &mut Replies) {
        let replies = &mut replies.hold_websocket;
        for (came, n) in tally(outcomes) {
            let unasked = match came {
                Came::Text => "text",
                Came::Binary => "binary",
                Came::Ping => "pings",
                Came::Pong => "pongs",
                Came::Close(_) | Came::CloseWithoutCode | Came::CloseWithOther | Came::End => {
                    replies.websocket_closes.insert(key_of_end(came), n);
                    continue;
                }
            };
            replies.websocket_unasked.insert(unasked, n);
        }
    }
}

fn key_of_end(came: Came) -> String {
    match came {
        Came::Close(code) => code.to_string(),
        Came::CloseWithoutCode => "without-code".to_owned(),
        Came::CloseWithOther => "other-code".to_owned(),
        _ => "without-frame".to_owned(),
    }
}

fn words(came: Came, n: u64) -> String {
    match came {
        Came::Text => counted(n, "message") + " of text",
        Came::Binary => counted(n, "binary message"),
        Came::Ping => counted(n, "ping") + " of the server, answered",
        Came::Pong => counted(n, "pong") + " that answers no ping of ours",
        Came::Close(code) => format!("{} by the server with code {code} ({})", grouped(n), close_meaning(code)),
        Came::CloseWithoutCode => format!("{} by the server without a code", grouped(n)),
        Came::CloseWithOther => format!("{} by the server with another code of its own", grouped(n)),
        Came::End => format!("{} without a close frame", grouped(n)),
    }
}
