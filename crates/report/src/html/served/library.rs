//! The page of a folder of recordings: each with what it came to, to be searched, sorted, opened, compared, deleted.

use crate::figures::rfc3339;
use crate::html::frame::Frame;
use crate::html::lines::shown;
use crate::html::page;
use crate::runs::{Run, Verdict};
use crate::words::{counted, figure, grouped};
use maud::{Markup, html};
use model::Head;
use model::finding::ValidityState;
use model::recording::End;
use std::fmt::Write;

/// The page; `folder` is where they are.
pub fn page(runs: &[Run], folder: &str) -> String {
    let body = html! {
        header { p.brand { "plimsoll" } h1 { "Recordings" } p.plan { code { (shown(folder)) } } }
        main {
            @if runs.is_empty() {
                p { "There are none yet: " code { "plimsoll load URL" } " makes one." }
            } @else {
                p.orders {
                    label { "Find " input #find type="search" placeholder="target, cause, date …" autocomplete="off"; } " "
                    span #found role="status" { (counted(runs.len() as u64, "recording")) } " "
                    button type="button" #compare disabled { "Compare the two that are ticked" }
                }
                p #said role="status" {}
                div.scroll {
                    table.sortable #runs {
                        caption { "Recordings, the newest first" }
                        thead { tr {
                            th.tick { span.unseen { "Ticked" } }
                            th scope="col" { "started (UTC)" } th scope="col" { "target" } th.figure scope="col" { "a second" } th.figure scope="col" { "requests" }
                            th scope="col" { "verdict" } th scope="col" { "what gives first" } th scope="col" { "end" } th.tick { span.unseen { "Delete" } }
                        } }
                        tbody { @for run in runs.iter().rev() { (row(run)) } }
                    }
                }
            }
        }
        div #status .hidden role="status" aria-live="polite" {}
    };
    let frame =
        Frame { title: &page::title("Recordings"), body, data: "", document: "", name: "", asks: Some("library") };
    frame.markup().into_string()
}

fn row(run: &Run) -> Markup {
    let href = format!("/run/{}", escaped(&run.id));
    let (started, target) = match &run.head {
        Ok(head) => {
            let started: String = rfc3339(head.started_at_unix_ns).chars().take(16).collect();
            (started.replace('T', " "), if head.target.is_empty() { run.id.clone() } else { head.target.clone() })
        }
        Err(_) => (String::new(), run.id.clone()),
    };
    let name = format!("{} of {started}", shown(&target));
    let delete = html! { td { button.delete type="button" aria-label={ "Delete " (name) } { "Delete" } } };
    match &run.head {
        Ok(head) => html! {
            tr data-id=(run.id) {
                td { input type="checkbox" aria-label={ "Tick " (name) }; }
                td data-value=(head.started_at_unix_ns) { (started) }
                th scope="row" { a href=(href) { (shown(&target)) } }
                (came_to(head, run.verdict.as_ref()))
                (end(head))
                (delete)
            }
        },
        Err(why) => html! {
            tr data-id=(run.id) {
                td {} td {} th scope="row" { (shown(&target)) }
                td.figure { "–" } td.figure { "–" } td {} td.bad { "unreadable: " (shown(why)) } td {}
                (delete)
            }
        },
    }
}

fn came_to(head: &Head, verdict: Option<&Verdict>) -> Markup {
    let requests = html! { td.figure data-value=(head.requests) { (grouped(head.requests)) } };
    let Some(verdict) = verdict else { return html! { td.figure { "–" } (requests) td {} td {} } };
    let (class, valid) = match verdict.validity {
        ValidityState::Valid => ("good", "valid"),
        ValidityState::Undetermined => ("warn", "undetermined"),
        ValidityState::NotValid => ("bad", "not valid"),
    };
    html! {
        td.figure data-value=(verdict.rate_per_s) { (figure(verdict.rate_per_s)) " " (verdict.unit) "s" }
        (requests)
        td class=(class) { (valid) }
        td.text { @if let Some(gives) = &verdict.gives { (shown(&gives.text)) } }
    }
}

fn end(head: &Head) -> Markup {
    match head.end {
        _ if head.is_damaged => html! { td.bad { "damaged" } },
        End::Complete => html! { td { "complete" } },
        End::Interrupted => html! { td.warn { "interrupted" } },
        End::Partial => html! { td.warn { "partial" } },
    }
}

/// As a segment of a path (RFC 3986, 2.1): all but what is unreserved by its bytes in hex.
fn escaped(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_addresses_lead_nowhere_else() {
        let id = "a/../b?c#<script>\"é";
        let run = Run { id: id.to_owned(), head: Err("</td><script>alert(1)</script>".to_owned()), verdict: None };
        let target = "http://x/</th><script>alert(2)</script>".to_owned();
        let head = Head { started_at_unix_ns: 0, target, requests: 1, end: End::Partial, is_damaged: false };
        let text = page(&[run, Run { id: id.to_owned(), head: Ok(head), verdict: None }], "/f<older>");
        assert!(!text.contains("<script>alert") && text.contains("/f&lt;older&gt;"), "{text}");
        assert!(text.contains("href=\"/run/a%2F..%2Fb%3Fc%23%3Cscript%3E%22%C3%A9\""));
        assert!(text.contains("connect-src 'self'"));
    }

    #[test]
    fn of_an_empty_folder_it_says_what_makes_one() {
        assert!(page(&[], "/f").contains("plimsoll load URL"));
    }
}
