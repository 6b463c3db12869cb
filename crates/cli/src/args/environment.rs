//! Variables of the environment: which are known, and which of them a value came from.
//!
//! A flag that was never typed must not be blamed: an error that names one says which variable it stands for. A name
//! that is none of ours is most often a slip of the keyboard; it is told, with the nearest that is known.

use super::remote::TOKEN_VARIABLE;
use clap::{Arg, ArgMatches, Command};
use std::collections::BTreeSet;
use strsim::levenshtein;

/// What every variable begins with.
const PREFIX: &str = "PLIMSOLL_";
/// Those of the tests, which reach what they start.
const OF_TESTS: &str = "PLIMSOLL_TEST_";
/// The most letters that a slip of the keyboard changes.
const SLIPS_MAX: usize = 3;

/// What the environment had to say to a command line.
#[derive(Debug, Default)]
pub struct Environment {
    /// Flags whose value came from a variable, each as it may be named in an error, and the variable.
    given: Vec<(String, String)>,
    /// Variables that are none of ours, a sentence each.
    pub unknown: Vec<String>,
}

impl Environment {
    /// What was given to a command line that could be read.
    pub(super) fn of(definition: &Command, matches: &ArgMatches) -> Self {
        let mut given = Vec::new();
        let (mut command, mut matches) = (definition, matches);
        loop {
            for arg in command.get_arguments().filter(|arg| is_given(arg, matches)) {
                let variable = variable_of(arg).unwrap_or_default();
                let short = arg.get_short().map(|c| format!("-{c}"));
                let long = arg.get_long().map(|long| format!("--{long}"));
                given.extend(short.into_iter().chain(long).map(|flag| (flag, variable.clone())));
            }
            let Some((name, inner)) = matches.subcommand() else { break };
            let Some(next) = command.find_subcommand(name) else { break };
            (command, matches) = (next, inner);
        }
        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Environment { given, unknown: unknown(set, &known(definition)) }
    }

    /// A message that names flags, with the variables they stand for where they were not typed.
    pub fn named(&self, message: String) -> String {
        let is_of_flag = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words: BTreeSet<&str> = message.split(|c| !is_of_flag(c)).collect();
        let of_variables: Vec<String> = self
            .given
            .iter()
            .filter(|(flag, _)| words.contains(&**flag))
            .map(|(flag, variable)| format!("{flag} is {variable}"))
            .collect();
        if of_variables.is_empty() {
            return message;
        }
        format!("{message} ({}, of the environment)", of_variables.join(", "))
    }
}

/// An error's words with variables in place of flags that nobody typed.
pub(super) fn blamed(what: &str, command: &Command, is_typed: impl Fn(&Arg) -> bool) -> String {
    let mut what = what.to_owned();
    for arg in command.get_arguments().filter(|arg| !is_typed(arg)) {
        if let Some(variable) = variable_of(arg).filter(|variable| std::env::var_os(variable).is_some()) {
            what = what.replace(&format!("'{arg}'"), &format!("{variable} of the environment"));
        }
    }
    what
}

fn is_given(arg: &Arg, matches: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    matches.try_contains_id(id).unwrap_or(false)
        && matches.value_source(id) == Some(clap::parser::ValueSource::EnvVariable)
}

fn variable_of(arg: &Arg) -> Option<String> {
    arg.get_env().and_then(|name| name.to_str()).map(str::to_owned)
}

/// Every variable of every command.
fn known(definition: &Command) -> BTreeSet<String> {
    fn walk(command: &Command, all: &mut BTreeSet<String>) {
        all.extend(command.get_arguments().filter_map(variable_of));
        command.get_subcommands().for_each(|inner| walk(inner, all));
    }
    let mut all = BTreeSet::from([TOKEN_VARIABLE.to_owned()]);
    walk(definition, &mut all);
    all
}

fn unknown(set: impl Iterator<Item = String>, known: &BTreeSet<String>) -> Vec<String> {
    let ours = set.filter(|name| name.starts_with(PREFIX) && !name.starts_with(OF_TESTS) && !known.contains(name));
    let mut sentences: Vec<String> = ours
        .map(|name| {
            let nearest = known.iter().map(|known| (levenshtein(&name, known), known)).min();
            match nearest {
                Some((slips, known)) if slips <= SLIPS_MAX => {
                    format!("the variable {name} is not known and has no effect: did you mean {known}?")
                }
                _ => format!("the variable {name} is not known and has no effect: each is {PREFIX} and a flag's name"),
            }
        })
        .collect();
    sentences.sort();
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_none_where_none_is_near() {
        let known = known(&super::super::definition());
        let said = |name: &str| unknown([name.to_owned()].into_iter(), &known);
        assert_eq!(
            said("PLIMSOLL_CONECTIONS"),
            ["the variable PLIMSOLL_CONECTIONS is not known and has no effect: did you mean PLIMSOLL_CONNECTIONS?"]
        );
        assert!(said("PLIMSOLL_ZZZZZZZZZZ")[0].ends_with("each is PLIMSOLL_ and a flag's name"));
        for name in ["PLIMSOLL_CONNECTIONS", "PLIMSOLL_TOKEN", "PLIMSOLL_TEST_NO_SKIP", "PATH"] {
            assert_eq!(said(name), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_message_names_the_variable_that_a_flag_stands_for() {
        let given = [("-c", "PLIMSOLL_CONNECTIONS"), ("--connections", "PLIMSOLL_CONNECTIONS")];
        let given = given.map(|(flag, variable)| (flag.to_owned(), variable.to_owned())).to_vec();
        let environment = Environment { given, unknown: Vec::new() };
        let named = |message: &str| environment.named(message.to_owned());
        assert_eq!(named("-c: expected 1"), "-c: expected 1 (-c is PLIMSOLL_CONNECTIONS, of the environment)");
        assert_eq!(named("--connections-max: no"), "--connections-max: no");
    }
}
