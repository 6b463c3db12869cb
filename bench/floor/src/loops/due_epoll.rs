//! The due-only open loop on epoll: `clock_nanosleep` to the next due time, then one `epoll_wait`
//! without waiting to reap, then the sends. Readiness during the sleep wakes nobody.

use std::io;

use super::due::{DRAIN_NS, Options};
use super::epoll::RECV_BYTES;
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
use crate::schedule::Schedule;
use crate::sys::{self, Epoll};

/// Runs the loop.
///
/// # Errors
/// See [`super::due::run`].
pub fn run(options: &Options) -> io::Result<Outcome> {
    let client = &options.client;
    let mut epoll = Epoll::new(client.connections.min(1024))?;
    let mut connections = Vec::with_capacity(client.connections);
    for index in 0..client.connections {
        let fd = sys::connect(client.addr, true)?;
        epoll.add(fd, libc::EPOLLIN, index as u64)?;
        connections.push((fd, ReplyMeter::default()));
    }
    let mut free: Vec<usize> = (0..client.connections).collect();
    let mut buffer = vec![0; RECV_BYTES];
    let mut outcome = Outcome::default();
    let (mut waiting, mut queue_depth_max) = (0_u64, 0_u64);
    let start_ns = sys::now_ns();
    let mut schedule = Schedule::new(start_ns, options.rate_per_s, client.seconds);
    let end_ns = start_ns + (client.seconds * 1e9) as u64 + DRAIN_NS;
    while outcome.requests < schedule.total() {
        let due_ns = schedule.next_due_ns();
        if let Some(due_ns) = due_ns {
            sys::sleep_until(due_ns);
        }
        let ready = epoll.wait(if due_ns.is_some() { 0 } else { 10 })?;
        for event in 0..ready {
            let index = epoll.event(event).0 as usize;
            let (fd, meter) = &mut connections[index];
            let length = sys::recv(*fd, &mut buffer)?;
            match meter.take(&buffer[..length]) {
                Step::Partial if length > 0 => {}
                Step::Whole => {
                    outcome.requests += 1;
                    free.push(index);
                }
                Step::Partial | Step::Broken => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let now_ns = sys::now_ns();
        while schedule.release(now_ns) {
            waiting += 1;
        }
        while waiting > 0
            && let Some(index) = free.pop()
        {
            sys::send(connections[index].0, &client.request)?;
            waiting -= 1;
        }
        // Whatever is left over now was due and found no connection.
        queue_depth_max = queue_depth_max.max(waiting);
        if now_ns >= end_ns {
            outcome.errors = schedule.total() - outcome.requests;
            break;
        }
    }
    outcome.seconds = (sys::now_ns() - start_ns) as f64 / 1e9;
    outcome.release_error_p99_us = schedule.error_p99_us();
    outcome.queue_depth_max = Some(queue_depth_max);
    Ok(outcome)
}
