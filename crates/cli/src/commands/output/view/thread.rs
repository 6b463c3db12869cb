//! The thread that draws and reads keys, until it is told to end, a key ends the run, or somebody else does.

use super::Shared;
use super::keys::{Wish, turn};
use super::screen::{self, BLANK, Screen, Stops};
use crossterm::event::{Event, poll, read};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use report::terminal::{Looks, draw};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError, TryLockError};
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
        match shared.screen.try_lock() {
            Ok(mut screen) => {
                screen.leave();
                break;
            }
            // Who panicked with it has let go of it.
            Err(TryLockError::Poisoned(left)) => {
                left.into_inner().leave();
                break;
            }
            Err(TryLockError::WouldBlock) => {}
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

/// What is drawn goes to the screen when it is flushed, and not by stderr's handle, whose lock would hold up the end. Only
/// then is the screen held: whoever panics while drawing does not.
struct Out<'a> {
    bytes: Vec<u8>,
    shared: &'a Shared,
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        // Not told to ratatui, which would have it said on stderr, of all places.
        if hold(self.shared).write(&bytes).is_err() {
            self.shared.is_closing.store(true, Ordering::Release);
        }
        Ok(())
    }
}

fn hold(shared: &Shared) -> MutexGuard<'_, Screen> {
    shared.screen.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Drawing<'a> {
    shared: &'a Shared,
    stops: &'a Stops,
    looks: Looks,
    /// Lines of the page that have no room.
    beyond: usize,
    size: (u16, u16),
    /// `None`: all is to be drawn anew.
    terminal: Option<Terminal<CrosstermBackend<Out<'a>>>>,
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

    /// Stops the process with the terminal as it was before; `None` where it goes on in the background.
    fn stop(&mut self, with_group: bool) -> Option<()> {
        hold(self.shared).leave();
        self.stops.stop(with_group);
        self.go_on()
    }

    /// Takes the terminal again; `None` where it is another's by now.
    fn go_on(&mut self) -> Option<()> {
        self.terminal = None;
        hold(self.shared).enter_again().then_some(())
    }

    fn draw(&mut self, view: &report::terminal::View) -> io::Result<()> {
        if self.terminal.is_none() {
            self.size = screen::size().unwrap_or(self.size);
            let (width, height) = self.size;
            let out = Out { bytes: BLANK.to_vec(), shared: self.shared };
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
