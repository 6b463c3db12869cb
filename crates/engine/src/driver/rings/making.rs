//! How a socket comes into a ring's table: made, bound and connected inside the ring, as linked operations.
//!
//! Binding inside a ring is younger (Linux 6.11) than the rest; where it is missing the socket is made by system calls
//! and moved into the table.

use super::{Op, Rings, key};
use crate::driver::Slot;
use crate::driver::socket::bind_to;
use io_uring::types::DestinationSlot;
use io_uring::{opcode, squeue};
use socket2::{Socket, Type};
use std::io;
use std::os::fd::AsRawFd;

/// How a socket gets into a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Making {
    /// Made and bound inside the ring (Linux 6.11).
    InRing,
    /// Made by system calls, put into the table, its descriptor closed again.
    BySystemCalls,
}

/// What a socket option's "on" is, for as long as any ring lives.
static ON: libc::c_int = 1;

impl Rings {
    /// The making of a socket as linked entries, the connect last: what fails first says why, the rest is cancelled.
    pub(super) fn start_connect(&mut self, slot: Slot, address: usize) -> io::Result<()> {
        let file = self.file(slot);
        let generation = self.entries[slot as usize].generation;
        let prepare = key(Op::Prepare, slot, generation);
        let target = &self.addresses[address];
        let source = self.sources.of_slot(slot, target);
        let connect = opcode::Connect::new(file, target.as_ptr().cast(), target.len()).build().user_data(key(
            Op::Connect,
            slot,
            generation,
        ));
        let linked = squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
        let mut chain = Vec::with_capacity(5);
        if self.making == Making::InRing {
            let destination = DestinationSlot::try_from_slot_target(file.0).map_err(|_| io::ErrorKind::InvalidInput)?;
            let kind = libc::SOCK_STREAM;
            let socket = opcode::Socket::new(libc::c_int::from(target.family()), kind, 0).file_index(Some(destination));
            chain.push(socket.build().flags(linked).user_data(prepare));
            if let Some(source) = source {
                let on = (&raw const ON).cast();
                let length = size_of_val(&ON) as u32;
                let (level, name) = (libc::IPPROTO_IP as u32, libc::IP_BIND_ADDRESS_NO_PORT as u32);
                let late = opcode::SetSockOpt::new(file, level, name, on, length);
                chain.push(late.build().flags(linked).user_data(prepare));
                let bind = opcode::Bind::new(file, source.as_ptr().cast(), source.len());
                chain.push(bind.build().flags(linked).user_data(prepare));
            }
        } else {
            let socket = Socket::new(target.domain(), Type::STREAM.cloexec(), None)?;
            if let Some(source) = source {
                bind_to(&socket, source)?;
            }
            self.rings[self.ring_of(slot)].put_file(file.0, socket.as_raw_fd())?;
        }
        chain.push(connect);
        self.push(slot, &chain);
        Ok(())
    }
}

impl Making {
    pub(super) fn of_this_kernel() -> Self {
        let probed = crate::driver::uring::build(8, 16).and_then(|ring| {
            let mut probe = io_uring::register::Probe::new();
            ring.submitter().register_probe(&mut probe)?;
            Ok(probe.is_supported(opcode::Bind::CODE))
        });
        if probed.unwrap_or(false) { Making::InRing } else { Making::BySystemCalls }
    }
}
