//! Progress on stderr while a run goes: a view of all of it, or one live line, on a terminal, a line every ten seconds
//! elsewhere.
//!
//! Draws at most ten times a second, whatever the tick. A stderr that nobody reads holds nothing up: see [`Outlet`].

use super::live::Live;
use super::outlet::Outlet;
use super::terminal;
use super::view::{View, When};
use model::event::TARGET_ENDED;
use model::finding::Diagnosis;
use model::plain::plain;
use model::plan::Plan;
use model::recording::Row;
use model::{Event, Interval, Recording, Snapshot};
use report::progress::{CLEAR, Progress};
use session::target::Life;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Time between two draws of the live line.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Run time between two lines where there is no terminal, nanoseconds.
const LOG_EVERY_NS: u64 = 10_000_000_000;

/// Events of a kind that are printed within [`PRINTED_WITHIN_NS`] of the run: a collector pauses many times a second.
const PRINTED_OF_A_KIND: usize = 5;
/// See [`PRINTED_OF_A_KIND`].
const PRINTED_WITHIN_NS: i64 = 60_000_000_000;

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
    /// Draws the run on the whole terminal.
    view: Option<View>,
    /// Since when events of a kind are counted, by the run's clock, and how many came.
    came: BTreeMap<String, (i64, usize)>,
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
            view: None,
            came: BTreeMap::new(),
            life: None,
        }
    }

    /// Runs that are worth it are drawn on the whole terminal, where there is one; a key there may set `interrupted`.
    pub fn draw(&mut self, when: When, interrupted: &Arc<AtomicBool>) {
        if !self.quiet {
            self.view = View::new(when, interrupted);
        }
    }

    /// Takes the live line or the view away, before something else is printed.
    pub fn clear(&mut self) {
        self.close_view();
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

    /// Puts the terminal back, and prints what was said meanwhile.
    fn close_view(&mut self) {
        let kept = self.view.as_mut().map(View::close).unwrap_or_default();
        kept.iter().for_each(|line| self.print(line));
    }

    /// The run is seen on a page, too, of which the view says where it is: what was printed of it cannot be seen meanwhile.
    pub fn show_live(&mut self, live: &Live) {
        self.also.push(Box::new(live.clone()));
        if let Some(view) = &mut self.view {
            view.page(live.url());
        }
    }

    /// Prints a line of its own; while a view is drawn, later.
    pub fn say(&mut self, text: &str) {
        if let Some(view) = &self.view {
            view.remark(text);
        }
        self.keep_or_print(text);
    }

    fn keep_or_print(&mut self, text: &str) {
        if self.view.as_ref().is_some_and(View::has_closed) {
            self.close_view();
        }
        if !self.view.as_ref().is_some_and(|view| view.keep(text)) {
            self.print(text);
        }
    }

    fn print(&mut self, text: &str) {
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
        if self.view.as_ref().is_some_and(View::has_closed) {
            self.close_view();
        }
        if self.view.as_mut().is_some_and(|view| view.tick(row, plan, &self.label)) {
            return;
        }
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
        self.view.iter().for_each(|view| view.interval(interval));
    }

    fn on_snapshot(&mut self, snapshot: &Snapshot) {
        self.also.iter_mut().for_each(|other| other.on_snapshot(snapshot));
        self.view.iter().for_each(|view| view.snapshot(snapshot));
    }

    fn wants_standing(&mut self) -> bool {
        // Each is asked: it may count how long ago it was told.
        let mut wanted: Vec<bool> = self.also.iter_mut().map(|other| other.wants_standing()).collect();
        wanted.push(self.view.as_mut().is_some_and(View::wants_standing));
        wanted.contains(&true)
    }

    fn on_standing(&mut self, recording: &Recording, diagnosis: &Diagnosis) {
        self.also.iter_mut().for_each(|other| other.on_standing(recording, diagnosis));
        self.view.iter_mut().for_each(|view| view.standing(recording, diagnosis));
    }

    fn rate_factor(&mut self) -> Option<f64> {
        self.also.iter_mut().find_map(|other| other.rate_factor())
    }

    fn on_event(&mut self, event: &Event) {
        self.also.iter_mut().for_each(|other| other.on_event(event));
        self.view.iter().for_each(|view| view.event(event));
        if let Some(line) = line(&mut self.came, event) {
            self.keep_or_print(&line);
        }
    }

    fn happened(&mut self, at_ns: i64) -> Option<Event> {
        let event = self.life.as_ref()?.event(at_ns)?;
        if event.kind == TARGET_ENDED {
            self.life = None;
        }
        Some(event)
    }
}

/// What is printed of an event; `None`: as many of its kind were just now.
fn line(came: &mut BTreeMap<String, (i64, usize)>, event: &Event) -> Option<String> {
    let (since_ns, count) = came.entry(event.kind.clone()).or_insert((event.at_ns, 0));
    // Another run begins at 0 again.
    if !(0..PRINTED_WITHIN_NS).contains(&event.at_ns.saturating_sub(*since_ns)) {
        (*since_ns, *count) = (event.at_ns, 0);
    }
    *count += 1;
    let more = if *count == PRINTED_OF_A_KIND { "; more of these within a minute are not printed" } else { "" };
    (*count <= PRINTED_OF_A_KIND).then(|| format!("plimsoll: {}: {}{more}", event.kind, event.text))
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_kind_five_are_printed_in_a_minute_and_others_all_the_same() {
        let mut came = BTreeMap::new();
        let mut printed = |at_s: i64, kind: &str| line(&mut came, &Event::new(at_s * 1_000_000_000, kind, "it did"));
        let pauses: Vec<_> = (0..60).filter_map(|at_s| printed(at_s, "pause")).collect();
        assert_eq!((pauses.len(), &*pauses[0]), (5, "plimsoll: pause: it did"));
        assert_eq!(pauses[4], "plimsoll: pause: it did; more of these within a minute are not printed");
        assert!(printed(59, "outage").is_some() && printed(59, "pause").is_none());
        assert!(printed(60, "pause").is_some(), "the next minute");
        assert!(printed(3, "pause").is_some(), "the next run");
    }
}
