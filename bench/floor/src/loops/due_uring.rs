//! The due-only open loop on io_uring: one `io_uring_enter` a turn, which submits the sends of the
//! turn before and sleeps to the next due time. It asks for more completions than can come, so
//! with deferred task run no reply wakes it; the timeout does.

use std::io;

use super::due_course::{Course, Options};
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
use crate::ring::{Operation, Ring, Sleep};
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
    let mut course = Course::begin(options);
    while course.is_open() {
        ring.turn(sleep_to(course.next_due_ns()), &mut completions)?;
        for completion in &completions {
            let (fd, meter) = &mut connections[completion.connection as usize];
            match (completion.operation, completion.result) {
                (Operation::Recv, result) if result == -libc::ENOBUFS => {}
                (Operation::Recv, result) if result > 0 => match meter.take(ring.bytes(completion)) {
                    Step::Partial => {}
                    Step::Whole => {
                        course.replied();
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
        let is_going_on = course.send_due(&mut free, |index| {
            // SAFETY: `request` outlives the ring.
            unsafe { ring.send(connections[index as usize].0, &request, index, 0) }
        })?;
        if !is_going_on {
            break;
        }
    }
    Ok(course.end())
}

fn sleep_to(due_ns: Option<u64>) -> Sleep {
    match due_ns {
        // The kernel clamps the number to the length of its completion queue.
        Some(due_ns) => Sleep { completions: 1 << 20, gather_us: 0, at_most_ns: due_ns.saturating_sub(sys::now_ns()) },
        None => Sleep { completions: 1, gather_us: 0, at_most_ns: DRAIN_SLEEP_NS },
    }
}
