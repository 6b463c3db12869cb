//! Which remedies can be set from outside, and what they are set to where nothing else is said.

use fault::Live;
use model::check::Setting;
use std::path::Path;

/// Connections that may wait for accept, with the remedy of a queue that overflows: the kernel's default since 5.4.
const SOMAXCONN: &str = "4096";
/// The niceness that a starved server is given.
const NICE: i32 = -10;

/// A remedy that can be made and undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toggle {
    /// A kernel setting.
    Setting(Setting),
    /// Something of a process or control group, or two commands. The process of descriptors and niceness is the server's,
    /// whichever it is when they are set.
    Live(Live),
}

impl Toggle {
    /// Whether it is set on the server's process, and so after that was started.
    pub(super) fn is_of_process(&self) -> bool {
        matches!(self, Toggle::Live(Live::Descriptors { .. } | Live::Nice { .. }))
    }

    /// In words.
    pub(super) fn words(&self, pid: Option<u32>) -> String {
        let server = pid.map_or("the server".to_owned(), |pid| format!("process {pid}"));
        match self {
            Toggle::Setting(setting) => format!("{} = {}", setting.name, setting.value),
            Toggle::Live(Live::Descriptors { limit: Some(limit), .. }) => format!("{limit} descriptors for {server}"),
            Toggle::Live(Live::Descriptors { limit: None, .. }) => {
                format!("as many descriptors for {server} as its hard limit allows")
            }
            Toggle::Live(Live::Nice { nice, .. }) => format!("niceness {nice} for {server}"),
            Toggle::Live(Live::Stop { pid }) => format!("process {pid} stopped"),
            Toggle::Live(Live::CpuLimit { file, value }) => format!("{file} = {value}"),
            Toggle::Live(Live::Command { with, .. }) => format!("'{with}'"),
        }
    }
}

/// The remedy of a finding that can be set from outside; else why there is none.
///
/// # Errors
/// A sentence that says what must be named.
pub fn remedy_of(finding: &str, pid: Option<u32>) -> Result<Toggle, String> {
    match finding {
        "fd-exhaustion" => Ok(Toggle::Live(Live::Descriptors { pid: 0, limit: None })),
        "accept-queue-overflow" => {
            Ok(Toggle::Setting(Setting { name: "net.core.somaxconn".to_owned(), value: SOMAXCONN.to_owned() }))
        }
        "cpu-contention" => Ok(Toggle::Live(Live::Nice { pid: 0, nice: NICE })),
        "cpu-throttled" => {
            let pid = pid.ok_or(
                "the server's process is not known: name it with --pid, or its group's limit with --cpu-limit",
            )?;
            let (file, value) = cpu_limit_of(pid).ok_or_else(|| {
                format!("no CPU limit of the control group of process {pid} is to be seen: name it with --cpu-limit")
            })?;
            Ok(Toggle::Live(Live::CpuLimit { file, value: value.to_owned() }))
        }
        other => Err(format!(
            "the remedy of {other} cannot be set from outside by itself: say how with --with COMMAND --without COMMAND, or name what to toggle (--sysctl, --descriptors, --nice, --stop, --cpu-limit)"
        )),
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
