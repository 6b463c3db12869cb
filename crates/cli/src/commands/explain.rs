//! `plimsoll load --explain`: the plan in words, what was chosen and why, every limit that holds. Puts no load on.
//!
//! With `--json` the same as a document: the plan as it would be recorded, warnings and choices beside it.
//! Secrets are not in the plan that is handed over here ([`model::hide`]), for terminals are shared.

use crate::args::load::OutputArgs;
use crate::exit::{Exit, Failure};
use crate::flags;
use report::text::explain::{Explained, words};
use resolve::Resolved;
use std::io::Write;

/// Prints it.
pub fn run(resolved: &Resolved, output: &OutputArgs) -> Result<Exit, Failure> {
    let warnings: Vec<String> = resolved.warnings.iter().map(flags::shown).collect();
    let text = if output.json {
        json(resolved, &warnings)?
    } else {
        let choices: Vec<_> = resolved.choices.iter().map(|c| (c.what, c.value.as_str(), c.why.as_str())).collect();
        words(&Explained { plan: &resolved.plan, results: &results(output), choices: &choices, warnings: &warnings })
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Fine)
}

fn json(resolved: &Resolved, warnings: &[String]) -> Result<String, Failure> {
    let choices: Vec<_> = resolved
        .choices
        .iter()
        .map(|choice| serde_json::json!({"what": choice.what, "value": choice.value, "why": choice.why}))
        .collect();
    let document = serde_json::json!({"plan": resolved.plan, "choices": choices, "warnings": warnings});
    serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(|error| {
        Failure::could_not_run(format!("the plan cannot be written as JSON ({error}); please report this"))
    })
}

fn results(output: &OutputArgs) -> String {
    let record = match (&output.record, output.no_record) {
        (Some(path), _) => format!("recording in {}", path.display()),
        (None, true) => "no recording".to_owned(),
        (None, false) => "recording in the default folder".to_owned(),
    };
    let csv = match &output.csv {
        Some(path) if super::output::intervals::is_stdout(path) => {
            ", intervals as CSV on stdout, the report on stderr".to_owned()
        }
        Some(path) => format!(", intervals as CSV in {}", path.display()),
        None => String::new(),
    };
    let colour = if output.no_color { ", no colours" } else { "" };
    let quiet = if output.quiet { ", no progress" } else { "" };
    format!("{record}{csv}{colour}{quiet}")
}
