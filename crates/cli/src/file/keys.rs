//! The keys of scenario files: the flags of `load`, by their long names, read from the one definition of the command line.
//!
//! So a flag that is added to `load` is a key of files too, with the same units, the same errors and the same default. A
//! switch is `true` or `false`; a flag that may be repeated takes a list. What belongs to the whole run and not to one load
//! (results, and where the target is observed) stands at the top of a file, the rest under `[load]`.

use super::place::Place;
use crate::args;
use crate::exit::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use std::error::Error as _;
use strsim::levenshtein;

/// The most letters that a slip of the keyboard changes.
const SLIPS_MAX: usize = 3;
/// Groups of flags that are the whole run's.
const OF_RUN: &[&str] =
    &["Results", "Target on another machine", "Faults (undone when their time or the load is over)"];
/// Flags that only make sense where they are typed.
const TYPED_ONLY: &[&str] = &["help", "version", "explain", "tls_matrix"];

/// What may stand behind a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`; the flag has no value.
    Switch,
    /// `"on"`, `"off"`, `true` or `false`.
    OnOff,
    /// One text or number.
    One,
    /// One, or a list.
    Many,
}

/// A key that is a flag of `load`.
#[derive(Debug, Clone)]
pub struct Key {
    /// As it is written in a file: the flag's long name; `url` for URLs.
    pub name: String,
    /// clap's id of the flag.
    pub id: String,
    /// The flag's letter.
    pub short: Option<char>,
    /// What may stand behind it.
    pub shape: Shape,
    /// Whether it is the whole run's, and not one load's.
    pub is_of_run: bool,
    /// The flag's help.
    pub about: String,
    /// The only values there are; empty: others, too.
    pub values: Vec<String>,
}

/// The name of the key of URLs, which have no flag.
pub const URL: &str = "url";

/// Every key, and the definition their values are checked by.
pub struct Keys {
    all: Vec<Key>,
    /// `load` without the environment.
    load: Command,
}

impl Keys {
    /// All keys of this version.
    pub fn new() -> Self {
        let load = args::load_definition();
        let all = load.get_arguments().filter(|arg| !TYPED_ONLY.contains(&arg.get_id().as_str())).map(key).collect();
        Keys { all, load }
    }

    /// Every key, in the order of the help.
    pub fn all(&self) -> &[Key] {
        &self.all
    }

    /// The key of this name.
    pub fn named(&self, name: &str) -> Option<&Key> {
        self.all.iter().find(|key| key.name == name)
    }

    /// Checks one argument, written as for the shell, by itself.
    ///
    /// # Errors
    /// What was expected, as half a sentence.
    pub fn check(&self, word: &str) -> Result<(), String> {
        let Err(error) = self.load.clone().try_get_matches_from(["load", word]) else { return Ok(()) };
        let expected = match error.kind() {
            ErrorKind::ValueValidation => error.source().map(ToString::to_string),
            ErrorKind::InvalidValue => match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) => Some(format!("expected one of {}", values.join(", "))),
                _ => None,
            },
            _ => None,
        };
        Err(expected.unwrap_or_else(|| "expected a value that this key can have".to_owned()))
    }
}

fn key(arg: &Arg) -> Key {
    let values = arg.get_possible_values();
    let is_on_off = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "on|off"));
    let shape = match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => Shape::Switch,
        ArgAction::Append => Shape::Many,
        _ if is_on_off => Shape::OnOff,
        _ => Shape::One,
    };
    Key {
        name: arg.get_long().unwrap_or(URL).to_owned(),
        id: arg.get_id().to_string(),
        short: arg.get_short(),
        shape,
        is_of_run: arg.get_help_heading().is_some_and(|heading| OF_RUN.contains(&heading)),
        about: arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default(),
        values: match shape {
            Shape::Switch => Vec::new(),
            _ => values.iter().map(|value| value.get_name().to_owned()).collect(),
        },
    }
}

/// Says of a key that nobody knows which one may have been meant.
pub fn unknown<'a>(got: &str, place: &Place, known: impl Iterator<Item = &'a str> + Clone) -> Failure {
    // Who writes with underscores means the same word.
    let dashed = got.replace('_', "-");
    let nearest = known.clone().map(|name| (levenshtein(&dashed, name), name)).min();
    let got = got.escape_debug();
    match nearest {
        // Of a short word little is left that two slips have not changed.
        Some((slips, name)) if slips <= SLIPS_MAX && slips < name.len().max(2) - 1 => {
            place.wrong(format!("the key '{got}' is not known: did you mean '{name}'?"))
        }
        _ if known.clone().count() <= 12 => place
            .wrong(format!("the key '{got}' is not known: expected one of {}", known.collect::<Vec<_>>().join(", "))),
        _ => place
            .wrong(format!("the key '{got}' is not known: each is a flag's long name (see 'plimsoll load --help')")),
    }
}
