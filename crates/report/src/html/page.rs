//! What every page has: a head, a table of contents, the verdict, then parts each with a heading, and a foot.

use super::lines::shown;
use crate::figures::rfc3339;
use crate::words::capitalized;
use maud::{Markup, PreEscaped, html};

/// The mark of a load line: a circle with a line through it.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\"><circle cx=\"16\" cy=\"16\" r=\"10\"/><path d=\"M1 16h30\"/></svg>";

/// A page's frame of words.
#[derive(Debug)]
pub(super) struct Page<'a> {
    /// What it is of.
    pub heading: String,
    /// What was done, in a sentence.
    pub plan: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// The command that shows it again.
    pub command: Option<&'a str>,
    /// What must be known before all else.
    pub alert: Option<String>,
    /// The version that made what is shown.
    pub version: &'a str,
    /// Whether what is shown goes on.
    pub goes_on: bool,
    /// The first part.
    pub verdict: Markup,
    /// All others; those that have nothing to say are left out.
    pub parts: Vec<Part>,
}

/// A part of a page.
#[derive(Debug)]
pub(super) struct Part {
    id: &'static str,
    /// Its name in the table of contents.
    short: &'static str,
    title: &'static str,
    body: Vec<Markup>,
}

impl Part {
    /// One with what stands in it.
    pub fn new(id: &'static str, short: &'static str, title: &'static str, body: Vec<Markup>) -> Self {
        Part { id, short, title, body }
    }

    fn has_any(&self) -> bool {
        self.body.iter().any(|part| !part.0.is_empty())
    }

    fn markup(&self) -> Markup {
        html! {
            section id=(self.id) aria-labelledby={ (self.id) "-title" } {
                h2 id={ (self.id) "-title" } { (self.title) }
                @for part in &self.body { (part) }
            }
        }
    }
}

impl Page<'_> {
    /// All of it but its data.
    pub fn markup(&self) -> Markup {
        let parts: Vec<&Part> = self.parts.iter().filter(|part| part.has_any()).collect();
        html! {
            a.skip href="#verdict" { "To the verdict" }
            (self.header())
            nav aria-label="Contents" { ul {
                li { a href="#verdict" { "Verdict" } }
                @for part in &parts { li { a href={ "#" (part.id) } { (part.short) } } }
            } }
            main {
                (self.verdict)
                @for part in &parts { (part.markup()) }
            }
            footer { p {
                "Written by plimsoll " (shown(self.version)) ". "
                (if self.goes_on { "The run goes on; this becomes its report when it has ended." } else { "The file needs nothing else: it can be kept, sent and printed." })
            } }
            div #status .hidden role="status" aria-live="polite" {}
        }
    }

    fn header(&self) -> Markup {
        let started = rfc3339(self.started_at_unix_ns);
        let minute = started.chars().take(16).collect::<String>().replace('T', " ");
        html! {
            header {
                p.brand { (PreEscaped(MARK)) "plimsoll" }
                h1 { (shown(&self.heading)) }
                p.plan { (shown(&self.plan)) }
                p.when {
                    time datetime=(started) { (minute) " UTC" }
                    @if let Some(command) = self.command { " · " code { (shown(command)) } }
                }
                @if let Some(text) = &self.alert { p.alert { (capitalized(&shown(text))) } }
            }
        }
    }
}

/// What a page is called in a browser's tab.
pub(super) fn title(heading: &str) -> String {
    format!("{} – plimsoll", shown(heading).chars().take(80).collect::<String>())
}

/// What its document is saved as.
pub(super) fn file_name(what: &str, started_at_unix_ns: u64) -> String {
    let time: String = rfc3339(started_at_unix_ns).chars().take(19).collect();
    format!("plimsoll-{what}{}.json", time.replace([':', 'T'], "-"))
}
