//! Defects of how a reply is written to its socket.

mod nagle;
mod sigpipe;

use super::defect::Defect;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[&nagle::DEFECT, &sigpipe::DEFECT];
