//! HTTP/1.1 as data: what is asked, and what a good reply looks like.
//!
//! Targets and header fields are secrets where they may tell who asks; of bodies length and digest are stored.

use super::{FailureReplies, NamedOutcome, ProtocolPlan};
use crate::data::{DataFile, Order};
use crate::outcomes::OutcomeCounts;
use crate::plan::Origin;
use crate::replies::{ReplyCheck, Take};
use crate::resp::KeyDistribution;
use crate::secret::{HIDDEN, Secret};
use crate::{ErrorKind, hide};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;

/// The shortest request: `G / HTTP/1.1` and two line ends.
const REQUEST_BYTES_MIN: u64 = 16;
/// The shortest reply: `HTTP/1.1 200` and two line ends.
const REPLY_BYTES_MIN: u64 = 14;
/// RFC 6585, section 4.
const TOO_MANY_REQUESTS: u16 = 429;
/// What to do where a server says so.
const ASK_LESS: &str = "Ask less often (--rate), or raise the limit that the target sets its clients; if these replies are meant, accept them (--expect-status)";

/// What may be asked of HTTP.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpAsked {
    /// Method; default GET, or POST with a body.
    pub method: Option<String>,
    /// Header fields as written, `Name: value`; see [`crate::hide::secret_line`].
    pub headers: Vec<Secret>,
    /// Body text.
    pub body: Option<Secret>,
    /// Body from a file.
    pub body_file: Option<PathBuf>,
    /// `user:password` for Basic authentication.
    pub user: Option<Secret>,
    /// Accepted statuses, such as `200`, `200-299`, `404`.
    pub expect_status: Vec<String>,
    /// SHA-256 (hex) that every body must have.
    pub expect_body_sha256: Option<String>,
    /// Regular expression every body must match.
    pub expect_body: Option<String>,
    /// Close after each reply.
    pub disable_keepalive: bool,
    /// Bound of a reply's head, bytes.
    pub head_bytes_max: Option<u32>,
    /// Named requests to the one URL's server, in place of that URL.
    pub requests: Vec<RequestAsked>,
    /// Each user sends them one after another, and not by weight.
    pub sequence: bool,
    /// Files of data, `FILE` or `NAME=FILE`: CSV or, by their name, JSON Lines.
    pub data: Vec<String>,
    /// In which order rows are taken.
    pub data_order: Option<Order>,
    /// What every reply must have; see [`ReplyCheck::parse`].
    pub check: Vec<String>,
    /// Braces are sent as they are.
    pub no_templates: bool,
    /// Methods with their weights, `GET=80,PUT=20`: each is a request to each URL.
    pub mix: Option<String>,
    /// Distinct keys, where requests name one.
    pub keys: Option<u32>,
    /// How keys are drawn.
    pub key_distribution: Option<KeyDistribution>,
    /// What was acknowledged of a key must be there when it is read.
    pub verify_writes: bool,
}

/// A named request, as it may be asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestAsked {
    /// Its name; default its method and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Method; default GET, or POST with a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query on the server of the URL.
    pub path: Secret,
    /// Its share of the requests, relative to the others'; default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Header fields beside those of all requests, `Name: value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Secret>,
    /// Body text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Secret>,
    /// Body from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_file: Option<PathBuf>,
    /// Accepted statuses; default those of all requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<String>,
    /// What is taken from its reply; see [`Take::parse`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub take: Vec<String>,
    /// What its reply must have beside what all must; see [`ReplyCheck::parse`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
}

/// An HTTP/1.1 workload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Http1 {
    /// What is asked; drawn by weight. Never empty.
    pub requests: Vec<HttpRequest>,
    /// Whether connections are kept after a reply.
    pub keep_alive: bool,
    /// Bound of a reply's head, bytes.
    pub head_bytes_max: u32,
    /// Whether each user sends the requests one after another, and from the first again; otherwise they are drawn by weight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sequence: bool,
    /// Files of data that requests take values from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataFile>,
    /// The keys, where requests name one (`{{key}}`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<HttpKeys>,
}

/// The keys that requests name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpKeys {
    /// How many there are: the numbers from 1 to this. At least 1.
    pub count: u32,
    /// How they are drawn.
    pub distribution: KeyDistribution,
    /// Whether what was acknowledged of a key must be there when it is read. Takes a bit for each key, and four bytes where a
    /// request deletes.
    pub verify_writes: bool,
}

/// What a request does to the thing that its target names, by its method (RFC 9110 section 9.3, RFC 5789).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// GET, HEAD: 404 or 410 says that there is nothing.
    Reads,
    /// PUT, POST, PATCH: it is there once that is acknowledged.
    Writes,
    /// DELETE.
    Deletes,
    /// OPTIONS, TRACE: nothing (RFC 9110 section 9.2.1).
    Nothing,
    /// Any other method: nobody knows.
    Unknown,
}

impl Use {
    /// Of a method, as sent.
    pub fn of(method: &str) -> Use {
        match method {
            "GET" | "HEAD" => Use::Reads,
            "PUT" | "POST" | "PATCH" => Use::Writes,
            "DELETE" => Use::Deletes,
            "OPTIONS" | "TRACE" => Use::Nothing,
            _ => Use::Unknown,
        }
    }

    /// Whether a status says that there is nothing under the target.
    pub fn is_nothing(status: u16) -> bool {
        matches!(status, 404 | 410)
    }

    /// Whether a status says that what was asked for is done: 2xx, but not 202, which only promises it (RFC 9110 section
    /// 15.3.3).
    pub fn is_done(status: u16) -> bool {
        matches!(status, 200..=299) && status != 202
    }
}

/// One request of a mix.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HttpRequest {
    /// Index of its origin in the plan's `origins`.
    pub origin: u16,
    /// Share of the requests, relative to the others'.
    pub weight: f64,
    /// The method, as sent.
    pub method: String,
    /// The request target, as sent: path and query.
    #[serde(deserialize_with = "hide::read_target")]
    pub target: Secret,
    /// Header fields in order, `Host` among them; `Content-Length` and `Connection` are added when it is written.
    #[serde(deserialize_with = "hide::read_fields")]
    pub headers: Vec<(String, Secret)>,
    /// The body.
    pub body: Body,
    /// What a good reply looks like.
    pub expect: Expect,
    /// Its name; `None`: its method and target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether values are put in between braces in target, header fields and body ([`crate::template`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_template: bool,
    /// What is taken from its good replies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub take: Vec<Take>,
    /// What its replies must have beside that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ReplyCheck>,
}

/// A request's body: its bytes live in memory only.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Body {
    /// The bytes; not stored with the plan.
    #[serde(skip)]
    pub bytes: Secret,
    /// Their number.
    pub length: u64,
    /// Their SHA-256 in hex; `***` where the body names a secret, which could be guessed by it; empty when there is no body.
    pub sha256: String,
}

impl Body {
    /// Of these bytes, whose SHA-256 in hex this is.
    pub fn new(bytes: Vec<u8>, sha256: String) -> Self {
        let sha256 = if hide::is_guessable(&bytes) { HIDDEN.to_owned() } else { sha256 };
        Body { length: bytes.len() as u64, sha256, bytes: Secret::new(bytes) }
    }
}

impl std::fmt::Debug for Body {
    /// Without the bytes, and the digest they could be guessed by.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("length", &self.length).finish_non_exhaustive()
    }
}

/// What a good reply looks like, beyond its framing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Expect {
    /// Accepted statuses as inclusive ranges; empty: any below 400.
    pub status: Vec<(u16, u16)>,
    /// SHA-256 of the body in hex.
    pub body_sha256: Option<String>,
    /// A regular expression that must match somewhere in the body's first MiB.
    pub body_regex: Option<String>,
}

impl Expect {
    /// Whether a status is an accepted one.
    pub fn accepts(&self, status: u16) -> bool {
        if self.status.is_empty() {
            status < 400
        } else {
            self.status.iter().any(|(low, high)| (*low..=*high).contains(&status))
        }
    }
}

impl ProtocolPlan for Http1 {
    fn closes_after_each(&self) -> bool {
        !self.keep_alive
    }

    fn reads_files(&self) -> bool {
        !self.data.is_empty()
    }

    fn least_bytes(&self) -> (u64, u64) {
        (REQUEST_BYTES_MIN, REPLY_BYTES_MIN)
    }

    fn failure_replies(&self) -> Option<FailureReplies> {
        Some(FailureReplies {
            kind: ErrorKind::UnexpectedStatus,
            none: "every reply had an accepted status",
            remedy: "Look at the target's error log; if these replies are meant, accept them (--expect-status)",
        })
    }

    /// Statuses that no request of the mix accepts.
    fn outcomes(&self) -> Range<u16> {
        100..600
    }

    fn failures_by_name(&self, outcomes: &OutcomeCounts) -> Vec<NamedOutcome> {
        // Of keys that are looked for, to find nothing is as good as a value where none was acknowledged.
        let is_good_news = |status: u16| Use::is_nothing(status) && self.verifies_writes() == Some(true);
        let is_failure = |status: u16| !self.requests.iter().all(|request| request.expect.accepts(status));
        let says_failure = |status: u16| is_failure(status) && !is_good_news(status);
        let named = |(status, count): (u16, u64)| {
            let name = if status == 0 { "outside 100 to 599".to_owned() } else { status.to_string() };
            let (meaning, remedy) = match status {
                TOO_MANY_REQUESTS => (": it is asked too often", Some(ASK_LESS)),
                _ => ("", None),
            };
            NamedOutcome { name: format!("status {name}"), metric: format!("status.{status}"), count, meaning, remedy }
        };
        outcomes.seen().filter(|(status, _)| says_failure(*status)).map(named).collect()
    }

    fn entries(&self) -> usize {
        self.requests.len()
    }

    fn entry_name(&self, entry: u16) -> Option<String> {
        let request = self.requests.get(usize::from(entry))?;
        Some(request.name.clone().unwrap_or_else(|| format!("{} {}", request.method, request.target)))
    }

    fn by_hand(&self, origin: Option<&Origin>) -> String {
        let origin = origin.map_or("URL", |origin| &origin.name);
        let target = self.requests.first().map_or("/", |request| request.target.shown());
        format!("curl -sv -o /dev/null '{origin}{target}'")
    }

    fn verifies_writes(&self) -> Option<bool> {
        let writes = self.requests.iter().any(|request| Use::of(&request.method) == Use::Writes);
        self.keys.as_ref().filter(|_| writes).map(|keys| keys.verify_writes)
    }

    fn each_secret(&mut self, change: &mut dyn FnMut(&mut Secret)) {
        for HttpRequest { target, headers, body, .. } in &mut self.requests {
            change(target);
            headers.iter_mut().for_each(|(_, value)| change(value));
            change(&mut body.bytes);
        }
    }
}
