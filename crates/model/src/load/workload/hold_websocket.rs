//! WebSocket connections that are held, as data: what opens each, how often it is pinged, and what came that nobody asked for.
//!
//! Pings are RFC 6455's (§5.5.2); a server answers them by itself, so nothing need be known of what it is for. What else
//! comes on such a connection, and how the server ends it, is counted as outcomes: their numbers are made here.

use super::ProtocolPlan;
use super::hold::HoldAsked;
use super::websocket::{Opening, WebSocketAsked, read_names, switch_by_hand};
use crate::outcomes::OutcomeCounts;
use crate::plan::Origin;
use crate::secret::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes of a ping's payload.
pub const PING_BYTES: usize = 16;
/// The head of a frame with its masking key, and without.
const HEADS: (u64, u64) = (6, 2);

/// What may be asked of WebSocket connections that are held.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldWebSocketAsked {
    /// Time from one ping of a connection to its next, nanoseconds; 0: none is sent.
    pub every_ns: Option<u64>,
    /// Connections made a second.
    pub connects_per_s: Option<f64>,
    /// Connections are added until something gives.
    pub until_failure: bool,
    /// permessage-deflate.
    pub compress: bool,
    /// Subprotocols asked for, the one liked best first.
    pub subprotocols: Vec<Secret>,
    /// Header fields of the handshake as written, `Name: value`; see [`crate::hide::secret_line`].
    pub headers: Vec<Secret>,
    /// `user:password` for Basic authentication.
    pub user: Option<Secret>,
}

impl HoldWebSocketAsked {
    /// What is asked of it as of any connection that is held.
    pub fn held(&self) -> HoldAsked {
        HoldAsked {
            every_ns: self.every_ns,
            connects_per_s: self.connects_per_s,
            until_failure: self.until_failure,
            ..HoldAsked::default()
        }
    }

    /// What is asked of it as of any WebSocket connection.
    pub fn opened(&self) -> WebSocketAsked {
        WebSocketAsked {
            compress: self.compress,
            subprotocols: self.subprotocols.clone(),
            headers: self.headers.clone(),
            user: self.user.clone(),
            ..WebSocketAsked::default()
        }
    }
}

/// WebSocket connections that are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HoldWebSocket {
    /// What opens a connection, for each origin.
    pub handshakes: Vec<Opening>,
    /// Subprotocols asked for, the one liked best first.
    #[serde(deserialize_with = "read_names")]
    pub subprotocols: Vec<Secret>,
    /// Whether permessage-deflate is agreed on; pings are never compressed.
    pub compress: bool,
    /// Connections are added until something gives; the plan's number is where it stops at the latest.
    pub until_failure: bool,
}

impl ProtocolPlan for HoldWebSocket {
    fn unit(&self) -> &'static str {
        "ping"
    }

    fn is_held(&self) -> bool {
        true
    }

    fn is_until_failure(&self) -> bool {
        self.until_failure
    }

    fn least_bytes(&self) -> (u64, u64) {
        (HEADS.0 + PING_BYTES as u64, HEADS.1 + PING_BYTES as u64)
    }

    fn outcomes(&self) -> Range<u16> {
        100..600
    }

    fn by_hand(&self, origin: Option<&Origin>) -> String {
        switch_by_hand(origin, "hold+ws", self.handshakes.first())
    }

    fn each_secret(&mut self, change: &mut dyn FnMut(&mut Secret)) {
        self.handshakes.iter_mut().for_each(|opening| opening.each_secret(change));
        self.subprotocols.iter_mut().for_each(change);
    }
}

/// What came on a held connection and answers no ping of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Came {
    /// A message of text.
    Text,
    /// A message of bytes.
    Binary,
    /// A ping, which was answered.
    Ping,
    /// A pong that answers no ping of ours.
    Pong,
    /// A close frame with this code.
    Close(u16),
    /// A close frame without a code.
    CloseWithoutCode,
    /// A close frame with a code that has no number of its own here: one beyond 3099 of a library, beyond 4198 of an
    /// application.
    CloseWithOther,
    /// The end of the connection, without a close frame.
    End,
}

/// Codes of close frames that have a number each: their first, how many, and the first number.
const CODES: [(u16, u16, u16); 3] = [(1000, 16, 201), (3000, 100, 300), (4000, 199, 400)];
/// Numbers of what has no code.
const NUMBERS: [(Came, u16); 7] = [
    (Came::Text, 100),
    (Came::Binary, 101),
    (Came::Ping, 102),
    (Came::Pong, 103),
    (Came::End, 104),
    (Came::CloseWithoutCode, 200),
    (Came::CloseWithOther, 599),
];

impl Came {
    /// The number under which it is counted, in 100..=599.
    pub fn number(self) -> u16 {
        let of = |came| NUMBERS.iter().find(|(other, _)| *other == came).map(|(_, number)| *number);
        let Came::Close(code) = self else { return of(self).unwrap_or(0) };
        let place = CODES.iter().find(|(first, many, _)| (*first..first + many).contains(&code));
        place.map_or_else(|| Came::CloseWithOther.number(), |(first, _, number)| number + code - first)
    }

    /// What a number stands for.
    pub fn of_number(number: u16) -> Option<Came> {
        if let Some((came, _)) = NUMBERS.iter().find(|(_, other)| *other == number) {
            return Some(*came);
        }
        let (first, _, from) = CODES.iter().find(|(_, many, from)| (*from..from + many).contains(&number))?;
        Some(Came::Close(first + number - from))
    }

    /// Whether it ended its connection.
    pub fn is_end(self) -> bool {
        !matches!(self, Came::Text | Came::Binary | Came::Ping | Came::Pong)
    }
}

/// What came in a run, with how often; in the order of the numbers.
pub fn tally(outcomes: &OutcomeCounts) -> Vec<(Came, u64)> {
    outcomes.seen().filter_map(|(number, count)| Some((Came::of_number(number)?, count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn whatever_comes_has_a_number_of_its_own() {
        let codes = (1000..=1015).chain(3000..=3099).chain(4000..=4198).map(Came::Close);
        let all: Vec<Came> = NUMBERS.iter().map(|(came, _)| *came).chain(codes).collect();
        let numbers: BTreeSet<u16> = all.iter().map(|came| came.number()).collect();
        assert_eq!(numbers.len(), all.len());
        assert!(numbers.iter().all(|number| (100..=599).contains(number)));
        for came in all {
            assert_eq!(Came::of_number(came.number()), Some(came));
        }
        for other in [3100, 3999, 4199, 4999] {
            assert_eq!(Came::Close(other).number(), Came::CloseWithOther.number());
        }
        assert_eq!((Came::of_number(0), Came::of_number(105), Came::of_number(217)), (None, None, None));
    }

    #[test]
    fn what_was_asked_is_of_holding_and_of_opening() {
        let asked = HoldWebSocketAsked { every_ns: Some(5), compress: true, ..HoldWebSocketAsked::default() };
        assert_eq!((asked.held().every_ns, asked.opened().compress), (Some(5), true));
    }
}
