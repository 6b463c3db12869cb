//! `plimsoll watch --serve`: observes for runs on other machines, until SIGINT or SIGTERM.
//!
//! What a client needs goes to stdout once, when connections are accepted; who comes and goes to stderr. Neither holds it
//! up where nobody reads.

use crate::args::remote::TOKEN_VARIABLE;
use crate::args::watch::WatchArgs;
use crate::commands::agents::default_name;
use crate::commands::interrupt;
use crate::commands::output::outlet::Outlet;
use crate::exit::{Exit, Failure};
use agents::observers;
use model::bpf::Level;
use model::plain::plain;
use model::watched::Whom;
use remote::{Say, ServeError, ServeOptions, Serving, Token};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long lines that are being written are waited for: at the start, for a stdout that fails, and at the end.
const SETTLE: Duration = Duration::from_millis(500);

/// Serves.
pub fn run(args: &WatchArgs, address: SocketAddr) -> Result<Exit, Failure> {
    let certificate = match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
        (Some(both), None) => Some((both.clone(), both.clone())),
        (None, Some(_)) => {
            return Err(Failure::usage("expected --tls-cert with --tls-key: the certificate of that key"));
        }
        (None, None) => None,
    };
    let given = args.link.token()?;
    let made = match &given {
        Some(_) => None,
        None => Some(Token::generate().ok_or_else(|| {
            Failure::could_not_run("expected randomness of the kernel for a token, got none: give one (--token-file)")
        })?),
    };
    let Some(token) = given.or_else(|| made.clone()) else {
        return Err(Failure::could_not_run("there is no token"));
    };
    let whom = match (args.pid, args.port) {
        (Some(pid), _) => Some(Whom::Pid(pid)),
        (None, Some(port)) => Some(Whom::Port(port)),
        (None, None) => None,
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let level_max = args.level_max.map_or(Level::Full, Level::from);
    let stop = interrupt::flag()?;
    let serving = Serving::bind(ServeOptions { address, token, certificate, whom, level_max, version })?;
    let relay = match &args.nats {
        Some(url) => {
            let name = args.name.clone().unwrap_or_else(|| default_name("observer"));
            let (nats, fingerprint) = (args.nats_link.wanted(Some(url), "--nats")?, serving.fingerprint().to_string());
            let version = env!("CARGO_PKG_VERSION").to_owned();
            Some((observers::serve(&nats, &name, serving.address(), fingerprint, version)?, name, nats.shown()))
        }
        None => None,
    };
    let outlet = Outlet::start().map_err(|error| Failure::could_not_run(format!("expected a thread, but {error}")))?;
    for line in announced(&serving, made.as_ref()) {
        outlet.result(line);
    }
    if let Some((_, name, nats)) = &relay {
        outlet.result(format!("  over NATS    --observe-at nats:{name} --nats {}", plain(nats)));
    }
    outlet.settle(SETTLE)?;
    let lines = outlet.clone();
    let say: Say = Arc::new(move |line: &str| lines.remark(format!("plimsoll: {}", plain(line))));
    serving.run(&stop, &say);
    outlet.settle(SETTLE)?;
    Ok(Exit::Fine)
}

fn announced(serving: &Serving, made: Option<&Token>) -> Vec<String> {
    let address = serving.address();
    let mut lines = vec![
        format!("observing for whoever has the token, at {address}"),
        format!("  fingerprint  {}", serving.fingerprint()),
    ];
    let host = match address.ip().is_unspecified() {
        true => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        false if address.is_ipv6() => format!("[{}]", address.ip()),
        false => address.ip().to_string(),
    };
    let token = match made {
        Some(token) => {
            lines.push(format!("  token        {}   (made now, and not shown again)", token.text()));
            format!("{TOKEN_VARIABLE}={} ", token.text())
        }
        None => String::new(),
    };
    lines.push(format!("  a run        {token}plimsoll load URL --observe-at {host}:{}", address.port()));
    lines
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Failure::could_not_run(error.to_string())
    }
}
