//! One of several workers that is held up, is full, or computes, while the others have time left.
//!
//! Workers are told from helpers (a runtime's timers sleep, too) by what they have of their own: each is the busiest thread of its process,
//! or they are no more than the sockets that listen at one address. That one that sleeps serves is told by its leaving its CPU once or
//! twice for each slow reply; one that has all of a CPU is its process's busiest in any case.

use crate::evidence::{Piece, Process};
use crate::facts::{Facts, SLOW_TIMES, Stand, Stands, percent};
use crate::history::ProcessId;
use crate::statistics::median;
use crate::thresholds::{WORKER_BUSY, WORKER_FULL, WORKER_HELD};
use model::request::RequestEnd;
use std::collections::BTreeMap;

/// Waits for something else than work, and how they are told.
const HELD: [(Stand, &str); 3] = [
    (Stand::Sleep, "slept"),
    (Stand::Disk, "waited for a disk"),
    (Stand::Child, "waited for a process that it had started"),
];
/// So many readings of each.
const READINGS_MIN: usize = 4;
/// Of the others' time at most so much is a wait for something else, and so much of it is work or a wait for work.
const OTHERS_HELD_MAX: f64 = 0.1;
const OTHERS_FREE_MIN: f64 = 0.8;
/// Of one that is full each of the others wants no more of its time.
const ROOM_MAX: f64 = 0.6;
/// Beside one that computes the others work for so much of its time at most; and its work on a slow reply is so much of what that took longer
/// than others.
const BUSY_TIMES: f64 = 0.2;
const COST_MIN: f64 = 0.4;
/// More are no workers to be told apart.
const WORKERS_MAX: usize = 64;
/// Who leaves its CPU less often a second, and runs for less of the time, answers nobody.
const LEAVES_MIN: f64 = 1.0;
const RUN_MIN: f64 = 0.05;
/// It leaves its CPU so often for each slow reply: in the wait that makes it slow, and for work. Others may be slow a little beside (measured:
/// 49 times a second, with 77 slow replies).
const LEAVES_A_REPLY: std::ops::RangeInclusive<f64> = 0.5..=3.0;
/// Of the slow requests so many must be behind a slow one on their connection, and of the others so few.
const BEHIND_MIN: f64 = 0.8;
const OTHERS_BEHIND_MAX: f64 = 0.2;
/// Fewer requests of either kind say nothing.
const REQUESTS_MIN: usize = 10;

/// The share of their time in which some threads waited for something else than work, 0..=1, and for what most.
pub(super) fn held(stands: &Stands) -> (f64, &'static str) {
    let of = HELD.map(|(stand, what)| (stands.share(stand).unwrap_or(0.0), what));
    let most = of.into_iter().fold((0.0, HELD[0].1), |most, one| if one.0 > most.0 { one } else { most });
    (of.iter().map(|(share, _)| share).sum(), most.1)
}

/// Whether who stands so waits for something else than work.
pub(super) fn is_held(stand: Stand) -> bool {
    HELD.iter().any(|(held, _)| *held == stand)
}

/// The one that is held.
pub(super) struct HeldWorker {
    pub(super) title: String,
    /// What it and the others did.
    pub(super) process: Piece<Process>,
}

/// `None`: they do alike, there are no several, or they were not looked at often enough.
pub(super) fn held_worker(facts: &Facts<'_>) -> Option<HeldWorker> {
    let listeners = listeners(facts);
    let workers = workers(facts, listeners)?;
    let connections = u64::from(facts.recording.plan.connections);
    if !(2..=WORKERS_MAX).contains(&workers.len()) || connections <= workers.len() as u64 {
        return None;
    }
    let all: Vec<Worker> = workers.into_iter().map(|thread| Worker::of(facts, thread)).collect();
    let is_seen = all.iter().all(|worker| worker.stands.readings.len() >= READINGS_MIN);
    // One that has no connection did nothing, and counts all the same.
    let count = all.len().max(listeners);
    is_seen
        .then(|| asleep(facts, &all, count).or_else(|| full(facts, &all, count)).or_else(|| busy(facts, &all, count)))
        .flatten()
}

/// One that waits for something else than work, and leaves its CPU as seldom as slow replies come.
fn asleep(facts: &Facts<'_>, all: &[Worker], count: usize) -> Option<HeldWorker> {
    let (one, others) = parted(all, |worker| held(&worker.stands).0)?;
    let (share, what) = held(&one.stands);
    let (left_per_s, slow_per_s) = (facts.left_cpu_per_s(one.thread)?, slow_per_s(facts));
    let serves = slow_per_s > 0.0 && LEAVES_A_REPLY.contains(&(left_per_s / slow_per_s));
    if share < WORKER_HELD.value || !serves || !others.iter().all(|worker| worker.is_free()) {
        return None;
    }
    let text = format!(
        "one of its {count} workers {what} {} of the time and left its CPU {left_per_s:.0} times a second, with {slow_per_s:.0} slow replies; \
         the other{} worked or waited for work",
        percent(share),
        plural(others.len())
    );
    let process = facts.piece::<Process>(text, "target.worker_held", share, "ratio").from(WORKER_HELD.value);
    let title = format!(
        "one of the target's {count} workers is held up (it {what} {} of the time), and all that it has taken wait for it",
        percent(share)
    );
    Some(HeldWorker { title, process })
}

/// One that works for much of the time, while the others hardly do: what it has taken is costly, and waits for each other.
fn busy(facts: &Facts<'_>, all: &[Worker], count: usize) -> Option<HeldWorker> {
    // By the kernel's account: of readings a second apart too few meet one that works half of the time.
    let wanted = |worker: &Worker| facts.wanted_cpu(&[worker.thread].into()).unwrap_or(0.0);
    let (one, others) = parted(all, wanted)?;
    let most = others.iter().map(|worker| wanted(worker)).fold(0.0, f64::max);
    let works = wanted(one);
    let is_idle = others.iter().all(|worker| worker.is_free()) && most <= BUSY_TIMES * works;
    if works < WORKER_BUSY.value || !is_idle || !are_behind_slow_ones(facts) {
        return None;
    }
    // It spends so much on each slow reply, where those are the ones that it gives.
    let slow_per_s = slow_per_s(facts);
    let cost_ns = works * 1e9 / slow_per_s.max(f64::MIN_POSITIVE);
    if slow_per_s <= 0.0 || cost_ns < COST_MIN * mean_excess_ns(facts) {
        return None;
    }
    let text = format!(
        "one of its {count} workers ran or wanted a CPU {} of the time, with {slow_per_s:.0} slow replies a second; the other{} at most {}",
        percent(works),
        plural(others.len()),
        percent(most)
    );
    let process = facts.piece::<Process>(text, "target.worker_busy", works, "ratio").from(WORKER_BUSY.value);
    let title = format!(
        "one of the target's {count} workers computes for {} of the time while the other{} hardly anything, and all that it has taken wait for it",
        percent(works),
        if others.len() == 1 { " does" } else { "s do" }
    );
    Some(HeldWorker { title, process })
}

/// One that wants all of a CPU, while the others have time left.
fn full(facts: &Facts<'_>, all: &[Worker], count: usize) -> Option<HeldWorker> {
    let (one, others) = parted(all, Worker::wanted)?;
    let has_room = |worker: &&Worker| worker.is_free() && worker.wanted() <= ROOM_MAX;
    if one.wanted() < WORKER_FULL.value || !others.iter().all(has_room) {
        return None;
    }
    let most = others.iter().map(|worker| worker.wanted()).fold(0.0, f64::max);
    let text = format!(
        "one of its {count} workers ran or wanted a CPU {} of the time, the other{} at most {}",
        percent(one.wanted()),
        plural(others.len()),
        percent(most)
    );
    let process = facts.piece::<Process>(text, "target.worker_full", one.wanted(), "ratio").from(WORKER_FULL.value);
    let title = format!(
        "one of the target's {count} workers is full ({} of a core) while the other{} room, and all that it has taken wait for it",
        percent(one.wanted()),
        if others.len() == 1 { " has" } else { "s have" }
    );
    Some(HeldWorker { title, process })
}

/// The one of which there is most, and the rest.
fn parted(all: &[Worker], most: impl Fn(&Worker) -> f64) -> Option<(&Worker, Vec<&Worker>)> {
    let one = all.iter().max_by(|a, b| most(a).total_cmp(&most(b)))?;
    Some((one, all.iter().filter(|worker| worker.thread != one.thread).collect()))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A thread that serves, and where it stood.
struct Worker {
    thread: (ProcessId, u32),
    stands: Stands,
}

impl Worker {
    fn of(facts: &Facts<'_>, thread: (ProcessId, u32)) -> Self {
        Self { thread, stands: facts.stands(&[thread].into()) }
    }

    fn share(&self, of: Stand) -> f64 {
        self.stands.share(of).unwrap_or(0.0)
    }

    fn wanted(&self) -> f64 {
        self.share(Stand::Running)
    }

    fn is_free(&self) -> bool {
        let waits = self.share(Stand::Events) + self.share(Stand::Accept);
        held(&self.stands).0 <= OTHERS_HELD_MAX && self.wanted() + waits >= OTHERS_FREE_MIN
    }
}

/// The threads that serve, where they can be told from others.
fn workers(facts: &Facts<'_>, listeners: usize) -> Option<Vec<(ProcessId, u32)>> {
    let ran = |thread| facts.wanted_cpu(&[thread].into()).unwrap_or(0.0);
    let serves = |thread: &(ProcessId, u32)| {
        facts.left_cpu_per_s(*thread).is_some_and(|leaves| leaves >= LEAVES_MIN) || ran(*thread) >= RUN_MIN
    };
    let all: Vec<_> = facts.all_threads().into_iter().filter(serves).collect();
    let mut of: BTreeMap<ProcessId, ((ProcessId, u32), f64)> = BTreeMap::new();
    for thread in &all {
        let ran = ran(*thread);
        let most = of.entry(thread.0).or_insert((*thread, ran));
        if ran > most.1 {
            *most = (*thread, ran);
        }
    }
    if of.len() > 1 {
        return Some(of.into_values().map(|(thread, _)| thread).collect());
    }
    // One that has no connection yet did nothing.
    (listeners >= all.len()).then_some(all)
}

/// How many sockets listen at the address that has most of them.
fn listeners(facts: &Facts<'_>) -> usize {
    let of_reading = |snapshot: &model::Snapshot| {
        let mut addresses: BTreeMap<&str, usize> = BTreeMap::new();
        for listener in snapshot.listeners.iter().filter(|listener| listener.inode != 0) {
            *addresses.entry(&listener.address).or_default() += 1;
        }
        addresses.into_values().max().unwrap_or(0)
    };
    median(facts.snapshots().map(|snapshot| of_reading(snapshot) as f64).collect()) as usize
}

/// Slow replies a second. Where connections starve they are those that those got, as far as is known: beside so many quick ones a machine's own
/// slow ones are more.
fn slow_per_s(facts: &Facts<'_>) -> f64 {
    match facts.recording.totals.users.filter(|users| users.starved > 0) {
        Some(users) => (users.starved * users.served_min) as f64 / facts.measured_s().max(1e-9),
        None => facts.kinds.slow * facts.whole.requests_per_s(),
    }
}

/// How much longer slow requests took than others of their kind, nanoseconds.
fn mean_excess_ns(facts: &Facts<'_>) -> f64 {
    let excess = facts
        .recording
        .requests
        .weighted()
        .filter_map(|(weight, request)| Some((weight, facts.kinds.excess_ns(request)?)));
    let (count, sum_ns) = excess.fold((0.0, 0.0), |(count, sum), (weight, ns)| (count + weight, sum + weight * ns));
    if count > 0.0 { sum_ns / count } else { 0.0 }
}

/// Whether requests are slow by their connection: behind a slow one on it, where others are not.
pub(super) fn are_behind_slow_ones(facts: &Facts<'_>) -> bool {
    let mut counts = [[0_usize; 2]; 2];
    for (_, request) in facts.recording.requests.weighted().filter(|(_, request)| request.end == RequestEnd::Ok) {
        let Some((before_ns, fast)) = request.before_ns.zip(facts.kinds.fast(request)) else { continue };
        let is_behind = before_ns as f64 > SLOW_TIMES * fast.ns;
        let is_slow = facts.kinds.excess_ns(request).is_some();
        counts[usize::from(is_slow)][usize::from(is_behind)] += 1;
    }
    let [[others_not, others_behind], [slow_not, slow_behind]] = counts;
    let share = |behind: usize, not: usize| behind as f64 / (behind + not).max(1) as f64;
    let is_enough = slow_behind + slow_not >= REQUESTS_MIN && others_behind + others_not >= REQUESTS_MIN;
    is_enough && share(slow_behind, slow_not) >= BEHIND_MIN && share(others_behind, others_not) <= OTHERS_BEHIND_MAX
}
