//! How each thread of the target spends the windows, by state, so that the states add up to the time that it lived: what it
//! waits for, at which kind of descriptor, who wakes it, who held the futex that it wanted; stalls, and pauses of all.
//!
//! By `sched_switch` and `sched_waking`, with the registers that a thread entered its system call with: no call is slowed.
//! Waits that began before the window count from its start, those that have not ended from their beginning to its end; of
//! a thread without any event in it, what it stood in when it was read (`untouched`). Who held a futex is known of pthread
//! mutexes of glibc, which say their owner; of others, who let the waiters go. Who wakes is whoever runs there, in a call
//! that can wake: an interrupt within such a call passes for it. `throttled`: since Linux 6.18 exactly, before it only of
//! threads that were on a CPU when the quota ended. Calls of 32-bit programs are not known by number.
//! Threads beyond 4,096, and what else did not fit, are counted as lost.

mod told;
mod untouched;

use super::{Probe, Reading, Runs, object};
use crate::limits::{EDGES_COUNTED_MAX, STALLS_MAX, THREAD_ROWS_COUNTED_MAX, THREAD_ROWS_MAX};
use crate::source::bpf::symbols::areas::Areas;
use crate::source::bpf::{BpfError, Entry, Programs, names};
use crate::source::clock;
use crate::source::stat::ticks_ns;
use model::limits::THREAD_EDGES_KEPT;
use model::threads::{DESCRIPTORS, FutexHolder, STATES, Stall, ThreadStates, ThreadTime, WaitPlace, Wake};
use std::collections::BTreeMap;
use told::{Pauses, PlaceUse, half, remote, signed_half};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/threads",
    about: "each thread's time by state; where it waits, who wakes it, who holds what it waits for; stalls and pauses",
    runs: Runs::InWindows,
    object: object!("threads"),
    counts: &["events", "threads_lost", "places_lost", "wakes_lost", "holders_lost", "stalls_lost", "pauses_lost"],
    histograms: &["stall_ns", "pause_ns"],
    read,
};

/// Numbers of states, as `enum state` of the program has them.
const ON_CPU: usize = 0;
const FUTEX: usize = 5;
const POLL: usize = 7;
const SLEEP: usize = 9;
const OTHER: usize = 11;
/// States that a thread without work may be in.
const IDLE: [usize; 6] = [FUTEX, 6, POLL, 8, SLEEP, OTHER];
/// A futex' holder that its word tells, as in the program.
const OWNER: u32 = 0;
/// A stall that is kept, as in the program.
const STALL_NS: u64 = 5_000_000;

/// A thread, by its id and its start in clock ticks since boot: the id alone is given again.
type ThreadKey = (u32, u64);
type Nanos = [u64; STATES.len()];

/// What is kept from window to window.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Length of the windows that have ended.
    window_ns: u64,
    rows: BTreeMap<ThreadKey, Row>,
    /// Those that there were too many of.
    folded: Folded,
    places: BTreeMap<(u32, [u32; 3]), PlaceUse>,
    wakes: BTreeMap<[u32; 4], (u64, u64, String)>,
    holders: BTreeMap<(u64, [u32; 3]), [u64; 3]>,
    stalls: Vec<Stall>,
    pauses: Pauses,
    /// Places, wakes and holders that there were too many of.
    edges_lost: u64,
    /// Threads without an event that were too many to be read, window by window.
    unread_lost: u64,
}

#[derive(Debug, Clone, Default)]
struct Row {
    pid: u32,
    name: String,
    alive_ns: u64,
    ns: Nanos,
}

#[derive(Debug, Clone, Default)]
struct Folded {
    threads: u64,
    alive_ns: u64,
    ns: Nanos,
}

/// A thread's record in the kernel.
struct Record {
    started_ns: u64,
    since_ns: u64,
    first_ns: u64,
    ns: Nanos,
    argument: u64,
    holder_ran_ns: u64,
    tid: u32,
    tgid: u32,
    state: usize,
    first_state: usize,
    call: i32,
    descriptor: u32,
    holder: u32,
}

impl Record {
    fn of(entry: &Entry) -> Option<Self> {
        let words = &entry.words;
        let [started_ns, since_ns, first_ns] = *words.get(..3)?.first_chunk()?;
        let ns: Nanos = *words.get(3..)?.first_chunk()?;
        let rest = words.get(3 + STATES.len()..)?;
        let [argument, holder_ran_ns, ids, states, at, holder, _] = rest[..] else { return None };
        Some(Record {
            started_ns,
            since_ns,
            first_ns,
            ns,
            argument,
            holder_ran_ns,
            tid: half(ids, 0),
            tgid: half(ids, 1),
            state: half(states, 0) as usize,
            first_state: half(states, 1) as usize,
            call: signed_half(at, 0),
            descriptor: half(at, 1),
            holder: half(holder, 0),
        })
    }

    /// The same at the window's end: the state that it is in has gone on until then.
    fn until(mut self, end_ns: u64) -> Self {
        if let Some(ns) = self.ns.get_mut(self.state) {
            *ns = ns.saturating_add(end_ns.saturating_sub(self.since_ns));
        }
        self
    }
}

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    if !reading.window_ended {
        return Ok(());
    }
    let has_windows = reading.window_from_ns.is_some();
    let (from, to) = programs.ran_ns();
    let (from_ns, to_ns) = (from.cast_unsigned(), to.cast_unsigned());
    // While the programs run, what a thread did before stays in the kernel.
    let entries = if has_windows { programs.take("threads")? } else { programs.hash("threads")? };
    let records: Vec<Record> = entries.iter().filter_map(Record::of).map(|record| record.until(to_ns)).collect();
    let pids: Vec<u32> = reading.targets.iter().map(|target| target.pid).collect();
    let (still, unread) = untouched::states(&pids, &records, from_ns);
    let state = &mut reading.names.threads;
    let origin_ns = reading.origin_ns;
    state.add_edges(programs, origin_ns)?;
    state.pauses.take(programs, &records, &still, has_windows.then_some(to_ns), origin_ns)?;
    if has_windows {
        programs.set("all", &[0, 0])?;
        state.add_unended(&records, to_ns, origin_ns);
    }
    let mut rows = state.rows.clone();
    let window_ns = state.window_ns.saturating_add(to_ns.saturating_sub(from_ns));
    for record in &records {
        let row = rows.entry((record.tid, start_ticks(record.started_ns))).or_default();
        row.pid = record.tgid;
        row.alive_ns = row.alive_ns.saturating_add(to_ns.saturating_sub(from_ns.max(record.started_ns)));
        add(&mut row.ns, &record.ns);
    }
    for thread in &still {
        let row = rows.entry((thread.tid, thread.start_ticks)).or_default();
        row.pid = thread.pid;
        let lived_ns = to_ns.saturating_sub(from_ns);
        row.alive_ns = row.alive_ns.saturating_add(lived_ns);
        row.ns[thread.state] = row.ns[thread.state].saturating_add(lived_ns);
    }
    let mut folded = state.folded.clone();
    fold_beyond(&mut rows, THREAD_ROWS_COUNTED_MAX, &mut folded);
    if has_windows {
        (state.rows, state.folded, state.window_ns) = (rows.clone(), folded.clone(), window_ns);
    }
    // Those that ended are added up in the kernel, for all windows together.
    for (_, words) in programs.array("ended")? {
        if let (Some(count), Some(ns)) = (words.first(), words.get(1..).and_then(|ns| ns.first_chunk())) {
            folded.threads += count;
            add(&mut folded.ns, ns);
            folded.alive_ns = folded.alive_ns.saturating_add(ns.iter().sum());
        }
    }
    fold_beyond(&mut rows, THREAD_ROWS_MAX, &mut folded);
    for (key, row) in rows.iter_mut().filter(|(_, row)| row.name.is_empty()) {
        row.name = name_of(row.pid, key.0);
        if let Some(kept) = state.rows.get_mut(key) {
            kept.name.clone_from(&row.name);
        }
    }
    let states = state.told(rows, folded, window_ns);
    reading.sample.counts.insert("threads.idle_pauses".to_owned(), state.pauses.idle);
    state.unread_lost = state.unread_lost.saturating_add(unread);
    for (name, n) in [("threads.edges_lost", state.edges_lost), ("threads.unread_lost", state.unread_lost)] {
        reading.sample.counts.insert(name.to_owned(), n);
    }
    reading.sample.threads = Some(states);
    Ok(())
}

/// A moment of the monotonic clock in ticks since boot, as `/proc/<pid>/stat` has the start of a thread.
fn start_ticks(started_ns: u64) -> u64 {
    started_ns.saturating_add(clock::suspended_ns()) / ticks_ns(1).max(1)
}

fn add(to: &mut Nanos, ns: &Nanos) {
    for (to, ns) in to.iter_mut().zip(ns) {
        *to = to.saturating_add(*ns);
    }
}

/// Keeps as many rows, those that were on a CPU longest, and adds the others up.
fn fold_beyond(rows: &mut BTreeMap<ThreadKey, Row>, most: usize, folded: &mut Folded) {
    if rows.len() <= most {
        return;
    }
    let mut order: Vec<(u64, ThreadKey)> = rows.iter().map(|(key, row)| (row.ns[ON_CPU], *key)).collect();
    order.sort_by_key(|(ns, key)| (std::cmp::Reverse(*ns), *key));
    for row in order.into_iter().skip(most).filter_map(|(_, key)| rows.remove(&key)) {
        folded.threads += 1;
        folded.alive_ns = folded.alive_ns.saturating_add(row.alive_ns);
        add(&mut folded.ns, &row.ns);
    }
}

fn is_thread(pid: u32, tid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

/// A thread's name; empty where it has ended.
fn name_of(pid: u32, tid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

fn state_name(state: usize) -> &'static str {
    STATES.get(state).copied().unwrap_or("other")
}

fn descriptor_name(kind: u32) -> &'static str {
    DESCRIPTORS.get(kind as usize).copied().unwrap_or("unknown")
}

impl State {
    /// What the programs counted of waits that ended since it was last taken.
    fn add_edges(&mut self, programs: &Programs, origin_ns: i64) -> Result<(), BpfError> {
        for Entry { key, words } in programs.take("places")? {
            let (Some(key), Some(taken)) = (halves(&key), PlaceUse::of(&words)) else { continue };
            let [tid, state, call, kind] = key;
            let key = (tid, [state, call, kind]);
            if self.places.len() < EDGES_COUNTED_MAX || self.places.contains_key(&key) {
                self.places.entry(key).or_default().add(taken);
            } else {
                self.edges_lost += 1;
            }
        }
        for Entry { key, words } in programs.take("wakes")? {
            let Some(key) = halves(&key) else { continue };
            let [count, ns, ref name @ ..] = words[..] else { continue };
            if self.wakes.len() < EDGES_COUNTED_MAX || self.wakes.contains_key(&key) {
                let wake = self.wakes.entry(key).or_insert_with(|| (0, 0, told::text(name)));
                (wake.0, wake.1) = (wake.0.saturating_add(count), wake.1.saturating_add(ns));
            } else {
                self.edges_lost += 1;
            }
        }
        for Entry { key, words } in programs.take("holders")? {
            let Some([low, high, tgid, tid]) = halves(&key) else { continue };
            let [count, ns, ran_ns] = words[..] else { continue };
            let how = key.get(16..20).and_then(|how| how.try_into().ok()).map_or(0, u32::from_ne_bytes);
            let address = u64::from(low) | u64::from(high) << 32;
            self.add_holder((address, [tgid, tid, how]), [count, ns, ran_ns]);
        }
        for Entry { key, words } in programs.take("stalls")? {
            let Some([low, high, tid, state]) = halves(&key) else { continue };
            let [ns, _, at] = words[..] else { continue };
            let end_ns = (u64::from(low) | u64::from(high) << 32).cast_signed() - origin_ns;
            self.stalls.push(stall(tid, state as usize, ns, end_ns, signed_half(at, 0), half(at, 1)));
        }
        self.keep_longest_stalls();
        Ok(())
    }

    fn add_holder(&mut self, key: (u64, [u32; 3]), more: [u64; 3]) {
        if self.holders.len() < EDGES_COUNTED_MAX || self.holders.contains_key(&key) {
            let sums = self.holders.entry(key).or_default();
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = sum.saturating_add(more);
            }
        } else {
            self.edges_lost += 1;
        }
    }

    fn keep_longest_stalls(&mut self) {
        self.stalls.sort_by_key(|stall| (std::cmp::Reverse(stall.ns), stall.from_ns));
        self.stalls.truncate(STALLS_MAX);
    }

    /// Adds waits for futexes that had not ended when the window did, and such stalls. `to_ns`: that moment.
    fn add_unended(&mut self, records: &[Record], to_ns: u64, origin_ns: i64) {
        let ran = |tid: u32| records.iter().find(|record| record.tid == tid).map(|record| record.ns[ON_CPU]);
        for record in records {
            let took_ns = to_ns.saturating_sub(record.since_ns);
            let is_held = record.state == FUTEX && record.holder != 0;
            // What looks like an owner's id may be anything.
            if is_held && is_thread(record.tgid, record.holder) {
                // Of one without an event before the wait nothing is known of how long it ran until then.
                let known = Some(record.holder_ran_ns).filter(|before| *before != u64::MAX);
                let ran_ns = ran(record.holder).zip(known).map_or(0, |(now, before)| now.saturating_sub(before));
                self.add_holder(
                    (record.argument, [record.tgid, record.holder, OWNER]),
                    [0, took_ns, ran_ns.min(took_ns)],
                );
            }
            let waits_for_work = record.state == ON_CPU || IDLE.contains(&record.state) && !is_held;
            if took_ns >= STALL_NS && !waits_for_work {
                let end_ns = to_ns.cast_signed() - origin_ns;
                self.stalls.push(stall(record.tid, record.state, took_ns, end_ns, record.call, record.descriptor));
            }
        }
        self.keep_longest_stalls();
    }

    /// All windows so far, as they are told.
    fn told(&self, rows: BTreeMap<ThreadKey, Row>, folded: Folded, window_ns: u64) -> ThreadStates {
        let mut threads: Vec<ThreadTime> = rows.into_iter().map(|((tid, _), row)| self.row(tid, row)).collect();
        threads
            .sort_by_key(|thread| (std::cmp::Reverse(thread.ns.get(STATES[ON_CPU]).copied().unwrap_or(0)), thread.tid));
        let others = ThreadTime {
            threads: folded.threads,
            alive_ns: folded.alive_ns,
            ns: by_state(&folded.ns),
            ..ThreadTime::default()
        };
        ThreadStates {
            window_ns,
            wakes: self.wakes(),
            holders: self.holders(&threads),
            threads,
            others: (others.threads > 0).then_some(others),
            stalls: self.stalls.clone(),
            pauses: self.pauses.longest.clone(),
        }
    }

    fn row(&self, tid: u32, row: Row) -> ThreadTime {
        let of_thread = self.places.range((tid, [0; 3])..=(tid, [u32::MAX; 3]));
        let mut waits: Vec<WaitPlace> = of_thread
            .map(|((_, [state, call, kind]), used)| {
                let at = descriptor_name(*kind);
                let names_one = !matches!(at, "none" | "unknown");
                WaitPlace {
                    state: state_name(*state as usize).to_owned(),
                    call: names::call(call.cast_signed().into()),
                    at: at.to_owned(),
                    count: used.count,
                    ns: used.ns,
                    longest_ns: used.longest_ns,
                    descriptor: names_one.then_some(used.argument as u32),
                    remote: remote(used.remote),
                }
            })
            .collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
        waits.truncate(told::PLACES_MAX);
        let (pid, name, alive_ns, ns) = (row.pid, row.name, row.alive_ns, by_state(&row.ns));
        ThreadTime { threads: 1, pid, tid, name, alive_ns, ns, waits }
    }

    fn wakes(&self) -> Vec<Wake> {
        let mut wakes: Vec<_> = self.wakes.iter().collect();
        wakes.sort_by_key(|(_, (_, ns, _))| std::cmp::Reverse(*ns));
        let told = |([tid, state, by, how], (count, ns, name)): (&[u32; 4], &(u64, u64, String))| Wake {
            tid: *tid,
            state: state_name(*state as usize).to_owned(),
            by: ["thread", "interrupt", "kernel-thread"].get(*how as usize).copied().unwrap_or("thread").to_owned(),
            waker_tid: *by,
            waker_name: name.clone(),
            count: *count,
            ns: *ns,
        };
        wakes.into_iter().take(THREAD_EDGES_KEPT).map(told).collect()
    }

    fn holders(&self, threads: &[ThreadTime]) -> Vec<FutexHolder> {
        let mut areas: BTreeMap<u32, Areas> = BTreeMap::new();
        let mut holders: Vec<_> = self.holders.iter().collect();
        holders.sort_by_key(|(_, [_, ns, _])| std::cmp::Reverse(*ns));
        let told = |((address, [pid, tid, how]), [waits, ns, ran_ns]): (&(u64, [u32; 3]), &[u64; 3])| {
            let of_process = areas.entry(*pid).or_insert_with(|| Areas::read(*pid).unwrap_or_default());
            let row = threads.iter().find(|thread| thread.tid == *tid).map(|thread| thread.name.clone());
            // One that has ended may have woken somebody.
            let woke = || self.wakes.iter().find(|([_, _, by, _], _)| by == tid).map(|(_, (_, _, name))| name.clone());
            FutexHolder {
                pid: *pid,
                address: *address,
                place: of_process.data(*address),
                tid: *tid,
                name: row.or_else(woke).unwrap_or_else(|| name_of(*pid, *tid)),
                known_by: if *how == OWNER { "owner" } else { "releaser" }.to_owned(),
                waits: *waits,
                ns: *ns,
                ran_ns: *ran_ns,
            }
        };
        holders.into_iter().take(THREAD_EDGES_KEPT).map(told).collect()
    }
}

fn stall(tid: u32, state: usize, ns: u64, end_ns: i64, call: i32, descriptor: u32) -> Stall {
    // Without a CPU it waits in no call, whatever it was in last.
    let waits = state > 2;
    Stall {
        tid,
        from_ns: end_ns.saturating_sub(ns.cast_signed()),
        ns,
        state: state_name(state).to_owned(),
        call: names::call(if waits { call.into() } else { -1 }),
        at: descriptor_name(if waits { descriptor } else { 0 }).to_owned(),
    }
}

fn by_state(ns: &Nanos) -> BTreeMap<String, u64> {
    let named = STATES.iter().zip(ns).filter(|(_, ns)| **ns > 0);
    named.map(|(state, ns)| ((*state).to_owned(), *ns)).collect()
}

/// The first four numbers of 32 bits of a key.
fn halves(key: &[u8]) -> Option<[u32; 4]> {
    let mut numbers = [0; 4];
    for (number, bytes) in numbers.iter_mut().zip(key.get(..16)?.chunks_exact(4)) {
        *number = u32::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some(numbers)
}
