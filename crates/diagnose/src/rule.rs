//! What a rule is, and how it words its answer.
//!
//! A rule is a file in `rules/` (what the figures and the load show) or in `causes/` (what the target or its machine did),
//! whose head states its evidence, thresholds, their source, and what refutes it. That a cause rests on two sources that do
//! not depend on each other is a matter of types: only [`Verdict::proved`] of two [`Piece`]s makes one.

use crate::evidence::{ApartFrom, Origin, Piece};
use crate::facts::Facts;
use model::finding::{About, Evidence, Explains, Finding, LossKind, Severity, Status};
use std::marker::PhantomData;

/// One thing to be told, and how it is told from what looks alike. Not a cause in the target: that is a [`CauseRule`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its fixed id: reports, tests and users' scripts use it.
    pub id: &'static str,
    /// Whose it is.
    pub about: About,
    /// What must have been for it to have something to look at.
    pub needs: Needs,
    /// What it means for the figures where this is supported. Never more than nothing for what the target did.
    pub bearing: Bearing,
    /// Judges. Never panics, whatever the recording holds.
    pub judge: fn(&Facts<'_>) -> Verdict,
}

/// A cause in the target, or in the machine or path under it. The figures stay right whatever it is.
#[derive(Debug, Clone, Copy)]
pub struct CauseRule {
    /// Its fixed id.
    pub id: &'static str,
    /// What must have been for it to have something to look at.
    pub needs: Needs,
    /// Samplers and probes without which it cannot be judged: of each group, one must have read.
    pub reads: &'static [&'static [&'static str]],
    /// Judges. Never panics, whatever the recording holds. Is not asked where what it reads was not read.
    pub judge: fn(&Facts<'_>) -> Verdict<OfTarget>,
}

impl CauseRule {
    /// Its verdict, or what it would need to give one.
    pub(crate) fn verdict(&self, facts: &Facts<'_>) -> Verdict<OfTarget> {
        for group in self.reads {
            let why: Vec<String> = group.iter().map_while(|name| facts.why_not(name)).collect();
            if why.len() == group.len() {
                return Verdict::not_observable("its evidence was not read", why.join("; or "));
            }
        }
        (self.judge)(facts)
    }
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

/// Of a verdict on the load, the generator, a clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfLoad;

/// Of a verdict on the target, which two independent sources must support.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfTarget;

/// A rule's answer, before it gets the rule's id.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<W = OfLoad> {
    status: Status,
    severity: Severity,
    title: String,
    because: Vec<Evidence>,
    remedy: String,
    check_yourself: String,
    confidence: f64,
    is_open: bool,
    explains: Option<Explains>,
    of: PhantomData<W>,
}

impl Verdict {
    /// The cause is there.
    pub fn supported(severity: Severity, title: impl Into<String>) -> Self {
        Self::new(Status::Supported, severity, title.into(), 1.0)
    }
}

impl Verdict<OfTarget> {
    /// The cause is there: two sources say so that do not depend on each other.
    pub fn proved<A: Origin + ApartFrom<B>, B: Origin>(
        severity: Severity,
        title: impl Into<String>,
        first: Piece<A>,
        second: Piece<B>,
    ) -> Self {
        Self::new(Status::Supported, severity, title.into(), 0.8).because(first.into()).because(second.into())
    }

    /// How much of a loss it explains, 0..=1: with its bounds.
    pub fn explains(mut self, of: LossKind, share: f64, low: f64, high: f64) -> Self {
        let clamp = |v: f64| if v.is_finite() { v.clamp(0.0, 1.0) } else { 0.0 };
        let (low, high) = (clamp(low), clamp(high));
        self.explains = Some(Explains { share: clamp(share).clamp(low, high.max(low)), low, high: high.max(low), of });
        self
    }
}

impl<W> Verdict<W> {
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
            source: None,
            is_against: false,
            threshold: None,
        })
    }

    /// There was nothing to look at.
    pub fn not_applicable(title: impl Into<String>) -> Self {
        Self::new(Status::NotApplicable, Severity::Info, title.into(), 1.0)
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
            explains: None,
            of: PhantomData,
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

    /// Adds evidence that speaks against it.
    pub fn although(mut self, evidence: Evidence) -> Self {
        self.because.push(Evidence { is_against: true, ..evidence });
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

    /// What checks it by hand: a line for a shell, what to look for behind ` # `. Of the target's `PID`, `HOST` and `PORT` the real ones
    /// are put in their place.
    pub fn check(mut self, command: impl Into<String>) -> Self {
        self.check_yourself = command.into();
        self
    }

    /// How sure, 0..=1. 1 where it is not said.
    pub fn confidence(mut self, confidence: f64) -> Self {
        self.confidence = if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    /// The share of a loss that it says it explains.
    pub(crate) fn explained(&self) -> Option<f64> {
        self.explains.map(|explains| explains.share)
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
            causes: Vec::new(),
            because_of: Vec::new(),
            explains: self.explains,
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
