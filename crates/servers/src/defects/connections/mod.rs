//! Defects of how connections are taken from their listeners, and let go of at their end.

mod accept_imbalance;
mod connection_leak;
mod connection_limit;
mod slow_accept;
mod thundering_herd;

use super::defect::Defect;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[
    &slow_accept::DEFECT,
    &thundering_herd::DEFECT,
    &accept_imbalance::DEFECT,
    &connection_leak::DEFECT,
    &connection_limit::DEFECT,
];
