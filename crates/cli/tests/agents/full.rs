//! What becomes of a run when the disk under NATS is full. It takes two minutes, as agents try to hand over for one: `make kills`.

use crate::*;

/// Of both agents in four seconds.
const REQUESTS: u64 = 1200;

/// NATS on a disk of its own of so many KiB.
fn nats_on_disk(kib: u32) -> Option<Nats> {
    if std::env::var_os("PLIMSOLL_KILLS").is_none() {
        testkit::skip("two minutes: make kills");
        return None;
    }
    if testkit::program("nats-server").is_none() || !testkit::is_root() {
        testkit::skip("a disk of its own for nats-server needs root, and nats-server (scripts/packages.sh test)");
        return None;
    }
    Some(Nats::start_on_disk(kib).unwrap())
}

#[test]
fn a_disk_that_is_full_in_the_midst_of_a_run_costs_no_recording() {
    let Some(nats) = nats_on_disk(400) else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "4s", "-c", "2", "--tick", "100ms"]);
    let run = place.ended(load);
    run.assert_exit(4);
    assert!(run.stderr.contains("agent 'a': handing over its recording failed"), "{}", run.stderr);
    let document = run.json();
    let short = document["generators"]["shortfalls"].as_array().unwrap().clone();
    assert_eq!(short.len(), 2, "{short:#?}");
    let kept = files_of_agents(&place);
    let kept: Vec<&str> = kept.iter().filter(|file| file.is_file()).map(|file| file.to_str().unwrap()).collect();
    for one in &short {
        let text = one["text"].as_str().unwrap();
        assert!(kept.iter().any(|file| text.contains(file)), "{text} {kept:?}");
    }
    // What was acknowledged is counted once, and all of it is there to be made one by hand.
    assert!(count(&document, "/totals/ok") <= REQUESTS);
    let by_hand = place.file("by-hand.plimsoll");
    let merged = plimsoll(&[&["runs", "merge", by_hand.to_str().unwrap(), "--json"], &kept[..]].concat());
    merged.assert_exit(0);
    assert_eq!(count(&merged.json(), "/totals/ok"), REQUESTS);
}
