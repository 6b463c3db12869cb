//! The command line: one clap definition, from which help, man pages and completions come too.
//!
//! A file per command. Every flag has an environment variable `PLIMSOLL_<FLAG>`; flags win over variables.
//! Bad input ends in one sentence and status 2. Defaults are filled in by `resolve`, not here.

pub mod agents;
pub mod audit;
pub mod capacity;
pub mod compare;
pub mod diagnose;
pub mod environment;
mod help;
pub mod host;
pub mod import;
pub mod load;
pub mod pages;
pub mod protocols;
pub mod remote;
pub mod runs;
pub mod scenario;
pub mod serve;
pub mod shell;
pub mod tls;
mod values;
pub mod watch;

use crate::exit::{Exit, Failure};
use crate::file::RunArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use environment::Environment;
use std::ffi::OsString;
use std::io::Write;

/// Puts measured load on a network server, and says how much it carries, what gives first, and why
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, propagate_version = true, max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = exit_statuses(), disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// How flags are given in the environment.
const VARIABLES: &str =
    "Each flag can be set in the environment: PLIMSOLL_ and its name (PLIMSOLL_DURATION=5s). Flags win.";

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The main job on embedded defaults: a server, its load line, what gives first
    Demo(runs::DemoArgs),
    /// Put load on a server and measure it
    #[command(after_help = VARIABLES)]
    Load(Box<load::LoadArgs>),
    /// Find the highest load a server carries within an objective, and what gives first
    #[command(after_help = VARIABLES)]
    Capacity(Box<capacity::CapacityArgs>),
    /// Run a scenario file: the flags of load, kept and run again
    #[command(after_help = VARIABLES)]
    Run(Box<RunArgs>),
    /// Put load on for runs of other machines, on the targets that its owner allows
    #[command(after_help = VARIABLES)]
    Agent(Box<agents::AgentArgs>),
    /// List agents: what each does, its version, how far its clock is from this one
    #[command(after_help = VARIABLES)]
    Agents(agents::AgentsArgs),
    /// Take over a run that agents put on, whose controller is gone; or list such runs
    #[command(after_help = VARIABLES)]
    Attach(agents::AttachArgs),
    /// Place agents by Kubernetes: print a manifest, apply it, take it away
    Kubernetes(agents::kubernetes::KubernetesArgs),
    /// Run a reference server to put load on
    #[command(after_help = VARIABLES)]
    Serve(Box<serve::ServeArgs>),
    /// List recordings
    Runs(runs::RunsArgs),
    /// Look through recordings in a browser: find, open, compare, delete
    Ui(pages::ui::UiArgs),
    /// Show a recording again
    Report(runs::ReportArgs),
    /// Say what gives first in a recording, and why
    #[command(after_help = VARIABLES)]
    Diagnose(diagnose::DiagnoseArgs),
    /// Say which figures of a load cannot be true: of a recording, or given by hand
    #[command(after_help = VARIABLES)]
    Audit(audit::AuditArgs),
    /// Toggle the remedy of a finding, in pairs of short runs, and say whether it helps
    #[command(after_help = VARIABLES)]
    Confirm(Box<diagnose::ConfirmArgs>),
    /// Is B worse than A: two servers under load in turn, A against itself as well
    #[command(after_help = VARIABLES)]
    Ab(Box<compare::ab::AbArgs>),
    /// Compare recordings: figures, settings, what gave first
    #[command(after_help = VARIABLES)]
    Compare(compare::recorded::CompareArgs),
    /// Find where the recordings of a folder changed
    #[command(after_help = VARIABLES)]
    Trend(compare::recorded::TrendArgs),
    /// Observe a server without putting load on it
    #[command(after_help = VARIABLES)]
    Watch(Box<watch::WatchArgs>),
    /// Put another instrument's text (sar, nmon, dmesg) on a timeline, as a recording
    #[command(after_help = VARIABLES)]
    Import(import::ImportArgs),
    /// Is this host ready for a load: each limit, what it allows, what changes it
    #[command(after_help = VARIABLES)]
    Check(Box<host::CheckArgs>),
    /// Do something to a server or its host, and undo it; put back what was changed
    #[command(after_help = VARIABLES)]
    Fault(host::FaultArgs),
    /// Drop connections of this host by the address of their other end
    Drop(host::DropArgs),
    /// Print completions for a shell
    Completions(shell::CompletionsArgs),
    /// Print the man page
    Man(shell::ManArgs),
}

/// The command line's definition, for man pages and completions.
pub fn definition() -> clap::Command {
    // The rule is said once; a line for each flag would make the help twice as long.
    fn hide_variables(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.hide_env(true)).mut_subcommands(hide_variables)
    }
    let hidden =
        |command: clap::Command| capacity::NOT_ITS.iter().fold(command, |c, id| c.mut_arg(*id, |arg| arg.hide(true)));
    help::with_examples(hide_variables(Cli::command().mut_subcommand("capacity", hidden)))
}

/// Why there is no command to run: help or version was asked for, or the arguments are wrong.
pub enum Stopped {
    /// Text that was asked for.
    Asked(clap::Error),
    /// Nothing was asked for: the whole help, as an error.
    NoCommand(clap::Error),
    /// One sentence.
    Wrong(Failure),
}

impl Stopped {
    /// Shows what was asked for on stdout, or the whole help on stderr.
    ///
    /// # Errors
    /// The arguments are wrong, or stdout could not be written.
    pub fn show(self) -> Result<Exit, Failure> {
        match self {
            Stopped::Asked(text) => {
                text.print()?;
                Ok(Exit::Fine)
            }
            Stopped::NoCommand(text) => {
                // Nothing is left to do where stderr is closed.
                let _ = write!(std::io::stderr(), "{text}");
                Ok(Exit::Usage)
            }
            Stopped::Wrong(failure) => Err(failure),
        }
    }
}

/// A command line that could be read.
pub struct Parsed {
    /// What is to be done.
    pub command: Command,
    /// What the environment said to it.
    pub environment: Environment,
}

/// Reads the command line.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Parsed, Stopped> {
    let arguments: Vec<OsString> = arguments.collect();
    // Not a copy of it: the definition is a third of what there is in memory before a load.
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(&arguments).map_err(|error| stopped(error, &arguments))?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| stopped(error, &arguments))?;
    let environment = Environment::of(&definition, &matches);
    if let (Command::Load(load), Some((_, matches))) = (&mut cli.command, matches.subcommand()) {
        load.settle(matches).map_err(|failure| Stopped::Wrong(failure.of(&environment)))?;
    }
    if let (Command::Capacity(capacity), Some((_, matches))) = (&mut cli.command, matches.subcommand()) {
        capacity.settle(matches).map_err(|failure| Stopped::Wrong(failure.of(&environment)))?;
    }
    if let Command::Ab(ab) = &mut cli.command {
        ab.read_sides(&self::definition(), &arguments).map_err(|failure| Stopped::Wrong(failure.of(&environment)))?;
    }
    Ok(Parsed { command: cli.command, environment })
}

/// The arguments of `load` that words say.
///
/// # Errors
/// They are no arguments of `load`, in one sentence.
pub fn load_of(words: impl IntoIterator<Item = String>) -> Result<load::LoadArgs, Failure> {
    let words: Vec<String> = words.into_iter().collect();
    match parse(load_words(&words).into_iter()) {
        Ok(Parsed { command: Command::Load(load), .. }) => Ok(*load),
        Ok(_) | Err(Stopped::Asked(_) | Stopped::NoCommand(_)) => {
            Err(Failure::usage("expected flags of 'plimsoll load', such as -H 'Name: value'"))
        }
        Err(Stopped::Wrong(failure)) => Err(failure),
    }
}

/// The definition of `load`, which no variable of the environment says anything to.
pub fn load_definition() -> clap::Command {
    let load = definition().get_subcommands().find(|command| command.get_name() == "load").cloned();
    without_environment(load.unwrap_or_default())
}

/// What words behind `load` say, and nothing that the environment says.
///
/// # Errors
/// They are no arguments of `load`, in one sentence.
pub fn typed_to_load(words: &[String]) -> Result<ArgMatches, Failure> {
    let all = ["load"].into_iter().chain(words.iter().map(String::as_str));
    load_definition().try_get_matches_from(all).map_err(|error| match stopped(error, &load_words(words)) {
        Stopped::Wrong(failure) => failure,
        Stopped::Asked(_) | Stopped::NoCommand(_) => {
            Failure::usage("expected arguments of 'plimsoll load', got none to run")
        }
    })
}

/// Ids of the flags of `load` that were typed behind it, or stand in the environment; and what the environment said.
///
/// # Errors
/// They are no arguments of `load`, in one sentence.
pub fn given_to_load(words: &[String]) -> Result<(Vec<String>, Environment), Failure> {
    let definition = definition();
    let words = load_words(words);
    let matches = match definition.clone().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => match stopped(error, &words) {
            Stopped::Wrong(failure) => return Err(failure),
            Stopped::Asked(_) | Stopped::NoCommand(_) => {
                return Err(Failure::usage("expected flags of 'plimsoll load' behind the file's name"));
            }
        },
    };
    let environment = Environment::of(&definition, &matches);
    let Some((_, of_load)) = matches.subcommand() else { return Ok((Vec::new(), environment)) };
    let is_given = |id: &&str| {
        let source = of_load.value_source(id);
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    // Groups of flags have ids too.
    let ids: Vec<&str> = load_definition_ids(&definition);
    Ok((ids.into_iter().filter(is_given).map(str::to_owned).collect(), environment))
}

fn load_definition_ids(definition: &clap::Command) -> Vec<&str> {
    let load = definition.find_subcommand("load");
    load.into_iter().flat_map(clap::Command::get_arguments).map(|arg| arg.get_id().as_str()).collect()
}

fn load_words(words: &[String]) -> Vec<OsString> {
    ["plimsoll", "load"].into_iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect()
}

impl Command {
    /// Whether warnings are not wanted.
    pub fn is_quiet(&self) -> bool {
        match self {
            Command::Load(load) => load.output.quiet,
            Command::Capacity(capacity) => capacity.load.output.quiet,
            Command::Ab(ab) => ab.load.output.quiet,
            Command::Attach(attach) => attach.quiet,
            Command::Run(run) => run.flags.iter().any(|word| matches!(&**word, "-q" | "--quiet")),
            _ => false,
        }
    }
}

/// Whether a value stands on the command line and not only in the environment.
fn is_on_command_line(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn stopped(error: clap::Error, arguments: &[OsString]) -> Stopped {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stopped::Asked(error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Stopped::NoCommand(error),
        _ => {
            // A negative number reads as a flag that nobody knows; as a value it is refused by what was expected.
            let joined = with_negatives_joined(arguments);
            let of_value = joined.as_ref().and_then(|joined| definition().try_get_matches_from(joined).err());
            let error = of_value.filter(|error| error.kind() == ErrorKind::ValueValidation).unwrap_or(error);
            Stopped::Wrong(Failure::usage(one_sentence(&error, arguments)))
        }
    }
}

/// `-c -5` as `-c=-5`, if there is anything like it.
fn with_negatives_joined(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (command, _) = command_of(arguments);
    let takes_value = |flag: &str| {
        let is_it = |arg: &clap::Arg| {
            flag.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long))
                || flag.strip_prefix('-').is_some_and(|short| arg.get_short().is_some_and(|c| short == c.to_string()))
        };
        command.get_arguments().any(|arg| is_it(arg) && arg.get_action().takes_values())
    };
    let is_negative =
        |text: &str| text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let at = arguments.windows(2).position(|pair| match (pair[0].to_str(), pair[1].to_str()) {
        (Some(flag), Some(value)) => takes_value(flag) && is_negative(value),
        _ => false,
    })?;
    let mut joined = arguments[at].clone();
    joined.push("=");
    joined.push(&arguments[at + 1]);
    Some([&arguments[..at], &[joined], &arguments[at + 2..]].concat())
}

/// The command that arguments name, and its path.
fn command_of(arguments: &[OsString]) -> (clap::Command, String) {
    let mut command = definition();
    // An argument can be shown when it is built.
    command.build();
    let mut path = String::from("plimsoll");
    for argument in arguments.iter().skip(1).filter_map(|a| a.to_str()) {
        let Some(inner) = command.find_subcommand(argument) else { break };
        command = inner.clone();
        path = format!("{path} {argument}");
    }
    (command, path)
}

/// clap's error without its paragraphs: what is wrong, the tip if there is one, and where help is.
fn one_sentence(error: &clap::Error, arguments: &[OsString]) -> String {
    let shown = error.to_string();
    let first: Vec<&str> = shown.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let first = first.join(" ");
    let what = first.strip_prefix("error: ").unwrap_or(&first);
    let tip = match error.get(ContextKind::SuggestedArg).or(error.get(ContextKind::SuggestedSubcommand)) {
        Some(ContextValue::String(suggested)) => format!(", did you mean '{suggested}'?"),
        Some(ContextValue::Strings(suggested)) => format!(", did you mean '{}'?", suggested.join("' or '")),
        _ => String::new(),
    };
    let (command, path) = command_of(arguments);
    let tip = if tip.is_empty() && error.kind() == ErrorKind::InvalidSubcommand {
        let there_are: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        format!(", expected one of {}", there_are.join(", "))
    } else {
        tip
    };
    let what = match without_variables(arguments) {
        // It is wrong whatever the environment says.
        Err(same) if same.to_string() == shown => what.to_owned(),
        Err(_) => environment::blamed(what, &command, |_| false),
        Ok(matches) => {
            let mut matches = &matches;
            while let Some((_, inner)) = matches.subcommand() {
                matches = inner;
            }
            environment::blamed(what, &command, |arg| is_on_command_line(matches, arg.get_id().as_str()))
        }
    };
    format!("{what}{tip} (see '{path} --help')")
}

/// The command line as if no variable were set.
fn without_variables(arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
    without_environment(definition()).try_get_matches_from(arguments)
}

fn without_environment(command: clap::Command) -> clap::Command {
    // No variable has this name.
    command.mut_args(|arg| if arg.get_env().is_some() { arg.env("") } else { arg }).mut_subcommands(without_environment)
}

fn exit_statuses() -> String {
    let mut statuses = Exit::ALL;
    statuses.sort_by_key(|exit| exit.status());
    let lines: Vec<String> = statuses.iter().map(|exit| format!("  {:>3}  {}", exit.status(), exit.about())).collect();
    format!("Exit status:\n{}\n\n{VARIABLES}", lines.join("\n"))
}

#[cfg(test)]
mod tests;
