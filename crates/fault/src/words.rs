//! A fault's arguments, word by word: what was expected is said with what came.

use crate::error::BadArgument;
use crate::faults::Kind;
use crate::process::{Who, Whom};

/// The words behind a fault's name, taken one after the other.
#[derive(Debug)]
pub struct Words<'a> {
    kind: &'a Kind,
    words: std::collections::VecDeque<String>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(kind: &'a Kind, words: &[String]) -> Self {
        Words { kind, words: words.iter().cloned().collect() }
    }

    /// That something else was expected here.
    pub(crate) fn bad(&self, expected: &str, got: Option<&str>) -> BadArgument {
        BadArgument::Argument {
            fault: self.kind.name,
            expected: expected.to_owned(),
            got: got.map_or("nothing".to_owned(), |got| format!("'{}'", got.escape_debug())),
            takes: format!("{} {}", self.kind.name, self.kind.takes).trim_end().to_owned(),
        }
    }

    /// The next word.
    pub(crate) fn next(&mut self, expected: &str) -> Result<String, BadArgument> {
        self.words.pop_front().ok_or_else(|| self.bad(expected, None))
    }

    /// The next word, as `parse` understands it.
    pub(crate) fn parsed<T>(
        &mut self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, BadArgument> {
        let word = self.next(expected)?;
        parse(&word).ok_or_else(|| self.bad(expected, Some(&word)))
    }

    /// The next word, where it is there and is this one.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let is_it = self.words.front().is_some_and(|next| next == word);
        if is_it {
            self.words.pop_front();
        }
        is_it
    }

    /// The next word, which stays.
    pub(crate) fn peek(&self) -> Option<&str> {
        self.words.front().map(String::as_str)
    }

    /// Whether another word is there.
    pub(crate) fn has_more(&self) -> bool {
        !self.words.is_empty()
    }

    /// `1234`, `pid:1234`, `port:8080` or `target`; `tree:` before it for all that descends from them.
    pub(crate) fn who(&mut self) -> Result<Who, BadArgument> {
        const EXPECTED: &str = "a process's id, port:PORT or target (tree: before it for its descendants, too)";
        self.parsed(EXPECTED, |word| {
            let (with_tree, word) = word.strip_prefix("tree:").map_or((false, word), |rest| (true, rest));
            let whom = match (word, word.strip_prefix("port:")) {
                ("target", _) => Whom::Target,
                (_, Some(port)) => Whom::Port(port.parse().ok().filter(|port| *port > 0)?),
                (_, None) => Whom::Pid(word.strip_prefix("pid:").unwrap_or(word).parse().ok()?),
            };
            Some(Who { whom, with_tree })
        })
    }

    /// `HOST:PORT`, not looked up.
    pub(crate) fn address(&mut self) -> Result<String, BadArgument> {
        self.parsed("the server's HOST:PORT", |word| {
            let (host, port) = word.rsplit_once(':')?;
            (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| word.to_owned())
        })
    }

    /// That no word is left.
    pub(crate) fn end(&mut self) -> Result<(), BadArgument> {
        match self.words.pop_front() {
            None => Ok(()),
            Some(word) => Err(self.bad("nothing more", Some(&word))),
        }
    }
}
