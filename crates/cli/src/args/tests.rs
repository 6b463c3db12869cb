//! The definition itself: every flag is explained, has its default in the help and its variable.

use super::*;
use clap::Arg;
use model::plan::Batch;
use session::resolve::defaults;

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
        Ok(Command::Load(args)) => *args,
        _ => panic!("expected load to take: {arguments}"),
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
    assert_eq!(load("http://h/ -H A:1 -H B:2").request.header, ["A:1", "B:2"]);
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
    let scenario = |arguments| scenario::scenario_of(&load(arguments)).unwrap_or_else(|_| panic!("{arguments}"));
    assert_eq!(scenario("-b x http://h/").body, Some("x".into()));
    let file = scenario("-b @/x http://h/");
    assert_eq!((file.body, file.body_file), (None, Some("/x".into())));
}
