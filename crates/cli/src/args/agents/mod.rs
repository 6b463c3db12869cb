//! Arguments about loads of many machines: how NATS is reached, what an agent is and allows, how a load is divided over agents.
//!
//! What proves who asks comes from files: a password in `--nats` works, and everybody on the machine can read it there.

pub mod kubernetes;

use super::load::LoadArgs;
use super::remote::token_of;
use super::values;
use crate::exit::Failure;
use agents::allow::Allowed;
use agents::limits::AGENTS_MAX;
use agents::{Nats, OnLost};
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use model::Secret;
use remote::Token;
use std::path::PathBuf;

/// How long agents are waited for where nothing is said.
const WAIT: &str = "30s";
/// How long nothing is heard of an agent until it counts as lost, where nothing is said.
const LOST_AFTER: &str = "10s";

/// How NATS lets one in.
#[derive(Debug, Args)]
pub struct NatsLinkArgs {
    /// Trust the authorities of this file (PEM) where NATS is reached by TLS (tls://) [default: those of the system]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_NATS_CA")]
    pub nats_ca: Option<PathBuf>,
    /// Show NATS who asks: a file of credentials as nsc writes them, or of an nkey's seed [default: nobody]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_NATS_CREDENTIALS")]
    pub nats_credentials: Option<PathBuf>,
}

impl NatsLinkArgs {
    /// The way to NATS where a flag wants one.
    pub fn wanted(&self, url: Option<&str>, flag: &str) -> Result<Nats, Failure> {
        let missing = || {
            Failure::usage(format!("{flag}: expected the NATS servers to ask, got none: give --nats nats://HOST:4222"))
        };
        Ok(self.to(url.ok_or_else(missing)?))
    }

    fn to(&self, url: &str) -> Nats {
        Nats { url: Secret::from(url), ca: self.nats_ca.clone(), credentials: self.nats_credentials.clone() }
    }
}

/// Where NATS is, for commands that have nothing to do without it.
#[derive(Debug, Args)]
#[command(next_help_heading = "NATS")]
pub struct NatsArgs {
    /// The NATS servers (JetStream on): nats://HOST:PORT or tls://HOST:PORT, several with commas between [default: none, it must be given]
    #[arg(long, value_name = "URL", env = "PLIMSOLL_NATS", required = true)]
    pub nats: String,
    /// Who asks.
    #[command(flatten)]
    pub link: NatsLinkArgs,
}

impl NatsArgs {
    /// The way there.
    pub fn nats(&self) -> Nats {
        self.link.to(&self.nats)
    }
}

/// Arguments of `plimsoll agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Where runs come from.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Put load on these targets and no others: HOST, HOST:PORT, an address, a network such as 10.1.0.0/16, unix:PATH; may be repeated [default: none, it must be given]
    #[arg(
        long,
        value_name = "TARGET",
        env = "PLIMSOLL_ALLOW_TARGET",
        required = true,
        value_delimiter = ',',
        help_heading = "What its owner allows"
    )]
    pub allow_target: Vec<Allowed>,
    /// Take no share of more requests a second, and no load without a rate [default: any]
    #[arg(long, value_name = "RATE", env = "PLIMSOLL_RATE_MAX", value_parser = values::per_s, help_heading = "What its owner allows")]
    pub rate_max: Option<f64>,
    /// Take no share of more connections [default: any]
    #[arg(long, value_name = "N", env = "PLIMSOLL_CONNECTIONS_MAX", value_parser = values::count::<u32>, help_heading = "What its owner allows")]
    pub connections_max: Option<u32>,
    /// Take only plans that were sealed with the token of this file; without one, none that has secrets [default: the variable PLIMSOLL_TOKEN]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TOKEN_FILE", help_heading = "What its owner allows")]
    pub token_file: Option<PathBuf>,
    /// What it is called; no two have the same name [default: the machine's name and the process]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_NAME")]
    pub name: Option<String>,
    /// A label by which loads can choose it, such as zone=a; may be repeated [default: none]
    #[arg(long, value_name = "LABEL", env = "PLIMSOLL_LABEL", value_delimiter = ',')]
    pub label: Vec<String>,
    /// Workers that it gives: its share of a load is by them [default: the cores it may use]
    #[arg(long, value_name = "N", env = "PLIMSOLL_CORES", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: Option<u16>,
}

impl AgentArgs {
    /// The token that was given, if one was.
    pub fn token(&self) -> Result<Option<Token>, Failure> {
        token_of(self.token_file.as_deref())
    }
}

/// Arguments of `plimsoll agents`.
#[derive(Debug, Args)]
pub struct AgentsArgs {
    /// Where agents are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print one JSON document
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

/// Arguments of `plimsoll attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The run, as the command that began it has said [default: list those there are]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Where it is.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Write the recording here [default: a file of its own in the folder of recordings]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_RECORD", conflicts_with = "no_record")]
    pub record: Option<PathBuf>,
    /// Keep no recording
    #[arg(long, env = "PLIMSOLL_NO_RECORD", value_parser = BoolishValueParser::new())]
    pub no_record: bool,
    /// How long agents are waited for, where the run has not begun
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_AGENTS_WAIT", default_value = WAIT, value_parser = values::duration_ns)]
    pub agents_wait: u64,
    /// Print one JSON document
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// No progress
    #[arg(short, long, env = "PLIMSOLL_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// What is done when an agent is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnLostArg {
    /// The others go on with their own shares
    Continue,
    /// The others put on its share as well, from a moment on that is said: of a load with a rate and a duration
    Redistribute,
    /// The run ends
    Stop,
}

/// How many agents: so many, or at first the one number and at most the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// At first.
    pub least: u16,
    /// At most.
    pub most: u16,
}

impl Count {
    /// `3`, or `2..8`.
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.trim().parse::<u16>().ok();
            number.filter(|number| (1..=AGENTS_MAX).contains(&usize::from(*number)))
        };
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let count = number(least).zip(number(most)).filter(|(least, most)| least <= most);
        let wrong =
            || format!("expected from 1 to {AGENTS_MAX} agents, such as 3, or of a search a range such as 2..8");
        count.map(|(least, most)| Count { least, most }).ok_or_else(wrong)
    }
}

/// How a load is divided over agents.
#[derive(Debug, Args)]
#[command(next_help_heading = "Agents on many machines")]
pub struct ByAgentsArgs {
    /// Have so many agents (`plimsoll agent`) put the load on, each a share of it, and make one result of what they measured; of a search 2..8: two at first, and up to eight where they are the limit [default: none, this process puts it on]
    #[arg(long, value_name = "N", env = "PLIMSOLL_AGENTS", value_parser = Count::parse)]
    pub agents: Option<Count>,
    /// The NATS servers (JetStream on) where they are: nats://HOST:PORT or tls://HOST:PORT, several with commas between [default: none]
    #[arg(long, value_name = "URL", env = "PLIMSOLL_NATS")]
    pub nats: Option<String>,
    /// Who asks.
    #[command(flatten)]
    pub link: NatsLinkArgs,
    /// Only agents with this label; may be repeated, and all must be there [default: any agent]
    #[arg(long, value_name = "LABEL", env = "PLIMSOLL_AGENT_LABEL", value_delimiter = ',')]
    pub agent_label: Vec<String>,
    /// How long agents are waited for
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_AGENTS_WAIT", default_value = WAIT, value_parser = values::duration_ns)]
    pub agents_wait: u64,
    /// How much of NATS' storage the run may take, until its result is made
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_STREAM_MAX", default_value = "1GiB", value_parser = values::size::<u64>)]
    pub stream_max: u64,
    /// What is done when an agent is lost
    #[arg(long, value_name = "WHAT", env = "PLIMSOLL_ON_LOST", default_value = "continue")]
    pub on_lost: OnLostArg,
    /// An agent that nothing is heard of for so long is lost
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_LOST_AFTER", default_value = LOST_AFTER, value_parser = values::duration_ns)]
    pub lost_after: u64,
}

impl ByAgentsArgs {
    /// The way to NATS, which a flag wants.
    pub fn nats(&self, flag: &str) -> Result<Nats, Failure> {
        self.link.wanted(self.nats.as_deref(), flag)
    }

    /// How many agents put on a load that is no search; `None`: this process does.
    pub fn count(&self) -> Result<Option<u16>, Failure> {
        match self.agents {
            Some(Count { least, most }) if least != most => Err(Failure::usage(format!(
                "--agents: expected one number, got {least}..{most}: only a search (`plimsoll capacity`) calls more agents as it goes"
            ))),
            agents => Ok(agents.map(|agents| agents.least)),
        }
    }

    /// What is done when an agent is lost.
    pub fn on_lost(&self) -> OnLost {
        match self.on_lost {
            OnLostArg::Continue => OnLost::Continue,
            OnLostArg::Redistribute => OnLost::Redistribute,
            OnLostArg::Stop => OnLost::Stop,
        }
    }

    /// Refuses agents for a command that does not use them.
    pub fn refuse(load: &LoadArgs, command: &str) -> Result<(), Failure> {
        match load.by_agents.agents {
            Some(_) => Err(Failure::usage(format!("--agents cannot be used with {command} yet: leave it out"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_agents_is_one_that_there_can_be() {
        assert_eq!(Count::parse("3"), Ok(Count { least: 3, most: 3 }));
        assert_eq!(Count::parse("2..8"), Ok(Count { least: 2, most: 8 }));
        for wrong in ["", "0", "1025", "65535", "-1", "8..2", "1..1025", "..3", "3..", "1..2..3", "two"] {
            assert!(Count::parse(wrong).unwrap_err().starts_with("expected from 1 to 1024 agents"), "{wrong}");
        }
    }
}
