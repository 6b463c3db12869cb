//! A real redis-server on a free port of the loopback, with its files in a folder of its own, ended with the test.

use crate::port::Reserved;
use crate::process::Guard;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running redis-server.
#[derive(Debug)]
pub struct Redis {
    process: Guard,
    port: Reserved,
    folder: TempDir,
}

impl Redis {
    /// Starts one that keeps nothing on disk; `options` are further words of its command line.
    ///
    /// # Errors
    /// Where redis-server is not installed, cannot be started, or does not listen in the end.
    pub fn start(options: &[&str]) -> io::Result<Self> {
        let program = crate::program("redis-server").ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "redis-server is not installed (scripts/packages.sh test)")
        })?;
        let folder = tempfile::tempdir()?;
        let port = Reserved::new()?;
        let mut command = Command::new(program);
        command
            .current_dir(folder.path())
            .args(["--bind", "127.0.0.1", "--port", &port.address().port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--unixsocket", "redis.sock"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut redis = Redis { process: Guard::spawn(&mut command)?, port, folder };
        let address = redis.address();
        redis.process.until_it_listens("redis-server", address)?;
        Ok(redis)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Its process.
    pub fn process(&self) -> &Guard {
        &self.process
    }

    /// What redis-cli prints for a command.
    ///
    /// # Errors
    /// Where redis-cli cannot be run or reports a failure.
    pub fn cli(&self, words: &[&str]) -> io::Result<String> {
        let program = crate::program("redis-cli").ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "redis-cli is not installed (scripts/packages.sh test)")
        })?;
        let output = Command::new(program).args(["-p", &self.address().port().to_string()]).args(words).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// How often it has executed a command since its start, by its own count (`INFO commandstats`).
    ///
    /// # Errors
    /// As [`Redis::cli`].
    pub fn calls(&self, command: &str) -> io::Result<u64> {
        let stats = self.cli(&["INFO", "commandstats"])?;
        let line = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|text| text.strip_prefix(&line)).and_then(|rest| rest.split(',').next());
        Ok(calls.and_then(|number| number.parse().ok()).unwrap_or(0))
    }
}
