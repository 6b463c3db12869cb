//! What tests of several crates share: real opponents, capability probes, parts of recordings, guards that end what a test started.
//!
//! For tests only. A probe that fails prints why before a test is skipped; in CI, where everything is installed and
//! the user is root, `PLIMSOLL_TEST_NO_SKIP=1` turns every skip into a failure.

pub mod certificates;
pub mod family;
pub mod guest;
pub mod nats;
pub mod network;
pub mod nginx;
pub mod port;
pub mod process;
pub mod recordings;
pub mod redis;
pub mod seccomp;
mod wait;
pub mod websocket;

pub use wait::{HANG_GUARD, wait_for, wait_for_or_show, wait_until};

use std::path::{Path, PathBuf};

/// Says why a test cannot run here. Panics instead where skipping is not allowed (CI).
///
/// # Panics
/// Where `PLIMSOLL_TEST_NO_SKIP` is set.
#[expect(clippy::print_stdout, reason = "the reason is the point")]
pub fn skip(why: &str) {
    assert!(std::env::var_os("PLIMSOLL_TEST_NO_SKIP").is_none(), "not to be skipped here, but: {why}");
    println!("skipped: {why}");
}

/// Whether the test runs as root.
pub fn is_root() -> bool {
    // SAFETY: takes nothing, touches no memory.
    unsafe { libc::geteuid() == 0 }
}

/// A program of this name on the path or in the system folders.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The workspace's root folder.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"))
}
