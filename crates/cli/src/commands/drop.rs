//! `plimsoll drop`: connections of this host that go to one address, forgotten or aborted by the kernel.
//!
//! Open ones are asked about on a terminal, or dropped with `--yes`: what they carried is lost and cannot be undone.

use crate::args::host::{DropArgs, StateArg};
use crate::exit::{Exit, Failure};
use ::fault::sockets::{State, count, drop_all};
use session::connections::{AddressError, addresses};
use std::io::{BufRead, IsTerminal, Write};
use std::net::SocketAddr;

/// Drops them.
pub fn run(args: &DropArgs) -> Result<Exit, Failure> {
    let host = super::host();
    let to = addresses(&args.to, &host).map_err(|error| match error {
        AddressError::Form { .. } => Failure::usage(format!("--to: {error}")),
        AddressError::NotFound { .. } => Failure::could_not_run(format!("--to: {error}")),
    })?;
    let state = match args.state {
        StateArg::TimeWait => State::TimeWait,
        StateArg::Established => State::Established,
    };
    if state == State::Established && !args.yes && !is_confirmed(state, &to, &args.to)? {
        writeln!(std::io::stdout(), "nothing was dropped")?;
        return Ok(Exit::Fine);
    }
    let done = drop_all(state, &to).map_err(refused)?;
    let gone = if done.gone > 0 { format!("; {} had gone by themselves", done.gone) } else { String::new() };
    let (dropped, found) = (done.dropped, done.found);
    writeln!(std::io::stdout(), "dropped {dropped} of {found} {} connections to {}{gone}", state.name(), args.to)?;
    Ok(Exit::Fine)
}

/// Asks on the terminal.
fn is_confirmed(state: State, to: &[SocketAddr], shown: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(
            "drop established: expected --yes, or a terminal to ask on: what open connections carry is lost",
        ));
    }
    let found = count(state, to).map_err(refused)?;
    if found == 0 {
        return Ok(true);
    }
    let mut stderr = std::io::stderr().lock();
    // Without stderr there is nobody to answer: then the answer is no.
    let _ = write!(stderr, "abort {found} open connections to {shown}? [y/N] ");
    let _ = stderr.flush();
    let mut line = String::new();
    let answer = stdin.lock().read_line(&mut line);
    Ok(answer.is_ok() && matches!(line.trim(), "y" | "Y" | "yes"))
}

fn refused(error: ::fault::sockets::DropError) -> Failure {
    Failure::could_not_run(error.to_string())
}
