//! Connections that the target made itself, by where to: a database, another server, a resolver. How many, what waits in
//! them, and how long replies have been due (sock_diag(7) with `tcp_info`), in the target's network namespace.
//! They are the connections that have none of the target's listening ports at this end and whose socket is among the
//! descriptors of one of its processes: those of a client on the same machine are not. Of at most 4,096 such connections a
//! family, at most 16,384 descriptors are looked through for their owners, and only when one is there that was not before;
//! the eight remote addresses with most connections are kept. With more than 50,000 sockets nothing is read.
//! A reply is due where data was sent after the last that came, and where nothing has come yet. The kernel keeps that to a millisecond, with a clock of one
//! to ten. Who asks again in the tick in which the reply came has both at one moment: there a reply is due where one segment more was
//! sent than replies have come, if these have all had as many segments, four at the most. Where they have not, such a wait is not seen,
//! nor is one that is shorter than a tick. Connections that begin and end between two readings are not seen at all.
//! Those to unix sockets are read with them, as far as the kernel tells of such (`outgoing_unix`).
//! Which of the neighbours that were read before (`process/neighbours`) these connections go to is told by the listening socket that
//! they share a network namespace with: a process that holds it works for the target. Looked at where a remote address or a
//! neighbour is new.
//! Where there are few sockets, they are in the walk through all that `network/connections` makes. Then connections to the target's
//! own ports at a loopback address are looked at in one reading of four, unless one is its own: they are its clients'.
//! Cost: one netlink request a second and the share in that walk; else three, five in the one in which the first such connection is found; a reading is not repeated before two hundred times its CPU time (0.5 % of a core).
//! Another namespace needs CAP_SYS_ADMIN, another user's process CAP_SYS_PTRACE.

use super::backends::Backends;
use super::connections::{quantile, sorted};
use super::folder;
use super::growth::Growth;
use super::outgoing_unix::UnixOutgoing;
use super::owned::Owned;
use crate::limits::{
    CLIENTS_MIN, DESCRIPTORS_OFTEN_MAX, FIRST_WALK_SPARING, FIRST_WALKS, OUTGOING_LOOKED_MAX, REMOTES_COUNTED_MAX,
    REMOTES_MAX, WALK_SOCKETS_MAX, WALK_SPARING,
};
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler, living_id, of_target};
use crate::source::clock;
use crate::source::namespace::in_network_of;
use crate::source::proc::{Buffers, SampleError};
use crate::source::sockets::sock_diag::{DumpError, Family};
use crate::source::sockets::tcp_info::TcpInfo;
use crate::source::sockets::tcp_sockets::{Connection, from_other_ports};
use model::Snapshot;
use model::metrics::Metrics;
use model::snapshot::Outgoing;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Segments of a reply by which replies are counted.
const REPLY_SEGMENTS_MAX: u32 = 4;

const METRICS: &[Metric] = &[
    gauge("outgoing_connections", "connections", "sock_diag", "of TCP, that the target made itself; absent: not read"),
    gauge(
        "outgoing_remotes",
        "addresses",
        "sock_diag",
        "where to; those with most connections are in outgoing[], and as unix:PATH those to unix sockets",
    ),
    gauge("outgoing[].established", "connections", "ESTABLISHED", "that can be used"),
    gauge("outgoing[].connecting", "connections", "SYN-SENT", "that are not answered yet"),
    gauge("outgoing[].closing", "connections", "FIN-WAIT, CLOSE-WAIT, LAST-ACK, CLOSING", "that end"),
    gauge("outgoing[].receive_queue_bytes", "bytes", "idiag_rqueue", "came and were not read by the target"),
    gauge("outgoing[].send_queue_bytes", "bytes", "idiag_wqueue", "written by the target and not acknowledged"),
    gauge("outgoing[].not_sent_bytes", "bytes", "tcpi_notsent_bytes", "of those, not sent yet"),
    gauge("outgoing[].unacked_segments", "segments", "tcpi_unacked", "sent and not acknowledged"),
    gauge(
        "outgoing[].unacked_age_max_ns",
        "ns",
        "tcpi_last_ack_recv",
        "of connections with such segments, longest since an acknowledgement came",
    ),
    gauge(
        "outgoing[].awaiting",
        "connections",
        "tcpi_last_data_sent",
        "where a reply is due: sent to after the last came",
    ),
    gauge("outgoing[].new", "connections", "sock_diag", "to a unix socket, that were not there at the last reading"),
    gauge("outgoing[].awaiting_p50_ns", "ns", "tcpi_last_data_sent", "of those, since it was sent, median"),
    gauge("outgoing[].awaiting_max_ns", "ns", "tcpi_last_data_sent", "the same, longest"),
    gauge("outgoing[].rtt_p50_ns", "ns", "tcpi_rtt", "smoothed round trip, median"),
    gauge("outgoing[].rtt_max_ns", "ns", "tcpi_rtt", "the same, highest"),
    counter("outgoing[].retransmits", "segments", "tcpi_total_retrans", "sent again"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/outgoing",
    about: "connections that the target made itself, by where to: what waits in them, round trips, replies due (sock_diag)",
    needs: "CAP_SYS_PTRACE for another user's process, CAP_SYS_ADMIN for another network namespace; CONFIG_INET_DIAG",
    cost: "1 to 3 netlink requests a second, 5 where it begins to have such, 1 link a descriptor where connections are new, 0.5 % of a core at the most",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(OutgoingConnections::default()),
};

#[derive(Debug, Default)]
struct OutgoingConnections {
    /// Not read again before this, by this thread's reckoning of its own cost.
    due_ns: Option<i64>,
    /// Readings since the load began.
    walks: u32,
    owned: Owned,
    unix: UnixOutgoing,
    backends: Backends,
    counters: BTreeMap<SocketAddr, Growth<1>>,
    leaves_out: Option<String>,
}

impl Sampler for OutgoingConnections {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        if self.due_ns.is_some_and(|due_ns| snapshot.at_ns < due_ns) {
            return Ok(());
        }
        let pids: Vec<(u32, u64)> =
            of_target(snapshot)?.map(|process| (living_id(process), process.start_ticks)).collect();
        if let Some(sockets) = snapshot.network.of("tcp_sockets").filter(|sockets| *sockets > WALK_SOCKETS_MAX) {
            let reason = format!("{sockets} sockets: a walk through all would stall them");
            return Err(SampleError::nothing(reason));
        }
        let began_ns = clock::thread_cpu_ns();
        let addresses = snapshot.listeners.iter().filter_map(|l| l.address.parse::<SocketAddr>().ok());
        let ports: BTreeSet<u16> = addresses.map(|address| address.port()).collect();
        let ports: Vec<u16> = ports.into_iter().collect();
        let (_, pid) = folder(snapshot);
        let walk = buffers.walks.take(snapshot.at_ns, pid);
        // Half of it is for this reading.
        let shared_ns = walk.as_ref().map_or(0, |walk| walk.cost_ns / 2);
        // Each request walks through the table of all connections.
        let has_ipv6 = snapshot.network.of("tcp6_sockets") != Some(0);
        let of_host = |has_info: bool| {
            in_network_of(pid, || read(&ports, has_ipv6, has_info))?
                .map_err(|error| SampleError::Refused { reason: error.to_string() })
        };
        let (found, is_whole, is_cut) = if let Some(walk) = walk {
            let has_clients = walk.has_clients;
            let mut found = walk.at_other_ports(&ports);
            let clients = has_clients.then(|| clients(&found, &ports));
            let is_cut = self.keep_own(&pids, &mut found, has_clients)?;
            if clients.is_some_and(|c| c.len() >= CLIENTS_MIN && !c.iter().any(|inode| self.owned.is_own(*inode))) {
                buffers.walks.leave_out_clients();
            }
            (found, true, is_cut)
        } else {
            // Most of what is found are clients' ends on the same machine, and most targets have no connections of their own.
            let has_info = self.owned.has_any();
            let (mut found, mut is_whole) = of_host(has_info)?;
            let mut is_cut = self.keep_own(&pids, &mut found, true)?;
            if !has_info && !found.is_empty() {
                (found, is_whole) = of_host(true)?;
                is_cut |= self.keep_own(&pids, &mut found, true)?;
            }
            (found, is_whole, is_cut)
        };
        let unix = self.unix.read(pid, &pids)?;
        let remotes = found.iter().map(|connection| connection.remote).collect();
        self.backends.mark(pid, remotes, unix.listening, snapshot)?;
        snapshot.outgoing = self.by_remote(&found, is_whole, &mut snapshot.network);
        snapshot.outgoing.extend(unix.outgoing);
        self.leaves_out = left_out(is_whole, is_cut, unix.left_out);
        // What is there before the load must not put off the first look at the load.
        if snapshot.at_ns >= 0 {
            let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns).saturating_add(shared_ns);
            self.walks = self.walks.saturating_add(1);
            // A machine that has many thousand connections in TIME-WAIT is walked through for so long that a short run had one reading.
            let sparing = if self.walks < FIRST_WALKS { FIRST_WALK_SPARING } else { WALK_SPARING };
            self.due_ns = Some(snapshot.at_ns.saturating_add(cost_ns.saturating_mul(sparing)));
        }
        Ok(())
    }

    fn leaves_out(&self) -> Option<String> {
        self.leaves_out.clone()
    }
}

fn left_out(is_whole: bool, is_cut: bool, of_unix: Option<String>) -> Option<String> {
    let beyond = (!is_whole).then(|| format!("connections beyond {OUTGOING_LOOKED_MAX} that are not of its ports"));
    let cut = is_cut.then(|| format!("owners beyond {DESCRIPTORS_OFTEN_MAX} descriptors"));
    let said: Vec<String> = [beyond, cut, of_unix].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The connections, of IPv6 too or not and with their `tcp_info` or not, that have none of the ports at this end, and whether these
/// are all.
fn read(ports: &[u16], has_ipv6: bool, has_info: bool) -> Result<(Vec<Connection>, bool), DumpError> {
    let (mut found, mut is_whole) = (Vec::new(), true);
    for family in [Family::V4].into_iter().chain(has_ipv6.then_some(Family::V6)) {
        is_whole &= from_other_ports(family, ports, has_info, OUTGOING_LOOKED_MAX, &mut found)?;
    }
    Ok((found, is_whole))
}

/// The sockets that go to one of the ports at a loopback address: a walk may leave out those ([`Walks`](crate::source::sockets::walk)).
fn clients(found: &[Connection], ports: &[u16]) -> Vec<u64> {
    let is_client = |c: &&Connection| c.remote.ip().is_loopback() && ports.contains(&c.remote.port());
    found.iter().filter(is_client).map(|c| c.inode.into()).collect()
}

impl OutgoingConnections {
    /// Keeps the target's; `has_clients`: those of clients on the same machine are among them, too. Returns whether some of its
    /// descriptors were not looked at.
    fn keep_own(
        &mut self,
        pids: &[(u32, u64)],
        found: &mut Vec<Connection>,
        has_clients: bool,
    ) -> Result<bool, SampleError> {
        // Without an inode nobody holds it any more.
        let inodes: BTreeSet<u64> = found.iter().map(|c| u64::from(c.inode)).filter(|inode| *inode != 0).collect();
        let is_cut = self.owned.look(pids, &inodes, has_clients)?;
        found.retain(|c| self.owned.is_own(c.inode.into()));
        Ok(is_cut)
    }

    /// Those with most connections first.
    fn by_remote(&mut self, found: &[Connection], is_whole: bool, network: &mut Metrics) -> Vec<Outgoing> {
        let mut remotes: BTreeMap<SocketAddr, Vec<&Connection>> = BTreeMap::new();
        for connection in found {
            remotes.entry(connection.remote).or_default().push(connection);
        }
        network.set("outgoing_connections", found.len() as u64);
        network.set("outgoing_remotes", remotes.len() as u64);
        if self.counters.len() > REMOTES_COUNTED_MAX {
            self.counters.retain(|remote, _| remotes.contains_key(remote));
        }
        let mut all: Vec<(SocketAddr, Vec<&Connection>)> = remotes.into_iter().collect();
        all.sort_by_key(|(remote, connections)| (std::cmp::Reverse(connections.len()), *remote));
        all.truncate(REMOTES_COUNTED_MAX);
        let mut outgoing: Vec<Outgoing> = Vec::new();
        for (remote, connections) in all {
            let counts = connections.iter().filter_map(|c| Some((c.cookie, [Some(u64::from(c.info?.retransmits))])));
            let [retransmits] = self.counters.entry(remote).or_default().take(is_whole, counts);
            if outgoing.len() < REMOTES_MAX {
                let mut metrics = aggregate(&connections);
                metrics.set_if("retransmits", retransmits);
                outgoing.push(Outgoing { remote: remote.to_string(), metrics });
            }
        }
        outgoing
    }
}

/// Whether so many segments were sent and came as there are where each question has one and each reply as many, and a question was
/// asked after the last reply.
fn is_asked_once_more(info: &TcpInfo) -> bool {
    let (Some(sent), Some(received)) = (info.data_segments_sent, info.data_segments_received) else { return false };
    let are_replies = |number: u32| {
        received
            .checked_div(number)
            .is_some_and(|each| (1..=REPLY_SEGMENTS_MAX).contains(&each) && each.saturating_mul(number) == received)
    };
    are_replies(sent.saturating_sub(1)) && !are_replies(sent)
}

fn aggregate(connections: &[&Connection]) -> Metrics {
    let mut metrics = Metrics::default();
    // States of net/tcp_states.h.
    let in_states = |states: &[u8]| connections.iter().filter(|c| states.contains(&c.state)).count() as u64;
    metrics.set("established", in_states(&[1]));
    metrics.set("connecting", in_states(&[2]));
    metrics.set("closing", in_states(&[4, 5, 8, 9, 11]));
    let sum = |of: &dyn Fn(&Connection) -> u64| connections.iter().map(|c| of(c)).fold(0, u64::saturating_add);
    metrics.set("receive_queue_bytes", sum(&|c| c.received_bytes.into()));
    metrics.set("send_queue_bytes", sum(&|c| c.sent_bytes.into()));
    let infos: Vec<(&Connection, &TcpInfo)> = connections.iter().filter_map(|c| Some((*c, c.info.as_ref()?))).collect();
    let not_sent = infos.iter().filter_map(|(_, info)| info.not_sent_bytes).map(u64::from);
    metrics.set_if("not_sent_bytes", not_sent.reduce(u64::saturating_add));
    metrics.set("unacked_segments", infos.iter().map(|(_, info)| u64::from(info.unacked)).sum());
    let unacked = infos.iter().filter(|(c, info)| c.state == 1 && info.unacked > 0);
    let ms = |ms: u32| u64::from(ms).saturating_mul(1_000_000);
    metrics.set_if("unacked_age_max_ns", unacked.map(|(_, info)| ms(info.last_acknowledged_ms)).max());
    // Both are kept with the same clock, so the earlier of the two is the one longer ago. Where nothing has come yet, the second
    // is since the connection was made, of which a first question may be no tick away.
    let is_first = |info: &TcpInfo| info.received_bytes == Some(0) && info.data_segments_sent > Some(0);
    let awaits = |info: &TcpInfo| {
        let is_tie = info.last_sent_ms == info.last_received_ms;
        info.last_sent_ms < info.last_received_ms || is_first(info) || (is_tie && is_asked_once_more(info))
    };
    let awaiting = infos.iter().filter(|(c, info)| c.state == 1 && awaits(info));
    let awaiting = sorted(awaiting.map(|(_, info)| ms(info.last_sent_ms)));
    metrics.set("awaiting", awaiting.len() as u64);
    metrics.set_if("awaiting_p50_ns", quantile(&awaiting, 0.5));
    metrics.set_if("awaiting_max_ns", awaiting.last().copied());
    let rtts = sorted(infos.iter().map(|(_, info)| u64::from(info.rtt_us).saturating_mul(1000)).filter(|ns| *ns > 0));
    metrics.set_if("rtt_p50_ns", quantile(&rtts, 0.5));
    metrics.set_if("rtt_max_ns", rtts.last().copied());
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(remote: &str, cookie: u64, state: u8, info: Option<TcpInfo>) -> Connection {
        let remote = remote.parse().unwrap();
        Connection {
            state,
            cookie,
            inode: 1,
            is_ipv6: false,
            port: 40_000,
            remote,
            received_bytes: 10,
            sent_bytes: 20,
            info,
        }
    }

    fn info(last_sent_ms: u32, last_received_ms: u32, retransmits: u32) -> Option<TcpInfo> {
        Some(TcpInfo {
            last_sent_ms,
            last_received_ms,
            retransmits,
            rtt_us: 7,
            unacked: retransmits,
            last_acknowledged_ms: 4,
            ..TcpInfo::default()
        })
    }

    #[test]
    fn they_are_grouped_by_where_to_and_a_reply_is_due_where_sending_was_last() {
        let found = [
            connection("10.0.0.1:53", 1, 1, info(5, 5, 0)),
            connection("10.0.0.2:80", 2, 1, info(30, 90, 2)),
            connection("10.0.0.2:80", 3, 1, info(10, 9, 0)),
            connection("10.0.0.2:80", 4, 1, info(50, 51, 0)),
            connection("10.0.0.2:80", 5, 2, None),
            connection("10.0.0.2:80", 6, 8, None),
        ];
        let (mut sampler, mut network) = (OutgoingConnections::default(), Metrics::default());
        sampler.by_remote(&[], true, &mut network);
        assert_eq!(network.of("outgoing_connections"), Some(0));
        let outgoing = sampler.by_remote(&found, true, &mut network);
        assert_eq!((network.of("outgoing_connections"), network.of("outgoing_remotes")), (Some(6), Some(2)));
        assert_eq!(outgoing.iter().map(|o| &*o.remote).collect::<Vec<_>>(), ["10.0.0.2:80", "10.0.0.1:53"]);
        let of = |name: &str| outgoing[0].metrics.of(name);
        assert_eq!((of("established"), of("connecting"), of("closing")), (Some(3), Some(1), Some(1)));
        assert_eq!((of("awaiting"), of("awaiting_max_ns")), (Some(2), Some(50_000_000)));
        assert_eq!((of("awaiting_p50_ns"), of("unacked_age_max_ns")), (Some(30_000_000), Some(4_000_000)));
        assert_eq!((of("receive_queue_bytes"), of("retransmits")), (Some(50), Some(0)));
        assert_eq!(of("not_sent_bytes"), None, "the kernel did not say");
        let idle = &outgoing[1].metrics;
        assert_eq!((idle.of("awaiting"), idle.of("awaiting_max_ns")), (Some(0), None));
        // One has sent again, another has ended.
        let found = [connection("10.0.0.2:80", 2, 1, info(30, 90, 5)), connection("10.0.0.1:53", 9, 1, info(1, 1, 0))];
        let outgoing = sampler.by_remote(&found, true, &mut network);
        let of = |remote: &str| outgoing.iter().find(|o| o.remote == remote).and_then(|o| o.metrics.of("retransmits"));
        assert_eq!((of("10.0.0.2:80"), of("10.0.0.1:53")), (Some(3), Some(0)));
    }

    #[test]
    fn the_first_question_on_a_connection_is_due_an_answer_from_its_first_tick_on() {
        let first = |received_bytes, data_segments_sent| {
            info(20, 20, 0).map(|info| TcpInfo { received_bytes, data_segments_sent, ..info })
        };
        let due = |info: Option<TcpInfo>| {
            let found = [connection("10.0.0.2:80", 1, 1, info)];
            let outgoing = OutgoingConnections::default().by_remote(&found, true, &mut Metrics::default());
            (outgoing[0].metrics.of("awaiting").unwrap(), outgoing[0].metrics.of("awaiting_p50_ns"))
        };
        assert_eq!(due(first(Some(0), Some(1))), (1, Some(20_000_000)));
        assert_eq!(due(first(Some(9), Some(1))), (0, None), "it has come");
        assert_eq!(due(first(Some(0), Some(0))), (0, None), "nothing was asked");
        assert_eq!(due(first(None, None)), (0, None), "of an old kernel it is not known");
    }

    #[test]
    fn where_it_was_asked_and_answered_in_one_tick_segments_say_which_was_last() {
        let due = |last_sent_ms, sent, received| {
            let counted = |info| TcpInfo {
                received_bytes: Some(900),
                data_segments_sent: Some(sent),
                data_segments_received: Some(received),
                ..info
            };
            let found = [connection("10.0.0.2:80", 1, 1, info(last_sent_ms, 20, 0).map(counted))];
            OutgoingConnections::default().by_remote(&found, true, &mut Metrics::default())[0].metrics.of("awaiting")
        };
        let tie = |sent, received| due(20, sent, received);
        assert_eq!([tie(8, 7), tie(8, 14), tie(8, 28)], [Some(1); 3], "asked an eighth time, answered seven times");
        assert_eq!([tie(7, 7), tie(7, 14), tie(7, 28)], [Some(0); 3], "answered each time");
        // Replies that differ, longer ones, and what can be read both ways.
        assert_eq!([tie(8, 13), tie(8, 35), tie(2, 2), tie(0, 0), tie(1, 0)], [Some(0); 5]);
        assert_eq!(due(21, 8, 7), Some(0), "a reply came later");
    }

    #[test]
    fn in_the_walk_of_all_a_target_that_asks_itself_is_seen_and_clients_of_others_are_soon_left_out() {
        use crate::samplers::process_of_target;
        use model::snapshot::ListenerSample;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..CLIENTS_MIN).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // Both ends are this process's; of the other target none is.
        for (pid, own) in [(std::process::id(), CLIENTS_MIN as u64), (child.id(), 0)] {
            let (mut buffers, mut snapshot) = (Buffers::default(), Snapshot::default());
            snapshot.processes.push(process_of_target(pid));
            snapshot.listeners.push(ListenerSample { address: address.to_string(), ..Default::default() });
            snapshot.network.set("tcp_sockets", 100);
            let mut together = (super::super::connections::ENTRY.make)();
            let mut sampler = OutgoingConnections::default();
            for at_ns in -2..5 {
                snapshot.at_ns = at_ns * 1_000_000_000_000;
                let leaves_out = buffers.walks.leaves_out_clients();
                together.sample(&mut buffers, &mut snapshot).unwrap();
                assert_eq!(snapshot.network.of("connections_looked_at"), Some(CLIENTS_MIN as u64));
                sampler.sample(&mut buffers, &mut snapshot).unwrap();
                let to_itself = snapshot.outgoing.iter().find(|o| o.remote == address.to_string());
                let to_itself = to_itself.and_then(|o| o.metrics.of("established")).unwrap_or(0);
                assert_eq!(to_itself, own, "at {at_ns}");
                assert_eq!(leaves_out, own == 0 && at_ns != -2 && at_ns != 2, "at {at_ns}: all in one of four");
            }
        }
        drop(clients);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn of_many_remotes_those_with_most_connections_are_kept() {
        let mut found = Vec::new();
        for host in 1..=20u64 {
            let remote = format!("10.0.0.{host}:1");
            found.extend((0..host).map(|i| connection(&remote, host * 100 + i, 1, info(0, 0, 0))));
        }
        let outgoing = OutgoingConnections::default().by_remote(&found, true, &mut Metrics::default());
        let kept: Vec<&str> = outgoing.iter().map(|o| &*o.remote).collect();
        assert_eq!((kept.len(), kept[0], kept[7]), (REMOTES_MAX, "10.0.0.20:1", "10.0.0.13:1"));
    }
}
