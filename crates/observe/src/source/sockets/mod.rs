//! Sockets as the kernel lists them, by netlink (sock_diag(7)): TCP's listeners and connections with what TCP knows of each, and
//! those of AF_UNIX.

pub(crate) mod sock_diag;
mod socket_filter;
pub(crate) mod tcp_info;
pub(crate) mod tcp_sockets;
pub(crate) mod unix_sockets;
pub(crate) mod walk;
