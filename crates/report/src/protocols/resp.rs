//! What is told of RESP: commands of the mix, keys and values, replies by command and error replies by their first word.

use super::{Limit, Replies, Told, made_of};
use crate::text::explain::Page;
use crate::words::{grouped, listed};
use model::limits;
use model::outcomes::OutcomeCounts;
use model::resp::{CommandReplies, KeyDistribution, Resp, RespCommand, RespExpect, tally};
use model::units::show_bytes;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Replies by command and by error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct RespReplies {
    /// Replies by command; of RESP.
    pub commands: BTreeMap<String, CommandReplies>,
    /// Error replies by their first word; of RESP.
    pub error_replies: BTreeMap<&'static str, u64>,
}

impl Told for Resp {
    fn what(&self, page: &mut Page) {
        commands(self, page);
    }

    fn paragraphs(&self, outcomes: &OutcomeCounts) -> Vec<(&'static str, String)> {
        let (replies, words) = tally(outcomes, self.commands.len());
        let by_command: Vec<String> =
            self.commands.iter().zip(replies).filter(|(_, of)| of.replies > 0).map(by_command).collect();
        let words: Vec<String> = words.iter().map(|(word, n)| format!("-{word} ×{}", grouped(*n))).collect();
        let paragraphs = [("Replies", by_command), ("Errors", words)];
        let said = paragraphs.into_iter().filter(|(_, parts)| !parts.is_empty());
        said.map(|(heading, parts)| (heading, listed(&parts))).collect()
    }

    fn fill(&self, outcomes: &OutcomeCounts, replies: &mut Replies) {
        let (of_commands, words) = tally(outcomes, self.commands.len());
        replies.resp.commands = self.commands.iter().map(|command| command.name.clone()).zip(of_commands).collect();
        replies.resp.error_replies = words.into_iter().collect();
    }
}

fn by_command((command, of): (&RespCommand, CommandReplies)) -> String {
    let mut text = format!("{} ×{}", command.name, grouped(of.replies));
    let more: Vec<String> = [(of.nil, "nil"), (of.wrong, "wrong"), (of.errors, "errors")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", grouped(n)))
        .collect();
    if !more.is_empty() {
        text += &format!(" ({})", more.join(", "));
    }
    text
}

fn commands(resp: &Resp, page: &mut Page) {
    let total: f64 = resp.commands.iter().map(|command| command.weight).sum();
    for command in &resp.commands {
        let share = match resp.commands.len() {
            1 => String::new(),
            _ => format!(", {:.1} % of the requests", command.weight / total * 100.0),
        };
        page.row("what", &format!("{}{share}", command.shown()));
        let due = match command.expect {
            RespExpect::Ok => "+OK",
            RespExpect::Pong => "+PONG",
            RespExpect::Integer => "an integer",
            RespExpect::Value if resp.validate => "its key's value, or nil",
            RespExpect::Value => "a string or nil",
            RespExpect::Array => "an array",
            RespExpect::Any => "anything but an error",
        };
        page.row("", &format!("a good reply is {due}"));
    }
    let drawn = drawn(resp.key_distribution);
    let last = format!("{}{:012}", resp.key_prefix, resp.keys - 1);
    page.row("keys", &format!("{}{:012} to {last}, {drawn}", resp.key_prefix, 0));
    page.row("values", &format!("{}, seed {}", made_of(&resp.values, resp.content), resp.value_seed));
    for login in resp.logins.iter().filter(|login| login.auth || login.database.is_some()) {
        let auth = login.auth.then(|| match &login.user {
            Some(user) => format!("AUTH as {user}, password not shown"),
            None => "AUTH, password not shown".to_owned(),
        });
        let select = login.database.map(|database| format!("SELECT {database}"));
        let said: Vec<String> = auth.into_iter().chain(select).collect();
        page.row("said first", &said.join("; "));
    }
}

/// How keys are drawn.
pub(super) fn drawn(distribution: KeyDistribution) -> String {
    match distribution {
        KeyDistribution::Uniform => "each as often as any other".to_owned(),
        KeyDistribution::Zipf(exponent) => format!("Zipf with exponent {exponent}"),
        KeyDistribution::Sequential => "one after another".to_owned(),
    }
}

/// What is taken of a reply at the most.
pub(super) fn limit_of_version() -> Limit {
    let (string, line) =
        (show_bytes(f64::from(limits::RESP_BULK_BYTES_MAX)), show_bytes(f64::from(limits::RESP_LINE_BYTES_MAX)));
    let (deep, elements) = (limits::RESP_DEPTH_MAX, limits::RESP_ELEMENTS_MAX);
    ("RESP reply", format!("strings of {string}, lines of {line}, {elements} elements, {deep} deep"))
}
