//! What both sides say to each other, in this order: hello, welcome; stamps at any time from there on; start, started;
//! readings, until one side has enough.

use model::bpf::Level;
use model::remote::TargetHost;
use model::snapshot::SamplerStatus;
use model::{Event, Snapshot};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The first frame of a run, the only one an observer reads of a stranger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol it speaks.
    pub protocol: u32,
    /// Its version.
    pub version: String,
    /// That it has the token, on this connection: in hex.
    pub proof: String,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Come in.
    Welcome {
        /// The observer's version.
        version: String,
        /// That the observer has the token, too: in hex.
        proof: String,
    },
    /// Not now: as many are observed for as may be. Said only to who has proved to have the token.
    Busy {
        /// Why, in a sentence.
        why: String,
    },
    /// No.
    Refused {
        /// Why, in a sentence.
        why: String,
    },
}

/// What a run says after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRun {
    /// Take a stamp.
    Ping {
        /// When this was sent, the run's clock.
        sent_ns: i64,
    },
    /// Observe, and send what is seen.
    Start(Start),
    /// The target was slow just now: probes that run in windows may look at once.
    Slow,
    /// One last reading, and then no more.
    Finish,
}

/// What is to be observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Whose processes, unless the observer was started with a process or port of its own.
    pub whom: Whom,
    /// Time between two readings, nanoseconds.
    pub tick_ns: u64,
    /// Which probes run in the kernel.
    pub probes: Level,
}

/// Whose processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whom {
    /// Those that listen where the load goes, or at least on its port.
    Addresses(Vec<SocketAddr>),
    /// Those that listen on a port.
    Port(u16),
    /// That one and its children.
    Pid(u32),
}

/// What an observer says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromObserver {
    /// The stamps asked for.
    Pong {
        /// As it was in the ping.
        sent_ns: i64,
        /// When the ping was received, the observer's clock.
        received_ns: i64,
        /// When this was sent, the observer's clock.
        answered_ns: i64,
    },
    /// It observes.
    Started {
        /// On which machine.
        host: Box<TargetHost>,
        /// Why no process of the target is known.
        unknown: Option<String>,
    },
    /// A reading.
    Reading(Box<Reading>),
    /// It ends, as it was told to: by the run, or by whoever started it.
    Ended {
        /// Why, in a phrase.
        why: String,
    },
}

/// What was seen at a moment. All times are of the observer's CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What happened since the one before.
    pub events: Vec<Event>,
    /// How the samplers fare, where that has changed.
    pub samplers: Option<Vec<SamplerStatus>>,
    /// Readings so far that could not be sent because the link was slow.
    pub lost: u64,
}
