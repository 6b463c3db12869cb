//! Where something is missing, the rest works and what is missing says why: no rights, no PSI, no BTF, a container's
//! masked `/proc`, `hidepid`, an id that is used again. Each is made for real, in namespaces of the test's own.

use crate::common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::wait_until;

/// Where anybody may start the program; the folder goes with it.
struct ForAnybody {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

fn for_anybody() -> ForAnybody {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open.clone()).unwrap();
    let program = folder.path().join("plimsoll");
    testkit::process::copy_program(Path::new(BIN), &program).unwrap();
    std::fs::set_permissions(&program, open).unwrap();
    ForAnybody { _folder: folder, program }
}

/// The words that make a command nobody's, without any capability to be had.
const NOBODY: [&str; 6] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"];

fn can_run(programs: &[&str]) -> bool {
    let missing: Vec<&&str> = programs.iter().filter(|name| testkit::program(name).is_none()).collect();
    if testkit::is_root() && missing.is_empty() {
        return true;
    }
    testkit::skip(&format!("needs root, and {programs:?}"));
    false
}

fn as_nobody(program: &Path, args: &[&str]) -> Run {
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg("--").arg(program).args(args).current_dir("/").env("LANG", "C.UTF-8");
    finish(&mut command)
}

/// A script in a mount namespace of its own; `{bin}` stands for the program.
fn in_own_mounts(script: &str, more: &[&str]) -> Run {
    let script = script.replace("{bin}", BIN);
    finish(Command::new("unshare").arg("--mount").args(more).args(["--", "sh", "-ec", &script]))
}

fn status<'d>(document: &'d Value, name: &str) -> &'d Value {
    let samplers = document["samplers"].as_array().unwrap();
    samplers.iter().find(|sampler| sampler["name"] == name).unwrap_or_else(|| panic!("{name}: {document}"))
}

fn state_and_reason<'d>(document: &'d Value, name: &str) -> (&'d str, &'d str) {
    let of = status(document, name);
    (of["status"].as_str().unwrap(), of["reason"].as_str().unwrap())
}

#[test]
fn all_samplers_are_listed_with_what_they_need_and_whether_they_work() {
    let run = plimsoll(&["watch", "--list", "--json"]);
    run.assert_exit(0);
    let document = run.json();
    assert_eq!(document["schema"], "plimsoll.samplers/1");
    let samplers = document["samplers"].as_array().unwrap();
    for sampler in samplers {
        let is_said = |field: &str| sampler[field].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_said("about") && is_said("needs") && is_said("cost"), "{sampler}");
        assert!(sampler["status"] == "active" || is_said("reason"), "{sampler}");
    }
    for name in ["process/threads", "host/cpu", "network/counters", "network/connections"] {
        assert_eq!(status(&document, name)["status"], "active", "{document}");
    }
    let text = plimsoll(&["watch", "--list"]);
    text.assert_exit(0);
    assert!(samplers.iter().all(|s| text.stdout.contains(s["name"].as_str().unwrap())), "{}", text.stdout);
    plimsoll(&["watch", "--list", "--pid", "1"]).assert_exit(2);
}

#[test]
fn nobody_without_capabilities_sees_what_anybody_may_see_and_is_told_what_the_rest_wants() {
    if !can_run(&["setpriv"]) {
        return;
    }
    let server = serve_http(&[]);
    let pid = server.process.pid().to_string();
    let anybody = for_anybody();
    let watch = as_nobody(&anybody.program, &["watch", "--pid", &pid, "-d", "400ms", "--tick", "100ms", "--json"]);
    watch.assert_exit(0);
    let load = ["load", &server.url, "-c", "2", "-d", "1s", "--json", "--no-record", "-q", "--observe", "full"];
    let load = as_nobody(&anybody.program, &load);
    for document in [watch.json(), load.json()] {
        for name in ["host/cpu", "host/memory", "host/vmstat", "network/counters"] {
            assert_eq!(status(&document, name)["status"], "active", "{document}");
        }
        for sampler in document["samplers"].as_array().unwrap().iter().filter(|s| s["status"] == "failed") {
            let reason = sampler["reason"].as_str().unwrap();
            assert!(reason.contains("CAP_"), "{sampler}");
        }
    }
    let watched = watch.json();
    assert_eq!(watched["observed"]["target"][0]["pid"].to_string(), pid);
    for name in ["process/stands", "process/files", "process/io", "network/listeners"] {
        let (state, reason) = state_and_reason(&watched, name);
        assert!(state == "failed" && reason.contains("CAP_SYS_PTRACE"), "{name}: {reason}");
    }
    let loaded = load.json();
    assert!(loaded["totals"]["ok"].as_u64().unwrap() > 0);
    let (state, reason) = state_and_reason(&loaded, "process/target");
    assert!(state != "active" && reason.contains("CAP_SYS_PTRACE"), "{reason}");
}

#[test]
fn a_kernel_without_pressure_or_btf_and_a_masked_proc_lose_only_what_is_masked() {
    if !can_run(&["unshare"]) {
        return;
    }
    // As a kernel without CONFIG_PSI and CONFIG_DEBUG_INFO_BTF shows itself, and as containers mask files.
    let masks = "
        if [ -d /proc/pressure ]; then mount -t tmpfs none /proc/pressure; fi
        if [ -d /sys/kernel/btf ]; then mount -t tmpfs none /sys/kernel/btf; fi
        mount --bind /dev/null /proc/diskstats
        mount --bind /dev/null /proc/vmstat
        exec {bin} watch --list --json";
    let run = in_own_mounts(masks, &[]);
    if run.status != Some(0) && run.stdout.is_empty() {
        return testkit::skip(&format!("these mounts cannot be made here: {}", run.stderr));
    }
    let document = run.json();
    let (state, reason) = state_and_reason(&document, "host/pressure");
    assert!(state == "disabled" && reason.contains("CONFIG_PSI"), "{reason}");
    let (state, reason) = state_and_reason(&document, "host/vmstat");
    assert!(state == "failed" && reason.contains("/proc/vmstat"), "{reason}");
    if document["samplers"].as_array().unwrap().iter().any(|s| s["name"] == "bpf/lifecycle") {
        let (state, reason) = state_and_reason(&document, "bpf/lifecycle");
        assert!(state == "disabled" && reason.to_lowercase().contains("btf"), "{reason}");
    }
    for name in ["host/cpu", "host/memory", "process/threads", "process/cgroup", "network/counters"] {
        assert_eq!(status(&document, name)["status"], "active", "{document}");
    }
}

#[test]
fn without_control_groups_mounted_the_rest_is_read() {
    if !can_run(&["unshare", "umount"]) {
        return;
    }
    let run = in_own_mounts("mount -t tmpfs none /sys/fs/cgroup\nexec {bin} watch --list --json", &[]);
    let document = run.json();
    // The mounts below are hidden, their lines in mountinfo are not.
    let (state, reason) = state_and_reason(&document, "process/cgroup");
    assert!(state == "disabled" && reason.contains("control group"), "{state}: {reason}");
    assert_eq!(status(&document, "host/cpu")["status"], "active");
}

#[test]
fn where_only_version_2_of_control_groups_is_mounted_its_account_is_read() {
    if !can_run(&["unshare"]) {
        return;
    }
    let script = "
        umount -R /sys/fs/cgroup
        mount -t tmpfs none /sys/fs/cgroup
        mkdir /sys/fs/cgroup/u && mount -t cgroup2 none /sys/fs/cgroup/u
        group=/sys/fs/cgroup/u/plimsoll-test-$$
        mkdir $group
        sh -c 'while :; do :; done' & pid=$!
        echo $pid > $group/cgroup.procs
        {bin} watch --pid $pid -d 600ms --tick 100ms --json && status=0 || status=$?
        kill $pid; wait $pid 2>/dev/null || true
        rmdir $group
        exit $status";
    let run = in_own_mounts(script, &[]);
    if run.stdout.is_empty() {
        return testkit::skip(&format!("version 2 cannot be mounted alone here: {}", run.stderr));
    }
    run.assert_exit(0);
    let document = run.json();
    assert_eq!(status(&document, "process/cgroup")["status"], "active", "{}", status(&document, "process/cgroup"));
    let usage = &document["observed"]["target"][0]["metrics"]["cgroup_cpu_usage_ns"];
    assert!(usage["delta"].as_i64().unwrap() > 0, "{usage}");
}

#[test]
fn with_hidepid_what_is_hidden_is_said_to_be_hidden_and_ones_own_is_seen() {
    if !can_run(&["unshare", "setpriv", "mount"]) {
        return;
    }
    let anybody = for_anybody();
    let program = anybody.program.display();
    let nobody = NOBODY.join(" ");
    let script = format!(
        "mount -t proc -o hidepid=2 proc /proc
         cd /
         sleep 600 & hidden=$!
         setpriv {nobody} -- sleep 600 & own=$!
         until grep -q '^Uid:.65534' /proc/$own/status && grep -q '^sleep' /proc/$own/comm; do sleep 0.05; done
         setpriv {nobody} -- {program} watch --pid $own -d 300ms --tick 100ms --json
         kill $own
         setpriv {nobody} -- {program} watch --pid $hidden -d 300ms --json && status=0 || status=$?
         kill $hidden
         exit $status"
    );
    let run = in_own_mounts(&script, &[]);
    if run.stdout.is_empty() && run.stderr.contains("mount") {
        return testkit::skip(&format!("/proc cannot be mounted with hidepid here: {}", run.stderr));
    }
    run.assert_exit(1);
    assert!(run.stderr.contains("hidepid") && !run.stderr.contains("there is no process"), "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["observed"]["target"][0]["name"], "sleep", "{}", run.stderr);
    assert_eq!(status(&document, "process/threads")["status"], "active");
    assert_eq!(status(&document, "host/cpu")["status"], "active");
}

#[test]
fn an_id_that_is_used_again_is_not_taken_for_the_target() {
    if !can_run(&["unshare"]) {
        return;
    }
    // In a pid namespace the next id can be chosen: another process gets that of the target between two readings.
    let script = "
        echo 900 > /proc/sys/kernel/ns_last_pid
        sleep 600 & first=$!
        {bin} watch --pid $first -d 8s --tick 4s --json & watch=$!
        until grep -q '^SigCgt:.*[2367abef]$' /proc/$watch/status; do sleep 0.05; done
        sleep 1.5
        kill $first; wait $first 2>/dev/null || true
        echo $((first - 1)) > /proc/sys/kernel/ns_last_pid
        sleep 600 & second=$!
        echo \"$first $second\" >&2
        wait $watch
        kill $second";
    let run = in_own_mounts(script, &["--pid", "--fork", "--mount-proc"]);
    let ids: Vec<&str> =
        run.stderr.lines().find(|line| line.split(' ').count() == 2).unwrap_or("").split(' ').collect();
    if run.stdout.is_empty() || ids.len() != 2 || ids[0] != ids[1] {
        return testkit::skip(&format!("the next id cannot be chosen here: {}", run.stderr));
    }
    let document = run.json();
    let events: Vec<&str> =
        document["events"].as_array().unwrap().iter().filter_map(|event| event["kind"].as_str()).collect();
    assert!(events.contains(&"target-gone"), "{events:?}");
    let targets = document["observed"]["target"].as_array().unwrap();
    assert_eq!(targets.len(), 1, "{targets:?}");
    let snapshots = document["snapshots"].as_array().unwrap();
    let with_target = |s: &&Value| s["processes"].as_array().unwrap().iter().any(|p| p["role"] == "target");
    let starts: Vec<&Value> = snapshots.iter().filter(with_target).collect();
    assert!(!starts.is_empty() && starts.len() < snapshots.len(), "the second is not the first: {}", run.stdout);
}

#[test]
fn the_sources_agree_in_a_usual_run() {
    in_three(the_sources_agree);
}

fn the_sources_agree() {
    let server = serve_http(&[]);
    let observe = if testkit::is_root() { "light" } else { "none" };
    let load = ["load", &server.url, "-c", "8", "-d", "4s", "--json", "--no-record", "-q", "--observe", observe];
    let document = plimsoll(&load).json();
    assert_eq!(document["observed"]["disagreements"], serde_json::json!([]));
}

/// A memory group of the test's own, gone when dropped.
struct Group(PathBuf);

impl Group {
    fn new(bytes: &str) -> Option<Self> {
        let group = Group(format!("/sys/fs/cgroup/memory/plimsoll-cli-test-{}", std::process::id()).into());
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join("memory.limit_in_bytes"), bytes).ok()?;
        let has_no_swap = std::fs::write(group.0.join("memory.memsw.limit_in_bytes"), bytes).is_ok()
            || std::fs::read_to_string("/proc/swaps").ok()?.lines().count() == 1;
        has_no_swap.then_some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_until("the group's end", || std::fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

#[test]
fn a_server_that_dies_of_memory_is_told_by_the_timeline() {
    in_three(a_death_of_memory_is_told);
}

fn a_death_of_memory_is_told() {
    let group = if testkit::is_root() { Group::new("60000000") } else { None };
    let Some(group) = group else {
        return testkit::skip("a memory group needs root, cgroup version 1 and no swap");
    };
    let server = serve_http(&["--defect", "memory-leak=64KiB"]);
    std::fs::write(group.0.join("cgroup.procs"), server.process.pid().to_string()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.plimsoll");
    let file = file.to_str().unwrap();
    // Some 40 MB beyond what it has at first, in about two seconds.
    let load =
        ["load", &server.url, "-c", "2", "--rate", "300/s", "-d", "4s", "--tick", "200ms", "--record", file, "-q"];
    let run = plimsoll(&load);
    let shown = plimsoll(&["report", file, "--timeline"]);
    shown.assert_exit(0);
    drop(server);
    drop(group);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    let at = |word: &str| lines.iter().position(|line| line.contains(word));
    let gone = at("target-gone:").unwrap_or_else(|| panic!("{}\n{}", shown.stdout, run.stdout));
    if let Some(kill) = at("kernel-oom-kill:") {
        assert!(kill.abs_diff(gone) <= 10, "the kill and the end stand together:\n{}", shown.stdout);
        let signals = lines.iter().filter(|line| line.contains("took SIGKILL")).count();
        assert!(signals <= 1, "it is told once that the process was killed:\n{}", shown.stdout);
    } else if std::fs::File::open("/dev/kmsg").is_ok() {
        panic!("no kill in the timeline:\n{}", shown.stdout);
    }
    // Memory rises to its limit, and afterwards there is no process.
    let memory = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let unit = words.iter().position(|word| *word == "MiB")?;
        words.get(unit.checked_sub(1)?)?.parse::<f64>().ok()
    };
    let before: Vec<f64> = lines[1..gone].iter().filter_map(|line| memory(line)).collect();
    let first = before.first().copied().unwrap_or_default();
    let most = before.iter().copied().fold(0.0, f64::max);
    // What is of no group's account, as its program's file, is resident too.
    assert!(most > first + 15.0 && most < 120.0, "{before:?}\n{}", shown.stdout);
    let last = lines.iter().rev().find(|line| !line.contains(':')).unwrap();
    assert!(memory(last).is_none(), "{last}");
}
