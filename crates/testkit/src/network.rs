//! A process in a network namespace of its own: settings, sockets and counters that no other test shares; two of them
//! with a cable between.
//!
//! Needs root. The namespace ends with its last process. Only the loopback interface is in it, and it is up.

use crate::process::Guard;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
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

/// Makes the command's process enter the network namespace of another one.
///
/// # Errors
/// Where that process is gone or not for us to look at.
pub fn of_process(command: &mut Command, pid: u32) -> io::Result<&mut Command> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    // SAFETY: between fork and exec `setns` is a system call alone; the descriptor lives as long as the closure.
    let enter = move || match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: `enter` only makes a system call, which is async-signal-safe.
    Ok(unsafe { command.pre_exec(enter) })
}

/// Two network namespaces with a cable between them. They end with it.
#[derive(Debug)]
pub struct Pair {
    left: Guard,
    right: Guard,
}

impl Pair {
    /// The address at the left end.
    pub const LEFT: &str = "10.123.0.1";
    /// The address at the right end.
    pub const RIGHT: &str = "10.123.0.2";

    /// Makes them; needs root and ip(8).
    ///
    /// # Errors
    /// Where the kernel or ip(8) refuses.
    pub fn new() -> io::Result<Self> {
        let holder = || Guard::spawn(of_its_own(Command::new("sleep").arg("600")));
        let pair = Pair { left: holder()?, right: holder()? };
        // `spawn` returns once the program runs, and it is in its namespace by then.
        let right = pair.right.pid().to_string();
        pair.ip(true, &["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", &right])?;
        for (is_left, address) in [(true, Self::LEFT), (false, Self::RIGHT)] {
            pair.ip(is_left, &["address", "add", &format!("{address}/24"), "dev", "cable"])?;
            pair.ip(is_left, &["link", "set", "cable", "up"])?;
        }
        Ok(pair)
    }

    /// Makes the command run at the left end.
    ///
    /// # Errors
    /// As [`of_process`].
    pub fn left<'c>(&self, command: &'c mut Command) -> io::Result<&'c mut Command> {
        of_process(command, self.left.pid())
    }

    /// Makes the command run at the right end.
    ///
    /// # Errors
    /// As [`of_process`].
    pub fn right<'c>(&self, command: &'c mut Command) -> io::Result<&'c mut Command> {
        of_process(command, self.right.pid())
    }

    fn ip(&self, is_left: bool, args: &[&str]) -> io::Result<()> {
        let mut command = Command::new("ip");
        command.args(args);
        let command = if is_left { self.left(&mut command) } else { self.right(&mut command) }?;
        let output = command.output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("ip {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
        }
    }
}
