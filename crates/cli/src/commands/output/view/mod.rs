//! The view of a run that goes on, drawn on the whole terminal while it does; what it shows is `report::terminal`.
//!
//! The session's thread hands over what it has read and goes on: a thread of its own draws, at most ten times a second, and
//! reads the keys. It draws on stderr, in the alternate screen, so that what stood there is there again afterwards, the report
//! below it. What is said meanwhile is kept, and printed when the view has gone. The first Ctrl-C, `q` or signal puts the
//! terminal back before it ends the run: the second one then finds everything as it would without a view.

mod keys;
mod screen;
mod thread;

use super::seldom::Seldom;
use crate::args::load::OutputArgs;
use model::finding::Diagnosis;
use model::plain::plain;
use model::plan::Plan;
use model::recording::Row;
use model::{Event, Interval, Recording, Snapshot};
use report::terminal::{Looks, Standing};
use screen::Screen;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shortest run that is worth looking at, nanoseconds.
const WORTH_NS: u64 = 3_000_000_000;
/// Time between two questions how the run stands, at the least.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long the drawing thread is waited for: a terminal that takes nothing any more holds nobody up.
const CLOSE: Duration = Duration::from_secs(1);
/// Lines that are kept until the view has gone.
const KEPT_MAX: usize = 1000;

/// The view that is drawn, for whoever has something to say and does not know of it.
static DRAWN: Mutex<Option<Arc<Shared>>> = Mutex::new(None);

/// When a view is drawn, and how.
#[derive(Debug, Clone, Copy)]
pub struct When {
    /// Not at all, whatever the terminal.
    pub never: bool,
    /// Without colour.
    pub no_color: bool,
    /// Whether a run is a part of something that goes on, however short it is itself.
    pub of_many: bool,
}

impl When {
    /// As the flags have it; of a run that is one `of_many`, or not.
    pub fn of(output: &OutputArgs, of_many: bool) -> Self {
        When { never: output.no_tui, no_color: output.no_color, of_many }
    }
}

/// What can be drawn, and is where a run is worth it.
pub struct View {
    when: When,
    interrupted: Arc<AtomicBool>,
    drawn: Option<Drawn>,
    seldom: Seldom,
    /// Where the run is seen in a browser, too; empty: nowhere.
    page: String,
}

/// A view that is drawn.
struct Drawn {
    shared: Arc<Shared>,
    ended: Receiver<()>,
}

/// What the session's thread and the drawing one have in common.
struct Shared {
    handed: Mutex<Handed>,
    screen: Mutex<Screen>,
    /// Told to end.
    is_closing: AtomicBool,
    /// It has ended, or is about to, and left the terminal as it was.
    has_closed: AtomicBool,
}

/// What is handed over.
#[derive(Default)]
struct Handed {
    view: report::terminal::View,
    /// Whether it has changed since it was drawn.
    is_new: bool,
    /// What is printed when the view has gone.
    kept: Vec<String>,
    dropped: u64,
    /// Nothing is kept any more.
    is_over: bool,
}

impl Shared {
    /// A thread that panicked with it left a view that can still be drawn.
    fn handed(&self) -> MutexGuard<'_, Handed> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was kept; else it is to be printed.
    fn keep(&self, line: &str) -> bool {
        let mut handed = self.handed();
        if handed.is_over {
            return false;
        }
        if handed.kept.len() < KEPT_MAX {
            handed.kept.push(line.to_owned());
        } else {
            handed.dropped += 1;
        }
        true
    }
}

fn drawn_now() -> MutexGuard<'static, Option<Arc<Shared>>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a line for when the view has gone, and shows it; `false` where there is no view, and it is to be printed.
pub fn keep(line: &str) -> bool {
    let Some(shared) = drawn_now().clone() else { return false };
    let is_kept = shared.keep(line);
    let mut handed = shared.handed();
    handed.view.remark(line);
    handed.is_new = true;
    is_kept
}

impl View {
    /// One that may be drawn; `None` where there is no terminal for it.
    pub fn new(when: When, interrupted: &Arc<AtomicBool>) -> Option<Self> {
        (!when.never && screen::is_possible()).then(|| View {
            when,
            interrupted: Arc::clone(interrupted),
            drawn: None,
            seldom: Seldom::new(ASK_EVERY),
            page: String::new(),
        })
    }

    /// Whether it is drawn, and its user has not ended it.
    pub fn is_drawn(&self) -> bool {
        self.drawn.as_ref().is_some_and(|drawn| !drawn.shared.has_closed.load(Ordering::Acquire))
    }

    /// Whether it was drawn, and ended by itself: what was kept is to be printed.
    pub fn has_closed(&self) -> bool {
        self.drawn.is_some() && !self.is_drawn()
    }

    /// A tick has ended. Begins to draw with the first tick of a run that is worth it; `false`: it is not drawn.
    pub fn tick(&mut self, row: &Row, plan: &Plan, label: &str) -> bool {
        let is_first = row.start_ns == 0 && !row.is_drain;
        let is_worth = self.when.of_many || plan.planned_ns().is_none_or(|ns| ns >= WORTH_NS);
        if is_first && is_worth && self.drawn.is_none() && !self.interrupted.load(Ordering::Relaxed) {
            self.open();
        }
        let page = &self.page;
        self.hand_over(|view| {
            view.label(label);
            if is_first {
                view.begin(plan);
                if !page.is_empty() {
                    view.page(page);
                }
            }
            view.row(row);
        })
    }

    /// The same tick with its histograms.
    pub fn interval(&self, interval: &Interval<u32>) {
        self.hand_over(|view| view.interval(interval));
    }

    /// The machine and the target were read.
    pub fn snapshot(&self, snapshot: &Snapshot) {
        self.hand_over(|view| view.snapshot(snapshot));
    }

    /// Something happened.
    pub fn event(&self, event: &Event) {
        self.hand_over(|view| view.event(event));
    }

    /// Keeps a line for when the view has gone; `false`: it is to be printed.
    pub fn keep(&self, line: &str) -> bool {
        self.is_drawn() && self.drawn.as_ref().is_some_and(|drawn| drawn.shared.keep(line))
    }

    /// Shows what was said and is no event.
    pub fn remark(&self, line: &str) {
        self.hand_over(|view| view.remark(line));
    }

    /// Where the run is seen in a browser, too.
    pub fn page(&mut self, url: String) {
        self.page = url;
    }

    /// Whether it is time to ask how the run stands.
    pub fn wants_standing(&mut self) -> bool {
        self.is_drawn() && self.seldom.asks()
    }

    /// How the run stands, as it was asked for, or others did.
    pub fn standing(&mut self, recording: &Recording, diagnosis: &Diagnosis) {
        if self.is_drawn() {
            let describe = |example: &model::error_kind::ErrorExample| super::results::words_of(recording, example);
            let standing = Standing::of(recording, diagnosis, &describe);
            self.hand_over(|view| view.standing(standing));
        }
        self.seldom.answered();
    }

    /// Puts the terminal back, where it was drawn; what was kept meanwhile, in its order.
    pub fn close(&mut self) -> Vec<String> {
        let Some(Drawn { shared, ended }) = self.drawn.take() else { return Vec::new() };
        shared.is_closing.store(true, Ordering::Release);
        // Of an end that is told by nobody being there any more.
        let _ = ended.recv_timeout(CLOSE);
        *drawn_now() = None;
        let mut handed = shared.handed();
        handed.is_over = true;
        let mut kept = std::mem::take(&mut handed.kept);
        if handed.dropped > 0 {
            kept.push(format!("plimsoll: {} more lines were not kept", handed.dropped));
        }
        kept
    }

    fn open(&mut self) {
        let Some(screen) = Screen::enter() else { return };
        let shared = Arc::new(Shared {
            handed: Mutex::default(),
            screen: Mutex::new(screen),
            is_closing: AtomicBool::new(false),
            has_closed: AtomicBool::new(false),
        });
        *drawn_now() = Some(Arc::clone(&shared));
        restore_on_panic();
        let (alive, ended) = sync_channel(1);
        let style = super::terminal::style_aside(self.when.no_color);
        let looks = Looks { color: style.color, unicode: style.unicode, ..Looks::default() };
        let (of_thread, interrupted) = (Arc::clone(&shared), Arc::clone(&self.interrupted));
        let work = move || {
            thread::run(&of_thread, &interrupted, looks);
            drop(alive);
        };
        self.seldom.put_off();
        match std::thread::Builder::new().name("view".to_owned()).spawn(work) {
            Ok(_) => self.drawn = Some(Drawn { shared, ended }),
            Err(_) => {
                *drawn_now() = None;
                thread::leave(&shared);
            }
        }
    }

    /// `false`: nobody draws.
    fn hand_over(&self, change: impl FnOnce(&mut report::terminal::View)) -> bool {
        let Some(drawn) = self.drawn.as_ref().filter(|_| self.is_drawn()) else { return false };
        let mut handed = drawn.shared.handed();
        change(&mut handed.view);
        handed.is_new = true;
        true
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mut stderr = std::io::stderr();
        for line in self.close() {
            // Nothing is left to do where stderr is closed.
            drop(std::io::Write::write_all(&mut stderr, format!("{}\n", plain(&line)).as_bytes()));
        }
    }
}

/// Whoever panics, the terminal is put back first.
fn restore_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Not waited for: whoever panics may hold it.
            if let Some(shared) = DRAWN.try_lock().ok().and_then(|drawn| drawn.clone()) {
                shared.is_closing.store(true, Ordering::Release);
                thread::leave(&shared);
            }
            before(panic);
        }));
    });
}
