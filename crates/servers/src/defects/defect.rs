//! What a defect is: its entry in the list, how strong it can be, and how it was asked for.

use super::hook::Hook;
use super::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use std::time::Duration;

/// A fault that can be built into a reference server.
#[derive(Debug)]
pub struct Defect {
    /// The name on the command line.
    pub name: &'static str,
    /// The servers that can carry it.
    pub servers: &'static [Server],
    /// What its strength means, and how strong it is when nothing is said.
    pub strength: Strength,
    /// What the server does wrong, in one sentence.
    pub about: &'static str,
    /// What that makes: the finding's id and what a client and the kernel's counters show.
    pub makes: &'static str,
    /// A command that shows it without plimsoll. `PID` and `PORT` stand for the server's.
    pub see: &'static str,
    pub(super) make: fn(Setting) -> Result<Box<dyn Hook>, ServeError>,
}

impl Defect {
    /// Refuses TLS, under which the socket is not what the protocol receives from and writes to.
    pub(super) fn without_tls(&self, options: &ServeOptions) -> Result<(), ServeError> {
        if options.tls.is_none() {
            return Ok(());
        }
        let (expected, got) = ("no --tls".to_owned(), "--tls".to_owned());
        Err(ServeError::DefectMisused {
            defect: self.name,
            expected,
            got,
            next: "it is one of plain sockets, leave --tls out",
        })
    }

    /// Refuses a single worker.
    pub(super) fn with_workers(&self, options: &ServeOptions) -> Result<(), ServeError> {
        if options.workers > 1 {
            return Ok(());
        }
        let (expected, got) = ("--workers 2 or more".to_owned(), options.workers.to_string());
        Err(ServeError::DefectMisused {
            defect: self.name,
            expected,
            got,
            next: "it lies between workers, set --workers",
        })
    }
}

/// What the number behind `=` is, with the one taken where none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// No number: the defect is there or it is not.
    None,
    /// A time.
    Time(Duration),
    /// A number of bytes.
    Bytes(u64),
    /// A number of things, which `about` names.
    Count(u64),
    /// `STATUS/N`: this HTTP status in one of so many replies.
    Status {
        /// From 200 to 599.
        code: u16,
        /// One of so many.
        of: u64,
    },
}

/// A defect as it was asked for: `--defect NAME=STRENGTH@START`.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The defect that was named.
    pub defect: &'static Defect,
    /// How strong, of the kind its [`Defect::strength`] is.
    pub strength: Strength,
    /// How long after the server's start it begins.
    pub from: Duration,
}

impl Setting {
    /// The strength as a number: nanoseconds, bytes, a count, or the N of "one in N"; 0 for [`Strength::None`].
    pub(crate) fn number(&self) -> u64 {
        match self.strength {
            Strength::None => 0,
            Strength::Time(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Strength::Bytes(number) | Strength::Count(number) => number,
            Strength::Status { of, .. } => of,
        }
    }

    /// The strength as a number of bytes that fits into memory's addresses.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    /// The strength as a time; none where it is not one.
    pub(super) fn time(&self) -> Duration {
        match self.strength {
            Strength::Time(time) => time,
            _ => Duration::ZERO,
        }
    }

    /// Refuses a start: the defect cannot begin later than the server.
    pub(super) fn only_from_the_start(&self) -> Result<(), ServeError> {
        if self.from.is_zero() { Ok(()) } else { Err(ServeError::DefectFromStart { defect: self.defect.name }) }
    }
}
