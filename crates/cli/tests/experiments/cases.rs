//! `make cases`: every experiment whole, and every row of the published investigations with what it came to here; writes
//! `docs/cases.md`.
//!
//! What an experiment gave is kept in `target/cases`, so that one of them can be run anew (`CASES=proxy-swap`) and the page be made of all.
//! A row without a run says so. Takes some twenty minutes; without `PLIMSOLL_CASES` nothing is run.

use crate::common::*;
use crate::rows::{By, GROUPS, Row};
use crate::{missing, with_own_path};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

const HEAD: &str = "# Published investigations, run again

Five investigations of network servers that others published, each of their observations as a command, and what it gave on one
machine. Made by `make cases` of real runs; do not edit. Figures of another machine differ, and those of a virtual one from
hour to hour: what is of interest is whether the same is seen, and whether it is explained.

";

fn folder() -> PathBuf {
    testkit::workspace().join("target/cases")
}

/// The document of an experiment or a command, with how long it took and what it said first; run anew where that is wanted.
fn result(name: &str, wanted: &str, make: impl FnOnce() -> Value) -> Option<Value> {
    let file = folder().join(format!("{}.json", name.replace(['/', ' '], "-")));
    if wanted == "all" || wanted.split(',').any(|one| one == name) {
        let made = make();
        std::fs::write(&file, serde_json::to_string(&made).unwrap()).unwrap();
    }
    Some(serde_json::from_str(&std::fs::read_to_string(file).ok()?).unwrap())
}

/// Runs an experiment as a user does, from the repository's folder.
fn experiment(name: &str) -> Value {
    if let Some(missing) = missing(name) {
        return json!({"not_run": missing});
    }
    let record = tempfile::tempdir().unwrap();
    let file = record.path().join("run.plimsoll");
    let path = format!("experiments/{name}.toml");
    let begun = Instant::now();
    let words = ["run", &path, "-q", "--json", "--record", file.to_str().unwrap()];
    let run = finish(
        with_own_path(&mut command(&words)).current_dir(testkit::workspace()).env("XDG_STATE_HOME", record.path()),
    );
    let seconds = begun.elapsed().as_secs();
    println!("{name}: {seconds} s, status {:?}", run.status);
    if run.stdout.is_empty() {
        return json!({"not_run": run.stderr});
    }
    let document = run.json();
    let says = match serde_json::from_value::<diagnose::variants::Variants>(document.clone()) {
        Ok(variants) => {
            let mut text = Vec::new();
            let style = report::text::Style { color: false, width: 100_000, unicode: true };
            report::answer::variants::write(&mut text, &variants, style).unwrap();
            let text = String::from_utf8(text).unwrap();
            text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>().join(". ")
        }
        Err(_) => document["gives"]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let says = says.replace(record.path().to_str().unwrap(), "$XDG_STATE_HOME");
    json!({"seconds": seconds, "status": run.status, "says": says, "document": document})
}

/// Runs a command of a shell beside a server, if it has one.
fn shell(serve: Option<&str>, line: &str) -> Value {
    let state = tempfile::tempdir().unwrap();
    let server = serve.map(|words| crate::common::serve(&words.split(' ').collect::<Vec<_>>()));
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(testkit::workspace()).env("XDG_STATE_HOME", state.path());
    let run = finish(with_own_path(&mut command));
    drop(server);
    println!("{line}: status {:?}", run.status);
    let document = serde_json::from_str(&run.stdout).unwrap_or_else(|_| Value::String(run.stdout + &run.stderr));
    json!({"status": run.status, "document": document})
}

#[test]
fn the_page_of_cases_is_written() {
    let wanted = std::env::var("PLIMSOLL_CASES").unwrap_or_default();
    if wanted.is_empty() {
        return testkit::skip("experiments whole take long: make cases");
    }
    std::fs::create_dir_all(folder()).unwrap();
    let names: Vec<&str> = crate::EXPERIMENTS.iter().map(|one| one.name).collect();
    let experiments: BTreeMap<&str, Value> =
        names.iter().filter_map(|name| Some((*name, result(name, &wanted, || experiment(name))?))).collect();
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    let commands: BTreeMap<&str, Value> = rows
        .filter_map(|row| match row.by {
            By::Command { serve, line, .. } => Some((row.id, result(row.id, &wanted, || shell(serve, line))?)),
            _ => None,
        })
        .collect();
    let page = page(&experiments, &commands);
    std::fs::write(testkit::workspace().join("docs/cases.md"), page).unwrap();
}

fn page(experiments: &BTreeMap<&str, Value>, commands: &BTreeMap<&str, Value>) -> String {
    let mut page = HEAD.to_owned();
    page += &machine(experiments);
    page += "## Experiments\n\nEach is `plimsoll run experiments/NAME.toml`, which says more in its first lines.\n\n";
    page += "| experiment | took | says |\n|---|---|---|\n";
    for (name, made) in experiments {
        let says = made["says"].as_str().map_or_else(|| format!("not run: {}", text(&made["not_run"])), cell);
        writeln!(page, "| `{name}` | {} s | {says} |", made["seconds"]).unwrap();
    }
    for group in GROUPS {
        writeln!(page, "\n## {}\n\n{}\n", group.title, group.about).unwrap();
        page += "| | published | by | here |\n|---|---|---|---|\n";
        for row in group.rows {
            let (by, here) = told(row, experiments, commands);
            writeln!(page, "| {} | {} | {by} | {} |", row.id, row.published, cell(&here)).unwrap();
        }
    }
    page
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text that a cell can hold.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// By what a row is looked at, and what came of it.
fn told(row: &Row, experiments: &BTreeMap<&str, Value>, commands: &BTreeMap<&str, Value>) -> (String, String) {
    let of = |made: Option<&Value>, says: fn(&Value) -> Option<String>| match made {
        None => "not run".to_owned(),
        Some(made) if made["document"].is_null() => format!("not run: {}", text(&made["not_run"])),
        Some(made) => says(&made["document"]).unwrap_or_else(|| "it gave no such figure".to_owned()),
    };
    match row.by {
        By::Run { name, says } => (format!("`{name}`"), of(experiments.get(name), says)),
        By::Command { serve, line, says } => {
            let beside = serve.map_or(String::new(), |words| format!("`plimsoll serve {}` and ", &words[6..]));
            (format!("{beside}`{}`", cell(line)), of(commands.get(row.id), says))
        }
        By::Kernel { says } => {
            let page = std::fs::read_to_string(testkit::workspace().join("docs/kernel.md")).unwrap_or_default();
            let said = says(&page).unwrap_or_else(|| "it gave no such figure".to_owned());
            ("`make kernel`".to_owned(), format!("{said} ([all of it](kernel.md))"))
        }
    }
}

/// On what, and when.
fn machine(experiments: &BTreeMap<&str, Value>) -> String {
    // One of a single run has all of it.
    let of_one = |made: &&Value| made["document"]["host"].is_object();
    let Some(document) = experiments.values().find(of_one).map(|made| &made["document"]) else { return String::new() };
    let host = &document["host"];
    let gib = host["memory_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 30);
    let is_disturbed = |made: &&Value| made["says"].as_str().is_some_and(|says| says.contains("holds CPUs"));
    let others = match experiments.values().filter(is_disturbed).count() {
        0 => String::new(),
        n => format!(
            " Others used its cores meanwhile: {n} of the experiments name them first, and figures in brackets are those of runs that were disturbed."
        ),
    };
    let profile = if cfg!(debug_assertions) { "the development build" } else { "the release build" };
    format!(
        "Machine: {}, {gib:.0} GiB, a virtual one. Kernel {}. plimsoll {}, {profile}. {}.{others}\n\n",
        text(&host["cpu"]),
        text(&host["kernel"]),
        text(&document["tool"]["version"]),
        text(&document["started_at"]).get(..10).unwrap_or_default(),
    )
}
