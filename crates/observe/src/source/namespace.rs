//! Work done in another process's network namespace, on a thread of its own that ends with it.
//!
//! Files of `/proc/<pid>/net` follow the process by themselves; a socket belongs to the namespace of the thread that
//! made it (network_namespaces(7)). This process's own threads stay where they are. Entering needs CAP_SYS_ADMIN, and
//! to see which namespace another user's process is in, CAP_SYS_PTRACE.

use super::proc::SampleError;
use rustix::fs::{CWD, Mode, OFlags, open, readlinkat};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;

/// Does the work in the network namespace of a process; `None`: this one's own.
pub(crate) fn in_network_of<T: Send>(pid: Option<u32>, work: impl FnOnce() -> T + Send) -> Result<T, SampleError> {
    let Some(pid) = pid else { return Ok(work()) };
    let path = format!("/proc/{pid}/ns/net");
    let link = readlinkat(CWD, &path, Vec::new()).map_err(|error| SampleError::of(&path, error.into()))?;
    let own = readlinkat(CWD, "/proc/self/ns/net", Vec::new());
    if own.is_ok_and(|own| own == link) {
        return Ok(work());
    }
    let namespace = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| SampleError::of(&path, error.into()))?;
    let entered = std::thread::scope(|scope| {
        let there = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        match std::thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, there) {
            Ok(thread) => thread.join().unwrap_or(Err(rustix::io::Errno::INVAL)),
            Err(_) => Err(rustix::io::Errno::AGAIN),
        }
    });
    entered.map_err(|error| SampleError::Refused {
        reason: format!(
            "the network namespace of process {pid} cannot be entered ({error}): run as root, or give plimsoll \
             CAP_SYS_ADMIN"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_own_namespace_nothing_is_entered() {
        let here = std::thread::current().id();
        assert_eq!(in_network_of(None, || std::thread::current().id()).unwrap(), here);
        assert_eq!(in_network_of(Some(std::process::id()), || std::thread::current().id()).unwrap(), here);
        assert!(in_network_of(Some(4_194_304), || ()).unwrap_err().is_gone());
    }
}
