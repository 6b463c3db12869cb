//! Addresses to names, by blazesym: the kernel's functions from kallsyms; a program's from ELF symbols, DWARF (so also
//! inlined functions, where there is debug information) and the map that a JIT writes (`/tmp/perf-<pid>.map`).
//!
//! On a thread of its own that gives way to all others: reading a large program's debug information takes seconds, once.
//! Files are opened through `/proc/<pid>/map_files`, so also those of another mount namespace and deleted ones; that and
//! a process's maps need root. What has no name is `[file+0x…]`, or `[unknown]`. Names are kept, within a bound.

pub(crate) mod areas;
mod namer;

use crate::limits::{NAMES_KEPT_MAX, NAMES_WAIT, PREPARE_WAIT, PROCESSES_NAMED_MAX};
use crate::source::schedule;
use namer::Namer;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Instant;

/// Stands for the kernel where a process's id stands.
const KERNEL_PID: u32 = 0;
/// How nice the thread is: a third of another's weight on a busy CPU (sched(7)), so that names come in time there too.
const NICE: i32 = 5;
/// Questions that may wait for it.
const ASKED_MAX: usize = 256;
/// What has no name at all.
const UNKNOWN: &str = "[unknown]";

/// Where a thread was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// Its process.
    pub(crate) pid: u32,
    /// Addresses in the kernel, innermost first.
    kernel: Vec<u64>,
    /// Addresses in its program and libraries, innermost first.
    user: Vec<u64>,
}

impl Place {
    /// Of two stacks as the kernel gives them. Frames but the innermost hold the address to return to; the call stands
    /// before it, maybe at the end of an inlined function.
    pub(crate) fn new(pid: u32, kernel: &[u64], user: &[u64]) -> Self {
        let calls = |stack: &[u64]| stack.iter().enumerate().map(|(i, at)| at - u64::from(i > 0)).collect();
        Place { pid, kernel: calls(kernel), user: calls(user) }
    }
}

/// Names of what was asked for, and the thread that finds them.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    worker: Option<Worker>,
    names: BTreeMap<(u32, u64), Named>,
    programs: BTreeMap<u32, Program>,
    processes: BTreeMap<u32, u32>,
    /// Processes whose files are being read.
    preparing: BTreeSet<u32>,
    has_prepared: bool,
}

/// What a process runs.
#[derive(Debug, Default)]
struct Program {
    /// Device and inode of its file.
    file: Option<(u64, u64)>,
    name: String,
}

/// What an address is called.
#[derive(Debug, Clone, Default)]
struct Named {
    /// Innermost first: several where functions were inlined there.
    frames: Box<[Box<str>]>,
    /// Whether it can have another name later, as code that is made while a program runs.
    may_change: bool,
}

#[derive(Debug)]
struct Worker {
    questions: SyncSender<Question>,
    answers: Receiver<Answer>,
}

struct Question {
    pid: u32,
    /// None: only read what is needed to answer later ones.
    addresses: Vec<u64>,
}

struct Answer {
    pid: u32,
    /// None: what is needed has been read.
    names: Vec<(u64, Named)>,
}

impl Symbols {
    /// Notes a process of the target: its files are read before the first question.
    pub(crate) fn know(&mut self, pid: u32) {
        let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()));
        let known = self.programs.get(&pid);
        if known.is_some_and(|known| file.is_none() || known.file == file) {
            return;
        }
        if known.is_some() {
            // It runs another program now, or its id was given to another.
            self.names.retain(|(of, _), _| *of != pid);
        }
        if self.programs.len() >= PROCESSES_NAMED_MAX {
            self.programs.clear();
        }
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.programs.insert(pid, Program { file, name: namer::clean(name.trim_end()) });
        if file.is_some() && self.ask(Question { pid, addresses: Vec::new() }) {
            self.preparing.insert(pid);
        }
    }

    /// Waits until the files of all known processes are read, within a bound, when it is first called: before the load.
    pub(crate) fn prepare(&mut self) {
        if std::mem::replace(&mut self.has_prepared, true) {
            return;
        }
        let until = Instant::now() + PREPARE_WAIT;
        while !self.preparing.is_empty()
            && let Some(answer) = self.next_answer(until)
        {
            self.note(answer);
        }
    }

    /// The process that a thread belongs to; itself where it has ended.
    pub(crate) fn process_of(&mut self, tid: u32) -> u32 {
        if let Some(pid) = self.processes.get(&tid) {
            return *pid;
        }
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let Some(pid) = line.and_then(|pid| pid.trim().parse().ok()) else { return tid };
        if self.processes.len() >= NAMES_KEPT_MAX {
            self.processes.clear();
        }
        self.processes.insert(tid, pid);
        pid
    }

    /// The name of a process.
    pub(crate) fn program(&self, pid: u32) -> &str {
        self.programs.get(&pid).map(|program| &*program.name).filter(|name| !name.is_empty()).unwrap_or(UNKNOWN)
    }

    /// Finds the names of all that is in some places, as far as it is known in time.
    pub(crate) fn find<'p>(&mut self, places: impl Iterator<Item = &'p Place> + Clone) {
        let mut wanted: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for pid in places.clone().map(|place| place.pid).collect::<BTreeSet<_>>() {
            self.know(pid);
        }
        self.take_answers();
        for place in places {
            for (pid, addresses) in [(KERNEL_PID, &place.kernel), (place.pid, &place.user)] {
                let is_unknown = |at: &u64| self.names.get(&(pid, *at)).is_none_or(|named| named.may_change);
                let unknown = addresses.iter().copied().filter(is_unknown);
                wanted.entry(pid).or_default().extend(unknown);
            }
        }
        wanted.retain(|_, addresses| !addresses.is_empty());
        if self.names.len() + wanted.values().map(BTreeSet::len).sum::<usize>() > NAMES_KEPT_MAX {
            self.names.clear();
        }
        let mut open = BTreeSet::new();
        for (pid, addresses) in wanted {
            if self.ask(Question { pid, addresses: addresses.into_iter().collect() }) {
                open.insert(pid);
            }
        }
        let until = Instant::now() + NAMES_WAIT;
        while !open.is_empty()
            && let Some(answer) = self.next_answer(until)
        {
            if !answer.names.is_empty() {
                open.remove(&answer.pid);
            }
            self.note(answer);
        }
    }

    fn next_answer(&self, until: Instant) -> Option<Answer> {
        let left = until.saturating_duration_since(Instant::now());
        self.worker.as_ref().and_then(|worker| worker.answers.recv_timeout(left).ok())
    }

    /// The frames of a place, innermost first; those of the kernel, then those of the program.
    pub(crate) fn frames<'s>(&'s self, place: &'s Place) -> (Vec<&'s str>, Vec<&'s str>) {
        let names = |pid: u32, addresses: &'s [u64]| -> Vec<&'s str> {
            let name = |at: &'s u64| match self.names.get(&(pid, *at)) {
                Some(named) => named.frames.iter().map(|frame| &**frame).collect(),
                None => vec![UNKNOWN],
            };
            addresses.iter().flat_map(name).collect()
        };
        (names(KERNEL_PID, &place.kernel), names(place.pid, &place.user))
    }

    fn ask(&mut self, question: Question) -> bool {
        if self.worker.is_none() {
            self.worker = Worker::start();
        }
        let Some(worker) = &self.worker else { return false };
        match worker.questions.try_send(question) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => false,
            // A fault in reading somebody's file: those after it are asked of another thread.
            Err(TrySendError::Disconnected(_)) => {
                self.worker = None;
                self.preparing.clear();
                false
            }
        }
    }

    /// Those of questions that were given up.
    fn take_answers(&mut self) {
        let late: Vec<Answer> = self.worker.iter().flat_map(|worker| worker.answers.try_iter()).collect();
        late.into_iter().for_each(|answer| self.note(answer));
    }

    fn note(&mut self, answer: Answer) {
        if answer.names.is_empty() {
            self.preparing.remove(&answer.pid);
        }
        self.names.extend(answer.names.into_iter().map(|(at, named)| ((answer.pid, at), named)));
    }
}

impl Worker {
    fn start() -> Option<Self> {
        let (questions, asked) = sync_channel(ASKED_MAX);
        let (answering, answers) = channel();
        let work = move || answer(&asked, &answering);
        std::thread::Builder::new().name("symbols".to_owned()).spawn(work).ok()?;
        Some(Worker { questions, answers })
    }
}

/// Until nobody asks any more.
fn answer(asked: &Receiver<Question>, answering: &Sender<Answer>) {
    // Whoever starts it may have stepped back, and nobody would let this one forward.
    let _ = schedule::step_forward(0);
    // A thread may always lower its own priority; on Linux, the calling thread's alone.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut namer = Namer::default();
    for Question { pid, addresses } in asked {
        let found = match pid {
            _ if addresses.is_empty() => {
                namer.prepare(pid);
                Vec::new()
            }
            KERNEL_PID => namer.kernel(&addresses),
            pid => namer.program(pid, &addresses),
        };
        let names = addresses.into_iter().zip(found).collect();
        if answering.send(Answer { pid, names }).is_err() {
            return;
        }
    }
}
