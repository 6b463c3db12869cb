//! The due-only open loop on io_uring: one `io_uring_enter` a turn, which submits the sends of the
//! turn before and sleeps to the next due time. It asks for more completions than can come, so
//! with deferred task run no reply wakes it; the timeout does.

use std::io;

use super::due::{DRAIN_NS, Options};
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
use crate::ring::{Operation, Ring, Sleep};
use crate::schedule::Schedule;
use crate::sys;

/// A sleep of the drain, in ns.
const DRAIN_SLEEP_NS: u64 = 10_000_000;

/// Runs the loop.
///
/// # Errors
/// See [`super::due::run`].
pub fn run(options: &Options) -> io::Result<Outcome> {
    let client = &options.client;
    // Declared before the ring, so that it outlives every send the ring may still hold.
    let request = client.request.clone();
    let mut ring = Ring::new(client.connections)?;
    let mut connections = Vec::with_capacity(client.connections);
    for index in 0..client.connections {
        let fd = sys::connect(client.addr, false)?;
        ring.arm(fd, index as u32, 0)?;
        connections.push((fd, ReplyMeter::default()));
    }
    let mut free: Vec<u32> = (0..client.connections as u32).collect();
    let mut completions = Vec::with_capacity(4 * client.connections);
    let mut outcome = Outcome::default();
    let (mut waiting, mut queue_depth_max) = (0_u64, 0_u64);
    let start_ns = sys::now_ns();
    let mut schedule = Schedule::new(start_ns, options.rate_per_s, client.seconds);
    let end_ns = start_ns + (client.seconds * 1e9) as u64 + DRAIN_NS;
    while outcome.requests < schedule.total() {
        ring.turn(sleep_to(schedule.next_due_ns()), &mut completions)?;
        for completion in &completions {
            let (fd, meter) = &mut connections[completion.connection as usize];
            match (completion.operation, completion.result) {
                (Operation::Recv, result) if result == -libc::ENOBUFS => {}
                (Operation::Recv, result) if result > 0 => match meter.take(ring.bytes(completion)) {
                    Step::Partial => {}
                    Step::Whole => {
                        outcome.requests += 1;
                        free.push(completion.connection);
                    }
                    Step::Broken => return Err(io::ErrorKind::InvalidData.into()),
                },
                (_, result) if result < 0 => return Err(io::Error::from_raw_os_error(-result)),
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            if !completion.armed {
                ring.arm(*fd, completion.connection, 0)?;
            }
        }
        ring.recycle(&completions);
        let now_ns = sys::now_ns();
        while schedule.release(now_ns) {
            waiting += 1;
        }
        while waiting > 0
            && let Some(index) = free.pop()
        {
            // SAFETY: `request` outlives the ring.
            unsafe { ring.send(connections[index as usize].0, &request, index, 0)? };
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

fn sleep_to(due_ns: Option<u64>) -> Sleep {
    match due_ns {
        // The kernel clamps the number to the length of its completion queue.
        Some(due_ns) => Sleep { completions: 1 << 20, gather_us: 0, at_most_ns: due_ns.saturating_sub(sys::now_ns()) },
        None => Sleep { completions: 1, gather_us: 0, at_most_ns: DRAIN_SLEEP_NS },
    }
}
