//! Whom a fault may mean: the target's processes, those that listen on a port of this host, and what starts the target again.

use crate::target::Life;
use fault::{Around, Starter};
use model::plan::Address;
use std::sync::Arc;

/// A target that was started for the run.
#[derive(Debug, Clone)]
pub struct Started(pub(crate) Arc<Life>);

/// Whom `target` means, as far as it is known.
#[derive(Debug, Clone)]
pub struct Whom {
    /// The target's processes, or half a sentence that says why none are known.
    pub target: Result<Vec<u32>, String>,
    /// What starts the target again, where it was started here.
    pub starter: Option<Arc<dyn Starter>>,
}

impl Whom {
    /// A process alone.
    pub fn process(pid: Option<u32>) -> Self {
        let target = pid.map(|pid| vec![pid]).ok_or_else(|| "none was named or found".to_owned());
        Whom { target, starter: None }
    }

    /// Nobody's target: for faults beside no run.
    pub fn without_run() -> Self {
        let why = "there is no run here that has one: it is for --fault of `plimsoll load` and for scenario files";
        Whom { target: Err(why.to_owned()), starter: None }
    }

    /// Whoever listens now where a load goes, and where nobody does the process that was started for it.
    pub(crate) fn of_run(addresses: &[Address], started: Option<&Started>) -> Self {
        let found = observe::target::find(addresses).map_err(|why| why.to_string());
        let target = match (found, started) {
            (Err(_), Some(Started(life))) => Ok(vec![life.pid()]),
            (found, _) => found,
        };
        Whom { target, starter: started.map(|Started(life)| Arc::clone(life) as Arc<dyn Starter>) }
    }
}

impl Around for Whom {
    fn target(&self) -> Result<Vec<u32>, String> {
        self.target.clone()
    }

    fn listeners(&self, port: u16) -> Result<Vec<u32>, String> {
        observe::target::find_port(port).map(|(pids, _)| pids).map_err(|error| error.to_string())
    }

    fn starter(&self) -> Option<Arc<dyn Starter>> {
        self.starter.clone()
    }
}
