//! Where the time of slow requests went, and where slow or failed requests concentrate.
//!
//! What a slow request took beyond the fast band of its own kind is cut into waits. At each moment a request is in exactly one
//! wait, so the shares of [`SlowTime::waits`] add up to one, and those of a single request as well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a slow request waited for at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// For a free connection.
    Queue,
    /// For its own connection to be made, TLS included.
    Connect,
    /// The same, and for so long that a SYN must have been sent again (RFC 6298: after a second).
    ConnectAgain,
    /// From its sending to the target's socket.
    There,
    /// In the target's socket until the target read it.
    Socket,
    /// While no request of any connection was answered.
    Pause,
    /// While the target's language runtime had stopped it for its collector.
    Collector,
    /// In the target: its threads ran.
    OnCpu,
    /// In the target: its threads wanted a CPU and had none.
    Runnable,
    /// In the target: its control group's quota was used up.
    Throttled,
    /// In the target: its threads waited for a disk.
    Disk,
    /// In the target: its threads waited for a lock.
    Lock,
    /// In the target: its threads waited for a server that the target asks.
    Backend,
    /// In the target: its threads waited for room in a pipe, or for a file that is only appended to.
    Log,
    /// In the target: its threads slept for a time of their own.
    Sleep,
    /// In the target, from its first read to its last send, and at what is not known.
    Server,
    /// From the last send of its reply until all of it had come.
    Back,
    /// There and back: of a target on another machine only the sum of both is known.
    Network,
    /// From its sending to its end, which could not be split.
    Unsplit,
}

impl Wait {
    /// All of them, in the order of a request's life.
    pub const ALL: [Wait; 19] = [
        Wait::Queue,
        Wait::Connect,
        Wait::ConnectAgain,
        Wait::There,
        Wait::Socket,
        Wait::Pause,
        Wait::Collector,
        Wait::OnCpu,
        Wait::Runnable,
        Wait::Throttled,
        Wait::Disk,
        Wait::Lock,
        Wait::Backend,
        Wait::Log,
        Wait::Sleep,
        Wait::Server,
        Wait::Back,
        Wait::Network,
        Wait::Unsplit,
    ];

    /// The fixed word of it.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Queue => "queue",
            Wait::Connect => "connect",
            Wait::ConnectAgain => "connect-again",
            Wait::There => "there",
            Wait::Socket => "socket",
            Wait::Pause => "pause",
            Wait::Collector => "collector",
            Wait::OnCpu => "on-cpu",
            Wait::Runnable => "runnable",
            Wait::Throttled => "throttled",
            Wait::Disk => "disk",
            Wait::Lock => "lock",
            Wait::Backend => "backend",
            Wait::Log => "log",
            Wait::Sleep => "sleep",
            Wait::Server => "server",
            Wait::Back => "back",
            Wait::Network => "network",
            Wait::Unsplit => "unsplit",
        }
    }

    /// In a few words, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Wait::Queue => "for a free connection",
            Wait::Connect => "connecting",
            Wait::ConnectAgain => "connecting again",
            Wait::There => "way there",
            Wait::Socket => "unread in the socket",
            Wait::Pause => "while nobody was answered",
            Wait::Collector => "collector",
            Wait::OnCpu => "target computing",
            Wait::Runnable => "target without a CPU",
            Wait::Throttled => "target throttled",
            Wait::Disk => "target at a disk",
            Wait::Lock => "target at a lock",
            Wait::Backend => "target at a backend",
            Wait::Log => "target at its log",
            Wait::Sleep => "target asleep",
            Wait::Server => "in the target",
            Wait::Back => "way back",
            Wait::Network => "network",
            Wait::Unsplit => "sent and not split",
        }
    }

    /// Its place in [`Wait::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// One wait's part of what slow requests took beyond the fast band of their kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitShare {
    /// Which.
    pub wait: Wait,
    /// Its share, 0..=1.
    pub share: f64,
    /// At least (95 % interval).
    pub low: f64,
    /// At most (95 % interval).
    pub high: f64,
    /// The mean of it over the slow requests, microseconds.
    pub mean_us: f64,
}

/// A slow request, cut into its waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowRequest {
    /// When it was due, seconds since the run's start.
    pub due_s: f64,
    /// From when a worker of the generator took it up to its end, microseconds.
    pub taken_us: f64,
    /// The fast band of its kind, with the queueing that any server has at this one's utilisation, microseconds.
    pub fast_us: f64,
    /// Its worker.
    pub worker: u16,
    /// The place of its connection at that worker.
    pub connection: u32,
    /// Which request of its connection, from 1 on.
    pub ordinal: u32,
    /// Which URL or command, by its place in the plan.
    pub entry: u16,
    /// What it took beyond the fast band, microseconds by wait: they add up to `taken_us − fast_us`.
    pub waits: Vec<OneWait>,
}

/// A part of one request's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneWait {
    /// At what.
    pub wait: Wait,
    /// How long, microseconds.
    pub us: f64,
}

/// Where the time of slow requests went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowTime {
    /// Slow requests of the sample: those this is an account of, each with how many it stands for.
    pub requests: u64,
    /// How many of them were joined with what the target's sockets saw.
    pub joined: u64,
    /// What they took beyond the fast band of their kind, on average, microseconds.
    pub excess_us: f64,
    /// Where that went, in the order of a request's life; the shares add up to one.
    pub waits: Vec<WaitShare>,
    /// The slowest that were kept, the slowest first, each cut into its waits; at most three.
    pub slowest: Vec<SlowRequest>,
}

/// By what requests can be told apart without knowing the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dimension {
    /// The first on its connection.
    Ordinal,
    /// Behind a request on its connection that took long itself.
    Predecessor,
    /// A URL or a command.
    Entry,
    /// The size of its reply, by powers of two.
    Size,
    /// A worker of the generator.
    Worker,
    /// An address of the target.
    Address,
}

/// That slow or failed requests concentrate where others do not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Concentration {
    /// By what.
    pub dimension: Dimension,
    /// Where, such as `the first on their connection`.
    pub place: String,
    /// The share of them that is there, 0..=1.
    pub of_them: f64,
    /// The share of the other requests that is there, 0..=1.
    pub of_others: f64,
    /// How many of them were looked at.
    pub count: u64,
    /// The probability of such a difference by chance, times the number of places that were looked at (Bonferroni).
    pub by_chance: f64,
    /// A sentence for people.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stand_in_the_order_of_their_declaration_and_their_words_are_their_own() {
        for (i, wait) in Wait::ALL.into_iter().enumerate() {
            assert_eq!(wait.index(), i, "{}", wait.name());
            assert_eq!(serde_json::to_value(wait).unwrap(), wait.name());
            let same = |other: &&Wait| other.name() == wait.name() || other.words() == wait.words();
            assert_eq!(Wait::ALL.iter().filter(same).count(), 1, "{}", wait.name());
        }
    }
}
