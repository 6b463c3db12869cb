//! Signals: a process stopped until it is told to go on, killed, or asked to end.
//!
//! Sent through a pidfd that is held while its process's start time is looked at, so another process with a used id never
//! gets one (pidfd_open(2)). Stopping is undone by SIGCONT, and is in the journal; an end cannot be undone. With `tree:` all
//! that descends from the process gets it, as far as it was there when it was looked at. A stopped process keeps its
//! sockets: the kernel takes connections and data for it until its queues are full.

use super::{Act, Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::{ApplyError, BadArgument};
use crate::process::{Process, Who, gone, id_of, is_there, may_signal, stat};
use crate::words::Words;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NEEDS: &str = "root, or the process's own user";

/// SIGSTOP, and SIGCONT after.
pub(crate) const STOP: Kind = Kind {
    name: "stop",
    takes: "WHO",
    example: "target",
    does: "stops processes (SIGSTOP): they keep their sockets, and answer nothing",
    needs: NEEDS,
    undone: Undoing::Back("they go on (SIGCONT)"),
    parse: |words| Ok(Arc::new(Stopping { who: words.who()? })),
};

/// SIGKILL.
pub(crate) const KILL: Kind = Kind {
    name: "kill",
    takes: "WHO",
    example: "port:8080",
    does: "kills processes (SIGKILL)",
    needs: NEEDS,
    undone: Undoing::Never("what was killed does not come back"),
    parse: |words| sending(words, Signal::KILL, "SIGKILL"),
};

/// SIGTERM.
pub(crate) const TERM: Kind = Kind {
    name: "term",
    takes: "WHO",
    example: "tree:1234",
    does: "asks processes to end (SIGTERM)",
    needs: NEEDS,
    undone: Undoing::Never("what ended does not come back"),
    parse: |words| sending(words, Signal::TERM, "SIGTERM"),
};

/// SIGCONT.
pub(crate) const CONT: Kind = Kind {
    name: "cont",
    takes: "WHO",
    example: "target",
    does: "lets stopped processes go on (SIGCONT)",
    needs: NEEDS,
    undone: Undoing::Never("stop is the fault that can be"),
    parse: |words| sending(words, Signal::CONT, "SIGCONT"),
};

#[derive(Debug)]
struct Stopping {
    who: Who,
}

impl Fault for Stopping {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        all.iter().map(|process| Ok(Deed::Change(Change::Stop(Stop::planned(process)?)))).collect()
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// Whether a process is stopped: `running` or `stopped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pid: u32,
    started: u64,
    before: String,
    after: String,
}

impl Stop {
    fn planned(process: &Process) -> Result<Self, ApplyError> {
        let Process { pid, started, .. } = *process;
        let before = state(pid).ok_or_else(|| gone(pid))?;
        Ok(Stop { pid, started, before, after: "stopped".to_owned() })
    }
}

impl Reversible for Stop {
    fn name(&self) -> String {
        format!("process {}", self.pid)
    }

    fn identity(&self) -> String {
        format!("process {} of {}", self.pid, self.started)
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn check(&self) -> Result<(), ApplyError> {
        if self.pid <= 1 || self.pid == std::process::id() {
            return Err(ApplyError::NeverTouched { pid: self.pid });
        }
        match [&self.before, &self.after].into_iter().all(|value| value == "running" || value == "stopped") {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.after)),
        }
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(if is_there(self.pid, self.started) { state(self.pid) } else { None })
    }

    fn may(&self) -> Result<(), ApplyError> {
        may_signal(self.pid)
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        if value != "stopped" {
            return send(self.pid, self.started, Signal::CONT);
        }
        send(self.pid, self.started, Signal::STOP)?;
        // It stops when it next comes to a CPU: whoever undoes this at once must find it stopped, or would leave it to stop later.
        let began = Instant::now();
        while began.elapsed() < STOPS_WITHIN
            && stat(self.pid).is_some_and(|stat| !stat.starts_with(['T', 't', 'Z', 'X']))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// One that waits for a disk stops after that: until then the signal is pending.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

/// Whether it is stopped by a signal, or will be as soon as it comes to run; `None` where there is none.
fn state(pid: u32) -> Option<String> {
    let is_stopped = stat(pid)?.starts_with('T') || is_stop_pending(pid);
    Some(if is_stopped { "stopped" } else { "running" }.to_owned())
}

/// Whether SIGSTOP waits to be delivered to it (proc(5): `SigPnd`, `ShdPnd`).
fn is_stop_pending(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bit = 1_u64 << (Signal::STOP.as_raw() - 1);
    status.lines().filter_map(|line| line.split_once(':')).any(|(name, mask)| {
        matches!(name, "SigPnd" | "ShdPnd") && u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & bit != 0)
    })
}

/// Sends a signal to the very process that began then.
pub(crate) fn send(pid: u32, started: u64, signal: Signal) -> Result<(), ApplyError> {
    let handle = pidfd_open(id_of(pid)?, PidfdFlags::empty()).map_err(|_| gone(pid))?;
    // The handle is of whoever has the id; as long as that one began at its moment, it is the one that was meant.
    if !is_there(pid, started) {
        return Err(gone(pid));
    }
    pidfd_send_signal(&handle, signal).map_err(|error| match error {
        rustix::io::Errno::PERM => ApplyError::missing_right(&format!("process {pid}"), "it is another user's"),
        _ => gone(pid),
    })
}

fn sending(words: &mut Words<'_>, signal: Signal, name: &'static str) -> Result<Arc<dyn Fault>, BadArgument> {
    Ok(Arc::new(Sending { who: words.who()?, signal, name }))
}

#[derive(Debug)]
struct Sending {
    who: Who,
    signal: Signal,
    name: &'static str,
}

impl Fault for Sending {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let (signal, name) = (self.signal, self.name);
        let all = self.who.find(around)?.into_iter();
        Ok(all.map(|process| Deed::Act(Box::new(Sent { process, signal, name }))).collect())
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

#[derive(Debug)]
struct Sent {
    process: Process,
    signal: Signal,
    name: &'static str,
}

impl Act for Sent {
    fn words(&self) -> String {
        format!("{} to {}", self.name, self.process.words())
    }

    fn may(&self) -> Result<(), ApplyError> {
        may_signal(self.process.pid)
    }

    fn begin(&mut self) -> Result<(), ApplyError> {
        match send(self.process.pid, self.process.started, self.signal) {
            // The end of one of them may have been the end of this one, too.
            Err(_) if !self.process.is_there() => Ok(()),
            sent => sent,
        }
    }
}
