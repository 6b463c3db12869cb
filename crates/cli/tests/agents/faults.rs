//! Faults of a load that agents put on: done where the command is, told on the agents' clock, undone with the load; and what is known of
//! them when the command is killed.

use super::common::*;
use super::*;
use std::time::Duration;
use testkit::port::Reserved;

fn s_of(fault: &Value, name: &str) -> f64 {
    fault[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {fault:#}"))
}

/// A process that a signal has stopped (proc(5), the third field of stat).
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

#[test]
fn what_the_command_does_to_the_target_is_in_the_agents_figures_at_its_time() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = ["--rate", "400", "-d", "3s", "-c", "4", "--tick", "100ms", "--fault", "stop target@1s:700ms"];
    let run = finish(&mut place.load(&server.url, "2", &load));
    run.assert_measured();
    let document = run.json();
    let fault = &document["faults"][0];
    assert_eq!((&fault["name"], &fault["state"]), (&"stop".into(), &"undone".into()), "{fault:#}");
    let (from_s, to_s) = (s_of(fault, "at_s") + s_of(fault, "took_ms") / 1e3, s_of(fault, "undone_at_s"));
    assert!(from_s >= 1.0 && to_s >= 1.7, "{fault:#}");
    // Within it nothing was answered to either agent. Their clocks are one here, and lie within the bound that is said.
    let bound_s = generators(&document).iter().map(|one| s_of(one, "offset_bound_ns") / 1e9).fold(0.0, f64::max);
    let rows = document["intervals"].as_array().unwrap();
    let is_within = |row: &&Value| {
        let start_s = s_of(row, "t_s");
        start_s >= from_s + bound_s && start_s + s_of(row, "length_s") <= to_s - bound_s
    };
    let within: Vec<&Value> = rows.iter().filter(is_within).collect();
    assert!(!within.is_empty(), "{fault:#}");
    assert!(within.iter().all(|row| row["requests"] == 0), "{within:#?}");
    assert_eq!(count(&document, "/totals/ok"), 1200, "it went on after it");
    let kinds: Vec<&str> =
        document["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    let position =
        |kind: &str| kinds.iter().position(|one| *one == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"));
    assert!(position("fault-began") < position("fault-undone"), "{kinds:?}");
    let text = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap()]).stdout;
    assert!(text.contains("stop target"), "{text}");
}

#[test]
fn a_fault_without_an_end_is_undone_with_the_load_and_one_that_cannot_be_is_refused_before_it() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let pid = server.process.pid();
    let _agent = place.agent("a", &["--cores", "1"]);
    let load = ["-c", "1", "--rate", "100", "-d", "1s", "--drain", "100ms", "--fault", "stop target@600ms"];
    let run = finish(&mut place.load(&server.url, "1", &load));
    assert_eq!(run.json()["faults"][0]["state"], "undone", "{:#}", run.json()["faults"]);
    assert!(!is_stopped(pid));
    std::fs::remove_file(place.file("all.plimsoll")).unwrap();
    let nobody = format!("stop port:{}@100ms:100ms", Reserved::new().unwrap().address().port());
    let refused = finish(&mut place.load(&server.url, "1", &["-d", "1s", "--fault", &nobody]));
    refused.assert_exit(1);
    assert!(refused.stderr.contains(nobody.split('@').next().unwrap()), "{}", refused.stderr);
    assert!(!place.file("all.plimsoll").exists());
}

#[test]
fn of_a_command_that_is_killed_the_next_one_knows_its_faults_and_they_are_undone_by_hand() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let pid = server.process.pid();
    let _agent = place.agent("a", &["--cores", "1"]);
    let load = ["-c", "1", "--rate", "100", "-d", "4s", "--drain", "100ms", "--fault", "stop target@500ms:60s"];
    let mut first = place.begin(&server.url, "1", &load);
    let run = place.run();
    wait_until("the target stands", || is_stopped(pid));
    // Until what it did is said in the stream.
    std::thread::sleep(Duration::from_millis(500));
    first.signal(9);
    first.wait(testkit::HANG_GUARD).unwrap();
    assert!(is_stopped(pid), "nobody undoes it by itself");
    let out = place.file("second.plimsoll");
    let second = finish(&mut place.command(&["attach", &run, "--json", "--record", out.to_str().unwrap()]));
    let document = second.json();
    let fault = &document["faults"][0];
    assert_eq!((&fault["name"], &fault["state"]), (&"stop".into(), &"done".into()), "{fault:#}");
    assert!(s_of(fault, "at_s") >= 0.5, "{fault:#}");
    let journal = |word: &str| {
        let mut command = command(&["fault", word]);
        finish(command.env("XDG_STATE_HOME", place.folder.path()))
    };
    assert!(journal("list").stdout.contains(&pid.to_string()), "{}", journal("list").stdout);
    journal("undo").assert_exit(0);
    assert!(!is_stopped(pid));
}

#[test]
fn a_target_is_started_here_for_a_load_of_agents_started_again_by_a_fault_and_ended() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let _agent = place.agent("a", &["--cores", "1"]);
    let port = Reserved::new().unwrap();
    let address = port.address();
    let file = place.file("started.toml");
    let scenario = format!(
        "[target]\ncommand = \"{BIN} serve http --listen {address}\"\n\n[load]\nurl = \"http://{address}/\"\nconnections = 2\n\
         rate = \"200/s\"\nduration = \"2s\"\non-error = \"wait\"\n\n[[fault]]\nfault = \"restart target kill\"\nat = \"700ms\"\nfor = \"200ms\"\n"
    );
    std::fs::write(&file, scenario).unwrap();
    drop(port);
    let out = place.file("all.plimsoll");
    let args = ["run", file.to_str().unwrap(), "--agents", "1", "--json", "--record", out.to_str().unwrap()];
    let run = finish(&mut place.command(&args));
    let document = run.json();
    assert_eq!(document["faults"][0]["state"], "undone", "{:#}\n{}", document["faults"], run.stderr);
    let undone_s = s_of(&document["faults"][0], "undone_at_s");
    let after = document["intervals"].as_array().unwrap().iter().filter(|row| s_of(row, "t_s") > undone_s);
    assert!(after.map(|row| row["requests"].as_u64().unwrap()).sum::<u64>() > 0, "{:#}", document["intervals"]);
    assert!(TcpStream::connect(address).is_err(), "the target is ended");
}
