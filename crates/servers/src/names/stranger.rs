//! What strangers' bytes come to, without sockets and store: for fuzz targets, which see the crate from outside.

use std::borrow::Cow;

use super::command::{self, Command};
use super::reply;
use super::resp::{self, Parsed};

/// Feeds `pieces` to one connection. What each command came to, with the reply where the connection has it by itself; the
/// last may be a refusal, which ends the connection.
///
/// # Panics
/// When more is taken than there is, or a command that is written anew is another.
pub fn commands<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, Vec<u8>)> {
    let (mut heard, mut input) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut at = 0;
        loop {
            match resp::parse(&input[at..]) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Command(arguments, taken)) => {
                    assert!((1..=input.len() - at).contains(&taken), "took {taken} of {}", input.len() - at);
                    at += taken;
                    if arguments.is_empty() {
                        continue;
                    }
                    assert_is_the_same_as_array(&arguments);
                    let mut out = Vec::new();
                    let command = command::take(arguments, &mut out);
                    let ends = matches!(command, Command::Quit);
                    heard.push((format!("{command:?}"), out));
                    if ends {
                        return heard;
                    }
                }
                Err(refusal) => {
                    heard.push((format!("{refusal}"), Vec::new()));
                    return heard;
                }
            }
        }
        input.drain(..at);
    }
    heard
}

fn assert_is_the_same_as_array(arguments: &[Cow<'_, [u8]>]) {
    let mut array = Vec::new();
    reply::array(&mut array, arguments.len() as u64);
    arguments.iter().for_each(|argument| reply::bulk(&mut array, argument));
    assert_eq!(resp::parse(&array), Ok(Parsed::Command(arguments.to_vec(), array.len())), "written as an array");
}
