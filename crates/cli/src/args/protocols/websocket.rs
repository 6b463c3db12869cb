//! Flags of WebSocket: text or binary messages, compression, subprotocols.
//!
//! How long messages are and of what is said as for echo, fields of the handshake and who asks as for HTTP.

use super::super::load::LoadArgs;
use super::{Flags, ProtocolArgs, SecretFlag};
use clap::Args;
use clap::builder::BoolishValueParser;
use model::workload::websocket::{WebSocketAsked, secret_names};
use model::workload::{Asked as _, What};
use model::{Secret, hide};

/// What WebSocket messages are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "What (ws)")]
pub struct WebSocketArgs {
    /// Send messages of text, with characters of one to four bytes; by default they are binary
    #[arg(long, env = "PLIMSOLL_TEXT", value_parser = BoolishValueParser::new())]
    pub text: bool,
    /// Compress messages (permessage-deflate); a server that does not accept it is a failure
    #[arg(long, env = "PLIMSOLL_COMPRESS", value_parser = BoolishValueParser::new())]
    pub compress: bool,
    /// Subprotocols to ask for, the one liked best first; may be repeated [default: none]
    #[arg(long, value_name = "NAME,...", env = "PLIMSOLL_SUBPROTOCOL")]
    pub subprotocol: Vec<String>,
}

/// See the file's head.
pub(super) const FLAGS: Flags = Flags {
    protocol: WebSocketAsked::PROTOCOL,
    own: WebSocketArgs::augment_args,
    also: &["size", "content", "header", "user"],
    asked,
    secrets,
};

fn asked(args: &LoadArgs) -> What {
    let (websocket, echo, http) = (&args.protocols.websocket, &args.protocols.echo, &args.protocols.http);
    What::WebSocket(WebSocketAsked {
        sizes: echo.size.clone(),
        content: echo.content.map(Into::into),
        text: websocket.text,
        compress: websocket.compress,
        subprotocols: secret_names(websocket.subprotocol.iter().flat_map(|list| list.split(',')).map(str::to_owned)),
        headers: http.header.iter().map(|line| hide::secret_line(line)).collect(),
        user: http.user.as_deref().map(Secret::from),
    })
}

fn secrets(args: &ProtocolArgs) -> Vec<SecretFlag> {
    let names = args.websocket.subprotocol.iter();
    let flag = |name: &String| SecretFlag {
        short: None,
        long: "subprotocol",
        written: name.clone(),
        shown: name.split(',').map(hide::target).collect::<Vec<_>>().join(","),
    };
    names.map(flag).collect()
}
