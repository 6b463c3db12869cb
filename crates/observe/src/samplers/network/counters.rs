//! The network stack's counters, from `/proc/<pid>/net/{snmp,netstat}`: of the network namespace of the target.
//! Where no target is known they are those of the generator's namespace; where both ends are on this host, both ends'
//! traffic is in them. Names that a kernel does not have are absent. Their meaning: RFC 4022 (TCP-MIB), RFC 4293 (IP-MIB)
//! and Documentation/networking/snmp_counter.rst.
//! Cost: two reads a second, some 4 KiB. Needs no privilege.

use super::folder;
use crate::metric::{Metric, counter, fill, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, SampleError, lines, number, words};
use model::Snapshot;

const METRICS: &[Metric] = &[
    counter("tcp_active_opens", "connections", "Tcp.ActiveOpens", "begun from this side"),
    counter("tcp_passive_opens", "connections", "Tcp.PassiveOpens", "begun from the other side"),
    counter("tcp_attempt_fails", "connections", "Tcp.AttemptFails", "that did not come to be"),
    counter("tcp_established_resets", "connections", "Tcp.EstabResets", "reset while they were established"),
    gauge("tcp_established", "connections", "Tcp.CurrEstab", "in ESTABLISHED or CLOSE-WAIT"),
    counter("tcp_in_segments", "segments", "Tcp.InSegs", "received"),
    counter("tcp_out_segments", "segments", "Tcp.OutSegs", "sent, without those sent again"),
    counter("tcp_retransmits", "segments", "Tcp.RetransSegs", "sent again"),
    counter("tcp_in_errors", "segments", "Tcp.InErrs", "received with an error"),
    counter("tcp_out_resets", "segments", "Tcp.OutRsts", "sent with RST"),
    counter("listen_overflows", "connections", "TcpExt.ListenOverflows", "not taken: the queue of a listener was full"),
    counter("listen_drops", "connections", "TcpExt.ListenDrops", "not taken, for whatever reason; overflows are in it"),
    counter(
        "syn_queue_full_drops",
        "segments",
        "TcpExt.TCPReqQFullDrop",
        "SYNs dropped: the SYN queue was full, without cookies",
    ),
    counter(
        "syn_queue_full_cookies",
        "segments",
        "TcpExt.TCPReqQFullDoCookies",
        "SYNs answered with a cookie: the queue was full",
    ),
    counter("syn_cookies_sent", "segments", "TcpExt.SyncookiesSent", "SYN cookies sent"),
    counter("syn_cookies_received", "segments", "TcpExt.SyncookiesRecv", "SYN cookies that came back right"),
    counter("syn_cookies_failed", "segments", "TcpExt.SyncookiesFailed", "SYN cookies that came back wrong"),
    counter("delayed_acks", "segments", "TcpExt.DelayedACKs", "bare ACKs after the delayed-ACK time"),
    counter("delayed_acks_locked", "times", "TcpExt.DelayedACKLocked", "delayed ACK put off: the socket was in use"),
    counter("delayed_acks_lost", "times", "TcpExt.DelayedACKLost", "the peer sent again what was not acknowledged yet"),
    counter("tcp_fast_retransmits", "segments", "TcpExt.TCPFastRetrans", "sent again after duplicate ACKs or SACK"),
    counter("tcp_slow_start_retransmits", "segments", "TcpExt.TCPSlowStartRetrans", "sent again in slow start"),
    counter("tcp_lost_retransmits", "segments", "TcpExt.TCPLostRetransmit", "sent again and lost again"),
    counter("tcp_syn_retransmits", "segments", "TcpExt.TCPSynRetrans", "SYNs and SYN-ACKs sent again"),
    counter("tcp_retransmit_fails", "segments", "TcpExt.TCPRetransFail", "could not be sent again"),
    counter("tcp_timeouts", "times", "TcpExt.TCPTimeouts", "retransmission timeouts"),
    counter("tcp_spurious_timeouts", "times", "TcpExt.TCPSpuriousRTOs", "of those, needless"),
    counter("tcp_loss_probes", "segments", "TcpExt.TCPLossProbes", "tail loss probes sent"),
    counter("tcp_loss_probe_recoveries", "times", "TcpExt.TCPLossProbeRecovery", "losses that a probe repaired"),
    counter("tcp_sack_recoveries", "times", "TcpExt.TCPSackRecovery", "loss recoveries with SACK"),
    counter("tcp_sack_reorders", "times", "TcpExt.TCPSACKReorder", "reordering seen by SACK"),
    counter("tcp_timestamp_reorders", "times", "TcpExt.TCPTSReorder", "reordering seen by timestamps"),
    counter("tcp_out_of_order_queued", "segments", "TcpExt.TCPOFOQueue", "came before others that were due first"),
    counter("tcp_dsack_received", "segments", "TcpExt.TCPDSACKRecv", "the peer had it already: sent again needlessly"),
    counter("tcp_dsack_undos", "times", "TcpExt.TCPDSACKUndo", "slow-downs taken back after that"),
    counter("tcp_dsack_old_sent", "segments", "TcpExt.TCPDSACKOldSent", "told the peer that it sent needlessly"),
    counter("tcp_memory_pressures", "times", "TcpExt.TCPMemoryPressures", "TCP's memory came to the pressure mark"),
    counter("tcp_memory_pressure_ms", "ms", "TcpExt.TCPMemoryPressuresChrono", "time under pressure"),
    counter("tcp_pruned", "times", "TcpExt.PruneCalled", "receive buffers squeezed for want of memory"),
    counter(
        "tcp_receive_pruned",
        "segments",
        "TcpExt.RcvPruned",
        "dropped from a receive buffer that stayed too large",
    ),
    counter("tcp_out_of_order_pruned", "times", "TcpExt.OfoPruned", "out-of-order queues thrown away"),
    counter("tcp_receive_queue_drops", "segments", "TcpExt.TCPRcvQDrop", "dropped: no memory for the receive queue"),
    counter("tcp_backlog_drops", "segments", "TcpExt.TCPBacklogDrop", "dropped: the backlog of a busy socket was full"),
    counter("tcp_memory_drops", "segments", "TcpExt.PFMemallocDrop", "dropped: they came into memory kept for reclaim"),
    counter("tcp_zero_window_drops", "segments", "TcpExt.TCPZeroWindowDrop", "dropped: the window was zero"),
    counter("tcp_collapsed", "segments", "TcpExt.TCPRcvCollapsed", "merged in receive buffers to save memory"),
    counter(
        "tcp_write_queue_refusals",
        "times",
        "TcpExt.TCPWqueueTooBig",
        "sending refused: the write queue was too large",
    ),
    counter("tcp_to_zero_window", "times", "TcpExt.TCPToZeroWindowAdv", "the window was closed"),
    counter("tcp_from_zero_window", "times", "TcpExt.TCPFromZeroWindowAdv", "the window was opened again"),
    counter("tcp_want_zero_window", "times", "TcpExt.TCPWantZeroWindowAdv", "the window would have been closed"),
    counter("tcp_zero_window_probes", "segments", "TcpExt.TCPWinProbe", "probes of a closed window"),
    counter("tcp_abort_on_data", "connections", "TcpExt.TCPAbortOnData", "reset: closed with data that was not read"),
    counter("tcp_abort_on_close", "connections", "TcpExt.TCPAbortOnClose", "reset: data came after they were closed"),
    counter("tcp_abort_on_memory", "connections", "TcpExt.TCPAbortOnMemory", "reset: too many orphans or no memory"),
    counter("tcp_abort_on_timeout", "connections", "TcpExt.TCPAbortOnTimeout", "given up after a timeout"),
    counter("tcp_abort_on_linger", "connections", "TcpExt.TCPAbortOnLinger", "given up after the linger time"),
    counter("tcp_abort_failed", "connections", "TcpExt.TCPAbortFailed", "whose RST could not be sent"),
    counter("tcp_time_wait", "connections", "TcpExt.TW", "ended in TIME-WAIT by its timer"),
    counter("tcp_time_wait_recycled", "connections", "TcpExt.TWRecycled", "TIME-WAIT sockets used again"),
    counter(
        "tcp_time_wait_overflows",
        "connections",
        "TcpExt.TCPTimeWaitOverflow",
        "not kept: more than tcp_max_tw_buckets",
    ),
    counter("tcp_keepalives", "segments", "TcpExt.TCPKeepAlive", "keep-alive probes sent"),
    counter("tcp_challenge_acks", "segments", "TcpExt.TCPChallengeACK", "challenge ACKs (RFC 5961)"),
    counter(
        "tcp_autocorked",
        "segments",
        "TcpExt.TCPAutoCorking",
        "small segments held back while others were on their way",
    ),
    counter("ip_in_discards", "packets", "Ip.InDiscards", "discarded without an error, received"),
    counter("ip_out_discards", "packets", "Ip.OutDiscards", "discarded without an error, to be sent"),
    counter("ip_out_no_routes", "packets", "Ip.OutNoRoutes", "to be sent, without a route"),
    counter("udp_in_errors", "datagrams", "Udp.InErrors", "received and not delivered"),
    counter("udp_receive_buffer_errors", "datagrams", "Udp.RcvbufErrors", "of those, the receive buffer was full"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/counters",
    about: "TCP's, UDP's and IP's counters of the target's network namespace (/proc/<pid>/net/snmp, netstat)",
    needs: "nothing",
    cost: "2 reads a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Counters),
};

#[derive(Debug)]
struct Counters;

impl Sampler for Counters {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let (folder, _) = folder(snapshot);
        for name in ["snmp", "netstat"] {
            let text = buffers.read(format_args!("{folder}/{name}"))?;
            let columns = Columns::of(text);
            if fill(METRICS, &mut snapshot.network, |key| columns.number(key)) == 0 {
                return Err(SampleError::lacks(format!("{folder}/{name}"), "every name that is looked for"));
            }
        }
        Ok(())
    }
}

/// The numbers of a text by section and name, in that order: of two lines that begin with `section:` the first has names,
/// the second numbers.
struct Columns<'a>(Vec<(&'a [u8], &'a [u8], &'a [u8])>);

impl<'a> Columns<'a> {
    fn of(text: &'a [u8]) -> Self {
        let of_line = |line: &'a [u8]| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line.get(..colon)?, line.get(colon + 1..)?))
        };
        let mut all = Vec::new();
        let mut rest = lines(text).filter_map(of_line);
        while let (Some((section, names)), Some((_, numbers))) = (rest.next(), rest.next()) {
            all.extend(words(names).zip(words(numbers)).map(|(name, number)| (section, name, number)));
        }
        all.sort_unstable();
        Columns(all)
    }

    /// The number of `section.name`.
    fn number(&self, key: &str) -> Option<u64> {
        let (section, name) = key.split_once('.')?;
        let wanted = (section.as_bytes(), name.as_bytes());
        let at = self.0.binary_search_by_key(&wanted, |(section, name, _)| (*section, *name)).ok()?;
        self.0.get(at).and_then(|(.., digits)| number(digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        let text = b"TcpExt: SyncookiesSent ListenDrops New\nTcpExt: 1 22 3\nTcp: MaxConn RetransSegs\nTcp: -1 9\n";
        let parse = |text, key| Columns::of(text).number(key);
        assert_eq!(parse(text, "TcpExt.ListenDrops"), Some(22));
        assert_eq!(parse(text, "Tcp.RetransSegs"), Some(9));
        for absent in ["TcpExt.ListenOverflows", "Ip.InDiscards", "Tcp.MaxConn", "Tcp", "TcpExt.Listen"] {
            assert_eq!(parse(text, absent), None, "{absent}");
        }
        for cut in 0..text.len() {
            let _ = parse(&text[..cut], "TcpExt.ListenDrops");
        }
    }

    #[test]
    fn without_a_target_they_are_this_namespaces() {
        let mut snapshot = Snapshot::default();
        Counters.sample(&mut Buffers::default(), &mut snapshot).unwrap();
        for name in ["listen_overflows", "tcp_retransmits", "delayed_acks"] {
            assert!(snapshot.network.of(name).is_some(), "{name}");
        }
    }
}
