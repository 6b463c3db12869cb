//! Defects of replies: wrong, incomplete, too long, missing, or the last of their connection.

mod corrupted_reply;
mod error_status;
mod fixed_size_reply;
mod full_buffer_reply;
mod keepalive_off;
mod missing_reply;
mod one_receive_reply;
mod padded_reply;
mod payload;
mod strlen_reply;
mod truncated_reply;

use super::defect::{Defect, Setting};
use crate::error::ServeError;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[
    &keepalive_off::DEFECT,
    &error_status::DEFECT,
    &truncated_reply::DEFECT,
    &one_receive_reply::DEFECT,
    &strlen_reply::DEFECT,
    &padded_reply::DEFECT,
    &fixed_size_reply::DEFECT,
    &corrupted_reply::DEFECT,
    &missing_reply::DEFECT,
    &full_buffer_reply::DEFECT,
];

/// A size that must not be 0.
fn at_least_one_byte(setting: &Setting) -> Result<usize, ServeError> {
    match usize::try_from(setting.number()).unwrap_or(usize::MAX) {
        0 => Err(ServeError::DefectStrength {
            defect: setting.defect.name,
            expected: "1 byte or more",
            got: "0".to_owned(),
        }),
        bytes => Ok(bytes),
    }
}
