//! The target's listening TCP sockets: connections that wait to be accepted against how many may (`Recv-Q` and `Send-Q`
//! of ss(8)), what each did not take, and which processes hold it, by netlink in the target's network namespace.
//! How many connections each accepted the kernel does not say.
//! Which sockets are the target's is found by its descriptors: looked through when the set of its processes or of the
//! namespace's listeners changes, at most every ten seconds.
//! Cost: two requests a second, which walk through listeners only. Another namespace needs CAP_SYS_ADMIN, another user's
//! process CAP_SYS_PTRACE.

use super::folder;
use crate::limits::{DESCRIPTORS_MAX, LISTENERS_MAX, OWNERS_EVERY_NS};
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler, living_id, of_target};
use crate::source::namespace::in_network_of;
use crate::source::proc::{Buffers, SampleError};
use crate::source::sockets::sock_diag;
use crate::target::sockets_of;
use model::Snapshot;
use model::snapshot::ListenerSample;
use std::collections::{BTreeMap, BTreeSet};

const METRICS: &[Metric] = &[
    gauge("listeners[].waiting", "connections", "idiag_rqueue", "established and not accepted"),
    gauge("listeners[].backlog", "connections", "idiag_wqueue", "how many may wait; one more fits"),
    counter("listeners[].drops", "segments", "SK_MEMINFO_DROPS", "SYNs and connections the socket did not take"),
    gauge("listeners[].inode", "number", "idiag_inode", "tells two sockets of one address apart"),
    gauge("listeners[].owners", "ids", "/proc/<pid>/fd", "processes that hold the socket"),
    gauge("listening_sockets", "sockets", "sock_diag", "listening sockets of the target; absent: not read"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/listeners",
    about: "connections that wait to be accepted or were not taken, and owners, of each listening socket of the target \
            (sock_diag)",
    needs: "CAP_SYS_PTRACE for another user's process, CAP_SYS_ADMIN for another network namespace; CONFIG_INET_DIAG",
    cost: "2 netlink requests a second, listeners only",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Listeners::default()),
};

#[derive(Debug, Default)]
struct Listeners {
    /// The target's, and of what they were found.
    owned: BTreeMap<u64, BTreeSet<u32>>,
    of: (Vec<(u32, u64)>, BTreeSet<u64>),
    looked_ns: Option<i64>,
    left_out: usize,
}

impl Sampler for Listeners {
    fn sample(&mut self, _: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let pids: Vec<(u32, u64)> =
            of_target(snapshot)?.map(|process| (living_id(process), process.start_ticks)).collect();
        let (_, pid) = folder(snapshot);
        let mut all = in_network_of(pid, sock_diag::listeners)?
            .map_err(|error| SampleError::Refused { reason: error.to_string() })?;
        let of = (pids, all.iter().map(|listener| listener.inode).collect::<BTreeSet<u64>>());
        let is_due = self.looked_ns.is_none_or(|at| snapshot.at_ns.saturating_sub(at) >= OWNERS_EVERY_NS);
        if of != self.of && (is_due || of.0 != self.of.0) {
            self.owned = sockets_of(of.0.iter().map(|(pid, _)| *pid), &of.1, DESCRIPTORS_MAX)?.owners;
            (self.of, self.looked_ns) = (of, Some(snapshot.at_ns));
        }
        all.retain(|listener| self.owned.contains_key(&listener.inode));
        all.sort_by_key(|listener| (listener.address, listener.inode));
        self.left_out = all.len().saturating_sub(LISTENERS_MAX);
        snapshot.network.set("listening_sockets", all.len() as u64);
        snapshot.listeners = all
            .into_iter()
            .take(LISTENERS_MAX)
            .filter_map(|l| {
                Some(ListenerSample {
                    address: l.address.to_string(),
                    waiting: l.waiting?,
                    backlog: l.backlog?,
                    inode: l.inode,
                    owners: self.owned.get(&l.inode).into_iter().flatten().copied().collect(),
                    drops: l.drops.map(u64::from),
                })
            })
            .collect();
        Ok(())
    }

    fn leaves_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} listening sockets beyond the first {LISTENERS_MAX}", self.left_out))
    }
}
