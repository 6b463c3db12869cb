//! The server's command, started for one run: waited for until it listens, and ended with all it started.

use super::{ConfirmError, address_of};
use model::plan::Plan;
use rustix::process::{Pid, Signal, kill_process_group};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to come up.
const UP: Duration = Duration::from_secs(10);
/// How long it may take to end before it is killed.
const DOWN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A running command.
#[derive(Debug)]
pub(crate) struct Started {
    child: Child,
}

impl Started {
    /// Starts it, in a process group of its own, and waits until somebody listens where the load goes.
    pub(crate) fn start(command: &str, plan: &Plan) -> Result<Self, ConfirmError> {
        let address = address_of(plan);
        let shown = address.map_or("a unix socket".to_owned(), |address| address.to_string());
        let failed = |why: String| ConfirmError::Command { command: command.to_owned(), address: shown.clone(), why };
        let Some(address) = address else {
            return Err(failed("the recorded load went to none with a TCP address".to_owned()));
        };
        // Another one there would be measured in its place.
        if listens(address) {
            return Err(failed("somebody else listens there already: end it first".to_owned()));
        }
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut started = Started { child };
        let began = Instant::now();
        while !listens(address) {
            if let Ok(Some(status)) = started.child.try_wait() {
                return Err(failed(format!("it ended ({status})")));
            }
            if began.elapsed() > UP {
                return Err(failed("nobody listens there".to_owned()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(started)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| {
            // A group that is gone needs none.
            let _ = group.map(|group| kill_process_group(group, signal));
        };
        signal(Signal::TERM);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < DOWN {
            std::thread::sleep(LOOK);
        }
        // Those of its children that did not listen, and itself.
        signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}
