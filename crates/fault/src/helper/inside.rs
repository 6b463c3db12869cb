//! A helper from the inside: it takes what it needs, says whether it could, works until it is told to end.
//!
//! One thread. Between two steps of its work it sleeps until something comes or is due, and writes down what it did where that
//! has changed.

use super::job::{Job, Work};
use super::{Said, State, own_job, say};
use crate::limits::{HELPER_LIFE, HELPER_REPORT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGTERM, SIGUSR1};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Does the job that stands in the environment, in the folder that this process was started in, and returns when it is over.
///
/// # Errors
/// Why it could not begin, a sentence; who started it reads it in the folder, too.
pub fn run() -> Result<(), String> {
    // Whoever starts it by hand has no job for it, and no folder that is its own.
    let job = own_job()?;
    let folder = std::env::current_dir().map_err(|error| format!("expected a folder to work in, but {error}"))?;
    let words = Words::default();
    match begun(&job, &words) {
        Ok(mut work) => {
            work_on(work.as_mut(), &folder, &words);
            Ok(())
        }
        Err(reason) => {
            let _ = say(&folder, &Said { number: 1, state: State::Refused(reason.clone()) });
            Err(reason)
        }
    }
}

/// What it is told by signals.
#[derive(Debug, Default)]
struct Words {
    end: Arc<AtomicBool>,
    say: Arc<AtomicBool>,
}

fn begun(job: &Job, words: &Words) -> Result<Box<dyn Work>, String> {
    for (signal, flag) in [(SIGTERM, &words.end), (SIGUSR1, &words.say)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(|error| format!("signals: {error}"))?;
    }
    job.check().map_err(|error| error.to_string())?;
    job.begun()
}

fn work_on(work: &mut dyn Work, folder: &Path, words: &Words) {
    let began = Instant::now();
    let mut said = Said { number: 1, state: State::Works(work.report()) };
    let _ = say(folder, &said);
    let mut write = |work: &dyn Work, is_asked: bool| {
        let state = State::Works(work.report());
        if is_asked || said.state != state {
            said = Said { number: said.number + 1, state };
            // A full disk is no reason to end: what is read then is older.
            let _ = say(folder, &said);
        }
    };
    let mut due = began + HELPER_REPORT;
    while !words.end.load(Ordering::Relaxed) && began.elapsed() < HELPER_LIFE {
        let now = Instant::now();
        let wait = work.step(now).min(HELPER_REPORT);
        let is_asked = words.say.swap(false, Ordering::Relaxed);
        if is_asked || now >= due {
            write(work, is_asked);
            due = now + HELPER_REPORT;
        }
        let fd = work.waits_on();
        let mut on: Vec<PollFd<'_>> = fd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        // A signal is the only failure, and it is looked for next.
        let _ = poll(&mut on, Some(&timespec(wait)));
    }
    work.end();
    write(work, true);
}

/// As poll(2) and epoll_wait(2) take it.
pub(crate) fn timespec(wait: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(wait.subsec_nanos()) }
}
