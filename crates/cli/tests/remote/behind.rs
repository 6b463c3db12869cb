//! A machine behind the target, observed too: what the target waits for is gone on with to what was found there.

use crate::common::*;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;
use testkit::nginx::Nginx;
use testkit::process::Guard;

const TOKEN: &str = "a-token-for-tests-0123456789";

/// nginx, a server behind it, and an observer that looks at whatever it is asked for.
struct Chain {
    nginx: Nginx,
    backend: Server,
    at: String,
    _observer: Guard,
    _folder: TempDir,
}

impl Chain {
    fn new(defect: &str) -> Option<Self> {
        if testkit::program("nginx").is_none() {
            testkit::skip("nginx is not installed (scripts/packages.sh test)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let backend = serve_http(&["--defect", defect]);
        let address = backend.url.trim_start_matches("http://").trim_end_matches('/');
        let nginx = Nginx::start(&format!(
            "location / {{ proxy_pass http://{address}; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}"
        ));
        let said: PathBuf = folder.path().join("said");
        let mut watch = command(&["watch", "--serve", "127.0.0.1:0"]);
        watch.env("PLIMSOLL_TOKEN", TOKEN).stdout(File::create(&said).unwrap()).stderr(Stdio::null());
        let observer = Guard::spawn(&mut watch).unwrap();
        let at = testkit::wait_for("the observer says where it is", || {
            let text = std::fs::read_to_string(&said).ok()?;
            Some(text.lines().next()?.rsplit(' ').next()?.to_owned())
        });
        Some(Chain { nginx: nginx.unwrap(), backend, at, _observer: observer, _folder: folder })
    }

    /// The port of the server behind.
    fn port(&self) -> &str {
        self.backend.url.trim_end_matches('/').rsplit(':').next().unwrap()
    }

    fn load(&self, behind: &str, more: &[&str]) -> Run {
        let url = format!("http://{}/", self.nginx.address());
        let args = ["load", &url, "--tick", "200ms", "--json", "--no-record", "--behind", behind];
        finish(command(&[&args[..], more].concat()).env("PLIMSOLL_TOKEN", TOKEN))
    }
}

#[test]
fn what_a_target_waits_for_is_gone_on_with_to_what_was_found_there() {
    let Some(chain) = Chain::new("single-thread=3ms") else { return };
    let run = chain.load(&format!("{}={}", chain.at, chain.port()), &["-c", "16", "-d", "4s"]);
    run.assert_measured();
    let gives = run.json()["gives"].clone();
    let text = gives["text"].as_str().unwrap();
    assert_eq!(gives["finding"], "backend-wait", "{gives:#}");
    // Beside other tests its only thread may want the whole of a core and not get it.
    let found = gives["behind"]["finding"].as_str();
    let is_full = text.contains("so it is near its limit, or others keep it from running");
    let full = ["single-thread-bound", "cpu-saturated", "cpu-contention", "neighbour"];
    assert!(found.map_or(is_full, |found| full.contains(&found)), "{gives:#}");
    assert!(text.contains(&format!("; at {}, watched as a target of its own: ", chain.at)), "{text}");
    let events = run.json()["events"].clone();
    assert!(events.as_array().unwrap().iter().any(|event| event["kind"] == "behind"), "{events:#}");
}

/// Where limits are set for every process, as in a cluster, it is often one of them.
#[test]
fn a_quota_that_stops_the_server_behind_is_found_there() {
    if !testkit::is_root() {
        testkit::skip("a quota needs root");
        return;
    }
    let Some(chain) = Chain::new("single-thread=3ms") else { return };
    let mut limit = limited(chain.backend.process.pid(), "0.25");
    let run = chain.load(&format!("{}={}", chain.at, chain.port()), &["-c", "16", "-d", "4s"]);
    limit.signal(libc::SIGINT);
    limit.wait(testkit::HANG_GUARD);
    run.assert_measured();
    let gives = run.json()["gives"].clone();
    assert_eq!(
        (&gives["finding"], &gives["behind"]["finding"]),
        (&"backend-wait".into(), &"cpu-throttled".into()),
        "{gives:#}"
    );
    assert!(gives["text"].as_str().unwrap().contains("a CPU quota stops the target"), "{gives:#}");
}

#[test]
fn a_machine_behind_that_nobody_waits_for_is_not_in_the_first_line_and_one_out_of_reach_is_said_before_any_load() {
    let Some(chain) = Chain::new("cpu-heavy=1us") else { return };
    let behind = format!("{}={}", chain.at, chain.port());
    let run = chain.load(&behind, &["-c", "4", "--rate", "100", "-d", "2s"]);
    run.assert_measured();
    let gives = run.json()["gives"].clone();
    assert!(gives.get("behind").is_none() && !gives["text"].as_str().unwrap().contains(&chain.at), "{gives:#}");
    let nobody = chain.load(&format!("{}=1", chain.at), &["-d", "1s"]);
    nobody.assert_exit(1);
    let nowhere = chain.load("127.0.0.1:1", &["-d", "1s", "--observe-wait", "0s"]);
    nowhere.assert_exit(1);
    assert!(nowhere.stderr.contains("127.0.0.1:1"), "{}", nowhere.stderr);
    for wrong in ["127.0.0.1:1=0", "127.0.0.1:1=x", "web"] {
        chain.load(wrong, &["-d", "1s"]).assert_exit(2);
    }
}
