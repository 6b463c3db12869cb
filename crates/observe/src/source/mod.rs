//! Where readings come from: files of `/proc`, clocks, netlink, and system calls without a safe wrapper.
//!
//! The only place of this crate where `unsafe` may stand.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod descriptors;
pub(crate) mod namespace;
pub(crate) mod own;
pub(crate) mod proc;
pub(crate) mod route;
pub(crate) mod schedule;
pub(crate) mod setting;
pub(crate) mod sockets;
pub(crate) mod stat;
