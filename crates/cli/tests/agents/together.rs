//! Several loads, and a canary, with agents: each load has agents of its own, all begin at one moment, the canary is asked by the command.

use super::common::*;
use super::*;
use std::time::{Duration, Instant};
use testkit::port::Reserved;

/// Runs a file with agents; its recordings are beside it.
fn run(place: &Place, agents: &str, text: &str) -> Command {
    let file = place.file("scenario.toml");
    std::fs::write(&file, text).unwrap();
    let out = place.file("all.plimsoll");
    let args = ["run", file.to_str().unwrap(), "--agents", agents, "--json", "--record", out.to_str().unwrap()];
    place.command(&args)
}

fn of<'d>(document: &'d Value, name: &str) -> &'d Value {
    let loads = document["loads"].as_array().unwrap_or_else(|| panic!("{document:#}"));
    loads.iter().find(|load| load["name"] == name).unwrap_or_else(|| panic!("{name}: {loads:#?}"))
}

fn open_runs(place: &Place) -> Vec<String> {
    let run = finish(&mut place.command(&["attach"]));
    run.stdout.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

#[test]
fn two_loads_and_a_canary_begin_together_with_agents_of_their_own() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let (server, echo) = (serve_http(&[]), serve(&["serve", "echo", "--listen", "127.0.0.1:0"]));
    let _agents = place.agents(&["a", "b", "c"]);
    let text = format!(
        "[[load]]\nname = \"steady\"\nurl = \"{http}\"\nrate = \"200/s\"\nconnections = 4\nduration = \"2s\"\n\
         [[load]]\nname = \"counted\"\nmain = true\nurl = \"{echo}\"\nrequests = 300\nconnections = 2\n\
         [canary]\nurl = \"{http}\"\nevery = \"100ms\"\n",
        http = server.url,
        echo = echo.url
    );
    let ended = finish(&mut run(&place, "3", &text));
    ended.assert_measured();
    let document = ended.json();
    // The main one has the agent more.
    assert_eq!((&document["load"], count(&document, "/totals/ok")), (&"counted".into(), 300), "{}", ended.stderr);
    let steady = &of(&document, "steady")["report"];
    assert_eq!(count(steady, "/totals/ok"), 400, "{}", ended.stderr);
    let names = |document: &Value| -> Vec<String> {
        generators(document).iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let (of_main, of_steady) = (names(&document), names(steady));
    assert_eq!((of_main.len(), of_steady.len()), (2, 1), "{of_main:?} {of_steady:?}");
    assert!(of_steady.iter().all(|name| !of_main.contains(name)), "{of_main:?} {of_steady:?}");
    let canary = &of(&document, "canary")["canary"];
    let (asked, answered) = (count(canary, "/asked"), count(canary, "/answered"));
    assert!((15..=40).contains(&asked) && answered == asked, "{canary:#}");
    // The files say the same, and NATS has nothing of it any more.
    let again = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap(), "--json"]).json();
    assert_eq!(of(&again, "steady")["report"]["totals"], steady["totals"]);
    assert_eq!(of(&again, "canary")["canary"], *canary);
    let text = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap()]).stdout;
    assert!(text.contains("the main one is 'counted'") && text.contains("Load 'steady'"), "{text}");
    assert_eq!(open_runs(&place), [""; 0]);
}

#[test]
fn a_canary_sees_what_a_fault_does_while_agents_put_the_load_on() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let fault = ["--fault", "stop target@1s:700ms"];
    let load = ["--rate", "100", "-d", "3s", "-c", "4", "--canary", &server.url, "--canary-every", "50ms"];
    let ended = finish(&mut place.load(&server.url, "2", &[&load[..], &fault].concat()));
    ended.assert_measured();
    let document = ended.json();
    assert_eq!(document["faults"][0]["state"], "undone", "{:#}", document["faults"]);
    assert_eq!(generators(&document).len(), 2);
    let canary = of(&document, "canary");
    let slowest_ms = canary["canary"]["slowest_ms"].as_f64().unwrap_or_else(|| panic!("{canary:#}"));
    assert!(slowest_ms > 500.0 && count(&canary["canary"], "/answered") > 20, "{:#}", canary["canary"]);
    assert_eq!(generators_of(&canary["report"]), 0, "it is this command's own");
}

fn generators_of(document: &Value) -> usize {
    document["generators"]["generators"].as_array().map_or(0, Vec::len)
}

#[test]
fn no_load_begins_before_all_have_their_agents_and_each_is_told_of_faults() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _first = place.agent("a", &["--cores", "1"]);
    let load = |name: &str| {
        let url = &server.url;
        format!("[[load]]\nname = \"{name}\"\nurl = \"{url}\"\nrate = \"100/s\"\nconnections = 1\nduration = \"2s\"\n")
    };
    let fault = "[[fault]]\nfault = \"stop target\"\nat = \"500ms\"\nfor = \"300ms\"\n";
    let (out, said) = (File::create(place.file("out")).unwrap(), File::create(place.file("said")).unwrap());
    let text = load("one") + &load("other") + fault;
    let command = Guard::spawn(run(&place, "2", &text).stdout(out).stderr(said)).unwrap();
    wait_until("the first load has its agent", || place.listed().iter().any(|one| one["state"] != "idle"));
    // Alone it would have begun by then: from the command to the first request pass some 0.5 s.
    std::thread::sleep(Duration::from_secs(2));
    assert!(place.listed().iter().all(|one| one["state"] != "running"), "{:?}", place.listed());
    let _second = place.agent("b", &["--cores", "1"]);
    let document = place.ended(command).json();
    let other = &of(&document, "other")["report"];
    for report in [&document, other] {
        assert_eq!(count(report, "/totals/ok"), 200, "{report:#}");
        let kinds: Vec<&Value> = report["events"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
        for kind in ["fault-began", "fault-undone"] {
            assert_eq!(kinds.iter().filter(|one| **one == kind).count(), 1, "done once: {kinds:?}");
        }
    }
}

#[test]
fn a_load_that_ends_the_run_ends_the_others_too() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let nobody = Reserved::new().unwrap();
    let _agents = place.agents(&["a", "b"]);
    let text = format!(
        "[[load]]\nname = \"long\"\nurl = \"{}\"\nrate = \"50/s\"\nconnections = 1\nduration = \"100s\"\n\
         [[load]]\nname = \"failing\"\nurl = \"http://{}/\"\nrate = \"50/s\"\nconnections = 1\nduration = \"100s\"\n\
         give-up = \"never\"\nabort-when = \"errors > 50 % for 500ms\"\ntick = \"100ms\"\n",
        server.url,
        nobody.address()
    );
    let began = Instant::now();
    let ended = finish(&mut run(&place, "2", &text));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let document = ended.json();
    let kinds = |document: &Value| -> Vec<String> {
        let events = document["events"].as_array().unwrap();
        events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert!(kinds(&document).contains(&"ended-together".to_owned()), "{:#}", document["events"]);
    let failing = &of(&document, "failing")["report"];
    assert!(kinds(failing).contains(&"aborted".to_owned()), "{:#}", failing["events"]);
    assert!(count(&document, "/totals/ok") > 0);
}

#[test]
fn where_one_load_cannot_be_put_on_none_is() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let two = |other: &str, more: &str| {
        format!(
            "[[load]]\nname = \"one\"\nurl = \"{}\"\nrate = \"50/s\"\nconnections = 1\nduration = \"1s\"\n\
             [[load]]\nname = \"other\"\nurl = \"{other}\"\nrate = \"50/s\"\nconnections = 1\nduration = \"1s\"\n{more}",
            server.url
        )
    };
    let too_few = finish(&mut run(&place, "1", &two(&server.url, "")));
    too_few.assert_exit(2);
    assert!(too_few.stderr.contains("an agent for each of the 2 loads"), "{}", too_few.stderr);
    let repeated = finish(&mut run(&place, "1", &format!("repeats = 2\n{}", two(&server.url, ""))));
    repeated.assert_exit(2);
    assert!(repeated.stderr.contains("an agent for each of the 2 loads"), "{}", repeated.stderr);
    // Nobody allowed a load there: agents refuse to put it on.
    let forbidden = finish(run(&place, "2", &two("http://192.0.2.7:9/", "")).args(["--agents-wait", "0s"]));
    forbidden.assert_exit(1);
    assert!(forbidden.stderr.contains("192.0.2.7"), "the reason is that load's own: {}", forbidden.stderr);
    assert!(!place.file("all.plimsoll").exists(), "{}\n{}", forbidden.stderr, forbidden.stdout);
    assert_eq!(open_runs(&place), [""; 0]);
    wait_until("the agents are free again", || place.listed().iter().all(|one| one["state"] == "idle"));
}

#[test]
fn of_a_command_that_is_killed_each_load_can_be_taken_over() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = |name: &str| {
        format!(
            "[[load]]\nname = \"{name}\"\nurl = \"{}\"\nrate = \"50/s\"\nconnections = 1\nduration = \"3s\"\n",
            server.url
        )
    };
    let text = load("one") + &load("other") + &format!("[canary]\nurl = \"{}\"\n", server.url);
    let said = File::create(place.file("said")).unwrap();
    let mut command = Guard::spawn(run(&place, "2", &text).stdout(Stdio::null()).stderr(said)).unwrap();
    place.until_running("a");
    place.until_running("b");
    command.signal(9);
    command.wait(testkit::HANG_GUARD).unwrap();
    let runs = open_runs(&place);
    assert_eq!(runs.len(), 2, "{runs:?}");
    for (number, run) in runs.iter().enumerate() {
        let out = place.file(&format!("taken-{number}.plimsoll"));
        let taken = finish(&mut place.command(&["attach", run, "--json", "--record", out.to_str().unwrap()]));
        assert_whole(&taken, 1, 150);
    }
}

#[test]
fn several_loads_and_a_canary_are_put_on_again_and_in_variants() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _first = place.agents(&["a"]);
    let url = &server.url;
    let load = |name: &str, rate: &str| {
        format!("[[load]]\nname = \"{name}\"\nurl = \"{url}\"\nrate = \"{rate}\"\nconnections = 2\nduration = \"1s\"\n")
    };
    let text = format!(
        "repeats = 2\n[vary]\nrate = [\"100/s\", \"200/s\"]\n{}{}[canary]\nurl = \"{url}\"\nevery = \"50ms\"\n",
        load("one", "{rate}"),
        load("other", "50/s")
    );
    // Asked not to wait for agents, a series does all the same, as they come back from the run before: so one that comes late is had.
    let mut series = run(&place, "2", &text);
    series.args(["--agents-wait", "0s"]);
    let (ended, _late) = std::thread::scope(|scope| {
        let ended = scope.spawn(|| finish(&mut series));
        std::thread::sleep(Duration::from_secs(1));
        let late = place.agents(&["b"]);
        (ended.join().unwrap(), late)
    });
    assert!(matches!(ended.status, Some(0 | 4)), "{}{}", ended.stdout, ended.stderr);
    let document = ended.json();
    let variants = document["variants"].as_array().unwrap_or_else(|| panic!("{document:#}\n{}", ended.stderr));
    let made: Vec<&Value> = variants.iter().map(|one| &one["repeats"]["made"]).collect();
    assert_eq!(made, [2, 2], "{document:#}");
    assert_eq!(variants[0]["repeats"]["loads"].as_array().map(Vec::len), Some(3), "{document:#}");
    let of_each: Vec<u64> = ["all-1-1", "all-2-1", "all-2-2", "all-1-2"]
        .iter()
        .map(|name| {
            let path = place.file(&format!("{name}.plimsoll"));
            let document = plimsoll(&["report", path.to_str().unwrap(), "--json"]).json();
            assert_eq!(generators(&document).len(), 1, "{name}");
            assert_eq!(count(&of(&document, "other")["report"], "/totals/ok"), 50, "{name}");
            count(&document, "/totals/ok")
        })
        .collect();
    assert_eq!(of_each, [100, 200, 200, 100]);
    assert_eq!(open_runs(&place), [""; 0]);
}
