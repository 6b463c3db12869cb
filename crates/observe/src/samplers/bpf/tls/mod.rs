//! TLS handshakes of the target by libssl (OpenSSL): how many began, succeeded and failed, how long each took, and how
//! much of that was spent inside the library.
//!
//! By uprobes at `SSL_do_handshake` (which `SSL_accept` and `SSL_connect` call) and `SSL_free`, in every file `libssl*`
//! that a process of the target maps; looked for again as processes come and execute. A handshake is from the first call
//! for a connection to the one that succeeds; one that is freed before has failed. Time inside the calls is processor
//! time but for what a thread waits there. Not here: libraries linked into the program itself, rustls, BoringSSL; a
//! handshake that `SSL_read` or `SSL_write` makes by the way; which side the target is (a proxy's own are counted too).
//! Cost: some 2 µs a call, a few calls a connection and none a request, so always on; others that use the same file pay
//! it too.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Places, Programs};
use model::snapshot::SamplerState;
use std::path::Path;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/tls",
    about: "TLS handshakes by libssl: how many, failed, time in all and inside the library",
    runs: Runs::Always,
    object: object!("tls"),
    counts: &["started", "completed", "failed", "calls", "handshakes_lost"],
    histograms: &["handshake_ns", "inside_ns"],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let followed = programs.follow(reading.targets.iter().map(|target| target.pid), is_mapped_libssl, Places::Named);
    if followed.attached == 0 {
        let (state, reason) = match followed.left_out {
            Some(why) => (SamplerState::Failed, why),
            None => (SamplerState::Disabled, "no libssl is mapped by the target".to_owned()),
        };
        reading.remark = Some((state, reason));
    } else if let Some(why) = followed.left_out {
        reading.remark = Some((SamplerState::Active, why));
    }
    Ok(())
}

fn is_mapped_libssl(_: &Path, file: &Path) -> bool {
    file.file_name().is_some_and(|name| is_libssl(&name.to_string_lossy()))
}

/// `libssl.so.3`, `libssl-1f2e.so.1.1`; not `libssl3.so`, which is NSS.
fn is_libssl(file: &str) -> bool {
    file.strip_prefix("libssl").is_some_and(|rest| rest.starts_with(['.', '-']) && rest.contains(".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libssl_is_known_by_its_name() {
        assert!(is_libssl("libssl.so.3") && is_libssl("libssl.so") && is_libssl("libssl-8c8e9ff7.so.1.1"));
        assert!(!is_libssl("libssl3.so") && !is_libssl("libcrypto.so.3") && !is_libssl("libssl.a"));
    }
}
