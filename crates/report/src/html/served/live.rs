//! The page of a run that goes on: the report as it would be if the run ended now, again and again in one page.
//!
//! A frame is the whole of it, so that who comes late or slept misses nothing. The page around is a shell that is written
//! once; its script puts each frame in the place of the one before and keeps what was drawn, opened and chosen. What a browser
//! may ask for, the shell's policy says: of the server that it came from, frames and orders, and nothing else.

use crate::html::frame::Frame;
use crate::html::{Report, charts, data, lines, loads, page, run};
use crate::json::Document;
use maud::html;
use serde::Serialize;
use std::io;

/// How a run is shown that goes on.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Since the start, seconds.
    pub elapsed_s: f64,
    /// The planned length, seconds; `None`: only a count ends it, or somebody.
    pub planned_s: Option<f64>,
    /// What it is a part of, such as a step of a search; empty: nothing.
    pub label: &'a str,
}

/// What whoever looks may order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orders {
    /// Nothing.
    None,
    /// To end the run.
    Stop,
    /// And to change the rate.
    StopAndRate,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    elapsed_s: f64,
    planned_s: Option<f64>,
    label: &'a str,
    body: String,
    data: String,
}

impl Report<'_> {
    /// How it stands, as JSON for the shell's script: one line.
    ///
    /// # Errors
    /// None that can come: the writing is to memory.
    pub fn frame(&self, progress: Progress<'_>) -> io::Result<String> {
        let document = Document::of(self.recording, self.diagnosis, self.describe, None);
        let charts = self.charts();
        let shown = Shown {
            elapsed_s: progress.elapsed_s,
            planned_s: progress.planned_s,
            label: progress.label,
            body: run::sections::body(self, &document, &charts)?.into_string(),
            data: data::packed(self, &charts)?,
        };
        Ok(serde_json::to_string(&shown)?)
    }

    /// Its charts over time.
    pub(in crate::html) fn charts(&self) -> Vec<charts::Chart> {
        let of_load = match self.recording.capsule.why_no_load() {
            Some(_) => Vec::new(),
            None => charts::of_load(self.recording, &self.rows),
        };
        let beside = self.beside.iter().flat_map(loads::Beside::charts);
        of_load.into_iter().chain(beside).chain(charts::of_course(&self.course)).collect()
    }
}

/// The page around the frames; `what` is shown until the first has come.
pub fn shell(what: &str, orders: Orders) -> String {
    let what = lines::shown(what);
    let body = html! {
        div #live role="region" aria-label="The run as it goes" {
            p.state { span.dot aria-hidden="true" {} span #live-state role="status" { "Waiting for the first reading" } " " span #live-time {} }
            progress #live-progress max="1" value="0" aria-label="How much of the run is over" hidden {}
            @if orders != Orders::None {
                p.orders {
                    button type="button" #order-stop { "End the run" }
                    @if orders == Orders::StopAndRate {
                        " "
                        label { "Rate, of what was planned: " input type="number" #order-rate min="1" max="100000" step="1" value="100"; " %" }
                        " "
                        button type="button" #order-rate-set { "Change the rate" }
                    }
                }
                p #order-said role="status" {}
            }
            noscript { p.alert { "This page goes on by its script, which this browser does not run." } }
        }
        div #page { header { p.brand { "plimsoll" } h1 { (what) } } }
    };
    let frame = Frame { title: &page::title(&what), body, data: "", document: "", name: "", asks: Some("live") };
    frame.markup().into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_may_ask_its_server_only_and_shows_what_came_from_outside_as_text() {
        let page = shell("http://x/</title><script>alert(1)</script>", Orders::None);
        assert!(page.contains("connect-src 'self'") && page.contains("default-src 'none'"), "{page}");
        assert!(!page.contains("<script>alert") && !page.contains("id=\"order-stop\""));
        let stop = shell("x", Orders::Stop);
        assert!(stop.contains("id=\"order-stop\"") && !stop.contains("id=\"order-rate\""));
        assert!(shell("x", Orders::StopAndRate).contains("id=\"order-rate-set\""));
    }
}
