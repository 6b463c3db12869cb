//! The causes in the target, its machine and the path, one or a family a file. [`CAUSES`] is the whole list: to add one, copy a
//! neighbour and add a line here.
//!
//! First those that end a target or leave requests without a reply, then those that make them late, then limits and what only
//! grows. Where nothing else tells two of them apart, the one that stands first is said first.

pub mod accept_imbalance;
pub mod accept_queue_overflow;
pub mod at_its_limit;
pub mod backend_limited;
pub mod backend_wait;
pub mod connection_limit;
pub mod cpu_contention;
pub mod cpu_saturated;
pub mod cpu_throttled;
pub(crate) mod deaths;
pub mod disk_bound;
pub mod dns_wait;
pub mod error_status;
pub mod event_loop_blocked;
pub mod evidence;
mod failing_backend;
pub mod fast_failures;
pub mod fd_exhaustion;
pub mod files_reread;
pub mod garbage_collection;
pub mod head_of_line;
pub(crate) mod held_worker;
pub mod io_throttled;
pub mod keepalive_off;
pub mod kernel_trouble;
pub mod leaks;
pub mod lock_contention;
pub mod log_bound;
pub mod lost_wakeup;
pub mod memory_kept;
pub mod nagle_delayed_ack;
pub mod neighbour;
pub mod neighbour_request;
mod of_loss;
pub mod oom_kill;
pub mod packet_loss;
pub mod path_limited;
pub(crate) mod pauses;
pub mod pool_exhausted;
pub mod process_crash;
pub mod process_restart;
pub mod receive_window;
pub mod replies;
pub mod send_buffer;
pub mod sigpipe_death;
pub mod single_thread_bound;
pub mod slow_path;
pub mod softirq_bound;
pub mod state_lost;
pub mod stop_the_world;
pub mod swap_thrash;
pub mod syn_queue_full;
pub mod tcp_memory;
pub mod thresholds;
pub mod thundering_herd;
pub mod time_wait;
pub mod tls_handshake_bound;
pub mod worker_starvation;

use crate::rule::CauseRule;

/// Every cause.
pub const CAUSES: &[&CauseRule] = &[
    &process_crash::RULE,
    &sigpipe_death::RULE,
    &oom_kill::RULE,
    &process_restart::RULE,
    &state_lost::RULE,
    &kernel_trouble::RULE,
    &fd_exhaustion::RULE,
    &worker_starvation::RULE,
    &connection_limit::RULE,
    &syn_queue_full::RULE,
    &accept_imbalance::RULE,
    &accept_queue_overflow::RULE,
    &lost_wakeup::RULE,
    &replies::MISSING,
    &replies::TRUNCATED,
    &replies::PADDED,
    &replies::CORRUPTED,
    &error_status::RULE,
    &nagle_delayed_ack::RULE,
    &cpu_throttled::RULE,
    &io_throttled::RULE,
    &neighbour::RULE,
    &lock_contention::RULE,
    &dns_wait::RULE,
    &backend_limited::RULE,
    &backend_wait::RULE,
    &log_bound::RULE,
    &disk_bound::RULE,
    &pool_exhausted::RULE,
    &swap_thrash::RULE,
    &garbage_collection::RULE,
    &neighbour_request::RULE,
    &slow_path::RULE,
    &stop_the_world::RULE,
    &head_of_line::RULE,
    &event_loop_blocked::RULE,
    &tcp_memory::RULE,
    &time_wait::RULE,
    &packet_loss::RULE,
    &send_buffer::RULE,
    &receive_window::RULE,
    &path_limited::RULE,
    &softirq_bound::RULE,
    &cpu_contention::RULE,
    &tls_handshake_bound::RULE,
    &keepalive_off::RULE,
    &single_thread_bound::RULE,
    &cpu_saturated::RULE,
    &at_its_limit::RULE,
    &thundering_herd::RULE,
    &fast_failures::RULE,
    &files_reread::RULE,
    &leaks::DESCRIPTORS,
    &leaks::CONNECTIONS,
    &leaks::MEMORY,
    &memory_kept::RULE,
    &leaks::PER_CONNECTION,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_none_is_the_generators() {
        for (i, cause) in CAUSES.iter().enumerate() {
            assert!(CAUSES[..i].iter().all(|other| other.id != cause.id), "{}", cause.id);
            assert!(!cause.id.starts_with("generator-"), "{}", cause.id);
        }
    }
}
