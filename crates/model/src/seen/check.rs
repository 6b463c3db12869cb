//! Whether a host is ready for a load: what is asked of it, and for each limit what it allows and what changes it.
//!
//! Data only: `observe` reads ([`crate::readings`]), `diagnose` judges, `report` shows.

use crate::plan::DriverKind;
use schemars::JsonSchema;
use serde::Serialize;

/// What a plan asks of the host, as far as limits matter to it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Demand {
    /// Connections held at once.
    pub connections: u64,
    /// Requests a second; null for a closed pace, which goes as fast as the target.
    pub rate_per_s: Option<f64>,
    /// New connections a second once the first ones are up; null where that follows from the target's speed.
    pub connects_per_s: Option<f64>,
    /// Connections that may have data queued in the kernel at once; null where it is not known.
    pub busy_at_once: Option<u64>,
    /// Addresses and ports of the target, pairs; 0: unix sockets only.
    pub destinations: u64,
    /// Source addresses that connections are spread over.
    pub sources: u64,
    /// How many ends of a connection are on this host: 2 where the target is, too.
    pub ends_here: u64,
    /// Whether the target is reached over the loopback interface.
    pub is_loopback: bool,
    /// Worker threads.
    pub workers: u64,
    /// How sockets are driven.
    pub driver: DriverKind,
    /// Whether sockets live in io_uring's own tables, which no limit of descriptors binds.
    pub direct_descriptors: bool,
}

/// What becomes of the load at one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It does not let the whole load through.
    Binds,
    /// It does, with little room; or something is worth changing.
    Tight,
    /// Could not be read. Never to be taken for fine.
    NotKnown,
    /// It does.
    Ok,
}

/// A kernel setting and its value, as sysctl(8) takes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Setting {
    /// Its name, such as `net.core.somaxconn`.
    pub name: String,
    /// The value, its words separated by one blank.
    pub value: String,
}

/// Every kernel setting that a fix may change, with the number of words its value has, each a whole number. What is put
/// back is held against it, too: nothing else can have been changed.
pub const FIXABLE: &[(&str, usize)] = &[
    ("fs.file-max", 1),
    ("fs.nr_open", 1),
    ("kernel.io_uring_disabled", 1),
    ("kernel.pid_max", 1),
    ("kernel.threads-max", 1),
    ("net.core.somaxconn", 1),
    ("net.ipv4.ip_local_port_range", 2),
    ("net.ipv4.tcp_max_syn_backlog", 1),
    ("net.ipv4.tcp_max_tw_buckets", 1),
    ("net.ipv4.tcp_mem", 3),
    ("net.ipv4.tcp_syncookies", 1),
    ("net.ipv4.tcp_tw_reuse", 1),
    ("net.netfilter.nf_conntrack_max", 1),
    ("vm.overcommit_memory", 1),
];

/// Whether a fix may give this setting this value: one of [`FIXABLE`], and a value of its form.
pub fn is_fixable(name: &str, value: &str) -> bool {
    let is_number = |word: &str| word.parse::<u64>().is_ok() && word.bytes().all(|b| b.is_ascii_digit());
    let words = FIXABLE.iter().find(|(known, _)| *known == name).map(|(_, words)| *words);
    words == Some(value.split_whitespace().count()) && value.split_whitespace().all(is_number)
}

/// One limit or setting.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Item {
    /// Fixed id, such as `local-ports`.
    pub id: &'static str,
    /// The name of the setting, as the system calls it.
    pub setting: &'static str,
    /// Its value as read; null where it was not.
    pub value: Option<String>,
    /// Whether it binds.
    pub standing: Standing,
    /// How much of the unit it allows; null where it bounds no amount, or was not read.
    pub allows: Option<f64>,
    /// How much of the unit the plan needs; null likewise.
    pub needs: Option<f64>,
    /// The unit of both; empty where there is none.
    pub unit: &'static str,
    /// What it means for this plan.
    pub text: String,
    /// The commands that change it, in order; empty where nothing need be changed, or nothing can.
    pub commands: Vec<String>,
    /// The setting among them that `--fix` writes.
    pub fix: Option<Setting>,
}

impl Item {
    /// What it allows as a share of what is needed: below 1 it binds. `None` where it bounds no amount.
    pub fn headroom(&self) -> Option<f64> {
        Some(self.allows? / self.needs.filter(|needs| *needs > 0.0)?)
    }
}

/// Every limit, the one that binds first at the top.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// What was asked for.
    pub demand: Demand,
    /// The limits: those that bind, the tightest first; then tight ones; then what is not known; then the others.
    pub items: Vec<Item>,
}

impl Check {
    /// The limit that binds first.
    pub fn first_to_bind(&self) -> Option<&Item> {
        self.items.first().filter(|item| item.standing == Standing::Binds)
    }
}

/// What became of a change that `--fix` was to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fix {
    /// The setting.
    pub name: String,
    /// Its value before; null where it could not be read.
    pub before: Option<String>,
    /// The value it was to get.
    pub after: String,
    /// What became of it.
    pub outcome: FixOutcome,
    /// Why it was refused; empty otherwise.
    pub reason: String,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FixOutcome {
    /// It was made, and is in the journal.
    Applied,
    /// It would be made.
    WouldApply,
    /// It was not made.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_list_with_values_of_their_form_are_changed() {
        assert!(is_fixable("net.core.somaxconn", "4096") && is_fixable("net.ipv4.tcp_mem", "1\t2 3\n"));
        for (name, value) in [
            ("kernel.core_pattern", "1"),
            ("kernel.modprobe", "|/tmp/x"),
            ("net.core.somaxconn", ""),
            ("net.core.somaxconn", "-1"),
            ("net.core.somaxconn", "+1"),
            ("net.core.somaxconn", "1 2"),
            ("net.ipv4.tcp_mem", "1 2"),
            ("net.ipv4.ip_local_port_range", "1 x"),
            ("fs.file-max", "99999999999999999999"),
            ("", ""),
        ] {
            assert!(!is_fixable(name, value), "{name}={value}");
        }
    }
}
