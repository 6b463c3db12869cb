//! Names for the kernel's numbers: signals, system calls, reasons of drops.
//!
//! Signals and system calls by the constants of this architecture; reasons, which change from kernel to kernel, by the
//! running kernel's own description of its types.

use super::BTF;
use super::kernel_types::enumeration;
use std::collections::BTreeMap;
use std::path::Path;

/// `SIGTERM` for 15; `signal 40` where it has no name here.
pub(crate) fn signal(number: i32) -> String {
    match SIGNALS.iter().find(|(n, _)| *n == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("signal {number}"),
    }
}

/// `epoll_wait`; `call 999` where it has no name here; `none` for a negative number (it was in user code).
pub(crate) fn call(number: i64) -> String {
    match CALLS.iter().chain(OLD_CALLS).find(|(n, _)| *n == number) {
        Some((_, name)) => (*name).to_owned(),
        None if number < 0 => "none".to_owned(),
        None => format!("call {number}"),
    }
}

/// `EAGAIN` for 11; `error 600` where it has no name here.
pub(crate) fn error(number: u32) -> String {
    match ERRORS.iter().chain(RESTARTS).find(|(n, _)| u32::try_from(*n) == Ok(number)) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("error {number}"),
    }
}

/// Whether the first argument of a call is a descriptor.
pub(crate) fn takes_descriptor(call: &str) -> bool {
    DESCRIPTOR_CALLS.contains(&call)
}

/// The running kernel's reasons for dropping a packet, by number, as `NO_SOCKET`.
pub(crate) fn drop_reasons() -> BTreeMap<u32, String> {
    let reasons = enumeration(Path::new(BTF), "skb_drop_reason").unwrap_or_default();
    let named = |(number, name): (u32, String)| {
        (number, name.trim_start_matches("SKB_").trim_start_matches("DROP_REASON_").to_owned())
    };
    reasons.into_iter().map(named).collect()
}

macro_rules! numbered {
    ($kind:ty; $($constant:ident $name:literal)*) => { &[$((libc::$constant as $kind, $name)),*] };
}

const SIGNALS: &[(i32, &str)] = numbered!(i32;
    SIGHUP "SIGHUP" SIGINT "SIGINT" SIGQUIT "SIGQUIT" SIGILL "SIGILL" SIGTRAP "SIGTRAP" SIGABRT "SIGABRT"
    SIGBUS "SIGBUS" SIGFPE "SIGFPE" SIGKILL "SIGKILL" SIGUSR1 "SIGUSR1" SIGSEGV "SIGSEGV" SIGUSR2 "SIGUSR2"
    SIGPIPE "SIGPIPE" SIGALRM "SIGALRM" SIGTERM "SIGTERM" SIGCHLD "SIGCHLD" SIGCONT "SIGCONT" SIGSTOP "SIGSTOP"
    SIGTSTP "SIGTSTP" SIGTTIN "SIGTTIN" SIGTTOU "SIGTTOU" SIGURG "SIGURG" SIGXCPU "SIGXCPU" SIGXFSZ "SIGXFSZ"
    SIGVTALRM "SIGVTALRM" SIGPROF "SIGPROF" SIGWINCH "SIGWINCH" SIGIO "SIGIO" SIGPWR "SIGPWR" SIGSYS "SIGSYS");

const CALLS: &[(i64, &str)] = numbered!(i64;
    SYS_read "read" SYS_write "write" SYS_close "close" SYS_fstat "fstat" SYS_lseek "lseek" SYS_mmap "mmap"
    SYS_mprotect "mprotect" SYS_munmap "munmap" SYS_brk "brk" SYS_rt_sigaction "rt_sigaction"
    SYS_rt_sigprocmask "rt_sigprocmask" SYS_rt_sigsuspend "rt_sigsuspend" SYS_rt_sigtimedwait "rt_sigtimedwait"
    SYS_ioctl "ioctl" SYS_pread64 "pread64" SYS_pwrite64 "pwrite64" SYS_readv "readv" SYS_writev "writev"
    SYS_preadv "preadv" SYS_pwritev "pwritev" SYS_sched_yield "sched_yield" SYS_madvise "madvise"
    SYS_nanosleep "nanosleep" SYS_clock_nanosleep "clock_nanosleep" SYS_getpid "getpid" SYS_gettid "gettid"
    SYS_sendfile "sendfile" SYS_splice "splice" SYS_socket "socket" SYS_connect "connect" SYS_accept "accept"
    SYS_accept4 "accept4" SYS_sendto "sendto" SYS_recvfrom "recvfrom" SYS_sendmsg "sendmsg" SYS_recvmsg "recvmsg"
    SYS_sendmmsg "sendmmsg" SYS_recvmmsg "recvmmsg" SYS_shutdown "shutdown" SYS_bind "bind" SYS_listen "listen"
    SYS_getsockname "getsockname" SYS_getpeername "getpeername" SYS_setsockopt "setsockopt"
    SYS_getsockopt "getsockopt" SYS_clone "clone" SYS_clone3 "clone3" SYS_execve "execve" SYS_exit "exit"
    SYS_wait4 "wait4" SYS_waitid "waitid" SYS_kill "kill" SYS_tkill "tkill" SYS_tgkill "tgkill"
    SYS_fcntl "fcntl" SYS_flock "flock" SYS_fsync "fsync" SYS_fdatasync "fdatasync" SYS_ftruncate "ftruncate"
    SYS_getdents64 "getdents64" SYS_openat "openat" SYS_openat2 "openat2" SYS_newfstatat "newfstatat"
    SYS_statx "statx" SYS_unlinkat "unlinkat" SYS_renameat2 "renameat2" SYS_readlinkat "readlinkat"
    SYS_faccessat "faccessat" SYS_getrandom "getrandom" SYS_gettimeofday "gettimeofday"
    SYS_clock_gettime "clock_gettime" SYS_futex "futex" SYS_epoll_create1 "epoll_create1" SYS_epoll_ctl "epoll_ctl"
    SYS_epoll_pwait "epoll_pwait" SYS_ppoll "ppoll" SYS_pselect6 "pselect6" SYS_eventfd2 "eventfd2"
    SYS_timerfd_create "timerfd_create" SYS_timerfd_settime "timerfd_settime" SYS_signalfd4 "signalfd4"
    SYS_exit_group "exit_group" SYS_restart_syscall "restart_syscall" SYS_io_submit "io_submit"
    SYS_io_getevents "io_getevents" SYS_io_uring_setup "io_uring_setup" SYS_io_uring_enter "io_uring_enter"
    SYS_io_uring_register "io_uring_register" SYS_memfd_create "memfd_create" SYS_prctl "prctl"
    SYS_prlimit64 "prlimit64" SYS_pipe2 "pipe2" SYS_dup3 "dup3" SYS_socketpair "socketpair" SYS_uname "uname"
    SYS_rt_sigreturn "rt_sigreturn" SYS_getuid "getuid" SYS_rseq "rseq" SYS_mremap "mremap");

/// What a call returns inside the kernel that a signal interrupted and that is made again (include/linux/errno.h).
const RESTARTS: &[(i32, &str)] =
    &[(512, "ERESTARTSYS"), (513, "ERESTARTNOINTR"), (514, "ERESTARTNOHAND"), (516, "ERESTART_RESTARTBLOCK")];

/// Calls of [`CALLS`] and [`OLD_CALLS`] whose first argument is a descriptor.
const DESCRIPTOR_CALLS: &[&str] = &[
    "read",
    "write",
    "close",
    "fstat",
    "lseek",
    "ioctl",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "sendfile",
    "splice",
    "connect",
    "accept",
    "accept4",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendmmsg",
    "recvmmsg",
    "shutdown",
    "bind",
    "listen",
    "getsockname",
    "getpeername",
    "setsockopt",
    "getsockopt",
    "fcntl",
    "flock",
    "fsync",
    "fdatasync",
    "ftruncate",
    "getdents64",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "timerfd_settime",
    "io_uring_enter",
    "io_uring_register",
    "dup3",
    "dup2",
];

const ERRORS: &[(i32, &str)] = numbered!(i32;
    EPERM "EPERM" ENOENT "ENOENT" ESRCH "ESRCH" EINTR "EINTR" EIO "EIO" ENXIO "ENXIO" E2BIG "E2BIG" ENOEXEC "ENOEXEC"
    EBADF "EBADF" ECHILD "ECHILD" EAGAIN "EAGAIN" ENOMEM "ENOMEM" EACCES "EACCES" EFAULT "EFAULT" EBUSY "EBUSY"
    EEXIST "EEXIST" EXDEV "EXDEV" ENODEV "ENODEV" ENOTDIR "ENOTDIR" EISDIR "EISDIR" EINVAL "EINVAL" ENFILE "ENFILE"
    EMFILE "EMFILE" ENOTTY "ENOTTY" ETXTBSY "ETXTBSY" EFBIG "EFBIG" ENOSPC "ENOSPC" ESPIPE "ESPIPE" EROFS "EROFS"
    EMLINK "EMLINK" EPIPE "EPIPE" ERANGE "ERANGE" EDEADLK "EDEADLK" ENAMETOOLONG "ENAMETOOLONG" ENOSYS "ENOSYS"
    ENOTEMPTY "ENOTEMPTY" ELOOP "ELOOP" ENODATA "ENODATA" ETIME "ETIME" EPROTO "EPROTO" EOVERFLOW "EOVERFLOW"
    EILSEQ "EILSEQ" ENOTSOCK "ENOTSOCK" EDESTADDRREQ "EDESTADDRREQ" EMSGSIZE "EMSGSIZE" EPROTOTYPE "EPROTOTYPE"
    ENOPROTOOPT "ENOPROTOOPT" EPROTONOSUPPORT "EPROTONOSUPPORT" EOPNOTSUPP "EOPNOTSUPP" EAFNOSUPPORT "EAFNOSUPPORT"
    EADDRINUSE "EADDRINUSE" EADDRNOTAVAIL "EADDRNOTAVAIL" ENETDOWN "ENETDOWN" ENETUNREACH "ENETUNREACH"
    ENETRESET "ENETRESET" ECONNABORTED "ECONNABORTED" ECONNRESET "ECONNRESET" ENOBUFS "ENOBUFS" EISCONN "EISCONN"
    ENOTCONN "ENOTCONN" ESHUTDOWN "ESHUTDOWN" ETIMEDOUT "ETIMEDOUT" ECONNREFUSED "ECONNREFUSED" EHOSTDOWN "EHOSTDOWN"
    EHOSTUNREACH "EHOSTUNREACH" EALREADY "EALREADY" EINPROGRESS "EINPROGRESS" ESTALE "ESTALE" EDQUOT "EDQUOT"
    ECANCELED "ECANCELED");

/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(i64, &str)] = numbered!(i64;
    SYS_open "open" SYS_stat "stat" SYS_lstat "lstat" SYS_poll "poll" SYS_select "select" SYS_epoll_wait "epoll_wait"
    SYS_access "access" SYS_pipe "pipe" SYS_dup2 "dup2" SYS_fork "fork" SYS_vfork "vfork" SYS_unlink "unlink"
    SYS_rename "rename" SYS_pause "pause" SYS_alarm "alarm" SYS_time "time" SYS_epoll_create "epoll_create"
    SYS_arch_prctl "arch_prctl");
/// None here.
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(i64, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_names() {
        assert_eq!((signal(9), signal(64)), ("SIGKILL".to_owned(), "signal 64".to_owned()));
        assert_eq!(call(libc::SYS_futex), "futex");
        assert_eq!((error(24), error(600)), ("EMFILE".to_owned(), "error 600".to_owned()));
        // What a call that is restarted returns is told to no program (include/linux/errno.h).
        assert_eq!(error(512), "ERESTARTSYS");
        let known = |name: &&str| CALLS.iter().chain(OLD_CALLS).any(|(_, known)| known == name);
        assert!(DESCRIPTOR_CALLS.iter().filter(|name| !["dup2", "epoll_wait"].contains(name)).all(known));
        assert!(takes_descriptor("write") && !takes_descriptor("exit_group"));
        #[cfg(target_arch = "x86_64")]
        assert_eq!(call(libc::SYS_epoll_wait), "epoll_wait");
        assert_eq!((call(-1), call(9999)), ("none".to_owned(), "call 9999".to_owned()));
    }
}
