//! Every file of `experiments/` runs at a small scale, and what it says of its server is so; `make cases` runs them whole and
//! writes `docs/cases.md`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test, a panic is the report; a series says each run as it ends"
)]

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod claims;
mod rows;

use claims::*;
use common::{BIN, command, finish, own_address, plimsoll, without_those_of_tests};
use serde_json::Value;
use std::path::Path;

/// A file of the folder: its name, the flags and texts that make it small, and what must be so.
struct Experiment {
    name: &'static str,
    flags: &'static [&'static str],
    texts: &'static [(&'static str, &'static str)],
    claim: fn(&Value),
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "held",
        flags: &["-c", "20", "-d", "2s"],
        texts: &[("connections >= 200", "connections >= 20")],
        claim: held,
    },
    Experiment {
        name: "spike",
        flags: &[],
        texts: &[("\"10s\"", "\"2s\""), ("\"3s\"", "\"1s\""), ("\"20s\"", "\"4s\"")],
        claim: spike,
    },
    Experiment { name: "nginx", flags: &["-d", "2s"], texts: &[], claim: nginx },
    Experiment { name: "mix", flags: &["-n", "4000"], texts: &[], claim: mix },
    Experiment { name: "two-loads", flags: &["-d", "2s"], texts: &[], claim: two_loads },
    Experiment {
        name: "slow-clients",
        flags: &["-d", "2s"],
        texts: &[
            ("connections = 200", "connections = 20"),
            ("at = \"3s\"", "at = \"500ms\""),
            ("for = \"4s\"", "for = \"1s\""),
        ],
        claim: slow_clients,
    },
    Experiment {
        name: "canary",
        flags: &["-d", "3s"],
        texts: &[("\"timeout 3 plimsoll", "\"timeout 1 plimsoll")],
        claim: canary,
    },
    Experiment { name: "data", flags: &["-d", "2s"], texts: &[], claim: data },
    Experiment { name: "name-service", flags: &["-d", "2s"], texts: &[], claim: name_service },
    Experiment { name: "name-service-crash-fail-fast", flags: &["-d", "3s"], texts: SOON, claim: state_is_lost },
    Experiment { name: "name-service-crash-wait", flags: &["-d", "3s"], texts: SOON, claim: state_is_lost },
    Experiment { name: "name-service-crash-retry", flags: &["-d", "3s"], texts: SOON, claim: retries_are_bounded },
    Experiment { name: "forty-milliseconds", flags: &["-d", "2s"], texts: &[], claim: waits_for_acknowledgements },
    Experiment { name: "sudden-death", flags: &[], texts: &[("200k/s:6s", "200k/s:3s")], claim: died_of_sigpipe },
    Experiment { name: "size-sweep", flags: &["-d", "600ms"], texts: &[], claim: each_wrong_reply_is_another_finding },
    Experiment {
        name: "idle-sweep",
        flags: &["-d", "700ms"],
        texts: &[
            ("    { name = \"thread\", flags = \"thread\" },\n", ""),
            ("    { name = \"prefork of 64\", flags = \"prefork --workers 64\" },\n", ""),
            ("idle = [1, 63, 64, 128]", "idle = [63, 64]"),
        ],
        claim: as_many_silent_clients_as_threads_stop_a_pool,
    },
    Experiment {
        name: "echo-designs",
        flags: &["-d", "300ms", "--warmup", "0s"],
        texts: &[("clients = [1, 64]", "clients = [4]"), ("size = [\"16\", \"4KiB\"]", "size = [\"16\"]")],
        claim: every_design_answers,
    },
    Experiment {
        name: "https-cost",
        flags: &["-d", "600ms", "--warmup", "0s"],
        texts: &[(RSA_2048, ""), (RSA_3072, ""), (P_384, ""), (ED25519, ""), ("clients = [20, 200]", "clients = [20]")],
        claim: a_handshake_costs_more_than_a_request,
    },
    Experiment {
        name: "stress-neighbour",
        flags: &[],
        texts: &[("\"10s\"", "\"1s\""), ("timeout 30s", "timeout 20s"), ("128M", "16M")],
        claim: the_stressor_came_and_went,
    },
    Experiment {
        name: "long-connections",
        flags: &["-c", "2000", "-d", "2s"],
        texts: &[("100000", "2000"), ("-c 100k", "-c 2k"), ("127.0.0.1:7780-7784", "127.0.0.1:{port}-{port4}")],
        claim: all_are_held_in_little_memory,
    },
    Experiment {
        name: "name-service-policies",
        flags: &["-d", "1200ms"],
        texts: &[
            ("at = \"2s\"", "at = \"500ms\""),
            ("client = [\"fail-fast\", \"wait\", \"retry:5:10ms:50%\"]", "client = [\"fail-fast\", \"wait\"]"),
            ("server = [\"fail-fast\", \"wait\", \"retry:5:10ms\"]", "server = [\"fail-fast\", \"wait\"]"),
        ],
        claim: a_server_that_waits_hides_its_crash,
    },
    Experiment {
        name: "proxy-memory",
        flags: &[],
        texts: &[
            ("800mbit 26", "200mbit 4"),
            ("connections = 40\nrequests = 40", "connections = 8\nrequests = 8"),
            ("after = \"3s\"", "after = \"200ms\""),
            ("proxy = [\"nginx\", \"plimsoll\"]", "proxy = [\"nginx\"]"),
            ("    { name = \"cache\", buffering = \"cache\", sizes = \"16 32k\" },\n", ""),
        ],
        claim: buffers_are_what_a_proxy_takes,
    },
    Experiment {
        name: "proxy-swap",
        flags: &["--after", "200ms"],
        texts: &[
            ("\"256MiB\"", "\"48MiB\""),
            ("400mbit 26", "400mbit 8"),
            (" 1024\"", " 256\""),
            ("connections = 40", "connections = 20"),
            ("\"0.5/s\"\nfor = \"10s\"", "\"1/s\"\nfor = \"1s\""),
            ("\"8/s\"\nfor = \"5s\"", "\"20/s\"\nfor = \"1s\""),
            ("\"0.5/s\"\nfor = \"30s\"", "\"1/s\"\nfor = \"2s\""),
        ],
        claim: what_did_not_fit_was_swapped,
    },
    Experiment {
        name: "name-service-crash-durable",
        flags: &["-d", "3s"],
        texts: &[SOON[0], ("/tmp/plimsoll-names.journal", "names.journal")],
        claim: state_is_kept,
    },
];

const RSA_2048: &str = "    { name = \"rsa-2048\", scheme = \"https\", tls = \"--tls --tls-resume off --tls-key rsa-2048\", insecure = \"true\", resume = \"off\" },\n";
const ED25519: &str = "    { name = \"ed25519\", scheme = \"https\", tls = \"--tls --tls-resume off --tls-key ed25519\", insecure = \"true\", resume = \"off\" },\n";
const RSA_3072: &str = "    { name = \"rsa-3072\", scheme = \"https\", tls = \"--tls --tls-resume off --tls-key rsa-3072\", insecure = \"true\", resume = \"off\" },\n";
const P_384: &str = "    { name = \"p-384\", scheme = \"https\", tls = \"--tls --tls-resume off --tls-key p-384\", insecure = \"true\", resume = \"off\" },\n";

/// The crash, so early that a short run has something to read after it.
const SOON: &[(&str, &str)] = &[("at = \"10s\"", "at = \"1s\"")];

/// What an experiment needs and is not here.
fn missing(name: &str) -> Option<String> {
    let (programs, is_root): (&[&str], bool) = match name {
        "nginx" => (&["nginx"], false),
        "data" => (&["python3"], false),
        "stress-neighbour" => (&["stress-ng"], false),
        "long-connections" => (&[], true),
        "proxy-memory" => (&["nginx", "ip", "tc"], true),
        "proxy-swap" => (&["nginx", "ip", "tc", "mkswap", "swapon"], true),
        _ => (&[], false),
    };
    if is_root && !testkit::is_root() {
        return Some("it needs root".to_owned());
    }
    let program = programs.iter().find(|program| testkit::program(program).is_none())?;
    Some(format!("{program} is not installed"))
}

/// A command that finds this build's program by its name, as whoever installed it does.
fn with_own_path(command: &mut std::process::Command) -> &mut std::process::Command {
    let own = Path::new(BIN).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(own.to_owned()).chain(std::env::split_paths(&path));
    without_those_of_tests(command).env("PATH", std::env::join_paths(all).unwrap())
}

/// The file with other ports, so that tests do not meet; programs are those of this build.
fn small(experiment: &Experiment, root: &Path, folder: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(root.join("experiments").join(name)).unwrap();
    let (mut text, mut conf) = (read(&format!("{}.toml", experiment.name)), read("nginx.conf"));
    let port = testkit::nginx::free_address().unwrap().port().to_string();
    for (from, to) in experiment.texts {
        assert!(text.contains(from), "{}: '{from}'", experiment.name);
        text = text.replace(from, to);
    }
    if let Some(written) = (7790..7800).map(|port: u16| port.to_string()).find(|port| text.contains(port)) {
        text = text.replace(&written, &port);
        conf = conf.replace(&written, &port);
    }
    // Several in a row, at an address that no other test has.
    text = text.replace("127.0.0.1:{port}-{port4}", &format!("{}:7780-7784", own_address(1)));
    let files = folder.join("experiments");
    std::fs::create_dir(&files).unwrap();
    for name in ["shop.py", "shop-requests.toml", "users.csv", "proxy.sh"] {
        std::fs::write(files.join(name), read(name)).unwrap();
    }
    std::fs::write(files.join("nginx.conf"), conf).unwrap();
    text
}

#[test]
fn every_experiment_has_its_claim() {
    let root = testkit::workspace();
    let mut files: Vec<String> = std::fs::read_dir(root.join("experiments"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-requests.toml"))
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    files.sort();
    let mut known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    known.sort_unstable();
    assert_eq!(files, known, "each file has its claim here");
}

// Every experiment runs and its claim holds: in four parts beside each other, as most experiments wait more than they work.
#[test]
fn a_quarter_runs_and_its_claims_hold() {
    hold(0);
}

#[test]
fn a_second_quarter_runs_and_its_claims_hold() {
    hold(1);
}

#[test]
fn a_third_quarter_runs_and_its_claims_hold() {
    hold(2);
}

#[test]
fn the_last_quarter_runs_and_its_claims_hold() {
    hold(3);
}

/// The one that is a script.
#[test]
fn two_generators_have_one_result() {
    let folder = tempfile::tempdir().unwrap();
    let port = testkit::nginx::free_address().unwrap().port().to_string();
    let text = std::fs::read_to_string(testkit::workspace().join("experiments/two-generators.sh")).unwrap();
    let script = folder.path().join("two-generators.sh");
    std::fs::write(&script, text.replace("7789", &port)).unwrap();
    let mut command = std::process::Command::new("sh");
    command.arg(&script).args(["1", "--json"]).env("XDG_STATE_HOME", folder.path());
    let run = finish(with_own_path(&mut command));
    assert!(matches!(run.status, Some(0 | 4)), "{:?}\n{}", run.status, run.stderr);
    result_is_of_both(&run.json());
}

/// As many as there are tests that hold one.
const PARTS: usize = 4;

/// Runs every fourth experiment, from this one on.
fn hold(first: usize) {
    let root = testkit::workspace();
    for experiment in EXPERIMENTS.iter().skip(first).step_by(PARTS) {
        if let Some(missing) = missing(experiment.name) {
            testkit::skip(&format!("{}: {missing}", experiment.name));
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("experiment.toml");
        std::fs::write(&file, small(experiment, root, folder.path())).unwrap();
        let begun = std::time::Instant::now();
        let words = [&["run", file.to_str().unwrap()], experiment.flags, &["--json", "-q"]].concat();
        let run =
            finish(with_own_path(&mut command(&words)).current_dir(folder.path()).env("XDG_STATE_HOME", folder.path()));
        println!("{}: {} ms", experiment.name, begun.elapsed().as_millis());
        // What the tests beside it took of the CPU may make a bound missed, or the result not valid: the claim is looked at.
        assert!(matches!(run.status, Some(0 | 3 | 4)), "{}: {:?}\n{}", experiment.name, run.status, run.stderr);
        (experiment.claim)(&run.json());
        leave_page(experiment.name, &folder.path().join("plimsoll/runs"));
    }
}

/// Leaves the page of the experiment's last recording where `make test-web` opens it in a browser.
fn leave_page(name: &str, runs: &Path) {
    let recordings = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path());
    let last =
        recordings.filter(|path| path.extension().is_some_and(|extension| extension == "plimsoll")).max().unwrap();
    let pages = testkit::workspace().join("target/pages");
    std::fs::create_dir_all(&pages).unwrap();
    let page = pages.join(format!("experiment-{name}.html"));
    plimsoll(&["report", last.to_str().unwrap(), "--html", page.to_str().unwrap()]).assert_exit(0);
}
