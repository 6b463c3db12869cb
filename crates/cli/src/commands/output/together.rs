//! The results of a run of one load or several: as text or JSON, and the exit status they mean together.

use super::results;
use super::terminal;
use crate::exit::{Exit, Failure};
use model::Recording;
use model::error_kind::ErrorExample;
use model::finding::{Diagnosis, ExpectationState};
use model::recording::LoadRole;
use report::answer::canary::Canary;
use report::json::{Document, LoadBeside};
use report::text::together::LoadShown;
use report::text::{Kept, Options, Style};
use session::Outcome;
use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A load's results.
pub struct Part<'a> {
    /// What was measured.
    pub recording: &'a Recording,
    /// What is made of it.
    pub diagnosis: &'a Diagnosis,
    /// Where its recording is.
    pub kept: Option<&'a Path>,
}

impl<'a> Part<'a> {
    /// Those of a run that has just ended.
    pub fn of_outcome(outcome: &'a Outcome) -> Self {
        let Outcome { recording, diagnosis, recorded_at, .. } = outcome;
        Part { recording, diagnosis, kept: recorded_at.as_deref() }
    }

    fn role(&self) -> LoadRole {
        let this = self.recording.capsule.together.as_ref().and_then(|together| together.this());
        this.map_or(LoadRole::Main, |this| this.role)
    }

    fn name(&self) -> &str {
        let this = self.recording.capsule.together.as_ref().and_then(|together| together.this());
        this.map_or("load", |this| &this.name)
    }
}

/// Writes the report as text to stdout; of several loads one report, a section for each.
pub fn text(parts: &[Part<'_>], all: bool, no_color: bool) -> Result<(), Failure> {
    match parts {
        [one] if all => results::text_with_all(one.recording, one.diagnosis, one.kept, no_color),
        [one] => results::text(one.recording, one.diagnosis, one.kept, no_color),
        several => results::to_stdout(|out| write(out, several, all, terminal::style(no_color))),
    }
}

/// The same of several to stderr: something else has stdout.
pub fn text_aside(parts: &[Part<'_>], no_color: bool) {
    let mut out = BufWriter::new(std::io::stderr().lock());
    let written = write(&mut out, parts, false, terminal::style_aside(no_color));
    // Nothing is left to do where stderr is closed.
    let _ = written.and_then(|()| out.flush());
}

fn write(out: &mut impl Write, parts: &[Part<'_>], all: bool, style: Style) -> std::io::Result<()> {
    let kept = parts.iter().map(|part| part.kept.map(|path| (path.display().to_string(), results::command_for(path))));
    let kept: Vec<Option<(String, String)>> = kept.collect();
    let describes: Vec<_> = parts.iter().map(|part| describing(part.recording)).collect();
    let mut shown = Vec::with_capacity(parts.len());
    for ((part, kept), describe) in parts.iter().zip(&kept).zip(&describes) {
        let kept = kept.as_ref().map(|(path, command)| Kept { path, command });
        let options = Options { style, describe, all, kept };
        let Part { recording, diagnosis, .. } = part;
        shown.push(LoadShown { name: part.name(), role: part.role(), recording, diagnosis, options });
    }
    report::text::together::write(out, &shown, style)
}

/// The protocol's words for the errors of a recording.
pub fn describing(recording: &Recording) -> impl Fn(&ErrorExample) -> Option<Cow<'static, str>> {
    move |example| results::words_of(recording, example)
}

/// Writes the report as JSON to stdout: the main load's, with the others' in it.
pub fn json(parts: &[Part<'_>]) -> Result<(), Failure> {
    let Some(main) = parts.first() else { return Ok(()) };
    let document = document(main).with_loads(beside(&parts[1..]));
    results::to_stdout(|out| document.write(out))
}

/// The reports of loads beside the main one.
pub fn beside(parts: &[Part<'_>]) -> Vec<LoadBeside> {
    let one = |part: &Part<'_>| LoadBeside {
        name: part.name().to_owned(),
        role: part.role(),
        canary: (part.role() == LoadRole::Canary).then(|| Canary::of(part.recording)),
        report: document(part),
    };
    parts.iter().map(one).collect()
}

fn document(part: &Part<'_>) -> Document {
    let path = part.kept.map(|path| path.display().to_string());
    Document::of(part.recording, part.diagnosis, &describing(part.recording), path.as_deref())
}

/// What all of them mean for the exit status. A canary is there to be read: it counts where something was expected of it.
pub fn exit_of(parts: &[Part<'_>]) -> Exit {
    let one = |part: &Part<'_>| match part.role() {
        LoadRole::Main | LoadRole::Beside => results::exit_of(part.recording, part.diagnosis),
        LoadRole::Canary => {
            let stated = part.diagnosis.expectations.iter().filter(|judgement| judgement.is_stated);
            let of = |state| match state {
                ExpectationState::Met => Exit::Fine,
                ExpectationState::NotMet => Exit::ExpectationFailed,
                ExpectationState::Undetermined => Exit::NotValid,
            };
            stated.fold(Exit::Fine, |exit, judgement| exit.worst(of(judgement.state)))
        }
    };
    parts.iter().map(one).fold(Exit::Fine, Exit::worst)
}
