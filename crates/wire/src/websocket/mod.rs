//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692): messages go out and must come back as they went.
//!
//! Held connections are pinged instead ([`HoldProtocol`]). Without I/O, in layers that can be used alone: [`Handshake`] and [`Answer`] for the switch, [`Reader`] for a server's
//! frames, [`Machine`] for an open connection with what it must answer by itself, [`Writer`] for messages, [`Messages`] for
//! those a load sends. Strict in what is taken: whatever the RFCs forbid a server is a failure with its reason.
//! Not here: any extension but compression, and anything over HTTP/2. Cost: a pass over the bytes of text, none of binary,
//! beside comparing them.

mod close;
mod deflate;
mod detail;
mod extension;
mod frame;
mod handshake;
mod holding;
mod machine;
mod messages;
mod protocol;
mod reader;
#[cfg(test)]
mod tests;
mod utf8;
mod writer;

pub use close::{NORMAL, is_sendable, meaning};
pub use deflate::{Inflate, WINDOW_BITS};
pub use detail::{Detail, describe, of_close, of_difference, of_status, words};
pub use extension::{DeflateAgreed, DeflateOffer};
pub use frame::Kind;
pub use handshake::{Agreed, Answer, Handshake, Key, Refusal};
pub use holding::{Held, HoldProtocol, Ping};
pub use machine::{Event, Machine, SAID_BYTES_MAX};
pub use messages::{MESSAGES_MAX, Messages, Shape, WRITTEN_BYTES_MAX};
pub use protocol::{Connection, WebSocketProtocol};
pub use reader::{Place, Reader, Token};
pub use utf8::Utf8;
pub use writer::Writer;
