//! The program for arm64, built here and booted in an emulated machine of that kind: it puts load on with io_uring and with epoll, its
//! probes load and count, and it names a defect. `make test-arm64` builds it (`scripts/static.sh arm64`) and fetches Debian's kernel
//! (`scripts/guest.sh 6.1-arm64 6.12-arm64`); skips with the reason where one is missing. An emulated machine is slow: no time is looked at.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

use serde_json::Value;
use std::time::Duration;
use testkit::guest::{Boot, Clock, Guest, Ran};

/// As long as the guest may take on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(900);
/// Requests of each load; connections of each.
const REQUESTS: u64 = 2000;
/// What is done there. Status 4 is "not valid", as it well may be on such a machine.
const SCRIPT: &str = include_str!("arm64.sh");

/// What the program said of one of the loads.
fn report(ran: &Ran, name: &str) -> Value {
    let file = ran.results.path().join(name);
    let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}\n{}", ran.console));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{}", ran.console))
}

fn statuses<'d>(document: &'d Value, of: &str) -> Vec<(&'d str, &'d str, &'d str)> {
    let samplers = document["samplers"].as_array().unwrap().iter();
    let word = |sampler: &'d Value, key: &str| sampler[key].as_str().unwrap();
    let all = samplers.map(|one| (word(one, "name"), word(one, "status"), word(one, "reason")));
    all.filter(|(name, ..)| name.starts_with(of)).collect()
}

/// Boots a kernel and does it all; `None`: skipped, and said why.
fn on(series: &str) -> Option<Ran> {
    let program = testkit::workspace().join("target/static-arm64/plimsoll");
    let guest = match Guest::find(series) {
        Ok(guest) if program.is_file() => guest,
        Ok(_) => {
            testkit::skip("there is no program for arm64: make test-arm64 builds it");
            return None;
        }
        Err(why) => {
            testkit::skip(&why);
            return None;
        }
    };
    let files = vec![(program, "/bin/plimsoll".to_owned())];
    let kernel_arguments = "";
    let boot = Boot { files, script: SCRIPT, cpus: 2, clock: Clock::Running, kernel_arguments, shown: None };
    let ran = guest.boot(&boot, LONG).unwrap();
    assert_eq!(ran.status, Some(0), "{}", ran.console);
    let machine = std::fs::read_to_string(ran.results.path().join("machine")).unwrap();
    assert_eq!(machine.trim(), "aarch64");
    for driver in ["uring", "epoll"] {
        let document = report(&ran, &format!("{driver}.json"));
        assert_eq!(document["generator"]["driver"], driver, "{document:#}");
        let totals = &document["totals"];
        assert_eq!([&totals["ok"], &totals["started"]], [REQUESTS, REQUESTS], "{totals:#}");
        assert_eq!(totals["status"]["200"], REQUESTS);
    }
    let defect = report(&ran, "defect.json");
    assert_eq!(defect["gives"]["finding"], "process-crash", "{:#}\n{}", defect["gives"], ran.console);
    Some(ran)
}

/// Those that are not there, but for those that have nothing to look for.
fn missing(document: &Value) -> Vec<(&str, &str, &str)> {
    let probes = statuses(document, "bpf/");
    assert!(probes.iter().filter(|(_, status, _)| *status == "active").count() >= 8, "{probes:#?}");
    let idle = ["bpf/tls", "bpf/collector"];
    probes.into_iter().filter(|(name, status, _)| *status != "active" && !idle.contains(name)).collect()
}

#[test]
fn the_program_for_arm64_measures_and_observes_there() {
    let Some(ran) = on("6.12-arm64") else { return };
    let document = report(&ran, "uring.json");
    assert_eq!(missing(&document), []);
    // Single requests are found again in the server's sockets, by arm64's registers and structures.
    assert!(document["split"]["joined"].as_u64().is_some_and(|joined| joined > 0), "{:#}", document["split"]);
}

/// Its oldest kernel has neither the newer tracepoints nor, on arm64, exits of functions to stand at.
#[test]
fn what_its_oldest_kernel_cannot_have_is_said_and_costs_no_finding() {
    let Some(ran) = on("6.1-arm64") else { return };
    let document = report(&ran, "uring.json");
    let missing = missing(&document);
    assert_eq!(missing.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), ["bpf/sockets", "bpf/exchanges"]);
    assert!(
        missing.iter().all(|(_, status, why)| *status == "failed" && why.contains("Linux 6.3 and newer")),
        "{missing:?}"
    );
}
