//! Arguments of `load` and `watch` about a target on another machine: where it is observed, and who may ask.
//!
//! The token comes from a file or the environment: on a command line everybody on the machine could read it.

use super::values;
use crate::exit::Failure;
use agents::{Nats, observers};
use clap::Args;
use model::bpf::Level;
use remote::{Fingerprint, ObserveAt, Token, Trust};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable a token may stand in.
pub const TOKEN_VARIABLE: &str = "PLIMSOLL_TOKEN";
/// Bytes of a token's file that are read.
const FILE_BYTES_MAX: u64 = 4096;

/// Where the target is observed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Target on another machine")]
pub struct RemoteArgs {
    /// Observe the target where it runs: the address of `plimsoll watch --serve` there, or nats:NAME where it is reached over NATS (--nats) [default: observe it on this machine]
    #[arg(long, value_name = "HOST:PORT", env = "PLIMSOLL_OBSERVE_AT")]
    pub observe_at: Option<String>,
    /// Observe a machine behind the target too, which the target asks: the address of `plimsoll watch --serve` there, with =PORT of what listens there on it; may be repeated [default: none]
    #[arg(long, value_name = "HOST:PORT[=PORT]", env = "PLIMSOLL_BEHIND", value_delimiter = ',', value_parser = behind)]
    pub behind: Vec<BehindArg>,
    /// Who answers there.
    #[command(flatten)]
    pub link: LinkArgs,
}

/// How one knows who is at the other end.
#[derive(Debug, Args)]
pub struct LinkArgs {
    /// File with the token that both sides share [default: the variable PLIMSOLL_TOKEN]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Take the observer's certificate with this SHA-256 only [default: any, as the token proves who it is]
    #[arg(long, value_name = "HEX", env = "PLIMSOLL_OBSERVE_FINGERPRINT", value_parser = fingerprint, conflicts_with = "observe_ca")]
    pub observe_fingerprint: Option<Fingerprint>,
    /// Take the observer's certificate only if it is for its host's name and from an authority of this file (PEM) [default: any, as the token proves who it is]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_OBSERVE_CA")]
    pub observe_ca: Option<PathBuf>,
    /// How long the observer is tried again before the run where it cannot be reached, closes the connection or is busy; 0s: it is tried once
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_OBSERVE_WAIT", default_value = "5s", value_parser = values::duration_ns)]
    pub observe_wait: u64,
}

/// A machine behind the target: its observer's address, and the port that is looked at there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BehindArg {
    /// `HOST:PORT`, or `nats:NAME`.
    pub observer: String,
    /// `None`: whatever the observer was started for.
    pub port: Option<u16>,
}

fn behind(text: &str) -> Result<BehindArg, String> {
    let expected =
        || format!("expected an observer's address, HOST:PORT or nats:NAME, with =PORT if wanted, got '{text}'");
    let (observer, port) = match text.split_once('=') {
        Some((observer, port)) => {
            (observer, Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(expected)?))
        }
        None => (text, None),
    };
    if observer.contains(':') { Ok(BehindArg { observer: observer.to_owned(), port }) } else { Err(expected()) }
}

fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    Fingerprint::parse(text).ok_or_else(|| "expected 64 hex digits, as `plimsoll watch --serve` prints them".to_owned())
}

impl LinkArgs {
    /// The observer at an address; where that is a name on NATS, `nats` says which, and a way there is opened.
    pub fn at(&self, address: &str, nats: impl FnOnce() -> Result<Nats, Failure>) -> Result<ObserveAt, Failure> {
        let Some(token) = self.token()? else {
            return Err(Failure::usage(format!(
                "expected the observer's token in the variable {TOKEN_VARIABLE} or a file (--token-file), got neither: \
                 `plimsoll watch --serve` prints the one it makes"
            )));
        };
        let trust = match (self.observe_fingerprint, &self.observe_ca) {
            (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
            (None, Some(path)) => Trust::Authority(path.clone()),
            (None, None) => Trust::Token,
        };
        let (wait, version) = (Duration::from_nanos(self.observe_wait), env!("CARGO_PKG_VERSION").to_owned());
        let via = match observers::name_of(address) {
            Some(name) => Some(observers::open(&nats()?, name, wait)?),
            None => None,
        };
        Ok(ObserveAt { address: address.to_owned(), via, token, trust, wait, tell: None, version })
    }

    /// The same for agents, one of which goes there.
    pub fn of_agents(&self, address: &str, probes: Level) -> Result<agents::ObserveAt, Failure> {
        if self.observe_ca.is_some() {
            return Err(Failure::usage(
                "--observe-ca cannot be used with --agents, which have files of their own: name the certificate (--observe-fingerprint)",
            ));
        }
        let (address, wait_ns) = (address.to_owned(), self.observe_wait);
        let fingerprint = self.observe_fingerprint.map(|fingerprint| fingerprint.to_string());
        Ok(agents::ObserveAt { address, fingerprint, wait_ns, probes })
    }

    /// The token that was given, if one was.
    pub fn token(&self) -> Result<Option<Token>, Failure> {
        token_of(self.token_file.as_deref())
    }
}

/// The token of a file, or of the environment.
pub fn token_of(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let text = match (file, std::env::var_os(TOKEN_VARIABLE)) {
        (Some(path), _) => read(path)?,
        (None, Some(text)) => text.into_string().map_err(|_| not_text("the variable PLIMSOLL_TOKEN"))?,
        (None, None) => return Ok(None),
    };
    Token::parse(&text).map(Some).map_err(|error| Failure::usage(error.to_string()))
}

fn read(path: &Path) -> Result<String, Failure> {
    let cannot = |why: std::io::Error| {
        let shown = path.display();
        Failure::of_file(
            &why,
            format!("--token-file: expected a file that can be read, got '{shown}' ({why}): check its path"),
        )
    };
    let bytes = resolve::files::read(path, FILE_BYTES_MAX, crate::commands::tell).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|_| not_text(&format!("'{}'", path.display())))
}

fn not_text(what: &str) -> Failure {
    Failure::usage(format!("expected a token as text, but {what} is not UTF-8"))
}
