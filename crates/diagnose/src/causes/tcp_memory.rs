//! `tcp-memory`: the memory that TCP's buffers may have, of the machine or of the target's control group, is used up.
//!
//! Evidence: (kernel) TCP came under memory pressure (TCPMemoryPressures), or connections were reset for want of memory
//! (TCPAbortOnMemory); (client) requests failed, or slow ones took a tenth of all time. Pruned buffers and segments dropped from
//! receive queues (PruneCalled, TCPRcvQDrop) may be a single socket's own limit, and are no evidence. Refuted where none of these
//! grew, and where nobody was late. Source: tcp(7), tcp_mem; net/ipv4/tcp.c (tcp_enter_memory_pressure); measured in a control group
//! with a limit of its own: 40 pressures, 119 prunings.

use crate::evidence::{Client, Kernel};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::ledger::failures;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::SLOW_TIME;
use model::finding::Severity;
use model::units::show_grouped;

/// What counts, with the word for it.
const COUNTERS: [(&str, &str); 2] = [
    ("tcp_memory_pressures", "times TCP came under memory pressure"),
    ("tcp_abort_on_memory", "connections were reset for want of memory"),
];

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "tcp-memory", needs: Needs::Connections, reads: &[&["network/counters"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let grown: Vec<(f64, &str)> =
        COUNTERS.iter().filter_map(|(name, words)| Some((facts.grown(Subject::Network, name)?, *words))).collect();
    if grown.is_empty() {
        return Verdict::not_observable(
            "pressure on TCP's memory",
            "TCP's counters were not read twice in the measured time",
        );
    }
    let all: f64 = grown.iter().map(|(grown, _)| grown).sum();
    let seen: Vec<String> = grown
        .iter()
        .filter(|(grown, _)| *grown >= 1.0)
        .map(|(grown, words)| format!("{} {words}", show_grouped(*grown as u64)))
        .collect();
    let text = if seen.is_empty() { "TCP's memory was never short".to_owned() } else { seen.join(", ") };
    let kernel = facts.piece::<Kernel>(text, "tcp_memory_pressures", all, "times").from(1.0);
    if all < 1.0 {
        return Verdict::refuted("TCP's memory was never short").because(kernel.into());
    }
    let (failed, slow) = (failures(facts), facts.kinds.slow_time.unwrap_or(0.0));
    let text = format!(
        "{} requests failed, and slow ones took {} of all time beyond what others of their kind take",
        show_grouped(failed as u64),
        percent(slow)
    );
    let client = facts.piece::<Client>(text, "slow.time_share", slow, "ratio").from(SLOW_TIME.value);
    if failed < 1.0 && slow < SLOW_TIME.value {
        return Verdict::refuted("TCP's memory was short, and nobody was late for it").because(kernel.into());
    }
    Verdict::proved(Severity::Warning, "the memory for TCP's buffers is used up", kernel, client)
        .remedy("Raise net.ipv4.tcp_mem, or the control group's limit; let single buffers be smaller (tcp_rmem, tcp_wmem), and close connections that nobody reads from")
        .check("cat /proc/net/sockstat /proc/sys/net/ipv4/tcp_mem; nstat -az TcpExtTCPMemoryPressures TcpExtTCPRcvQDrop; ss -tm # skmem")
        .confidence(0.8)
}
