//! The target's machine, read by one of the agents: at an address, or over NATS where there is no other way.

use super::common::*;
use super::*;
use std::time::Duration;

const TOKEN: &str = "a-token-for-tests-0123456789";

/// An observer may be called as its machine is; a dot is nothing that a subject of NATS could have in a word.
const WEB: &str = "web-1.eu.example";
const AT: &str = "nats:web-1.eu.example";

/// A target, and an observer of it that is had over NATS too.
struct Observed {
    server: Server,
    /// `HOST:PORT` of the observer.
    at: String,
    _observer: Guard,
}

impl Observed {
    /// `HOST:PORT` of the target.
    fn address(&self) -> &str {
        self.server.url.trim_start_matches("http://").trim_end_matches('/')
    }
}

fn with_token(mut command: Command) -> Command {
    command.env("PLIMSOLL_TOKEN", TOKEN);
    command
}

fn observed(place: &Place, name: &str) -> Observed {
    let server = serve_http(&[]);
    let mut watch = with_token(place.command(&["watch", "--serve", "127.0.0.1:0", "--name", name]));
    let said = place.file(&format!("{name}.said"));
    let observer = Guard::spawn(watch.stdout(File::create(&said).unwrap()).stderr(Stdio::null())).unwrap();
    let at = testkit::wait_for("the observer says where it is", || {
        let text = std::fs::read_to_string(&said).ok()?;
        text.contains(&format!("--observe-at nats:{name} --nats {}", place.url)).then_some(())?;
        Some(text.lines().next()?.rsplit(' ').next()?.to_owned())
    });
    Observed { server, at, _observer: observer }
}

/// Two agents that may put load on this target, and go nowhere else.
fn agents(place: &Place, observed: &Observed, token: Option<&str>) -> Vec<Guard> {
    let allowed = observed.address();
    let agent = |name: &&str| {
        let mut command = place.command(&["agent", "--name", name, "--cores", "1", "--allow-target", allowed]);
        command.env_remove("PLIMSOLL_TOKEN");
        place.agent_as(name, if token.is_some() { with_token(command) } else { command })
    };
    ["a", "b"].iter().map(agent).collect()
}

/// The readings of a run are the observer's.
fn assert_observed(document: &Value, at: &str) {
    let remote = &document["observed"]["remote"];
    assert_eq!(remote["address"], at, "{remote:#}");
    assert!(count(remote, "/exchanges") >= 9, "{remote:#}");
    assert!(document["observed"]["target"].as_array().is_some_and(|all| !all.is_empty()), "{:#}", document["observed"]);
}

#[test]
fn one_of_the_agents_reads_the_targets_machine_where_its_owner_allows_that() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let observed = observed(&place, WEB);
    let agents = agents(&place, &observed, Some(TOKEN));
    let load = |observer: &str, more: &[&str]| {
        let base = ["--rate", "200", "-d", "2s", "-c", "4", "--tick", "200ms", "--observe-at", observer];
        finish(&mut with_token(place.load(&observed.server.url, "2", &[&base, more].concat())))
    };
    let refused = load(&observed.at, &["--agents-wait", "0s"]);
    refused.assert_exit(1);
    assert!(refused.stderr.contains(&format!("and not the observer at {}", observed.at)), "{}", refused.stderr);
    let nowhere = load("nats:db", &["--observe-wait", "0s"]);
    nowhere.assert_exit(1);
    assert!(nowhere.stderr.contains(&format!("none of the name 'db' answers (there are {WEB})")), "{}", nowhere.stderr);
    wait_until("both are idle", || place.listed().iter().all(|one| one["state"] == "idle"));
    let behind = format!("{AT}={}", observed.address().rsplit(':').next().unwrap());
    let over_nats = load(AT, &["--after", "1s", "--behind", &behind]);
    let document = assert_whole(&over_nats, 2, 400);
    let events = document["events"].as_array().unwrap();
    let has = |kind: &str| events.iter().any(|event| event["kind"] == kind);
    assert!(has("behind") && has("load-ended"), "{events:#?}");
    assert_observed(&document, AT);
    assert!(generators(&document).iter().any(|one| one["name"] == "a" && one["has_readings"] == true));
    drop(agents);
    let own = format!("{},{}", observed.address(), observed.at);
    let _near = place.agent_as("n", with_token(place.command(&["agent", "--name", "n", "--allow-target", &own])));
    std::fs::remove_file(place.file("all.plimsoll")).unwrap();
    let base = ["--rate", "200", "-d", "2s", "-c", "4", "--tick", "200ms", "--observe-at", &observed.at];
    let direct = finish(&mut with_token(place.load(&observed.server.url, "1", &base)));
    assert_observed(&assert_whole(&direct, 1, 400), &observed.at);
}

#[test]
fn an_observer_is_had_over_nats_by_one_process_too_and_comes_back_with_it() {
    let Some(mut nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let observed = observed(&place, WEB);
    let twin = finish(&mut with_token(place.command(&["watch", "--serve", "127.0.0.1:0", "--name", WEB])));
    twin.assert_exit(2);
    assert!(twin.stderr.contains("a name that no other observer has"), "{}", twin.stderr);
    let listed = finish(&mut place.command(&["agents"]));
    assert!(listed.stdout.contains(&format!("observer {AT}: version")), "{}", listed.stdout);
    let port = observed.address().rsplit(':').next().unwrap();
    let table = finish(&mut with_token(place.command(&["watch", "--at", AT, "--port", port, "-d", "1s", "--json"])));
    table.assert_exit(0);
    let load = |duration: &str| {
        let args = [
            "load",
            &observed.server.url,
            "--rate",
            "200",
            "-d",
            duration,
            "-c",
            "4",
            "--tick",
            "200ms",
            "--json",
            "--no-record",
        ];
        with_token(place.command(&[&args[..], &["--observe-at", AT]].concat()))
    };
    let run = finish(&mut load("1s"));
    run.assert_measured();
    assert_observed(&run.json(), AT);
    let wrong = finish(load("1s").env("PLIMSOLL_TOKEN", "another-token-for-tests-01234"));
    wrong.assert_exit(1);
    assert!(wrong.stderr.contains("token"), "{}", wrong.stderr);
    let (out, said) = (File::create(place.file("out")).unwrap(), File::create(place.file("said")).unwrap());
    let long = Guard::spawn(load("8s").stdout(out).stderr(said)).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    nats.kill();
    std::thread::sleep(Duration::from_secs(1));
    nats.start_again().unwrap();
    let run = place.ended(long);
    run.assert_measured();
    let document = run.json();
    let count_of =
        |kind: &str| document["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count() as u64;
    // Who is there again first keeps or loses what was said meanwhile: with it nothing is missing, without it that is told, and it comes back.
    let remote = &document["observed"]["remote"];
    let breaks = remote["breaks"].as_u64().unwrap();
    assert_eq!((count_of("observer-lost"), count_of("observer-back")), (breaks, breaks), "{remote}");
    assert!(breaks > 0 || remote["lost_readings"] == 0, "{remote}");
    assert_observed(&document, AT);
    let without = plimsoll(&["load", &observed.server.url, "--observe-at", AT, "-d", "1s"]);
    without.assert_exit(2);
}
