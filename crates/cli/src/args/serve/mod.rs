//! Arguments of `serve`: a reference server, one command per protocol.

mod control;
mod defect;
mod names;
pub mod proxy;
mod root;
mod tls;
pub mod websocket;

pub use root::ServeArgs;

use super::values::{self, CpuList, IdleTimeout, Listen};
use crate::exit::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use control::ControlArgs;
use names::NamesArgs;
use proxy::ProxyArgs;
use servers::ServeOptions;
use servers::defects::Setting;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tls::TlsArgs;
use websocket::WebSocketArgs;

/// Port of `serve http` where none is named.
const HTTP_PORT: u16 = 8080;
/// Port of `serve names` where none is named: redis' is 6379.
const NAMES_PORT: u16 = 6390;
/// Port of `serve ws` where none is named.
const WEBSOCKET_PORT: u16 = 8082;
/// Port of `serve proxy` where none is named.
const PROXY_PORT: u16 = 8081;

/// What is served.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// HTTP/1.1: files of a folder, or paths of known behaviour such as /cpu?us=100 (listed at /)
    Http(HttpArgs),
    /// Bytes come back as they went
    Echo(EchoArgs),
    /// WebSocket: messages come back as they went, compressed if they came so
    Ws(WebSocketArgs),
    /// Values under names, in RESP2 (redis-cli, redis-benchmark): a store that may crash, supervised, durable if asked
    Names(NamesArgs),
    /// A reverse proxy to one or more HTTP/1.1 origins, with buffers, temp files and a cache
    Proxy(ProxyArgs),
}

/// Arguments of `serve http`.
#[derive(Debug, Args)]
pub struct HttpArgs {
    /// Serve the files of this folder [default: built-in paths, listed at /]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_ROOT")]
    pub root: Option<PathBuf>,
    /// How the server is built
    #[arg(long, value_name = "DESIGN", env = "PLIMSOLL_DESIGN", default_value = servers::http::DESIGNS[0].info.name, value_parser = http_design())]
    pub design: &'static servers::http::Design,
    /// Close a connection whose request head is not complete so long after its first byte, or never; however often bytes come
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_HEAD_TIMEOUT", default_value = "60s", value_parser = values::idle_timeout)]
    pub head_timeout: IdleTimeout,
    /// What every server is told.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `serve echo`.
#[derive(Debug, Args)]
pub struct EchoArgs {
    /// How the server is built
    #[arg(long, value_name = "DESIGN", env = "PLIMSOLL_DESIGN", default_value = servers::echo::DESIGNS[0].info.name, value_parser = echo_design())]
    pub design: &'static servers::echo::Design,
    /// Connections it must be able to hold: uring makes as many rings as that takes, thread and fork serve no more at once, the others hold what nofile allows
    #[arg(short = 'c', long, value_name = "N", env = "PLIMSOLL_CONNECTIONS_MAX", default_value = "10k", value_parser = values::count::<usize>)]
    pub connections_max: usize,
    /// What every server is told.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What every server is told.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Listen here; port 0 takes a free one; 9000-9004 are five; may be repeated [default: 127.0.0.1:8080, echo 127.0.0.1:7777, ws 127.0.0.1:8082, names 127.0.0.1:6390, proxy 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR:PORT[-PORT]", env = "PLIMSOLL_LISTEN", value_parser = values::listen)]
    listen: Vec<Listen>,
    /// Listen on a unix socket; without --listen only there [default: none]
    #[arg(long, value_name = "PATH", env = "PLIMSOLL_UNIX")]
    unix: Option<PathBuf>,
    /// Worker threads, processes with prefork; iterative, fork and thread have one
    #[arg(long, value_name = "N", env = "PLIMSOLL_WORKERS", default_value = "1", value_parser = values::count::<usize>)]
    workers: usize,
    /// CPUs to pin workers to, such as 0,1 or 0-3 [default: not pinned]
    #[arg(long, value_name = "CPUS", env = "PLIMSOLL_PIN", value_parser = values::cpus)]
    pin: Option<CpuList>,
    /// Length asked of the accept queue; the kernel caps it at net.core.somaxconn
    #[arg(long, value_name = "N", env = "PLIMSOLL_BACKLOG", default_value = "4096", value_parser = values::count::<u32>)]
    backlog: u32,
    /// Close a connection on which nothing moved for this long, or never
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_IDLE_TIMEOUT", default_value = "75s", value_parser = values::idle_timeout)]
    idle_timeout: IdleTimeout,
    /// Receive buffer of a worker
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_BUFFER", default_value = "64KiB", value_parser = values::size::<usize>)]
    buffer: usize,
    /// A fault it carries on purpose, such as nagle or cpu-heavy=2ms; how, of those that can be had in several ways: blocked-loop=5ms:sleep:of=20; from a time on: cpu-heavy=2ms@30s; may be repeated [default: none]
    #[arg(long, value_name = "NAME[=STRENGTH][:WAY][:PART=…][@START]", env = "PLIMSOLL_DEFECT", value_delimiter = ',', value_parser = defect::parse)]
    defect: Vec<Setting>,
    /// Where it can be asked.
    #[command(flatten)]
    control: ControlArgs,
    /// How it speaks TLS.
    #[command(flatten, next_help_heading = "TLS")]
    tls: TlsArgs,
}

impl ServeCommand {
    /// The options every server has.
    pub fn options(&self) -> Result<ServeOptions, Failure> {
        let (common, port) = self.common();
        let listen = match (&common.listen[..], &common.unix) {
            ([], None) => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
            (listen, _) => listen.iter().flat_map(|addresses| addresses.0.clone()).collect(),
        };
        let tls = common.tls.options()?;
        if tls.is_some() && common.unix.is_some() {
            return Err(Failure::usage(
                "--tls cannot be used with --unix: it is spoken over TCP, leave one of them out",
            ));
        }
        Ok(ServeOptions {
            listen,
            unix: common.unix.clone(),
            workers: common.workers,
            shared_listeners: false,
            pin: common.pin.as_ref().map(|list| list.0.iter().map(|cpu| usize::from(*cpu)).collect()),
            backlog: common.backlog,
            buffer_bytes: common.buffer,
            idle_timeout: common.idle_timeout.0,
            tls,
            defects: common.defect.clone(),
            live: Default::default(),
        })
    }

    /// Where it is asked what it has counted.
    pub fn control(&self) -> Option<&Path> {
        self.common().0.control.control.as_deref()
    }

    /// What every server is told, and its port where none is named.
    fn common(&self) -> (&CommonArgs, u16) {
        match self {
            ServeCommand::Http(http) => (&http.common, HTTP_PORT),
            ServeCommand::Echo(echo) => (&echo.common, resolve::defaults::ECHO_PORT),
            ServeCommand::Ws(websocket) => (&websocket.common, WEBSOCKET_PORT),
            ServeCommand::Names(names) => (&names.common, NAMES_PORT),
            ServeCommand::Proxy(proxy) => (&proxy.common, PROXY_PORT),
        }
    }
}

fn http_design() -> impl TypedValueParser<Value = &'static servers::http::Design> {
    PossibleValuesParser::new(servers::http::DESIGNS.iter().map(|design| design.info.name))
        .try_map(|name| servers::http::design(&name).ok_or("expected the name of a design"))
}

fn echo_design() -> impl TypedValueParser<Value = &'static servers::echo::Design> {
    PossibleValuesParser::new(servers::echo::DESIGNS.iter().map(|design| design.info.name))
        .try_map(|name| servers::echo::design(&name).ok_or("expected the name of a design"))
}
