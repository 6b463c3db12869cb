//! Segments of the target's ports that were sent again, reset, or dropped, the drops by the kernel's reason.
//!
//! By `tcp_retransmit_skb`, `tcp_send_reset`, `tcp_receive_reset` and `kfree_skb`. A reset without a socket (a port where
//! nobody listens) is not counted, a drop that gives no reason neither: a SYN for which the accept queue has no room is in
//! `ListenDrops` only. All of TCP and in the target's network namespaces: another protocol, or another namespace's server,
//! may have the same port. `drops_unplaced`: on a port of the target's, in a network that nothing tells any more (no socket,
//! device or route was left); they are in no other count. Of IPv6, segments with extension headers are not seen.
//! Cost: a comparison a freed packet of the host.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs, names};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/losses",
    about: "retransmissions, resets and drops with the kernel's reason, on the target's ports",
    runs: Runs::Always,
    object: object!("losses"),
    counts: &["retransmits", "resets_sent", "resets_received", "drops", "drops_unplaced"],
    histograms: &[],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let drops = reading.sample.counts.get("losses.drops").copied().unwrap_or(0);
    if reading.sample.drops.values().sum::<u64>() == drops {
        return Ok(());
    }
    let reasons = reading.names.drop_reasons.get_or_insert_with(names::drop_reasons);
    for (number, words) in programs.array("reasons")? {
        let name = reasons.get(&number).cloned().unwrap_or_else(|| format!("reason {number}"));
        reading.sample.drops.insert(name, words.first().copied().unwrap_or(0));
    }
    Ok(())
}
