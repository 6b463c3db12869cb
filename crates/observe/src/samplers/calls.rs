//! What kind of system call a number stands for: whether it waits at a descriptor, for several, for a lock or for time.
//!
//! By this architecture's numbers. `bpf/calls.bpf.h` is the same for programs in the kernel.

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// A word of memory to change.
    Futex,
    /// Any of several descriptors, none of which is its first argument.
    Poll,
    /// The same; its first argument is an epoll instance or a ring of io_uring.
    Epoll,
    /// Time to pass.
    Sleep,
    /// The descriptor that is its first argument: to read from it, to write to it, or something else.
    At,
    /// Something else.
    Other,
}

const FUTEX: &[libc::c_long] = &[libc::SYS_futex, 455, 449];
const POLL: &[libc::c_long] = &[
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
];
const EPOLL: &[libc::c_long] = &[
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_io_uring_enter,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];
const SLEEP: &[libc::c_long] = &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
const AT: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_connect,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_splice,
];

/// The kind of a call by its number; of a negative one, which is in no call, [`CallKind::Other`].
pub(crate) fn call_kind(number: i64) -> CallKind {
    let kinds = [
        (FUTEX, CallKind::Futex),
        (POLL, CallKind::Poll),
        (EPOLL, CallKind::Epoll),
        (SLEEP, CallKind::Sleep),
        (AT, CallKind::At),
    ];
    kinds.iter().find(|(calls, _)| calls.contains(&number)).map_or(CallKind::Other, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_of_one_kind_and_the_kernels_programs_know_the_same() {
        let header = include_str!("../../bpf/calls.bpf.h");
        let (arm, x86) = header.split_once("#else").unwrap();
        let (table, common) = x86.split_once("#endif").unwrap();
        let table = if cfg!(target_arch = "aarch64") { arm } else { table };
        let common = common.split_once("enum call_kind").unwrap().0;
        let number_of = |name: &str| {
            let of = |text: &str| {
                let rest = text.split_once(&format!("{name} = "))?.1;
                rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<i64>().ok()
            };
            of(table).or_else(|| of(common))
        };
        let body = header.split_once("switch (number) {").unwrap().1;
        let mut seen = 0;
        let mut names: Vec<&str> = Vec::new();
        for line in body.lines() {
            let cases = line.split("case ").skip(1).map(|case| case.split(':').next().unwrap());
            names.extend(cases);
            let Some(kind) = line.trim().strip_prefix("return ") else { continue };
            let expected = match kind.trim_end_matches(';') {
                "CALL_OF_FUTEX" => CallKind::Futex,
                "CALL_OF_POLL" => CallKind::Poll,
                "CALL_OF_EPOLL" => CallKind::Epoll,
                "CALL_OF_SLEEP" => CallKind::Sleep,
                "CALL_READS" | "CALL_WRITES" | "CALL_AT" => CallKind::At,
                _ => break,
            };
            for number in names.drain(..).filter_map(number_of) {
                assert_eq!(call_kind(number), expected, "{number}");
                seen += 1;
            }
        }
        let all = [FUTEX, POLL, EPOLL, SLEEP, AT].concat();
        assert_eq!(seen, all.len());
        assert_eq!(call_kind(-1), CallKind::Other);
        assert_eq!(call_kind(libc::SYS_getpid), CallKind::Other);
    }
}
