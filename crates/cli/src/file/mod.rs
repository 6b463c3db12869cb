//! Scenario files: TOML in which every flag of `load` is a key (`docs/scenarios.md`).
//!
//! A file is read into arguments, which go through the same definition as the command line: so flags win over the
//! environment, the environment over the file, the file over defaults, and no flag has a second description here. What is
//! wrong is said with its place, `FILE:LINE:COLUMN`, in one sentence. `env:NAME` in the place of a text is that variable of
//! the environment, so that no secret has to stand in a file.
//!
//! Not read here: what a text means, which is clap's and `resolve`'s to say. Costs some milliseconds before the run.

mod args;
pub mod canary;
mod fault;
mod keys;
mod phase;
mod place;
mod reference;
pub mod schema;
mod target;
mod vary;
pub mod write;

use canary::CanaryPart;
pub use keys::Keys;
use keys::{Key, Shape, URL};
pub use place::Place;
use place::Source;
use reference::Lookup;
use target::TargetPart;
use vary::{Texts, VARY, Vary};

pub use args::RunArgs;

use crate::args::load::LoadArgs;
use crate::exit::Failure;
use diagnose::repeats::REPEATS_MAX;
use model::phase::PhaseAsked;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest scenario file, bytes: one with a hundred thousand URLs is far smaller.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The table of a load.
const LOAD: &str = "load";
/// The table of the target.
const TARGET: &str = "target";
/// The tables of a load's phases.
const PHASE: &str = "phase";
/// The table of the canary, or the key of its URL.
const CANARY: &str = "canary";
/// The key that says how often all is run.
const REPEATS: &str = "repeats";
/// The key that makes a load the main one.
const MAIN: &str = "main";
/// The key of a load's own name.
const NAME: &str = "name";
/// A share among URLs.
const WEIGHT: &str = "weight";

/// A key with its value, as arguments.
#[derive(Debug, Clone)]
struct Given {
    key: Key,
    words: Vec<String>,
    place: Place,
}

/// A load of a file.
#[derive(Debug, Clone)]
pub struct LoadPart {
    /// Its name; of one that has none, what it is called all the same.
    pub name: Option<String>,
    /// Whether it is said to be the main one.
    pub is_main: bool,
    /// Where it begins.
    pub place: Place,
    given: Vec<Given>,
    /// The shares of its URLs, in their order.
    weights: Vec<f64>,
    phases: Vec<PhaseAsked>,
}

/// A variant of a file.
#[derive(Debug)]
pub struct Variant {
    /// Each axis of `[vary]` with its value's name; empty where nothing varies.
    pub values: Vec<(String, String)>,
    /// The file with those values in it.
    pub file: ScenarioFile,
}

/// A scenario file as it was read.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    /// Its loads, at least one.
    pub loads: Vec<LoadPart>,
    /// The target, where it is started for the run.
    pub target: Option<TargetPart>,
    /// The canary, where it is more than a URL.
    pub canary: Option<CanaryPart>,
    /// How often all is run; `None`: once.
    pub repeats: Option<u32>,
    run: Vec<Given>,
}

impl ScenarioFile {
    /// Reads a file: its variants, one where nothing varies.
    ///
    /// # Errors
    /// It cannot be read, or what is wrong in it, with its place.
    pub fn read(path: &Path) -> Result<Vec<Variant>, Failure> {
        let shown = path.display();
        let bytes = resolve::files::read(path, FILE_BYTES_MAX, crate::commands::tell).map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => Failure::usage(format!(
                "{shown}: expected a scenario file of at most {FILE_BYTES_MAX} bytes, but it {error}: name a smaller one"
            )),
            _ => Failure::of_file(
                &error,
                format!("expected a scenario file that can be read, got '{shown}' ({error}): check its path"),
            ),
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{shown}: expected a scenario file in UTF-8, got other bytes")))?;
        ScenarioFile::parse(&text, &shown.to_string(), &reference::environment)
    }

    fn parse(text: &str, name: &str, lookup: Lookup<'_>) -> Result<Vec<Variant>, Failure> {
        let source = Source { name, text };
        let table = DeTable::parse(text).map_err(|error| {
            let place = source.place(error.span().map_or(0, |span| span.start));
            // The parser's own words, without the line: it may have a secret in it.
            place.wrong(format!("expected TOML, but {}", error.message().replace('\n', ", ")))
        })?;
        let (keys, none) = (Keys::new(), Texts::default());
        let table = table.get_ref();
        let reader = Reader { source, keys: &keys, lookup, texts: &none };
        let vary = table.iter().find(|(name, _)| name.get_ref() == VARY).map(|(_, value)| Vary::read(&reader, value));
        let Some(vary) = vary.transpose()? else {
            return Ok(vec![Variant { values: Vec::new(), file: reader.file(table)? }]);
        };
        let mut variants = Vec::new();
        for combination in vary.combinations() {
            let file = Reader { texts: &combination.texts, ..reader }.file(table)?;
            vary.refuse_unused(&combination.texts)?;
            variants.push(Variant { values: combination.values, file });
        }
        Ok(variants)
    }

    /// The arguments of one of its loads, with what was typed behind the file's name, which wins.
    ///
    /// # Errors
    /// They contradict each other, or cannot be read.
    pub fn arguments(&self, load: &LoadPart, typed: &[String]) -> Result<LoadArgs, Failure> {
        let (typed_or_set, environment) = crate::args::given_to_load(typed)?;
        let given = self.run.iter().chain(&load.given);
        let kept = given.filter(|given| !crate::args::load::is_overruled(&given.key.id, &typed_or_set));
        let words: Vec<String> =
            kept.flat_map(|given| given.words.iter().cloned()).chain(typed.iter().cloned()).collect();
        crate::args::load_of(words).map_err(|failure| self.placed(load, failure.of(&environment)))
    }

    /// A failure that names flags, with the place of the first that stands in the file, and under the key's name there.
    pub fn placed(&self, load: &LoadPart, failure: Failure) -> Failure {
        let given: Vec<&Given> = self.run.iter().chain(&load.given).collect();
        failure.worded(|message| placed(&message, &given, &load.place))
    }

    /// Gives a scenario what a load says in the file and no flag could: the shares of its URLs, and phases; each where nothing
    /// that was typed or stands in the environment takes its place.
    pub fn complete(load: &LoadPart, args: &LoadArgs, scenario: &mut model::Scenario) {
        let of_file = load.given.iter().find(|given| given.key.name == URL);
        // Those that were typed win, and have no share.
        if of_file.is_some_and(|given| given.words == args.place.url) {
            scenario.urls.iter_mut().zip(&load.weights).for_each(|(url, weight)| url.weight = *weight);
        }
        let says_rate = |given: &Given| ["rate", "ramp", "steps"].contains(&&*given.key.name);
        // A rate of the file beside its phases is a mistake, which the plan says.
        if scenario.profile.is_empty() || load.given.iter().any(says_rate) {
            scenario.phases.clone_from(&load.phases);
        }
    }
}

/// A sentence about flags as one about keys of a file, with the place of the first.
fn placed(message: &str, given: &[&Given], load: &Place) -> String {
    let is_of_flag = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (mut shown, mut place) = (String::new(), None);
    let mut rest = message;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_flag(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let is_of_key = |given: &&&Given| {
            let key = &given.key;
            let is_letter = || key.short.is_some_and(|short| word.strip_prefix('-') == Some(&*short.to_string()));
            word.strip_prefix("--") == Some(&key.name) || is_letter() || (key.name == URL && word == "URL")
        };
        match given.iter().find(is_of_key) {
            Some(given) => {
                place.get_or_insert(&given.place);
                // `URL '…'` reads well as it stands.
                shown += if given.key.name == URL { word } else { &given.key.name };
            }
            None => shown += word,
        }
        let next = behind.find(is_of_flag).unwrap_or(behind.len());
        shown += &behind[..next];
        rest = &behind[next..];
    }
    format!("{}: {shown}", place.unwrap_or(load))
}

/// What reading needs all the time.
#[derive(Clone, Copy)]
struct Reader<'a> {
    source: Source<'a>,
    keys: &'a Keys,
    lookup: Lookup<'a>,
    /// What varies, as it is in this variant.
    texts: &'a Texts,
}

impl Reader<'_> {
    fn file(&self, table: &DeTable<'_>) -> Result<ScenarioFile, Failure> {
        let (mut run, mut loads, mut target) = (Vec::new(), None, None);
        let (mut canary, mut repeats) = (None, None);
        for (name, value) in table.iter() {
            let place = self.source.place(name.span().start);
            match (&**name.get_ref(), value.get_ref()) {
                (LOAD, DeValue::Table(table)) => loads = Some(vec![self.load(table, &place)?]),
                (LOAD, DeValue::Array(list)) => loads = Some(self.loads(list)?),
                (LOAD, other) => {
                    return Err(place.wrong(format!("load: expected a table [load], got {}", kind(other))));
                }
                (TARGET, DeValue::Table(table)) => target = Some(TargetPart::read(self, table, &place)?),
                (CANARY, DeValue::Table(table)) => canary = Some(CanaryPart::read(self, table, &place)?),
                (VARY, _) => {}
                (REPEATS, _) => repeats = Some(self.repeats(value)?),
                (TARGET, other) => {
                    return Err(place.wrong(format!("target: expected a table [target], got {}", kind(other))));
                }
                (name, DeValue::Array(list)) if name == fault::FAULT && list.iter().any(is_table) => {
                    let key = self.keys.named(name).ok_or_else(|| place.wrong("fault: expected no such key"))?;
                    run.push(fault::read(self, key, place, list)?);
                }
                (name, _) => match self.keys.named(name) {
                    Some(key) if key.is_of_run => run.push(self.given(key, place, value)?),
                    Some(_) => return Err(place.wrong(format!("'{name}' is a load's: write it below [load]"))),
                    None => {
                        let of_run = self.keys.all().iter().filter(|key| key.is_of_run).map(|key| &*key.name);
                        return Err(keys::unknown(
                            name,
                            &place,
                            [LOAD, TARGET, REPEATS, VARY].into_iter().chain(of_run),
                        ));
                    }
                },
            }
        }
        let loads = loads.filter(|loads| !loads.is_empty()).ok_or_else(|| {
            self.source
                .place(0)
                .wrong("expected a load, got none: write [load], and below it url = \"http://HOST:PORT/\"")
        })?;
        Ok(ScenarioFile { loads: in_order(loads)?, target, canary, repeats, run })
    }

    fn loads(&self, list: &[Spanned<DeValue<'_>>]) -> Result<Vec<LoadPart>, Failure> {
        let one = |value: &Spanned<DeValue<'_>>| {
            let place = self.source.place(value.span().start);
            match value.get_ref() {
                DeValue::Table(table) => self.load(table, &place),
                other => Err(place.wrong(format!("load: expected a table [[load]], got {}", kind(other)))),
            }
        };
        list.iter().map(one).collect()
    }

    fn load(&self, table: &DeTable<'_>, place: &Place) -> Result<LoadPart, Failure> {
        self.load_without(table, place, &[])
    }

    /// A load's table, without keys that were read by others.
    fn load_without(&self, table: &DeTable<'_>, place: &Place, without: &[&str]) -> Result<LoadPart, Failure> {
        let mut load = LoadPart {
            name: None,
            is_main: false,
            place: place.clone(),
            given: Vec::new(),
            weights: Vec::new(),
            phases: Vec::new(),
        };
        for (name, value) in table.iter() {
            let place = self.source.place(name.span().start);
            match &**name.get_ref() {
                name if without.contains(&name) => {}
                MAIN => match value.get_ref() {
                    DeValue::Boolean(is_main) => load.is_main = *is_main,
                    other => return Err(place.wrong(format!("main: expected true or false, got {}", kind(other)))),
                },
                PHASE => load.phases = phase::read(self, value)?,
                NAME => load.name = Some(self.text(NAME, value)?.0),
                name => match self.keys.named(name) {
                    Some(key) if key.is_of_run => {
                        return Err(place.wrong(format!("'{name}' is the whole run's: write it above [load]")));
                    }
                    Some(key) if key.name == URL => {
                        let (given, weights) = self.urls(key, place, value)?;
                        load.given.push(given);
                        load.weights = weights;
                    }
                    Some(key) => load.given.push(self.given(key, place, value)?),
                    None => {
                        let of_load = self.keys.all().iter().filter(|key| !key.is_of_run).map(|key| &*key.name);
                        return Err(keys::unknown(name, &place, [NAME, MAIN, PHASE].into_iter().chain(of_load)));
                    }
                },
            }
        }
        Ok(load)
    }

    fn repeats(&self, value: &Spanned<DeValue<'_>>) -> Result<u32, Failure> {
        let (text, place) = self.text(REPEATS, value)?;
        let number = text.parse::<u32>().ok().filter(|number| (1..=REPEATS_MAX).contains(number));
        let wrong = || format!("repeats: expected a number from 1 to {REPEATS_MAX}, got '{}'", text.escape_debug());
        number.ok_or_else(|| place.wrong(wrong()))
    }

    /// URLs: one, or a list, each a text or a table with its share.
    fn urls(&self, key: &Key, place: Place, value: &Spanned<DeValue<'_>>) -> Result<(Given, Vec<f64>), Failure> {
        let all = match value.get_ref() {
            DeValue::Array(list) => list.iter().collect(),
            _ => vec![value],
        };
        let (mut words, mut weights) = (Vec::new(), Vec::new());
        for one in all {
            let (url, weight) = match one.get_ref() {
                DeValue::Table(table) => self.weighted(table, one.span().start)?,
                _ => (self.text(URL, one)?.0, 1.0),
            };
            if url.starts_with('-') {
                let place = self.source.place(one.span().start);
                return Err(place.wrong("url: expected a URL such as http://127.0.0.1:8080/, got a flag"));
            }
            words.push(url);
            weights.push(weight);
        }
        Ok((Given { key: key.clone(), words, place }, weights))
    }

    fn weighted(&self, table: &DeTable<'_>, start: usize) -> Result<(String, f64), Failure> {
        let (mut url, mut weight) = (None, 1.0);
        for (name, value) in table.iter() {
            let place = self.source.place(name.span().start);
            match &**name.get_ref() {
                URL => url = Some(self.text(URL, value)?.0),
                WEIGHT => {
                    let (text, place) = self.text(WEIGHT, value)?;
                    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
                    weight = number
                        .ok_or_else(|| place.wrong(format!("weight: expected a number above 0, got '{text}'")))?;
                }
                other => return Err(keys::unknown(other, &place, [URL, WEIGHT].into_iter())),
            }
        }
        let missing =
            || self.source.place(start).wrong("url: expected a table such as { url = \"http://…/\", weight = 3 }");
        Ok((url.ok_or_else(missing)?, weight))
    }

    /// A flag's key as arguments, each checked by itself.
    fn given(&self, key: &Key, place: Place, value: &Spanned<DeValue<'_>>) -> Result<Given, Failure> {
        let flag = format!("--{}", key.name);
        let given = |words| Given { key: key.clone(), words, place };
        let varied = value.get_ref().as_str().map(|text| (text, self.texts.filled_in(text)));
        match varied.filter(|(text, varied)| text != varied) {
            Some((_, varied)) if varied.is_empty() => return Ok(given(Vec::new())),
            Some((_, varied)) if key.shape == Shape::Switch => match &*varied {
                "true" => return Ok(given(vec![flag])),
                "false" => return Ok(given(Vec::new())),
                _ => {}
            },
            _ => {}
        }
        let all: Vec<&Spanned<DeValue<'_>>> = match (key.shape, value.get_ref()) {
            (Shape::Switch, DeValue::Boolean(is_on)) => return Ok(given(if *is_on { vec![flag] } else { Vec::new() })),
            (Shape::Switch, other) => {
                let place = self.source.place(value.span().start);
                return Err(place.wrong(format!("{}: expected true or false, got {}", key.name, kind(other))));
            }
            (Shape::OnOff, DeValue::Boolean(is_on)) => {
                return Ok(given(vec![format!("{flag}={}", if *is_on { "on" } else { "off" })]));
            }
            (Shape::Many, DeValue::Array(list)) => list.iter().collect(),
            _ => vec![value],
        };
        let mut words = Vec::new();
        for one in all {
            let (text, place) = self.text(&key.name, one)?;
            let word = format!("{flag}={text}");
            if let Err(expected) = self.keys.check(&word) {
                // What was written, and not the variable of the environment it stands for.
                let got = one.get_ref().as_str().map_or(text, |written| self.texts.filled_in(written));
                return Err(place.wrong(format!("{}: {expected}, got '{}'", key.name, got.escape_debug())));
            }
            words.push(word);
        }
        Ok(given(words))
    }

    /// A text or a number as a text, with the variables it stands for.
    fn text(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<(String, Place), Failure> {
        let place = self.source.place(value.span().start);
        let text = match value.get_ref() {
            DeValue::String(text) => reference::filled_in(&self.texts.filled_in(text), self.lookup)
                .map_err(|sentence| place.wrong(format!("{name}: {sentence}")))?,
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            other => return Err(place.wrong(format!("{name}: expected a text or a number, got {}", kind(other)))),
        };
        Ok((text, place))
    }
}

fn is_table(value: &Spanned<DeValue<'_>>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

/// The main load first: the one that is said to be, else the first. Names are told apart.
fn in_order(mut loads: Vec<LoadPart>) -> Result<Vec<LoadPart>, Failure> {
    let said: Vec<usize> = (0..loads.len()).filter(|at| loads[*at].is_main).collect();
    if let [_, second, ..] = said[..] {
        return Err(loads[second].place.wrong("main: expected one main load, got another: leave it out here"));
    }
    let is_alone = loads.len() == 1;
    for at in 0..loads.len() {
        let name = loads[at]
            .name
            .clone()
            .unwrap_or_else(|| if is_alone { LOAD.to_owned() } else { format!("load-{}", at + 1) });
        let is_taken = name == CANARY || loads[..at].iter().any(|other| other.name.as_ref() == Some(&name));
        if is_taken || name.trim().is_empty() {
            let shown = name.escape_debug();
            return Err(loads[at].place.wrong(format!("name: expected one that no other load has, got '{shown}'")));
        }
        loads[at].name = Some(name);
    }
    if let [main] = said[..] {
        let main = loads.remove(main);
        loads.insert(0, main);
    }
    Ok(loads)
}

/// What a value is, in words.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(number) if number.radix() != 10 => "a number that is not decimal",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(true) => "true",
        DeValue::Boolean(false) => "false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests;
