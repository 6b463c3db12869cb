//! `plimsoll run`: a scenario file, run as `load` runs its flags; or the file of a command line, or the files' schema.

use super::load;
use super::load::together::{Asked, Repeat};
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use crate::file::{LoadPart, RunArgs, ScenarioFile, schema, write};
use model::recording::LoadRole;
use std::io::Write;

/// Runs a file, or prints what was asked for.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let mut stdout = std::io::stdout();
    if args.schema {
        stdout.write_all(schema::text().as_bytes())?;
        return Ok(Exit::Fine);
    }
    if let Some(line) = &args.from {
        let written = write::from_line(line)?;
        for (name, _) in &written.variables {
            super::tell(&format!(
                "the file refers to the variable {name}: set it to the secret before the file is run"
            ));
        }
        stdout.write_all(written.text.as_bytes())?;
        return Ok(Exit::Fine);
    }
    let Some(path) = &args.file else {
        return Err(Failure::usage("expected a scenario file, got none: name one (see 'plimsoll run --help')"));
    };
    let file = ScenarioFile::read(path)?;
    let mut typed = args.flags.clone();
    if args.explain && !typed.iter().any(|word| word == "--explain") {
        typed.push("--explain".to_owned());
    }
    let (mut main, mut asked) = (None, Vec::with_capacity(file.loads.len() + 1));
    for (at, part) in file.loads.iter().enumerate() {
        let load = file.arguments(part, &typed)?;
        let mut scenario = scenario_of(&load).map_err(|failure| file.placed(part, failure))?;
        ScenarioFile::complete(part, &load, &mut scenario);
        let role = if at == 0 { LoadRole::Main } else { LoadRole::Beside };
        asked.push(Asked { name: part.name.clone().unwrap_or_default(), role, scenario });
        main.get_or_insert(load);
    }
    let Some(main) = main else { return Err(Failure::usage("expected a load, got none: write one below [load]")) };
    if let Some(canary) = &file.canary {
        // What is typed behind the file's name is said of its loads.
        let args = file.arguments(&canary.load, &[])?;
        let mut scenario = scenario_of(&args).map_err(|failure| file.placed(&canary.load, failure))?;
        ScenarioFile::complete(&canary.load, &args, &mut scenario);
        asked.push(Asked::as_canary(scenario, main.canary.canary_every.or(canary.every_ns)));
    }
    let parts: Vec<&LoadPart> = file.loads.iter().chain(file.canary.iter().map(|canary| &canary.load)).collect();
    // A canary that is a URL alone has no part of its own.
    let blamed = |at: usize, failure| file.placed(parts.get(at).copied().unwrap_or(parts[0]), failure);
    let target = file.target.as_ref().map(|target| target.spec()).transpose()?;
    let repeat = match file.repeats {
        None | Some(1) => Repeat::Once,
        Some(times) => Repeat::Times(times),
    };
    load::run_scenarios(main, asked, target.as_ref(), repeat, &blamed)
}
