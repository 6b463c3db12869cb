//! The echo module in a guest: loaded, spoken to by this program, watched, removed. Needs QEMU and the kernel's headers
//! (`scripts/packages.sh kernel`, then `scripts/guest.sh`); skips with the reason where they are missing.
//!
//! The scripts are read by the guest's shell. `make kernel` does more of it, and the comparison: `matrix.rs`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "in a test, a panic is the report")]

mod matrix;
mod page;

use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use testkit::guest::{Boot, Clock, Guest, Ran, with_libraries};

/// As long as a guest may take on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(900);
const WORDS: &str = include_str!("words.sh");
const CONDUCT: &str = include_str!("conduct.sh");
const FAULT: &str = include_str!("fault.sh");

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
    let boot = Boot { files, script: &script, cpus: 2, clock: Clock::Running, kernel_arguments, shown: None };
    Some(guest.boot(&boot, LONG).unwrap())
}

/// Slab debugging is on: what is written beyond its end or after it was given back is a complaint of the kernel's.
#[test]
fn every_model_echoes_bears_and_is_removed() {
    let script = format!("ROUNDS=10\n{CONDUCT}");
    let Some(ran) = in_guest("6.1", "plimsoll_echo", &script, "slub_debug=FZPU") else { return };
    assert_eq!(ran.status, Some(0), "{}", ran.console);
}

/// The place and the fingerprint that a text ends in.
fn fingerprint(text: &str) -> &str {
    text.split_once(", at ").unwrap_or_else(|| panic!("no place in {text}")).1.trim_end_matches('"')
}

/// The finding of a document, and the text of the piece of its evidence that has a place.
fn trouble(document: &Value) -> (&Value, &str) {
    let findings = document["findings"].as_array().unwrap();
    let finding =
        findings.iter().find(|finding| finding["id"] == "kernel-trouble").unwrap_or_else(|| panic!("{document:#}"));
    let because = finding["because"].as_array().unwrap();
    let place = because.iter().filter_map(|piece| piece["text"].as_str()).find(|text| text.contains(", fingerprint "));
    (finding, place.unwrap_or_else(|| panic!("{finding:#}")))
}

/// A build that fails on purpose: seen live by the load beside it, and afterwards in the console of a guest that died of it.
#[test]
fn a_fault_in_the_kernel_is_named_and_known_again() {
    let Some(lived) = in_guest("6.1", "plimsoll_echo_broken", FAULT, "") else { return };
    assert_eq!(lived.status, Some(0), "{}", lived.console);
    let text = std::fs::read_to_string(lived.results.path().join("load.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let (finding, live) = trouble(&document);
    assert_eq!(finding["status"], "supported", "{finding:#}");
    assert!(fingerprint(live).starts_with("echo_conn_receive [plimsoll_echo], fingerprint "), "{live}");

    let Some(died) = in_guest("6.1", "plimsoll_echo_broken", FAULT, "oops=panic") else { return };
    assert_eq!(died.status, None, "{}", died.console);
    let folder = tempfile::tempdir().unwrap();
    let (console, recording) = (folder.path().join("console"), folder.path().join("console.plimsoll"));
    std::fs::write(&console, &died.console).unwrap();
    let plimsoll = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    let (console, recording) = (console.to_str().unwrap(), recording.to_str().unwrap());
    plimsoll(&["import", "dmesg", console, "--record", recording]);
    let document: Value = serde_json::from_slice(&plimsoll(&["report", recording, "--json"])).unwrap();
    let (finding, after) = trouble(&document);
    assert_eq!((&finding["status"], fingerprint(after)), (&"supported".into(), fingerprint(live)), "{finding:#}");
    let title = finding["title"].as_str().unwrap();
    assert!(title.starts_with("the kernel was in trouble: a panic, at "), "{title}");
}
