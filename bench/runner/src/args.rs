//! The command line of the runner: a subcommand and `--option value` pairs.
//! Defaults are those of the method in `bench/README.md`; everything that changes a figure is in
//! the written results, so that a table can be repeated.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

/// What `bench` prints when it was not understood.
pub const USAGE: &str = "\
usage: bench http|open|stall|lag|memory|tls|hold|observe|serve|start|workers|unix|all [--option value]...
  --seconds N       length of one run (http and tls 3, serve and unix 2, lag and workers 5, hold 1, the others 10)
  --rounds N        rounds (5; stall and memory 3; observe and workers 10; start 15)
  --retries N       more attempts for a run with other load on the machine (3)
  --other-load X    cores' worth of other load above which a run is thrown away (0.10)
  --quiet-patience N  seconds to wait for a quiet machine before such a run is made again (30)
  --connections L   numbers of connections, with commas (http and serve 64,1000; else 64)
  --rate N          requests per second of an open loop (5000)
  --long N[s]       length of memory's long run (600)
  --targets L       nginx,responder,serve (http)
  --tools L         only rows whose name contains one of these words, or is one behind =
  --target-cpu N    CPU of the target (0)
  --load-cpu N      CPU of the generator (1)
  --plimsoll PATH   default: beside this binary
  --floor PATH      default: beside this binary
  --serve-args S    how plimsoll serves http ('serve http --listen {addr}'; also {port})
  --out DIR         bench/results
  --no-build        measure the binaries as they are";

/// Everything the command line decides.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// `http`, `open`, …
    pub command: String,
    /// Length of one run.
    pub seconds: Option<f64>,
    /// Number of rounds.
    pub rounds: Option<usize>,
    /// Further attempts for a run that was thrown away.
    pub retries: usize,
    /// Cores' worth of other load above which a run is thrown away.
    pub other_load_max: f64,
    /// How long to wait for a quiet machine before a run is made again, in seconds.
    pub quiet_patience_s: f64,
    /// Numbers of connections; empty: those of the subcommand.
    connections: Vec<usize>,
    /// Requests per second of an open loop.
    pub rate_per_s: f64,
    /// Length of memory's long run, in seconds.
    pub long_seconds: f64,
    /// Names of targets.
    pub targets: Vec<String>,
    /// Words of which a row's name must contain one; empty: all rows.
    pub tools: Vec<String>,
    /// CPU of the target.
    pub target_cpu: usize,
    /// CPU of the generator.
    pub load_cpu: usize,
    /// Where plimsoll is.
    #[serde(serialize_with = "from_here")]
    pub plimsoll: PathBuf,
    /// Where the bare loops are.
    #[serde(serialize_with = "from_here")]
    pub floor: PathBuf,
    /// Arguments that make plimsoll serve HTTP, with `{addr}` and `{port}` to be filled in.
    pub serve_args: String,
    /// Folder of the results.
    pub out: PathBuf,
    /// Whether to build floor and plimsoll first.
    pub build: bool,
}

/// A path as seen from where the benchmarks were called, or by its last part: results must not tell where a checkout lies.
fn from_here<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    let here = std::env::current_dir().unwrap_or_default();
    let name = || path.file_name().map_or(path, Path::new);
    let shown = path.strip_prefix(&here).unwrap_or_else(|_| if path.is_absolute() { name() } else { path });
    to.serialize_str(&shown.to_string_lossy())
}

/// The subcommands, `all` being the others in this order.
pub const COMMANDS: &[&str] =
    &["start", "http", "open", "stall", "lag", "memory", "tls", "hold", "observe", "serve", "workers", "unix", "all"];
/// The targets of `http`.
pub const TARGETS: &[&str] = &["nginx", "responder", "serve"];

impl Settings {
    /// Reads the command line.
    ///
    /// # Errors
    /// Anything unknown, unreadable or out of bounds, in words.
    pub fn parse(words: &[String]) -> Result<Self> {
        let (command, rest) = words.split_first().context("name a subcommand")?;
        ensure!(COMMANDS.contains(&command.as_str()), "there is no subcommand {command:?}");
        let mut settings = Self::defaults(command);
        let mut rest = rest.iter();
        while let Some(option) = rest.next() {
            if option == "--no-build" {
                settings.build = false;
                continue;
            }
            let value = rest.next().with_context(|| format!("{option} needs a value"))?;
            settings.set(option, value).with_context(|| format!("{option} {value}"))?;
        }
        settings.check()?;
        Ok(settings)
    }

    /// The same settings for another subcommand.
    pub fn with_command(&self, command: &str) -> Self {
        Self { command: command.to_owned(), ..self.clone() }
    }

    /// Numbers of connections to measure.
    pub fn connections(&self) -> &[usize] {
        match (self.connections.as_slice(), self.command.as_str()) {
            ([], "http" | "serve") => &[64, 1000],
            ([], "unix") => &[1],
            ([], _) => &[64],
            (given, _) => given,
        }
    }

    fn defaults(command: &str) -> Self {
        let beside = |name: &str| {
            std::env::current_exe()
                .ok()
                .and_then(|path| path.parent().map(|folder| folder.join(name)))
                .unwrap_or_else(|| PathBuf::from("target/release").join(name))
        };
        Self {
            command: command.to_owned(),
            seconds: None,
            rounds: None,
            retries: 3,
            other_load_max: 0.10,
            quiet_patience_s: 30.0,
            connections: Vec::new(),
            rate_per_s: 5000.0,
            long_seconds: 600.0,
            targets: TARGETS.iter().map(|&name| name.to_owned()).collect(),
            tools: Vec::new(),
            target_cpu: 0,
            load_cpu: 1,
            plimsoll: beside("plimsoll"),
            floor: beside("floor"),
            serve_args: "serve http --listen {addr}".to_owned(),
            out: PathBuf::from("bench/results"),
            build: true,
        }
    }

    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match option {
            "--seconds" => self.seconds = Some(seconds(value)?),
            "--rounds" => self.rounds = Some(value.parse()?),
            "--retries" => self.retries = value.parse()?,
            "--other-load" => self.other_load_max = value.parse()?,
            "--quiet-patience" => self.quiet_patience_s = value.parse()?,
            "--connections" => {
                self.connections =
                    list().iter().map(|number| number.parse().map_err(Into::into)).collect::<Result<_>>()?;
            }
            "--rate" => self.rate_per_s = value.parse()?,
            "--long" => self.long_seconds = seconds(value)?,
            "--targets" => self.targets = list(),
            "--tools" => self.tools = list(),
            "--target-cpu" => self.target_cpu = value.parse()?,
            "--load-cpu" => self.load_cpu = value.parse()?,
            "--plimsoll" => self.plimsoll = PathBuf::from(value),
            "--floor" => self.floor = PathBuf::from(value),
            "--serve-args" => value.clone_into(&mut self.serve_args),
            "--out" => self.out = PathBuf::from(value),
            _ => bail!("there is no such option"),
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        for target in &self.targets {
            ensure!(TARGETS.contains(&target.as_str()), "there is no target {target:?}: {}", TARGETS.join(", "));
        }
        ensure!(
            self.connections.iter().all(|&count| (1..=8000).contains(&count)),
            "--connections: each must be in 1..=8000, the room of the nginx started here"
        );
        ensure!(self.rounds.is_none_or(|rounds| (1..=1000).contains(&rounds)), "--rounds must be in 1..=1000");
        ensure!((0.0..=3600.0).contains(&self.quiet_patience_s), "--quiet-patience must be in 0..=3600");
        ensure!(self.rate_per_s > 0.0 && self.rate_per_s <= 1e7, "--rate must be above 0 and at most 10,000,000");
        ensure!(self.other_load_max > 0.0, "--other-load must be above 0: /proc/stat is not exact");
        Ok(())
    }
}

/// `600s` or `600`; above 0 and at most a day. Whole seconds, because ab, wrk and h2load know no
/// others.
fn seconds(text: &str) -> Result<f64> {
    let value: u32 = text.strip_suffix('s').unwrap_or(text).parse()?;
    ensure!((1..=86_400).contains(&value), "seconds must be in 1..=86400");
    Ok(f64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Settings::parse(&words)
    }

    #[test]
    fn options_are_read() {
        let settings = parse("memory --long 30s --seconds 2 --tools wrk,plimsoll").unwrap();
        assert_eq!(settings.long_seconds, 30.0);
        assert_eq!(settings.seconds, Some(2.0));
        assert_eq!(settings.tools, ["wrk", "plimsoll"]);
        assert_eq!(settings.connections(), [64]);
        assert_eq!(settings.with_command("http").connections(), [64, 1000]);
        assert_eq!(parse("http --connections 5,6").unwrap().connections(), [5, 6]);
    }

    #[test]
    fn what_must_be_refused_is() {
        for line in [
            "",
            "htttp",
            "http --rounds 0",
            "http --seconds 0",
            "http --seconds 0.5",
            "http --connections 64,0",
            "http --connections 9000",
            "http --targets apache",
            "http --rate -1",
            "http --other-load 0",
            "http --quiet-patience NaN",
            "http --unknown 1",
            "http --rounds",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
