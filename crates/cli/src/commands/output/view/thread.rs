//! The thread that draws and reads keys, until it is told to end, a key ends the run, or somebody else does.

use super::Shared;
use super::keys::{Wish, turn};
use super::screen::{self, BLANK, Out, Screen, Stops};
use crossterm::event::{Event, poll, read};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use report::terminal::{Looks, draw};
use std::io::Write;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two drawings of what is new, at the least.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How long a key is waited for before all else is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often, and how long between, another thread's hold of the screen is waited for when there is no time to wait.
const HOLD_WAITS: u32 = 20;
const HOLD_WAIT: Duration = Duration::from_millis(10);

/// Draws, until there is a reason not to; leaves the terminal as it was.
pub fn run(shared: &Shared, interrupted: &AtomicBool, looks: Looks) {
    let stops = Stops::watched();
    stops.drawn(true);
    let end = Ended { shared, stops };
    let mut drawing = Drawing { shared, stops, looks, beyond: 0, size: (0, 0), terminal: None, drawn_at: None };
    let wish = drawing.until(interrupted);
    drop(drawing);
    drop(end);
    // Only now, as a second signal ends the process at once.
    match wish {
        Some(Wish::Quit) => screen::quit(),
        Some(_) => interrupted.store(true, Ordering::Relaxed),
        None => {}
    }
}

/// Puts the terminal back, whoever holds it: soon if it is let go of, else as far as that can be done without.
pub fn leave(shared: &Shared) {
    for _ in 0..HOLD_WAITS {
        if let Ok(mut screen) = shared.screen.try_lock() {
            screen.leave();
            break;
        }
        std::thread::sleep(HOLD_WAIT);
    }
    shared.has_closed.store(true, Ordering::Release);
}

/// Whatever ends the thread, the terminal is put back.
struct Ended<'a> {
    shared: &'a Shared,
    stops: &'a Stops,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.stops.drawn(false);
        leave(self.shared);
    }
}

struct Drawing<'a> {
    shared: &'a Shared,
    stops: &'a Stops,
    looks: Looks,
    /// Lines of the page that have no room.
    beyond: usize,
    size: (u16, u16),
    /// `None`: all is to be drawn anew.
    terminal: Option<Terminal<CrosstermBackend<Out>>>,
    drawn_at: Option<Instant>,
}

impl Drawing<'_> {
    /// Draws and reads keys, until the end; what the key wished that ended it.
    fn until(&mut self, interrupted: &AtomicBool) -> Option<Wish> {
        let mut has_keys = true;
        let mut is_new = true;
        loop {
            if self.shared.is_closing.load(Ordering::Acquire) || interrupted.load(Ordering::Relaxed) {
                return None;
            }
            if self.stops.is_asked() {
                self.stop(false)?;
            } else if self.stops.has_gone_on() {
                self.go_on()?;
            }
            if screen::size().is_some_and(|size| size != self.size) || self.terminal.is_none() {
                self.terminal = None;
                is_new = true;
            }
            if self.drawn_at.is_none_or(|at| at.elapsed() >= DRAW_EVERY) {
                let mut handed = self.shared.handed();
                is_new |= std::mem::take(&mut handed.is_new);
                let view = is_new.then(|| handed.view.clone());
                drop(handed);
                if let Some(view) = view {
                    is_new = false;
                    self.draw(&view).ok()?;
                }
            }
            match poll(LOOK_EVERY) {
                Ok(true) if has_keys => match read() {
                    Ok(Event::Key(key)) => {
                        is_new = true;
                        let rows = usize::from(self.size.1);
                        match turn(&mut self.looks, key, rows, self.beyond) {
                            Some(Wish::Stop) => self.stop(true)?,
                            Some(Wish::Redraw) => self.terminal = None,
                            Some(wish) => return Some(wish),
                            None => {}
                        }
                    }
                    Ok(_) => is_new = true,
                    Err(_) => has_keys = false,
                },
                Ok(false) if has_keys => {}
                // Nobody types any more; what goes on is still seen.
                Ok(_) | Err(_) => {
                    has_keys = false;
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.shared.screen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Stops the process with the terminal as it was before; `None` where it goes on in the background.
    fn stop(&mut self, with_group: bool) -> Option<()> {
        self.screen().leave();
        self.stops.stop(with_group);
        self.go_on()
    }

    /// Takes the terminal again; `None` where it is another's by now.
    fn go_on(&mut self) -> Option<()> {
        self.terminal = None;
        self.screen().enter_again().then_some(())
    }

    fn draw(&mut self, view: &report::terminal::View) -> std::io::Result<()> {
        let shared = self.shared;
        let screen = shared.screen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !screen.is_entered() {
            return Err(std::io::ErrorKind::NotConnected.into());
        }
        if self.terminal.is_none() {
            self.size = screen::size().unwrap_or(self.size);
            let (width, height) = self.size;
            let mut out = Out::default();
            out.write_all(BLANK)?;
            let viewport = Viewport::Fixed(Rect { x: 0, y: 0, width, height });
            self.terminal = Some(Terminal::with_options(CrosstermBackend::new(out), TerminalOptions { viewport })?);
        }
        self.drawn_at = Some(Instant::now());
        if let Some(terminal) = &mut self.terminal {
            let (looks, beyond) = (self.looks, &mut self.beyond);
            terminal.draw(|frame| *beyond = draw(frame, view, looks))?;
        }
        Ok(())
    }
}
