//! `plimsoll serve`: a reference server until SIGINT or SIGTERM, then what it counted.
//!
//! Also `--list` (in `list`) and `--counters`, which reads a running server's control socket.
//! One line per address on stdout when connections are accepted, so that a script can wait for it. A second signal
//! ends it at once.

mod list;

use crate::args::serve::{ServeArgs, ServeCommand};
use crate::exit::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::net::SocketAddr;
use target::{Counters, ServeError, Stop};

/// Serves, or says what there is to know.
pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    match (&args.command, &args.counters) {
        (Some(command), _) => serve(command),
        (None, Some(path)) => {
            let line = target::control::read(path).map_err(failure)?;
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
    let is_tls = options.tls.is_some();
    let unix = options.unix.clone();
    let (server, design) = match command {
        ServeCommand::Http(args) => ("http", &args.design.info),
        ServeCommand::Echo(args) => ("echo", &args.design.info),
    };
    // Open until the server has ended, so that its last figures can be asked for.
    let _control = match command.control() {
        Some(path) => {
            let figures = target::control::figures(server, design, &options.live);
            Some(target::control::Control::open(path, figures).map_err(failure)?)
        }
        None => None,
    };
    let counters = match command {
        ServeCommand::Http(args) => {
            let http = target::http::HttpOptions { design: args.design, root: args.root.clone(), ..Default::default() };
            let ready = |addresses: &[SocketAddr]| {
                let scheme = if is_tls { "https" } else { "http" };
                announce(
                    addresses.iter().map(|a| format!("{scheme}://{a}/")),
                    unix.map(|p| format!("unix:{}", p.display())),
                );
            };
            target::http::serve(&options, &http, &stop, ready)
        }
        ServeCommand::Echo(args) => {
            let echo = target::echo::EchoOptions {
                design: args.design,
                connections_max: args.connections_max,
                ..Default::default()
            };
            let ready = |addresses: &[SocketAddr]| {
                let unix = unix.map(|p| format!("echo+unix:{}", p.display()));
                let scheme = if is_tls { "echo+tls" } else { "echo" };
                announce(addresses.iter().map(|a| format!("{scheme}://{a}")), unix);
            };
            target::echo::serve(&options, &echo, &stop, ready)
        }
    };
    print(&counters.map_err(failure)?)?;
    Ok(Exit::Fine)
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

fn print(counters: &Counters) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for (name, value) in counters.rows() {
        writeln!(out, "{name:<13} {value}")?;
    }
    Ok(())
}
