//! What files say is what flags say, and what is wrong in them is said with its place.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

use super::*;
use crate::args;
use crate::args::scenario::scenario_of;
use model::Scenario;
use proptest::prelude::*;
use std::collections::HashMap;

fn lookup(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "Bearer x".to_owned())
}

/// The scenario of a file of one load.
fn scenario(text: &str, typed: &[&str], lookup: Lookup<'_>) -> Result<Scenario, Failure> {
    let file = ScenarioFile::parse(text, "f.toml", lookup)?.swap_remove(0).file;
    let load = &file.loads[0];
    let typed: Vec<String> = typed.iter().map(|word| (*word).to_owned()).collect();
    let args = file.arguments(load, &typed)?;
    let mut scenario = scenario_of(&args).map_err(|failure| file.placed(load, failure))?;
    ScenarioFile::complete(load, &args, &mut scenario);
    Ok(scenario)
}

/// The scenario of a command line.
fn of_flags(words: &[&str]) -> Scenario {
    scenario_of(&args::load_of(words.iter().map(|word| (*word).to_owned())).unwrap()).unwrap()
}

#[track_caller]
fn same(text: &str, words: &[&str]) {
    assert_eq!(scenario(text, &[], &lookup).unwrap(), of_flags(words), "{text}");
}

#[track_caller]
fn wrong(text: &str, expected: &str) {
    let said = scenario(text, &[], &lookup)
        .map(|_| "nothing".to_owned())
        .unwrap_or_else(|failure| failure.message().to_owned());
    assert_eq!(said, expected, "{text}");
}

#[test]
fn keys_say_what_flags_say() {
    same(
        "[load]\nurl = \"http://h/\"\nconnections = 100\nduration = \"30s\"\nrate = \"5k/s\"\npoisson = true",
        &["http://h/", "-c", "100", "-d", "30s", "--rate", "5k/s", "--poisson"],
    );
    same(
        "[load]\nurl = [\"http://h/\", \"http://h/b\"]\nheader = [\"A: b\", \"C: d\"]\nreceive-stamps = false\nexpect = \"p99 < 1s\"",
        &["http://h/", "http://h/b", "-H", "A: b", "-H", "C: d", "--receive-stamps", "off", "--expect", "p99 < 1s"],
    );
    same("[load]\nurl = \"http://h/\"\nduration = 1.5\ninsecure = false", &["http://h/", "-d", "1.5"]);
    same(
        "[load]\nurl = \"http://h/\"\nheader = \"Authorization: env:TOKEN\"",
        &["http://h/", "-H", "Authorization: Bearer x"],
    );
    same("[load]\nurl = \"http://h/\"\nbody = \"--record=x\"", &["http://h/", "--body=--record=x"]);
    let weighted = scenario("load.url = [{ url = \"http://a/\", weight = 3 }, \"http://b/\"]", &[], &lookup).unwrap();
    assert_eq!(weighted.urls.iter().map(|url| url.weight).collect::<Vec<_>>(), [3.0, 1.0]);
}

#[test]
fn flags_win_over_the_file() {
    let file = "[load]\nurl = [{ url = \"http://h/\", weight = 2 }]\nconnections = 100\nramp = \"1/s..2/s:3s\"\nheader = [\"A: b\"]";
    let typed = scenario(file, &["-c", "5", "--rate", "9/s", "-H", "X: y"], &lookup).unwrap();
    let mut expected = of_flags(&["http://h/", "-c", "5", "--rate", "9/s", "-H", "X: y"]);
    expected.urls[0].weight = 2.0;
    assert_eq!(typed, expected);
    let other = scenario(file, &["http://other/"], &lookup).unwrap();
    assert_eq!((other.urls.len(), other.urls[0].weight, other.connections), (1, 1.0, Some(100)));
}

#[test]
fn what_is_wrong_has_its_place() {
    wrong("", "f.toml:1:1: expected a load, got none: write [load], and below it url = \"http://HOST:PORT/\"");
    wrong(
        "[load]\nurl = 'http://h/'\nconections = 5",
        "f.toml:3:1: the key 'conections' is not known: did you mean 'connections'?",
    );
    wrong(
        "[load]\nurl = 'http://h/'\nconnect_timeout = '5s'",
        "f.toml:3:1: the key 'connect_timeout' is not known: did you mean 'connect-timeout'?",
    );
    wrong(
        "[load]\nzzzzzzzzzz = 5",
        "f.toml:2:1: the key 'zzzzzzzzzz' is not known: each is a flag's long name (see 'plimsoll load --help')",
    );
    wrong("[load]\n rate = '5x'", "f.toml:2:9: rate: expected a rate such as 500/s, 5k/s or 600/m, got '5x'");
    wrong("[load]\nheader = ['A: b', 5, [1]]", "f.toml:2:22: header: expected a text or a number, got a list");
    wrong("[load]\npoisson = 'yes'", "f.toml:2:11: poisson: expected true or false, got a text");
    wrong("[load]\non-full = 'fall'", "f.toml:2:11: on-full: expected one of wait, drop, got 'fall'");
    wrong("[load]\nconnections = [1, 2]", "f.toml:2:15: connections: expected a text or a number, got a list");
    wrong("connections = 5\n[load]", "f.toml:1:1: 'connections' is a load's: write it below [load]");
    wrong("[load]\nquiet = true", "f.toml:2:1: 'quiet' is the whole run's: write it above [load]");
    wrong("[load]\nurl = '--json'", "f.toml:2:7: url: expected a URL such as http://127.0.0.1:8080/, got a flag");
    wrong("load = 3", "f.toml:1:1: load: expected a table [load], got a number");
    wrong(
        "[load]\nuser = 'env:NOT_SET'",
        "f.toml:2:8: user: expected the variable NOT_SET to be set, as 'env:NOT_SET' refers to it: set it",
    );
    wrong(
        "[load]\nurl = 'http://h/'\n  key-prefix = 'k'",
        "f.toml:3:3: key-prefix is for resp URLs, got 'http://h/': leave it out",
    );
    wrong(
        "[load]\nurl = 'http://h/'\nrate = '5/s'\nramp = '1/s..2/s:3s'",
        "f.toml:3:1: rate cannot be used with ramp: leave one of them out",
    );
    wrong(
        "[load]\nurl = [{ url = 'http://h/', weight = 0 }]",
        "f.toml:2:38: weight: expected a number above 0, got '0'",
    );
    // Broken TOML is told without its line, which may have a password in it.
    let said = scenario("[load]\nuser = \"a:hunter2", &[], &lookup).unwrap_err().message().to_owned();
    assert!(said.starts_with("f.toml:2:") && !said.contains("hunter2") && !said.contains('\n'), "{said}");
}

/// The schema that is kept is the one of this version; UPDATE_SCHEMA writes it.
#[test]
fn the_schema_is_fresh_and_takes_what_the_reader_takes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/plimsoll.scenario-1.schema.json");
    let fresh = schema::text();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == fresh, "{path} is stale: run this test once with UPDATE_SCHEMA=1 and look at the difference");
    let schema: serde_json::Value = serde_json::from_str(&fresh).unwrap();
    let of_load = schema["$defs"]["load"]["properties"].as_object().unwrap();
    let keys = Keys::new();
    assert!(keys.all().len() > 60, "the walk finds the keys");
    for key in keys.all() {
        let has = if key.is_of_run { schema["properties"].get(&key.name) } else { of_load.get(&key.name) };
        assert!(has.is_some_and(|property| property["description"].is_string()), "{}", key.name);
    }
}

/// A flag with values that it takes.
fn flag() -> impl Strategy<Value = Vec<String>> {
    let of = |flag: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |value| vec![format!("--{flag}={value}")])
    };
    let text = |flag: &'static str| ".{0,12}".prop_map(move |text| vec![format!("--{flag}={text}")]);
    prop_oneof![
        of("connections", &["1", "50", "10k"]),
        of("duration", &["5", "30s", "1.5m", "100ms"]),
        of("rate", &["5", "5k/s", "0.5/s"]),
        of("think", &["10ms", "5ms..20ms", "exp:10ms"]),
        of("timeout", &["1s", "007"]),
        of("driver", &["epoll", "uring"]),
        of("batch", &["16", "16,1ms"]),
        of("receive-stamps", &["on", "off"]),
        of("source", &["127.0.0.1", "127.1.0.0/30"]),
        of("pin", &["0", "0-1"]),
        of("seed", &["0", "18446744073709551615", "42"]),
        of("give-up", &["never", "3s"]),
        of("user", &["a:b", "a:env:X", "env:HOME"]),
        of("abort-when", &["errors > 10 % for 5s", "rate < 1/s for 1m"]),
        of("canary", &["http://h/", "http://a:hunter2@h/"]),
        of("canary-every", &["1s", "250ms"]),
        of("expect", &["p99 < 50 ms, errors < 0.1 %", "rate > 1k/s"]),
        text("body"),
        text("expect-body"),
        text("method"),
        "[a-zA-Z-]{1,12}: .{0,12}".prop_map(|field| vec![format!("--header={field}")]),
        Just(vec!["--header=Authorization: env:TOKEN".to_owned()]),
        Just(vec!["--poisson".to_owned()]),
        Just(vec!["--insecure".to_owned()]),
        Just(vec!["-4".to_owned()]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// `parse(write(scenario)) == scenario`, with the variables set that the file refers to; and no secret stands in it.
    #[test]
    fn the_file_of_a_command_line_says_the_same(
        flags in prop::collection::vec(flag(), 0..8),
        urls in prop::collection::vec(prop::sample::select(&["http://h:1/", "http://a:hunter2@h/", "http://h/?token=hunter2", "unix:/a\"b"][..]), 1..3),
    ) {
        let mut words: Vec<String> = flags.concat();
        words.extend(urls.iter().map(|url| (*url).to_owned()));
        // A flag twice, or two that exclude each other, is no command line.
        prop_assume!(args::load_of(words.iter().cloned()).is_ok());
        let Ok(expected) = scenario_of(&args::load_of(words.iter().cloned()).unwrap()) else { return Ok(()) };
        let line = shlex::try_join(std::iter::once("load").chain(words.iter().map(String::as_str)));
        // No shell passes a zero byte on.
        prop_assume!(line.is_ok());
        let written = write::from_line(&line.unwrap()).unwrap();
        let variables: HashMap<String, String> = written.variables.iter().cloned().collect();
        prop_assert!(!written.text.contains("hunter2"), "{}", written.text);
        let read = scenario(&written.text, &[], &|name| variables.get(name).cloned()).unwrap();
        prop_assert_eq!(read, expected, "{}", written.text);
    }

    /// Whatever a file holds, it is read or refused in one sentence, and what was read has no URL that the file has not: a load
    /// without one is refused by its plan, as a flag may have named it.
    #[test]
    fn a_file_is_read_or_refused_in_one_sentence(text in "(\\[load\\]|\\[\\[load\\]\\]|url|rate|=|\"|\\{|\\}|\\[|\\]|5|true|,|\n|[a-z]|µ){0,24}") {
        match scenario(&text, &[], &lookup) {
            Ok(read) if read.urls.is_empty() => {
                let refused = resolve::resolve(&read, &crate::commands::host()).map(drop).map_err(|error| error.to_string());
                prop_assert!(refused.is_err_and(|said| said.starts_with("expected a URL")), "{text:?}: {read:?}");
            }
            Ok(read) => prop_assert!(
                read.urls.iter().all(|url| text.contains(&*url.url.expose_text())) && text.contains("url"),
                "{text:?}: {read:?}"
            ),
            Err(failure) => {
                let said = failure.message();
                prop_assert!(said.starts_with("f.toml") && !said.contains('\n') && said.len() > 12, "{text:?}: {said}");
            }
        }
    }
}

#[test]
fn each_combination_of_what_varies_is_a_variant() {
    let text = "[vary]\nserver = [{ name = \"plain\", scheme = \"http\", c = 3 }, { name = \"tls\", scheme = \"https\", c = 4 }]\n\
        path = [\"a\", 7]\n[target]\ncommand = \"x {path}\"\n[load]\nurl = \"{scheme}://h/{path}\"\nconnections = \"{c}\"\n\
        header = \"X: {\\\"other\\\": {{path}}}\"";
    let variants = ScenarioFile::parse(text, "f.toml", &lookup).unwrap();
    let of = |variant: &Variant| {
        let load = &variant.file.loads[0];
        let scenario = scenario_of(&variant.file.arguments(load, &[]).unwrap()).unwrap();
        let values: Vec<String> = variant.values.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        (values.join(" "), scenario.urls[0].url.expose_text().into_owned(), scenario.connections)
    };
    let all: Vec<_> = variants.iter().map(of).collect();
    let expected = [
        ("server=plain path=a", "http://h/a", 3),
        ("server=plain path=7", "http://h/7", 3),
        ("server=tls path=a", "https://h/a", 4),
        ("server=tls path=7", "https://h/7", 4),
    ];
    assert_eq!(all, expected.map(|(values, url, c)| (values.to_owned(), url.to_owned(), Some(c))));
}

#[test]
fn what_varies_wrongly_is_said_with_its_place() {
    let load = "[load]\nurl = \"http://h/{x}\"\nconnections = \"{y}\"\n";
    let of = |vary: &str, expected: &str| wrong(&format!("[vary]\n{vary}\n{load}"), expected);
    wrong(&format!("vary = 3\n{load}"), "f.toml:1:8: vary: expected a table [vary], got a number");
    of("", "f.toml:1:1: vary: expected a list of values, such as size = [16, 4096], got none");
    of("x = 3", "f.toml:2:1: x: expected a list of values, got a number");
    of("x = []", "f.toml:2:1: x: expected a list of values, got an empty one");
    of("x = [1, 1]", "f.toml:2:9: x: expected different values, got '1' twice");
    of("X = [1]", "f.toml:2:1: vary: expected names of small letters, digits and '-', got 'X'");
    of("x = [1]\ny = [1]\nz = [1]", "f.toml:4:1: expected a text with '{z}' in it, got none: z would vary nothing");
    of("x = [{ x = 1 }]", "f.toml:2:6: x: expected a name in each table, such as { name = \"small\", … }");
    of("x = [{ name = 1 }]", "f.toml:2:6: x: expected texts beside the name, got none: write the name alone");
    of(
        "x = [{ name = 1, x = 2 }, 3, 4, { name = 5, y = 6 }]",
        "f.toml:2:33: x: expected x as in the first value, got y",
    );
    of("x = [1]\nz = [{ name = 1, x = 2 }]", "f.toml:3:1: expected each name to stand for one text, got 'x' twice");
    of("x = [1]\ny = [\"many\"]", "f.toml:6:15: connections: expected a count such as 50, 10k or 1m, got 'many'");
    let many: Vec<String> = (0..201).map(|n| n.to_string()).collect();
    of(
        &format!("x = [{}]", many.join(",")),
        "f.toml:1:1: vary: expected at most 200 variants, got more: leave values out",
    );
}

#[test]
fn a_key_that_comes_to_nothing_is_left_out_and_a_switch_may_vary() {
    let text = "[vary]\ntls = [{ name = \"off\", s = \"http\", k = \"\", r = \"\" }, { name = \"on\", s = \"https\", k = \"true\", r = \"off\" }]\n\
        [load]\nurl = \"{s}://h/\"\ninsecure = \"{k}\"\nresume = \"{r}\"";
    let variants = ScenarioFile::parse(text, "f.toml", &lookup).unwrap();
    let args = |variant: &Variant| variant.file.arguments(&variant.file.loads[0], &[]).unwrap();
    let of =
        |words: &[&str]| scenario_of(&args::load_of(words.iter().map(|word| (*word).to_owned())).unwrap()).unwrap();
    assert_eq!(scenario_of(&args(&variants[0])).unwrap(), of(&["http://h/"]));
    assert_eq!(scenario_of(&args(&variants[1])).unwrap(), of(&["https://h/", "--insecure", "--resume", "off"]));
    wrong(&text.replace("\"true\"", "\"yes\""), "f.toml:5:12: insecure: expected true or false, got a text");
}
