//! What the designs with one connection a thread or process share: a conversation by blocking calls, and its end.
//!
//! A message is a `recv` and a `send`, as in the textbook; the kernel keeps the idle timeout (`SO_RCVTIMEO`,
//! `SO_SNDTIMEO`). At the stop whoever ends the server sets these short and then interrupts the call under way by a
//! signal: a call that was just about to begin finds the short timeouts, so no moment is missed.
//! [`converse`] and [`attend`] neither allocate nor lock nor panic, unless there are defects: forked processes run them.
//! With defects they do: glibc's allocator can be used after a fork, and no lock of theirs is held at one.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::acceptor::{Acceptor, Came};
use super::drain::Drain;
use crate::counters::{Counters, Published};
use crate::defects::beside::{Answer, Carries};
use crate::error::ServeError;
use crate::limits;

/// Sets how long a call on the connection may wait.
pub(super) fn set_timeouts(connection: BorrowedFd<'_>, timeout: Option<Duration>) {
    // The kernel takes a timeout of zero for none at all.
    let timeout = timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
    // It fails only for an invalid time or descriptor, and both are valid here.
    let _ = set_socket_timeout(connection, Timeout::Recv, timeout);
    let _ = set_socket_timeout(connection, Timeout::Send, timeout);
}

/// Timeouts while draining: what falls quiet for so long is over.
pub(super) const QUIET: Option<Duration> = Some(limits::DRAIN_QUIET);

/// What all connections of one thread or process have in common.
pub(super) struct Manners<'a> {
    pub(super) idle: Option<Duration>,
    pub(super) drain: &'a Drain,
    pub(super) published: &'a Published,
}

/// Echoes until the peer ends, falls silent or is gone, or the server ends. The caller closes.
pub(super) fn converse<C: Carries>(
    connection: BorrowedFd<'_>,
    buffer: &mut [MaybeUninit<u8>],
    manners: &Manners<'_>,
    carries: &mut C,
    counters: &mut Counters,
) {
    let Some(_kept) = carries.accepted() else { return };
    let Manners { idle, drain, published } = manners;
    set_timeouts(connection, *idle);
    if drain.has_begun() {
        set_timeouts(connection, QUIET);
    }
    loop {
        published.sleep(counters);
        let received = recv(connection, &mut *buffer, RecvFlags::empty());
        published.wake();
        match received {
            Ok(((bytes, _), _)) => {
                if bytes.is_empty() {
                    counters.shutdown += 1;
                    return;
                }
                counters.recv += 1;
                counters.bytes_in += bytes.len() as u64;
                let goes_on = match carries.answer(Some(connection), bytes) {
                    None => send_all(connection, bytes, manners, counters),
                    Some(Answer { bytes, first, closes }) => {
                        let (first, second) = bytes.split_at(first);
                        send_all(connection, first, manners, counters)
                            && send_all(connection, second, manners, counters)
                            && !closes
                    }
                };
                if !goes_on {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                counters.idle_closed += u64::from(!drain.has_begun());
                return;
            }
            Err(_) => {
                counters.recv_error += 1;
                return;
            }
        }
        if drain.is_over() {
            counters.cut_at_stop += 1;
            return;
        }
    }
}

/// Sends all of `bytes`. False if the connection is to be closed.
fn send_all(connection: BorrowedFd<'_>, bytes: &[u8], manners: &Manners<'_>, counters: &mut Counters) -> bool {
    let Manners { drain, published, .. } = manners;
    let mut rest = bytes;
    // Most sends need not wait. One that must is a sleep, and what was counted is published before.
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    while !rest.is_empty() {
        let waits = !flags.contains(SendFlags::DONTWAIT);
        if waits {
            published.sleep(counters);
        }
        let sent = send(connection, rest, flags);
        published.wake();
        match sent {
            Ok(n) => {
                counters.send += 1;
                counters.bytes_out += n as u64;
                rest = rest.get(n..).unwrap_or_default();
            }
            Err(Errno::AGAIN) if !waits => flags = SendFlags::NOSIGNAL,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if drain.has_begun() => {}
            Err(Errno::AGAIN) => {
                counters.idle_closed += 1;
                return false;
            }
            Err(_) => {
                counters.send_error += 1;
                return false;
            }
        }
        if !rest.is_empty() && drain.is_over() {
            counters.cut_at_stop += 1;
            return false;
        }
    }
    true
}

/// Serves connections one after the other, each with `serve`, until the stop; then those that already stand in the
/// accept queue, as many as the time to drain allows.
pub(super) fn attend(
    acceptor: &mut Acceptor,
    drain: &Drain,
    published: &Published,
    counters: &mut Counters,
    mut serve: impl FnMut(OwnedFd, &mut Counters),
) -> rustix::io::Result<()> {
    let mut one = |connection: OwnedFd, counters: &mut Counters| {
        counters.accepted += 1;
        serve(connection, counters);
        counters.closed += 1;
    };
    loop {
        match acceptor.wait(drain, counters, published)? {
            Came::Connection(connection) => one(connection, counters),
            Came::Stop => break,
            Came::Other(_) => {}
        }
    }
    drain.begin();
    while !drain.is_over() {
        let Some(connection) = acceptor.take(counters)? else { break };
        one(connection, counters);
    }
    published.sleep(counters);
    Ok(())
}

/// Room to receive into, or none for want of memory. Pages of it are given when bytes come.
pub(super) fn buffer(bytes: usize) -> Option<Box<[MaybeUninit<u8>]>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).ok()?;
    buffer.resize_with(bytes, MaybeUninit::uninit);
    Some(buffer.into_boxed_slice())
}

/// Refuses more than one worker, for designs that serve with exactly one.
pub(super) fn check_one_worker(design: &'static str, got: usize) -> Result<(), ServeError> {
    if got == 1 { Ok(()) } else { Err(ServeError::OneWorker { design, got }) }
}

/// Makes the error of a worker that failed while `doing` something.
pub(super) fn failed(doing: &'static str) -> impl Fn(Errno) -> ServeError {
    move |error| ServeError::Worker { doing, source: error.into() }
}
