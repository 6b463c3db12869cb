//! Of all processes that were seen, those beside the target that used most: of CPU time, of disks, of memory.

use super::{Census, Process};
use model::limits::NEIGHBOURS_MAX;
use model::snapshot::Neighbour;

impl Census {
    /// Of the others, those that read and wrote most on disks, the one that did most first.
    pub(crate) fn disk_neighbours(&self, own_pid: u32) -> Vec<Neighbour> {
        let mut all: Vec<Neighbour> = self.others(own_pid).map(|(pid, process)| neighbour(pid, process)).collect();
        all.extend(self.ended.iter().cloned());
        all.retain(|neighbour| disk_bytes(neighbour) > 0);
        all.sort_by_key(|neighbour| (std::cmp::Reverse(disk_bytes(neighbour)), neighbour.pid));
        all.truncate(NEIGHBOURS_MAX);
        all
    }

    /// Of the others that live, those that have most memory, the one that has most first, and then those whose memory grew
    /// most, as far as they are not among the first.
    pub(crate) fn memory_neighbours(&self, own_pid: u32) -> Vec<Neighbour> {
        let mut all: Vec<(u32, &Process)> = self.others(own_pid).filter(|(_, p)| p.rss_bytes[1] > 0).collect();
        all.sort_by_key(|(pid, process)| (std::cmp::Reverse(process.rss_bytes[1]), *pid));
        let rest = all.split_off(all.len().min(NEIGHBOURS_MAX));
        let mut grown: Vec<(u32, &Process)> =
            rest.into_iter().filter(|(_, p)| p.rss_bytes[1] > p.rss_bytes[0]).collect();
        grown.sort_by_key(|(pid, process)| (std::cmp::Reverse(process.rss_bytes[1] - process.rss_bytes[0]), *pid));
        all.extend(grown.into_iter().take(NEIGHBOURS_MAX));
        all.into_iter().map(|(pid, process)| neighbour(pid, process)).collect()
    }

    fn others(&self, own_pid: u32) -> impl Iterator<Item = (u32, &Process)> {
        let is_other = move |(pid, process): &(&u32, &Process)| !process.is_target && **pid != own_pid;
        self.processes.iter().filter(is_other).map(|(pid, process)| (*pid, process))
    }

    /// The others that used most, the one that used most first.
    pub(crate) fn neighbours(&self, own_pid: u32) -> Vec<Neighbour> {
        let living = self.processes.iter().filter(|(pid, p)| !p.is_target && **pid != own_pid && p.charged_ns > 0);
        let mut all: Vec<(u64, u32, Option<&Process>)> = living.map(|(pid, p)| (p.charged_ns, *pid, Some(p))).collect();
        all.extend(self.ended.iter().filter(|n| n.cpu_ns > 0).map(|n| (n.cpu_ns, n.pid, None)));
        all.sort_by_key(|(cpu_ns, pid, _)| (std::cmp::Reverse(*cpu_ns), *pid));
        all.truncate(NEIGHBOURS_MAX);
        all.into_iter()
            .filter_map(|(_, pid, process)| match process {
                Some(process) => Some(neighbour(pid, process)),
                None => self.ended.iter().find(|ended| ended.pid == pid).cloned(),
            })
            .collect()
    }
}

/// Bytes on disks, both ways.
pub(super) fn disk_bytes(neighbour: &Neighbour) -> u64 {
    neighbour.disk_read_bytes.unwrap_or(0).saturating_add(neighbour.disk_written_bytes.unwrap_or(0))
}

pub(super) fn neighbour(pid: u32, process: &Process) -> Neighbour {
    let on_disks = process.disk_bytes.map(|[first, last]| {
        // A thread that ends takes nothing with it: these grow.
        (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1))
    });
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let [rss_first, rss_bytes] = process.rss_bytes;
    Neighbour {
        disk_read_bytes: on_disks.map(|(read, _)| read),
        disk_written_bytes: on_disks.map(|(_, written)| written),
        rss_bytes: Some(rss_bytes),
        rss_grown_bytes: Some(signed(rss_bytes) - signed(rss_first)),
        pid,
        start_ticks: process.start_ticks,
        name: process.name.clone(),
        cpu_ns: process.charged_ns,
        core: process.core,
        // Whom the target asks is known by its sockets: `samplers/network/backends.rs`.
        is_backend: false,
        // Known when recordings are merged.
        is_generator: false,
    }
}
