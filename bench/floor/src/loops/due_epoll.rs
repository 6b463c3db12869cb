//! The due-only open loop on epoll: `clock_nanosleep` to the next due time, then one `epoll_wait`
//! without waiting to reap, then the sends. Readiness during the sleep wakes nobody.

use std::io;

use super::due_course::{Course, Options};
use super::epoll::RECV_BYTES;
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
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
    let mut course = Course::begin(options);
    while course.is_open() {
        let due_ns = course.next_due_ns();
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
                    course.replied();
                    free.push(index);
                }
                Step::Partial | Step::Broken => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let is_going_on =
            course.send_due(&mut free, |index| sys::send(connections[index].0, &client.request).map(drop))?;
        if !is_going_on {
            break;
        }
    }
    Ok(course.end())
}
