//! The commands, a file each: what they do with their arguments, down to the exit status.
//!
//! Results go to stdout, everything else to stderr. No command exits by itself.

mod agents;
mod audit;
mod capacity;
mod check;
mod command_line;
mod compare;
mod completions;
mod demo;
mod diagnose;
mod drop;
mod fault;
mod import;
mod interrupt;
mod load;
mod man;
mod output;
mod report;
mod run;
mod runs;
mod serve;
mod ui;
mod watch;

use crate::args::Command;
use crate::exit::{Exit, Failure};
use model::plain::plain;
use resolve::SystemHost;
use std::io::Write;

/// Does what was asked for.
pub fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Load(args) => load::run(*args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Agent(args) => agents::agent(&args),
        Command::Agents(args) => agents::list(&args),
        Command::Attach(args) => agents::attach(&args),
        Command::Kubernetes(args) => agents::kubernetes::run(&args),
        Command::Runs(args) => runs::run(&args),
        Command::Ui(args) => ui::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Confirm(args) => diagnose::confirm::run(&args),
        Command::Ab(args) => compare::ab::run(*args),
        Command::Compare(args) => compare::recorded::run(&args),
        Command::Trend(args) => compare::trend::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Check(args) => check::run(*args),
        Command::Fault(command) => fault::run(&command),
        Command::Drop(args) => drop::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// This machine, as plans are made on it.
pub fn host() -> SystemHost {
    SystemHost::new(engine::driver::uring::available, engine::tls::NAMES).telling(tell)
}

/// Says on stderr what is waited for.
pub fn tell(sentence: &str) {
    let line = format!("plimsoll: {}", plain(sentence));
    if !output::view::keep(&line) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Says on stderr what looks like a mistake.
pub fn warn(sentence: &str) {
    let line = format!("plimsoll: warning: {}", plain(sentence));
    if !output::view::keep(&line) {
        // Nothing is left to do where stderr is closed.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Lets this process open as many descriptors as the hard limit allows: the soft one is a default for select(2) users.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the warning about too many connections stands.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Hands everything printed to the kernel: a full disk behind stdout is a failure and not silence. Once said is enough.
pub fn flush(is_said: bool) -> Exit {
    match std::io::stdout().flush() {
        Err(error) if !is_said => Failure::from(error).show(),
        _ => Exit::Fine,
    }
}
