//! A process in a network namespace of its own: settings, sockets and counters that no other test shares.
//!
//! Needs root. The namespace ends with its last process. Only the loopback interface is in it, and it is up.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the command's process leave the host's network for one of its own.
pub fn of_its_own(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec `leave` only makes system calls, which is async-signal-safe.
    unsafe { command.pre_exec(leave) }
}

fn leave() -> io::Result<()> {
    // SAFETY: takes a number, touches no memory of ours.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an `ifreq` is plain data, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the descriptor is ours and is closed; the request is valid for the call, which reads it.
    let result = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
        result
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
