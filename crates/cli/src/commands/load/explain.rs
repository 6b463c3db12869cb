//! `plimsoll load --explain`: the plan in words, what was chosen and why, every limit that holds. Puts no load on.
//!
//! With `--json` the same as a document: the plan as it would be recorded, warnings and choices beside it.
//! Secrets are not in the plan that is handed over here ([`model::hide`]), for terminals are shared.

use super::together::{Loads, Repeat, ResolvedLoad};
use crate::args::load::OutputArgs;
use crate::exit::{Exit, Failure};
use crate::flags;
use model::plain::plain;
use model::recording::LoadRole;
use report::text::explain::{Explained, words};
use resolve::Resolved;
use session::target;
use std::io::Write;

/// Prints it.
pub fn run(loads: Loads, target: Option<&target::Spec>, repeat: Repeat, output: &OutputArgs) -> Result<Exit, Failure> {
    let mut stdout = std::io::stdout();
    match output.json {
        true => writeln!(stdout, "{:#}", document(loads, target, repeat))?,
        false => stdout.write_all(text(&hidden(loads), target, repeat, output).as_bytes())?,
    }
    Ok(Exit::Fine)
}

/// Plans without secrets.
fn hidden(loads: Loads) -> Vec<ResolvedLoad> {
    let mut loads = loads.all;
    loads.iter_mut().for_each(|load| load.resolved.plan = model::hide::plan(&load.resolved.plan));
    loads
}

fn text(loads: &[ResolvedLoad], target: Option<&target::Spec>, repeat: Repeat, output: &OutputArgs) -> String {
    let mut text = String::new();
    if let Repeat::Times(times) = repeat {
        text += &format!("Repeats\n  times              {times}, each with its recording\n\n");
    }
    if let Some(target) = target {
        text += "Target\n";
        for (name, value) in target.words() {
            text += &format!("  {name:<18} {}\n", plain(&value));
        }
        text.push('\n');
    }
    for (at, ResolvedLoad { name, role, resolved, .. }) in loads.iter().enumerate() {
        if loads.len() > 1 {
            let what = match role {
                LoadRole::Main => " (the main one)",
                LoadRole::Beside => " (beside it)",
                LoadRole::Canary => " (ends with the last load)",
            };
            text += &format!("{}Load '{name}'{what}\n\n", if at > 0 { "\n" } else { "" });
        }
        let warnings = warnings(resolved);
        let choices: Vec<_> = resolved.choices.iter().map(|c| (c.what, c.value.as_str(), c.why.as_str())).collect();
        let plan = &resolved.plan;
        text += &words(&Explained { plan, results: &results(output), choices: &choices, warnings: &warnings });
    }
    text
}

fn warnings(resolved: &Resolved) -> Vec<String> {
    resolved.warnings.iter().map(flags::shown).collect()
}

/// The same as a document.
pub fn document(loads: Loads, target: Option<&target::Spec>, repeat: Repeat) -> serde_json::Value {
    let loads = hidden(loads);
    let one = |load: &ResolvedLoad| {
        let choices: Vec<_> = (load.resolved.choices.iter())
            .map(|choice| serde_json::json!({"what": choice.what, "value": choice.value, "why": choice.why}))
            .collect();
        serde_json::json!({"plan": load.resolved.plan, "choices": choices, "warnings": warnings(&load.resolved)})
    };
    // The main load's at the top, as of a load alone.
    let mut document = one(&loads[0]);
    if loads.len() > 1 {
        document["load"] = loads[0].name.clone().into();
        let others = loads[1..].iter().map(|load| {
            let mut other = one(load);
            other["load"] = load.name.clone().into();
            other["role"] = serde_json::to_value(load.role).unwrap_or_default();
            other
        });
        document["loads"] = others.collect::<Vec<_>>().into();
    }
    if let Some(target) = target {
        let words = target.words().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        document["target"] = words.collect::<serde_json::Map<_, _>>().into();
    }
    if let Repeat::Times(times) = repeat {
        document["repeats"] = times.into();
    }
    document
}

fn results(output: &OutputArgs) -> String {
    let record = match (&output.record, output.no_record) {
        (Some(path), _) => format!("recording in {}", path.display()),
        (None, true) => "no recording".to_owned(),
        (None, false) => "recording in the default folder".to_owned(),
    };
    let csv = match &output.csv {
        Some(path) if crate::commands::output::intervals::is_stdout(path) => {
            ", intervals as CSV on stdout, the report on stderr".to_owned()
        }
        Some(path) => format!(", intervals as CSV in {}", path.display()),
        None => String::new(),
    };
    let colour = if output.no_color { ", no colours" } else { "" };
    let quiet = if output.quiet { ", no progress" } else { "" };
    format!("{record}{csv}{colour}{quiet}")
}
