//! The kernel's receive stamps: when a segment came, whenever the worker looks (SO_TIMESTAMPING, socket(7) and the
//! kernel's Documentation/networking/timestamping.rst).
//!
//! They are on CLOCK_REALTIME, so they are moved to the run's monotonic clock with an offset read again every 100 ms;
//! when the wall clock was stepped in between, stamps are set aside until the next reading. Data that was read together
//! carries the last segment's stamp. Measured cost: 0.5 to 1.3 µs a receive, so they are for the open pace, where
//! replies are taken late on purpose; not for unix sockets, which have none.

use super::clock::monotonic_ns;
use rustix::time::{ClockId, clock_gettime};
use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;

/// Room for the control message that carries the stamps: header and three `timespec`.
pub const CONTROL_BYTES: usize = 64;
/// How often the offset between the clocks is read, nanoseconds.
const OFFSET_EVERY_NS: u64 = 100_000_000;
/// A change of the offset beyond this is a step: slewing moves it by at most 500 ppm, 50 µs in 100 ms (adjtimex(2)).
const STEP_NS: i64 = 200_000;

/// Asks for receive stamps on a socket.
///
/// # Errors
/// Where the socket or kernel has none.
pub fn enable(socket: &Socket) -> io::Result<()> {
    let flags: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the option takes a pointer to a 32-bit value of the given length, which lives for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A control buffer, aligned as its headers need.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Control(pub [u8; CONTROL_BYTES]);

/// Receives, with the stamp on CLOCK_REALTIME where there is one.
///
/// # Errors
/// As recvmsg(2).
pub fn receive(socket: &Socket, buffer: &mut [u8], control: &mut Control) -> io::Result<(usize, Option<u64>)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header points to buffers that live for the call, with their true lengths.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((n as usize, stamp_of(&control.0[..header.msg_controllen.min(CONTROL_BYTES)])))
}

/// The software receive stamp in a control message, CLOCK_REALTIME nanoseconds.
pub fn stamp_of(control: &[u8]) -> Option<u64> {
    let header = size_of::<libc::cmsghdr>();
    let word = |at: usize| control.get(at..at + 8).and_then(|b| b.try_into().ok()).map(i64::from_ne_bytes);
    let half = |at: usize| control.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
    let is_stamp = half(8) == Some(libc::SOL_SOCKET) && half(12) == Some(libc::SO_TIMESTAMPING);
    let (seconds, nanoseconds) = (word(header)?, word(header + 8)?);
    (is_stamp && seconds > 0).then_some(seconds as u64 * 1_000_000_000 + nanoseconds as u64)
}

/// Moves stamps to the monotonic clock.
#[derive(Debug, Default)]
pub struct WallClock {
    offset_ns: i64,
    read_at_ns: u64,
    is_stepping: bool,
}

impl WallClock {
    /// The stamp on CLOCK_MONOTONIC; `None` while the wall clock is being stepped.
    pub fn monotonic_ns(&mut self, stamp_ns: u64, now_ns: u64) -> Option<u64> {
        if now_ns.saturating_sub(self.read_at_ns) >= OFFSET_EVERY_NS {
            let wall = clock_gettime(ClockId::Realtime);
            let after_ns = monotonic_ns();
            let offset_ns = wall.tv_sec * 1_000_000_000 + wall.tv_nsec - after_ns as i64;
            self.is_stepping = self.read_at_ns != 0 && (offset_ns - self.offset_ns).abs() > STEP_NS;
            self.offset_ns = offset_ns;
            self.read_at_ns = now_ns;
        }
        let moved_ns = stamp_ns as i64 - self.offset_ns;
        (!self.is_stepping && moved_ns > 0 && moved_ns as u64 <= now_ns).then_some(moved_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_stamp_is_the_arrival_and_not_the_reading() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        enable(&socket).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        // The kernel turns stamping on with a delay of its own after the first user asks for it.
        std::thread::sleep(Duration::from_millis(50));
        let before_ns = monotonic_ns();
        peer.write_all(b"x").unwrap();
        let after_ns = monotonic_ns();
        std::thread::sleep(Duration::from_millis(80));
        let (n, stamp) = receive(&socket, &mut [0; 10], &mut Control([0; CONTROL_BYTES])).unwrap();
        assert_eq!(n, 1);
        let at_ns = WallClock::default().monotonic_ns(stamp.unwrap(), monotonic_ns()).unwrap();
        assert!(
            before_ns.saturating_sub(50_000) <= at_ns && at_ns <= after_ns + 50_000,
            "{before_ns} {at_ns} {after_ns}"
        );
    }

    #[test]
    fn what_is_not_a_stamp_is_none() {
        assert_eq!(stamp_of(&[]), None);
        assert_eq!(stamp_of(&[0; CONTROL_BYTES]), None);
        assert_eq!(stamp_of(&[0xff; 20]), None);
    }

    #[test]
    fn a_stamp_from_the_future_is_not_believed() {
        assert_eq!(WallClock::default().monotonic_ns(u64::MAX / 4, monotonic_ns()), None);
    }
}
