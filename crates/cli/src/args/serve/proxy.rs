//! Arguments of `serve proxy`: whom it asks, what it holds for slow clients, what it keeps.

use super::CommonArgs;
use crate::args::values::{self, IdleTimeout};
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use servers::proxy::{self, Origin, ProxyOptions};
use std::path::PathBuf;
use std::time::Duration;

/// How requests are shared out over the origins.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Balance {
    /// The same request target always to the same origin, by rendezvous hashing
    UrlHash,
    /// One origin after the other
    RoundRobin,
}

/// Arguments of `serve proxy`.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// Ask this server; may be repeated; its name is resolved once, at the start [default: none, one is needed]
    #[arg(long, value_name = "http://HOST:PORT", env = "PLIMSOLL_ORIGIN", required = true, value_delimiter = ',')]
    origin: Vec<Origin>,
    /// How requests are shared out over the origins
    #[arg(long, value_name = "HOW", env = "PLIMSOLL_BALANCE", default_value = "url-hash", value_enum)]
    balance: Balance,
    /// How the proxy is built
    #[arg(long, value_name = "DESIGN", env = "PLIMSOLL_DESIGN", default_value = proxy::DESIGNS[0].info.name, value_parser = design())]
    design: &'static proxy::Design,
    /// Idle connections a worker keeps to each origin; 0 keeps none
    #[arg(long, value_name = "N", env = "PLIMSOLL_UPSTREAM_KEEPALIVE", default_value = "32", value_parser = values::count::<usize>)]
    upstream_keepalive: usize,
    /// The longest an origin may take to accept a connection, to take or to give the next bytes
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_UPSTREAM_TIMEOUT", default_value = "60s", value_parser = values::duration_ns)]
    upstream_timeout: u64,
    /// Read replies ahead of slow clients; off: one buffer, and the origin waits [default: on]
    #[arg(long, value_name = "on|off", env = "PLIMSOLL_BUFFERING", value_parser = values::on_off)]
    buffering: Option<bool>,
    /// Buffers of one connection
    #[arg(long, value_name = "N", env = "PLIMSOLL_BUFFERS", default_value = "8", value_parser = values::count::<usize>)]
    buffers: usize,
    /// Size of each of these buffers
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_BUFFER_SIZE", default_value = "4KiB", value_parser = values::size::<usize>)]
    buffer_size: usize,
    /// What one connection may write to a temp file once its buffers are full, then its origin waits; 0 for no file
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_TEMP_MAX", default_value = "1GiB", value_parser = values::size::<u64>)]
    temp_max: u64,
    /// Where temp files are made; they have no name and are gone with the process [default: the system's, $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_TEMP_DIR")]
    temp_dir: Option<PathBuf>,
    /// Keep replies with explicit freshness in this much memory, shared by the workers; 0 keeps none
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_CACHE", default_value = "0", value_parser = values::size::<u64>)]
    cache: u64,
    /// Close a connection whose request head is not complete so long after its first byte, or never; however often bytes come
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_HEAD_TIMEOUT", default_value = "60s", value_parser = values::idle_timeout)]
    head_timeout: IdleTimeout,
    /// Say what it will take in memory and temp files, and end
    #[arg(long, env = "PLIMSOLL_EXPLAIN", value_parser = BoolishValueParser::new())]
    pub explain: bool,
    /// With --explain: how many buffers each connection can have in this much memory, for --slow-connections that are sent an --object each [default: not reckoned]
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_WITHIN", requires_all = ["explain", "slow_connections", "object"], value_parser = values::size::<u64>)]
    pub within: Option<u64>,
    /// With --within: connections whose clients read slower than the origin writes [default: none, --within needs it]
    #[arg(long, value_name = "N", env = "PLIMSOLL_SLOW_CONNECTIONS", requires = "within", value_parser = values::count::<u64>)]
    pub slow_connections: Option<u64>,
    /// With --within: size of a reply, such as the largest that many ask for [default: none, --within needs it]
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_OBJECT", requires = "within", value_parser = values::size::<u64>)]
    pub object: Option<u64>,
    /// What every server is told.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl ProxyArgs {
    /// What only the proxy is told.
    pub fn options(&self) -> ProxyOptions {
        let defaults = ProxyOptions::default();
        ProxyOptions {
            design: self.design,
            origins: self.origin.clone(),
            balance: match self.balance {
                Balance::UrlHash => proxy::Balance::UrlHash,
                Balance::RoundRobin => proxy::Balance::RoundRobin,
            },
            upstream_keepalive: self.upstream_keepalive,
            upstream_timeout: Duration::from_nanos(self.upstream_timeout),
            buffering: self.buffering.unwrap_or(defaults.buffering),
            buffers: self.buffers,
            buffer_bytes: self.buffer_size,
            temp_bytes_max: self.temp_max,
            temp_dir: self.temp_dir.clone().unwrap_or(defaults.temp_dir),
            cache_bytes: self.cache,
            head_timeout: self.head_timeout.0,
        }
    }
}

fn design() -> impl TypedValueParser<Value = &'static proxy::Design> {
    PossibleValuesParser::new(proxy::DESIGNS.iter().map(|design| design.info.name))
        .try_map(|name| proxy::design(&name).ok_or("expected the name of a design"))
}
