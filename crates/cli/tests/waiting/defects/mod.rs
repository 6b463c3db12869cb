//! Every defect of the reference servers is there when asked for, from its start on, and not there otherwise.
//!
//! What proves it is read from outside: strace, `/proc`, ss, openssl, a bare client. Nothing of plimsoll's own reads.

mod accepting;
mod memory;
mod process;
mod refused;
mod signs;
mod sockets;
mod tls;

/// What proves which defect: a line a file.
const PROOFS: &[&[signs::Proof]] = &[accepting::PROOFS, memory::PROOFS, process::PROOFS, sockets::PROOFS, tls::PROOFS];

#[test]
fn every_defect_is_proved_once() {
    let mut proved: Vec<_> = PROOFS.iter().flat_map(|file| file.iter()).map(|(name, _)| *name).collect();
    let listed: Vec<_> = servers::defects::DEFECTS.iter().map(|defect| defect.name).collect();
    proved.sort_unstable();
    assert!(
        proved.windows(2).all(|two| two[0] != two[1]) && proved.iter().all(|name| listed.contains(name)),
        "{proved:?}"
    );
    // Those of work and replies have a table of their own, which looks that no defect is without a proof.
    let elsewhere = concat!(
        include_str!("../../defects_work/work.rs"),
        include_str!("../../defects_work/waiting.rs"),
        include_str!("../../defects_work/replies.rs")
    );
    for name in listed {
        assert!(proved.contains(&name) || elsewhere.contains(&format!("\"{name}")), "{name} is proved nowhere");
    }
}
