//! Bytes on their way to a client that is slower than its origin: buffers first, then a temp file, then no more.
//!
//! First in, first out, as bytes of the wire. A buffer is taken when the one before is full, used again when it
//! was sent, and given back when nothing is pending any more: so what a slow client costs is what the formula of
//! `memory` says, as it is with nginx, and does not depend on how its sockets fill. While bytes are in the file, others follow them there, and when the file is full into
//! buffers that have become free behind it. Disk writes go to the page cache and may hold the worker when
//! the kernel throttles them. Not here: when to stop reading the origin ([`Chain::room`] says it).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ftruncate, openat, unlink};
use rustix::io::{Errno, pwrite};

use super::counters::ProxyCounters;
use crate::counters::Counters;
use crate::http::output::Sent;
use crate::link::Io;

/// What a chain may hold.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) buffers: usize,
    pub(super) buffer_bytes: usize,
    pub(super) temp_bytes_max: u64,
    pub(super) temp_dir: PathBuf,
}

/// What one client has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Chain {
    front: VecDeque<Vec<u8>>,
    /// How much of the first buffer has been sent.
    sent: usize,
    /// Behind `front`.
    file: Option<Spill>,
    /// Behind `file`.
    back: VecDeque<Vec<u8>>,
    /// Empty buffers, kept to be used again.
    free: Vec<Vec<u8>>,
    /// A temp file could not be made or written: it is not tried again for this connection.
    fileless: bool,
}

#[derive(Debug)]
struct Spill {
    fd: OwnedFd,
    from: u64,
    to: u64,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.file.is_none() && self.back.is_empty()
    }

    /// How many bytes more it takes. What is pushed beyond is kept all the same (a reply's head is).
    pub(super) fn room(&self, bounds: &Bounds) -> usize {
        let tail = if self.file.is_some() { self.back.back() } else { self.front.back() };
        let spare = tail.map_or(0, |buffer| bounds.buffer_bytes.saturating_sub(buffer.len()));
        let free = bounds.buffers.saturating_sub(self.front.len() + self.back.len());
        let memory = free.saturating_mul(bounds.buffer_bytes).saturating_add(spare);
        let written = self.file.as_ref().map_or(0, |spill| spill.to);
        let temp =
            if self.fileless || !self.back.is_empty() { 0 } else { bounds.temp_bytes_max.saturating_sub(written) };
        memory.saturating_add(usize::try_from(temp).unwrap_or(usize::MAX))
    }

    /// Appends bytes that the client has not taken. False if memory was refused.
    pub(super) fn push(&mut self, mut bytes: &[u8], bounds: &Bounds, tally: &mut ProxyCounters) -> bool {
        while !bytes.is_empty() {
            let is_full = self.front.len() + self.back.len() >= bounds.buffers;
            if self.file.is_some() {
                let n = self.write(bytes, bounds, tally);
                if n > 0 {
                    bytes = &bytes[n..];
                    continue;
                }
            } else if is_full && self.spare(bounds) == 0 && self.open(bounds, tally) {
                continue;
            }
            if self.spare(bounds) == 0 {
                let mut buffer = self.free.pop().unwrap_or_default();
                if buffer.try_reserve_exact(bounds.buffer_bytes).is_err() {
                    return false;
                }
                self.tail().push_back(buffer);
            }
            let n = bytes.len().min(self.spare(bounds));
            let Some(buffer) = self.tail().back_mut() else { return false };
            buffer.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
        }
        true
    }

    /// Sends once, of what is first. `piece` is scratch.
    pub(super) fn send_once(&mut self, io: &mut impl Io, piece: &mut Vec<u8>, counters: &mut Counters) -> Sent {
        let sent = match (self.front.front(), &self.file) {
            (Some(first), _) => io.send(&first[self.sent..], self.front.get(1).map_or(&[][..], |second| second)),
            (None, Some(spill)) => io.send_file(b"", &spill.fd, spill.from, spill.to, piece),
            (None, None) => return Sent::Blocked,
        };
        match sent {
            Ok(n) => {
                counters.send += 1;
                counters.bytes_out += n as u64;
                self.advance(n);
                Sent::Some { of_head: 0 }
            }
            Err(Errno::INTR) => Sent::Some { of_head: 0 },
            Err(Errno::AGAIN) => Sent::Blocked,
            Err(_) => {
                counters.send_error += 1;
                Sent::Failed
            }
        }
    }

    fn advance(&mut self, mut n: usize) {
        while let Some(first) = self.front.front() {
            let left = first.len() - self.sent;
            if n < left {
                self.sent += n;
                return;
            }
            n -= left;
            self.sent = 0;
            if let Some(mut sent) = self.front.pop_front() {
                sent.clear();
                self.free.push(sent);
            }
            if n == 0 {
                break;
            }
        }
        if let Some(spill) = &mut self.file {
            spill.from += n as u64;
            if spill.from >= spill.to {
                // Closed, and so gone from the disk: the next spill, if there is one, begins anew.
                self.file = None;
                self.front.append(&mut self.back);
            }
        }
        if self.front.is_empty() {
            self.front = VecDeque::new();
        }
        if self.is_empty() {
            // A connection with nothing pending holds no memory for it.
            self.free = Vec::new();
        }
    }

    fn tail(&mut self) -> &mut VecDeque<Vec<u8>> {
        if self.file.is_some() { &mut self.back } else { &mut self.front }
    }

    /// Room left in the last buffer.
    fn spare(&mut self, bounds: &Bounds) -> usize {
        self.tail().back().map_or(0, |buffer| bounds.buffer_bytes.saturating_sub(buffer.len()))
    }

    fn open(&mut self, bounds: &Bounds, tally: &mut ProxyCounters) -> bool {
        if bounds.temp_bytes_max == 0 || self.fileless {
            return false;
        }
        match temp_file(&bounds.temp_dir) {
            Ok(fd) => {
                self.file = Some(Spill { fd, from: 0, to: 0 });
                true
            }
            Err(_) => {
                tally.temp_errors += 1;
                self.fileless = true;
                false
            }
        }
    }

    /// Writes what fits, or as much as the disk takes; none when the file is full.
    fn write(&mut self, bytes: &[u8], bounds: &Bounds, tally: &mut ProxyCounters) -> usize {
        let Some(spill) = &mut self.file else { return 0 };
        let room = bounds.temp_bytes_max.saturating_sub(spill.to);
        let most = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if most == 0 || self.fileless || !self.back.is_empty() {
            return 0;
        }
        let mut n = 0;
        while n < most {
            match pwrite(&spill.fd, &bytes[n..most], spill.to) {
                Ok(0) => break,
                Ok(written) => {
                    n += written;
                    spill.to += written as u64;
                    tally.temp_bytes += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(_) => {
                    tally.temp_errors += 1;
                    self.fileless = true;
                    break;
                }
            }
        }
        if spill.to == 0 {
            self.file = None;
        }
        n
    }
}

/// A file without a name in `dir`: it is gone with its descriptor, however the process ends.
pub(super) fn temp_file(dir: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match openat(CWD, dir, flags | OFlags::TMPFILE, mode) {
        // Filesystems without it (overlay, some network ones), and kernels that take it for a folder.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOSYS) => {}
        other => return other,
    }
    let mut number = crate::clock::monotonic_ns();
    loop {
        let path = dir.join(format!(".plimsoll-{}-{number:x}", std::process::id()));
        match openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(fd) => {
                unlink(&path)?;
                ftruncate(&fd, 0)?;
                return Ok(fd);
            }
            Err(Errno::EXIST) => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Received;
    use std::net::IpAddr;

    /// Takes `room` bytes, then blocks.
    struct Taker {
        room: usize,
        taken: Vec<u8>,
        socket: std::fs::File,
    }

    impl Io for Taker {
        fn recv(&mut self, _buffer: &mut [u8], _thorough: bool) -> rustix::io::Result<Received> {
            Err(Errno::AGAIN)
        }

        fn send(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize> {
            let both = [head, body].concat();
            let n = both.len().min(self.room);
            self.taken.extend_from_slice(&both[..n]);
            self.room -= n;
            if n == 0 { Err(Errno::AGAIN) } else { Ok(n) }
        }

        fn send_file(
            &mut self,
            head: &[u8],
            file: &OwnedFd,
            from: u64,
            to: u64,
            piece: &mut Vec<u8>,
        ) -> rustix::io::Result<usize> {
            piece.resize((to - from) as usize, 0);
            let n = rustix::io::pread(file, &mut piece[..], from)?;
            self.send(head, &piece[..n])
        }

        fn peer(&self) -> Option<IpAddr> {
            None
        }

        fn end(&mut self) {}

        fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
            std::os::fd::AsFd::as_fd(&self.socket)
        }
    }

    #[test]
    fn bytes_come_out_as_they_went_in_wherever_they_were_kept() {
        let folder = tempfile::tempdir().unwrap();
        let bounds = Bounds { buffers: 3, buffer_bytes: 10, temp_bytes_max: 25, temp_dir: folder.path().to_owned() };
        let (mut chain, mut tally, mut counters) = (Chain::default(), ProxyCounters::default(), Counters::default());
        let mut io = Taker { room: 0, taken: Vec::new(), socket: std::fs::File::open("/dev/null").unwrap() };
        let (mut pushed, mut piece) = (Vec::new(), Vec::new());
        let mut spilt = 0;
        for round in 0..2000_usize {
            let n = (round * 7 % 23).min(chain.room(&bounds));
            let bytes: Vec<u8> = (0..n).map(|at| (pushed.len() + at) as u8).collect();
            assert!(chain.push(&bytes, &bounds, &mut tally));
            pushed.extend_from_slice(&bytes);
            assert!(chain.front.len() + chain.back.len() <= 3, "never more buffers than allowed");
            let in_file = chain.file.as_ref().map_or(0, |spill| spill.to);
            assert!(in_file <= 25);
            spilt = spilt.max(in_file);
            io.room = round * 5 % 19;
            while !chain.is_empty() && chain.send_once(&mut io, &mut piece, &mut counters) != Sent::Blocked {}
        }
        io.room = 1000;
        while !chain.is_empty() {
            chain.send_once(&mut io, &mut piece, &mut counters);
        }
        assert!(io.taken == pushed && pushed.len() > 10_000);
        assert!(tally.temp_bytes > 0 && spilt == 25, "{tally:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_a_temp_file_the_room_ends() {
        let bounds = Bounds { buffers: 2, buffer_bytes: 8, temp_bytes_max: 0, temp_dir: PathBuf::new() };
        let (mut chain, mut tally) = (Chain::default(), ProxyCounters::default());
        assert_eq!(chain.room(&bounds), 16);
        assert!(chain.push(b"0123456789", &bounds, &mut tally));
        assert_eq!(chain.room(&bounds), 6);
        assert!(chain.push(b"beyond what fits", &bounds, &mut tally));
        assert_eq!(chain.room(&bounds), 6, "the rest of the buffer that was taken beyond");
        assert_eq!(tally, ProxyCounters::default());
    }
}
