//! What is spoken: the registry of protocols, and what the data of each says of itself.
//!
//! A protocol is a file beside this one, and a line in `protocols!` below: its variant, what a plan holds of it, what a
//! scenario may ask of it. Whatever is the same question to every protocol is a method of [`ProtocolPlan`], so that nobody
//! else has to tell the variants apart but where each is made, sent and told of: one registry a layer
//! (`docs/adding/protocol.md`).

pub mod echo;
pub mod hold;
pub mod hold_websocket;
pub mod http;
pub mod resp;
pub mod websocket;

use crate::ErrorKind;
use crate::outcomes::OutcomeCounts;
use crate::plan::Origin;
use crate::secret::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One line a protocol: its variant, the data of its plan, what may be asked of it, its name in sentences.
macro_rules! protocols {
    ($($(#[$about:meta])* $variant:ident($plan:ty), $asked_variant:ident($asked:ty), $name:literal;)+) => {
        /// What is spoken.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "protocol", rename_all = "kebab-case")]
        pub enum Workload {
            $($(#[$about])* $variant($plan),)+
        }

        impl Workload {
            /// What its protocol says of it.
            pub fn protocol(&self) -> &dyn ProtocolPlan {
                match self {
                    $(Workload::$variant(plan) => plan,)+
                }
            }

            /// The same, to be changed.
            pub fn protocol_mut(&mut self) -> &mut dyn ProtocolPlan {
                match self {
                    $(Workload::$variant(plan) => plan,)+
                }
            }
        }

        /// What was asked of a protocol, before defaults are filled in: of one, so that no two can be asked of together.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum What {
            $($(#[$about])* $asked_variant($asked),)+
        }

        /// The protocols' names in sentences, as in "http URLs".
        pub const NAMES: &[&str] = &[$($name,)+];

        impl What {
            /// The protocol's name in sentences, as in "http URLs".
            pub const fn protocol(&self) -> &'static str {
                match self {
                    $(What::$asked_variant(_) => <$asked>::PROTOCOL,)+
                }
            }
        }

        $(impl Asked for $asked {
            const PROTOCOL: &'static str = $name;

            fn of(what: &What) -> Option<&Self> {
                match what {
                    What::$asked_variant(asked) => Some(asked),
                    _ => None,
                }
            }
        }

        impl From<$asked> for What {
            fn from(asked: $asked) -> What {
                What::$asked_variant(asked)
            }
        })+
    };
}

protocols! {
    /// HTTP/1.1.
    Http1(http::Http1), Http(http::HttpAsked), "http";
    /// Bytes that must come back as they went.
    Echo(echo::Echo), Echo(echo::EchoAsked), "echo";
    /// Connections that are held, and speak seldom or never.
    Hold(hold::Hold), Hold(hold::HoldAsked), "hold";
    /// RESP2, redis' protocol.
    Resp(resp::Resp), Resp(resp::RespAsked), "resp";
    /// WebSocket (RFC 6455): messages that must come back as they went.
    #[serde(rename = "websocket")]
    WebSocket(websocket::WebSocket), WebSocket(websocket::WebSocketAsked), "ws";
    /// WebSocket connections that are held, and pinged seldom or never.
    #[serde(rename = "hold-websocket")]
    HoldWebSocket(hold_websocket::HoldWebSocket), HoldWebSocket(hold_websocket::HoldWebSocketAsked), "hold+ws";
}

/// What may be asked of one protocol.
pub trait Asked: Default + Clone + Into<What> {
    /// The protocol's name in sentences, as in "http URLs".
    const PROTOCOL: &'static str;
    /// What was asked, if it was of this protocol.
    fn of(what: &What) -> Option<&Self>;
}

/// What the data of a protocol says of itself, in a plan.
pub trait ProtocolPlan {
    /// What one unit of load is called.
    fn unit(&self) -> &'static str {
        "request"
    }

    /// Whether connections are what is asked for, held, and not requests.
    fn is_held(&self) -> bool {
        false
    }

    /// Whether connections are added until something gives.
    fn is_until_failure(&self) -> bool {
        false
    }

    /// Whether each connection is closed by us after its reply.
    fn closes_after_each(&self) -> bool {
        false
    }

    /// Whether requests are made with what is read from files while the load is on.
    fn reads_files(&self) -> bool {
        false
    }

    /// Fewest bytes of a request and of a good reply.
    fn least_bytes(&self) -> (u64, u64);

    /// The numbers its replies' outcomes have; none where they have no outcome of their own.
    fn outcomes(&self) -> Range<u16> {
        0..0
    }

    /// Which failure a whole reply is that says one; `None`: replies have no outcome of their own, and none is counted.
    fn failure_replies(&self) -> Option<FailureReplies> {
        None
    }

    /// The outcomes of replies that say failure, in the order of their numbers.
    fn failures_by_name(&self, _outcomes: &OutcomeCounts) -> Vec<NamedOutcome> {
        Vec::new()
    }

    /// A command that sends the first request by hand, to see its reply; empty: there is none.
    fn by_hand(&self, _origin: Option<&Origin>) -> String {
        String::new()
    }

    /// How many entries the mix has: URLs, commands, named requests. Each of several has figures of its own.
    fn entries(&self) -> usize {
        1
    }

    /// What is asked by an entry of the mix, as it may be shown; `None`: there is no such entry, or they have no names.
    fn entry_name(&self, _entry: u16) -> Option<String> {
        None
    }

    /// Whether what writes acknowledged is looked for when it is read; `None`: nothing is written that could be read again.
    fn verifies_writes(&self) -> Option<bool> {
        None
    }

    /// Hands over every secret it holds.
    fn each_secret(&mut self, _change: &mut dyn FnMut(&mut Secret)) {}

    /// Hides what is secret and not typed so: names that were made of secrets, in old recordings.
    fn hide_names(&mut self) {}
}

/// What replies are of which it is known that they say failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureReplies {
    /// The kind they are counted under.
    pub kind: ErrorKind,
    /// What holds where there is none.
    pub none: &'static str,
    /// What to do about them.
    pub remedy: &'static str,
}

/// An outcome of replies, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedOutcome {
    /// As a person reads it, such as `status 503`.
    pub name: String,
    /// The figure's name in evidence, such as `status.503`.
    pub metric: String,
    /// How many replies.
    pub count: u64,
    /// What its protocol means by it, to put behind its name; empty: that it failed.
    pub meaning: &'static str,
    /// What to do about it, where that is known better than of any failure.
    pub remedy: Option<&'static str>,
}
