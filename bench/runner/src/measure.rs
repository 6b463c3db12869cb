//! One run of one tool: started pinned, waited for without using CPU, its cost taken from its
//! rusage, its account parsed, and thrown away when something else used the machine meanwhile.
//! Output goes to files, so that the runner does not wake while the tool runs.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use floor::process::{self, Ended};
use serde::Serialize;

use crate::args::Settings;
use crate::drain::StallFacts;
use crate::parse::{Captured, Reported};
use crate::quiet::Watch;
use crate::target::Target;
use crate::tools::{Kind, Load, Row};

/// How long a tool may take beyond twice its time before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one run yielded.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The tool's own account.
    pub reported: Reported,
    /// User and system CPU time of the whole tool, in seconds, from its rusage.
    pub cpu_seconds: f64,
    /// The target's CPU time meanwhile, in seconds.
    pub target_cpu_seconds: f64,
    /// From start to end of the tool's process, in seconds.
    pub wall_seconds: f64,
    /// How often its threads went to sleep.
    pub sleeps: u64,
    /// `VmHWM` of the tool, in bytes, where it was watched.
    pub peak_rss_bytes: Option<u64>,
    /// Cores' worth of load that was neither the tool's, the target's, nor this runner's.
    pub other_load: f64,
    /// Exit status.
    pub status: i32,
    /// What happened to the target meanwhile, where it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<StallFacts>,
}

impl Measured {
    /// The key figure.
    pub fn requests_per_cpu_second(&self) -> f64 {
        self.reported.ok as f64 / self.cpu_seconds
    }
}

/// A tool under way.
#[derive(Debug)]
pub struct Running<'a> {
    row: &'a Row,
    load: Load,
    program: PathBuf,
    child: Child,
    watch: Watch,
    started: Instant,
    target_cpu_s: f64,
}

impl Running<'_> {
    /// The tool's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Starts a tool against a target on these CPUs.
///
/// # Errors
/// It is not installed or cannot be started.
pub fn start<'a>(
    row: &'a Row,
    load: &Load,
    target: &Target,
    cpus: &[usize],
    settings: &Settings,
) -> Result<Running<'a>> {
    let program = row.path(settings).context("it is not installed")?;
    row.prepare(load)?;
    let mut command = Command::new(&program);
    command
        .args((row.args)(load))
        .current_dir(&load.folder)
        .stdin(Stdio::null())
        .stdout(File::create(load.folder.join("stdout"))?)
        .stderr(File::create(load.folder.join("stderr"))?);
    process::prepare(&mut command, cpus);
    let target_cpu_s = target.cpu_seconds();
    let watch = Watch::start()?;
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
    Ok(Running { row, load: load.clone(), program, child, watch, started, target_cpu_s })
}

/// Waits for a tool and reads what it left.
///
/// # Errors
/// It had to be killed, was ended by a signal, failed, or said nothing that can be read.
pub fn finish(running: Running<'_>, target: &Target) -> Result<Measured> {
    let Running { row, load, program, child, watch, started, target_cpu_s } = running;
    let limit = Duration::from_secs_f64(load.seconds * 2.0) + PATIENCE;
    let ended = process::wait(child, limit)?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let target_cpu_seconds = target.cpu_seconds() - target_cpu_s;
    let other_load = watch.other_load(ended.cpu_seconds() + target_cpu_seconds)?;
    let status = accepted(row, &ended).with_context(|| said(&load))?;
    let stdout = match row.after {
        None => String::from_utf8_lossy(&std::fs::read(load.folder.join("stdout"))?).into_owned(),
        Some(after) => {
            let output = Command::new(&program).args(after(&load)).output()?;
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
    };
    let reported = (row.parse)(Captured { stdout: &stdout, folder: &load.folder }).with_context(|| said(&load))?;
    if reported.ok == 0 {
        bail!("it reports not one request; {}", said(&load));
    }
    Ok(Measured {
        reported,
        cpu_seconds: ended.cpu_seconds(),
        target_cpu_seconds,
        wall_seconds,
        sleeps: ended.sleeps,
        peak_rss_bytes: None,
        other_load,
        status,
        stall: None,
    })
}

/// plimsoll says with 3 and 4 what it thinks of its result: that is noted, not a failure.
fn accepted(row: &Row, ended: &Ended) -> Result<i32> {
    let may_judge = matches!(row.kind, Kind::Plimsoll | Kind::PlimsollBatch);
    match ended.status {
        _ if ended.timed_out => bail!("it did not end and was killed"),
        Some(0) => Ok(0),
        Some(status @ (3 | 4)) if may_judge => Ok(status),
        Some(status) => bail!("it ended with status {status}"),
        None => bail!("it was ended by signal {}", ended.signal.unwrap_or(0)),
    }
}

/// The last lines of its stderr, for an error message.
fn said(load: &Load) -> String {
    let text = std::fs::read(load.folder.join("stderr")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.trim().lines().rev().take(3).collect();
    match lines.as_slice() {
        [] => "it says nothing on stderr".to_owned(),
        lines => {
            let last: Vec<&str> = lines.iter().rev().copied().collect();
            format!("it says: {}", last.join(" / "))
        }
    }
}
