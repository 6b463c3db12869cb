//! Counts the instructions of benches/counts.rs and says by how much each case moved since the table in bench/results.
//!
//!     instructions             compares; exit 1 where a case takes over 2 % more than the table says
//!     instructions --update    writes the table: with the change that moved it, so that its history shows both
//!
//! Needs valgrind and gungraun-runner: bench/instructions/run.sh installs what is missing.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// How often a case does its work: hot loops a run of so many requests, all others a thousand times (benches/counts.rs).
const TIMES: [(&str, f64); 2] = [("hot_loop", 10_000.0), ("interval_merged", 1.0)];
const TIMES_ELSE: f64 = 1000.0;
/// Growth above which a case is said to have grown. The counts are exact for one compiler and one C library; another CPU
/// may have the library choose another `memcpy`.
const GROWTH_MAX: f64 = 0.02;

type Counts = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let update = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--update"] => true,
        _ => {
            eprintln!("instructions: expected nothing or --update, got '{}'", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match go(update) {
        Ok(has_grown) => ExitCode::from(u8::from(has_grown && !update)),
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::from(1)
        }
    }
}

/// Whether a case has grown.
fn go(update: bool) -> Result<bool, String> {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let (text, table) = (results.join("instructions.json"), results.join("instructions.md"));
    let before: Counts = match std::fs::read(&text) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", text.display()))?,
        Err(_) => Counts::new(),
    };
    let now = counted()?;
    print!("{}", compared(&before, &now));
    if update {
        let bytes = serde_json::to_string_pretty(&now).map_err(|error| error.to_string())? + "\n";
        let written = std::fs::write(&text, bytes).and_then(|()| std::fs::write(&table, tabled(&now)));
        written.map_err(|error| format!("the table could not be written: {error}"))?;
    }
    let grown = |(case, count): (&String, &u64)| {
        before.get(case).is_some_and(|before| *count as f64 > *before as f64 * (1.0 + GROWTH_MAX))
    };
    Ok(now.iter().any(grown))
}

/// Runs the cases under callgrind.
fn counted() -> Result<Counts, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["bench", "--quiet", "--bench", "counts", "--manifest-path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let output = cargo.env("GUNGRAUN_OUTPUT_FORMAT", "json").stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("the counts failed ({}); what they said is above", output.status));
    }
    let mut counts = Counts::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let case: Value = serde_json::from_str(line).map_err(|error| format!("expected JSON lines, but {error}"))?;
        let metrics = &case["profiles"][0]["summaries"]["total"]["summary"]["Callgrind"]["Ir"]["metrics"];
        // With an earlier run on this machine there are two: this one's comes first.
        let count = metrics["Both"][0]["Int"].as_u64().or_else(|| metrics["Left"]["Int"].as_u64());
        let (Some(function), Some(count)) = (case["function_name"].as_str(), count) else {
            return Err(format!("expected a case with its instructions (Ir), got {line}"));
        };
        counts.insert(format!("{function} {}", case["id"].as_str().unwrap_or_default()), count);
    }
    if counts.is_empty() {
        return Err("no case was counted".to_owned());
    }
    Ok(counts)
}

fn compared(before: &Counts, now: &Counts) -> String {
    let mut text = format!("{:<32} {:>14} {:>14} {:>9}\n", "case", "table", "now", "change");
    for (case, count) in now {
        let (table, change) = match before.get(case) {
            Some(before) => {
                (before.to_string(), format!("{:+.2} %", (*count as f64 / *before as f64 - 1.0) * 100.0))
            }
            None => ("–".to_owned(), "new".to_owned()),
        };
        let _ = writeln!(text, "{case:<32} {table:>14} {count:>14} {change:>9}");
    }
    for case in before.keys().filter(|case| !now.contains_key(*case)) {
        let _ = writeln!(text, "{case:<32} is in the table and is not counted any more");
    }
    text
}

fn tabled(counts: &Counts) -> String {
    let mut text = "# instructions\n\nInstructions in user space, counted by callgrind: `make instructions` compares with this \
                    table, `make instructions UPDATE=1` writes it.\nHot loops run on the simulated network, whose work is \
                    in their figure.\n\n| case | each |\n| --- | ---: |\n"
        .to_owned();
    for (case, count) in counts {
        let times = TIMES.iter().find(|(name, _)| case.starts_with(name)).map_or(TIMES_ELSE, |(_, times)| *times);
        let _ = writeln!(text, "| {case} | {:.0} |", *count as f64 / times);
    }
    text
}
