//! The definition itself: every flag is explained, has its default in the help and its variable.

use super::*;
use clap::Arg;
use model::plan::Batch;
use resolve::defaults;

fn every_arg() -> Vec<(String, Arg)> {
    fn walk(command: &clap::Command, path: &str, found: &mut Vec<(String, Arg)>) {
        let path = format!("{path} {}", command.get_name());
        found.extend(command.get_arguments().map(|arg| (path.clone(), arg.clone())));
        command.get_subcommands().for_each(|inner| walk(inner, &path, found));
    }
    let mut found = Vec::new();
    walk(&definition(), "", &mut found);
    found
}

#[test]
fn the_definition_is_sound() {
    definition().debug_assert();
}

#[test]
fn every_flag_says_what_it_does_and_its_default() {
    assert!(every_arg().len() > 60, "the walk finds the flags");
    for (command, arg) in every_arg() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(!help.is_empty(), "{command} {}: no help", arg.get_id());
        let takes_value = arg.get_action().takes_values() && !arg.is_positional();
        let says_default = help.contains("[default: ") || !arg.get_default_values().is_empty();
        assert!(!takes_value || says_default, "{command} {}: no default in '{help}'", arg.get_id());
    }
}

#[test]
fn every_flag_has_its_variable() {
    for (command, arg) in every_arg().into_iter().filter(|(_, arg)| arg.get_long().is_some()) {
        if matches!(arg.get_id().as_str(), "help" | "version") {
            continue;
        }
        let variable = arg.get_env().and_then(|v| v.to_str()).unwrap_or_default();
        let expected = format!("PLIMSOLL_{}", arg.get_long().unwrap().replace('-', "_").to_uppercase());
        assert_eq!(variable, expected, "{command} {}", arg.get_id());
    }
}

#[test]
fn defaults_in_help_are_those_that_are_used() {
    use model::units::{count, duration_ns, size_bytes};
    let default_of = |long: &str| {
        let (_, arg) =
            every_arg().into_iter().find(|(path, arg)| path.ends_with("load") && arg.get_long() == Some(long)).unwrap();
        let help = arg.get_help().unwrap().to_string();
        let after = help.split_once("[default: ").unwrap().1;
        after.split([',', ']', ' ']).next().unwrap().to_owned()
    };
    assert_eq!(count(&default_of("connections")), Ok(u64::from(defaults::CONNECTIONS)));
    assert_eq!(duration_ns(&default_of("duration")), Ok(defaults::DURATION_NS));
    assert_eq!(duration_ns(&default_of("timeout")), Ok(defaults::REPLY_TIMEOUT_NS));
    assert_eq!(duration_ns(&default_of("connect-timeout")), Ok(defaults::CONNECT_TIMEOUT_NS));
    assert_eq!(duration_ns(&default_of("drain")), Ok(defaults::DRAIN_NS));
    assert_eq!(duration_ns(&default_of("tick")), Ok(defaults::TICK_NS));
    assert_eq!(size_bytes(&default_of("max-head")), Ok(u64::from(model::limits::HEAD_BYTES_MAX)));
    assert_eq!(size_bytes(&default_of("size")), Ok(u64::from(defaults::ECHO_BYTES)));
    assert_eq!(default_of("pipeline"), "1");
    assert_eq!(default_of("on-full"), "wait");
}

fn load(arguments: &str) -> load::LoadArgs {
    let words = ["plimsoll", "load"].into_iter().chain(arguments.split_whitespace());
    match parse(words.map(OsString::from)) {
        Ok(Parsed { command: Command::Load(args), .. }) => *args,
        _ => panic!("expected load to take: {arguments}"),
    }
}

fn command_at(path: &[&str]) -> clap::Command {
    path.iter().fold(definition(), |command, name| command.find_subcommand(name).expect("it is there").clone())
}

#[test]
fn every_example_in_help_can_be_typed() {
    for help in help::HELPS {
        for (typed, does) in help.examples {
            assert!(!does.is_empty() && !does.ends_with('.'), "{typed}: {does}");
            let words = typed.split(" | ").last().unwrap().trim_start_matches("sudo ").replace("'X-Key: 1'", "X-Key:1");
            let said = parse(words.split(' ').map(OsString::from)).map(drop).map_err(|stopped| match stopped {
                Stopped::Wrong(failure) => format!("{failure:?}"),
                Stopped::Asked(error) | Stopped::NoCommand(error) => error.to_string(),
            });
            assert_eq!(said, Ok(()), "{typed}");
        }
    }
    let most = help::HELPS.iter().map(|help| help.examples.len()).max();
    assert!(most.is_some_and(|most| (5..=8).contains(&most)));
}

/// A report's own advice is typed as it stands; `RUN` is the id of a recording.
#[test]
fn what_findings_tell_to_type_can_be_typed() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../diagnose/src/rules");
    let mut typed = 0;
    for file in std::fs::read_dir(rules).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (_, rest) in text.match_indices(".check(\"plimsoll ").map(|(at, found)| text.split_at(at + found.len())) {
            let words = rest.split(['"', '|', '&', ';']).next().unwrap().split_whitespace();
            let words: Vec<&str> = ["plimsoll"].into_iter().chain(words).collect();
            assert!(parse(words.iter().map(OsString::from)).is_ok(), "{words:?}");
            typed += 1;
        }
    }
    assert!(typed >= 3, "{typed}");
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_every_flag() {
    for help in help::HELPS {
        let of_command = |flag: &str| {
            let words: Vec<&str> = ["plimsoll"].iter().chain(help.path).copied().chain([flag]).collect();
            definition().term_width(100).try_get_matches_from(words).unwrap_err().to_string()
        };
        let (short, long) = (of_command("-h"), of_command("--help"));
        assert!(short.lines().count() <= 40, "{} lines:\n{short}", short.lines().count());
        assert!(help.path != ["load"] || short.contains("--expect <LIST>"), "{short}");
        for line in short.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        for text in [&short, &long] {
            let examples = text.find("Examples:").expect("examples");
            assert!(text.find("Options:").is_none_or(|flags| examples < flags), "{text}");
            assert_eq!(text.matches("Examples:").count(), 1);
        }
        let command = command_at(help.path);
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        for flag in shown.filter_map(|arg| arg.get_long()) {
            assert!(long.contains(&format!("--{flag}")), "{:?} {flag}", help.path);
        }
        for flag in help.most_used {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(flag)), "{flag} is no flag");
            assert!(short.contains(&format!("--{flag}")), "{flag}");
        }
    }
}

#[test]
fn habits_of_other_tools_work() {
    let args = load("-d10s -c100 -t4 http://h/");
    assert_eq!((args.pace.duration, args.connection.connections), (Some(10_000_000_000), Some(100)));
    assert_eq!(args.machine.threads, Some(4));
    assert_eq!(load("-z 5m -n 1k http://h/").pace.duration, Some(300_000_000_000));
    assert_eq!(load("-R5k http://h/").pace.rate.unwrap().0[0].to_per_s, 5000.0);
    assert_eq!(load("-d 10 http://h/").pace.duration, Some(10_000_000_000));
    assert_eq!(load("http://h/ -H A:1 -H B:2").protocols.http.header, ["A:1", "B:2"]);
}

#[test]
fn a_bare_batch_has_the_defaults_and_takes_no_url() {
    let default = Some(Batch { completions: defaults::BATCH_COMPLETIONS, delay_ns: defaults::BATCH_DELAY_NS });
    let args = load("--batch http://h/");
    assert_eq!((args.machine.batch, args.place.url.len()), (default, 1));
    let asked = Some(Batch { completions: 4, delay_ns: 2_000_000 });
    assert_eq!(load("--batch=4,2ms http://h/").machine.batch, asked);
}

#[test]
fn one_of_a_file_and_text_is_the_body() {
    let asked = |arguments| -> model::workload::http::HttpAsked {
        scenario::scenario_of(&load(arguments)).unwrap_or_else(|_| panic!("{arguments}")).asked()
    };
    assert_eq!(asked("-b x http://h/").body, Some("x".into()));
    let file = asked("-b @/x http://h/");
    assert_eq!((file.body, file.body_file), (None, Some("/x".into())));
}

#[test]
fn flags_of_another_protocol_are_refused_and_shared_ones_are_not() {
    let said = |arguments: &str| match scenario::scenario_of(&load(arguments)) {
        Ok(scenario) => scenario.what.map_or("nothing", |what| what.protocol()).to_owned(),
        Err(failure) => format!("{failure:?}"),
    };
    for (arguments, expected) in [
        ("http://h/ -u a:b --disable-keepalive", "http"),
        ("unix:/s -b x", "http"),
        ("echo+tls://h --size 3 --content binary", "echo"),
        ("hold://h --every never --content binary", "hold"),
        ("RESP://h --mix PING -u a:b --content text", "resp"),
        ("wss://h/x --text --compress --size 3 -H A:1 -u a:b", "ws"),
        ("hold+wss://h/x --every 5s --compress -H A:1 -u a:b", "hold+ws"),
        ("ftp://h --mix PING", "nothing"),
        ("--mix PING", "nothing"),
        (
            "http://u:p@h/ --content text",
            "--content is for echo, hold, resp or ws URLs, got 'http://***@h/': leave it out",
        ),
        ("echo://h -u a:b", "-u is for http, resp, ws or hold+ws URLs, got 'echo://h': leave it out"),
        ("resp://h --disable-keepalive", "--disable-keepalive is for http URLs, got 'resp://h': leave it out"),
        ("hold://h --header A:1", "-H is for http, ws or hold+ws URLs, got 'hold://h': leave it out"),
        ("http://h --sent-only", "--sent-only is for hold URLs, got 'http://h': leave it out"),
        ("--tls-matrix --key-prefix k", "--key-prefix is for resp URLs, got none: leave it out"),
    ] {
        assert!(said(arguments).contains(expected), "{arguments}: {}", said(arguments));
    }
}
