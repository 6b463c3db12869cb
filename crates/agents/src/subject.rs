//! Where on NATS which words are said. A run has subjects and a stream of its own, so that who may see one run need see no other.

/// The question who is there.
pub const WHO: &str = "plimsoll.agents.who";

/// The question which observers are there.
pub const OBSERVERS: &str = "plimsoll.observers.who";

/// Asked of one observer: a stream of bytes to it.
pub fn observer(name: &str) -> String {
    format!("plimsoll.observer.{}.open", one_word(name))
}

/// What is said to an observer on a stream.
pub fn to_observer(name: &str, stream: &str) -> String {
    format!("plimsoll.observer.{}.{stream}.to", one_word(name))
}

/// What it says there.
pub fn from_observer(name: &str, stream: &str) -> String {
    format!("plimsoll.observer.{}.{stream}.from", one_word(name))
}

/// A dot would begin another part of the subject; `=` is in no name.
fn one_word(name: &str) -> String {
    name.replace('.', "=")
}

/// Asked of one agent: what its clock says.
pub fn clock(agent: &str) -> String {
    format!("plimsoll.agent.{agent}.clock")
}

/// Asked of one agent: to be part of a run.
pub fn take(agent: &str) -> String {
    format!("plimsoll.agent.{agent}.take")
}

/// Asked of one agent: to forget a run that it has agreed to.
pub fn leave(agent: &str) -> String {
    format!("plimsoll.agent.{agent}.leave")
}

/// Signs of life of a run's agents; not in its stream.
pub fn alive(run: &str) -> String {
    format!("plimsoll.alive.{run}")
}

/// The stream of a run.
pub fn stream(run: &str) -> String {
    format!("PLIMSOLL_{run}")
}

/// The run of a stream.
pub fn run_of(stream: &str) -> Option<&str> {
    stream.strip_prefix("PLIMSOLL_").filter(|run| crate::message::is_name(run))
}

/// All that is in the stream of a run.
pub fn all(run: &str) -> String {
    format!("plimsoll.run.{run}.>")
}

/// One of the words of a run's controller: `plan`, `deal`, `begin`, `stop`, `redeal-0` and on, `release-0` and on,
/// `fault-0` and on.
pub fn word(run: &str, word: &str) -> String {
    format!("plimsoll.run.{run}.{word}")
}

/// The word of a second deal, by its number.
pub fn redeal(number: usize) -> String {
    format!("redeal-{number}")
}

/// The number of a second deal by its word.
pub fn redeal_of(word: &str) -> Option<usize> {
    let number = word.strip_prefix("redeal-")?.parse().ok()?;
    (number < crate::limits::AGENTS_MAX && word == redeal(number)).then_some(number)
}

/// The word of what a fault did, by its number.
pub fn fault(number: usize) -> String {
    format!("fault-{number}")
}

/// The number of what a fault did by its word.
pub fn fault_of(word: &str) -> Option<usize> {
    let number = word.strip_prefix("fault-")?.parse().ok()?;
    (number < model::limits::EVENTS_OF_KIND_MAX && word == fault(number)).then_some(number)
}

/// The word that releases a burst, by its number.
pub fn release(round: u32) -> String {
    format!("release-{round}")
}

/// The number of a burst by the word that releases it.
pub fn release_of(word: &str) -> Option<u32> {
    let round = word.strip_prefix("release-")?.parse().ok()?;
    (word == release(round)).then_some(round)
}

/// All of them.
pub fn words(run: &str) -> String {
    format!("plimsoll.run.{run}.*")
}

/// A file of data of a plan.
pub fn file(run: &str, index: usize) -> String {
    format!("plimsoll.run.{run}.file.{index}")
}

/// What an agent says in a run: `state`, `tick`, `recording`.
pub fn of_agent(run: &str, agent: &str, what: &str) -> String {
    format!("plimsoll.run.{run}.agent.{agent}.{what}")
}

/// What a message of a run's stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'s> {
    /// A word of the controller.
    Word(&'s str),
    /// Something of an agent.
    Agent {
        /// Its name.
        name: &'s str,
        /// `state`, `tick` or `recording`.
        what: &'s str,
    },
    /// Part of a file of data.
    File,
}

/// What a message is by its subject; `None`: it is not of this run.
pub fn what<'s>(run: &str, subject: &'s str) -> Option<What<'s>> {
    let rest = subject.strip_prefix("plimsoll.run.")?.strip_prefix(run)?.strip_prefix('.')?;
    let parts: Vec<&str> = rest.split('.').collect();
    match parts[..] {
        [word] => Some(What::Word(word)),
        ["agent", name, what] => Some(What::Agent { name, what }),
        ["file", _] => Some(What::File),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_say_what_a_message_is() {
        assert_eq!(what("r1", &word("r1", "deal")), Some(What::Word("deal")));
        assert_eq!(what("r1", &of_agent("r1", "a", "tick")), Some(What::Agent { name: "a", what: "tick" }));
        assert_eq!(what("r1", &file("r1", 0)), Some(What::File));
        assert_eq!(what("r1", &word("r11", "deal")), None);
        assert_eq!([redeal_of("redeal-7"), redeal_of(&redeal(0))], [Some(7), Some(0)]);
        assert_eq!(["redeal-", "redeal-07", "redeal-1024", "redeal--1", "deal"].map(redeal_of), [None; 5]);
        assert_eq!([fault_of("fault-7"), fault_of(&fault(0))], [Some(7), Some(0)]);
        assert_eq!(["fault-", "fault-07", "fault-999999999", "fault--1", "redeal-1"].map(fault_of), [None; 5]);
        assert_eq!([release_of("release-7"), release_of(&release(0))], [Some(7), Some(0)]);
        assert_eq!(["release-", "release-07", "release--1", "redeal-1"].map(release_of), [None; 4]);
        assert_eq!(run_of(&stream("r1")), Some("r1"));
        assert_eq!(run_of("OTHER"), None);
        assert_eq!(
            observer("node-1.example"),
            "plimsoll.observer.node-1=example.open",
            "as many parts as of any other"
        );
    }
}
