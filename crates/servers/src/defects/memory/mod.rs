//! Defects of memory: a connection, a request or a pool holds too much of it.

mod memory_kept;
mod memory_leak;
mod memory_per_connection;
mod pages;

use super::defect::Defect;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[&memory_per_connection::DEFECT, &memory_leak::DEFECT, &memory_kept::DEFECT];
