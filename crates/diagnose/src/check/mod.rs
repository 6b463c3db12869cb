//! Is a host ready for a load? Each limit of it judged: what it allows, whether that is enough, what changes it.
//!
//! Pure: readings and a demand go in, a list comes out. A limit binds where the load as it was asked for does not fit;
//! what bounds no amount, or depends on what nobody asked for, is at most tight. What was not read is `not-known`.
//! One file a family; a limit is one function and one line in [`LIMITS`].

mod descriptors;
mod listening;
mod machine;
mod memory;
mod ports;
mod rights;
mod shape;
mod tasks;
#[cfg(test)]
mod tests;

use model::check::{Check, Demand, Item, Standing};
use model::readings::Readings;

/// One limit.
pub type Limit = fn(&Demand, &Readings) -> Item;

/// Every limit, in the order of families.
pub const LIMITS: &[Limit] = &[
    descriptors::nofile,
    descriptors::nr_open,
    descriptors::file_max,
    ports::local_ports,
    ports::time_wait,
    ports::tw_buckets,
    ports::conntrack,
    listening::somaxconn,
    listening::syn_backlog,
    listening::syncookies,
    memory::available,
    memory::group,
    memory::overcommit,
    memory::swap,
    memory::tcp_mem,
    memory::tcp_rmem,
    memory::tcp_wmem,
    memory::rmem_max,
    memory::wmem_max,
    memory::huge_pages,
    tasks::pid_max,
    tasks::threads_max,
    tasks::nproc,
    tasks::group_pids,
    tasks::group_cpus,
    machine::governor,
    machine::turbo,
    rights::io_uring,
    rights::bpf,
];

/// Judges every limit. Those that bind come first, the tightest at the top; equals keep the order of [`LIMITS`].
pub fn check(demand: Demand, readings: &Readings) -> Check {
    let mut items: Vec<Item> = LIMITS.iter().map(|limit| limit(&demand, readings)).collect();
    let headroom = |item: &Item| match item.standing {
        Standing::Binds | Standing::Tight => item.headroom().unwrap_or(f64::INFINITY),
        Standing::NotKnown | Standing::Ok => 0.0,
    };
    items.sort_by(|a, b| a.standing.cmp(&b.standing).then_with(|| headroom(a).total_cmp(&headroom(b))));
    Check { demand, items }
}
