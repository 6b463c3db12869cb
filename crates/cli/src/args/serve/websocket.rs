//! Arguments of `serve ws`: how it is built, and what it takes of a client.

use super::super::values::{self, IdleTimeout};
use super::CommonArgs;
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use servers::websocket::{DESIGNS, Design, WebSocketOptions, design};

/// Arguments of `serve ws`.
#[derive(Debug, Args)]
pub struct WebSocketArgs {
    /// How the server is built
    #[arg(long, value_name = "DESIGN", env = "PLIMSOLL_DESIGN", default_value = DESIGNS[0].info.name, value_parser = named())]
    pub design: &'static Design,
    /// Longest message taken, after decompression; a longer one is closed with 1009
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_MAX_MESSAGE", default_value = "16MiB", value_parser = values::size::<usize>)]
    pub max_message: usize,
    /// Accept no compression (permessage-deflate)
    #[arg(long, env = "PLIMSOLL_NO_COMPRESS", value_parser = BoolishValueParser::new())]
    pub no_compress: bool,
    /// Subprotocols it speaks, the one liked best first; may be repeated [default: none]
    #[arg(long, value_name = "NAME,...", env = "PLIMSOLL_SUBPROTOCOL", value_delimiter = ',')]
    pub subprotocol: Vec<String>,
    /// Close a connection whose handshake is not complete so long after its first byte, or never; however often bytes come
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_HEAD_TIMEOUT", default_value = "60s", value_parser = values::idle_timeout)]
    pub head_timeout: IdleTimeout,
    /// Send a ping on each connection so often, or never; whether it is answered is not looked at
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_PING_EVERY", default_value = "never", value_parser = values::idle_timeout)]
    pub ping_every: IdleTimeout,
    /// What every server is told.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl WebSocketArgs {
    /// What only this server is told.
    pub fn options(&self) -> WebSocketOptions {
        WebSocketOptions {
            design: self.design,
            message_bytes_max: self.max_message,
            deflate: !self.no_compress,
            subprotocols: self.subprotocol.clone(),
            head_timeout: self.head_timeout.0,
            ping_every: self.ping_every.0,
        }
    }
}

fn named() -> impl TypedValueParser<Value = &'static Design> {
    PossibleValuesParser::new(DESIGNS.iter().map(|design| design.info.name))
        .try_map(|name| design(&name).ok_or("expected the name of a design"))
}
