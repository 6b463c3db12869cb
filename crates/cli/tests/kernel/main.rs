//! The echo module in a guest: loaded, spoken to by this program, watched, removed. Needs QEMU and the kernel's headers
//! (`scripts/packages.sh kernel`, then `scripts/guest.sh`); skips with the reason where they are missing.
//!
//! The scripts are read by the guest's shell. `make kernel` does more of it, and the comparison: `matrix.rs`.

use std::time::Duration;
use testkit::guest::{Boot, Guest, Ran, with_libraries};

/// As long as a guest may take on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(900);
const WORDS: &str = include_str!("words.sh");
const CONDUCT: &str = include_str!("conduct.sh");

/// Runs a script in a guest that has the program and the module; `None`: skipped, and said why.
fn in_guest(series: &str, module: &str, script: &str, kernel_arguments: &str) -> Option<Ran> {
    let parts = Guest::find(series).and_then(|guest| guest.module(module).map(|module| (guest, module)));
    let (guest, module) = match parts {
        Ok(parts) => parts,
        Err(why) => {
            testkit::skip(&why);
            return None;
        }
    };
    let mut files = with_libraries(env!("CARGO_BIN_EXE_plimsoll").as_ref(), "/bin/plimsoll").unwrap();
    files.push((module, "/plimsoll_echo.ko".to_owned()));
    let script = format!("{WORDS}{script}");
    let boot = Boot { files, script: &script, cpus: 2, kernel_arguments, is_shown: false };
    Some(guest.boot(&boot, LONG).unwrap())
}

/// Slab debugging is on: what is written beyond its end or after it was given back is a complaint of the kernel's.
#[test]
fn every_model_echoes_bears_and_is_removed() {
    let script = format!("ROUNDS=10\n{CONDUCT}");
    let Some(ran) = in_guest("6.1", "plimsoll_echo", &script, "slub_debug=FZPU") else { return };
    assert_eq!(ran.status, Some(0), "{}", ran.console);
}
