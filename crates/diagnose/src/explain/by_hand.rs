//! What to type to check a finding by hand, with the target's own process and port in it: it is there to be pasted.
//!
//! Rules write `PID`, `HOST` and `PORT`. The process is the one that the target's busiest thread is of: where it has ended since, tools
//! say that there is none, which a search for its name would not. What is not known stays as it is.

use crate::facts::Facts;
use model::plan::Address;

/// A command of a rule with what is known of this run's target.
pub(crate) fn filled(facts: &Facts<'_>, command: &str) -> String {
    let mut command = command.to_owned();
    if let Some(thread) = facts.target_threads.first() {
        command = replaced(&command, "PID", &thread.pid.to_string());
    }
    let addresses = facts.recording.plan.origins.iter().flat_map(|origin| &origin.addresses);
    let mut tcp = addresses.filter_map(|address| match address {
        Address::Tcp(address) => Some(address),
        Address::Unix(_) => None,
    });
    if let Some(address) = tcp.next() {
        let host = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        command = replaced(&command, "PORT", &address.port().to_string());
        command = replaced(&command, "HOST", &host);
    }
    command
}

/// A text with another word in the place of one, wherever that stands alone.
fn replaced(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut new, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(word) {
        let (before, behind) = (&rest[..at], &rest[at + word.len()..]);
        // What went before a second one of its kind is in `new` already.
        let last = before.chars().next_back().or_else(|| new.chars().next_back());
        let is_alone = !last.is_some_and(is_part) && !behind.starts_with(is_part);
        new.push_str(before);
        new.push_str(if is_alone { by } else { word });
        rest = behind;
    }
    new + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_replaced_where_it_stands_alone() {
        let text = "cat /proc/PID/limits; grep PIDS PID_x xPID -p PID";
        assert_eq!(replaced(text, "PID", "7"), "cat /proc/7/limits; grep PIDS PID_x xPID -p 7");
        assert_eq!(replaced("PIDPID PID", "PID", "7"), "PIDPID 7");
        assert_eq!(replaced("", "PID", "7"), "");
    }
}
