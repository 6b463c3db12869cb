//! `plimsoll load resp://` on a real redis-server: its own counters agree, values are compared, errors are named.

use crate::common::*;
use std::time::Duration;
use testkit::redis::Redis;
use testkit::wait_until;

/// redis-server, or the reason why there is none.
fn redis(options: &[&str]) -> Option<Redis> {
    if testkit::program("redis-cli").is_none() {
        testkit::skip("redis-cli is not installed (scripts/packages.sh test)");
        return None;
    }
    match Redis::start(options) {
        Ok(redis) => Some(redis),
        Err(error) => {
            testkit::skip(&error.to_string());
            None
        }
    }
}

fn load(url: &str, more: &[&str]) -> Run {
    plimsoll(&[&["load", url, "--json", "--no-record", "-q"], more].concat())
}

#[test]
fn redis_counts_what_we_count() {
    for (driver, pipeline) in [("epoll", "1"), ("epoll", "16"), ("uring", "1"), ("uring", "16")] {
        let Some(redis) = redis(&[]) else { return };
        let url = format!("resp://{}", redis.address());
        let run = load(&url, &["-n", "20000", "-c", "50", "--driver", driver, "--pipeline", pipeline]);
        run.assert_measured();
        let doc = run.json();
        let totals = &doc["totals"];
        assert_eq!((&totals["ok"], &totals["failed"]), (&20_000.into(), &0.into()), "{driver} {pipeline}");
        let of = |command: &str, what: &str| totals["commands"][command][what].as_u64().unwrap();
        assert_eq!(redis.calls("get").unwrap(), of("GET", "replies"), "{driver} {pipeline}");
        assert_eq!(redis.calls("set").unwrap(), of("SET", "replies"), "{driver} {pipeline}");
        assert_eq!(of("GET", "replies") + of("SET", "replies"), 20_000);
        assert!((3400..4600).contains(&of("SET", "replies")), "a fifth are SETs: {}", totals["commands"]);
        assert!(of("GET", "nil") > 0, "the store was empty at first");
        assert_eq!(totals["error_replies"], serde_json::json!({}));
        let keys: u64 = redis.cli(&["DBSIZE"]).unwrap().trim().parse().unwrap();
        assert!((1..=of("SET", "replies")).contains(&keys), "{keys} keys");
        assert_eq!(redis.cli(&["STRLEN", &one_key(&redis)]).unwrap().trim(), "128");
    }
}

fn one_key(redis: &Redis) -> String {
    let key = redis.cli(&["RANDOMKEY"]).unwrap().trim().to_owned();
    assert!(key.starts_with("plimsoll:") && key.len() == "plimsoll:".len() + 12, "{key}");
    key
}

#[test]
fn values_of_an_earlier_run_are_right_and_one_that_was_changed_is_found() {
    let Some(redis) = redis(&[]) else { return };
    let url = format!("resp://{}", redis.address());
    let sizes = ["--keys", "100", "--value-size", "16..1KiB"];
    let fill = load(&url, &[&["-n", "100", "--mix", "SET", "--key-distribution", "sequential"], &sizes[..]].concat());
    assert_eq!(fill.json()["totals"]["ok"], 100);
    assert_eq!(redis.cli(&["DBSIZE"]).unwrap().trim(), "100", "each key once");

    let read = ["-n", "1000", "--mix", "GET"];
    let right = load(&url, &[&read, &sizes[..]].concat());
    assert_eq!(right.json()["totals"]["ok"], 1000, "{}", right.json()["examples"]);
    assert_eq!(right.json()["totals"]["commands"]["GET"]["nil"], 0);

    let key = "plimsoll:000000000007";
    let length: usize = redis.cli(&["STRLEN", key]).unwrap().trim().parse().unwrap();
    redis.cli(&["SETRANGE", key, &(length - 1).to_string(), "\u{1}"]).unwrap();
    let zipf = ["--key-distribution", "zipf:1.2"];
    let wrong = load(&url, &[&read, &sizes[..], &zipf].concat()).json();
    let corrupted = wrong["totals"]["errors"]["corrupted-reply"].as_u64().unwrap();
    assert!(corrupted > 0);
    assert_eq!(
        (&wrong["totals"]["failed"], &wrong["totals"]["commands"]["GET"]["wrong"]),
        (&corrupted.into(), &corrupted.into())
    );
    assert!(wrong["examples"][0]["text"].as_str().unwrap().contains("bytes are not the ones its key has"));
    assert_eq!(wrong["achieved"]["connections"], 50, "a wrong value costs no connection");

    redis.cli(&["SET", key, "short"]).unwrap();
    let shorter = load(&url, &[&read, &sizes[..]].concat()).json();
    assert!(shorter["examples"][0]["text"].as_str().unwrap().contains("not as long"), "{}", shorter["examples"]);
    let any = load(&url, &[&read, &sizes[..], &["--no-validate"]].concat());
    assert_eq!(any.json()["totals"]["ok"], 1000);
}

#[test]
fn errors_are_named_by_their_first_word() {
    let Some(redis) = redis(&[]) else { return };
    let url = format!("resp://{}", redis.address());
    redis.cli(&["LPUSH", "plimsoll:000000000000", "x"]).unwrap();
    let doc = load(&url, &["-n", "500", "--mix", "GET", "--keys", "2"]).json();
    let errors = doc["totals"]["errors"]["error-reply"].as_u64().unwrap();
    assert!((150..350).contains(&errors), "half of the keys: {errors}");
    assert_eq!(doc["totals"]["error_replies"]["WRONGTYPE"], errors);
    assert_eq!(doc["totals"]["commands"]["GET"]["errors"], errors);
    let finding = doc["findings"].as_array().unwrap().iter().find(|f| f["id"] == "error-status").unwrap();
    assert_eq!(finding["status"], "supported", "{finding}");
    assert!(finding["because"].to_string().contains("-WRONGTYPE"), "{finding}");

    let own = load(&url, &["-n", "300", "--mix", "HSET h:{key} f {value}=2,ping=1,incr,NOSUCH {key}=0.5"]).json();
    let commands = &own["totals"]["commands"];
    assert_eq!(commands["NOSUCH {key}"]["errors"], commands["NOSUCH {key}"]["replies"]);
    assert_eq!(own["totals"]["error_replies"]["ERR"], commands["NOSUCH {key}"]["errors"]);
    assert_eq!(own["totals"]["failed"], commands["NOSUCH {key}"]["errors"], "all others are good: {commands}");
    assert_eq!(redis.calls("hset").unwrap(), commands["HSET h:{key} f {value}"]["replies"]);

    let text = plimsoll(&["load", &url, "-n", "500", "--mix", "GET", "--keys", "2", "--no-record", "-q"]);
    for words in ["Replies", "GET ×500", "-WRONGTYPE ×", "the key holds another kind of value"] {
        assert!(text.stdout.contains(words), "{words} is missing in\n{}", text.stdout);
    }
}

#[test]
fn who_may_log_in_does_and_no_password_is_kept() {
    let Some(redis) = redis(&["--requirepass", "open-sesame"]) else { return };
    let address = redis.address();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    let path = file.to_str().unwrap();
    let arguments = ["-n", "300", "-c", "5", "--json", "-q", "--record", path];
    let run = plimsoll(&[&["load", &format!("resp://:open-sesame@{address}/3")], &arguments[..]].concat());
    run.assert_measured();
    assert_eq!(run.json()["totals"]["ok"], 300);
    assert!(!run.stdout.contains("sesame"), "the report holds the password");
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|w| w == b"sesame"), "the recording holds the password");
    }
    let keys = |database: &str| redis.cli(&["-a", "open-sesame", "-n", database, "DBSIZE"]).unwrap();
    assert_ne!(keys("3").trim(), "0", "what was set is in database 3");
    assert_eq!(keys("0").trim(), "0");
    let explained = plimsoll(&["load", &format!("resp://u:open-sesame@{address}/3"), "--explain"]);
    assert!(explained.stdout.contains("AUTH as u") && !explained.stdout.contains("sesame"), "{}", explained.stdout);

    let environment = finish(
        command(&["load", &format!("resp://{address}"), "-n", "50", "--json", "--no-record", "-q"])
            .env("PLIMSOLL_USER", "default:open-sesame"),
    );
    assert_eq!(environment.json()["totals"]["ok"], 50);

    for (url, word) in
        [(format!("resp://:wrong@{address}"), "WRONGPASS"), (format!("resp://:open-sesame@{address}/99"), "-ERR")]
    {
        let refused = load(&url, &["-d", "300ms", "-c", "2"]);
        refused.assert_exit(1);
        assert!(refused.json()["totals"]["errors"]["login-refused"].as_u64().unwrap() > 0);
        let sentence = "to take AUTH or SELECT, but the server answered";
        assert!(refused.stderr.contains(sentence) && refused.stderr.contains(word), "{}", refused.stderr);
    }
    let without = load(&format!("resp://{address}"), &["-n", "40"]).json();
    assert_eq!(without["totals"]["error_replies"]["NOAUTH"], 40);
}

#[test]
fn a_unix_socket_an_open_pace_and_several_servers() {
    let (Some(one), Some(two)) = (redis(&[]), redis(&[])) else { return };
    let url = format!("resp+unix:{}", one.socket().display());
    let doc = load(&url, &["-d", "500ms", "--rate", "1k/s", "-c", "10"]).json();
    assert_eq!((due(&doc["totals"]), &doc["totals"]["ok"]), (500, &doc["totals"]["started"]), "{}", doc["totals"]);
    let before = one.calls("get").unwrap();
    let both = format!("resp://{},{}", one.address(), two.address());
    let doc = load(&both, &["-n", "2000", "-c", "10", "--mix", "GET"]).json();
    assert_eq!(doc["totals"]["ok"], 2000);
    let (first, second) = (one.calls("get").unwrap() - before, two.calls("get").unwrap());
    assert_eq!(first + second, 2000);
    assert!(first > 0 && second > 0, "{first} and {second}");
}

#[test]
fn a_server_that_is_killed_leaves_counted_failures() {
    let Some(redis) = redis(&[]) else { return };
    let url = format!("resp://{}", redis.address());
    let doc = std::thread::scope(|scope| {
        let run = scope.spawn(|| load(&url, &["-d", "5s", "-c", "10", "--timeout", "1s"]));
        wait_until("load is put on", || redis.calls("get").unwrap_or(0) > 100);
        std::thread::sleep(Duration::from_millis(200));
        redis.process().signal(9);
        run.join().unwrap()
    });
    let totals = &doc.json()["totals"];
    let count = |name: &str| totals[name].as_u64().unwrap();
    assert!(count("ok") > 100 && count("failed") > 0, "{totals}");
    assert_eq!(count("started"), count("ok") + count("failed") + count("in_flight_at_end"));
    assert!(totals["errors"]["refused"].as_u64().unwrap() > 0, "{totals}");
}

#[test]
fn what_cannot_be_is_said_before_any_load() {
    for (arguments, words) in [
        (&["--mix", "GET=x"][..], "--mix: expected"),
        (&["--keys", "0"], "--keys: expected at least 1"),
        (&["--value-size", "0"], "--value-size: expected sizes"),
        (&["--size", "3"], "--size is for echo or ws URLs"),
        (&["-X", "POST"], "-X is for http URLs"),
        (&["--key-distribution", "gauss"], "zipf:S"),
    ] {
        let run = plimsoll(&[&["load", "resp://127.0.0.1:1"], arguments].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
    let run = plimsoll(&["load", "resp://:secret@127.0.0.1:1", "--burst", "3"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("AUTH or a database") && !run.stderr.contains("secret"), "{}", run.stderr);
    let run = plimsoll(&["load", "http://127.0.0.1:1/", "--key-prefix", "k"]);
    assert!(run.stderr.contains("--key-prefix is for resp URLs"), "{}", run.stderr);
}

/// Our own client and our own server agree on what was asked, in the words only they have.
#[test]
fn the_name_service_counts_what_we_ask() {
    let mut server = serve(&["serve", "names", "--listen", "127.0.0.1:0"]);
    let mix = "SAVE=40,LOAD=50,REMOVE=9,LOADALL=1";
    let args =
        ["load", &server.url, "-n", "4000", "-c", "20", "--mix", mix, "--keys", "100", "--json", "--no-record", "-q"];
    let run = plimsoll(&args);
    assert!(matches!(run.status, Some(0 | 4)), "{}", run.stderr);
    let json = run.json();
    let totals = &json["totals"];
    assert_eq!((totals["ok"].as_u64(), totals["failed"].as_u64()), (Some(4000), Some(0)), "{totals}");
    // A crash in the middle: what it takes down is failed and said, and the service is there again after it.
    let crash = ["--mix", "LOAD=200,OOPS=1", "--seed", "3", "-n", "400", "-c", "4", "--json", "--no-record", "-q"];
    let run = plimsoll(&[&["load", &server.url][..], &crash].concat());
    assert!(matches!(run.status, Some(0 | 4)), "{}", run.stderr);
    let totals = run.json()["totals"].clone();
    assert_eq!(totals["ok"].as_u64().unwrap() + totals["failed"].as_u64().unwrap(), 400, "{totals}");
    assert!(totals["ok"].as_u64().unwrap() > 0, "{totals}");
    assert!(server.process.wait(Duration::ZERO).is_none(), "the listener lives");
}
