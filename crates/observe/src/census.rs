//! Who used CPU time, disks and memory since the observation began. CPU time by what the kernel sums in `/proc/<pid>/stat`: each process's own time,
//! and that of the children it has waited for (`cutime`, `cstime` of proc(5)), so that a child which began and ended
//! between two readings is counted.
//!
//! A process is charged, from reading to reading, what its own time grew by, and what its children's time grew by less what
//! its vanished children had been charged already: they are in it with the whole of their lives. Everything is a growth and
//! none is negative, so no sum goes back. A child may be waited for after its parent was read and before it was itself
//! looked for; what is to be taken off for it is therefore kept for one more reading of the parent. Parents are read before
//! their children (by start time): the other way round a child could be in both.
//!
//! The target's are the processes that were named and their descendants. Of a holder of the target's address that is an
//! init process, or an ancestor of this one, only children of the same name are, as it has half of the machine below it.
//!
//! Not seen: children that nobody waits for (SIGCHLD ignored), from when they were last looked at. No I/O is done here.

mod beside;

use crate::source::stat::{Stat, ticks_ns};
use beside::{disk_bytes, neighbour};
use model::limits::NEIGHBOURS_MAX;
use model::snapshot::Neighbour;
use std::collections::{BTreeMap, BTreeSet};

/// User and system CPU time, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

impl Used {
    /// A total, which is exact, divided by two shares, which may be counted by clock ticks.
    pub(crate) fn divided(total_ns: u64, user: u64, system: u64) -> Self {
        let shares = u128::from(user) + u128::from(system);
        let part = (u128::from(total_ns) * u128::from(user)).checked_div(shares);
        let user_ns = part.and_then(|part| u64::try_from(part).ok()).unwrap_or(total_ns);
        Used { user_ns, system_ns: total_ns - user_ns }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Used {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
        }
    }
}

/// What was read of a process.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) stat: Stat,
    /// Its time by `schedstat`, nanoseconds, where it has one thread; 0: not read. `stat` leaves out a clock tick each of
    /// user and system time, which of a hundred processes that do little is most of it.
    pub(crate) run_ns: u64,
    /// Bytes read from disks and written to them; `None`: not read.
    pub(crate) disk_bytes: Option<(u64, u64)>,
}

impl Reading {
    fn own_ns(&self) -> u64 {
        ticks_ns(self.stat.user_ticks.saturating_add(self.stat.system_ticks)).max(self.run_ns)
    }

    fn waited_ns(&self) -> u64 {
        ticks_ns(self.stat.waited_user_ticks.saturating_add(self.stat.waited_system_ticks))
    }

    /// All user and system time, of children too, clock ticks: by which its time is divided.
    fn shares(&self) -> (u64, u64) {
        let Stat { user_ticks, system_ticks, waited_user_ticks, waited_system_ticks, .. } = self.stat;
        (user_ticks.saturating_add(waited_user_ticks), system_ticks.saturating_add(waited_system_ticks))
    }
}

/// All processes that were seen.
#[derive(Debug, Default)]
pub(crate) struct Census {
    processes: BTreeMap<u32, Process>,
    /// When it began, clock ticks since boot.
    begun_ticks: Option<u64>,
    target: Option<Used>,
    /// Of those that have ended, the ones that used most.
    ended: Vec<Neighbour>,
    /// The highest CPU seen, from which it is known how much may be used at the most.
    core_max: u32,
    readings: u64,
}

/// Whom a reading is about, beside the processes themselves.
#[derive(Debug)]
pub(crate) struct About<'a> {
    /// The target's processes that are known.
    pub(crate) roots: &'a BTreeSet<u32>,
    /// This process.
    pub(crate) own_pid: u32,
    /// Whether all descendants are the target's, whoever is above them.
    pub(crate) takes_all_children: bool,
    /// Now, clock ticks since boot.
    pub(crate) now_ticks: u64,
    /// The ids there are, ascending; `None`: they were not listed this time.
    pub(crate) listed: Option<&'a [u32]>,
}

#[derive(Debug)]
struct Process {
    start_ticks: u64,
    parent: u32,
    name: String,
    core: Option<u32>,
    is_target: bool,
    /// Whether all of its children are the target's.
    is_whole: bool,
    own_ns: u64,
    waited_ns: u64,
    shares: (u64, u64),
    /// What is to be taken off what it waits for next: since before its last reading, and after it.
    owed_long_ns: u64,
    owed_ns: u64,
    /// Charged since the observation began, and at the last reading.
    charged_ns: u64,
    charged_last_ns: u64,
    /// Bytes read from disks and written to them: at first, and at last.
    disk_bytes: Option<[(u64, u64); 2]>,
    /// Resident memory: at first, and at last.
    rss_bytes: [u64; 2],
    /// When it was last read, clock ticks since boot, and the number of that reading.
    read_ticks: u64,
    reading: u64,
}

impl Census {
    /// Which of the listed ids to read, in this order: the target's processes, those that were named as such (`roots`), and of the
    /// others at most `others_max`. Also how many are left for another time.
    pub(crate) fn plan(
        &self,
        listed: &[u32],
        roots: &BTreeSet<u32>,
        target_max: usize,
        others_max: usize,
    ) -> (Vec<u32>, usize) {
        let (mut named, mut new, mut known, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for pid in listed {
            match self.processes.get(pid) {
                // On a machine with many processes they would otherwise wait for their turn, and the target with them.
                None if roots.contains(pid) => named.push(*pid),
                None => new.push(*pid),
                Some(process) if process.is_target => known.push((process.start_ticks, *pid)),
                Some(process) => others.push((process, *pid)),
            }
        }
        known.sort_unstable();
        let mut left = known.len().saturating_sub(target_max) + new.len() + others.len();
        known.truncate(target_max);
        left += named.len().saturating_sub(target_max);
        named.truncate(target_max);
        new.truncate(others_max / 2);
        // Those that ran last time first, then who was not read for longest.
        others.sort_by_key(|(process, _)| (std::cmp::Reverse(process.charged_last_ns), process.reading));
        let ran = others.iter().take_while(|(process, _)| process.charged_last_ns > 0).count().min(others_max / 4);
        others.get_mut(ran..).unwrap_or_default().sort_by_key(|(process, _)| process.reading);
        others.truncate(others_max - new.len());
        left -= new.len() + others.len();
        known.extend(others.into_iter().map(|(process, pid)| (process.start_ticks, pid)));
        known.sort_unstable();
        (known.into_iter().map(|(_, pid)| pid).chain(named).chain(new).collect(), left)
    }

    /// The target's processes, the oldest first.
    pub(crate) fn targets(&self) -> Vec<u32> {
        let mut targets: Vec<_> =
            self.processes.iter().filter(|(_, p)| p.is_target).map(|(pid, p)| (p.start_ticks, *pid)).collect();
        targets.sort_unstable();
        targets.into_iter().map(|(_, pid)| pid).collect()
    }

    /// Whether a process is the target's; `None`: it is not known.
    pub(crate) fn is_target(&self, pid: u32) -> Option<bool> {
        self.processes.get(&pid).map(|process| process.is_target)
    }

    /// Takes in a reading: the processes in the order they were read, `None` for those that were gone. Returns what the
    /// target used since the one before.
    pub(crate) fn take(&mut self, about: &About<'_>, read: Vec<(u32, Option<Reading>)>) -> Used {
        self.begun_ticks.get_or_insert(about.now_ticks);
        self.readings += 1;
        self.remove_gone(about, &read);
        let mut read: Vec<(u32, Reading)> =
            read.into_iter().filter_map(|(pid, reading)| Some((pid, reading?))).collect();
        read.sort_by_key(|(pid, reading)| (reading.stat.start_ticks, *pid));
        let above = self.above(about.own_pid, &read);
        let mut grown = Used::default();
        for (pid, reading) in read {
            let is_supervisor = pid == 1 || above.contains(&pid);
            let (is_target, charge) = self.charge(about, pid, reading, is_supervisor);
            if is_target {
                grown = grown.plus(charge);
                self.target = Some(self.target.unwrap_or_default().plus(charge));
            }
        }
        grown
    }

    /// CPU time of the target since the observation began; `None`: no process of it was ever read.
    pub(crate) fn target(&self) -> Option<Used> {
        self.target
    }

    /// Takes out those that have ended; the nearest ancestor that lives will have their time in what it waited for.
    fn remove_gone(&mut self, about: &About<'_>, read: &[(u32, Option<Reading>)]) {
        let mut gone: BTreeMap<u32, Process> = BTreeMap::new();
        for (pid, reading) in read {
            let is_same =
                |process: &Process| reading.as_ref().is_some_and(|r| r.stat.start_ticks == process.start_ticks);
            if self.processes.get(pid).is_some_and(|process| !is_same(process)) {
                gone.extend(self.processes.remove(pid).map(|process| (*pid, process)));
            }
        }
        if let Some(listed) = about.listed {
            let missing = |pid: &u32| listed.binary_search(pid).is_err();
            let missing: Vec<u32> = self.processes.keys().copied().filter(missing).collect();
            for pid in missing {
                gone.extend(self.processes.remove(&pid).map(|process| (pid, process)));
            }
        }
        for (pid, process) in &gone {
            let mut parent = process.parent;
            // A chain of ended ones cannot be longer than they are many.
            for _ in 0..gone.len() {
                match gone.get(&parent) {
                    Some(ended) => parent = ended.parent,
                    None => break,
                }
            }
            if let Some(heir) = self.processes.get_mut(&parent) {
                heir.owed_ns = heir.owed_ns.saturating_add(process.own_ns).saturating_add(process.waited_ns);
            }
            let last = Neighbour { rss_bytes: None, rss_grown_bytes: None, ..neighbour(*pid, process) };
            if !process.is_target && *pid != about.own_pid && (last.cpu_ns > 0 || disk_bytes(&last) > 0) {
                self.ended.retain(|ended| ended.pid != *pid);
                self.ended.push(last);
            }
        }
        // Those that used most CPU, and of the rest those that used disks most.
        self.ended.sort_by_key(|ended| std::cmp::Reverse(ended.cpu_ns));
        let mut rest = self.ended.split_off(self.ended.len().min(NEIGHBOURS_MAX));
        rest.retain(|ended| disk_bytes(ended) > 0);
        rest.sort_by_key(|ended| std::cmp::Reverse(disk_bytes(ended)));
        self.ended.extend(rest.into_iter().take(NEIGHBOURS_MAX));
    }

    /// Charges a process that was read; whether it is the target's, and what for.
    fn charge(&mut self, about: &About<'_>, pid: u32, reading: Reading, is_supervisor: bool) -> (bool, Used) {
        let stat = &reading.stat;
        let parent = self.processes.get(&stat.parent).filter(|parent| parent.is_target && pid != about.own_pid);
        let is_adopted = parent.is_some_and(|parent| parent.is_whole || parent.name == stat.name);
        let (waited_ns, shares) = (reading.waited_ns(), reading.shares());
        let is_young = stat.start_ticks >= self.begun_ticks.unwrap_or(u64::MAX);
        self.core_max = self.core_max.max(stat.core.unwrap_or(0));
        let cpus = u64::from(self.core_max) + 1;
        let rss_bytes = stat.resident_pages.saturating_mul(rustix::param::page_size() as u64);
        let process = self.processes.entry(pid).or_insert_with(|| Process {
            start_ticks: stat.start_ticks,
            parent: stat.parent,
            name: String::new(),
            core: None,
            is_target: false,
            is_whole: false,
            // What began later is charged from zero, what was there before from now on.
            own_ns: if is_young { 0 } else { reading.own_ns() },
            waited_ns: if is_young { 0 } else { waited_ns },
            shares: if is_young { (0, 0) } else { shares },
            owed_long_ns: 0,
            owed_ns: 0,
            charged_ns: 0,
            charged_last_ns: 0,
            disk_bytes: reading.disk_bytes.filter(|_| is_young).map(|bytes| [(0, 0), bytes]),
            rss_bytes: [if is_young { 0 } else { rss_bytes }, 0],
            read_ticks: stat.start_ticks,
            reading: 0,
        });
        if !process.is_target && (is_adopted || about.roots.contains(&pid)) {
            process.is_target = true;
            process.is_whole = about.takes_all_children || !is_supervisor;
        }
        let own_ns = reading.own_ns().max(process.own_ns);
        let mut of_children_ns = waited_ns.saturating_sub(process.waited_ns);
        // What was owed before the last reading and has not come by now never comes: nobody waited for it.
        of_children_ns = of_children_ns.saturating_sub(process.owed_long_ns);
        let left_ns = process.owed_ns.saturating_sub(of_children_ns);
        of_children_ns = of_children_ns.saturating_sub(process.owed_ns);
        (process.owed_long_ns, process.owed_ns) = (left_ns, 0);
        let mut charge_ns = own_ns - process.own_ns;
        if process.is_whole || !process.is_target {
            charge_ns = charge_ns.saturating_add(of_children_ns);
        }
        if !process.is_target {
            // A child that was never read while it lived may have lived long before.
            let elapsed = about.now_ticks.saturating_sub(process.read_ticks.max(self.begun_ticks.unwrap_or(0)));
            charge_ns = charge_ns.min(ticks_ns(elapsed.saturating_add(2).saturating_mul(cpus)));
        }
        let grown = (shares.0.saturating_sub(process.shares.0), shares.1.saturating_sub(process.shares.1));
        let (user, system) = if grown == (0, 0) { shares } else { grown };
        if let Some(bytes) = reading.disk_bytes {
            // What was there before is not of the observation.
            process.disk_bytes.get_or_insert([bytes, bytes])[1] = bytes;
        }
        process.rss_bytes[1] = rss_bytes;
        process.charged_last_ns = charge_ns;
        process.charged_ns = process.charged_ns.saturating_add(charge_ns);
        (process.own_ns, process.waited_ns, process.shares) = (own_ns, waited_ns, shares);
        (process.read_ticks, process.reading) = (about.now_ticks, self.readings);
        (process.parent, process.core, process.name) = (stat.parent, stat.core, reading.stat.name);
        (process.is_target, Used::divided(charge_ns, user, system))
    }

    /// The ancestors of a process.
    fn above(&self, pid: u32, read: &[(u32, Reading)]) -> BTreeSet<u32> {
        let of = |pid: u32| {
            let read = read.iter().find(|(of, _)| *of == pid).map(|(_, reading)| reading.stat.parent);
            read.or_else(|| self.processes.get(&pid).map(|process| process.parent))
        };
        let mut above = BTreeSet::new();
        let mut next = of(pid);
        while let Some(pid) = next.filter(|pid| *pid != 0 && above.insert(*pid)) {
            next = of(pid);
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 9;

    /// Id, parent, start, own time, time of children.
    type Line = (u32, u32, u64, u64, u64);

    fn reading((_, parent, start_ticks, own, waited): Line) -> Reading {
        let mut stat = Stat::parse(b"1 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 0 0 0").unwrap();
        (stat.parent, stat.start_ticks, stat.core) = (parent, start_ticks, Some(1));
        (stat.user_ticks, stat.waited_user_ticks) = (own, waited);
        Reading { stat, run_ns: 0, disk_bytes: None }
    }

    /// The target's sum after each reading, of processes that are all listed.
    fn sums(takes_all_children: bool, roots: &[u32], readings: &[&[Line]]) -> (Vec<u64>, Census) {
        let mut census = Census::default();
        let roots: BTreeSet<u32> = roots.iter().copied().collect();
        let mut sums = Vec::new();
        for (lines, now_ticks) in readings.iter().zip((1000..).step_by(100)) {
            let mut listed: Vec<u32> = lines.iter().map(|line| line.0).collect();
            listed.sort_unstable();
            let (plan, left) = census.plan(&listed, &roots, 1024, 512);
            assert_eq!((plan.len(), left), (lines.len(), 0));
            let read =
                plan.iter().map(|pid| (*pid, lines.iter().find(|line| line.0 == *pid).map(|line| reading(*line))));
            let about = About { roots: &roots, own_pid: OWN, takes_all_children, now_ticks, listed: Some(&listed) };
            census.take(&about, read.collect());
            sums.push(census.target().map_or(0, |used| (used.user_ns + used.system_ns) / ticks_ns(1)));
        }
        (sums, census)
    }

    #[test]
    fn children_that_were_never_seen_are_in_what_their_parent_waited_for() {
        let (sums, _) = sums(false, &[5], &[&[(5, 1, 10, 100, 50)], &[(5, 1, 10, 103, 90)], &[(5, 1, 10, 104, 91)]]);
        assert_eq!(sums, [0, 43, 45]);
    }

    #[test]
    fn a_child_that_was_seen_is_not_counted_twice_when_it_is_waited_for() {
        let (sums, _) = sums(
            false,
            &[5],
            &[
                &[(5, 1, 10, 0, 0), (6, 5, 20, 500, 0)],
                &[(5, 1, 10, 0, 0), (6, 5, 20, 530, 0), (7, 5, 1010, 8, 0)],
                // Both ended, 6 after five more ticks; 7 after two more.
                &[(5, 1, 10, 0, 545)],
                &[(5, 1, 10, 1, 546)],
            ],
        );
        assert_eq!(sums, [0, 38, 45, 47]);
    }

    #[test]
    fn a_child_that_is_waited_for_late_is_not_counted_twice_either() {
        let (sums, _) = sums(
            false,
            &[5],
            &[
                &[(5, 1, 10, 0, 0), (6, 5, 20, 500, 0)],
                // The parent was read, the child ended, and was not found.
                &[(5, 1, 10, 0, 0)],
                &[(5, 1, 10, 0, 503)],
                &[(5, 1, 10, 0, 510)],
            ],
        );
        assert_eq!(sums, [0, 0, 3, 10]);
    }

    #[test]
    fn one_that_nobody_waits_for_keeps_its_last_value() {
        let (sums, _) = sums(
            false,
            &[5],
            &[
                &[(5, 1, 10, 0, 0), (6, 5, 20, 500, 0)],
                &[(5, 1, 10, 0, 0), (6, 5, 20, 520, 0)],
                &[(5, 1, 10, 1, 0)],
                &[(5, 1, 10, 2, 0)],
                &[(5, 1, 10, 2, 7)],
                &[],
            ],
        );
        assert_eq!(sums, [0, 20, 21, 22, 29, 29], "and it does not eat for ever what is waited for later");
    }

    #[test]
    fn a_grandchild_goes_through_its_parent_to_who_lives() {
        let (sums, _) = sums(
            false,
            &[5],
            &[
                &[(5, 1, 10, 0, 0), (6, 5, 20, 100, 0), (7, 6, 30, 1000, 0)],
                &[(5, 1, 10, 0, 0), (6, 5, 20, 101, 0), (7, 6, 30, 1001, 0)],
                &[(5, 1, 10, 0, 1104)],
            ],
        );
        assert_eq!(sums, [0, 2, 4]);
    }

    #[test]
    fn below_an_init_process_only_its_own_kind_is_the_target() {
        let mut lines = vec![(1, 0, 1, 5, 5), (OWN, 1, 40, 0, 0), (20, 1, 50, 10, 0)];
        let first = lines.clone();
        lines[0] = (1, 0, 1, 6, 500);
        lines[2] = (20, 1, 50, 30, 0);
        let (of_address, _) = sums(false, &[1], &[&first, &lines]);
        // All are called x here: a child of the same program, and not what an init process waited for.
        assert_eq!(of_address, [0, 21]);
        let (of_pid, census) = sums(true, &[1], &[&first, &lines]);
        assert_eq!(of_pid, [0, 21 + 495]);
        assert_eq!(census.is_target(OWN), Some(false), "not we ourselves");
    }

    #[test]
    fn a_total_is_divided_without_loss() {
        let divided = |total_ns, user, system| {
            let used = Used::divided(total_ns, user, system);
            (used.user_ns, used.system_ns)
        };
        assert_eq!(divided(100, 1, 3), (25, 75));
        assert_eq!(divided(7, 0, 0), (7, 0));
        assert_eq!(divided(u64::MAX, u64::MAX, 0), (u64::MAX, 0));
    }

    #[test]
    fn others_are_found_by_what_they_used_and_an_id_that_is_reused_begins_anew() {
        let (_, census) = sums(
            false,
            &[5],
            &[
                &[(5, 1, 10, 0, 0), (30, 1, 20, 70, 0), (31, 1, 21, 0, 0), (OWN, 1, 40, 0, 0)],
                &[(5, 1, 10, 50, 0), (30, 1, 1050, 9, 0), (31, 1, 21, 20, 0), (OWN, 1, 40, 80, 0)],
                // It cannot have used more than there was: a child of it was never read.
                &[(5, 1, 10, 50, 0), (30, 1, 1050, 9, 0), (31, 1, 21, 20, 5000), (OWN, 1, 40, 80, 0)],
            ],
        );
        let found: Vec<(u32, u64)> = census.neighbours(OWN).iter().map(|n| (n.pid, n.cpu_ns)).collect();
        assert_eq!(found, [(31, ticks_ns(20 + 2 * 102)), (30, ticks_ns(9))]);
    }

    #[test]
    fn disks_and_memory_count_from_the_beginning_of_the_observation_or_of_the_process() {
        let mut census = Census::default();
        let mut take = |now_ticks, lines: &[(u32, u64, u64, (u64, u64))]| {
            let listed: Vec<u32> = lines.iter().map(|line| line.0).collect();
            let read = lines.iter().map(|(pid, start, pages, disk_bytes)| {
                let mut one = reading((*pid, 1, *start, 0, 0));
                (one.stat.resident_pages, one.disk_bytes) = (*pages, Some(*disk_bytes));
                (*pid, Some(one))
            });
            let roots = BTreeSet::from([5]);
            let about =
                About { roots: &roots, own_pid: OWN, takes_all_children: false, now_ticks, listed: Some(&listed) };
            census.take(&about, read.collect());
        };
        // The target, this process, one that wrote before, one that gives memory back.
        take(1000, &[(5, 1, 900, (0, 0)), (OWN, 1, 900, (0, 0)), (30, 2, 50, (7, 1000)), (31, 3, 80, (0, 0))]);
        take(1100, &[(5, 1, 900, (9, 9)), (OWN, 1, 900, (9, 9)), (30, 2, 60, (9, 1500)), (32, 1050, 5, (70, 0))]);
        take(1200, &[(30, 2, 60, (9, 1500)), (31, 1150, 40, (0, 0))]);
        let page = rustix::param::page_size() as u64;
        let on_disks: Vec<_> =
            census.disk_neighbours(OWN).iter().map(|n| (n.pid, n.disk_read_bytes, n.disk_written_bytes)).collect();
        assert_eq!(on_disks, [(30, Some(2), Some(500)), (32, Some(70), Some(0))], "32 has ended and is kept");
        let in_memory: Vec<_> =
            census.memory_neighbours(OWN).iter().map(|n| (n.pid, n.rss_bytes, n.rss_grown_bytes)).collect();
        let grown = |pages: u64| Some((pages * page) as i64);
        assert_eq!(in_memory, [(30, Some(60 * page), grown(10)), (31, Some(40 * page), grown(40))]);
        assert_eq!(census.neighbours(OWN), [], "none of them used CPU time");
    }

    #[test]
    fn what_grows_is_shown_beside_what_is_large() {
        let mut census = Census::default();
        for (now_ticks, more) in [(1000, 0), (1100, 90)] {
            let listed: Vec<u32> = (100..140).collect();
            let read = listed.iter().map(|pid| {
                let mut one = reading((*pid, 1, 5, 0, 0));
                one.stat.resident_pages = 20_000 - 100 * u64::from(*pid) + if *pid == 139 { more } else { 0 };
                (*pid, Some(one))
            });
            let (roots, read) = (BTreeSet::new(), read.collect());
            let about =
                About { roots: &roots, own_pid: OWN, takes_all_children: false, now_ticks, listed: Some(&listed) };
            census.take(&about, read);
        }
        let found: Vec<u32> = census.memory_neighbours(OWN).iter().map(|n| n.pid).collect();
        assert_eq!(found[..NEIGHBOURS_MAX], (100..100 + NEIGHBOURS_MAX as u32).collect::<Vec<_>>());
        assert_eq!(found[NEIGHBOURS_MAX..], [139]);
    }

    #[test]
    fn a_target_that_is_named_is_read_at_once_however_many_others_there_are() {
        let listed: Vec<u32> = (100..1000).collect();
        let roots = BTreeSet::from([998, 999]);
        let (plan, left) = Census::default().plan(&listed, &roots, 10, 40);
        assert_eq!((&plan[..2], plan.len(), left), (&[998, 999][..], 22, 900 - 22));
        // No more of them than a target may have.
        let (plan, left) = Census::default().plan(&listed, &listed.iter().copied().collect(), 10, 40);
        assert_eq!((plan.len(), left), (10, 890));
    }

    #[test]
    fn of_very_many_all_are_read_in_turn() {
        let mut census = Census::default();
        let listed: Vec<u32> = (100..300).collect();
        let mut read = BTreeSet::new();
        for now_ticks in 0..20 {
            let (plan, left) = census.plan(&listed, &BTreeSet::new(), 10, 40);
            assert!(plan.len() <= 40 && left >= 160, "{} and {left}", plan.len());
            read.extend(plan.iter().copied());
            let lines = plan.iter().map(|pid| (*pid, Some(reading((*pid, 1, 5, now_ticks, 0))))).collect();
            let about = About {
                roots: &BTreeSet::new(),
                own_pid: OWN,
                takes_all_children: false,
                now_ticks,
                listed: Some(&listed),
            };
            census.take(&about, lines);
        }
        assert_eq!(read.len(), 200);
    }
}
