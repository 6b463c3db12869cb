//! `serve http` under the load generators that people use: ab, wrk and h2load count what it counts, and find nothing wrong.

use crate::common::Running;
use servers::ServeOptions;
use servers::http::HttpOptions;
use std::process::Command;

const REQUESTS: u64 = 2000;

/// What a generator printed about a folder with one file, and what the server counted; `None` where it is not installed.
fn load(name: &str, args: impl Fn(&str) -> Vec<String>) -> Option<(String, u64)> {
    let Some(program) = testkit::program(name) else {
        testkit::skip(&format!("{name} is not installed: scripts/packages.sh test"));
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), [b'x'; 1024]).unwrap();
    let http = HttpOptions { root: Some(folder.path().to_owned()), ..HttpOptions::default() };
    let server = Running::http(ServeOptions { workers: 2, ..ServeOptions::default() }, http);
    let url = format!("http://{}/file", server.addrs[0]);
    let output = Command::new(program).args(args(&url)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    let counters = server.finish();
    assert_eq!((counters.refused, counters.send_error, counters.work_error), (0, 0, 0), "{counters:?}");
    Some((said, counters.requests))
}

fn words(text: &str, url: &str) -> Vec<String> {
    text.split(' ').map(|word| if word == "URL" { url.to_owned() } else { word.to_owned() }).collect()
}

#[test]
fn ab_with_and_without_keep_alive() {
    for line in ["-q -k -c 8 -n 2000 URL", "-q -c 8 -n 2000 URL"] {
        let Some((said, requests)) = load("ab", |url| words(line, url)) else { return };
        assert_eq!(requests, REQUESTS, "{said}");
        for part in ["Complete requests:      2000", "Failed requests:        0", "Document Length:        1024 bytes"]
        {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    }
}

#[test]
fn h2load_over_http1() {
    let Some((said, requests)) = load("h2load", |url| words("--h1 -c 8 -n 2000 -m 4 URL", url)) else { return };
    assert_eq!(requests, REQUESTS, "{said}");
    assert!(said.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
    assert!(said.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{said}");
}

#[test]
fn wrk_finds_no_error() {
    let Some((said, requests)) = load("wrk", |url| words("-t1 -c8 -d1s URL", url)) else { return };
    let completed =
        said.lines().find_map(|line| line.trim().split_once(" requests in")?.0.parse::<u64>().ok()).unwrap();
    // Those under way at its end were answered and not counted by it.
    assert!((completed..=completed + 8).contains(&requests), "{requests} answered: {said}");
    assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{said}");
}
