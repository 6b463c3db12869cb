//! One receive, one send, and what is kept, each counted: what designs by edge-triggered epoll do with their links.

use rustix::io::Errno;

use crate::counters::Counters;
use crate::link::{self, Io};

/// What a receive brought.
pub(crate) enum Came {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The peer's end, or a failure.
    End,
}

/// Receives once. `readable` says afterwards whether another receive may bring more without a new edge; `thorough` is as for
/// [`Io::recv`].
#[inline]
pub(crate) fn receive(
    io: &mut impl Io,
    buffer: &mut [u8],
    readable: &mut bool,
    thorough: bool,
    counters: &mut Counters,
) -> Came {
    match io.recv(buffer, thorough) {
        Ok(link::Received { n: 0, .. }) => {
            counters.shutdown += 1;
            Came::End
        }
        Ok(link::Received { n, more }) => {
            counters.recv += 1;
            counters.bytes_in += n as u64;
            *readable = more;
            Came::Bytes(n)
        }
        Err(Errno::AGAIN) => {
            *readable = false;
            Came::Nothing
        }
        Err(Errno::INTR) => Came::Nothing,
        Err(_) => {
            counters.recv_error += 1;
            Came::End
        }
    }
}

/// What a send took.
pub(crate) enum Sent {
    /// So many bytes of what was to be sent.
    Bytes(usize),
    /// Nothing before the next edge.
    Blocked,
    /// The peer is gone.
    Failed,
}

/// Sends some of `head` and then of `body`; not both may be empty.
#[inline]
pub(crate) fn send(io: &mut impl Io, head: &[u8], body: &[u8], counters: &mut Counters) -> Sent {
    loop {
        match io.send(head, body) {
            Ok(n) => {
                counters.send += 1;
                counters.bytes_out += n as u64;
                return Sent::Bytes(n);
            }
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(Errno::INTR) => {}
            Err(_) => {
                counters.send_error += 1;
                return Sent::Failed;
            }
        }
    }
}

/// Appends without ending the process where memory is refused. False, and counted, if it was.
pub(crate) fn keep(kept: &mut Vec<u8>, bytes: &[u8], counters: &mut Counters) -> bool {
    if kept.try_reserve(bytes.len()).is_err() {
        counters.memory_error += 1;
        return false;
    }
    kept.extend_from_slice(bytes);
    true
}
