//! Programs of the system that a fault needs: where they are, what they say.
//!
//! Looked for in the system's own folders only, and never on the path: they run with root's rights.

use crate::error::{ApplyError, plain};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where programs of the system are.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// A program, and the Debian package it comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub name: &'static str,
    pub package: &'static str,
}

impl Program {
    /// Where it is.
    pub(crate) fn path(self) -> Result<PathBuf, ApplyError> {
        let all = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(self.name));
        all.into_iter().find(|path| path.is_file()).ok_or_else(|| ApplyError::Missing {
            name: self.name.to_owned(),
            expected: format!("the program of Debian's package {}", self.package),
            reason: format!("it is not there: apt-get install {}", self.package),
        })
    }

    /// Runs it with a text on its standard input; what it said, where it ended well.
    ///
    /// # Errors
    /// The last line that it said, as the reason.
    pub(crate) fn run(self, args: &[&str], input: &str) -> Result<String, ApplyError> {
        let said = self.ran(args, input)?;
        said.map_err(|reason| self.failed(args, reason))
    }

    /// That it did not end well, and why.
    pub(crate) fn failed(self, args: &[&str], reason: String) -> ApplyError {
        let name = format!("{} {}", self.name, args.join(" "));
        match reason.contains("Operation not permitted") {
            true => ApplyError::missing_right(&name, "CAP_NET_ADMIN is missing"),
            false => ApplyError::Missing { name, expected: "it to end well".to_owned(), reason },
        }
    }

    /// The same, with what it said where it did not end well as a value.
    pub(crate) fn ran(self, args: &[&str], input: &str) -> Result<Result<String, String>, ApplyError> {
        let path = self.path()?;
        let cannot = |error: std::io::Error| self.failed(args, plain(&error));
        let mut command = Command::new(path);
        command.args(args).env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ends without reading says why by itself.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(cannot)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(Ok(text(&output.stdout)));
        }
        // nft repeats the rule below its first line, and marks the place.
        let said = text(&output.stderr);
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Ok(Err(format!("{} ({})", line.trim().trim_start_matches("Error: "), output.status)))
    }
}
