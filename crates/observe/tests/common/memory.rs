//! A memory control group of a test's own, of version 1 or 2, with a limit; removed when dropped.

use std::path::{Path, PathBuf};

pub struct Group(PathBuf);

impl Group {
    /// None where this machine has no memory controller that can be used.
    pub fn new(name: &str, limit_bytes: u64) -> Option<Self> {
        let name = format!("plimsoll-test-{name}-{}", std::process::id());
        let (root, limit) = match Path::new("/sys/fs/cgroup/memory") {
            first if first.is_dir() => (first, "memory.limit_in_bytes"),
            _ => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let group = Group(root.join(name));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join(limit), limit_bytes.to_string()).ok()?;
        // Not every machine has swap, or counts it.
        let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
        Some(group)
    }

    /// The file that takes the id of a process which is to be in it.
    pub fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
