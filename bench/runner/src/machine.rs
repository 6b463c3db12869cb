//! What a table was measured on: machine, kernel, date, versions of all tools.
//! A version that cannot be had is written as such: nothing here may fail a measurement.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// The machine of a result.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release and build.
    pub kernel: String,
    /// What `net.ipv4.tcp_congestion_control` says.
    pub congestion_control: String,
}

/// Reads it from /proc.
pub fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_prefix(':'))
            .map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
    };
    let memory_kib: u64 = field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name"),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: memory_kib * 1024,
        kernel: format!("{} {}", read("/proc/sys/kernel/osrelease").trim(), read("/proc/sys/kernel/version").trim()),
        congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().to_owned(),
    }
}

/// Memory that can be had without swapping (`MemAvailable`), in bytes.
///
/// # Errors
/// /proc does not say.
pub fn memory_available_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024).context("/proc/meminfo has no line MemAvailable")
}

/// The first line each program prints about its version.
pub fn versions(programs: &[(&str, &Path, &str)]) -> BTreeMap<String, String> {
    programs.iter().map(|(name, path, option)| ((*name).to_owned(), version(path, option))).collect()
}

fn version(path: &Path, option: &str) -> String {
    let Ok(output) = Command::new(path).arg(option).output() else {
        return "not installed".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text)
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("says no version")
        .to_owned()
}

/// The program in the folders of `PATH`, as a shell would find it.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .chain([Path::new("/usr/sbin").to_owned()])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Now, as `2026-01-31T23:59:59Z`.
pub fn now_utc() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    utc(seconds)
}

fn utc(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Days since 1970-01-01 as a date of the Gregorian calendar: whole years are counted from
/// 0000-03-01, so that the leap day is a year's last (Howard Hinnant, "chrono-compatible
/// low-level date algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn a_missing_program_is_said_so() {
        assert_eq!(version(Path::new("/no/such/program"), "-v"), "not installed");
        assert_eq!(find("no-such-program-here"), None);
        assert!(find("sh").is_some());
    }
}
