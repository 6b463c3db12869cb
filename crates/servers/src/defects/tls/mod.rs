//! Defects of TLS handshakes.

mod tls_rsa_4096;

use super::defect::Defect;

/// In the order they are listed.
pub(super) const DEFECTS: &[&Defect] = &[&tls_rsa_4096::DEFECT];
