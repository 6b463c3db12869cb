//! What is told of HTTP: requests of the mix, what a good reply has, statuses.

use super::resp::drawn;
use super::{Replies, Told};
use crate::text::explain::Page;
use crate::words::{counted, grouped, listed};
use model::data::{DataFile, Order};
use model::limits;
use model::outcomes::OutcomeCounts;
use model::plan::Http1;
use model::units::show_bytes;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Requests of a mix that are shown each; the others are counted.
const REQUESTS_SHOWN_MAX: usize = 8;

/// Replies by status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct HttpReplies {
    /// Replies by status code; `other` for codes outside 100 to 599.
    pub status: BTreeMap<String, u64>,
}

impl Told for Http1 {
    fn what(&self, page: &mut Page) {
        requests(self, page);
    }

    fn limits(&self, page: &mut Page) {
        page.row("reply head", &show_bytes(f64::from(self.head_bytes_max)));
        page.row("body check", &format!("the first {}", show_bytes(f64::from(limits::BODY_CHECK_BYTES_MAX))));
    }

    fn paragraphs(&self, outcomes: &OutcomeCounts) -> Vec<(&'static str, String)> {
        let seen: Vec<String> = outcomes.seen().map(|(code, n)| format!("{} ×{}", name_of(code), grouped(n))).collect();
        if seen.is_empty() { Vec::new() } else { vec![("Status", listed(&seen))] }
    }

    fn used_up(&self, requests: u64) -> Option<String> {
        let is_used_up = |file: &&DataFile| {
            let rounds = if self.sequence { requests.div_ceil(self.requests.len().max(1) as u64) } else { requests };
            file.order == Order::Unique && rounds >= file.rows
        };
        let file = self.data.iter().find(is_used_up)?;
        let rows = counted(file.rows, "row");
        Some(format!("{rows} of {}, each given once, were used up: the load ended with them", file.path.display()))
    }

    fn fill(&self, outcomes: &OutcomeCounts, replies: &mut Replies) {
        replies.http.status = outcomes.seen().map(|(code, n)| (name_of(code), n)).collect();
    }
}

fn name_of(code: u16) -> String {
    if code == 0 { "other".to_owned() } else { code.to_string() }
}

fn requests(http: &Http1, page: &mut Page) {
    let total: f64 = http.requests.iter().map(|request| request.weight).sum();
    for request in http.requests.iter().take(REQUESTS_SHOWN_MAX) {
        let share = match http.requests.len() {
            1 => String::new(),
            _ if http.sequence => ", in its turn".to_owned(),
            _ => format!(", {:.1} % of the requests", request.weight / total * 100.0),
        };
        let name = request.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        page.row("what", &format!("{name}{} {} HTTP/1.1{share}", request.method, request.target));
        for take in &request.take {
            page.row("", &format!("takes {take}"));
        }
        for check in &request.checks {
            page.row("", &format!("checks {check}"));
        }
    }
    if http.requests.len() > REQUESTS_SHOWN_MAX {
        page.row("", &format!("and {} more", http.requests.len() - REQUESTS_SHOWN_MAX));
    }
    for file in &http.data {
        let order = match file.order {
            Order::Sequential => "one after another",
            Order::Random => "at random",
            Order::Unique => "each once",
        };
        page.row("data", &format!("{}, {}, {order}", file.path.display(), counted(file.rows, "row")));
    }
    if let Some(keys) = &http.keys {
        page.row("keys", &format!("1 to {}, {}", keys.count, drawn(keys.distribution)));
        if keys.verify_writes {
            page.row("", "a read that finds nothing of an acknowledged write is a failure, lost-write");
        }
    }
    let Some(first) = http.requests.first() else { return };
    for (name, value) in &first.headers {
        page.row("", &format!("{name}: {value}"));
    }
    if !first.body.sha256.is_empty() {
        page.row("body", &format!("{}, SHA-256 {}", show_bytes(first.body.length as f64), first.body.sha256));
    }
    page.row("a good reply has", &good_reply(http));
    page.row("redirects", "are not followed: a status below 400 is a good reply");
}

fn good_reply(http: &Http1) -> String {
    let Some(expect) = http.requests.first().map(|request| &request.expect) else { return String::new() };
    let mut parts = Vec::new();
    parts.push(match &expect.status[..] {
        [] => "a status below 400".to_owned(),
        ranges => {
            let shown =
                ranges.iter().map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") });
            format!("status {}", shown.collect::<Vec<_>>().join(" or "))
        }
    });
    parts.extend(expect.body_regex.as_ref().map(|regex| format!("a body that matches '{regex}'")));
    parts.extend(expect.body_sha256.as_ref().map(|hex| format!("a body with SHA-256 {hex}")));
    parts.join(", ")
}
