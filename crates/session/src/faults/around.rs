//! Whom a fault may mean: the target's processes, those that listen on a port of this host, and what starts the target again.

use fault::{Around, Starter};
use std::sync::Arc;

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
