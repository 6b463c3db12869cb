//! `plimsoll run`: a scenario file, run as `load` runs its flags; or the file of a command line, or the files' schema.

use super::load;
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use crate::file::{RunArgs, ScenarioFile, schema, write};
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
    let [part] = &file.loads[..] else {
        let second = &file.loads[1].place;
        return Err(second.wrong("expected one load, got several: this version puts on one, leave the others out"));
    };
    let blamed = |failure| file.placed(part, failure);
    let load = file.arguments(part, &typed)?;
    let mut scenario = scenario_of(&load).map_err(blamed)?;
    ScenarioFile::complete(part, &load, &mut scenario);
    let target = file.target.as_ref().map(|target| target.spec()).transpose()?;
    load::run_scenario(load, &scenario, target.as_ref(), &blamed)
}
