//! Memory that forked processes share with the one that they come from: a count, a word to wait at, a mutex, a semaphore.
//!
//! Made before the first fork, at the same address in all. Where the workers are threads it is memory as any other; the
//! kernel is told which of both it is ([`Among`]), as a server's own locks tell it. Nothing is allocated or freed later.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{MutexGuard, PoisonError};

/// Who shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    /// Threads of one process.
    Threads,
    /// Processes, forked later.
    Processes,
}

/// A value in memory that forked processes share.
#[derive(Debug)]
pub(super) struct Shared<T>(NonNull<T>);

// SAFETY: whoever has the value can only refer to what is in the memory, which may be shared between threads.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T: Send + Sync> Shared<T> {
    pub(super) fn new(value: T) -> rustix::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory at a place the kernel chooses, which nothing else refers to.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), size_of::<T>(), protection, MapFlags::SHARED)? };
        let at = NonNull::new(at.cast::<T>()).ok_or(Errno::NOMEM)?;
        // SAFETY: a page is as large as asked for at least, and aligned for whatever is in it.
        unsafe { at.write(value) };
        Ok(Self(at))
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: written by `new`, and there as long as this value.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: written by `new`, and nothing refers to it any more.
        unsafe { self.0.drop_in_place() };
        // SAFETY: mapped with this length. A failure leaves it mapped.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// A gate that all workers pass, and that one closes for a while: who comes then waits in futex(2).
#[derive(Debug)]
pub(super) struct Gate {
    is_closed: Shared<AtomicU32>,
    flags: futex::Flags,
}

impl Gate {
    pub(super) fn new(among: Among) -> rustix::io::Result<Self> {
        let flags = match among {
            Among::Threads => futex::Flags::PRIVATE,
            Among::Processes => futex::Flags::empty(),
        };
        Ok(Self { is_closed: Shared::new(AtomicU32::new(0))?, flags })
    }

    pub(super) fn close(&self) {
        self.is_closed.store(1, Ordering::Relaxed);
    }

    /// Lets all go on.
    pub(super) fn open(&self) {
        self.is_closed.store(0, Ordering::Relaxed);
        // It fails only for an address that is none.
        let _ = futex::wake(&self.is_closed, self.flags, i32::MAX as u32);
    }

    /// Waits until it is open.
    pub(super) fn pass(&self) {
        while self.is_closed.load(Ordering::Relaxed) == 1 {
            // Interrupted, or opened meanwhile: the loop looks again.
            let _ = futex::wait(&self.is_closed, self.flags, 1, None);
        }
    }
}

/// A mutex: among threads the language's own, among processes the C library's, of which one that ends while it holds it lets go.
#[derive(Debug)]
pub(super) enum Lock {
    Threads(std::sync::Mutex<()>),
    Processes(Shared<Mutex>),
}

#[derive(Debug)]
pub(super) struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only ever used through the C library's calls, which are made for that.
unsafe impl Send for Mutex {}
// SAFETY: as above.
unsafe impl Sync for Mutex {}

/// Lets go of the lock.
#[must_use]
pub(super) enum Locked<'a> {
    Threads { _guard: MutexGuard<'a, ()> },
    Processes(&'a Mutex),
}

impl Lock {
    pub(super) fn new(among: Among) -> rustix::io::Result<Self> {
        if among == Among::Threads {
            return Ok(Lock::Threads(std::sync::Mutex::new(())));
        }
        let mutex = Shared::new(Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))?;
        // SAFETY: plain values that the calls initialise; nobody has locked the mutex yet, and it stays where it is.
        let failed = unsafe {
            let mut kind: libc::pthread_mutexattr_t = std::mem::zeroed();
            let all = [
                libc::pthread_mutexattr_init(&raw mut kind),
                libc::pthread_mutexattr_setpshared(&raw mut kind, libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutexattr_setrobust(&raw mut kind, libc::PTHREAD_MUTEX_ROBUST),
                libc::pthread_mutex_init(mutex.at(), &raw const kind),
            ];
            libc::pthread_mutexattr_destroy(&raw mut kind);
            all.into_iter().find(|error| *error != 0)
        };
        failed.map_or(Ok(Lock::Processes(mutex)), |error| Err(Errno::from_raw_os_error(error)))
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        match self {
            // Who panicked with it has left nothing half done: nothing is guarded.
            Lock::Threads(mutex) => Locked::Threads { _guard: mutex.lock().unwrap_or_else(PoisonError::into_inner) },
            Lock::Processes(mutex) => {
                mutex.lock();
                Locked::Processes(mutex)
            }
        }
    }
}

impl Mutex {
    fn at(&self) -> *mut libc::pthread_mutex_t {
        self.0.get()
    }

    fn lock(&self) {
        // SAFETY: initialised by `Lock::new`. No thread locks it twice, so it is had when the call is back.
        if unsafe { libc::pthread_mutex_lock(self.at()) } == libc::EOWNERDEAD {
            // SAFETY: had by this thread. Nothing that is guarded can be half done.
            unsafe { libc::pthread_mutex_consistent(self.at()) };
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Locked::Processes(mutex) = self {
            // SAFETY: locked by this thread.
            unsafe { libc::pthread_mutex_unlock(mutex.at()) };
        }
    }
}

/// So many places, over threads or processes: who finds none waits for one. A semaphore of the C library.
#[derive(Debug)]
pub(super) struct Places(Shared<Semaphore>);

#[derive(Debug)]
struct Semaphore(UnsafeCell<libc::sem_t>);

// SAFETY: only ever used through the C library's calls, which are made for that.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Places {
    pub(super) fn new(among: Among, number: u32) -> rustix::io::Result<Self> {
        // SAFETY: plain bytes, which the call below makes a semaphore of.
        let places = Self(Shared::new(Semaphore(UnsafeCell::new(unsafe { std::mem::zeroed() })))?);
        let is_shared = libc::c_int::from(among == Among::Processes);
        // SAFETY: memory that is there as long as the value and does not move.
        match unsafe { libc::sem_init(places.at(), is_shared, number) } {
            0 => Ok(places),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        }
    }

    /// Does `work` in one of the places, once one is free.
    pub(super) fn within(&self, work: impl FnOnce()) {
        // SAFETY: initialised by `new`. It fails only where a signal came, which is no reason to go on.
        while unsafe { libc::sem_wait(self.at()) } != 0 {}
        work();
        // SAFETY: as above.
        unsafe { libc::sem_post(self.at()) };
    }

    fn at(&self) -> *mut libc::sem_t {
        (*self.0).0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn one_at_a_time_holds_the_lock_whoever_shares_it() {
        for among in [Among::Threads, Among::Processes] {
            let (lock, inside) = (Lock::new(among).unwrap(), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            let _locked = lock.lock();
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_process_that_ends_with_the_lock_lets_go_of_it() {
        let lock = Lock::new(Among::Processes).unwrap();
        // SAFETY: the child makes one call of the C library and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            std::mem::forget(lock.lock());
            // SAFETY: ends the process without running anything of it.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child above; nothing is written.
        assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), 0) }, pid);
        drop(lock.lock());
        drop(lock.lock());
    }

    #[test]
    fn who_comes_to_a_closed_gate_waits_until_it_opens() {
        let gate = Gate::new(Among::Processes).unwrap();
        gate.pass();
        gate.close();
        let passed = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    gate.pass();
                    passed.fetch_add(1, Ordering::SeqCst);
                });
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(passed.load(Ordering::SeqCst), 0);
            gate.open();
        });
        assert_eq!(passed.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn no_more_are_within_than_there_are_places() {
        let (places, inside) = (Places::new(Among::Processes, 2).unwrap(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    places.within(|| {
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        thread::sleep(Duration::from_millis(5));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
        });
    }
}
