//! The pages beside the run's own: all details, and the keys.

use super::blocks::{by_kind, of_failure, of_thread};
use super::fit::Spans;
use super::view::View;
use crate::text::Paint;
use crate::text::page::fold;

/// Keys, and what they do.
const KEYS: [(&str, &str); 6] = [
    ("q, Ctrl-C", "end the run early, and print its report; once more: end at once"),
    ("d, Enter", "all failures, findings with their evidence, threads, what was told; and back"),
    ("up, down", "a line up or down in the details"),
    ("PgUp, PgDn", "a page up or down; Home, End: to the beginning or the end"),
    ("?, h", "this page, and back"),
    ("Ctrl-Z", "stop plimsoll, as in any shell: what it measures meanwhile is its own pause"),
];

/// All that is known, from the first line to the last.
pub fn details(view: &View, width: usize) -> Vec<Spans> {
    let mut lines: Vec<Spans> = Vec::new();
    let mut section = |heading: &str, more: Vec<Spans>| {
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines.push(vec![(Paint::Heading, heading.to_owned())]);
        lines.extend(more.iter().flat_map(|line| if line.is_empty() { vec![Vec::new()] } else { fold(line, width) }));
    };
    let indented = |paint: Paint, text: String| vec![(Paint::Plain, "  ".to_owned()), (paint, text)];
    let nothing = |text: &str| vec![indented(Paint::Dim, text.to_owned())];
    let mut stands = Vec::new();
    if let Some(standing) = &view.standing {
        let (paint, text) = standing.sentence();
        stands.push(indented(paint, text));
        stands.extend(standing.proof.iter().cloned());
        stands.extend(standing.doubts.iter().map(|doubt| indented(Paint::Warn, format!("Doubtful: {doubt}"))));
        stands.extend(standing.findings.iter().cloned());
    }
    section("As it stands", if stands.is_empty() { nothing("Nothing can be said yet") } else { stands });
    let of = |counts, more| by_kind(counts).into_iter().map(move |(kind, count)| of_failure(kind, count, more));
    let kinds = of(&view.errors, "").chain(of(&view.connection_errors, ", without a request"));
    // Of those that were there when it was last asked how it stands, the first examples are known.
    let examples = view.standing.iter().flat_map(|standing| standing.failures.iter().cloned());
    let failures: Vec<Spans> = kinds.chain(examples).collect();
    section("Failures", if failures.is_empty() { nothing("None") } else { failures });
    let threads = view.threads.busiest.iter().map(|thread| {
        let at = thread.sleeps_in.as_ref().map_or(String::new(), |at| format!(" in {at}"));
        indented(Paint::Plain, format!("{}{at} (pid {}, thread {})", of_thread(thread), thread.pid, thread.tid))
    });
    let threads: Vec<Spans> = threads.collect();
    section("Busiest threads of the target", if threads.is_empty() { nothing("None is seen") } else { threads });
    let told: Vec<Spans> = view.told.iter().map(|text| indented(Paint::Plain, text.clone())).collect();
    section("What was told", if told.is_empty() { nothing("Nothing") } else { told });
    lines
}

/// The keys.
pub fn help(width: usize) -> Vec<Spans> {
    let mut lines = vec![vec![(Paint::Heading, "Keys".to_owned())]];
    lines.extend(KEYS.iter().flat_map(|(keys, what)| {
        fold(&[(Paint::Strong, format!("  {keys:12}")), (Paint::Plain, (*what).to_owned())], width)
    }));
    lines
}
