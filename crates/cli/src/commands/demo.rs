//! `plimsoll demo`: the main job on embedded defaults: a reference target, its load line, what gives first, a report.

use super::capacity::document::About;
use super::capacity::{Steps, failed, own_file, pace};
use super::interrupt;
use super::output::view::When;
use crate::args::runs::DemoArgs;
use crate::exit::{Exit, Failure};
use session::capacity::live::CapacityError;
use session::demo::{CPU_US, DemoError, OBJECTIVE, demo};
use session::{Options, RecordTo};

/// Runs it.
pub fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    super::raise_descriptor_limit();
    let program = std::env::current_exe()
        .map_err(|error| Failure::could_not_run(format!("expected to find this program's own file, but {error}")))?;
    let options = Options {
        record: if args.no_record { RecordTo::Nothing } else { RecordTo::Folder(store::default_folder()?) },
        command: super::command_line::whole(),
        record_secrets: false,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        observe: true,
        observe_at: None,
        behind: Vec::new(),
        probes: model::bpf::Level::Light,
        driver_reason: String::new(),
        interrupted: interrupt::flag()?,
    };
    let file = (!args.no_record).then(own_file).transpose()?;
    let started = |error: DemoError| match error {
        // It has no flags to be told of; and who uses its CPUs is the machine's doing.
        DemoError::Search(CapacityError::Undecidable { per_s, busy, .. }) => {
            let why = busy.unwrap_or_else(|| "it is too slow for the demo: see 'plimsoll capacity --help'".to_owned());
            super::tell(&format!(
                "plimsoll: no load line: the target answers only {per_s:.0} requests/s here, of which half a minute says too \
                 little; {why}"
            ));
            Ok(Exit::NotValid)
        }
        DemoError::Search(error) => failed(error),
        error @ (DemoError::Target(_) | DemoError::Objective(_)) => Err(Failure::could_not_run(error.to_string())),
    };
    let demo = match demo(&program) {
        Ok(demo) => demo,
        Err(error) => return started(error),
    };
    let about = About::of(&demo.spec, "plimsoll serve http".to_owned(), pace(&demo.spec), super::command_line::whole());
    let mut steps = Steps::new(args.quiet, about, &demo.spec, file);
    let when = When { never: args.no_tui, no_color: args.no_color, of_many: true };
    steps.shown.draw(when, &options.interrupted);
    steps.shown.say(&format!(
        "Looking for the load line of `plimsoll serve http`, one thread, {CPU_US} µs of CPU a request ({OBJECTIVE})."
    ));
    let found = match demo.run(&super::host(), &options, &mut steps) {
        Ok(found) => found,
        Err(error) => return started(error),
    };
    steps.shown.clear();
    interrupt::end_at_once(&options.interrupted);
    steps.finish(&found, false, args.no_color)
}
