//! The commands, a file each: what they do with their arguments, down to the exit status.
//!
//! Results go to stdout, everything else to stderr. No command exits by itself.

mod check;
mod completions;
mod demo;
mod drop;
mod explain;
mod fault;
mod flame;
mod import;
mod interrupt;
mod load;
mod man;
mod report;
mod runs;
mod serve;
mod show;
mod shown;
mod terminal;
mod timeline;
mod watch;
mod watch_serve;

use crate::args::Command;
use crate::exit::{Exit, Failure};
use std::io::Write;

/// Does what was asked for.
pub fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Load(args) => load::run(*args),
        Command::Runs(args) => runs::run(&args),
        Command::Report(args) => report::run(&args),
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

/// Lets this process open as many descriptors as the hard limit allows: the soft one is a default for select(2) users.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the warning about too many connections stands.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The command line as it goes into recordings: without passwords.
fn command_line() -> Vec<String> {
    let mut hide_next = false;
    let mut words = Vec::new();
    for word in std::env::args_os().map(|word| word.to_string_lossy().into_owned()) {
        words.push(if std::mem::take(&mut hide_next) { "(hidden)".to_owned() } else { without_password(&word) });
        hide_next = word == "-u" || word == "--user";
    }
    words
}

/// A word of the command line with credentials taken out: `-uNAME:PASSWORD`, `scheme://NAME:PASSWORD@host`, and
/// header fields that carry them.
fn without_password(word: &str) -> String {
    if word.starts_with("--user=") || (word.starts_with("-u") && word.len() > 2) {
        return format!("{}(hidden)", if word.starts_with("--") { "--user=" } else { "-u" });
    }
    let lower = word.to_ascii_lowercase();
    for field in ["authorization:", "proxy-authorization:", "cookie:", "x-api-key:"] {
        if let Some(at) = lower.find(field) {
            return format!("{} (hidden)", &word[..at + field.len()]);
        }
    }
    match word.split_once("://") {
        Some((scheme, rest)) => {
            let host_ends = rest.find(['/', '?']).unwrap_or(rest.len());
            match rest[..host_ends].rfind('@') {
                Some(at) => format!("{scheme}://(hidden)@{}", &rest[at + 1..]),
                None => word.to_owned(),
            }
        }
        None => word.to_owned(),
    }
}

/// Hands everything printed to the kernel: a full disk behind stdout is a failure and not silence.
pub fn flush() -> Exit {
    match std::io::stdout().flush() {
        Ok(()) => Exit::Fine,
        Err(error) => Failure::from(error).show(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn passwords_do_not_reach_a_recording() {
        for (word, kept) in [
            ("http://a:b@h:1/x", "http://(hidden)@h:1/x"),
            ("http://h/x@y", "http://h/x@y"),
            ("-ume:secret", "-u(hidden)"),
            ("--user=me:secret", "--user=(hidden)"),
            ("-HAuthorization: Bearer x", "-HAuthorization: (hidden)"),
            ("--header=Cookie: a=b", "--header=Cookie: (hidden)"),
            ("-c10", "-c10"),
        ] {
            assert_eq!(without_password(word), kept);
        }
    }
}
