//! Descriptors: of one process (`nofile`, `fs.nr_open`) and of the whole machine (`fs.file-max`).
//!
//! Each connection takes one at each end; both ends on one host are two processes, so `nofile` counts one end and
//! `fs.file-max` both. Documentation/admin-guide/sysctl/fs.rst, getrlimit(2).

use super::shape::{Name, Said, counted, grouped, n, rounded_up};
use model::check::{Demand, Item, Standing};
use model::readings::Readings;

const NOFILE: Name = Name { id: "nofile", setting: "nofile (ulimit -n)" };
const NR_OPEN: Name = Name { id: "nr-open", setting: "fs.nr_open" };
const FILE_MAX: Name = Name { id: "file-max", setting: "fs.file-max" };

/// Descriptors that are no connections: the recording, files of `/proc`, a few for each worker.
pub(super) const OTHERS: u64 = 64;

/// A process may have `nofile` descriptors, numbered below it; a run raises its soft limit to the hard one itself.
pub(super) fn nofile(demand: &Demand, readings: &Readings) -> Item {
    let Some(limit) = readings.nofile.known() else { return NOFILE.not_read(&readings.nofile) };
    let shown = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), grouped);
    let value = format!("soft {}, hard {}", shown(limit.soft), shown(limit.hard));
    let Some(hard) = limit.hard else {
        return NOFILE.setting(value, Standing::Ok, "bounds nothing; fs.nr_open does");
    };
    let allows = hard.saturating_sub(OTHERS);
    if demand.direct_descriptors {
        let text = "io_uring's own tables of files hold this plan's sockets, and each ring has one: it is not bound";
        return NOFILE.setting(value, Standing::Ok, text);
    }
    let each = if demand.ends_here > 1 { ", at each end" } else { "" };
    let text = format!(
        "{} by epoll in one process{each} ({OTHERS} descriptors for the rest); \
         sockets in io_uring's own tables (direct descriptors) are not bound by it",
        counted(allows, "connection")
    );
    let wanted = demand.connections.saturating_add(OTHERS);
    let may_have = readings.nr_open.known().copied().unwrap_or(u64::MAX);
    NOFILE
        .amount(value, allows as f64, demand.connections as f64, "connections")
        .saying(text)
        .changed_by_first(wanted > may_have, || format!("sysctl -w fs.nr_open={}", rounded_up(wanted)))
        .changed_by(|| {
            let wanted = rounded_up(wanted);
            format!("ulimit -n {wanted}   # or prlimit --pid $$ --nofile={wanted}:{wanted}; needs CAP_SYS_RESOURCE")
        })
}

/// No hard limit may be above it, not even root's.
pub(super) fn nr_open(demand: &Demand, readings: &Readings) -> Item {
    let Some(most) = readings.nr_open.known().copied() else { return NR_OPEN.not_read(&readings.nr_open) };
    if demand.direct_descriptors {
        let text = "bounds nofile, which does not bind this plan";
        return NR_OPEN.setting(grouped(most), Standing::Ok, text);
    }
    let allows = most.saturating_sub(OTHERS);
    NR_OPEN
        .amount(grouped(most), allows as f64, demand.connections as f64, "connections")
        .saying(format!("nofile can be raised to it, for {} in one process", counted(allows, "connection")))
        .fixed_by("fs.nr_open", || {
            rounded_up(demand.connections.saturating_add(OTHERS).saturating_mul(5) / 4).to_string()
        })
}

/// Bounds all processes together but for those with CAP_SYS_ADMIN (`alloc_empty_file`, fs/file_table.c).
pub(super) fn file_max(demand: &Demand, readings: &Readings) -> Item {
    let (most, open) = match (readings.file_max.known(), readings.files_open.known()) {
        (None, _) => return FILE_MAX.not_read(&readings.file_max),
        (_, None) => return FILE_MAX.not_read(&readings.files_open),
        (Some(most), Some(open)) => (*most, *open),
    };
    // The kernel's own default is LONG_MAX on most machines.
    if most >= i64::MAX as u64 {
        return FILE_MAX.setting("unlimited", Standing::Ok, "bounds nothing");
    }
    let needs = demand.connections.saturating_mul(demand.ends_here).saturating_add(OTHERS);
    let left = most.saturating_sub(open);
    let text = format!(
        "{} more files may be open on this machine; this plan opens {}, {} of each connection",
        n(left as f64),
        n(needs as f64),
        if demand.ends_here > 1 { "both ends" } else { "one end" }
    );
    FILE_MAX
        .amount(grouped(most), left as f64, needs as f64, "files")
        .saying(text)
        .fixed_by("fs.file-max", || rounded_up(open.saturating_add(needs).saturating_mul(5) / 4).to_string())
}
