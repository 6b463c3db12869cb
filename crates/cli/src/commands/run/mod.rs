//! `plimsoll run`: a scenario file, run as `load` runs its flags; or the file of a command line, or the files' schema.

use super::load::together::{Asked, Repeat};
use super::load::{self, Wanted};
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use crate::file::{LoadPart, RunArgs, ScenarioFile, Variant, schema, write};
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
    let mut typed = args.flags.clone();
    if args.explain && !typed.iter().any(|word| word == "--explain") {
        typed.push("--explain".to_owned());
    }
    let variants = ScenarioFile::read(path)?;
    if let [Variant { values, file }] = &variants[..]
        && values.is_empty()
    {
        let Wanted { args, asked, target, repeat, blamed, .. } = wanted(file, values, &typed)?;
        return load::run_scenarios(args, asked, target.as_ref(), repeat, &*blamed);
    }
    let wanted = variants.iter().map(|Variant { values, file }| wanted(file, values, &typed));
    load::run_variants(wanted.collect::<Result<Vec<_>, Failure>>()?)
}

/// What a file wants to be run.
fn wanted<'a>(file: &'a ScenarioFile, values: &[(String, String)], typed: &[String]) -> Result<Wanted<'a>, Failure> {
    let (mut main, mut asked) = (None, Vec::with_capacity(file.loads.len() + 1));
    for (at, part) in file.loads.iter().enumerate() {
        let load = file.arguments(part, typed)?;
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
    Ok(Wanted {
        values: values.to_vec(),
        args: main,
        asked,
        target: file.target.as_ref().map(|target| target.spec()).transpose()?,
        repeat: match file.repeats {
            None | Some(1) => Repeat::Once,
            Some(times) => Repeat::Times(times),
        },
        // A canary that is a URL alone has no part of its own.
        blamed: Box::new(move |at, failure| file.placed(parts.get(at).copied().unwrap_or(parts[0]), failure)),
    })
}
