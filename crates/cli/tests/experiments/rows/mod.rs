//! The observations that were published, a row each: as what, by which experiment or command it is looked at, and how what that gave
//! reads. Nothing here is a figure of ours: each `says` takes it from the document.

mod connections;
mod echo;
mod forty;
mod names;
mod proxy;

use serde_json::Value;

/// By what a row is looked at.
pub enum By {
    /// A file of `experiments/`.
    Run { name: &'static str, says: fn(&Value) -> Option<String> },
    /// A line for a shell, beside a server: `serve` with its words. JSON is read as such, else what it printed.
    Command { serve: Option<&'static str>, line: &'static str, says: fn(&Value) -> Option<String> },
    /// The page that `make kernel` writes.
    Kernel { says: fn(&str) -> Option<String> },
}

/// An observation.
pub struct Row {
    pub id: &'static str,
    pub published: &'static str,
    pub by: By,
}

/// What was published together.
pub struct Group {
    pub title: &'static str,
    pub about: &'static str,
    pub rows: &'static [Row],
}

pub const GROUPS: &[Group] = &[
    Group {
        title: "A. Long connections, and HTTPS",
        about: "A 1-core ARM board with 1 GB, 2013.",
        rows: connections::ROWS,
    },
    Group {
        title: "B. A proxy whose memory was full",
        about: "nginx on 10 GbE before a cache, 2014.",
        rows: proxy::ROWS,
    },
    Group {
        title: "C. An echo server in the kernel",
        about: "Against one of user space, 2022. The module itself is not among them; what its users see is.",
        rows: echo::ROWS,
    },
    Group { title: "D. Forty milliseconds", about: "A small HTTP server, 2018.", rows: forty::ROWS },
    Group {
        title: "E. A name service that is crashed",
        about: "Supervised, at 13,000 transactions a second, 2009.",
        rows: names::ROWS,
    },
];

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;

/// A number with its thousands apart.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Microseconds of a document in milliseconds; `None`: too few for it.
fn ms(us: &Value) -> Option<String> {
    Some(us.as_f64().map_or_else(|| "(too few)".to_owned(), |us| format!("{:.2} ms", us / 1e3)))
}

fn value<'a>(variant: &'a Value, axis: &str) -> Option<&'a str> {
    variant["values"].as_array()?.iter().find(|one| one["axis"] == axis)?["value"].as_str()
}

/// The variant in which each of these axes has that value.
fn variant<'a>(document: &'a Value, wanted: &[(&str, &str)]) -> Option<&'a Value> {
    let is_it = |one: &&Value| wanted.iter().all(|(axis, wanted)| value(one, axis) == Some(*wanted));
    document["variants"].as_array()?.iter().find(is_it)
}

fn run_of<'a>(document: &'a Value, wanted: &[(&str, &str)]) -> Option<&'a Value> {
    Some(&variant(document, wanted)?["repeats"]["loads"][0]["runs"][0])
}

fn figure(document: &Value, wanted: &[(&str, &str)], figure: &str) -> Option<f64> {
    run_of(document, wanted)?["figures"][figure].as_f64()
}

/// How a finding stands: its title where it was found, or why it was not.
fn judged(document: &Value, id: &str) -> Option<String> {
    let all = ["findings", "judged"].into_iter().filter_map(|list| document[list].as_array());
    let finding = all.flatten().find(|finding| finding["id"] == id)?;
    let title = finding["title"].as_str()?;
    Some(if finding["status"] == "supported" { format!("found: {title}") } else { title.to_owned() })
}

/// The piece of a finding's evidence with a text in it.
fn evidence(document: &Value, id: &str, text: &str) -> Option<String> {
    let finding = document["findings"].as_array()?.iter().find(|finding| finding["id"] == id)?;
    let pieces = finding["because"].as_array()?.iter().filter_map(|piece| piece["text"].as_str());
    pieces.into_iter().find(|piece| piece.contains(text)).map(str::to_owned)
}

/// What gives first with a server of the size sweep.
fn size_sweep(document: &Value, server: &str) -> Option<String> {
    Some(format!("{server}: {}", run_of(document, &[("server", server)])?["gives"].as_str()?))
}

/// A comparison's first paragraph.
fn first_sentence(document: &Value) -> Option<String> {
    let text = document.as_str()?;
    let lines = text.lines().take_while(|line| !line.trim_start().starts_with("A ") && !line.is_empty());
    Some(lines.collect::<Vec<_>>().join(" "))
}

/// The last line that begins so.
fn last_line(document: &Value, start: &str) -> Option<String> {
    document.as_str()?.lines().rfind(|line| line.starts_with(start)).map(str::to_owned)
}
