//! What was seen of a target without load: a document, `plimsoll.watch/1`, and the end of its text.
//!
//! The rows of the text are those of [`crate::timeline`], written as they come.

use crate::figures::rfc3339;
use crate::json::Observed;
use crate::json::fill::observed;
use crate::text::page::Page;
use crate::text::{Paint, Style, kernel};
use model::finding::{Diagnosis, Finding, Status, WhatGives};
use model::snapshot::{SamplerState, SamplerStatus};
use model::watched::Watched;
use model::{Event, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.watch/1";

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Always `plimsoll.watch/1`.
    pub schema: &'static str,
    /// The tool's version.
    pub version: String,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// How long it was looked at, seconds.
    pub watched_s: f64,
    /// CPU time that looking took, seconds.
    pub own_cpu_s: f64,
    /// What was seen, summed up.
    pub observed: Observed,
    /// The readings, thinned where there were many.
    pub snapshots: Vec<Snapshot>,
    /// Events, oldest first; of each kind at most as many as a recording keeps.
    pub events: Vec<Event>,
    /// How many more happened, by kind.
    pub events_lost: BTreeMap<String, u64>,
    /// How each sampler fared.
    pub samplers: Vec<SamplerStatus>,
    /// What gives, as far as it can be told without a load.
    pub gives: Option<WhatGives>,
    /// Causes that the evidence supports.
    pub findings: Vec<Finding>,
    /// Every other cause that was looked for, of the same shape.
    pub judged: Vec<Finding>,
    /// The recording's file; null where none was kept.
    pub recording: Option<String>,
}

impl Document {
    /// Of what was seen, and what is made of it.
    pub fn of(watched: Watched, diagnosis: &Diagnosis, recording: Option<&str>, version: &str) -> Self {
        let (findings, judged) = diagnosis.findings.iter().cloned().partition(|f| f.status == Status::Supported);
        Document {
            schema: SCHEMA,
            version: version.to_owned(),
            started_at: rfc3339(watched.started_at_unix_ns),
            watched_s: watched.watched_ns as f64 / 1e9,
            own_cpu_s: watched.own_cpu_ns as f64 / 1e9,
            observed: observed(&watched.courses, &watched.snapshots, &watched.profile, watched.target_host.as_ref()),
            snapshots: watched.snapshots,
            events_lost: watched.events.lost().clone(),
            events: watched.events.to_vec(),
            samplers: watched.samplers,
            gives: diagnosis.gives.clone(),
            findings,
            judged,
            recording: recording.map(str::to_owned),
        }
    }

    /// Writes it, indented, with an end of line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *to, self)?;
        writeln!(to)
    }
}

/// Writes what the probes saw, what happened, and which samplers did not read or left something out.
///
/// # Errors
/// Those of the writer.
pub fn write_end(to: &mut impl Write, watched: &Watched, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    if let Some(host) = &watched.target_host {
        page.gap()?;
        crate::text::remote::write(&mut page, host, &watched.snapshots)?;
    }
    kernel::write(&mut page, &watched.snapshots)?;
    crate::profile::write(&mut page, &watched.profile)?;
    if !watched.events.is_empty() {
        page.gap()?;
        page.line(&[(Paint::Heading, "Events".to_owned())])?;
    }
    for event in &watched.events {
        let at = format!("{:>6.1} s  ", event.at_ns as f64 / 1e9);
        page.wrapped(at.len(), (Paint::Dim, at), Paint::Plain, &format!("{}: {}", event.kind, event.text))?;
    }
    for (kind, lost) in watched.events.lost() {
        page.line(&[(Paint::Warn, format!("  {lost} more of the kind {kind} than are kept"))])?;
    }
    let told: Vec<_> = watched.samplers.iter().filter(|s| !s.reason.is_empty()).collect();
    if !told.is_empty() {
        page.gap()?;
        page.line(&[(Paint::Heading, "Not seen".to_owned())])?;
    }
    // A reason that several have in common is said once.
    let is_like = |a: &SamplerStatus, b: &SamplerStatus| a.status == b.status && a.reason == b.reason;
    for (at, sampler) in told.iter().enumerate() {
        if told[..at].iter().any(|before| is_like(before, sampler)) {
            continue;
        }
        let (paint, word) = match sampler.status {
            SamplerState::Failed => (Paint::Warn, "failed"),
            SamplerState::Disabled => (Paint::Dim, "disabled"),
            SamplerState::Active => (Paint::Plain, "left out"),
        };
        let names: Vec<&str> = told.iter().filter(|one| is_like(one, sampler)).map(|one| &*one.name).collect();
        let (label, text) = match *names {
            [name] => (format!("  {name:22} {word}: "), sampler.reason.clone()),
            _ => (format!("  {word}: "), format!("{}: {}", sampler.reason, names.join(", "))),
        };
        page.wrapped(label.len(), (paint, label), Paint::Plain, &text)?;
    }
    crate::agreement::write(&mut page, 13, &watched.snapshots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::profile::RunProfile;

    #[test]
    fn what_was_not_seen_is_said_with_its_reason() {
        let status = |name: &str, status, reason: &str| SamplerStatus {
            name: name.to_owned(),
            status,
            reason: reason.to_owned(),
        };
        let watched = Watched {
            started_at_unix_ns: 0,
            watched_ns: 2_000_000_000,
            own_cpu_ns: 5_000_000,
            courses: Default::default(),
            snapshots: vec![Snapshot::default()],
            profile: RunProfile::default(),
            events: [Event::new(1_500_000_000, "target-gone", "it went")].into_iter().collect(),
            samplers: vec![
                status("host/cpu", SamplerState::Active, ""),
                status("host/kernel_log", SamplerState::Failed, "needs CAP_SYSLOG"),
                status("bpf/syscalls", SamplerState::Disabled, "not asked for"),
                status("bpf/locks", SamplerState::Disabled, "not asked for"),
            ],
            target_host: None,
        };
        let mut out = Vec::new();
        write_end(&mut out, &watched, Style { color: false, width: 80, unicode: true }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("1.5 s  target-gone: it went") && text.contains("needs CAP_SYSLOG"), "{text}");
        assert!(!text.contains("host/cpu"), "{text}");
        assert!(text.contains("  disabled: not asked for: bpf/syscalls, bpf/locks\n"), "{text}");
        let document = Document::of(watched, &Diagnosis::default(), None, "0.1.0");
        let mut out = Vec::new();
        document.write(&mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&value["schema"], &value["watched_s"]), (&SCHEMA.into(), &2.0.into()));
        assert!(value["gives"].is_null() && value["recording"].is_null());
        let schema = schemars::schema_for!(Document).to_value();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value));
    }
}
