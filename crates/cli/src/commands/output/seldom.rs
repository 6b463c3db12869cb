//! How often a run that goes on is asked how it stands: for a page, for a view of the terminal.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// So many times the CPU time that an answer took pass before the next question: a hundredth of a core is spent on answers,
/// however long a run has become. By CPU time and not by the clock on the wall: beside workers that leave the session's
/// thread little, an answer takes long, and would be given all the more seldom for costing no more.
const REST: u32 = 100;

/// Asks seldom. Question and answer are of the same thread.
#[derive(Debug)]
pub struct Seldom {
    /// Time between two questions at least.
    every: Duration,
    /// When the question was asked that is not answered yet.
    asked: Option<Asked>,
    due: Instant,
}

/// When a question was asked.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Instant,
    /// CPU time of the thread by then.
    cpu: Duration,
}

impl Asked {
    fn now() -> Self {
        Asked { at: Instant::now(), cpu: thread_cpu() }
    }
}

impl Seldom {
    /// The first question is due at once.
    pub fn new(every: Duration) -> Self {
        Seldom { every, asked: None, due: Instant::now() }
    }

    /// Puts the next question off by the time between two.
    pub fn put_off(&mut self) {
        self.due = Instant::now() + self.every;
    }

    /// Whether it is time to ask. If it is, the question is asked.
    pub fn asks(&mut self) -> bool {
        self.asked = (Instant::now() >= self.due).then(Asked::now);
        self.asked.is_some()
    }

    /// Asks, whether it is time or not.
    pub fn asks_now(&mut self) {
        self.asked = Some(Asked::now());
    }

    /// Whether a question is waiting for its answer: one that others asked for is none of it.
    pub fn has_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// The question is answered, as far as it was asked.
    pub fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.due = asked.at + self.every.max(thread_cpu().saturating_sub(asked.cpu) * REST);
        }
    }
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the CPU busy for so much CPU time.
    fn work(time: Duration) {
        let began = thread_cpu();
        while thread_cpu() - began < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn an_answer_that_cost_much_puts_the_next_question_off_and_one_to_others_does_not() {
        let mut seldom = Seldom::new(Duration::ZERO);
        assert!(seldom.asks() && seldom.has_asked());
        work(Duration::from_millis(30));
        seldom.answered();
        assert!(!seldom.asks(), "a hundred times thirty milliseconds have not passed");
        let due = seldom.due;
        assert!(!seldom.has_asked());
        work(Duration::from_millis(3));
        seldom.answered();
        assert_eq!(seldom.due, due, "nobody had asked");
        seldom.asks_now();
        assert!(seldom.has_asked());
    }

    #[test]
    fn an_answer_that_only_waited_for_a_cpu_is_asked_for_again_as_soon_as_one_that_did_not() {
        let mut seldom = Seldom::new(Duration::ZERO);
        assert!(seldom.asks());
        let asked = Instant::now();
        std::thread::sleep(Duration::from_secs(1));
        seldom.answered();
        assert!(seldom.due < asked + Duration::from_secs(50), "it waits a hundred times the second that it waited");
    }
}
