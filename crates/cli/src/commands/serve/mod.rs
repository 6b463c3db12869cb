//! `plimsoll serve`: a reference server until SIGINT or SIGTERM, then what it counted.
//!
//! Also `--list` (in `list`) and `--counters`, which reads a running server's control socket.
//! One line per address on stdout when connections are accepted, so that a script can wait for it. A second signal
//! ends it at once.

mod list;
mod proxy;

use crate::args::serve::{ServeArgs, ServeCommand};
use crate::exit::{Exit, Failure};
use servers::{DesignInfo, ServeError, Stop};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::net::SocketAddr;

/// Names and values, as they are printed at the end.
type Rows = Vec<(&'static str, u64)>;

/// Serves, or says what there is to know.
pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    match (&args.command, &args.counters) {
        (Some(command), _) => serve(command),
        (None, Some(path)) => {
            let line = servers::control::read(path).map_err(failure)?;
            writeln!(std::io::stdout(), "{line}")?;
            Ok(Exit::Fine)
        }
        (None, None) if args.list => list::run(args.json),
        (None, None) => Err(Failure::usage(
            "expected a server, --list or --counters, got none of them: see 'plimsoll serve --help'",
        )),
    }
}

fn serve(command: &ServeCommand) -> Result<Exit, Failure> {
    let stop = Stop::new().map_err(|error| cannot_start(&error))?;
    stop_on_signals(&stop).map_err(|error| cannot_start(&error))?;
    let options = command.options()?;
    if let ServeCommand::Proxy(args) = command
        && args.explain
    {
        return Ok(proxy::explain(args, &options)?);
    }
    // Open until the server has ended, so that its last figures can be asked for.
    let _control = match (command.control(), about(command)) {
        (Some(path), Some((server, design))) => {
            let figures = servers::control::figures(server, design, &options.live);
            Some(servers::control::Control::open(path, figures).map_err(failure)?)
        }
        (Some(_), None) => {
            return Err(Failure::usage(
                "--control cannot be used with serve names, which says what it has counted itself: ask it for INFO, such as with redis-cli",
            ));
        }
        (None, _) => None,
    };
    let (is_tls, unix) = (options.tls.is_some(), options.unix.clone());
    let tell = |plain: &'static str, tls: &'static str, end: &'static str, by_unix: &'static str| {
        move |addresses: &[SocketAddr]| {
            let scheme = if is_tls { tls } else { plain };
            let unix = unix.map(|path| format!("{by_unix}:{}", path.display()));
            announce(addresses.iter().map(|address| format!("{scheme}://{address}{end}")), unix);
        }
    };
    let counted = match command {
        ServeCommand::Http(args) => {
            let (design, root, head_timeout) = (args.design, args.root.clone(), args.head_timeout.0);
            let http = servers::http::HttpOptions { design, root, head_timeout, ..Default::default() };
            let ready = tell("http", "https", "/", "unix");
            servers::http::serve(&options, &http, &stop, ready).map(|counters| counters.rows().to_vec())
        }
        ServeCommand::Echo(args) => {
            let echo = servers::echo::EchoOptions {
                design: args.design,
                connections_max: args.connections_max,
                ..Default::default()
            };
            let ready = tell("echo", "echo+tls", "", "echo+unix");
            servers::echo::serve(&options, &echo, &stop, ready).map(|counters| counters.rows().to_vec())
        }
        ServeCommand::Ws(args) => {
            let ready = tell("ws", "wss", "/", "ws+unix");
            servers::websocket::serve(&options, &args.options(), &stop, ready).map(|counters| counters.rows().to_vec())
        }
        ServeCommand::Proxy(args) => {
            let ready = tell("http", "https", "/", "unix");
            proxy::serve(args, &options, &stop, ready)
        }
        ServeCommand::Names(args) => {
            let ready = tell("resp", "resp+tls", "", "resp+unix");
            servers::names::serve(&options, &args.options(), &stop, ready).map(|counters| counters.rows())
        }
    };
    print(&counted.map_err(failure)?)?;
    Ok(Exit::Fine)
}

/// The server's name and design, of those that publish their counters while they run.
fn about(command: &ServeCommand) -> Option<(&'static str, &'static DesignInfo)> {
    match command {
        ServeCommand::Http(args) => Some(("http", &args.design.info)),
        ServeCommand::Echo(args) => Some(("echo", &args.design.info)),
        ServeCommand::Ws(args) => Some(("ws", &args.design.info)),
        ServeCommand::Proxy(_) => Some(("proxy", &servers::proxy::DESIGNS[0].info)),
        ServeCommand::Names(_) => None,
    }
}

fn failure(error: ServeError) -> Failure {
    match error.is_usage() {
        true => Failure::usage(error.to_string()),
        false => Failure::could_not_run(error.to_string()),
    }
}

fn announce(tcp: impl Iterator<Item = String>, unix: Option<String>) {
    let mut out = std::io::stdout().lock();
    for url in tcp.chain(unix) {
        // A closed stdout is no reason not to serve.
        let _ = writeln!(out, "listening on {url}");
    }
    let _ = out.flush();
}

/// The first signal stops the server in order, the second ends the process.
fn stop_on_signals(stop: &Stop) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if stop.is_stopped() {
                // As the shell counts a death by signal.
                signal_hook::low_level::exit(128 + signal);
            }
            stop.stop();
        }
    })?;
    Ok(())
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::could_not_run(format!(
        "expected a descriptor and a thread for the server, but {error}: check `ulimit -n` and `ulimit -u`"
    ))
}

fn print(rows: &Rows) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(13);
    for (name, value) in rows {
        writeln!(out, "{name:<width$} {value}")?;
    }
    Ok(())
}
