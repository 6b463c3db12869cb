//! `plimsoll serve`: a reference server until SIGINT or SIGTERM, then what it counted.
//!
//! One line per address on stdout when connections are accepted, so that a script can wait for it. A second signal
//! ends it at once.

mod proxy;

use crate::args::serve::ServeCommand;
use crate::exit::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::net::SocketAddr;
use target::{Counters, Stop};

/// Serves.
pub fn run(command: &ServeCommand) -> Result<Exit, Failure> {
    let stop = Stop::new().map_err(|error| cannot_start(&error))?;
    stop_on_signals(&stop).map_err(|error| cannot_start(&error))?;
    let options = command.options()?;
    let is_tls = options.tls.is_some();
    let unix = options.unix.clone();
    let mut of_proxy = None;
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
        ServeCommand::Proxy(args) if args.explain => return Ok(proxy::explain(args, &options)?),
        ServeCommand::Proxy(args) => {
            let ready = |addresses: &[SocketAddr]| {
                let scheme = if is_tls { "https" } else { "http" };
                announce(
                    addresses.iter().map(|a| format!("{scheme}://{a}/")),
                    unix.map(|p| format!("unix:{}", p.display())),
                );
            };
            proxy::serve(args, &options, &stop, ready).map(|(counters, of_origins)| {
                of_proxy = Some(of_origins);
                counters
            })
        }
    };
    let counters = counters.map_err(|error| match error.is_usage() {
        true => Failure::usage(error.to_string()),
        false => Failure::could_not_run(error.to_string()),
    })?;
    print(&counters)?;
    if let Some(counters) = of_proxy {
        proxy::print(&counters)?;
    }
    Ok(Exit::Fine)
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
    // Taken apart without `..`: a new counter that is not printed does not compile.
    let Counters {
        accepted,
        closed,
        recv,
        send,
        shutdown,
        recv_error,
        send_error,
        memory_error,
        accept_error,
        work_error,
        idle_closed,
        cut_at_stop,
        requests,
        refused,
        bytes_in,
        bytes_out,
        tls_full,
        tls_resumed,
        tls_failed,
    } = *counters;
    let rows = [
        ("accepted", accepted),
        ("closed", closed),
        ("recv", recv),
        ("send", send),
        ("shutdown", shutdown),
        ("recv_error", recv_error),
        ("send_error", send_error),
        ("memory_error", memory_error),
        ("accept_error", accept_error),
        ("work_error", work_error),
        ("idle_closed", idle_closed),
        ("cut_at_stop", cut_at_stop),
        ("requests", requests),
        ("refused", refused),
        ("bytes_in", bytes_in),
        ("bytes_out", bytes_out),
        ("tls_full", tls_full),
        ("tls_resumed", tls_resumed),
        ("tls_failed", tls_failed),
    ];
    let mut out = std::io::stdout().lock();
    for (name, value) in rows {
        writeln!(out, "{name:<13} {value}")?;
    }
    Ok(())
}
