//! `openssl s_time -new`: full handshakes, one after the other.
//! It prints its count twice, against its own CPU seconds and against the clock; the second is read.

use anyhow::{Context as _, Result};

use super::{Captured, Reported};

/// Reads its text.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let ok = captured
        .stdout
        .lines()
        .filter(|line| line.contains("real seconds"))
        .find_map(|line| line.split_once(" connections in ")?.0.trim().parse().ok())
        .context("there is no line `N connections in S real seconds`")?;
    Ok(Reported { ok, ..Reported::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_count_against_the_clock_is_read() {
        let stdout = "Collecting connection statistics for 1 seconds\n*****\n\n733 connections in 1.02s; 718.63 connections/user sec, bytes read 0\n733 connections in 2 real seconds, 0 bytes read per connection\n";
        let reported = parse(Captured { stdout, folder: Path::new(".") }).unwrap();
        assert_eq!((reported.ok, reported.failed), (733, 0));
        assert!(parse(Captured { stdout: "", folder: Path::new(".") }).is_err());
    }
}
