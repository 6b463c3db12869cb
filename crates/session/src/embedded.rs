//! A reference target in a process of its own: this program, started again as `serve http`, ended by its id.
//!
//! Its ready line says where it listens. Nothing of it is left when the value is dropped.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running target.
#[derive(Debug)]
pub struct Embedded {
    child: Child,
    /// Kept open: a target that prints its counters at the end must not meet a closed pipe.
    _output: BufReader<ChildStdout>,
    /// Where it listens, with a slash at its end.
    pub url: String,
}

impl Embedded {
    /// Starts `program serve http` on a free loopback port, with one worker and further arguments.
    ///
    /// # Errors
    /// It could not be started, or did not say where it listens.
    pub fn serve_http(program: &Path, more: &[&str]) -> io::Result<Self> {
        let mut serve = Command::new(program);
        // What the environment says to this command is not said to that one.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PLIMSOLL_")) {
            serve.env_remove(name);
        }
        let mut child = serve
            .args(["serve", "http", "--listen", "127.0.0.1:0", "--workers", "1"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let Some(output) = child.stdout.take() else {
            return Err(io::Error::other("its output cannot be read"));
        };
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let url = line.split_whitespace().find(|word| word.contains("://")).map(str::to_owned);
        let mut started = Embedded { child, _output: output, url: String::new() };
        match url {
            Some(url) => {
                started.url = url;
                Ok(started)
            }
            None => Err(io::Error::other(format!("expected the line 'listening on http…', got '{}'", line.trim()))),
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
