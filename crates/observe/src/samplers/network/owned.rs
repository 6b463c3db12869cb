//! Whether sockets are the target's: which of its processes' descriptors they are, looked for only where one is new.

use crate::limits::DESCRIPTORS_OFTEN_MAX;
use crate::source::proc::SampleError;
use crate::target::sockets_of;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the sockets of the last look.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// Whether each is the target's, by inode.
    known: BTreeMap<u64, bool>,
    /// The processes for which that holds, by id and start.
    of: Vec<(u32, u64)>,
}

impl Owned {
    /// Looks whose these are; `is_all`: what is not among them is no more. Returns whether some of the descriptors were not looked at.
    pub(super) fn look(
        &mut self,
        pids: &[(u32, u64)],
        inodes: &BTreeSet<u64>,
        is_all: bool,
    ) -> Result<bool, SampleError> {
        if self.of != pids {
            self.known.clear();
        }
        if is_all {
            self.known.retain(|inode, _| inodes.contains(inode));
        }
        if inodes.iter().all(|inode| self.known.contains_key(inode)) {
            return Ok(false);
        }
        let owned = sockets_of(pids.iter().map(|(pid, _)| *pid), inodes, DESCRIPTORS_OFTEN_MAX)?;
        self.known.extend(inodes.iter().map(|inode| (*inode, owned.owners.contains_key(inode))));
        self.of = pids.to_vec();
        Ok(owned.is_cut)
    }

    /// Whether one of them is.
    pub(super) fn is_own(&self, inode: u64) -> bool {
        self.known.get(&inode) == Some(&true)
    }

    /// Whether any is.
    pub(super) fn has_any(&self) -> bool {
        self.known.values().any(|is_own| *is_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_not_among_a_part_of_them_is_known_still() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        // No socket has that number.
        let (pids, foreign) = ([(std::process::id(), 1)], u64::MAX);
        let mut owned = Owned::default();
        assert!(!owned.look(&pids, &[own, foreign].into(), true).unwrap());
        owned.look(&pids, &[foreign].into(), false).unwrap();
        assert!(owned.is_own(own) && !owned.is_own(foreign) && owned.has_any());
        owned.look(&pids, &[foreign].into(), true).unwrap();
        assert!(!owned.is_own(own), "it is no more");
    }
}
