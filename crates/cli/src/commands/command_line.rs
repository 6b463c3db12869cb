//! The command line as it goes into recordings: what was asked for, without the secrets in it.
//!
//! Secrets are looked for by what the arguments came to, not by the shape of words: `-kuNAME:PASSWORD` has one, too.

use crate::args::compare::ab::SidesArgs;
use crate::args::load::LoadArgs;
use crate::args::protocols;
use model::hide;

/// The words as they were written; of a command that takes no secret.
pub fn whole() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The words of `load`: credentials, header fields, bodies, URLs and mixes as [`hide`] shows them.
pub fn of_load(args: &LoadArgs) -> Vec<String> {
    hidden(whole(), &secrets(args))
}

/// The words of `ab`: those of its load, and what is of either side.
pub fn of_ab(sides: &SidesArgs, load: &LoadArgs, loads: &[LoadArgs; 2]) -> Vec<String> {
    hidden(whole(), &secrets_of_ab(sides, load, loads))
}

fn secrets_of_ab(sides: &SidesArgs, load: &LoadArgs, loads: &[LoadArgs; 2]) -> Vec<Written> {
    let mut found = secrets(load);
    for (flag, url) in [("a", &sides.a), ("b", &sides.b)] {
        if url.contains("://") {
            found.push(Written { flag: Some((None, flag)), written: url.clone(), shown: hide::url(url) });
        }
    }
    for (flag, more, load) in [("a-flags", &sides.a_flags, &loads[0]), ("b-flags", &sides.b_flags, &loads[1])] {
        let Some((more, words)) = more.as_ref().and_then(|more| Some((more, shlex::split(more)?))) else { continue };
        let shown = hidden(words, &secrets(load));
        let shown = shlex::try_join(shown.iter().map(String::as_str)).unwrap_or_else(|_| "***".to_owned());
        found.push(Written { flag: Some((None, flag)), written: more.clone(), shown });
    }
    found
}

/// An argument that may be or hold a secret.
struct Written {
    /// Its flag: the letter and the word; `None` where it stands by itself.
    flag: Option<(Option<char>, &'static str)>,
    written: String,
    shown: String,
}

fn secrets(args: &LoadArgs) -> Vec<Written> {
    let mut found = Vec::new();
    let mut add = |flag, written: &str, shown: String| found.push(Written { flag, written: written.to_owned(), shown });
    for url in &args.place.url {
        add(None, url, hide::url(url));
    }
    if let Some(url) = &args.canary.canary {
        add(Some((None, "canary")), url, hide::url(url));
    }
    if let Some(url) = &args.by_agents.nats {
        let shown: Vec<String> = url.split(',').map(hide::url).collect();
        add(Some((None, "nats")), url, shown.join(","));
    }
    for flag in protocols::secrets(&args.protocols) {
        add(Some((flag.short, flag.long)), &flag.written, flag.shown);
    }
    found
}

fn hidden(words: Vec<String>, secrets: &[Written]) -> Vec<String> {
    let mut before = String::new();
    let one = |word: String| {
        let shown = secrets.iter().find_map(|secret| secret.in_word(&before, &word)).unwrap_or_else(|| word.clone());
        before = word;
        shown
    };
    words.into_iter().map(one).collect()
}

impl Written {
    /// The word without it, where it is in it.
    fn in_word(&self, before: &str, word: &str) -> Option<String> {
        let Some((letter, long)) = self.flag else { return (word == self.written).then(|| self.shown.clone()) };
        let is_short = |text: &str| {
            let is_group = text.starts_with('-') && !text.starts_with("--");
            is_group && letter.is_some_and(|letter| text.ends_with(letter))
        };
        let flag = word.strip_suffix(&*self.written)?;
        let is_here = match flag {
            "" => before == format!("--{long}") || is_short(before),
            flag => flag == format!("--{long}=") || is_short(flag.strip_suffix('=').unwrap_or(flag)),
        };
        is_here.then(|| format!("{flag}{}", self.shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, Parsed, parse};
    use std::ffi::OsString;

    #[track_caller]
    fn check(written: &[&str], shown: &[&str]) {
        let words: Vec<String> = ["plimsoll", "load"].iter().chain(written).map(|word| (*word).to_owned()).collect();
        let Ok(Parsed { command: Command::Load(args), .. }) = parse(words.iter().map(OsString::from)) else {
            panic!("{written:?}")
        };
        assert_eq!(hidden(words, &secrets(&args))[2..], *shown);
    }

    #[test]
    fn secrets_of_either_side_are_hidden() {
        let words =
            ["plimsoll", "ab", "--a", "http://a:b@h/", "--b=http://h/?token=x", "--b-flags", "-H 'Cookie: c' -c 8"];
        let words = words.map(str::to_owned).to_vec();
        let Ok(Parsed { command: Command::Ab(args), .. }) = parse(words.iter().map(OsString::from)) else { panic!() };
        let secrets = secrets_of_ab(&args.sides, &args.load, args.loads.as_ref().unwrap());
        let shown = ["--a", "http://***@h/", "--b=http://h/?token=***", "--b-flags", "-H 'Cookie: ***' -c 8"];
        assert_eq!(hidden(words, &secrets)[2..], shown);
    }

    #[test]
    fn secrets_are_hidden_however_they_were_given() {
        check(&["-u", "a:b", "http://h/"], &["-u", "***", "http://h/"]);
        check(&["-ua:b", "http://h/"], &["-u***", "http://h/"]);
        check(&["--user=a:b", "http://h/"], &["--user=***", "http://h/"]);
        check(&["-qkua:b", "https://h/"], &["-qku***", "https://h/"]);
        check(&["-qku", "a:b", "https://h/"], &["-qku", "***", "https://h/"]);
        check(&["http://a:b@h:1/x?token=y&z=1"], &["http://***@h:1/x?token=***&z=1"]);
        check(
            &["-HCookie: a", "--header=X-Any: b", "http://h/"],
            &["-HCookie: ***", "--header=X-Any: ***", "http://h/"],
        );
        check(
            &["-H", "Accept: a", "-H", "X-Auth-Token: b", "http://h/"],
            &["-H", "Accept: a", "-H", "X-Auth-Token: ***", "http://h/"],
        );
        check(&["--mix", "AUTH x=1,PING", "resp://h"], &["--mix", "AUTH ***=1,PING", "resp://h"]);
        check(&["-b", "password=x", "http://h/"], &["-b", "***", "http://h/"]);
        check(&["-b@file", "http://h/"], &["-b@file", "http://h/"]);
        check(&["--canary", "http://a:b@h/", "http://h/"], &["--canary", "http://***@h/", "http://h/"]);
        // What only looks like it stays.
        check(&["-c8", "-t", "8", "-b", "8", "http://h/"], &["-c8", "-t", "8", "-b", "***", "http://h/"]);
    }
}
