//! The terminal itself: put into the mode that a view needs, and back.
//!
//! Raw mode (termios(3)) is set on stdin, whose keys are read; the alternate screen (xterm's 1049) is entered on stderr. A
//! process in the background leaves the terminal's mode alone: it is another's.

use crate::commands::output::outlet::write_bytes;
use report::terminal::LEAST;
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::flag;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// To the alternate screen, without a cursor, all blank; what is pasted comes as that (xterm's 2004), and not as keys.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b[2J";
/// Back, as it was.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1049l";
/// All blank, with nothing left of what was drawn.
pub const BLANK: &[u8] = b"\x1b[0m\x1b[2J";

/// Whether there is a terminal that can be drawn on and has keys, is large enough, and is this process's.
pub fn is_possible() -> bool {
    let term = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let are_terminals = io::stdin().is_terminal() && io::stderr().is_terminal();
    term && are_terminals
        && is_in_front()
        && size().is_some_and(|(columns, rows)| columns >= LEAST.0 && rows >= LEAST.1)
}

/// Columns and rows.
pub fn size() -> Option<(u16, u16)> {
    tcgetwinsize(io::stderr()).ok().map(|size| (size.ws_col, size.ws_row))
}

/// Whether the terminal's keys are this process's.
fn is_in_front() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group: Pid| group == getpgrp())
}

/// A terminal, and how it was.
pub struct Screen {
    before: Termios,
    is_entered: bool,
}

impl Screen {
    /// Enters it; `None` where that is not possible.
    pub fn enter() -> Option<Self> {
        if !is_possible() {
            return None;
        }
        let mut screen = Screen { before: tcgetattr(io::stdin()).ok()?, is_entered: false };
        screen.enter_again();
        screen.is_entered.then_some(screen)
    }

    /// Writes on it, while it is entered.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if self.is_entered { write_bytes(&io::stderr(), bytes) } else { Ok(()) }
    }

    /// Enters it, as it may be after the process was stopped: `false` where it is another's by now.
    pub fn enter_again(&mut self) -> bool {
        if !is_in_front() {
            self.leave();
            return false;
        }
        let mut raw = self.before.clone();
        raw.make_raw();
        if tcsetattr(io::stdin(), OptionalActions::Now, &raw).is_err() {
            return false;
        }
        self.is_entered = true;
        // Who cannot be written to shows nothing, and says so at the next drawing.
        drop(write_bytes(&io::stderr(), ENTER));
        true
    }

    /// Leaves it as it was before.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.is_entered) {
            self.mode_back();
            drop(write_bytes(&io::stderr(), LEAVE));
        }
    }

    fn mode_back(&self) {
        if is_in_front() {
            // Nothing is left to do where it has gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Stops of the process by the terminal's user, and that it goes on.
pub struct Stops {
    /// Asked to stop.
    is_asked: Arc<AtomicBool>,
    /// It goes on.
    goes_on: Arc<AtomicBool>,
    /// Whether a request to stop does so by itself: while nothing is drawn.
    by_itself: Arc<AtomicBool>,
}

/// How long a stop is waited for that may not come, as where no shell waits for the process.
const STOP_WAITS: u32 = 25;
const STOP_WAIT: Duration = Duration::from_millis(20);

impl Stops {
    /// Those of this process, which goes on as before while nothing is drawn.
    pub fn watched() -> &'static Self {
        static STOPS: OnceLock<Stops> = OnceLock::new();
        STOPS.get_or_init(|| {
            let new = |is| Arc::new(AtomicBool::new(is));
            let stops = Stops { is_asked: new(false), goes_on: new(false), by_itself: new(true) };
            // Who starts us so that it cannot be stopped is left to.
            if !crate::commands::interrupt::is_ignored_here(SIGTSTP) {
                drop(flag::register(SIGTSTP, Arc::clone(&stops.is_asked)));
                drop(flag::register_conditional_default(SIGTSTP, Arc::clone(&stops.by_itself)));
            }
            drop(flag::register(SIGCONT, Arc::clone(&stops.goes_on)));
            stops
        })
    }

    /// Something is drawn from now on, or is not: a request to stop is then waited for, or stops the process.
    pub fn drawn(&self, is_drawn: bool) {
        self.is_asked.store(false, Ordering::Relaxed);
        self.goes_on.store(false, Ordering::Relaxed);
        self.by_itself.store(!is_drawn, Ordering::SeqCst);
    }

    /// Whether somebody asked to stop, since last asked.
    pub fn is_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }

    /// Whether it was stopped and goes on, since last asked.
    pub fn has_gone_on(&self) -> bool {
        self.goes_on.swap(false, Ordering::Relaxed)
    }

    /// Stops the process, and with it all that were started with it; comes back when it goes on.
    pub fn stop(&self, with_group: bool) {
        self.drawn(false);
        // Where it is not allowed to, it goes on.
        let _ = match with_group {
            true => kill_current_process_group(Signal::TSTP),
            false => kill_process(getpid(), Signal::TSTP),
        };
        for _ in 0..STOP_WAITS {
            if self.goes_on.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(STOP_WAIT);
        }
        self.drawn(true);
    }
}

/// Ends the process as Ctrl-\ does.
pub fn quit() {
    let _ = kill_current_process_group(Signal::QUIT);
}
