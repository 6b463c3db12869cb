//! What a defect is: its entry in the list, how strong it can be, and how it was asked for.

use super::able::Able;
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
    /// More numbers that it takes, each by its name: `of=20`.
    pub parts: &'static [Part],
    /// How it can hold a worker up, the usual way first. Empty: there is nothing to choose.
    pub ways: &'static [Way],
    /// What a design must have to carry it.
    pub needs: &'static [Able],
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

/// A number that a defect takes besides its strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// As it is written before `=`.
    pub name: &'static str,
    /// What it is where nothing is said, and of which kind.
    pub default: Strength,
}

/// How a defect does what it does: how a worker is held up, how a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It computes, and uses its processor.
    Compute,
    /// It sleeps, and uses none.
    Sleep,
    /// A connection is accepted and closed.
    Close,
    /// A connection is left in the accept queue.
    Wait,
}

impl Way {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Sleep => "sleep",
            Self::Close => "close",
            Self::Wait => "wait",
        }
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

impl Strength {
    fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Time(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Self::Bytes(number) | Self::Count(number) => number,
            Self::Status { of, .. } => of,
        }
    }

    /// What is expected where this is too small or too large to be meant.
    fn expected(self) -> Option<&'static str> {
        match self {
            Self::Time(time) if time.is_zero() || time > TIME_MAX => Some("more than 0s, up to 24h"),
            Self::Bytes(bytes) if !(1..=BYTES_MAX).contains(&bytes) => Some("1 byte or more, up to 1TiB"),
            Self::Count(0) => Some("1 or more"),
            _ => None,
        }
    }
}

/// The longest time that a strength can be.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most bytes that a strength can be.
const BYTES_MAX: u64 = 1 << 40;
/// The most parts that a defect has.
const PARTS_MAX: usize = 2;

/// A defect as it was asked for: `--defect NAME=STRENGTH:WAY:PART=…@START`.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The defect that was named.
    pub defect: &'static Defect,
    /// How strong, of the kind its [`Defect::strength`] is.
    pub strength: Strength,
    /// One of its [`Defect::ways`], if it has any.
    pub way: Option<Way>,
    /// In the order of its [`Defect::parts`], each of the kind that it has there; `None` for as it is there.
    pub parts: [Option<Strength>; PARTS_MAX],
    /// How long after the server's start it begins.
    pub from: Duration,
}

impl Setting {
    /// The defect as it is where nothing more is said.
    #[must_use]
    pub fn new(defect: &'static Defect) -> Self {
        let (strength, way) = (defect.strength, defect.ways.first().copied());
        Self { defect, strength, way, parts: [None; PARTS_MAX], from: Duration::ZERO }
    }

    /// The part of that name as a number: nanoseconds, bytes or a count; 0 if it has none.
    pub(super) fn part(&self, name: &str) -> u64 {
        let parts = self.defect.parts.iter().zip(self.parts);
        parts.filter(|(part, _)| part.name == name).map(|(part, told)| told.unwrap_or(part.default).number()).sum()
    }

    /// Refuses what is too small or too large to be meant.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        let got = |strength: Strength| match strength {
            Strength::Time(time) => format!("{time:?}"),
            other => other.number().to_string(),
        };
        // The crash has a meaning for 0.
        let takes_zero = self.defect.name == "crash" && self.strength == Strength::Count(0);
        if let Some(expected) = self.strength.expected().filter(|_| !takes_zero) {
            return Err(ServeError::DefectStrength { defect: self.defect.name, expected, got: got(self.strength) });
        }
        for (part, told) in self.defect.parts.iter().zip(self.parts) {
            let told = told.unwrap_or(part.default);
            if let Some(expected) = told.expected() {
                let (name, expected) = (part.name, expected.to_owned());
                return Err(ServeError::DefectPart { defect: self.defect.name, part: name, expected, got: got(told) });
            }
        }
        Ok(())
    }

    /// The strength as a number: nanoseconds, bytes, a count, or the N of "one in N"; 0 for [`Strength::None`].
    pub(crate) fn number(&self) -> u64 {
        self.strength.number()
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
