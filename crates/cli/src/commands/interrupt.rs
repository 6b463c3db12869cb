//! Ctrl-C and SIGTERM: the first ends the run and prints it, the second ends the process at once.

use crate::exit::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that a signal sets.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag set.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupted))
            .and_then(|_| flag::register(signal, Arc::clone(&interrupted)))
            .map_err(|error| Failure::could_not_run(format!("expected to handle Ctrl-C, but {error}")))?;
    }
    Ok(interrupted)
}
