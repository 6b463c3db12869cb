//! What agents and controllers say to each other, as JSON. Each is checked when it is read: it may come from anybody who may speak
//! on that NATS.

use crate::limits::{AGENTS_MAX, LABELS_MAX, NAME_MAX, OBSERVER_NAME_MAX, WORKERS_MAX};
use model::recording::Capsule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an agent does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Nothing: it can be had.
    Idle,
    /// It has agreed to a run that has not begun.
    Agreed,
    /// It puts load on.
    Running,
    /// Its load is over; its recording is on its way.
    Delivering,
}

impl Doing {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Doing::Idle => "idle",
            Doing::Agreed => "agreed to a run",
            Doing::Running => "running",
            Doing::Delivering => "delivering",
        }
    }
}

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its name; no two have the same.
    pub name: String,
    /// Made anew with each start: two agents of one name are told apart by it.
    pub instance: String,
    /// The tool's version.
    pub version: String,
    /// [`crate::limits::PROTOCOL`] of its side.
    pub protocol: u32,
    /// Its machine: CPU and cores in words.
    pub cpu: String,
    /// Workers that it can give.
    pub workers: u16,
    /// What its owner calls it by.
    pub labels: Vec<String>,
    /// Targets that its owner allows, as they were written.
    pub targets: Vec<String>,
    /// What it does.
    pub doing: Doing,
    /// The run it does that for.
    pub run: Option<String>,
}

/// A request to be part of a run, whose plan is in its stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// The run.
    pub run: String,
    /// The version of the tool that asks.
    pub version: String,
    /// [`crate::limits::PROTOCOL`] of that side.
    pub protocol: u32,
}

/// The answer to [`Take`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Taken {
    /// It will.
    Agreed {
        /// Workers that it gives.
        workers: u16,
    },
    /// It will not.
    Refused {
        /// Why, in a sentence.
        why: String,
    },
}

/// Which of all workers are an agent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareOf {
    /// The agent.
    pub agent: String,
    /// Its first worker's number.
    pub first: u16,
    /// How many it has.
    pub workers: u16,
}

impl ShareOf {
    /// The numbers of its workers.
    pub fn range(&self) -> std::ops::Range<u16> {
        self.first..self.first.saturating_add(self.workers)
    }
}

/// Who does what: said once, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deal {
    /// Each agent with its workers; together they are all of them.
    pub shares: Vec<ShareOf>,
}

impl Deal {
    /// How many workers there are in all; `None`: the shares are not one after another, or too many.
    pub fn workers(&self) -> Option<u16> {
        self.shares.iter().try_fold(0u16, |next, share| {
            let is_next = share.first == next && share.workers >= 1 && is_name(&share.agent);
            next.checked_add(share.workers).filter(|_| is_next)
        })
    }
}

/// A second deal: those that are left put on the share of lost ones as well. Its number is in its subject, and the last one holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Redeal {
    /// Whose shares are dealt: where they live they put on nothing any more.
    pub lost: Vec<String>,
    /// From when on, nanoseconds after the load's beginning.
    pub from_ns: u64,
    /// How many times what it was dealt at first each of the others puts on from there.
    pub factors: BTreeMap<String, f64>,
    /// How much of the whole nobody puts on from there, as owners do not allow it, 0..=1.
    pub left: f64,
}

impl Redeal {
    /// Whether it is one that a controller can have sent.
    pub fn is_sound(&self) -> bool {
        let is_factor = |factor: &f64| (1.0..=f64::from(WORKERS_MAX) * AGENTS_MAX as f64).contains(factor);
        !self.lost.is_empty()
            && self.lost.len() <= AGENTS_MAX
            && self.factors.len() <= AGENTS_MAX
            && self.factors.values().all(is_factor)
            && (0.0..=1.0).contains(&self.left)
    }
}

/// When an agent is to begin, or to release a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// On its own CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: i64,
    /// Its clock less the controller's, nanoseconds.
    pub offset_ns: i64,
    /// The true offset is at most so far from that, nanoseconds.
    pub bound_ns: u64,
}

/// A common moment, for each agent on its own clock: the word to begin, and the word to release a burst.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// By the agents' names.
    pub moments: BTreeMap<String, Moment>,
}

/// How an agent fares in a run: in its stream, acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// Its workers wait for the word.
    Ready {
        /// Its machine, for a recording that has to be made without it.
        capsule: Box<Capsule>,
        /// Where its own recording lies.
        kept_at: String,
        /// How many times its share its owner allows; `None`: any.
        #[serde(default)]
        factor_max: Option<f64>,
    },
    /// It cannot, or could not go on.
    Failed {
        /// Why, in a sentence.
        why: String,
    },
    /// It has begun.
    Began {
        /// On its own CLOCK_MONOTONIC, nanoseconds.
        at_ns: i64,
        /// After the moment that it was told, nanoseconds.
        late_ns: u64,
    },
    /// Its connections are ready for a burst, and it waits for the word to release it.
    Met {
        /// Which one, from 0 on.
        round: u32,
    },
    /// It heard that word too late for the moment, and released the burst when it heard.
    ReleasedLate {
        /// Which one, from 0 on.
        round: u32,
        /// After the moment, nanoseconds.
        late_ns: u64,
    },
    /// Its recording has been handed over whole.
    Delivered {
        /// In so many pieces,
        chunks: u64,
        /// of so many bytes.
        bytes: u64,
        /// SHA-256 of all of it, in hex.
        sha256: String,
        /// Ticks that it could not hand over as they came; they are in the recording.
        ticks_left_out: u64,
    },
}

/// A sign of life: not kept, and nothing depends on one alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// The agent.
    pub agent: String,
    /// What it does.
    pub doing: Doing,
    /// What it cannot do at the moment; of one that is idle, what it has given up.
    pub trouble: Option<String>,
}

/// Stops the load of all agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why, in a few words.
    pub why: String,
    /// Whoever follows the run has seen enough: the load ends as if it had been planned so, and not early.
    #[serde(default)]
    pub is_enough: bool,
}

/// The last word of a controller: it has the result, and takes the run's stream away. Not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The run.
    pub done: String,
}

/// Whether a text can be an agent's name, a run's or a label: it is part of subjects, of file names and of sentences.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_MAX && is_word(text)
}

/// What can be said of an agent's name that was refused.
pub const NAMES: &str = "1 to 48 letters, digits, '-' and '_'";

/// Whether a text can be an observer's name: words with dots between, as an observer may be called as its machine is.
pub fn is_observer_name(text: &str) -> bool {
    text.len() <= OBSERVER_NAME_MAX && text.split('.').all(is_word)
}

/// What can be said of an observer's name that was refused.
pub const OBSERVER_NAMES: &str = "1 to 253 letters, digits, '-' and '_', with dots between";

fn is_word(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    !text.is_empty() && text.bytes().all(inside) && !text.starts_with('-')
}

impl Card {
    /// Whether it is one that an agent can have sent.
    pub fn is_sound(&self) -> bool {
        let short = |text: &str| text.len() <= 256;
        is_name(&self.name)
            && is_name(&self.instance)
            && (1..=WORKERS_MAX).contains(&self.workers)
            && self.labels.len() <= LABELS_MAX
            && self.labels.iter().all(|label| is_label(label))
            && self.targets.len() <= 256
            && self.targets.iter().all(|target| short(target))
            && short(&self.version)
            && short(&self.cpu)
            && self.run.as_deref().is_none_or(is_name)
    }
}

/// Whether a text can be a label: a word, or one with a value, `zone=a`.
pub fn is_label(text: &str) -> bool {
    let (word, value) = text.split_once('=').unwrap_or((text, "_"));
    is_name(word) && is_name(value)
}

/// A message of a kind; `None`: it is none.
pub fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// A message in bytes.
pub fn write<T: Serialize>(message: &T) -> Vec<u8> {
    // Of these types none has what JSON cannot say.
    serde_json::to_vec(message).unwrap_or_default()
}

/// A text of the other side as it may be shown: bounded, on one line, without control characters.
pub fn tamed(text: &str) -> String {
    text.chars().take(400).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_subjects_and_files() {
        for name in ["a", "host-1", "host_2-77"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["node-1.eu.example", "a_b", &"x".repeat(NAME_MAX + 1)] {
            assert!(is_observer_name(name), "{name}");
        }
        for name in ["", ".", "a..b", "a.", ".a", "a.-b", "a.*", "a b", &"x".repeat(OBSERVER_NAME_MAX + 1)] {
            assert!(!is_observer_name(name), "{name}");
        }
        for name in ["", "-x", "a.b", "a*", ">", "a b", "../x", "ä", &"x".repeat(NAME_MAX + 1)] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_label("zone=a") && is_label("big") && !is_label("zone=") && !is_label("a=b=c"));
    }

    #[test]
    fn a_deal_covers_every_worker_once() {
        let share = |agent: &str, first, workers| ShareOf { agent: agent.to_owned(), first, workers };
        let workers = |shares| Deal { shares }.workers();
        assert_eq!(workers(vec![share("a", 0, 2), share("b", 2, 1)]), Some(3));
        for wrong in [
            vec![share("a", 0, 2), share("b", 1, 1)],
            vec![share("a", 1, 2)],
            vec![share("a", 0, 0)],
            vec![share("a", 0, u16::MAX), share("b", u16::MAX, 1)],
            vec![share("a.b", 0, 1)],
        ] {
            assert_eq!(workers(wrong), None);
        }
    }
}
