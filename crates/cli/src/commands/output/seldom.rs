//! How often a run that goes on is asked how it stands: for a page, for a view of the terminal.

use std::time::{Duration, Instant};

/// So many times what an answer took passes before the next question: a hundredth of the time is spent on answers, however
/// long a run has become.
const REST: u32 = 100;

/// Asks seldom.
#[derive(Debug)]
pub struct Seldom {
    /// Time between two questions at least.
    every: Duration,
    /// When the question was asked that is not answered yet.
    asked: Option<Instant>,
    due: Instant,
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
        let now = Instant::now();
        self.asked = (now >= self.due).then_some(now);
        self.asked.is_some()
    }

    /// Asks, whether it is time or not.
    pub fn asks_now(&mut self) {
        self.asked = Some(Instant::now());
    }

    /// Whether a question is waiting for its answer: one that others asked for is none of it.
    pub fn has_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// The question is answered, as far as it was asked.
    pub fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.due = asked + self.every.max(asked.elapsed() * REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_took_long_puts_the_next_question_off_and_one_to_others_does_not() {
        let mut seldom = Seldom::new(Duration::ZERO);
        assert!(seldom.asks() && seldom.has_asked());
        std::thread::sleep(Duration::from_millis(3));
        seldom.answered();
        assert!(!seldom.asks(), "a hundred times three milliseconds have not passed");
        let due = seldom.due;
        assert!(!seldom.has_asked());
        std::thread::sleep(Duration::from_millis(3));
        seldom.answered();
        assert_eq!(seldom.due, due, "nobody had asked");
        seldom.asks_now();
        assert!(seldom.has_asked());
    }
}
