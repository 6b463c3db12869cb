//! RESP2 as data: what is asked of a server that speaks redis' protocol, and how its replies are numbered.
//!
//! Replies are counted by command and what they were, in one number of its own ([`reply_code`]), so that each
//! command's hits, misses and error words are known without memory of their own. Passwords live in memory only.

use super::{FailureReplies, NamedOutcome, ProtocolPlan};
use crate::outcomes::OutcomeCounts;
use crate::payload::{Content, Sizes};
use crate::plan::{Address, Origin};
use crate::secret::{HIDDEN, Secret};
use crate::{ErrorKind, hide};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most commands of one mix.
pub const COMMANDS_MAX: usize = 64;
/// Outcomes a reply may have, told apart.
const OUTCOMES: u16 = 31;
/// The first number of a reply.
const FIRST_CODE: u16 = 100;
/// The number of outcomes before those of error words.
const BEFORE_WORDS: u16 = 3;
/// The shortest request: an array of one string of one byte.
const REQUEST_BYTES_MIN: u64 = 11;
/// The shortest reply: a type and a line end.
const REPLY_BYTES_MIN: u64 = 3;

/// First words of error replies that are told apart, with what each usually means; the last stands for any other.
/// Numbered by place in recordings: never change one, add before none.
pub const ERROR_WORDS: &[(&str, &str)] = &[
    ("ERR", "the server answered -ERR: it does not know the command, or not with these arguments"),
    ("WRONGTYPE", "the server answered -WRONGTYPE: the key holds another kind of value"),
    ("NOAUTH", "the server answered -NOAUTH: it wants a password first"),
    ("WRONGPASS", "the server answered -WRONGPASS: user and password do not fit, or the user is disabled"),
    ("NOPERM", "the server answered -NOPERM: the user may not do this"),
    ("LOADING", "the server answered -LOADING: it is reading its data set into memory"),
    ("MOVED", "the server answered -MOVED: another node of the cluster has the key"),
    ("ASK", "the server answered -ASK: the key is being moved to another node of the cluster"),
    ("TRYAGAIN", "the server answered -TRYAGAIN: the keys are being moved in the cluster"),
    ("CLUSTERDOWN", "the server answered -CLUSTERDOWN: the cluster does not serve this key"),
    ("CROSSSLOT", "the server answered -CROSSSLOT: the keys belong to several slots of the cluster"),
    ("OOM", "the server answered -OOM: it has reached its maxmemory"),
    ("READONLY", "the server answered -READONLY: it is a replica"),
    ("MISCONF", "the server answered -MISCONF: it cannot write its snapshot and refuses changes"),
    ("MASTERDOWN", "the server answered -MASTERDOWN: the replica has lost its master"),
    ("NOREPLICAS", "the server answered -NOREPLICAS: too few replicas follow"),
    ("BUSY", "the server answered -BUSY: a script runs too long"),
    ("NOSCRIPT", "the server answered -NOSCRIPT: it does not know the script"),
    ("EXECABORT", "the server answered -EXECABORT: the transaction was given up"),
    ("NOPROTO", "the server answered -NOPROTO: it does not speak this version of the protocol"),
    ("UNKILLABLE", "the server answered -UNKILLABLE: the script cannot be ended"),
    ("NOTBUSY", "the server answered -NOTBUSY: no script runs"),
    ("BUSYKEY", "the server answered -BUSYKEY: the key exists"),
    ("BUSYGROUP", "the server answered -BUSYGROUP: the consumer group exists"),
    ("NOGROUP", "the server answered -NOGROUP: there is no such consumer group"),
    ("IOERR", "the server answered -IOERR: it cannot reach another server"),
    ("UNBLOCKED", "the server answered -UNBLOCKED: the waiting client was let go"),
    ("other", "the server answered with an error of a word of its own"),
];

/// What may be asked of RESP.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RespAsked {
    /// Commands with their weights, `GET=80,SET=20`.
    pub mix: Option<Secret>,
    /// Distinct keys.
    pub keys: Option<u32>,
    /// What every key begins with.
    pub key_prefix: Option<String>,
    /// How keys are drawn.
    pub key_distribution: Option<KeyDistribution>,
    /// Sizes of values.
    pub value_sizes: Option<Sizes>,
    /// Content of values.
    pub content: Option<Content>,
    /// Values are not compared.
    pub no_validate: bool,
    /// A value whose write was acknowledged must be there when it is read.
    pub verify_writes: bool,
    /// `user:password` for AUTH.
    pub user: Option<Secret>,
}

/// A workload of RESP2 commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resp {
    /// What is asked; drawn by weight. Never empty, at most [`COMMANDS_MAX`].
    pub commands: Vec<RespCommand>,
    /// How many distinct keys there are. At least 1.
    pub keys: u32,
    /// What every key begins with; its number in twelve digits follows.
    pub key_prefix: String,
    /// How keys are drawn.
    pub key_distribution: KeyDistribution,
    /// Sizes of values, bytes; a key has one of its own.
    pub values: Sizes,
    /// What values are made of.
    pub content: Content,
    /// Seed of the values: the same one makes the same value of a key, whatever the run.
    pub value_seed: u64,
    /// Whether values that come back must be the ones their keys have.
    pub validate: bool,
    /// Whether a value whose write was acknowledged must be there when it is read. Takes a bit for each key.
    #[serde(default)]
    pub verify_writes: bool,
    /// What is said first on a connection, for each origin.
    pub logins: Vec<Login>,
}

impl ProtocolPlan for Resp {
    fn least_bytes(&self) -> (u64, u64) {
        (REQUEST_BYTES_MIN, REPLY_BYTES_MIN)
    }

    fn failure_replies(&self) -> Option<FailureReplies> {
        Some(FailureReplies {
            kind: ErrorKind::ErrorReply,
            none: "no reply was an error",
            remedy: "Send the command by hand and read the error's text; the target's log may say more",
        })
    }

    /// Error replies by their first word.
    fn outcomes(&self) -> Range<u16> {
        let codes = self.commands.len().min(COMMANDS_MAX) as u16 * OUTCOMES;
        FIRST_CODE..FIRST_CODE + codes
    }

    fn failures_by_name(&self, outcomes: &OutcomeCounts) -> Vec<NamedOutcome> {
        let named = |(word, count): (&str, u64)| NamedOutcome {
            name: format!("-{word}"),
            metric: format!("error_replies.{word}"),
            count,
            meaning: "",
            remedy: None,
        };
        tally(outcomes, self.commands.len()).1.into_iter().map(named).collect()
    }

    fn entries(&self) -> usize {
        self.commands.len()
    }

    fn entry_name(&self, entry: u16) -> Option<String> {
        Some(self.commands.get(usize::from(entry))?.shown())
    }

    fn by_hand(&self, origin: Option<&Origin>) -> String {
        let command = self.commands.first().map_or(String::new(), RespCommand::shown);
        let key = format!("{}{:012}", self.key_prefix, 0);
        let to = match origin.and_then(|origin| origin.addresses.first()) {
            Some(Address::Tcp(at)) => format!("-h {} -p {}", at.ip(), at.port()),
            Some(Address::Unix(path)) => format!("-s {}", path.display()),
            None => String::new(),
        };
        format!("redis-cli {to} {}", command.replace("{key}", &key).replace("{value}", "x"))
    }

    fn verifies_writes(&self) -> Option<bool> {
        Some(self.verify_writes)
    }

    fn each_secret(&mut self, change: &mut dyn FnMut(&mut Secret)) {
        self.logins.iter_mut().for_each(|login| change(&mut login.password));
        self.commands.iter_mut().flat_map(|command| &mut command.words).for_each(change);
    }

    fn hide_names(&mut self) {
        self.commands.iter_mut().for_each(RespCommand::hide_name);
    }
}

/// One command of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RespCommand {
    /// Its name in reports: the first word, or the whole template where it was written out.
    pub name: String,
    /// Share of the requests, relative to the others'.
    pub weight: f64,
    /// Its words; `{key}` and `{value}` stand for a key and its value.
    #[serde(deserialize_with = "hide::read_words")]
    pub words: Vec<Secret>,
    /// What a good reply is.
    pub expect: RespExpect,
}

impl RespCommand {
    /// Of a name and words as they were written; what is secret of the words is in the name neither.
    pub fn new(name: String, weight: f64, words: Vec<String>, expect: RespExpect) -> Self {
        let mut command = RespCommand { name, weight, words: hide::secret_words(words), expect };
        command.hide_name();
        command
    }

    /// The words as they may be shown, with blanks between them.
    pub fn shown(&self) -> String {
        self.words.iter().map(Secret::shown).collect::<Vec<_>>().join(" ")
    }

    fn hide_name(&mut self) {
        if self.words.iter().any(|word| word.shown() == HIDDEN) {
            self.name = self.shown();
        }
    }
}

/// What a good reply to a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RespExpect {
    /// `+OK`.
    Ok,
    /// `+PONG`.
    Pong,
    /// An integer.
    Integer,
    /// The key's value, or nil where it has none.
    Value,
    /// An array.
    Array,
    /// Anything but an error.
    Any,
}

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyDistribution {
    /// Each as often as any other.
    Uniform,
    /// The key of rank r in proportion to 1 / r^s; this is s.
    Zipf(f64),
    /// One after another, round and round, over all workers together.
    Sequential,
}

/// What is said first on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Login {
    /// Whether `AUTH` is sent.
    pub auth: bool,
    /// Its user; `None`: the server's default one.
    pub user: Option<String>,
    /// Its password; not stored.
    #[serde(skip)]
    pub password: Secret,
    /// The database selected; `None`: the server's default one.
    pub database: Option<u32>,
}

/// What a complete reply was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The one that was due.
    Good,
    /// Nil, where that is as good.
    Nil,
    /// Well framed, but not the one that was due.
    Wrong,
    /// An error; index in [`ERROR_WORDS`].
    Error(u8),
}

/// The number under which a reply is counted.
pub fn reply_code(command: u32, outcome: Outcome) -> u16 {
    let within = match outcome {
        Outcome::Good => 0,
        Outcome::Nil => 1,
        Outcome::Wrong => 2,
        Outcome::Error(word) => BEFORE_WORDS + u16::from(word),
    };
    FIRST_CODE + command as u16 * OUTCOMES + within
}

/// Command and outcome of a number; `None` for one that no reply has.
pub fn of_reply_code(code: u16) -> Option<(usize, Outcome)> {
    let code = code.checked_sub(FIRST_CODE)?;
    let command = usize::from(code / OUTCOMES);
    let outcome = match code % OUTCOMES {
        0 => Outcome::Good,
        1 => Outcome::Nil,
        2 => Outcome::Wrong,
        word => Outcome::Error((word - BEFORE_WORDS) as u8),
    };
    (command < COMMANDS_MAX).then_some((command, outcome))
}

/// The index of an error's first word.
pub fn error_word(word: &[u8]) -> u8 {
    let other = ERROR_WORDS.len() - 1;
    ERROR_WORDS[..other].iter().position(|(known, _)| known.as_bytes() == word).unwrap_or(other) as u8
}

/// Replies to one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct CommandReplies {
    /// All complete ones.
    pub replies: u64,
    /// Of those, nil where that is as good as a value.
    pub nil: u64,
    /// Well framed, but not the ones that were due.
    pub wrong: u64,
    /// Errors.
    pub errors: u64,
}

/// Replies by command, in the order of `count` commands, and error replies by first word.
pub fn tally(status: &OutcomeCounts, count: usize) -> (Vec<CommandReplies>, Vec<(&'static str, u64)>) {
    let mut commands = vec![CommandReplies::default(); count];
    let mut words = vec![0u64; ERROR_WORDS.len()];
    for (code, n) in status.seen() {
        let Some((command, outcome)) = of_reply_code(code) else { continue };
        let mut nowhere = CommandReplies::default();
        let of = commands.get_mut(command).unwrap_or(&mut nowhere);
        of.replies += n;
        match outcome {
            Outcome::Good => {}
            Outcome::Nil => of.nil += n,
            Outcome::Wrong => of.wrong += n,
            Outcome::Error(word) => {
                of.errors += n;
                words[usize::from(word).min(ERROR_WORDS.len() - 1)] += n;
            }
        }
    }
    let words = ERROR_WORDS.iter().zip(words).filter(|(_, n)| *n > 0).map(|((word, _), n)| (*word, n)).collect();
    (commands, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_has_a_number_of_its_own() {
        assert_eq!(usize::from(OUTCOMES - BEFORE_WORDS), ERROR_WORDS.len());
        let outcomes = [Outcome::Good, Outcome::Nil, Outcome::Wrong].into_iter();
        let outcomes: Vec<_> = outcomes.chain((0..ERROR_WORDS.len() as u8).map(Outcome::Error)).collect();
        let mut seen = std::collections::BTreeSet::new();
        for command in 0..COMMANDS_MAX {
            for outcome in &outcomes {
                let code = reply_code(command as u32, *outcome);
                assert!(seen.insert(code), "{command} {outcome:?}: {code}");
                assert_eq!(of_reply_code(code), Some((command, *outcome)));
            }
        }
        let beyond = FIRST_CODE + COMMANDS_MAX as u16 * OUTCOMES;
        assert_eq!((of_reply_code(0), of_reply_code(beyond)), (None, None));
    }

    #[test]
    fn replies_are_told_apart_by_command_and_word() {
        let mut status = OutcomeCounts::default();
        status.add(reply_code(0, Outcome::Good), 5);
        status.add(reply_code(0, Outcome::Nil), 2);
        status.add(reply_code(1, Outcome::Wrong), 1);
        status.add(reply_code(1, Outcome::Error(error_word(b"WRONGTYPE"))), 3);
        status.add(reply_code(1, Outcome::Error(error_word(b"MINE"))), 4);
        let (commands, words) = tally(&status, 2);
        assert_eq!(commands[0], CommandReplies { replies: 7, nil: 2, wrong: 0, errors: 0 });
        assert_eq!(commands[1], CommandReplies { replies: 8, nil: 0, wrong: 1, errors: 7 });
        assert_eq!(words, [("WRONGTYPE", 3), ("other", 4)]);
    }
}
