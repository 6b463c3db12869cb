//! Which of some sockets an epoll instance watches at which a thread of the target waits, and whether by edge
//! (`tfd` lines of `/proc/<pid>/fdinfo/<descriptor>`, proc_pid_fdinfo(5)).
//!
//! So a socket with unread data is known as one whose event a sleeping thread would have to come back for. Instances are
//! those at which threads stand (`process/stands`), 64 threads a process; what nobody waits at is not looked at. A ring of
//! io_uring has no such lines. Cost: the kernel writes a line for each descriptor watched, and holds the instance's lock
//! meanwhile: so it is asked only where data has lain unread from one reading to the next, and of no more than 16 instances
//! of processes with 4,096 descriptors. For another user's process it needs CAP_SYS_PTRACE.

use crate::limits::{EPOLL_WATCHED_MAX, EPOLLS_MAX};
use crate::source::proc::{Buffers, words};
use model::Snapshot;
use model::snapshot::Role;
use std::collections::BTreeSet;

/// `EPOLLET` of linux/eventpoll.h.
const BY_EDGE: u32 = 1 << 31;

/// What was found of the sockets asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Watched {
    /// How many of them an instance watches at which a thread waits.
    pub(super) by_waiting: u64,
    /// Of those, how many by edge.
    pub(super) by_edge: u64,
}

/// Looks for sockets by their inodes; `None`: no thread of the target waits at an instance that can be read.
pub(super) fn watched(buffers: &mut Buffers, snapshot: &Snapshot, sockets: &BTreeSet<u64>) -> Option<Watched> {
    let mut found = Found::default();
    let mut is_any_read = false;
    for (pid, descriptor) in instances(snapshot) {
        // One that was closed meanwhile, or is another's to see, is not looked at.
        if let Ok(text) = buffers.read(format_args!("/proc/{pid}/fdinfo/{descriptor}")) {
            is_any_read = true;
            found.take(text, sockets);
        }
    }
    is_any_read.then_some(Watched { by_waiting: found.all.len() as u64, by_edge: found.by_edge.len() as u64 })
}

/// The instances at which threads of the target wait, each once.
fn instances(snapshot: &Snapshot) -> BTreeSet<(u32, u32)> {
    let small = |descriptors: Option<u64>| descriptors.is_none_or(|descriptors| descriptors <= EPOLL_WATCHED_MAX);
    let targets = snapshot.processes.iter().filter(|p| p.role == Role::Target && small(p.descriptors));
    let stands = targets.flat_map(|p| p.threads.iter().filter_map(|thread| Some((p.pid, thread.stands.as_ref()?))));
    let waits = stands.filter(|(_, stands)| !stands.is_running && stands.at.as_deref() == Some("epoll"));
    waits.filter_map(|(pid, stands)| Some((pid, stands.descriptor?))).take(EPOLLS_MAX).collect()
}

#[derive(Debug, Default)]
struct Found {
    all: BTreeSet<u64>,
    by_edge: BTreeSet<u64>,
}

impl Found {
    /// Takes the lines of one instance.
    fn take(&mut self, fdinfo: &[u8], sockets: &BTreeSet<u64>) {
        for (inode, events) in fdinfo.split(|byte| *byte == b'\n').filter_map(entry) {
            if sockets.contains(&inode) {
                self.all.insert(inode);
                if events & BY_EDGE != 0 {
                    self.by_edge.insert(inode);
                }
            }
        }
    }
}

/// `tfd:  7 events: 80002001 data: 7  pos:0 ino:1f2e sdev:8`: inode and events.
fn entry(line: &[u8]) -> Option<(u64, u32)> {
    let mut words = words(line.strip_prefix(b"tfd:")?).map(|word| std::str::from_utf8(word).unwrap_or_default());
    let events = words.by_ref().skip_while(|word| *word != "events:").nth(1)?;
    let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
    Some((u64::from_str_radix(inode, 16).ok()?, u32::from_str_radix(events, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::snapshot::{Stands, ThreadSample};
    use rustix::event::epoll;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd};
    use testkit::recordings;

    fn waiting_at(descriptor: u32, is_running: bool) -> Snapshot {
        let at = Some("epoll".to_owned());
        let stands = Stands { descriptor: Some(descriptor), at, is_running, ..Stands::default() };
        let own_pid = std::process::id();
        let thread = ThreadSample { stands: Some(stands), ..recordings::thread(own_pid, "waits") };
        let process = recordings::process(Role::Target, own_pid, "waits", vec![thread]);
        Snapshot { processes: vec![process], ..Snapshot::default() }
    }

    #[test]
    fn sockets_are_found_in_a_real_instance_with_how_they_are_watched() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let inode = |socket: &dyn AsFd| rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        let instance = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for (client, flags) in clients.iter().zip([edge, epoll::EventFlags::IN]) {
            epoll::add(&instance, client, epoll::EventData::new_u64(7), flags).unwrap();
        }
        let sockets = clients.iter().map(|client| inode(client)).collect();
        let look = |snapshot: &Snapshot| watched(&mut Buffers::default(), snapshot, &sockets);
        let descriptor = u32::try_from(instance.as_raw_fd()).unwrap();
        assert_eq!(look(&waiting_at(descriptor, false)), Some(Watched { by_waiting: 2, by_edge: 1 }));
        assert_eq!(look(&waiting_at(descriptor, true)), None, "nobody waits there");
        let listening = u32::try_from(listener.as_raw_fd()).unwrap();
        assert_eq!(look(&waiting_at(listening, false)), Some(Watched::default()), "no instance has no lines");
        let mut many = waiting_at(descriptor, false);
        many.processes[0].descriptors = Some(EPOLL_WATCHED_MAX + 1);
        assert_eq!(look(&many), None, "its list would be long");
    }

    #[test]
    fn lines_of_other_forms_are_passed_over() {
        let line = b"tfd:       19 events: 80002001 data:        100000013  pos:0 ino:1f2e sdev:8";
        assert_eq!(entry(line), Some((0x1f2e, 0x8000_2001)));
        for other in
            [&b"pos:\t0"[..], b"", b"tfd:", b"tfd: 19 events: 1", b"tfd: 1 events: x ino:1", b"tfd: 1 events: 1 ino:z"]
        {
            assert_eq!(entry(other), None);
        }
    }
}
