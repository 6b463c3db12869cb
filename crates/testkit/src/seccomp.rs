//! A process that may not use io_uring, as in most containers: a seccomp filter that answers EPERM to its setup.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the command's process refuse `io_uring_setup(2)` to itself and all it starts.
pub fn forbid_io_uring(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec `install` only makes system calls, which is async-signal-safe.
    unsafe { command.pre_exec(install) }
}

fn install() -> io::Result<()> {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // Load the system call's number (offset 0 of seccomp_data); on io_uring_setup return EPERM, else allow.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the first call takes only numbers; the second reads `program` and the filter, which live for the call.
    let result = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
