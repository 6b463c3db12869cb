//! Memory: of the machine, of the control group, of TCP's buffers.
//!
//! What a connection takes is a measured figure, not a bound of the kernel's; what its data takes follows from
//! Documentation/networking/ip-sysctl.rst (`tcp_mem`, `tcp_rmem`, `tcp_wmem`) and Documentation/mm/overcommit-accounting.

use super::shape::{Name, Said, bytes, grouped, n};
use model::check::{Demand, Item, Standing};
use model::readings::{Reading, Readings};

const AVAILABLE: Name = Name { id: "memory-available", setting: "MemAvailable" };
const GROUP: Name = Name { id: "cgroup-memory", setting: "memory limit of the control group" };
const OVERCOMMIT: Name = Name { id: "overcommit", setting: "vm.overcommit_memory" };
const SWAP: Name = Name { id: "swap", setting: "vm.swappiness" };
const TCP_MEM: Name = Name { id: "tcp-mem", setting: "net.ipv4.tcp_mem" };
const TCP_RMEM: Name = Name { id: "tcp-rmem", setting: "net.ipv4.tcp_rmem" };
const TCP_WMEM: Name = Name { id: "tcp-wmem", setting: "net.ipv4.tcp_wmem" };
const RMEM_MAX: Name = Name { id: "rmem-max", setting: "net.core.rmem_max" };
const WMEM_MAX: Name = Name { id: "wmem-max", setting: "net.core.wmem_max" };
const HUGE_PAGES: Name = Name { id: "huge-pages", setting: "transparent_hugepage/enabled" };

/// Kernel memory of one end of an idle TCP connection: 1,000,000 loopback pairs took 8.1 GB of slab on Linux 6.18.
const KERNEL_BYTES_PER_END: f64 = 4200.0;
/// Memory of a process for a connection it drives: a rule of thumb with room, for buffers come and go.
const USER_BYTES_PER_END: f64 = 1024.0;
/// What the process takes without any connection.
const OWN_BYTES: f64 = 32.0 * 1024.0 * 1024.0;

fn needed(demand: &Demand) -> f64 {
    let ends = demand.connections as f64 * demand.ends_here as f64;
    OWN_BYTES + ends * (KERNEL_BYTES_PER_END + USER_BYTES_PER_END)
}

fn described(demand: &Demand, allows: f64) -> String {
    format!(
        "{} free; this plan takes about {} ({} each end, {} on this host)",
        bytes(allows),
        bytes(needed(demand)),
        bytes(KERNEL_BYTES_PER_END + USER_BYTES_PER_END),
        if demand.ends_here > 1 { "both ends" } else { "one end" }
    )
}

/// What can be had without swapping (`MemAvailable`, proc_meminfo(5)).
pub(super) fn available(demand: &Demand, readings: &Readings) -> Item {
    let Some(free) = readings.memory_available_bytes.known() else {
        return AVAILABLE.not_read(&readings.memory_available_bytes);
    };
    let free = *free as f64;
    AVAILABLE.amount(bytes(free), free, needed(demand), "bytes").saying(described(demand, free)).changed_by(|| {
        "ps -eo rss,pid,comm --sort=-rss | head   # and end what is not needed, or ask for fewer connections".to_owned()
    })
}

/// A group that reaches it gets its processes killed (Documentation/admin-guide/cgroup-v2, "memory.max"); sockets and
/// files are charged to it.
pub(super) fn group(demand: &Demand, readings: &Readings) -> Item {
    let group = match &readings.group_memory {
        Reading::Known(group) => group,
        Reading::Absent => return GROUP.not_read(&Reading::<()>::Absent),
        other => return GROUP.not_read(other),
    };
    let Some(limit) = group.limit else { return GROUP.setting("none", Standing::Ok, "no group bounds memory") };
    let left = limit.saturating_sub(group.used) as f64;
    GROUP
        .amount(bytes(limit as f64), left, needed(demand), "bytes")
        .saying(described(demand, left))
        .changed_by(|| format!("echo {:.0} > {}", (group.used as f64 + needed(demand)) * 1.25, group.file))
}

/// With 2 the kernel gives no more address space than CommitLimit, used or not.
pub(super) fn overcommit(demand: &Demand, readings: &Readings) -> Item {
    let Some(mode) = readings.overcommit.known().copied() else { return OVERCOMMIT.not_read(&readings.overcommit) };
    if mode != 2 {
        return OVERCOMMIT.setting(mode, Standing::Ok, "address space that is not used is not counted");
    }
    let Some((limit, committed)) = readings.commit_bytes.known() else {
        return OVERCOMMIT.not_read(&readings.commit_bytes);
    };
    let left = limit.saturating_sub(*committed) as f64;
    let needs = OWN_BYTES + demand.connections as f64 * demand.ends_here as f64 * USER_BYTES_PER_END;
    OVERCOMMIT
        .amount("2 (strict)", left, needs, "bytes")
        .saying(format!("{} of address space left, of {} needed", bytes(left), bytes(needs)))
        .fixed_by(OVERCOMMIT.setting, || "0".to_owned())
}

/// A page of the generator that was swapped out makes a request late that the target answered in time.
pub(super) fn swap(_demand: &Demand, readings: &Readings) -> Item {
    let Some((total, free)) = readings.swap_bytes.known().copied() else { return SWAP.not_read(&readings.swap_bytes) };
    let Some(swappiness) = readings.swappiness.known() else { return SWAP.not_read(&readings.swappiness) };
    let used = total.saturating_sub(free) as f64;
    match (total, used > 0.0) {
        (0, _) => SWAP.setting(swappiness, Standing::Ok, "there is no swap"),
        (_, false) => SWAP.setting(swappiness, Standing::Ok, format!("{} of swap, unused", bytes(total as f64))),
        (_, true) => SWAP
            .setting(
                swappiness,
                Standing::Tight,
                format!(
                    "{} of {} of swap is in use: what must come back from it is late",
                    bytes(used),
                    bytes(total as f64)
                ),
            )
            .changed_by(|| "swapoff -a".to_owned()),
    }
}

/// Pages that all sockets' queued data may take. Data in a queue takes a page at the least (`sk_mem_schedule`,
/// net/core/sock.c); beyond the third figure sends wait and segments are dropped.
pub(super) fn tcp_mem(demand: &Demand, readings: &Readings) -> Item {
    let (limit, used) = match (readings.tcp_mem_pages.known(), readings.tcp_mem_pages_used.known()) {
        (None, _) if readings.tcp_mem_pages == Reading::Absent => {
            return TCP_MEM.not_read(&Reading::<()>::Unreadable(
                "is shown in the first network namespace only, and holds in all of them".to_owned(),
            ));
        }
        (None, _) => return TCP_MEM.not_read(&readings.tcp_mem_pages),
        (_, None) => return TCP_MEM.not_read(&readings.tcp_mem_pages_used),
        (Some(limit), Some(used)) => (*limit, *used),
    };
    let [low, pressure, high] = limit;
    let left = high.saturating_sub(used);
    let page = readings.page_bytes as f64;
    let needs = demand.busy_at_once.unwrap_or(demand.connections);
    let item = TCP_MEM.amount(format!("{low} {pressure} {high} pages"), left as f64, needs as f64, "connections");
    // Whether all have data queued at once is known of a closed pace only.
    let item = if demand.busy_at_once.is_some() { item } else { item.at_most_tight() };
    item.saying(format!(
        "{} may have data queued at once, a page each ({} left of {}); idle ones take none",
        n(left as f64),
        bytes(left as f64 * page),
        bytes(high as f64 * page)
    ))
    .fixed_by(TCP_MEM.setting, || {
        let wanted = needs.saturating_add(used).saturating_mul(5) / 4;
        format!("{} {} {wanted}", low.max(wanted / 2), pressure.max(wanted / 4 * 3))
    })
}

/// The third figure bounds what one connection can take in during a round trip.
pub(super) fn tcp_rmem(_demand: &Demand, readings: &Readings) -> Item {
    buffer(TCP_RMEM, &readings.tcp_rmem_bytes, "a receive buffer")
}

/// Likewise of what it can have sent and not yet acknowledged.
pub(super) fn tcp_wmem(_demand: &Demand, readings: &Readings) -> Item {
    buffer(TCP_WMEM, &readings.tcp_wmem_bytes, "a send buffer")
}

fn buffer(name: Name, reading: &Reading<[u64; 3]>, what: &str) -> Item {
    let Some([least, default, most]) = reading.known() else { return name.not_read(reading) };
    let text = format!(
        "{what} begins at {} and grows to {}: no more goes over one connection in a round trip",
        bytes(*default as f64),
        bytes(*most as f64)
    );
    name.setting(format!("{least} {default} {most}"), Standing::Ok, text)
}

/// Holds for programs that set a size themselves (socket(7), SO_RCVBUF), which plimsoll does not.
pub(super) fn rmem_max(_demand: &Demand, readings: &Readings) -> Item {
    set_by_program(RMEM_MAX, &readings.rmem_max_bytes)
}

/// Likewise SO_SNDBUF.
pub(super) fn wmem_max(_demand: &Demand, readings: &Readings) -> Item {
    set_by_program(WMEM_MAX, &readings.wmem_max_bytes)
}

fn set_by_program(name: Name, reading: &Reading<u64>) -> Item {
    let Some(most) = reading.known() else { return name.not_read(reading) };
    name.setting(grouped(*most), Standing::Ok, "bounds programs that set a buffer's size themselves; plimsoll does not")
}

/// `always` rounds a process's memory up to 2 MiB pages (Documentation/admin-guide/mm/transhuge).
pub(super) fn huge_pages(_demand: &Demand, readings: &Readings) -> Item {
    let choice = match &readings.huge_pages {
        Reading::Known(choice) => choice,
        Reading::Absent => return HUGE_PAGES.setting("none", Standing::Ok, "this kernel has none"),
        other => return HUGE_PAGES.not_read(other),
    };
    let text = match &**choice {
        "always" => "memory is given in pages of 2 MiB where it fits: a process that holds little may show more",
        _ => "pages of 2 MiB only where a program asks for them",
    };
    HUGE_PAGES.setting(choice, Standing::Ok, text)
}
