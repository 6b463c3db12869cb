//! What a rule is, and how it words its answer.
//!
//! A rule is a file in `rules/` whose head states its evidence, thresholds, their source, and what refutes it.

use crate::facts::Facts;
use model::finding::{About, Evidence, Finding, Severity, Status};

/// One cause, and how it is told from what looks alike.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its fixed id: reports, tests and users' scripts use it.
    pub id: &'static str,
    /// Whose cause it is.
    pub about: About,
    /// What must have been for it to have something to look at.
    pub needs: Needs,
    /// What it means for the figures where this is supported. Never more than nothing for what the target did.
    pub bearing: Bearing,
    /// Judges. Never panics, whatever the recording holds.
    pub judge: fn(&Facts<'_>) -> Verdict,
}

/// What a rule looks at, each with the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// The machine and the target.
    Nothing,
    /// That load was put on, or tried to be.
    Load,
    /// What came of it: at least one connection.
    Connections,
}

/// What a cause means for the run's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearing {
    /// Nothing: the figures are right, whatever they show.
    None,
    /// No figure may be believed.
    All,
    /// Those figures that it can have changed by enough ([`crate::harm`]) are not the target's.
    Measured,
}

/// A rule's answer, before it gets the rule's id.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    status: Status,
    severity: Severity,
    title: String,
    because: Vec<Evidence>,
    remedy: String,
    check_yourself: String,
    confidence: f64,
    is_open: bool,
}

impl Verdict {
    /// The cause is there.
    pub fn supported(severity: Severity, title: impl Into<String>) -> Self {
        Self::new(Status::Supported, severity, title.into(), 1.0)
    }

    /// The evidence speaks against it.
    pub fn refuted(title: impl Into<String>) -> Self {
        Self::new(Status::Refuted, Severity::Info, title.into(), 1.0)
    }

    /// What would be needed was not read: `missing` says what, in a sentence.
    pub fn not_observable(title: impl Into<String>, missing: impl Into<String>) -> Self {
        Self::new(Status::NotObservable, Severity::Info, title.into(), 0.0).because(Evidence {
            text: missing.into(),
            metric: String::new(),
            value: None,
            unit: String::new(),
            window_s: [0.0, 0.0],
        })
    }

    fn new(status: Status, severity: Severity, title: String, confidence: f64) -> Self {
        Verdict {
            status,
            severity,
            title,
            because: Vec::new(),
            remedy: String::new(),
            check_yourself: String::new(),
            confidence,
            is_open: false,
        }
    }

    /// Part of the evidence is there, and the rest was not read: what it would speak against is undetermined.
    pub fn leaves_open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Whether it leaves open what it would speak against.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Adds evidence.
    pub fn because(mut self, evidence: Evidence) -> Self {
        self.because.push(evidence);
        self
    }

    /// Adds several pieces of evidence.
    pub fn because_all(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.because.extend(evidence);
        self
    }

    /// What to do about it.
    pub fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedy = text.into();
        self
    }

    /// A command that checks it by hand.
    pub fn check(mut self, command: impl Into<String>) -> Self {
        self.check_yourself = command.into();
        self
    }

    /// How sure, 0..=1. 1 where it is not said.
    pub fn confidence(mut self, confidence: f64) -> Self {
        self.confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    /// Whether the cause is there.
    pub fn is_supported(&self) -> bool {
        self.status == Status::Supported
    }

    pub(crate) fn into_finding(self, id: &str, about: About) -> Finding {
        Finding {
            id: id.to_owned(),
            about,
            status: self.status,
            severity: self.severity,
            title: self.title,
            because: self.because,
            remedy: self.remedy,
            check_yourself: self.check_yourself,
            confidence: self.confidence,
        }
    }
}

/// How far a value is past its threshold, as a confidence: 0.5 at the threshold, 0.9 at five times it.
pub(crate) fn past(value: f64, threshold: f64) -> f64 {
    if !(value.is_finite() && threshold > 0.0 && value > 0.0) {
        return 0.5;
    }
    (1.0 - 0.5 * threshold / value).clamp(0.0, 1.0)
}
