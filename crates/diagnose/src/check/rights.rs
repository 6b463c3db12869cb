//! What the kernel lets this process use: io_uring, BPF.
//!
//! Documentation/admin-guide/sysctl/kernel.rst (`io_uring_disabled`, `unprivileged_bpf_disabled`), capabilities(7).

use super::shape::{Name, Said};
use model::check::{Demand, Item, Standing};
use model::plan::DriverKind;
use model::readings::{Reading, Readings};

const IO_URING: Name = Name { id: "io-uring", setting: "kernel.io_uring_disabled" };
const BPF: Name = Name { id: "bpf", setting: "kernel.unprivileged_bpf_disabled" };

/// A real attempt decides; the setting says why it failed.
pub(super) fn io_uring(demand: &Demand, readings: &Readings) -> Item {
    let Some(attempt) = readings.io_uring.known() else { return IO_URING.not_read(&readings.io_uring) };
    let disabled = readings.io_uring_disabled.known();
    let value = disabled.map_or("no such setting".to_owned(), u64::to_string);
    let is_needed = demand.driver == DriverKind::Uring || demand.direct_descriptors;
    match attempt {
        Ok(()) => IO_URING.setting(value, Standing::Ok, "can be used (a ring was made)"),
        Err(why) => {
            let (standing, then) = match is_needed {
                true => (Standing::Binds, "this plan needs it"),
                false => (Standing::Tight, "epoll drives this plan, and nofile bounds it"),
            };
            let item = IO_URING.setting(value, standing, format!("cannot be used: {why}; {then}"));
            match disabled {
                Some(1 | 2) => item.fixed_by(IO_URING.setting, || "0".to_owned()),
                _ => item,
            }
        }
    }
}

/// What diagnosis can see of the kernel; no load depends on it.
pub(super) fn bpf(_demand: &Demand, readings: &Readings) -> Item {
    let rights = match (readings.bpf.known(), &readings.unprivileged_bpf_disabled) {
        (None, _) => return BPF.not_read(&readings.bpf),
        (Some(_), Reading::Unreadable(reason)) => {
            return BPF.not_read(&Reading::<()>::Unreadable(reason.clone()));
        }
        (Some(rights), _) => rights,
    };
    let value = readings.unprivileged_bpf_disabled.known().map_or("no such setting".to_owned(), u64::to_string);
    let missing: Vec<&str> =
        [(rights.may_load, "CAP_BPF"), (rights.may_trace, "CAP_PERFMON"), (rights.has_btf, "/sys/kernel/btf/vmlinux")]
            .into_iter()
            .filter_map(|(has, name)| (!has).then_some(name))
            .collect();
    match missing.is_empty() {
        true => {
            BPF.setting(value, Standing::Ok, "programs can be loaded: rights and BTF are there; no load depends on it")
        }
        false => BPF
            .setting(
                value,
                Standing::Tight,
                format!(
                    "programs cannot be loaded ({} missing): what only they see is not observable",
                    missing.join(", ")
                ),
            )
            .changed_by(|| "sudo plimsoll …   # or setcap cap_bpf,cap_perfmon+ep on its file".to_owned()),
    }
}
