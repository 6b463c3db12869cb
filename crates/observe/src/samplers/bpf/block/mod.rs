//! Block I/O of the whole host: from a request's issue to its driver to its completion.
//!
//! By `block_rq_issue` and `block_rq_complete`. Whose request it is cannot be told for certain (the kernel writes back on
//! its own threads): `issued_by_target` counts those that a thread of the target issued itself. In windows.

use super::{Probe, Reading, object};
use crate::source::bpf::{BpfError, Programs};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/block",
    about: "block I/O of the host: requests, errors, time",
    in_windows: true,
    object: object!("block"),
    counts: &["issued", "issued_by_target", "errors", "requests_lost"],
    histograms: &["io_ns"],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    // A request that began in this window and ends unseen must not be taken for one of the next.
    if reading.window_ended { programs.forget("issued") } else { Ok(()) }
}
