//! Arguments of `plimsoll watch`.

use super::agents::NatsLinkArgs;
use super::load::ObserveArg;
use super::pages::live::LiveArgs;
use super::remote::LinkArgs;
use super::values;
use clap::Args;
use clap::builder::BoolishValueParser;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Whom to look at, how long, and how it is shown.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The process with this id, and its children [default: none]
    #[arg(long, value_name = "PID", env = "PLIMSOLL_PID", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with = "port")]
    pub pid: Option<u32>,
    /// The processes that listen on this TCP port, in whatever network namespace [default: none]
    #[arg(long, value_name = "PORT", env = "PLIMSOLL_PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Observe for runs on other machines: listen here for `plimsoll load --observe-at` and `watch --at`; what is observed is the target of each, or what --pid or --port name [default: none, observe here and print it]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "PLIMSOLL_SERVE",
        conflicts_with = "at",
        help_heading = "Target on another machine"
    )]
    pub serve: Option<SocketAddr>,
    /// With --serve: show the certificate chain of this file (PEM) [default: one is made]
    #[arg(
        long,
        value_name = "FILE",
        env = "PLIMSOLL_TLS_CERT",
        requires = "serve",
        help_heading = "Target on another machine"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM, without a passphrase) [default: in the file of --tls-cert]
    #[arg(
        long,
        value_name = "FILE",
        env = "PLIMSOLL_TLS_KEY",
        requires = "serve",
        help_heading = "Target on another machine"
    )]
    pub tls_key: Option<PathBuf>,
    /// With --serve: the dearest probes that a run is given, whatever it asks for [default: full]
    #[arg(
        long,
        value_name = "LEVEL",
        env = "PLIMSOLL_LEVEL_MAX",
        requires = "serve",
        help_heading = "Target on another machine"
    )]
    pub level_max: Option<ObserveArg>,
    /// With --serve and --nats: be reached over NATS too, by this name: `--observe-at nats:NAME` [default: the machine's name and the process]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_NAME", help_heading = "Target on another machine")]
    pub name: Option<String>,
    /// The NATS servers over which an observer is reached, nats://HOST:PORT or tls://HOST:PORT, several with commas between [default: none]
    #[arg(long, value_name = "URL", env = "PLIMSOLL_NATS", help_heading = "Target on another machine")]
    pub nats: Option<String>,
    /// Who asks there.
    #[command(flatten, next_help_heading = "Target on another machine")]
    pub nats_link: NatsLinkArgs,
    /// Observe on another machine: the address of `plimsoll watch --serve` there, or nats:NAME [default: this machine]
    #[arg(long, value_name = "HOST:PORT", env = "PLIMSOLL_AT", help_heading = "Target on another machine")]
    pub at: Option<String>,
    /// Who is at the other end.
    #[command(flatten, next_help_heading = "Target on another machine")]
    pub link: LinkArgs,
    /// How long [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", env = "PLIMSOLL_DURATION", value_parser = values::duration_ns)]
    pub duration: Option<u64>,
    /// Time between two readings, from 100ms to 60s
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_TICK", default_value = "1s", value_parser = values::duration_ns)]
    pub tick: u64,
    /// Which metrics are shown by time, of docs/metrics.md [default: the usual ones]
    #[arg(long, value_name = "NAME,…", env = "PLIMSOLL_METRICS", conflicts_with = "json")]
    pub metrics: Option<String>,
    /// List what can be read: what each sampler and probe reads, needs and costs, and whether it works here
    #[arg(long, env = "PLIMSOLL_LIST", value_parser = BoolishValueParser::new(),
          conflicts_with_all = ["pid", "port", "duration", "metrics"])]
    pub list: bool,
    /// Which probes watch the target from the kernel, as root: the cheap ones, and the others for 1 s in 10 or all the time; they cost it some CPU [default: none]
    #[arg(long, value_name = "LEVEL", env = "PLIMSOLL_OBSERVE")]
    pub observe: Option<ObserveArg>,
    /// Write a recording here, which 'plimsoll diagnose' and 'plimsoll report' read [default: none is kept]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_RECORD", conflicts_with = "serve")]
    pub record: Option<PathBuf>,
    /// The page of what is watched, while it is.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print one JSON document at the end
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}
