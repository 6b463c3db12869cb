//! Block I/O of the whole host: from a request's issue to its driver to its completion.
//!
//! By `block_rq_issue` and `block_rq_complete`. Whose request it is cannot be told for certain (the kernel writes back on
//! its own threads): `issued_by_target` counts those that a thread of the target issued itself. In
//! windows; requests that one cuts have no time: `began_before` it, or `not_ended` in it.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/block",
    about: "block I/O of the host: requests, errors, time",
    runs: Runs::InWindows,
    object: object!("block"),
    counts: &["issued", "issued_by_target", "errors", "began_before", "requests_lost"],
    histograms: &["io_ns"],
    read,
};

fn read(_: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    reading.count_not_ended("block.issued", "block.io_ns", "block.not_ended");
    Ok(())
}
