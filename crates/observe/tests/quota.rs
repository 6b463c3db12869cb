//! The generator's quota against a real control group: this process is put into one, so it has a test file of its own.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use observe::{ObserveSpec, Observer};
use std::path::{Path, PathBuf};

/// Leaves the group and removes it.
struct Group(PathBuf);

impl Group {
    /// A twentieth of a CPU, in version 1 or 2; `None`: neither can be made.
    fn new() -> Option<Self> {
        let name = format!("plimsoll-quota-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let v2 = Path::new("/sys/fs/cgroup");
        if v1.join("cpu.cfs_quota_us").exists() || v1.join("cpu.shares").exists() {
            let group = Group(v1.join(name));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join("cpu.cfs_period_us"), "100000").ok()?;
            std::fs::write(group.0.join("cpu.cfs_quota_us"), "5000").ok()?;
            return Some(group);
        }
        let controllers = std::fs::read_to_string(v2.join("cgroup.subtree_control")).ok()?;
        if !controllers.split_whitespace().any(|name| name == "cpu") {
            return None;
        }
        let group = Group(v2.join(name));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join("cpu.max"), "5000 100000").ok()?;
        Some(group)
    }

    fn enter(folder: &Path) -> bool {
        std::fs::write(folder.join("cgroup.procs"), std::process::id().to_string()).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.0.parent().map(Self::enter);
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_that_holds_this_process_is_read_with_how_it_held() {
    if !testkit::is_root() {
        return testkit::skip("control groups are made by root");
    }
    let Some(group) = Group::new() else { return testkit::skip("no group with a CPU quota can be made here") };
    if !Group::enter(&group.0) {
        return testkit::skip("this process may not be moved into the group");
    }
    let mut observer = Observer::new(ObserveSpec { own_pid: std::process::id(), ..ObserveSpec::default() });
    let first = observer.snapshot(0).generator_quota.expect("there is one");
    assert!((first.cpus - 0.05).abs() < 1e-9, "{first:?}");
    // However little others leave of the CPUs, a loop uses up a twentieth of one.
    let held = testkit::wait_for("its being held", || {
        for i in 0..1_000_000_u64 {
            std::hint::black_box(i);
        }
        observer.snapshot(1).generator_quota.filter(|quota| quota.throttled >= first.throttled + 3)
    });
    assert!(held.throttled_ns > first.throttled_ns, "{held:?}");
    drop(group);
    assert_eq!(observer.snapshot(2).generator_quota, None, "it has left the group");
}
