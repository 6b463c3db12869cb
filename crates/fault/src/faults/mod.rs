//! The faults, a file each, and what all of them are made of.
//!
//! A fault's file has its [`Kind`] (name, arguments, needs, how it is undone), a type that holds its arguments understood
//! ([`Fault`]), and, where it needs a change that no other fault makes, the type of that change. [`Fault::plan`] looks at
//! what is there and says what is to be done; it changes nothing, so it is also what `--dry-run` prints and what is asked
//! before a load begins. Doing it is [`crate::Begun`]'s. To add one: copy a neighbour, add it to [`FAULTS`].

pub mod affinity;
pub mod backlog;
pub mod command;
pub mod cpu_limit;
pub mod cpuset;
pub mod descriptors;
pub mod disk_full;
pub mod flood;
pub mod frequency;
pub mod interrupts;
pub mod io_limit;
pub mod loss;
pub mod memory_limit;
pub mod nice;
pub mod nodelay;
pub mod oops;
pub mod packets;
pub mod pids_limit;
pub mod port;
pub mod port_answer;
pub mod restart;
pub mod rude_clients;
pub mod signal;
pub mod stress;
pub mod sysctl;

use crate::change::Change;
use crate::error::{ApplyError, BadArgument};
use crate::process::Who;
use crate::words::Words;
use std::fmt::Debug;
use std::sync::Arc;

/// Every fault, in the order in which they are listed.
pub const FAULTS: &[Kind] = &[
    signal::STOP,
    signal::KILL,
    signal::TERM,
    signal::CONT,
    restart::KIND,
    oops::KIND,
    descriptors::KIND,
    nice::KIND,
    backlog::KIND,
    nodelay::KIND,
    affinity::KIND,
    cpu_limit::KIND,
    cpuset::KIND,
    memory_limit::KIND,
    pids_limit::KIND,
    io_limit::KIND,
    stress::KIND,
    port::REFUSED,
    port::RESET,
    port::DROPPED,
    loss::KIND,
    packets::DELAY,
    packets::RATE,
    packets::REORDER,
    packets::DUPLICATE,
    packets::CORRUPT,
    port_answer::KIND,
    rude_clients::READERS,
    rude_clients::WRITERS,
    rude_clients::SILENT,
    flood::CONNECTIONS,
    flood::SYN,
    disk_full::KIND,
    frequency::GOVERNOR,
    frequency::TURBO,
    interrupts::KIND,
    sysctl::KIND,
    command::KIND,
];

/// What is often asked for and cannot be done and undone from outside: what it would be called, and why, with what does
/// the same.
pub(crate) const NOT_FAULTS: &[(&str, &str)] = &[
    (
        "clock-step",
        "the machine has one clock of the date, and a time namespace holds others, set before anything runs in it \
         (time_namespaces(7)): start the target with faketime(1)",
    ),
    (
        "fsync-fails",
        "a kernel fails writes by itself only where it is built to (CONFIG_FAIL_MAKE_REQUEST, device mapper): disk-full below \
         a file system in a file does it on any, see docs/faults.md",
    ),
    ("disk-slow", "io-limit does it, for processes that are named"),
    ("half-open", "syn-flood does it: connections that a server has answered and whose client never goes on"),
];

/// What is said of a fault before it is done.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name, a kebab-case word.
    pub name: &'static str,
    /// Its arguments, as they are written.
    pub takes: &'static str,
    /// Arguments that could be given.
    pub example: &'static str,
    /// What it does, in a line.
    pub does: &'static str,
    /// The rights and programs it needs.
    pub needs: &'static str,
    /// How it is undone.
    pub undone: Undoing,
    /// Understands the arguments; looks at nothing.
    pub parse: fn(&mut Words<'_>) -> Result<Arc<dyn Fault>, BadArgument>,
}

/// What becomes of a fault when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undoing {
    /// It is put back, also by `plimsoll fault undo` after a crash: it is in the journal.
    Back(&'static str),
    /// Its second half is done by plimsoll, if that lives to do it: it is not in the journal.
    SecondHalf(&'static str),
    /// It cannot be undone, and why.
    Never(&'static str),
}

impl Undoing {
    /// How, or why not.
    pub fn words(&self) -> &'static str {
        match self {
            Undoing::Back(words) | Undoing::SecondHalf(words) | Undoing::Never(words) => words,
        }
    }
}

/// A fault with its arguments.
pub trait Fault: Debug + Send + Sync {
    /// Looks at what is there, and says what is to be done, in this order. Changes nothing.
    ///
    /// # Errors
    /// It cannot be done here, or is none that plimsoll does. Missing rights are found by [`Deed::may`].
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError>;

    /// Whom it is about, where it is about processes.
    fn who(&self) -> Option<&Who> {
        None
    }
}

/// What a fault finds around it: whom it may mean.
pub trait Around {
    /// The processes of the run's target.
    ///
    /// # Errors
    /// Half a sentence that says why there are none.
    fn target(&self) -> Result<Vec<u32>, String>;

    /// The processes that listen on a port of this host.
    ///
    /// # Errors
    /// Half a sentence that says why there are none.
    fn listeners(&self, port: u16) -> Result<Vec<u32>, String>;

    /// What starts the target again, where the run started it.
    fn starter(&self) -> Option<Arc<dyn Starter>> {
        None
    }
}

/// Nobody: neither a target nor ports are known.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Around for Nobody {
    fn target(&self) -> Result<Vec<u32>, String> {
        Err("there is no run with a target here".to_owned())
    }
    fn listeners(&self, _: u16) -> Result<Vec<u32>, String> {
        Err("nobody looks who listens".to_owned())
    }
}

/// Ends and starts a target that a run started.
pub trait Starter: Debug + Send + Sync {
    /// Its command.
    fn command(&self) -> String;

    /// Ends it: at once (SIGKILL), or as it is asked to (SIGTERM, then SIGKILL).
    ///
    /// # Errors
    /// Half a sentence that says why it could not be.
    fn end(&self, at_once: bool) -> Result<(), String>;

    /// Starts it again. Its process.
    ///
    /// # Errors
    /// Half a sentence that says why it could not be.
    fn start(&self) -> Result<u32, String>;
}

/// One thing that a fault does.
#[derive(Debug)]
pub enum Deed {
    /// A change, journalled first and put back after.
    Change(Change),
    /// Something that cannot be put back, or whose second half only plimsoll does.
    Act(Box<dyn Act>),
}

impl Deed {
    /// In words, before it is done.
    pub fn words(&self) -> String {
        match self {
            Deed::Change(change) => change.words(),
            Deed::Act(act) => act.words(),
        }
    }

    /// Whether the right is there to do it and to undo it; changes nothing.
    ///
    /// # Errors
    /// What is missing.
    pub fn may(&self) -> Result<(), ApplyError> {
        match self {
            Deed::Change(change) => crate::apply::may(change),
            Deed::Act(act) => act.may(),
        }
    }

    /// Whether there is nothing to do, as it is so already.
    pub fn is_so(&self) -> bool {
        matches!(self, Deed::Change(change) if !change.is_blind() && change.before() == change.after())
    }
}

/// Something that is done and not put back.
pub trait Act: Debug + Send {
    /// In words, before it is done: `SIGKILL to process 1234 (redis-server)`.
    fn words(&self) -> String;

    /// Whether the right is there; does nothing.
    ///
    /// # Errors
    /// What is missing.
    fn may(&self) -> Result<(), ApplyError>;

    /// Acts, at once; what has a second half is in between until [`Act::end`].
    ///
    /// # Errors
    /// It could not be done, and nothing of it was.
    fn begin(&mut self) -> Result<(), ApplyError>;

    /// Does its second half, where it has one, once; what was done, in words.
    ///
    /// # Errors
    /// It could not be done.
    fn end(&mut self) -> Result<Option<String>, ApplyError> {
        Ok(None)
    }
}

/// A fault that was asked for, its arguments understood.
#[derive(Debug, Clone)]
pub struct Asked {
    kind: &'static Kind,
    words: Vec<String>,
    fault: Arc<dyn Fault>,
}

impl Asked {
    /// `nice target 10`, with a shell's quotes.
    ///
    /// # Errors
    /// [`BadArgument`]
    pub fn parse(text: &str) -> Result<Self, BadArgument> {
        let words = shlex::split(text).ok_or_else(|| BadArgument::Quotes { got: text.to_owned() })?;
        Asked::of_words(&words)
    }

    /// A name, and what stands behind it.
    ///
    /// # Errors
    /// [`BadArgument`]
    pub fn of_words(words: &[String]) -> Result<Self, BadArgument> {
        let name = words.first().map_or("", String::as_str);
        let Some(kind) = FAULTS.iter().find(|kind| kind.name == name) else {
            if let Some((name, why)) = NOT_FAULTS.iter().find(|(other, _)| *other == name) {
                return Err(BadArgument::NoFault { name, why });
            }
            let near = |kind: &&Kind| strsim::damerau_levenshtein(kind.name, name) <= 2;
            let like = FAULTS.iter().find(near).map(|kind| kind.name);
            return Err(BadArgument::Unknown { got: name.to_owned(), like });
        };
        let mut rest = Words::new(kind, words.get(1..).unwrap_or_default());
        let fault = (kind.parse)(&mut rest)?;
        rest.end()?;
        Ok(Asked { kind, words: words.to_vec(), fault })
    }

    /// What is said of it.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// As it is written.
    pub fn text(&self) -> String {
        shlex::try_join(self.words.iter().map(String::as_str)).unwrap_or_else(|_| self.words.join(" "))
    }

    /// Whom it is about, where it is about processes.
    pub fn who(&self) -> Option<&Who> {
        self.fault.who()
    }

    /// Whether it is about the run's target.
    pub fn is_of_target(&self) -> bool {
        self.who().is_some_and(|who| who.whom == crate::process::Whom::Target)
    }

    /// Looks at what is there, and says what is to be done. Changes nothing.
    ///
    /// # Errors
    /// It cannot be done here.
    pub fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        self.fault.plan(around)
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Asked {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_name_once_and_an_example_that_is_one() {
        for (at, kind) in FAULTS.iter().enumerate() {
            assert!(FAULTS[..at].iter().all(|other| other.name != kind.name), "{}", kind.name);
            let asked = Asked::parse(&format!("{} {}", kind.name, kind.example)).unwrap();
            assert_eq!(Asked::parse(&asked.text()).unwrap(), asked, "{}", kind.name);
            for words in [kind.does, kind.needs, kind.undone.words()] {
                assert!(!words.is_empty() && !words.ends_with('.'), "{}: {words}", kind.name);
            }
            // More than it takes is said, and how it is written. A command may have any number of words.
            if kind.name == oops::KIND.name {
                continue;
            }
            let error =
                Asked::parse(&format!("{} {} and more of it", kind.name, kind.example)).unwrap_err().to_string();
            assert!(error.contains(kind.name) && error.contains(kind.takes), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        for (name, why) in NOT_FAULTS {
            assert!(FAULTS.iter().all(|kind| kind.name != *name));
            let error = Asked::parse(&format!("{name} now")).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_answered_with_one_like_it() {
        let error = Asked::parse("sotp 12").unwrap_err().to_string();
        assert!(error.contains("did you mean 'stop'?") && error.contains("--list"), "{error}");
        assert!(Asked::parse("").unwrap_err().to_string().contains("got ''"));
        assert!(matches!(Asked::parse("stop 'x"), Err(BadArgument::Quotes { .. })));
    }
}
