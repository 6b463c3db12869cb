//! Flags of `load` that say something to some protocols only: the registry of their groups.
//!
//! A protocol is a file beside this one: a group of flags, whose names and help are clap's, and [`Flags`], what they come to.
//! Here it has a line each in [`ProtocolArgs`] and [`PROTOCOLS`]. The scheme of the URL says whose flags apply; a flag that
//! says nothing to that protocol would be silently without effect, and is refused.

mod echo;
mod hold;
mod hold_websocket;
mod http;
mod resp;
mod websocket;

use super::load::LoadArgs;
use crate::exit::Failure;
use crate::flags;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use model::workload::Asked as _;
use model::workload::What;
use model::workload::http::HttpAsked;
use model::{Secret, hide};

/// Each protocol's flags, in the order of the help.
#[derive(Debug, Args)]
pub struct ProtocolArgs {
    /// HTTP's.
    #[command(flatten)]
    pub http: http::HttpArgs,
    /// Echo's.
    #[command(flatten)]
    pub echo: echo::EchoArgs,
    /// RESP's.
    #[command(flatten)]
    pub resp: resp::RespArgs,
    /// WebSocket's.
    #[command(flatten)]
    pub websocket: websocket::WebSocketArgs,
    /// Those of held connections.
    #[command(flatten)]
    pub hold: hold::HoldArgs,
}

/// Every protocol, in the order in which sentences name them.
const PROTOCOLS: &[Flags] =
    &[http::FLAGS, echo::FLAGS, hold::FLAGS, resp::FLAGS, websocket::FLAGS, hold_websocket::FLAGS];

/// What the flags of a protocol come to.
struct Flags {
    /// The protocol's name in sentences; that of [`model::workload::Asked`].
    protocol: &'static str,
    /// Its group, as clap has it.
    own: fn(Command) -> Command,
    /// Ids of flags outside its group that say something to it, too.
    also: &'static [&'static str],
    /// What is asked by them.
    asked: fn(&LoadArgs) -> What,
    /// Those that may be or hold a secret, as they were written.
    secrets: fn(&ProtocolArgs) -> Vec<SecretFlag>,
}

/// A flag that may be or hold a secret.
pub struct SecretFlag {
    /// Its letter.
    pub short: Option<char>,
    /// Its word.
    pub long: &'static str,
    /// Its value as it was written.
    pub written: String,
    /// The same without secrets.
    pub shown: String,
}

impl Flags {
    /// Ids of all flags that say something to the protocol.
    fn ids(&self) -> Vec<String> {
        let group = (self.own)(Command::new("group"));
        let own = group.get_arguments().map(|arg| arg.get_id().to_string());
        own.chain(self.also.iter().map(|id| (*id).to_owned())).collect()
    }
}

/// Ids of the flags that were given, typed or in the environment, and that not every protocol has.
pub fn given(matches: &ArgMatches) -> Vec<String> {
    let is_given = |id: &String| {
        let source = matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id));
        // A variable may say of a switch that it is off.
        let is_off = matches!(matches.try_get_one::<bool>(id), Ok(Some(false)));
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) && !is_off
    };
    PROTOCOLS.iter().flat_map(Flags::ids).filter(is_given).collect()
}

/// What is asked of the protocol of the first URL; `None` where the URL is none of any protocol, which is refused later.
///
/// # Errors
/// A flag was given that says nothing to that protocol.
pub fn what(args: &LoadArgs, url: Option<&Secret>) -> Result<Option<What>, Failure> {
    if url.is_none() && !args.tls.tls_matrix {
        return Ok(None);
    }
    let of_url = of_url(&args.of_protocols, url)?;
    Ok(of_url.map(|flags| (flags.asked)(args)))
}

/// Refuses a flag that says nothing to the protocol of a URL; without one HTTP is spoken.
///
/// # Errors
/// The flag, what it is for, and the URL, in a sentence.
pub fn refuse_others(given: &[String], url: Option<&Secret>) -> Result<(), Failure> {
    of_url(given, url).map(drop)
}

fn of_url(given: &[String], url: Option<&Secret>) -> Result<Option<&'static Flags>, Failure> {
    let name = match url {
        Some(url) => resolve::protocol_of(&url.expose_text()),
        None => Some(HttpAsked::PROTOCOL),
    };
    let Some(flags) = PROTOCOLS.iter().find(|flags| Some(flags.protocol) == name) else { return Ok(None) };
    let ids = flags.ids();
    let Some(other) = given.iter().find(|id| !ids.contains(id)) else { return Ok(Some(flags)) };
    let takers: Vec<&str> =
        PROTOCOLS.iter().filter(|flags| flags.ids().contains(other)).map(|flags| flags.protocol).collect();
    let takers = match takers.split_last() {
        Some((last, others @ [_, ..])) => format!("{} or {last}", others.join(", ")),
        _ => takers.concat(),
    };
    let got = url.map_or("none".to_owned(), |url| format!("'{}'", hide::url(&url.expose_text())));
    let flag = flags::of_key(other);
    Err(Failure::usage(format!("{flag} is for {takers} URLs, got {got}: leave it out")))
}

/// Flags that may be or hold a secret, as they were written.
pub fn secrets(args: &ProtocolArgs) -> Vec<SecretFlag> {
    PROTOCOLS.iter().flat_map(|flags| (flags.secrets)(args)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One name for each, over all layers.
    #[test]
    fn every_protocol_has_its_flags_and_each_is_a_flag_of_load() {
        let names: Vec<&str> = PROTOCOLS.iter().map(|flags| flags.protocol).collect();
        assert_eq!(names, model::workload::NAMES);
        let command = crate::args::definition();
        let load = command.find_subcommand("load").unwrap();
        for flags in PROTOCOLS {
            assert!(!flags.ids().is_empty());
            for id in flags.ids() {
                assert!(load.get_arguments().any(|arg| arg.get_id() == id.as_str()), "{}: {id}", flags.protocol);
            }
        }
    }
}
