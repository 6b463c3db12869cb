//! Progress on stderr while a run goes: one live line on a terminal, a line every ten seconds elsewhere.
//!
//! Draws at most ten times a second, whatever the tick. A stderr that nobody reads holds nothing up: see [`Outlet`].

use super::outlet::Outlet;
use super::terminal;
use model::event::TARGET_ENDED;
use model::finding::Diagnosis;
use model::plain::plain;
use model::plan::Plan;
use model::recording::Row;
use model::{Event, Interval, Recording, Snapshot};
use report::progress::{CLEAR, Progress};
use session::target::Life;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two draws of the live line.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Run time between two lines where there is no terminal, nanoseconds.
const LOG_EVERY_NS: u64 = 10_000_000_000;

/// How long lines are waited for before something else is printed, so that they come in their order.
const SETTLE: Duration = Duration::from_millis(200);

/// Shows a run's progress.
pub struct Shown {
    quiet: bool,
    live: bool,
    is_drawn: bool,
    drawn_at: Option<Instant>,
    logged_ns: u64,
    failed: u64,
    /// `None`: there was no thread to be had, and nothing is shown.
    outlet: Option<Outlet>,
    /// What stands before the live line, such as a step of a search.
    pub label: String,
    /// Others who see the run: a page, a view of the terminal.
    pub also: Vec<Box<dyn session::Watch>>,
    /// Whether the target that was started for the run lives; taken when it has been said that it does not.
    pub life: Option<Arc<Life>>,
}

impl Shown {
    /// Shows on stderr, or not at all.
    pub fn new(quiet: bool) -> Self {
        Shown {
            quiet,
            live: terminal::stderr_is_terminal(),
            is_drawn: false,
            drawn_at: None,
            logged_ns: 0,
            failed: 0,
            outlet: Outlet::start().ok().filter(|_| !quiet),
            label: String::new(),
            also: Vec::new(),
            life: None,
        }
    }

    /// Takes the live line away, before something else is printed.
    pub fn clear(&mut self) {
        self.erase();
        if let Some(outlet) = &self.outlet {
            // Of stdout, where nothing was written.
            drop(outlet.settle(SETTLE));
        }
    }

    fn erase(&mut self) {
        if let (true, Some(outlet)) = (self.is_drawn, &self.outlet) {
            outlet.draw(CLEAR.to_owned());
            self.is_drawn = false;
        }
    }

    /// Prints a line of its own.
    pub fn say(&mut self, text: &str) {
        self.erase();
        if let Some(outlet) = &self.outlet {
            outlet.remark(plain(text).to_string());
        }
    }
}

impl session::Watch for Shown {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.also.iter_mut().for_each(|other| other.on_tick(row, plan));
        if row.start_ns == 0 {
            self.failed = 0;
            self.logged_ns = 0;
        }
        self.failed += row.counts.failed;
        let Some(outlet) = self.outlet.as_ref().filter(|_| !self.quiet) else { return };
        let progress = Progress {
            row,
            elapsed_ns: row.end_ns,
            planned_ns: plan.planned_ns(),
            warmup_ns: plan.warmup_ns,
            failed: self.failed,
        };
        let unicode = terminal::is_utf8();
        if self.live {
            if self.drawn_at.is_none_or(|at| at.elapsed() >= DRAW_EVERY) {
                self.drawn_at = Some(Instant::now());
                self.is_drawn = true;
                outlet.draw(progress.redrawn(&self.label, terminal::width(), unicode));
            }
        } else if self.label.is_empty() && row.end_ns >= self.logged_ns + LOG_EVERY_NS {
            self.logged_ns = row.end_ns;
            outlet.remark(progress.logged(unicode).to_string());
        }
    }

    fn on_interval(&mut self, interval: &Interval<u32>, plan: &Plan) {
        self.also.iter_mut().for_each(|other| other.on_interval(interval, plan));
    }

    fn on_snapshot(&mut self, snapshot: &Snapshot) {
        self.also.iter_mut().for_each(|other| other.on_snapshot(snapshot));
    }

    fn wants_standing(&mut self) -> bool {
        // Each is asked: it may count how long ago it was told.
        let wanted: Vec<bool> = self.also.iter_mut().map(|other| other.wants_standing()).collect();
        wanted.contains(&true)
    }

    fn on_standing(&mut self, recording: &Recording, diagnosis: &Diagnosis) {
        self.also.iter_mut().for_each(|other| other.on_standing(recording, diagnosis));
    }

    fn rate_factor(&mut self) -> Option<f64> {
        self.also.iter_mut().find_map(|other| other.rate_factor())
    }

    fn on_event(&mut self, event: &Event) {
        self.also.iter_mut().for_each(|other| other.on_event(event));
        let text = format!("plimsoll: {}: {}", event.kind, event.text);
        self.say(&text);
    }

    fn happened(&mut self, at_ns: i64) -> Option<Event> {
        let event = self.life.as_ref()?.event(at_ns)?;
        if event.kind == TARGET_ENDED {
            self.life = None;
        }
        Some(event)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.clear();
    }
}
