//! Flags of WebSocket connections that are held: all of them are those of others.
//!
//! How often each is pinged and how many are made a second as for `hold://`, what opens one as for `ws://`.

use super::super::load::LoadArgs;
use super::Flags;
use model::workload::hold_websocket::HoldWebSocketAsked;
use model::workload::websocket::secret_names;
use model::workload::{Asked as _, What};
use model::{Secret, hide};

/// See the file's head.
pub(super) const FLAGS: Flags = Flags {
    protocol: HoldWebSocketAsked::PROTOCOL,
    own: |command| command,
    also: &["every", "connect_rate", "ramp_until_failure", "compress", "subprotocol", "header", "user"],
    asked,
    // Those that may be secret are said by the protocols that declare them.
    secrets: |_| Vec::new(),
};

fn asked(args: &LoadArgs) -> What {
    let (hold, websocket, http) = (&args.protocols.hold, &args.protocols.websocket, &args.protocols.http);
    What::HoldWebSocket(HoldWebSocketAsked {
        every_ns: hold.every,
        connects_per_s: hold.connect_rate,
        until_failure: hold.ramp_until_failure,
        compress: websocket.compress,
        subprotocols: secret_names(websocket.subprotocol.iter().flat_map(|list| list.split(',')).map(str::to_owned)),
        headers: http.header.iter().map(|line| hide::secret_line(line)).collect(),
        user: http.user.as_deref().map(Secret::from),
    })
}
