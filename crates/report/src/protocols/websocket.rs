//! What is told of WebSocket: what opens a connection, and its messages.

use super::{Limit, Told, made_of};
use crate::text::explain::Page;
use model::units::show_bytes;
use model::workload::websocket::{Opening, WebSocket};
use model::{Secret, limits};

impl Told for WebSocket {
    fn what(&self, page: &mut Page) {
        let kind = if self.text { "WebSocket text messages" } else { "WebSocket binary messages" };
        page.row("what", &format!("{kind} that must come back: {}", made_of(&self.sizes, self.content)));
        if self.compress {
            page.row("compression", "permessage-deflate, each message for itself; a server must accept it");
        }
        opening(page, &self.handshakes, &self.subprotocols);
    }
}

/// What opens a connection.
pub(super) fn opening(page: &mut Page, handshakes: &[Opening], subprotocols: &[Secret]) {
    for opening in handshakes {
        page.row("said first", &format!("GET {} HTTP/1.1, Upgrade: websocket", opening.target));
        for (name, value) in &opening.headers {
            page.row("", &format!("{name}: {value}"));
        }
    }
    if !subprotocols.is_empty() {
        let names: Vec<&str> = subprotocols.iter().map(Secret::shown).collect();
        page.row("subprotocols", &names.join(", "));
    }
}

/// The largest message.
pub(super) fn limit_of_version() -> Limit {
    ("WebSocket message", show_bytes(f64::from(limits::ECHO_BYTES_MAX)))
}
