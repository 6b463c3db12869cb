//! A worker that stays with one connection: it waits for what that connection waits for, in a call that blocks.

use crate::clock;
use crate::reactor::{Next, Wake};
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, recv};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How long a worker waits before it looks whether the server is to end.
const SLICE: Duration = Duration::from_millis(100);
/// How long it leaves bytes alone that the protocol does not want yet.
const UNREAD: Duration = Duration::from_millis(1);

/// Waits for what a connection waits for, and for nothing else. `is_read`: what came last was received. `None`: it is
/// over, or the server is to end.
pub(super) fn wait(socket: BorrowedFd<'_>, next: Next, is_read: bool, stop: &Stop) -> Option<Wake> {
    let (until_ns, write) = match next {
        Next::Close | Next::Reset => return None,
        Next::Again => (NEVER_NS, false),
        Next::Wait { until_ns, write } => (until_ns, write),
    };
    if !is_read {
        std::thread::sleep(UNREAD);
    }
    while !stop.is_stopped() {
        let wake = Wake { now_ns: clock::monotonic_ns(), ..Wake::default() };
        if next == Next::Again {
            return Some(wake);
        }
        if wake.now_ns >= until_ns {
            return Some(Wake { expired: true, ..wake });
        }
        let slice = SLICE.min(Duration::from_nanos(until_ns - wake.now_ns));
        let came = if write { wait_for_room(socket, slice) } else { wait_for_bytes(socket, slice) };
        let wake = Wake { now_ns: clock::monotonic_ns(), ..wake };
        match came {
            Ok(true) if write => return Some(wake),
            Ok(true) => return Some(Wake { readable: true, thorough: true, ..wake }),
            Ok(false) => {}
            Err(_) => return Some(Wake { readable: true, thorough: true, dead: true, ..wake }),
        }
    }
    None
}

/// Whether bytes, or the peer's end, came. They stay in the socket.
fn wait_for_bytes(socket: BorrowedFd<'_>, at_most: Duration) -> rustix::io::Result<bool> {
    set_socket_timeout(socket, Timeout::Recv, Some(at_most))?;
    ioctl_fionbio(socket, false)?;
    let peeked = recv(socket, &mut [0_u8; 1], RecvFlags::PEEK);
    ioctl_fionbio(socket, true)?;
    match peeked {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

fn wait_for_room(socket: BorrowedFd<'_>, at_most: Duration) -> rustix::io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(at_most.subsec_nanos()) };
    match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}
