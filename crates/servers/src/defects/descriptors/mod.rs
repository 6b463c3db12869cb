//! Defects of descriptors: they leak, or there are few.

mod fd_leak;
mod fd_limit;

use super::defect::Defect;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[&fd_leak::DEFECT, &fd_limit::DEFECT];
