//! Names that the target has looked up by a resolver: its UDP sockets that are connected to port 53, from `/proc/<pid>/net/udp`
//! and `udp6` of its network namespace.
//! Resolvers of C libraries, Go and Java open a socket for each question, or a few for each name, and close it with the answer.
//! So how many there are at a moment is how many threads or requests wait for a name. A program with a resolver of its own may ask all
//! its questions on one that stays: so it is also counted how many there have been. Questions over TCP are connections in `network/outgoing`; those to a local daemon over a unix socket
//! are not seen. At most 4,096 such sockets are looked for among 16,384 descriptors.
//! Cost: two reads a second, of a line for each UDP socket of the namespace; a link a descriptor where one is connected to port 53.
//! Another user's process needs CAP_SYS_PTRACE.

use super::folder;
use crate::limits::{DESCRIPTORS_OFTEN_MAX, OUTGOING_LOOKED_MAX};
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler, living_id, of_target};
use crate::source::proc::{Buffers, SampleError, lines, words};
use crate::target::sockets_of;
use model::Snapshot;
use std::collections::BTreeSet;

const METRICS: &[Metric] = &[
    gauge("lookup_sockets", "sockets", "udp, rem_address", "of the target, connected to port 53"),
    counter("lookup_sockets_seen", "sockets", "udp, inode", "all such that were seen, each once"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/lookups",
    about: "names that the target looks up: its UDP sockets that are connected to port 53 (/proc/<pid>/net/udp)",
    needs: "CAP_SYS_PTRACE for another user's process",
    cost: "2 reads a second, 1 link a descriptor where there is such a socket",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Lookups::default()),
};

#[derive(Debug, Default)]
struct Lookups {
    /// The target's at the last reading, by inode.
    before: BTreeSet<u64>,
    /// How many there have been.
    seen: u64,
}

impl Sampler for Lookups {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let pids: Vec<u32> = of_target(snapshot)?.map(|process| living_id(process)).collect();
        let (folder, _) = folder(snapshot);
        let mut inodes = to_resolvers(buffers.read(format_args!("{folder}/udp"))?);
        // Without IPv6 there is no such file.
        if let Ok(text) = buffers.read(format_args!("{folder}/udp6")) {
            inodes.extend(to_resolvers(text));
        }
        while inodes.len() > OUTGOING_LOOKED_MAX {
            inodes.pop_last();
        }
        let own: BTreeSet<u64> = match inodes.is_empty() {
            true => BTreeSet::new(),
            false => sockets_of(pids.into_iter(), &inodes, DESCRIPTORS_OFTEN_MAX)?.owners.into_keys().collect(),
        };
        snapshot.network.set("lookup_sockets", own.len() as u64);
        self.seen = self.seen.saturating_add(own.difference(&self.before).count() as u64);
        self.before = own;
        snapshot.network.set("lookup_sockets_seen", self.seen);
        Ok(())
    }
}

/// Inodes of connected sockets whose other end is port 53: `sl local_address rem_address st … uid timeout inode …`, the
/// addresses in hexadecimal with the port behind a colon; state 01 is connected.
fn to_resolvers(text: &[u8]) -> BTreeSet<u64> {
    let inode = |line: &[u8]| {
        let all: Vec<&[u8]> = words(line).take(10).collect();
        let is_resolvers = all.get(2)?.ends_with(b":0035") && *all.get(3)? == b"01";
        let inode = std::str::from_utf8(all.get(9)?).ok()?.parse().ok()?;
        (is_resolvers && inode != 0).then_some(inode)
    };
    lines(text).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::snapshot::Role;
    use std::net::UdpSocket;

    #[test]
    fn only_connected_sockets_to_port_53_are_a_resolvers() {
        let text = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1: 0100007F:9C41 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 77 2 0 0\n\
            2: 0100007F:9C41 0100007F:0053 01 00000000:00000000 00:00000000 00000000     0        0 78 2 0 0\n\
            3: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 79 2 0 0\n\
            4: cut";
        assert_eq!(to_resolvers(text), BTreeSet::from([77]));
    }

    #[test]
    fn a_socket_is_counted_once_and_only_the_targets() {
        let (mut sampler, mut snapshot) = (Lookups::default(), Snapshot::default());
        snapshot.processes.push(testkit::recordings::process(Role::Target, std::process::id(), "test", Vec::new()));
        snapshot.network_pid = Some(std::process::id());
        let mut read = |snapshot: &mut Snapshot| {
            sampler.sample(&mut Buffers::default(), snapshot).unwrap();
            [snapshot.network.of("lookup_sockets").unwrap(), snapshot.network.of("lookup_sockets_seen").unwrap()]
        };
        let [_, before] = read(&mut snapshot);
        let asking = UdpSocket::bind("127.0.0.1:0").unwrap();
        asking.connect("127.0.0.1:53").unwrap();
        assert_eq!(read(&mut snapshot), [1, before + 1]);
        assert_eq!(read(&mut snapshot), [1, before + 1], "it stays");
        drop(asking);
        let other = testkit::process::Guard::spawn(std::process::Command::new("sleep").arg("60")).unwrap();
        snapshot.processes[0].pid = other.pid();
        let others = UdpSocket::bind("127.0.0.1:0").unwrap();
        others.connect("127.0.0.1:53").unwrap();
        assert_eq!(read(&mut snapshot)[0], 0, "another process's");
    }
}
