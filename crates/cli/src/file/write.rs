//! The scenario file of a command line, for `plimsoll run --from`: what was typed, and nothing that is a default.
//!
//! A secret is not written: a reference to a variable stands in its place, and the variables are told. Reading the file
//! with them set gives the same scenario (a property test in `tests`).

use super::keys::{Key, Keys, Shape, URL};
use super::reference;
use crate::args::{self, load::LoadArgs};
use crate::exit::Failure;
use clap::ArgMatches;
use clap::parser::ValueSource;
use model::hide;
use std::fmt::Write as _;

/// A file, and the variables it refers to.
#[derive(Debug)]
pub struct Written {
    /// The file's text.
    pub text: String,
    /// Variables that have to be set, with what they stood for.
    pub variables: Vec<(String, String)>,
}

/// The file of a command line, `load …` or `plimsoll load …`, as a shell takes it apart.
///
/// # Errors
/// It is none of `load`.
pub fn from_line(line: &str) -> Result<Written, Failure> {
    let words = shlex::split(line).ok_or_else(|| {
        Failure::usage("--from: expected a command line, but a quotation mark in it has no end: close it")
    })?;
    let words = match &words[..] {
        [plimsoll, load, rest @ ..] if plimsoll == "plimsoll" && load == "load" => rest,
        [load, rest @ ..] if load == "load" => rest,
        _ => return Err(Failure::usage("--from: expected a command line of load, such as 'load http://HOST/ -c 100'")),
    };
    from_words(words)
}

/// The file of words behind `load`.
fn from_words(words: &[String]) -> Result<Written, Failure> {
    let matches = args::typed_to_load(words)?;
    let load = args::load_of(words.iter().cloned())?;
    let keys = Keys::new();
    let mut writing = Writing { matches: &matches, secrets: secrets(&load), variables: Vec::new() };
    let (mut run, mut of_load) = (String::new(), String::new());
    for key in keys.all() {
        if let Some(value) = writing.value(key) {
            let part = if key.is_of_run { &mut run } else { &mut of_load };
            // Writing to a text does not fail.
            let _ = writeln!(part, "{} = {value}", key.name);
        }
    }
    let variables = writing.variables;
    let mut text = String::new();
    if !variables.is_empty() {
        let names: Vec<&str> = variables.iter().map(|(name, _)| &**name).collect();
        let _ = writeln!(text, "# Secrets are not written here; set in the environment: {}", names.join(", "));
    }
    text += &run;
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = write!(text, "[load]\n{of_load}");
    Ok(Written { text, variables })
}

/// Values that are or hold a secret.
fn secrets(load: &LoadArgs) -> Vec<(String, String)> {
    let of_flags = args::protocols::secrets(&load.protocols).into_iter();
    let of_flags = of_flags.filter(|flag| flag.shown != flag.written).map(|flag| (flag.long.to_owned(), flag.written));
    let urls = load.place.url.iter().filter(|url| hide::url(url) != **url);
    let canary = load.canary.canary.iter().filter(|url| hide::url(url) != **url);
    let of_urls = urls.map(|url| (URL.to_owned(), url.clone()));
    of_flags.chain(of_urls).chain(canary.map(|url| ("canary".to_owned(), url.clone()))).collect()
}

struct Writing<'a> {
    matches: &'a ArgMatches,
    /// Each with its key.
    secrets: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Writing<'_> {
    /// The value of a key as TOML; `None`: it was not typed.
    fn value(&mut self, key: &Key) -> Option<String> {
        if self.matches.value_source(&key.id) != Some(ValueSource::CommandLine) {
            return None;
        }
        if key.shape == Shape::Switch {
            return Some("true".to_owned());
        }
        let raw = self.matches.get_raw(&key.id)?;
        let texts: Vec<String> = raw.map(|word| word.to_string_lossy().into_owned()).collect();
        let values: Vec<String> = texts.iter().map(|text| self.text(key, text)).collect();
        Some(match &values[..] {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        })
    }

    fn text(&mut self, key: &Key, text: &str) -> String {
        let is_secret = self.secrets.iter().any(|(name, written)| *name == key.name && written == text);
        // What would be read as a reference must not be one.
        if !is_secret && reference::filled_in(text, &|_| None).is_ok() {
            return value(text);
        }
        match text.split_once(": ").filter(|_| key.name == "header") {
            Some((field, secret)) => {
                let variable = self.variable(field, secret);
                value(&format!("{field}: {}", reference::to(&variable)))
            }
            None => {
                let variable = self.variable(&key.name, text);
                value(&reference::to(&variable))
            }
        }
    }

    /// A variable of its own for a secret.
    fn variable(&mut self, of: &str, secret: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let base: String = "SECRET_".chars().chain(of.chars().map(plain)).collect();
        let numbered = (1..).map(|n| if n == 1 { base.clone() } else { format!("{base}_{n}") });
        let is_free = |name: &String| self.variables.iter().all(|(known, value)| known != name || value == secret);
        let name = numbered.into_iter().find(is_free).unwrap_or_default();
        if self.variables.iter().all(|(known, _)| *known != name) {
            self.variables.push((name.clone(), secret.to_owned()));
        }
        name
    }
}

/// A text as a value: a number where it is one as people write it.
fn value(text: &str) -> String {
    let is_number = text.len() <= 18
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && !text.is_empty()
        && (text == "0" || !text.starts_with('0'));
    if is_number { text.to_owned() } else { toml::Value::String(text.to_owned()).to_string() }
}
