//! Which remedies can be set from outside, and what they are set to where nothing else is said. Each is a fault ([`fault`]),
//! as it is something that is changed and undone.

use fault::Asked;
use std::path::Path;

/// Connections that may wait for accept, with the remedy of a queue that overflows: the kernel's default since 5.4.
const BACKLOG: &str = "backlog tree:target 4096";
/// The most that the kernel lets wait, where that is less: it is read when a server begins to listen.
const SOMAXCONN: &str = "sysctl net.core.somaxconn 4096";
const SOMAXCONN_NOW: &str = "/proc/sys/net/core/somaxconn";
const SOMAXCONN_DEFAULT: u32 = 4096;
/// As many descriptors as a server's hard limit allows, or far more than that where it is hardly more than what it has.
const DESCRIPTORS: &str = "descriptors tree:target more";
/// Small writes that wait for no acknowledgement.
const NODELAY: &str = "nodelay tree:target on";
/// The niceness that a starved server is given.
const NICE: &str = "nice tree:target -10";

/// The remedy of a finding that can be set from outside; else why there is none.
///
/// # Errors
/// A sentence that says what must be named.
pub fn remedy_of(finding: &str, pid: Option<u32>) -> Result<Asked, String> {
    let parsed = |text: &str| Asked::parse(text).map_err(|error| error.to_string());
    match finding {
        "fd-exhaustion" => parsed(DESCRIPTORS),
        // Of one that is started for each run, what the kernel allows may be what its own number is cut down to.
        "accept-queue-overflow" if pid.is_none() && allowed().is_some_and(|most| most < SOMAXCONN_DEFAULT) => {
            parsed(SOMAXCONN)
        }
        "accept-queue-overflow" => parsed(BACKLOG),
        "cpu-contention" => parsed(NICE),
        "nagle-delayed-ack" => parsed(NODELAY),
        "cpu-throttled" => {
            let pid = pid.ok_or(
                "the server's process is not known: name it with --pid, or its group's limit with --cpu-limit",
            )?;
            let (file, value) = cpu_limit_of(pid).ok_or_else(|| {
                format!("no CPU limit of the control group of process {pid} is to be seen: name it with --cpu-limit")
            })?;
            let words = ["cpu-limit".to_owned(), file, value.to_owned()];
            Asked::of_words(&words).map_err(|error| error.to_string())
        }
        other => Err(format!(
            "the remedy of {other} cannot be set from outside by itself: say how with --with COMMAND --without COMMAND, or name what to toggle (--sysctl, --descriptors, --nice, --stop, --cpu-limit)"
        )),
    }
}

/// How many connections the kernel lets wait at the most.
fn allowed() -> Option<u32> {
    std::fs::read_to_string(SOMAXCONN_NOW).ok()?.trim().parse().ok()
}

/// Whether a server reads what is changed only when it begins to listen.
pub fn is_read_at_start(remedy: &Asked) -> bool {
    remedy.text().starts_with("sysctl net.core.somaxconn ")
}

/// A remedy in words, with the process that it is made for.
pub(super) fn words(remedy: &Asked, pid: Option<u32>) -> String {
    match pid.filter(|_| remedy.is_of_target()) {
        Some(pid) => format!("{} (process {pid})", remedy.text()),
        None => remedy.text(),
    }
}

/// The file of a process's CPU limit and the value that is none: of cgroups(7) version 2, or 1.
pub fn cpu_limit_of(pid: u32) -> Option<(String, &'static str)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        let group = group.trim_end_matches('/');
        let candidates: Vec<(String, &'static str)> = if controllers.is_empty() {
            ["", "/unified"].map(|root| (format!("/sys/fs/cgroup{root}{group}/cpu.max"), "max")).into()
        } else if controllers.split(',').any(|name| name == "cpu") {
            [controllers, "cpu"].map(|root| (format!("/sys/fs/cgroup/{root}{group}/cpu.cfs_quota_us"), "-1")).into()
        } else {
            Vec::new()
        };
        candidates.into_iter().find(|(file, _)| Path::new(file).exists())
    })
}
