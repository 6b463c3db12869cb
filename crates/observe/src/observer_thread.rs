//! An observer on a thread of its own that has a table of descriptors of its own.
//!
//! The limit of open files bounds a table, and probes alone take a hundred descriptors: they must not be missing to the
//! load. And a worker that makes a table of its own copies what is open, so that a probe that is closed here would run
//! on there. Everything the observer opens, it opens on this thread. While it reads it gives way to all others, and ends its
//! turns itself where nobody wakes up to end them ([`schedule::Turn`]): what a reading takes must not become a worker's lag. On
//! CPUs that are all busy it would never come to its turn, so after a while of waiting it is let forward; where that is not
//! allowed, it is merely nice. It gives way only while somebody waits for its
//! answer: a thread that ends while it does has its descriptors, probes among them, closed on time that nobody wants, and on
//! busy CPUs the process would take many seconds to be gone. Not here: what is read, and when.

use crate::limits::LOAD_AFTER;
use crate::observer::{Extent, ObserveSpec, Observer};
use crate::source::{clock, descriptors, schedule};
use model::bpf::Level;
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How nice the thread is where it cannot step back (sched(7)): a tenth of another's weight on a busy CPU.
const NICE: i32 = 10;
/// And while it loads probes: a third of another's weight, so that on busy CPUs it is done within half a second.
const LOAD_NICE: i32 = 5;
/// How long a reading waits for CPUs that are free. On the way it may hold a lock of the target's (`mmap_lock`), so not long.
const PATIENCE: Duration = Duration::from_millis(20);

/// The same as an [`Observer`], elsewhere in this process.
#[derive(Debug)]
pub struct ObserverThread {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Thread {
        questions: Sender<Question>,
        answers: Receiver<Answer>,
        events: Vec<Event>,
        /// Its id; 0: it does not step back.
        id: Arc<AtomicI32>,
    },
    /// No thread was to be had.
    Here(Box<Observer>),
}

#[derive(Debug)]
enum Question {
    /// Nobody waits for these two.
    Begin {
        origin_ns: i64,
    },
    HintSlow,
    /// An answer is waited for.
    Asks(Asks),
}

#[derive(Debug)]
enum Asks {
    /// The run's moment, and this clock's when it was asked: the thread may come to it later.
    Snapshot {
        at_ns: i64,
        asked_ns: i64,
        extent: Extent,
    },
    Statuses,
}

#[derive(Debug)]
enum Answer {
    Snapshot(Box<Snapshot>, Vec<Event>),
    Statuses(Vec<SamplerStatus>),
}

impl ObserverThread {
    /// Starts observing; what cannot be read shows in [`ObserverThread::statuses`]. Probes are loaded before the first reading.
    pub fn new(spec: ObserveSpec) -> Self {
        Self::start(spec, Observer::new)
    }

    /// The same with the light probes loaded while the load goes, soon after [`ObserverThread::begin`]: neither its start nor its
    /// end waits for them, and what loading takes is seen in its latencies. At other levels as [`ObserverThread::new`].
    pub fn with_probes_later(spec: ObserveSpec) -> Self {
        match spec.probes {
            Level::Light => Self::start(spec, Observer::without_probes),
            Level::None | Level::Windows | Level::Full => Self::new(spec),
        }
    }

    fn start(spec: ObserveSpec, make: fn(ObserveSpec) -> Observer) -> Self {
        let (questions, asked) = channel();
        let (answering, answers) = channel();
        let (own, id) = (spec.clone(), Arc::new(AtomicI32::new(0)));
        let told = Arc::clone(&id);
        let work = move || answer(own, make, &told, &asked, &answering);
        let inner = match std::thread::Builder::new().name("observer".to_owned()).spawn(work) {
            Ok(_) => Inner::Thread { questions, answers, events: Vec::new(), id },
            Err(_) => Inner::Here(Box::new(Observer::new(spec))),
        };
        ObserverThread { inner }
    }

    /// As [`Observer::snapshot`]; the moment is the one at which it is read.
    pub fn snapshot(&mut self, at_ns: i64) -> Snapshot {
        self.reading(at_ns, Extent::Whole)
    }

    /// As [`Observer::reading`].
    pub fn reading(&mut self, at_ns: i64, extent: Extent) -> Snapshot {
        match &mut self.inner {
            Inner::Here(observer) => observer.reading(at_ns, extent),
            Inner::Thread { questions, answers, events, id } => {
                let asks = Asks::Snapshot { at_ns, asked_ns: clock::monotonic_ns(), extent };
                let asked = questions.send(Question::Asks(asks));
                match asked.ok().and_then(|()| await_answer(answers, id)) {
                    Some(Answer::Snapshot(snapshot, mut happened)) => {
                        events.append(&mut happened);
                        *snapshot
                    }
                    // It has panicked: the statuses say so.
                    _ => Snapshot { at_ns, ..Snapshot::default() },
                }
            }
        }
    }

    /// As [`Observer::take_events`].
    pub fn take_events(&mut self) -> Vec<Event> {
        match &mut self.inner {
            Inner::Here(observer) => observer.take_events(),
            Inner::Thread { events, .. } => std::mem::take(events),
        }
    }

    /// The load begins now, of a run whose moment 0 is that one of CLOCK_MONOTONIC, nanoseconds.
    pub fn begin(&mut self, origin_ns: i64) {
        match &mut self.inner {
            Inner::Here(observer) => observer.begin(origin_ns),
            // Where nobody hears it, the next snapshot says why.
            Inner::Thread { questions, .. } => drop(questions.send(Question::Begin { origin_ns })),
        }
    }

    /// As [`Observer::hint_slow`].
    pub fn hint_slow(&mut self) {
        match &mut self.inner {
            Inner::Here(observer) => observer.hint_slow(),
            // Where nobody hears it, the next snapshot says why.
            Inner::Thread { questions, .. } => drop(questions.send(Question::HintSlow)),
        }
    }

    /// As [`Observer::statuses`].
    pub fn statuses(&self) -> Vec<SamplerStatus> {
        match &self.inner {
            Inner::Here(observer) => observer.statuses(),
            Inner::Thread { questions, answers, id, .. } => {
                match questions.send(Question::Asks(Asks::Statuses)).ok().and_then(|()| await_answer(answers, id)) {
                    Some(Answer::Statuses(statuses)) => statuses,
                    _ => vec![SamplerStatus {
                        name: "observe/all".to_owned(),
                        status: SamplerState::Failed,
                        reason: "the observer's thread ended by a panic, a defect of plimsoll: please report it with \
                                 the message on stderr"
                            .to_owned(),
                    }],
                }
            }
        }
    }
}

fn await_answer(answers: &Receiver<Answer>, id: &AtomicI32) -> Option<Answer> {
    loop {
        match answers.recv_timeout(PATIENCE) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Disconnected) => return None,
            // Again and again: it may have been busy with something else, and stepped back after that.
            Err(RecvTimeoutError::Timeout) => let_forward(id),
        }
    }
}

fn let_forward(id: &AtomicI32) {
    let thread = id.load(Ordering::Relaxed);
    if thread != 0 {
        // It could before. Where it cannot any more, it comes when it comes.
        let _ = schedule::step_forward(thread);
    }
}

/// Until nobody asks any more.
fn answer(
    spec: ObserveSpec,
    make: fn(ObserveSpec) -> Observer,
    id: &AtomicI32,
    asked: &Receiver<Question>,
    answering: &Sender<Answer>,
) {
    // Where it is forbidden, the table is shared, as it would be without.
    let _ = descriptors::own_table();
    let steps_back = schedule::may_step_forward();
    if steps_back {
        id.store(schedule::thread_id(), Ordering::Relaxed);
    } else {
        be_nice(NICE);
    }
    let mut observer = make(spec);
    // When the next probe is to be loaded.
    let mut load_at: Option<Instant> = None;
    loop {
        let load_in = load_at.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = [observer.relieve_in(), load_in].into_iter().flatten().min();
        let next = match wait {
            Some(wait) => asked.recv_timeout(wait),
            None => asked.recv().map_err(RecvTimeoutError::from),
        };
        let question = match next {
            Ok(question) => question,
            Err(RecvTimeoutError::Timeout) if load_in.is_some_and(|wait| wait.is_zero()) => {
                // On busy CPUs it would never come to its turn as one that gives way to all; a question comes before the
                // next one.
                be_nice(LOAD_NICE);
                load_at = observer.load_next().then(Instant::now);
                be_nice(if steps_back { 0 } else { NICE });
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                // What it ends costs the target more than this.
                observer.relieve();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let asks = match question {
            Question::Begin { origin_ns } => {
                observer.begin(origin_ns);
                load_at = Some(Instant::now() + LOAD_AFTER);
                continue;
            }
            Question::HintSlow => {
                observer.hint_slow();
                continue;
            }
            Question::Asks(asks) => asks,
        };
        if steps_back {
            let _ = schedule::step_back();
        }
        let answer = reading(&mut observer, asks);
        if steps_back {
            // Nobody else would from here on.
            let _ = schedule::step_forward(0);
        }
        if answering.send(answer).is_err() {
            return;
        }
    }
}

/// Reads what was asked for.
fn reading(observer: &mut Observer, asks: Asks) -> Answer {
    match asks {
        Asks::Snapshot { at_ns, asked_ns, extent } => {
            // Before the load is before the load, however late it is read.
            let late_ns = if at_ns < 0 { 0 } else { clock::monotonic_ns().saturating_sub(asked_ns) };
            let snapshot = observer.reading(at_ns.saturating_add(late_ns), extent);
            Answer::Snapshot(Box::new(snapshot), observer.take_events())
        }
        Asks::Statuses => Answer::Statuses(observer.statuses()),
    }
}

/// A thread may lower its own priority, and raise it again where it has the right; on Linux, the calling thread's alone.
fn be_nice(nice: i32) {
    let _ = rustix::process::setpriority_process(None, nice);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_files() -> usize {
        std::fs::read_dir("/proc/thread-self/fd").map_or(0, Iterator::count)
    }

    #[test]
    fn it_reads_as_an_observer_does_and_opens_nothing_in_this_table() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let spec =
            ObserveSpec { target: vec![std::process::id()], own_pid: std::process::id(), ..ObserveSpec::default() };
        let mut observer = ObserverThread::new(ObserveSpec { probes: Level::Light, ..spec.clone() });
        let before = open_files();
        assert!(observer.snapshot(-1).at_ns == -1 && observer.snapshot(5).at_ns >= 5);
        let names = |statuses: Vec<SamplerStatus>| statuses.into_iter().map(|status| status.name).collect::<Vec<_>>();
        assert_eq!(names(observer.statuses()), names(Observer::new(spec).statuses()));
        // Other tests of this process open and close files meanwhile, a hundred for probes of their own. What is this
        // one's stays as long as it does.
        testkit::wait_until("no files of its probes stand in this table", || open_files() < before + 40);
        // The kernel's log is of the whole machine.
        let events = observer.take_events();
        assert!(events.iter().all(|event| event.kind.starts_with("kernel-")), "{events:?}");
        assert!(file.metadata().is_ok());
    }

    #[test]
    fn it_gives_way_only_while_an_answer_is_waited_for() {
        let own_pid = std::process::id();
        let mut observer =
            ObserverThread::new(ObserveSpec { target: vec![own_pid], own_pid, ..ObserveSpec::default() });
        let Inner::Thread { id, .. } = &observer.inner else { panic!("no thread was to be had") };
        let id = Arc::clone(id);
        for at_ns in 0..50 {
            observer.snapshot(at_ns);
            let thread = id.load(Ordering::Relaxed);
            if thread != 0 {
                assert_eq!(schedule::policy_of(thread), libc::SCHED_OTHER, "after reading {at_ns}");
            }
        }
    }

    #[test]
    fn probes_that_come_later_hold_up_nothing_and_say_so_until_they_are_there() {
        let own_pid = std::process::id();
        let spec = ObserveSpec { target: vec![own_pid], own_pid, probes: Level::Light, ..ObserveSpec::default() };
        let mut observer = ObserverThread::with_probes_later(spec);
        let of_probe = |observer: &ObserverThread| {
            observer.statuses().into_iter().find(|status| status.name == "bpf/lifecycle").map(|s| (s.status, s.reason))
        };
        assert_eq!(observer.snapshot(-1).bpf, None);
        let Some((SamplerState::Disabled, reason)) = of_probe(&observer) else { return };
        assert!(reason.starts_with("not attached before the run ended") || cfg!(not(feature = "bpf")), "{reason}");
        observer.begin(clock::monotonic_ns());
        // There after some time, or a reason of the kernel's why not.
        let is_settled = |observer: &ObserverThread| {
            of_probe(observer).is_some_and(|(_, reason)| !reason.starts_with("not attached"))
        };
        testkit::wait_until("the probe is there, or why not", || {
            // One that is there has something to say with the next reading.
            observer.snapshot(1);
            is_settled(&observer)
        });
    }
}
