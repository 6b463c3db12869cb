//! Interrupts of this machine, moved and put back; governors and turbo of a machine that the test makes up, as guests have none:
//! in a mount namespace of its own, with files in the place of the kernel's. Needs root.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use fault::faults::Nobody;
use fault::{ApplyError, Asked, Begun, Deed};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn deeds(text: &str) -> Result<Vec<Deed>, ApplyError> {
    Asked::parse(text).unwrap().plan(&Nobody)
}

/// Interrupts, each with the CPUs that may take it.
fn placed() -> BTreeMap<u32, String> {
    let folders = std::fs::read_dir("/proc/irq").into_iter().flatten().flatten();
    let all = folders.filter_map(|folder| {
        let cpus = std::fs::read_to_string(folder.path().join("smp_affinity_list")).ok()?;
        Some((folder.file_name().to_str()?.parse().ok()?, cpus.trim().to_owned()))
    });
    all.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

#[test]
fn interrupts_are_moved_and_put_back() {
    let before = placed();
    let is_on_one = |placed: &BTreeMap<u32, String>| placed.values().filter(|cpus| *cpus == "0").count();
    let deeds = match deeds("interrupts 0") {
        Ok(deeds) if deeds.iter().all(|deed| deed.may().is_ok()) && is_on_one(&before) < before.len() => deeds,
        refused => return testkit::skip(&format!("there is no interrupt here that may be moved: {refused:?}")),
    };
    let folder = tempfile::tempdir().unwrap();
    let begun = match Begun::make(folder.path(), deeds, &mut |_| {}) {
        Ok(begun) => begun,
        // A machine whose drivers have placed all of them.
        Err(ApplyError::NotTaken { reason, .. }) => {
            return testkit::skip(&format!("no interrupt here can be moved: {reason}"));
        }
        Err(error) => panic!("{error}"),
    };
    assert!(is_on_one(&placed()) > is_on_one(&before), "{before:?} {:?}", placed());
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("interrupt"), "{said}");
    assert_eq!(placed(), before);
}

/// Runs a test of this file again in a mount namespace in which a machine shows cpufreq; whether it did.
fn on_a_machine_with_cpufreq(test: &str) -> bool {
    if std::env::var_os("PLIMSOLL_CPUFREQ").is_some() {
        return true;
    }
    const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";
    if !testkit::is_root() || testkit::program("unshare").is_none() || !Path::new(FOLDER).is_dir() {
        testkit::skip(
            "a mount namespace needs root and unshare (util-linux), and files for cpufreq a kernel with a folder for them",
        );
        return false;
    }
    let script = format!(
        "mount -t tmpfs none {FOLDER} && cd {FOLDER} && mkdir policy0 policy2 && echo powersave >policy0/scaling_governor \
         && echo schedutil >policy2/scaling_governor && echo 1 >boost && exec \"$@\""
    );
    let mut again = Command::new("unshare");
    again.args(["--mount", "sh", "-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env("PLIMSOLL_CPUFREQ", "1").process_group(0);
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    false
}

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/cpufreq/{file}")).unwrap().trim().to_owned()
}

#[test]
fn each_policy_gets_its_own_governor_back() {
    if !on_a_machine_with_cpufreq("each_policy_gets_its_own_governor_back") {
        return;
    }
    let governors = || [read("policy0/scaling_governor"), read("policy2/scaling_governor")];
    let folder = tempfile::tempdir().unwrap();
    let make = |text: &str| Begun::make(folder.path(), deeds(text).unwrap(), &mut |_| {}).unwrap();
    let begun = make("governor performance");
    assert_eq!(governors(), ["performance", "performance"]);
    // Of what is so already there is nothing to do.
    assert!(make("governor performance").is_over());
    assert!(begun.end().unwrap().join("; ").contains("powersave or schedutil again"));
    assert_eq!(governors(), ["powersave", "schedutil"]);
    // Of one that somebody else has set meanwhile, and of half of it that was done.
    let begun = make("governor performance");
    std::fs::write("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave").unwrap();
    begun.end().unwrap();
    assert_eq!(governors(), ["powersave", "schedutil"]);
    let begun = make("governor performance");
    std::fs::write("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "ondemand").unwrap();
    let error = begun.end().unwrap_err().to_string();
    assert!(error.contains("somebody else has changed it to ondemand"), "{error}");
}

#[test]
fn turbo_is_that_of_the_driver_there_is() {
    if !on_a_machine_with_cpufreq("turbo_is_that_of_the_driver_there_is") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let make = |text: &str| Begun::make(folder.path(), deeds(text).unwrap(), &mut |_| {}).unwrap();
    let begun = make("turbo off");
    assert_eq!(read("boost"), "0");
    begun.end().unwrap();
    assert_eq!(read("boost"), "1");
    assert!(make("turbo on").is_over());
}

#[test]
fn what_a_machine_does_not_show_is_said() {
    let is_shown = |file: &str| Path::new("/sys/devices/system/cpu").join(file).exists();
    if is_shown("cpufreq/boost") || is_shown("intel_pstate/no_turbo") {
        return testkit::skip("this machine shows what it does not show elsewhere");
    }
    let error = deeds("turbo off").unwrap_err().to_string();
    assert!(error.contains("expected a machine that shows turbo or boost, but this one does not"), "{error}");
}
