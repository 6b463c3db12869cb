//! Defects of what a worker does for a request: it computes, waits, or is gone.

mod backend_limited;
mod background;
mod blocked_loop;
mod cpu_heavy;
mod crash;
mod files_reread;
mod fsync_log;
mod global_lock;
mod head_of_line;
mod held;
mod lost_wakeup;
mod neighbour_request;
mod origin;
mod pool_exhausted;
mod single_thread;
mod slow_backend;
mod slow_log_reader;
mod slow_path;
mod stop_the_world;
mod worker_starvation;

use super::defect::Defect;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[
    &crash::DEFECT,
    &single_thread::DEFECT,
    &cpu_heavy::DEFECT,
    &global_lock::DEFECT,
    &blocked_loop::DEFECT,
    &stop_the_world::DEFECT,
    &head_of_line::DEFECT,
    &worker_starvation::DEFECT,
    &lost_wakeup::DEFECT,
    &slow_backend::DEFECT,
    &fsync_log::DEFECT,
    &files_reread::DEFECT,
    &slow_log_reader::DEFECT,
    &pool_exhausted::DEFECT,
    &slow_path::DEFECT,
    &neighbour_request::DEFECT,
    &backend_limited::DEFECT,
];
