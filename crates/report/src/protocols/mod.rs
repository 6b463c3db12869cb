//! What only one protocol reports: the registry, and what each is asked.
//!
//! A protocol is a file beside this one, and a line in [`of`]; one with figures of its own has a line in [`Replies`], and one
//! with limits of its own a line in [`LIMITS_OF_VERSION`].

pub(crate) mod echo;
mod hold;
mod hold_websocket;
pub(crate) mod http;
pub(crate) mod resp;
mod websocket;

use crate::entries::{self, Entry};
use crate::text::explain::Page;
use model::Recording;
use model::outcomes::OutcomeCounts;
use model::plan::{Content, Sizes, Workload};
use schemars::JsonSchema;
use serde::Serialize;

/// What a protocol tells of its part of a plan, and of its replies.
pub(crate) trait Told {
    /// What would be asked, in `--explain`.
    fn what(&self, page: &mut Page);

    /// Limits of a run that only this protocol has, in `--explain`.
    fn limits(&self, _page: &mut Page) {}

    /// Its replies by their outcomes: paragraphs, each with its heading.
    fn paragraphs(&self, _outcomes: &OutcomeCounts) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What ended the load before its time, of so many requests: data that was used up.
    fn used_up(&self, _requests: u64) -> Option<String> {
        None
    }

    /// How connections that were held have ended, by their outcomes, the most frequent first.
    fn ends(&self, _outcomes: &OutcomeCounts) -> Vec<String> {
        Vec::new()
    }

    /// The same in the document.
    fn fill(&self, _outcomes: &OutcomeCounts, _replies: &mut Replies) {}
}

/// What the protocol of a workload tells.
pub(crate) fn of(workload: &Workload) -> &dyn Told {
    match workload {
        Workload::Http1(http) => http,
        Workload::Echo(echo) => echo,
        Workload::Hold(hold) => hold,
        Workload::Resp(resp) => resp,
        Workload::WebSocket(websocket) => websocket,
        Workload::HoldWebSocket(held) => held,
    }
}

/// Replies by their outcomes: each protocol's figures are empty in a run of another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Replies {
    /// HTTP's.
    #[serde(flatten)]
    pub http: http::HttpReplies,
    /// RESP's.
    #[serde(flatten)]
    pub resp: resp::RespReplies,
    /// Those of held WebSocket connections.
    #[serde(flatten)]
    pub hold_websocket: hold_websocket::HoldWebSocketReplies,
    /// What became of each entry of the workload: URLs, commands, named requests; empty where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub entries: Vec<Entry>,
}

impl Replies {
    /// Those of a recording.
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut replies = Replies { entries: entries::of(recording), ..Replies::default() };
        of(&recording.plan.workload).fill(&recording.totals.sum.outcomes, &mut replies);
        replies
    }
}

/// A limit of this version, by name.
type Limit = (&'static str, String);

/// Limits of this version that only one protocol has.
const LIMITS_OF_VERSION: &[fn() -> Limit] =
    &[echo::limit_of_version, resp::limit_of_version, websocket::limit_of_version];

/// Limits of this version that only one protocol has, by name.
pub(crate) fn limits_of_version() -> impl Iterator<Item = Limit> {
    LIMITS_OF_VERSION.iter().map(|limit| limit())
}

/// Payloads in words.
pub(crate) fn made_of(sizes: &Sizes, content: Content) -> String {
    let largest = sizes.largest();
    let sizes = match sizes {
        Sizes::Fixed(size) => format!("{size} B"),
        Sizes::Range(low, high) => format!("{low} to {high} B, uniform"),
        Sizes::List(sizes) => format!("{} sizes in turn, the largest {largest} B", sizes.len()),
    };
    let content = match content {
        Content::Text => "text",
        Content::Binary => "binary",
        Content::Incompressible => "incompressible",
    };
    format!("{content}, {sizes}")
}
