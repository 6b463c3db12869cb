//! The written result: Markdown for people, JSON for programs, under one name, from one value.
//! Both carry the machine, the versions, the date and the exact command; the JSON also has every
//! single run, so that another median can be taken from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;

use crate::args::Settings;
use crate::machine::{self, Machine};
use crate::say::say;
use crate::stats::Summary;

/// A table as it is shown.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self { title: title.into(), columns: columns.iter().map(|&name| name.to_owned()).collect(), rows: Vec::new() }
    }
}

/// One result.
#[derive(Debug, Serialize)]
pub struct Document {
    /// `plimsoll.bench/1`.
    pub schema: &'static str,
    /// The subcommand.
    pub name: String,
    /// What it answers, in one line.
    pub question: String,
    /// When it began.
    pub started_at: String,
    /// The command as typed.
    pub command: String,
    /// What it ran on.
    pub machine: Machine,
    /// First line of each tool's version.
    pub versions: BTreeMap<String, String>,
    /// All settings, defaults included.
    pub settings: Settings,
    /// How it was measured, in sentences.
    pub method: Vec<String>,
    /// What is shown.
    pub tables: Vec<Table>,
    /// Every run.
    pub runs: Value,
}

impl Document {
    /// A document without results yet.
    pub fn new(settings: &Settings, question: &str) -> Self {
        let words: Vec<String> = std::env::args().collect();
        let installed = |name: &'static str, option| {
            machine::find(name)
                .map_or_else(|| (name, Path::new("/nonexistent").to_owned(), option), |path| (name, path, option))
        };
        let mut programs = vec![("plimsoll", settings.plimsoll.clone(), "--version")];
        for (name, option) in [
            ("nginx", "-v"),
            ("wrk", "-v"),
            ("ab", "-V"),
            ("h2load", "--version"),
            ("wrk2", "-v"),
            ("oha", "--version"),
            ("vegeta", "-version"),
            ("k6", "version"),
        ] {
            programs.push(installed(name, option));
        }
        let programs: Vec<(&str, &Path, &str)> =
            programs.iter().map(|(name, path, option)| (*name, path.as_path(), *option)).collect();
        Self {
            schema: "plimsoll.bench/1",
            name: settings.command.clone(),
            question: question.to_owned(),
            started_at: machine::now_utc(),
            command: words.join(" "),
            machine: machine::machine(),
            versions: machine::versions(&programs),
            settings: settings.clone(),
            method: Vec::new(),
            tables: Vec::new(),
            runs: Value::Null,
        }
    }

    /// Writes `<name>.md` and `<name>.json` into a folder, which is made if need be.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
        let write = |extension: &str, text: String| {
            let path = folder.join(format!("{}.{extension}", self.name));
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            say(&format!("written: {}", path.display()));
            Ok::<(), anyhow::Error>(())
        };
        write("json", serde_json::to_string_pretty(self)? + "\n")?;
        write("md", self.markdown())
    }

    /// The page for people.
    pub fn markdown(&self) -> String {
        let mut page = format!("# {}\n\n{}\n\n", self.name, self.question);
        let memory_gib = self.machine.memory_bytes as f64 / f64::from(1 << 30);
        let facts = [
            format!("Started {}: `{}`", self.started_at, self.command),
            format!(
                "{} × {}, {memory_gib:.1} GiB, Linux {}, {}",
                self.machine.cpus, self.machine.cpu, self.machine.kernel, self.machine.congestion_control
            ),
        ];
        // Writing into a String cannot fail.
        for fact in facts.iter().chain(&self.method) {
            let _ = writeln!(page, "- {fact}");
        }
        let versions: Vec<String> = self.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
        let _ = writeln!(page, "- {}", versions.join(" · "));
        for table in &self.tables {
            let _ = write!(page, "\n## {}\n\n{}", table.title, markdown_table(table));
        }
        page
    }
}

/// A table with its columns aligned: text left, figures right.
fn markdown_table(table: &Table) -> String {
    let all = || std::iter::once(&table.columns).chain(&table.rows);
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|column| {
            let cells = all().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        })
        .collect();
    let right = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column));
        column > 0 && cells.all(|cell| cell.starts_with(|c: char| !c.is_alphabetic()))
    };
    let mut text = String::new();
    for (index, row) in all().enumerate() {
        for (column, width) in widths.iter().enumerate() {
            let cell = row.get(column).map_or(String::new(), |cell| cell.replace('|', "\\|"));
            let _ = if right(column) { write!(text, "| {cell:>width$} ") } else { write!(text, "| {cell:<width$} ") };
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width - 1);
                let _ = if right(column) { write!(text, "| {dashes}: ") } else { write!(text, "| {dashes}- ") };
            }
            text.push_str("|\n");
        }
    }
    text
}

/// What stands for a figure that is not there.
pub const NOTHING: &str = "–";

/// `median (min–max)`.
pub fn spread(summary: Option<Summary>, decimals: usize) -> String {
    summary.map_or(NOTHING.to_owned(), |summary| {
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", summary.median, summary.min, summary.max)
    })
}

/// The same in thousands.
pub fn spread_thousands(summary: Option<Summary>) -> String {
    let scaled = summary.map(|summary| Summary {
        median: summary.median / 1e3,
        min: summary.min / 1e3,
        max: summary.max / 1e3,
        ..summary
    });
    spread(scaled, 1)
}

/// One figure.
pub fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new("t", &["tool", "k", "remarks"]);
        table.rows.push(vec!["wrk".into(), "7.0".into(), "a|b".into()]);
        table.rows.push(vec!["ab".into(), NOTHING.into(), String::new()]);
        let expected = "\
| tool |   k | remarks |
| ---- | --: | ------- |
| wrk  | 7.0 | a\\|b    |
| ab   |   – |         |
";
        assert_eq!(markdown_table(&table), expected);
    }

    #[test]
    fn figures_and_their_absence() {
        let summary = Summary { count: 3, median: 1234.0, min: 1000.0, max: 2000.0 };
        assert_eq!(spread_thousands(Some(summary)), "1.2 (1.0–2.0)");
        assert_eq!(spread(None, 2), "–");
        assert_eq!(figure(Some(0.125), 2), "0.12");
    }
}
