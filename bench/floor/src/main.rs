//! The command `floor`: picks one loop, runs it for a bounded time, prints one line of JSON.
//! Diagnostics go to stderr; status 0 is a finished run, 1 a failed one, 2 bad usage.
//! It refuses any address that is not loopback: a bare loop has no manners.

use std::io::Write as _;
use std::process::ExitCode;

use floor::args::{Args, UsageError};
use floor::loops;

const USAGE: &str = "\
usage: floor LOOP --option value ...
  responder --port P [--cpu N] [--seconds S] [--stamps FILE --stamps-max N]
  echo-server --port P [--cpu N] [--seconds S]
  epoll     --addr A --connections C --seconds S [--path /] [--stamps FILE --stamps-max N]
  uring     --addr A --connections C --seconds S [--path /] [--wait N] [--wait-max-us U]
  due       --addr A --connections C --seconds S --rate R [--path /] [--epoll]
  connect   --addr A --seconds S [--connections C]
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (text, status) = match run(&words) {
        Ok(line) => {
            let written = writeln!(std::io::stdout(), "{line}");
            return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) };
        }
        Err(Failure::Usage(error)) => (format!("floor: {error}\n{USAGE}"), 2),
        Err(Failure::Run(error)) => (format!("floor: {error}\n"), 1),
    };
    // Nothing is left to tell when stderr is closed too: the status still says it.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(status)
}

enum Failure {
    Usage(UsageError),
    Run(std::io::Error),
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Run(error)
    }
}

fn run(words: &[String]) -> Result<String, Failure> {
    let (name, rest) = words.split_first().ok_or_else(|| UsageError("name a loop".to_owned()))?;
    let args = Args::parse(rest)?;
    floor::sys::raise_descriptor_limit();
    let line = match name.as_str() {
        "responder" => loops::responder::run(&loops::responder::Options::from_args(&args)?)?,
        "echo-server" => loops::echo_server::run(&loops::echo_server::Options::from_args(&args)?)?,
        "epoll" => loops::epoll::run(&loops::epoll::Options::from_args(&args)?)?.json("floor-epoll"),
        "uring" => {
            let options = loops::uring::Options::from_args(&args)?;
            loops::uring::run(&options)?.json("floor-uring")
        }
        "due" => {
            let options = loops::due_course::Options::from_args(&args)?;
            loops::due::run(&options)?.json(options.tool())
        }
        "connect" => loops::connect::run(&args.client()?)?.json("floor-connect"),
        other => return Err(UsageError(format!("there is no loop {other:?}")).into()),
    };
    Ok(line)
}
