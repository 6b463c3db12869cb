//! `--option value` pairs, read by hand: a bare loop should not carry an argument parser.
//! Every option but those in [`FLAGS`] takes a value; a word the loop does not know is not refused here, because the
//! loops share most of theirs. Numbers are bounded so that no loop can run for ever.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest run a loop accepts, in seconds: one day.
pub const SECONDS_MAX: f64 = 86_400.0;
/// Most connections a client loop opens: one port range.
pub const CONNECTIONS_MAX: usize = 60_000;

/// Options without a value.
pub const FLAGS: &[&str] = &["epoll"];

/// What was wrong with the command line, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The options of one loop, by name without the dashes.
#[derive(Debug, Clone, Default)]
pub struct Args(BTreeMap<String, String>);

/// What every client loop needs to know.
#[derive(Debug, Clone)]
pub struct Client {
    /// The server: always a loopback address.
    pub addr: SocketAddr,
    /// Connections held at once.
    pub connections: usize,
    /// How long to go on, in seconds.
    pub seconds: f64,
    /// The request, ready to be sent.
    pub request: Vec<u8>,
}

impl Args {
    /// Reads `--name value` pairs.
    ///
    /// # Errors
    /// A word that is not an option, an option without a value, one given twice.
    pub fn parse(words: &[String]) -> Result<Self, UsageError> {
        let mut found = BTreeMap::new();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let name =
                word.strip_prefix("--").ok_or_else(|| UsageError(format!("expected an --option, got {word:?}")))?;
            let value = if FLAGS.contains(&name) {
                "true".to_owned()
            } else {
                rest.next().cloned().ok_or_else(|| UsageError(format!("--{name} needs a value")))?
            };
            if found.insert(name.to_owned(), value).is_some() {
                return Err(UsageError(format!("--{name} was given twice")));
            }
        }
        Ok(Self(found))
    }

    /// The value of an option, if it was given.
    ///
    /// # Errors
    /// A value that is not of the type asked for.
    pub fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>, UsageError> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| UsageError(format!("--{name}: {text:?} cannot be read")))
    }

    /// Whether a flag was given.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The value of an option that must be there.
    ///
    /// # Errors
    /// As [`Args::optional`], and a missing option.
    pub fn required<T: FromStr>(&self, name: &str) -> Result<T, UsageError> {
        self.optional(name)?.ok_or_else(|| UsageError(format!("--{name} is missing")))
    }

    /// A positive number of seconds, at most [`SECONDS_MAX`].
    ///
    /// # Errors
    /// Missing without a default, not a number, or out of bounds.
    pub fn seconds(&self, default: Option<f64>) -> Result<f64, UsageError> {
        let seconds = match (self.optional("seconds")?, default) {
            (Some(given), _) => given,
            (None, Some(default)) => default,
            (None, None) => self.required("seconds")?,
        };
        if seconds > 0.0 && seconds <= SECONDS_MAX {
            Ok(seconds)
        } else {
            Err(UsageError(format!("--seconds: {seconds} is not above 0 and at most {SECONDS_MAX}")))
        }
    }

    /// Where moments are to be written, and how many are kept at most, by `--stamps FILE --stamps-max N`; never more than `most`.
    ///
    /// # Errors
    /// A file without a number, or one that is none.
    pub fn stamps(&self, most: usize) -> Result<Option<(PathBuf, usize)>, UsageError> {
        match self.optional::<PathBuf>("stamps")? {
            None => Ok(None),
            Some(path) => Ok(Some((path, self.required::<usize>("stamps-max")?.min(most)))),
        }
    }

    /// The options all client loops share.
    ///
    /// # Errors
    /// Any of them missing or out of bounds; an address that is not loopback.
    pub fn client(&self) -> Result<Client, UsageError> {
        let addr: SocketAddr = self.required("addr")?;
        if !addr.ip().is_loopback() {
            return Err(UsageError(format!("--addr: {addr} is not a loopback address")));
        }
        let connections = self.optional("connections")?.unwrap_or(64);
        if connections == 0 || connections > CONNECTIONS_MAX {
            return Err(UsageError(format!("--connections: {connections} is not in 1..={CONNECTIONS_MAX}")));
        }
        let path: String = self.optional("path")?.unwrap_or_else(|| "/".to_owned());
        if !path.starts_with('/') || path.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err(UsageError(format!("--path: {path:?} is not a path")));
        }
        Ok(Client {
            addr,
            connections,
            seconds: self.seconds(None)?,
            request: format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n").into_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Args, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Args::parse(&words)
    }

    fn client_error(line: &str) -> String {
        args(line).and_then(|args| args.client()).map(|client| format!("accepted {client:?}")).unwrap_err().0
    }

    #[test]
    fn a_client_is_read() {
        let client = args("--addr 127.0.0.1:8080 --connections 7 --seconds 0.5 --path /x")
            .and_then(|args| args.client())
            .unwrap();
        assert_eq!(client.connections, 7);
        assert_eq!(client.request, b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n");
    }

    #[test]
    fn stamps_are_bounded() {
        let stamps = |line: &str| args(line).unwrap().stamps(10);
        assert_eq!(stamps("--seconds 1"), Ok(None));
        assert_eq!(stamps("--stamps x --stamps-max 7"), Ok(Some((PathBuf::from("x"), 7))));
        assert_eq!(stamps("--stamps x --stamps-max 11"), Ok(Some((PathBuf::from("x"), 10))));
        assert!(stamps("--stamps x").unwrap_err().0.contains("--stamps-max is missing"));
    }

    #[test]
    fn what_must_be_refused_is() {
        for (line, expected) in [
            ("--addr 10.0.0.1:80 --seconds 1", "not a loopback address"),
            ("--addr 127.0.0.1:80 --seconds 0", "not above 0"),
            ("--addr 127.0.0.1:80 --seconds NaN", "not above 0"),
            ("--addr 127.0.0.1:80 --seconds inf", "not above 0"),
            ("--addr 127.0.0.1:80", "--seconds is missing"),
            ("--addr [::1]:80 --seconds 1 --connections 0", "not in 1..="),
            ("--addr 127.0.0.1 --seconds 1", "cannot be read"),
            ("--addr", "needs a value"),
            ("addr 1", "expected an --option"),
            ("--seconds 1 --seconds 2", "given twice"),
            ("--addr 127.0.0.1:80 --seconds 1 --path x", "is not a path"),
        ] {
            let error = client_error(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
