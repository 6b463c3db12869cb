//! Where each thread of the target stands at the moment of the reading: the kernel function it sleeps in and the number
//! of its system call (`/proc/<pid>/task/<tid>/{wchan,syscall}`); of a call at a descriptor, which and of what kind
//! (`descriptor_kinds`); of futex(2), whether it is a sleep: a wait with a time limit, by its arguments, at an address where
//! no other thread of the process was seen. Those who wait for one lock mostly have one address, sleepers one each.
//! One moment a tick: a share of many ticks says something, one alone does not. The number is that of the target's own
//! architecture. Of at most 64 threads a process, the lowest ids.
//! Cost: two files opened a thread a tick, a link and a file or two more where it waits at a descriptor. For another user's process it needs CAP_SYS_PTRACE.

use super::descriptor_kinds::DescriptorKinds;
use crate::limits::FUTEXES_KNOWN_MAX;
use crate::metric::{Metric, gauge};
use crate::samplers::calls::{CallKind, call_kind};
use crate::samplers::process::thread_by_thread::ThreadByThread;
use crate::samplers::{EACH, Entry, Sampler};
use crate::source::proc::{Buffers, SampleError, words};
use model::Snapshot;
use model::snapshot::Stands;
use std::collections::BTreeMap;

const METRICS: &[Metric] = &[
    gauge("threads[].stands.wchan", "function", "wchan", "kernel function it sleeps in"),
    gauge("threads[].stands.syscall", "number", "syscall", "its system call, of syscall(2)'s numbers"),
    gauge("threads[].stands.descriptor", "number", "syscall", "the descriptor that the call is at, its first argument"),
    gauge(
        "threads[].stands.at",
        "kind",
        "fd, fdinfo, sock_diag",
        "what that is: listener, client, backend, file, log …",
    ),
    gauge(
        "threads[].stands.sleeps",
        "yes or no",
        "syscall",
        "in futex(2), with a time limit, and no other thread was seen at that address",
    ),
    gauge("threads[].stands.is_running", "yes or no", "syscall", "on a CPU, or about to be"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/stands",
    about: "where the target's threads stand: kernel function, system call, descriptor (/proc/<pid>/task/<tid>/wchan, syscall)",
    needs: "CAP_SYS_PTRACE for another user's process; CONFIG_HAVE_ARCH_TRACEHOOK",
    cost: "2 files a thread a tick, 64 threads; a list of sockets where one is new, 0.5 % of a core at the most",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(WhereThreadsStand::default()),
};

#[derive(Debug, Default)]
struct WhereThreadsStand {
    each: ThreadByThread,
    kinds: DescriptorKinds,
    waiters: Waiters,
}

/// Who was seen to wait at which address in futex(2), by process.
#[derive(Debug, Default)]
struct Waiters(BTreeMap<(u32, u64), Waiter>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiter {
    One(u32),
    Several,
}

impl Waiters {
    /// A thread waits there; whether nobody else was seen to.
    fn is_alone(&mut self, pid: u32, tid: u32, address: u64) -> bool {
        if self.0.len() > FUTEXES_KNOWN_MAX {
            self.0.clear();
        }
        let waiter = self.0.entry((pid, address)).or_insert(Waiter::One(tid));
        if *waiter != Waiter::One(tid) {
            *waiter = Waiter::Several;
        }
        *waiter != Waiter::Several
    }
}

impl Sampler for WhereThreadsStand {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let (kinds, waiters) = (&mut self.kinds, &mut self.waiters);
        self.each.each(snapshot, |pid, thread| {
            let (mut stands, futex) = stands(buffers, pid, thread.tid)?;
            if let Some(futex) = futex {
                stands.sleeps = waiters.is_alone(pid, thread.tid, futex.address) && futex.has_limit;
            }
            stands.at = stands.descriptor.map(|descriptor| kinds.kind(pid, descriptor).to_owned());
            thread.stands = Some(stands);
            Ok(())
        })
    }

    fn leaves_out(&self) -> Option<String> {
        self.each.leaves_out()
    }
}

/// A thread that woke up between its two files is read again, so often in all: of one that wakes up twenty thousand times a second 9 to 16 %
/// of the pairs were of two moments, a call without a function to sleep in (the test below, with one).
const PAIRS_MAX: usize = 4;

fn stands(buffers: &mut Buffers, pid: u32, tid: u32) -> Result<(Stands, Option<Futex>), SampleError> {
    let (mut stands, mut futex) = pair(buffers, pid, tid)?;
    for _ in 1..PAIRS_MAX {
        if stands.is_running || stands.syscall.is_none() || stands.wchan.is_some() {
            break;
        }
        (stands, futex) = pair(buffers, pid, tid)?;
    }
    Ok((stands, futex))
}

fn pair(buffers: &mut Buffers, pid: u32, tid: u32) -> Result<(Stands, Option<Futex>), SampleError> {
    let call = buffers.read_single(format_args!("/proc/{pid}/task/{tid}/syscall"));
    let reason = "this kernel does not show the system calls of threads (CONFIG_HAVE_ARCH_TRACEHOOK)";
    let call = call.map_err(|error| if thread_lives(pid, tid) { error.or_nothing(reason) } else { error })?;
    let (mut stands, futex) = (parse(call), futex(call));
    if !stands.is_running {
        // Refused it reads as 0, without an error.
        stands.wchan = buffers.read_single_along(format_args!("/proc/{pid}/task/{tid}/wchan")).ok().and_then(function);
    }
    Ok((stands, futex))
}

fn thread_lives(pid: u32, tid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

/// `running`, `-1 sp pc` where it is in no system call, or `number arguments … sp pc` (proc(5)).
fn parse(syscall: &[u8]) -> Stands {
    let mut words = words(syscall).map(|word| std::str::from_utf8(word).unwrap_or_default());
    let first = words.next().unwrap_or_default();
    let syscall = first.parse::<i64>().ok().filter(|number| *number >= 0);
    let argument = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let is_at = |call: &i64| matches!(call_kind(*call), CallKind::At | CallKind::Epoll);
    Stands {
        is_running: first == "running",
        syscall,
        // The kernel looks at the lower half of the register.
        descriptor: syscall.filter(is_at).and(argument).map(|argument| argument as u32),
        ..Stands::default()
    }
}

/// A wait in futex(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Futex {
    address: u64,
    has_limit: bool,
}

/// The wait of `futex(address, operation, value, timeout …)`; `None`: it is in another call, or does not wait for a wake-up.
fn futex(syscall: &[u8]) -> Option<Futex> {
    // FUTEX_WAIT and FUTEX_WAIT_BITSET, FUTEX_CMD_MASK of linux/futex.h.
    const WAITS: [u64; 2] = [0, 9];
    const COMMAND: u64 = 0x7f;
    let mut words = words(syscall).map(|word| std::str::from_utf8(word).unwrap_or_default());
    words.next()?.parse::<i64>().ok().filter(|number| *number == libc::SYS_futex)?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (address, operation, _, limit) = (argument()?, argument()?, argument()?, argument()?);
    WAITS.contains(&(operation & COMMAND)).then_some(Futex { address, has_limit: limit != 0 })
}

/// The name without its version suffixes; `0` where there is none.
fn function(wchan: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(wchan).ok()?.trim();
    (!name.is_empty() && name != "0").then(|| name.chars().take(64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A thread that is woken up some twenty thousand times a second.
    #[test]
    fn where_a_thread_stands_is_of_one_moment() {
        let (mut one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let echo = std::thread::spawn(move || {
            tell.send(crate::source::schedule::thread_id()).unwrap();
            let mut byte = [0];
            while other.read_exact(&mut byte).is_ok() && other.write_all(&byte).is_ok() {}
        });
        let tid = told.recv().unwrap() as u32;
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let asks = std::thread::spawn({
            let stop = std::sync::Arc::clone(&stop);
            move || {
                let mut byte = [7];
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    one.write_all(&byte).unwrap();
                    one.read_exact(&mut byte).unwrap();
                    let asked = std::time::Instant::now();
                    while asked.elapsed() < std::time::Duration::from_micros(40) {}
                }
            }
        });
        let (mut buffers, pid) = (Buffers::default(), std::process::id());
        let (mut in_a_call, mut without) = (0, 0);
        for _ in 0..2000 {
            let (stands, _) = stands(&mut buffers, pid, tid).unwrap();
            if !stands.is_running && stands.syscall.is_some() {
                in_a_call += 1;
                without += usize::from(stands.wchan.is_none());
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        asks.join().unwrap();
        echo.join().unwrap();
        println!("of {in_a_call} readings in a call {without} without a function");
        assert!(in_a_call > 20, "{in_a_call}");
        assert!(without * 10 <= in_a_call, "{without} of {in_a_call}");
    }

    /// One that sleeps as runtimes do, two that wait for one condition with a limit, one that waits without.
    #[test]
    fn sleeps_in_futex_are_told_from_waits_for_others() {
        use std::sync::{Arc, Condvar, Mutex};
        let limit = std::time::Duration::from_secs(3600);
        let wait = |at: &Arc<(Mutex<bool>, Condvar)>, limit: Option<std::time::Duration>| {
            let (at, (tell, told)) = (Arc::clone(at), std::sync::mpsc::channel());
            let thread = std::thread::spawn(move || {
                tell.send(crate::source::schedule::thread_id()).unwrap();
                let mut is_over = at.0.lock().unwrap();
                while !*is_over {
                    is_over = match limit {
                        Some(limit) => at.1.wait_timeout(is_over, limit).unwrap().0,
                        None => at.1.wait(is_over).unwrap(),
                    };
                }
            });
            (told.recv().unwrap() as u32, thread)
        };
        let places: Vec<Arc<(Mutex<bool>, Condvar)>> = (0..3).map(|_| Arc::default()).collect();
        let waiting = [
            wait(&places[0], Some(limit)),
            wait(&places[1], Some(limit)),
            wait(&places[1], Some(limit)),
            wait(&places[2], None),
        ];
        let (mut sampler, mut buffers) = (WhereThreadsStand::default(), Buffers::default());
        let own_pid = std::process::id();
        testkit::wait_until("only who waits alone and with a limit sleeps", || {
            let threads = waiting.iter().map(|(tid, _)| testkit::recordings::thread(*tid, "waits")).collect();
            let target = testkit::recordings::process(model::snapshot::Role::Target, own_pid, "own", threads);
            let mut snapshot = Snapshot { processes: vec![target], ..Snapshot::default() };
            sampler.sample(&mut buffers, &mut snapshot).unwrap();
            let sleeps = |thread: &model::snapshot::ThreadSample| thread.stands.as_ref().is_some_and(|s| s.sleeps);
            snapshot.processes[0].threads.iter().map(sleeps).eq([true, false, false, false])
        });
        for place in places {
            *place.0.lock().unwrap() = true;
            place.1.notify_all();
        }
        waiting.into_iter().for_each(|(_, thread)| thread.join().unwrap());
    }

    #[test]
    fn waits_in_futex_by_their_arguments() {
        let call = |arguments: &str| futex(format!("{} {arguments} 0x7ffe 0x7f32\n", libc::SYS_futex).as_bytes());
        let at = |has_limit| Some(Futex { address: 0x7f00, has_limit });
        // FUTEX_WAIT_BITSET and FUTEX_WAIT, private; the clock is a flag of the operation.
        assert_eq!(call("0x7f00 0x189 0x0 0x7ffd 0x0 0xffffffff"), at(true));
        assert_eq!(call("0x7f00 0x80 0x2 0x0 0x0 0x0"), at(false));
        // FUTEX_WAKE waits for nobody, FUTEX_LOCK_PI for an owner.
        assert_eq!((call("0x7f00 0x81 0x1 0x0 0x0 0x0"), call("0x7f00 0x86 0x0 0x7ffd 0x0 0x0")), (None, None));
        assert_eq!((futex(b"running\n"), futex(b"-1 0x7ffe 0x7f32\n"), futex(b"")), (None, None, None));
        assert_eq!(futex(format!("{} 0x5 0x80 0x0 0x1\n", libc::SYS_read).as_bytes()), None);
        assert_eq!(futex(format!("{} 0x5 0x80\n", libc::SYS_futex).as_bytes()), None, "cut");
    }

    #[test]
    fn forms_of_the_two_files() {
        assert_eq!(parse(b"running\n"), Stands { is_running: true, ..Stands::default() });
        let line = format!("{} 0x5 0x7f 0x200 0xffffffff 0x0 0x8 0x7ffe 0x7f32\n", libc::SYS_epoll_pwait);
        let waits = parse(line.as_bytes());
        assert_eq!((waits.syscall, waits.descriptor), (Some(libc::SYS_epoll_pwait), Some(5)));
        assert_eq!(parse(format!("{} 0x5 0x7f\n", libc::SYS_futex).as_bytes()).descriptor, None);
        assert_eq!(parse(b"-1 0x7ffe 0x7f32\n"), Stands::default());
        assert_eq!(parse(b""), Stands::default());
        assert_eq!(function(b"ep_poll"), Some("ep_poll".to_owned()));
        assert_eq!((function(b"0"), function(b"")), (None, None));
    }
}
