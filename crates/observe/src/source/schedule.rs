//! Where threads may run; and a thread that runs only when nobody else wants its CPU, for as long as that is soon enough.
//!
//! By sched(7): SCHED_IDLE gives way at once to every thread that wakes up; a nice one of SCHED_OTHER ends its turn of some
//! milliseconds first, in which nobody takes up replies. The way back needs CAP_SYS_NICE, or RLIMIT_NICE.

use crate::source::clock;
#[cfg(feature = "bpf")]
use rustix::{process::Pid, thread::CpuSet};
use std::cell::RefCell;
#[cfg(feature = "bpf")]
use std::collections::BTreeSet;
use std::io;

/// The calling thread's id.
pub(crate) fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The CPUs that threads may run on (sched_setaffinity(2), cpuset(7)), of those that are `online`. One that is free to run anywhere ends
/// the search.
#[cfg(feature = "bpf")]
pub(crate) fn cpus_of(threads: impl Iterator<Item = u32>, online: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut cpus = BTreeSet::new();
    for thread in threads.filter_map(|thread| Pid::from_raw(i32::try_from(thread).ok()?)) {
        // An error is a thread that has ended.
        let Ok(allowed) = rustix::thread::sched_getaffinity(Some(thread)) else { continue };
        let is_allowed =
            |cpu: &&i32| usize::try_from(**cpu).is_ok_and(|cpu| cpu >= CpuSet::MAX_CPU || allowed.is_set(cpu));
        cpus.extend(online.iter().filter(is_allowed));
        if cpus.len() == online.len() {
            break;
        }
    }
    cpus
}

/// Lets the calling thread run only when nobody else wants to.
///
/// # Errors
/// The kernel's, where a seccomp filter forbids it.
pub(crate) fn step_back() -> io::Result<()> {
    set_policy(0, libc::SCHED_IDLE)
}

/// Ends that, for a thread of this process.
///
/// # Errors
/// EPERM without the right to.
pub(crate) fn step_forward(thread: i32) -> io::Result<()> {
    set_policy(thread, libc::SCHED_OTHER)
}

/// Whether there is a way back: tried with a thread that ends.
pub(crate) fn may_step_forward() -> bool {
    let tried = std::thread::Builder::new().spawn(|| step_back().and_then(|()| step_forward(0)).is_ok());
    tried.ok().and_then(|thread| thread.join().ok()).unwrap_or(false)
}

fn set_policy(thread: i32, policy: libc::c_int) -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads `priority`, which lives until the call returns; glibc hands the thread's id to it as it is.
    let outcome = unsafe { libc::sched_setscheduler(thread, policy, &raw const priority) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CPU time after which a thread that reads lets others onto its CPU. By itself its turn would last until the next clock tick, up to
/// some milliseconds: one of SCHED_IDLE that has waited for long is given one too, beside others that could run.
const TURN_NS: i64 = 100_000;
/// So much of each second may go by with that, wall time: what a reading reads is to be of one moment.
const GIVEN_NS: i64 = 25_000_000;
/// One other thread's turn ends after a clock tick, of 4 ms mostly and 10 at the most. Where it took longer many want the CPU, each of which
/// has its turn first, and a reading that goes on giving way would last half a second.
const CROWDED_NS: i64 = 12_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// A thread's turn on its CPU, which is to be short.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The thread's CPU time when it began.
    since_ns: i64,
    /// When the second began of which so much went to others, CLOCK_MONOTONIC.
    second_ns: i64,
    given_ns: i64,
}

impl Turn {
    /// Lets others run (sched_yield(2)) where the turn has lasted and there is time for it, and says whether it has. To be called where
    /// no lock is held.
    pub(crate) fn give_way(&mut self) -> bool {
        let cpu_ns = clock::thread_cpu_ns();
        // Less than before is another thread's.
        if (self.since_ns..self.since_ns.saturating_add(TURN_NS)).contains(&cpu_ns) {
            return false;
        }
        self.since_ns = cpu_ns;
        let now_ns = clock::monotonic_ns();
        if now_ns.saturating_sub(self.second_ns) >= SECOND_NS {
            (self.second_ns, self.given_ns) = (now_ns, 0);
        }
        if self.given_ns >= GIVEN_NS {
            return false;
        }
        rustix::thread::sched_yield();
        self.went_by(clock::monotonic_ns().saturating_sub(now_ns));
        true
    }

    /// So much wall time went to others.
    fn went_by(&mut self, ns: i64) {
        self.given_ns = if ns > CROWDED_NS { GIVEN_NS } else { self.given_ns + ns };
    }
}

thread_local! {
    static OWN_TURN: RefCell<Turn> = RefCell::default();
}

/// Lets others onto the calling thread's CPU where it has had it for a while, so that what a thread does beside a load is done in short turns:
/// after 0.1 ms of CPU time, and for 25 ms of each second at the most. To be called where no lock is held that others
/// want.
pub fn give_way() {
    OWN_TURN.with_borrow_mut(|turn| {
        turn.give_way();
    });
}

/// The policy of a thread of this process, as sched(7) numbers them.
#[cfg(test)]
pub(crate) fn policy_of(thread: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    // The 41st field; the second, in parentheses, may hold spaces.
    stat.rsplit(')').next().unwrap().split_whitespace().nth(38).unwrap().parse().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "bpf")]
    use crate::source::bpf::clock_events;

    fn policy() -> i32 {
        policy_of(thread_id())
    }

    #[cfg(feature = "bpf")]
    #[test]
    fn threads_run_on_the_cpus_that_they_are_kept_on() {
        let online = clock_events::online();
        let kept = std::thread::spawn({
            let online = online.clone();
            move || {
                let mut first = CpuSet::new();
                first.set(0);
                rustix::thread::sched_setaffinity(None, &first).unwrap();
                cpus_of([u32::try_from(thread_id()).unwrap()].into_iter(), &online)
            }
        });
        assert_eq!(kept.join().unwrap(), BTreeSet::from([0]));
        // Nobody runs anywhere.
        assert_eq!(cpus_of([].into_iter(), &online), BTreeSet::new());
        assert_eq!(cpus_of([i32::MAX as u32].into_iter(), &online), BTreeSet::new());
        assert_eq!(cpus_of([std::process::id()].into_iter(), &BTreeSet::new()), BTreeSet::new());
    }

    #[test]
    fn a_turn_ends_by_the_threads_own_cpu_time_while_there_is_time_for_others() {
        let burn = |ns: i64| {
            let from_ns = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() - from_ns < ns {}
        };
        let mut turn = Turn { since_ns: clock::thread_cpu_ns(), ..Turn::default() };
        // Time in which the thread does not run is none of its turn's.
        std::thread::sleep(std::time::Duration::from_millis(5));
        let has_run_ns = clock::thread_cpu_ns() - turn.since_ns;
        assert!(!turn.give_way() || has_run_ns >= TURN_NS / 2, "given way after {has_run_ns} ns");
        // Whether it gives way at its end is for others to say: on a crowded machine they have had their time by now.
        let before_ns = turn.since_ns;
        burn(TURN_NS);
        turn.give_way();
        assert!(turn.since_ns >= before_ns + TURN_NS, "it has lasted, and another begins");
        let another_threads = |since_ns| Turn { since_ns, ..Turn::default() };
        assert!(another_threads(i64::MAX).give_way(), "a turn that another thread began is over");
        // Others took what there is for them in this second; the next one has as much again.
        let now_ns = clock::monotonic_ns();
        let spent = |second_ns| Turn { since_ns: i64::MAX, second_ns, given_ns: GIVEN_NS };
        assert!(!spent(now_ns).give_way());
        assert!(spent(now_ns - SECOND_NS).give_way());
        // Some other turns use it up, or a single one among many others' turns.
        let is_used_up = |turns: &[i64]| {
            let mut turn = Turn::default();
            turns.iter().for_each(|ns| turn.went_by(*ns));
            turn.given_ns >= GIVEN_NS
        };
        assert!(!is_used_up(&[4_000_000; 6]) && is_used_up(&[4_000_000; 7]));
        assert!(!is_used_up(&[12_000_000]) && is_used_up(&[24_000_000]));
    }

    #[test]
    fn a_thread_steps_back_and_another_lets_it_forward_where_that_is_allowed() {
        let before = policy();
        let may = may_step_forward();
        assert_eq!(policy(), before, "trying changes nothing here");
        let (tell, told) = std::sync::mpsc::channel();
        let (go, going) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            step_back().unwrap();
            tell.send((thread_id(), policy())).unwrap();
            going.recv().unwrap();
            policy()
        });
        let (id, stepped_back) = told.recv().unwrap();
        assert_eq!(stepped_back, libc::SCHED_IDLE);
        assert_eq!(step_forward(id).is_ok(), may);
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), if may { libc::SCHED_OTHER } else { libc::SCHED_IDLE });
    }
}
