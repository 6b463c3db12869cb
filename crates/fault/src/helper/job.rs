//! What a helper does, fully said: the words it is started with, and what the journal keeps of it.

use super::report::Report;
use crate::answer::Answers;
use crate::clients::flood::Flood;
use crate::clients::syn::SynFlood;
use crate::clients::{Clients, Manner};
use crate::error::ApplyError;
use crate::limits::{CLIENTS_MAX, FLOOD_PER_S_MAX, REQUEST_BYTES_MAX};
use crate::network::queue::Treatment;
use crate::network::queue::path::Path;
use crate::process::{CAP_NET_ADMIN, CAP_NET_RAW};
use model::units::show_duration_ns;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What a helper does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "kebab-case")]
pub enum Job {
    /// Packets of a queue of the firewall are held, changed or repeated.
    Packets {
        /// The queue's number.
        queue: u16,
        /// The port that they go to or come from.
        port: u16,
        /// What becomes of them.
        treatment: Treatment,
        /// Of what is drawn.
        seed: u64,
    },
    /// So many clients at a time that are slow or say nothing.
    Clients {
        /// To whom.
        to: SocketAddr,
        /// How many.
        count: u32,
        /// What each does.
        manner: Manner,
        /// What each sends, again and again; of no use to who says nothing.
        request: String,
    },
    /// Connections made and left at once.
    Flood {
        /// To whom.
        to: SocketAddr,
        /// How many a second.
        per_s: u32,
    },
    /// First packets of connections that never go on, to a port of this host, by the loopback interface.
    SynFlood {
        /// The port.
        port: u16,
        /// How many a second.
        per_s: u32,
    },
    /// HTTP requests answered by one status, whatever they are.
    Answers {
        /// Where it listens, on the loopback interface.
        port: u16,
        /// The status.
        status: u16,
        /// How long after the request, nanoseconds.
        after_ns: u64,
    },
}

/// What does it, step by step; between two of them the helper sleeps.
pub(crate) trait Work {
    /// What becomes readable where there is something to do.
    fn waits_on(&self) -> Option<BorrowedFd<'_>>;

    /// Does what is due. How long nothing else will be, unless what it waits on becomes readable.
    fn step(&mut self, now: Instant) -> Duration;

    /// What it did so far.
    fn report(&self) -> Report;

    /// Ends what it does, in good order.
    fn end(&mut self) {}
}

impl Job {
    /// Takes all that it needs: descriptors, sockets.
    ///
    /// # Errors
    /// Why it cannot be done, a sentence.
    pub(crate) fn begun(&self) -> Result<Box<dyn Work>, String> {
        Ok(match self {
            Job::Packets { queue, port, treatment, seed } => Box::new(Path::new(*queue, *port, *treatment, *seed)?),
            Job::Clients { to, count, manner, request } => Box::new(Clients::new(*to, *count, *manner, request)?),
            Job::Flood { to, per_s } => Box::new(Flood::new(*to, *per_s)?),
            Job::SynFlood { port, per_s } => Box::new(SynFlood::new(*port, *per_s)?),
            Job::Answers { port, status, after_ns } => {
                Box::new(Answers::new(*port, *status, Duration::from_nanos(*after_ns))?)
            }
        })
    }

    /// Refuses what is out of bounds.
    pub(crate) fn check(&self) -> Result<(), ApplyError> {
        let is_fit = match self {
            Job::Packets { treatment, .. } => treatment.is_fit(),
            Job::Clients { count, request, manner, .. } => {
                (1..=CLIENTS_MAX).contains(count) && request.len() <= REQUEST_BYTES_MAX && manner.is_fit()
            }
            Job::Flood { per_s, .. } | Job::SynFlood { per_s, .. } => (1..=FLOOD_PER_S_MAX).contains(per_s),
            Job::Answers { status, .. } => (200..=599).contains(status),
        };
        if is_fit { Ok(()) } else { Err(ApplyError::not_ours(&self.name(), &format!("{self:?}"))) }
    }

    /// The rights that it takes, by number and name.
    pub(crate) fn capabilities(&self) -> &'static [(u32, &'static str)] {
        match self {
            Job::Packets { treatment: Treatment::Doubled { .. }, .. } => {
                &[(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_NET_RAW, "CAP_NET_RAW")]
            }
            Job::Packets { .. } => &[(CAP_NET_ADMIN, "CAP_NET_ADMIN")],
            Job::SynFlood { .. } => &[(CAP_NET_RAW, "CAP_NET_RAW")],
            Job::Clients { .. } | Job::Flood { .. } | Job::Answers { .. } => &[],
        }
    }

    /// Whether what else it takes is there; changes nothing.
    pub(crate) fn may(&self) -> Result<(), ApplyError> {
        match self {
            Job::Clients { count, .. } => {
                crate::clients::may_open(u64::from(*count)).map_err(|(needed, maximum)| ApplyError::Missing {
                    name: self.name(),
                    expected: format!("{needed} descriptors"),
                    reason: format!("the hard limit is {maximum}: ask for fewer, or raise it (ulimit -Hn)"),
                })
            }
            _ => Ok(()),
        }
    }

    /// What it is, in words.
    pub(crate) fn name(&self) -> String {
        match self {
            Job::Packets { .. } => "a process that packets are given to".to_owned(),
            Job::Clients { to, count, manner, .. } => {
                format!("{count} {}{} to {to}", manner.word(), if *count == 1 { "" } else { "s" })
            }
            Job::Flood { to, per_s } => format!("{per_s} connections a second to {to}"),
            Job::SynFlood { port, per_s } => format!("{per_s} SYNs a second to port {port} (loopback)"),
            Job::Answers { status, after_ns: 0, .. } => format!("a process that answers {status}"),
            Job::Answers { status, after_ns, .. } => {
                format!("a process that answers {status} after {}", show_duration_ns(*after_ns as f64))
            }
        }
    }
}
