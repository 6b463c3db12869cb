//! The target's connections by netlink (sock_diag(7)), in its network namespace: their states, and of the established
//! ones `tcp_info` (round trips, retransmits, what bounds sending), aggregated.
//! Its connections are those of the ports it listens on, its own end of them. Of at most 2,048 established ones
//! `tcp_info` is read and of at most 16,384 others the state, for at most eight ports; with more it is a sample, in the
//! order of the kernel's hash, and the status says so. What the kernel counts by connection is summed up as it grows, so
//! that nothing goes with a connection that ends but what it counted after its last reading (`growth.rs`). Of those whose
//! data lies unread from one reading to the next it is told whether a thread waits where they are watched (`epolls.rs`).
//! Cost: two requests a port and family a second, where there are few sockets one that has all (`walk.rs`); each walks
//! through the table of connections of the machine, and a reading is not repeated before two hundred times its CPU time (0.5 % of a core). With more than 50,000 sockets only
//! established ones are asked for: where they are the target's, 2,048 are found at once; where they are not, the walk goes
//! through all and stalls them, so it is made once and no more. Another namespace needs CAP_SYS_ADMIN.

use super::growth::Growth;
use super::{epolls, folder};
use crate::limits::{CONNECTIONS_MAX, PORTS_MAX, STATES_MAX, WALK_NS_MAX, WALK_SOCKETS_MAX, WALK_SPARING};
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::clock;
use crate::source::namespace::in_network_of;
use crate::source::proc::{Buffers, SampleError};
use crate::source::sockets::sock_diag::{DumpError, Family};
use crate::source::sockets::tcp_info::TcpInfo;
use crate::source::sockets::tcp_sockets::{Connection, established, others};
use crate::source::sockets::walk::Walk;
use model::Snapshot;
use model::metrics::Metrics;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

const METRICS: &[Metric] = &[
    gauge("connections_looked_at", "connections", "sock_diag", "established ones whose tcp_info was read"),
    gauge("connections_syn_received", "connections", "SYN-RECV", "not established yet"),
    gauge("connections_fin_wait", "connections", "FIN-WAIT-1 and -2", "closed here, not there"),
    gauge("connections_close_wait", "connections", "CLOSE-WAIT", "closed there, not here"),
    gauge("connections_closing", "connections", "LAST-ACK and CLOSING", "closed at both ends, not done"),
    gauge("receive_queue_bytes", "bytes", "idiag_rqueue", "came and were not read by the target"),
    gauge("receive_queue_connections", "connections", "idiag_rqueue", "that have such bytes"),
    gauge("unread_again_connections", "connections", "idiag_rqueue", "that had such bytes at the reading before, too"),
    gauge(
        "unread_watched_connections",
        "connections",
        "fdinfo, tfd",
        "of those, watched by an epoll instance at which a thread waits",
    ),
    gauge("unread_edge_connections", "connections", "fdinfo, events", "of these, watched by edge (EPOLLET)"),
    gauge("send_queue_bytes", "bytes", "idiag_wqueue", "written by the target and not acknowledged"),
    gauge("rtt_p50_ns", "ns", "tcpi_rtt", "smoothed round trip, median of the connections"),
    gauge("rtt_p99_ns", "ns", "tcpi_rtt", "the same, 99th percentile"),
    gauge("rtt_max_ns", "ns", "tcpi_rtt", "the same, highest"),
    gauge("rtt_min_p50_ns", "ns", "tcpi_min_rtt", "least round trip of a connection, median"),
    gauge("rtt_min_p99_ns", "ns", "tcpi_min_rtt", "the same, 99th percentile"),
    counter("connection_retransmits", "segments", "tcpi_total_retrans", "sent again"),
    gauge("connections_with_retransmits", "connections", "tcpi_total_retrans", "that ever sent a segment again"),
    gauge("unacked_segments", "segments", "tcpi_unacked", "sent and not acknowledged"),
    gauge("not_sent_bytes", "bytes", "tcpi_notsent_bytes", "in send buffers, not sent yet"),
    counter("send_busy_ns", "ns", "tcpi_busy_time", "time with data to send"),
    counter("send_window_limited_ns", "ns", "tcpi_rwnd_limited", "of that, bound by the peer's window"),
    counter("send_buffer_limited_ns", "ns", "tcpi_sndbuf_limited", "of that, bound by the own send buffer"),
    gauge("delivery_bytes_per_s", "bytes/s", "tcpi_delivery_rate", "rate of last deliveries, median"),
    gauge(
        "connections_app_limited",
        "connections",
        "tcpi_delivery_rate_app_limited",
        "whose rate the application bounds",
    ),
    gauge("last_received_p50_ns", "ns", "tcpi_last_data_recv", "since data last came, median"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/connections",
    about: "states and tcp_info of the target's connections, aggregated (sock_diag)",
    needs: "CAP_SYS_ADMIN for another network namespace; CONFIG_INET_DIAG",
    cost: "1 netlink request a second, with many sockets 2 a port, 0.5 % of a core at the most",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Connections::new(WALK_SOCKETS_MAX)),
};

#[derive(Debug)]
struct Connections {
    leaves_out: Option<String>,
    /// Not read again before this.
    due_ns: i64,
    /// With more sockets than this, only as many as are found at once.
    walk_max: u64,
    /// Many sockets, and few of them the target's.
    is_elsewhere: bool,
    growth: Growth<4>,
    /// Cookies of those that had unread data.
    unread: BTreeSet<u64>,
}

impl Connections {
    fn new(walk_max: u64) -> Self {
        let (growth, unread) = (Growth::default(), BTreeSet::new());
        Connections { leaves_out: None, due_ns: i64::MIN, walk_max, is_elsewhere: false, growth, unread }
    }
}

impl Sampler for Connections {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        if snapshot.at_ns < self.due_ns {
            return Ok(());
        }
        self.leaves_out = None;
        let addresses = snapshot.listeners.iter().filter_map(|l| l.address.parse::<SocketAddr>().ok());
        let ports: BTreeSet<(u16, bool)> = addresses.map(|address| (address.port(), address.is_ipv6())).collect();
        if ports.is_empty() {
            return Err(SampleError::nothing("no listening TCP socket of the target is known"));
        }
        let (_, pid) = folder(snapshot);
        let crowd = snapshot.network.of("tcp_sockets").filter(|sockets| *sockets > self.walk_max);
        if let (Some(sockets), true) = (crowd, self.is_elsewhere) {
            let reason = format!("{sockets} sockets, few of them the target's: a walk through all would stall them");
            return Err(SampleError::nothing(reason));
        }
        let (begun, begun_cpu_ns) = (Instant::now(), clock::thread_cpu_ns());
        let is_few = crowd.is_none()
            && ports.len() <= PORTS_MAX
            && sockets(snapshot).is_some_and(|sockets| sockets <= CONNECTIONS_MAX as u64);
        // Of a walk that others take from, too, half is theirs.
        let mut others_ns = 0;
        let read = match is_few.then(|| walk(&ports, pid, buffers, snapshot)) {
            Some(Err(error)) => Err(error),
            Some(Ok(Some(walk))) => {
                let found = walk.at(&ports);
                others_ns = walk.cost_ns / 2;
                buffers.walks.keep(snapshot.at_ns, pid, walk);
                Ok(Ports { found, left_out: Vec::new(), is_any_whole: true, is_all: true, has_states: true })
            }
            _ => in_network_of(pid, || read(&ports, crowd.is_none()))?.map_err(refused),
        };
        let took_ns = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        // What is there before the load must not put off the first look at the load.
        if snapshot.at_ns >= 0 {
            let cost_ns = clock::thread_cpu_ns().saturating_sub(begun_cpu_ns).saturating_sub(others_ns);
            self.due_ns = snapshot.at_ns.saturating_add(cost_ns.saturating_mul(WALK_SPARING));
        }
        let mut read = read?;
        self.is_elsewhere = crowd.is_some() && read.is_any_whole && took_ns > WALK_NS_MAX;
        let crowd = crowd.map(|sockets| format!("states but the established one, as there are {sockets} sockets"));
        let left_out: Vec<String> = crowd.into_iter().chain(std::mem::take(&mut read.left_out)).collect();
        self.leaves_out = (!left_out.is_empty()).then(|| left_out.join("; "));
        aggregate(&read.found, read.has_states, &mut snapshot.network);
        self.count(&read, &mut snapshot.network);
        self.still_unread(&read.found, buffers, snapshot);
        Ok(())
    }

    fn leaves_out(&self) -> Option<String> {
        self.leaves_out.clone()
    }
}

impl Connections {
    /// Of which connections data lies unread since the reading before, and whether a thread waits for them.
    fn still_unread(&mut self, found: &[Connection], buffers: &mut Buffers, snapshot: &mut Snapshot) {
        let unread = || found.iter().filter(|c| !c.is_coming() && c.received_bytes > 0);
        let again: BTreeSet<u64> =
            unread().filter(|c| self.unread.contains(&c.cookie)).map(|c| u64::from(c.inode)).collect();
        self.unread = unread().map(|c| c.cookie).collect();
        snapshot.network.set("unread_again_connections", again.len() as u64);
        if again.is_empty() {
            return;
        }
        if let Some(watched) = epolls::watched(buffers, snapshot, &again) {
            snapshot.network.set("unread_watched_connections", watched.by_waiting);
            snapshot.network.set("unread_edge_connections", watched.by_edge);
        }
    }

    /// What grows, of those that have ended too.
    fn count(&mut self, read: &Ports, metrics: &mut Metrics) {
        let infos = read.found.iter().filter_map(|c| Some((c.cookie, c.info.as_ref()?)));
        let counts = infos.map(|(cookie, info)| {
            let sent_again = Some(u64::from(info.retransmits));
            (cookie, [sent_again, info.busy_us, info.window_limited_us, info.buffer_limited_us])
        });
        let [sent_again, busy_us, window_us, buffer_us] = self.growth.take(read.is_all, counts);
        let ns = |us: Option<u64>| us.map(|us| us.saturating_mul(1000));
        metrics.set_if("connection_retransmits", sent_again);
        metrics.set_if("send_busy_ns", ns(busy_us));
        metrics.set_if("send_window_limited_ns", ns(window_us));
        metrics.set_if("send_buffer_limited_ns", ns(buffer_us));
    }
}

/// What was read of some ports.
struct Ports {
    found: Vec<Connection>,
    left_out: Vec<String>,
    /// Of one of them all were found: the walk went through the whole table.
    is_any_whole: bool,
    /// Of each of them all were found.
    is_all: bool,
    /// Also those that are not established.
    has_states: bool,
}

/// TCP sockets of the network namespace; `None`: not read.
fn sockets(snapshot: &Snapshot) -> Option<u64> {
    Some(snapshot.network.of("tcp_sockets")?.saturating_add(snapshot.network.of("tcp6_sockets").unwrap_or(0)))
}

fn refused(error: DumpError) -> SampleError {
    SampleError::Refused { reason: error.to_string() }
}

/// A walk that has what others read at this moment, too; `None`: there are more than one may bring.
fn walk(
    ports: &BTreeSet<(u16, bool)>,
    pid: Option<u32>,
    buffers: &Buffers,
    snapshot: &Snapshot,
) -> Result<Option<Walk>, SampleError> {
    let has_ipv6 = snapshot.network.of("tcp6_sockets") != Some(0);
    let has_clients = !buffers.walks.leaves_out_clients();
    let ports: Vec<u16> = ports.iter().map(|(port, _)| *port).collect();
    in_network_of(pid, || Walk::through(&ports, has_ipv6, has_clients))?.map_err(refused)
}

/// The established connections of some ports, and those in other states too, each kind with a bound of its own.
fn read(ports: &BTreeSet<(u16, bool)>, has_states: bool) -> Result<Ports, DumpError> {
    read_within(ports, has_states, CONNECTIONS_MAX, STATES_MAX)
}

fn read_within(
    ports: &BTreeSet<(u16, bool)>,
    has_states: bool,
    established_max: usize,
    others_max: usize,
) -> Result<Ports, DumpError> {
    let mut read = Ports { found: Vec::new(), left_out: Vec::new(), is_any_whole: false, is_all: false, has_states };
    let Ports { found, left_out, is_any_whole, .. } = &mut read;
    let (mut established_left, mut others_left) = (established_max, others_max);
    if ports.len() > PORTS_MAX {
        left_out.push(format!("connections of {} ports beyond the first {PORTS_MAX}", ports.len() - PORTS_MAX));
    }
    let (mut established_cut, mut others_cut) = (Vec::new(), Vec::new());
    let looked_at = ports.len().min(PORTS_MAX);
    for (i, (port, is_ipv6)) in ports.iter().take(PORTS_MAX).enumerate() {
        // Each its share of what is left: the first must not take it all.
        let share = |left: usize| left.div_ceil(looked_at - i);
        let family = if *is_ipv6 { Family::V6 } else { Family::V4 };
        let before = found.len();
        if established(family, *port, share(established_left), found)? {
            *is_any_whole = true;
        } else {
            established_cut.push(*port);
        }
        established_left = established_left.saturating_sub(found.len() - before);
        if !has_states {
            continue;
        }
        let before = found.len();
        if !others(family, *port, share(others_left), found)? {
            others_cut.push(*port);
        }
        others_left = others_left.saturating_sub(found.len() - before);
    }
    let is_all = established_cut.is_empty() && ports.len() <= PORTS_MAX;
    left_out.extend(beyond("established", &established_cut, established_max));
    left_out.extend(beyond("other", &others_cut, others_max));
    Ok(Ports { is_all, ..read })
}

/// What was not looked at of some ports; `max`: what is looked at of all of them together.
fn beyond(which: &str, ports: &[u16], max: usize) -> Option<String> {
    let (first, more) = ports.split_first()?;
    let named = more.iter().fold(format!("port {first}"), |named, port| format!("{named}, {port}"));
    Some(format!("{which} connections of {named} beyond {max} in all"))
}

fn aggregate(found: &[Connection], has_states: bool, metrics: &mut Metrics) {
    let in_states = |states: &[u8]| found.iter().filter(|c| states.contains(&c.state)).count() as u64;
    let infos: Vec<&TcpInfo> = found.iter().filter_map(|c| c.info.as_ref()).collect();
    let total = |of: &dyn Fn(&TcpInfo) -> Option<u64>| {
        infos.iter().filter_map(|info| of(info)).reduce(|sum, more| sum.saturating_add(more))
    };
    let us = |us: Option<u64>| us.map(|us| us.saturating_mul(1000));
    let count = |is: &dyn Fn(&TcpInfo) -> bool| infos.iter().filter(|info| is(info)).count() as u64;
    metrics.set("connections_looked_at", infos.len() as u64);
    // States of net/tcp_states.h; a request that is not a whole socket yet counts as SYN-RECV (12).
    let states: [(&str, &[u8]); 4] = [
        ("connections_syn_received", &[3, 12]),
        ("connections_fin_wait", &[4, 5]),
        ("connections_close_wait", &[8]),
        ("connections_closing", &[9, 11]),
    ];
    for (name, states) in states.into_iter().filter(|_| has_states) {
        metrics.set(name, in_states(states));
    }
    let whole = || found.iter().filter(|c| !c.is_coming());
    metrics.set("receive_queue_bytes", whole().map(|c| u64::from(c.received_bytes)).sum());
    metrics.set("receive_queue_connections", whole().filter(|c| c.received_bytes > 0).count() as u64);
    metrics.set("send_queue_bytes", whole().map(|c| u64::from(c.sent_bytes)).sum());

    let rtts = sorted(infos.iter().map(|info| u64::from(info.rtt_us)).filter(|us| *us > 0));
    metrics.set_if("rtt_p50_ns", us(quantile(&rtts, 0.5)));
    metrics.set_if("rtt_p99_ns", us(quantile(&rtts, 0.99)));
    metrics.set_if("rtt_max_ns", us(rtts.last().copied()));
    let least = infos.iter().filter_map(|info| info.rtt_min_us).filter(|us| *us != u32::MAX && *us > 0);
    let least = sorted(least.map(u64::from));
    metrics.set_if("rtt_min_p50_ns", us(quantile(&least, 0.5)));
    metrics.set_if("rtt_min_p99_ns", us(quantile(&least, 0.99)));
    metrics.set("connections_with_retransmits", count(&|info| info.retransmits > 0));
    metrics.set_if("unacked_segments", total(&|info| Some(info.unacked.into())));
    metrics.set_if("not_sent_bytes", total(&|info| info.not_sent_bytes.map(u64::from)));
    let rates = sorted(infos.iter().filter_map(|info| info.delivery_rate).filter(|rate| *rate > 0));
    metrics.set_if("delivery_bytes_per_s", quantile(&rates, 0.5));
    metrics.set("connections_app_limited", count(&|info| info.is_app_limited));
    let received = sorted(infos.iter().map(|info| u64::from(info.last_received_ms)));
    metrics.set_if("last_received_p50_ns", quantile(&received, 0.5).map(|ms| ms.saturating_mul(1_000_000)));
}

pub(super) fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values
}

/// The nearest rank.
pub(super) fn quantile(sorted: &[u64], q: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(state: u8, info: Option<TcpInfo>) -> Connection {
        let remote = SocketAddr::from(([127, 0, 0, 1], 9));
        Connection {
            state,
            cookie: 1,
            inode: 1,
            is_ipv6: false,
            port: 80,
            remote,
            received_bytes: 10,
            sent_bytes: 20,
            info,
        }
    }

    #[test]
    fn what_is_not_known_of_any_is_absent() {
        let mut metrics = Metrics::default();
        aggregate(&[], true, &mut metrics);
        assert_eq!((metrics.of("connections_looked_at"), metrics.of("connections_close_wait")), (Some(0), Some(0)));
        assert_eq!((metrics.of("rtt_p50_ns"), metrics.of("not_sent_bytes")), (None, None));
        let old = TcpInfo { rtt_us: 7, ..TcpInfo::default() };
        aggregate(&[connection(1, Some(old)), connection(8, None), connection(12, None)], true, &mut metrics);
        assert_eq!((metrics.of("rtt_p50_ns"), metrics.of("rtt_min_p50_ns")), (Some(7000), None));
        assert_eq!((metrics.of("receive_queue_bytes"), metrics.of("connections_syn_received")), (Some(20), Some(1)));
    }

    #[test]
    fn in_a_crowd_established_ones_are_a_sample_and_other_states_are_not_known() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..5).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let mut snapshot = Snapshot::default();
        let listening =
            model::snapshot::ListenerSample { address: address.to_string(), backlog: 128, ..Default::default() };
        snapshot.listeners.push(listening);
        snapshot.network.set("tcp_sockets", 10);
        let mut sampler = Connections::new(2);
        // The last of them may take a moment to be one on the listener's side, too.
        testkit::wait_until("five connections", || {
            sampler.due_ns = i64::MIN;
            sampler.sample(&mut Buffers::default(), &mut snapshot).unwrap();
            snapshot.network.of("connections_looked_at") == Some(5)
        });
        assert_eq!(snapshot.network.of("connections_close_wait"), None);
        assert!(sampler.leaves_out().is_some_and(|left| left.contains("10 sockets")), "{:?}", sampler.leaves_out());
        // As after a walk that found few among many.
        (sampler.is_elsewhere, sampler.due_ns) = (true, i64::MIN);
        assert!(sampler.sample(&mut Buffers::default(), &mut snapshot).is_err_and(|error| error.is_nothing()));
        drop(clients);
    }

    #[test]
    fn each_kind_has_its_bound() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients: Vec<_> = (0..12).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        clients.truncate(7);
        let ports = [(address.port(), false)].into();
        let counted = |established_max| {
            let read = read_within(&ports, true, established_max, 9).unwrap();
            let established = read.found.iter().filter(|c| c.is_established() && c.info.is_some()).count();
            (established, read.found.len() - established, read.is_all, read.left_out.len())
        };
        testkit::wait_until("seven established ones and five that the client has closed", || {
            counted(12) == (7, 5, true, 0)
        });
        assert_eq!(counted(6), (6, 5, false, 1));
    }

    #[test]
    fn of_many_ports_each_has_its_share() {
        let listeners: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let mut clients = Vec::new();
        for (port, n) in ports.iter().zip([7, 2, 7]) {
            clients.extend((0..n).map(|_| std::net::TcpStream::connect(("127.0.0.1", *port)).unwrap()));
        }
        let all: BTreeSet<_> = ports.iter().map(|port| (*port, false)).collect();
        let read = read_within(&all, false, 9, 9).unwrap();
        // In order of ports: what a port of few leaves goes to those behind it.
        let few = all.iter().position(|(port, _)| *port == ports[1]).unwrap();
        assert_eq!(read.found.len(), [2 + 4 + 3, 3 + 2 + 4, 3 + 3 + 2][few], "{few}");
        let said = read.left_out.concat();
        assert!(said.contains(&ports[0].to_string()) && said.contains(&ports[2].to_string()), "{said}");
        assert!(!said.contains(&ports[1].to_string()) && said.ends_with("beyond 9 in all"), "{said}");
        drop(clients);
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99)), (Some(50), Some(99)));
        assert_eq!((quantile(&[5], 0.99), quantile(&[], 0.5)), (Some(5), None));
    }
}
