//! Evidence by its source, so that "two independent pieces" is a matter of types.
//!
//! A [`Piece`] carries who saw it in its type; two pieces make a finding about the target only if their sources differ
//! ([`ApartFrom`]). A new source is a line in the macro below.

use model::finding::{Evidence, Source};
use std::marker::PhantomData;

/// Who saw it.
pub trait Origin {
    /// The word of it.
    const SOURCE: Source;
}

/// That one source does not depend on another.
pub trait ApartFrom<Other> {}

macro_rules! origins {
    ($($(#[$doc:meta])* $name:ident: $($other:ident)*;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;
        impl Origin for $name { const SOURCE: Source = Source::$name; }
        $(impl ApartFrom<$other> for $name {})*
    )* };
}

origins! {
    /// The load's own stamps and counters.
    Client: Replies Sockets Kernel Process;
    /// What the target's replies held.
    Replies: Client Sockets Kernel Process;
    /// Single sockets.
    Sockets: Client Replies Kernel Process;
    /// The kernel's counters, log and probes.
    Kernel: Client Replies Sockets Process;
    /// The target's processes and threads.
    Process: Client Replies Sockets Kernel;
}

/// A piece of evidence whose source is in its type.
///
/// Two of one source make no finding:
/// ```compile_fail
/// use diagnose::{evidence::{Client, Piece}, rule::{OfTarget, Verdict}};
/// fn no(a: Piece<Client>, b: Piece<Client>) -> Verdict<OfTarget> {
///     Verdict::proved(model::finding::Severity::Info, "", a, b)
/// }
/// ```
/// Two of different ones do:
/// ```
/// use diagnose::{evidence::{Client, Kernel, Piece}, rule::{OfTarget, Verdict}};
/// fn yes(a: Piece<Client>, b: Piece<Kernel>) -> Verdict<OfTarget> {
///     Verdict::proved(model::finding::Severity::Info, "", a, b)
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Piece<S> {
    evidence: Evidence,
    of: PhantomData<S>,
}

impl<S: Origin> Piece<S> {
    /// What this source saw.
    pub fn of(evidence: Evidence) -> Self {
        Piece { evidence: Evidence { source: Some(S::SOURCE), ..evidence }, of: PhantomData }
    }

    /// The same with the value from which on it speaks.
    #[must_use]
    pub fn from(mut self, threshold: f64) -> Self {
        self.evidence.threshold = threshold.is_finite().then_some(threshold);
        self
    }
}

impl<S> From<Piece<S>> for Evidence {
    fn from(piece: Piece<S>) -> Self {
        piece.evidence
    }
}
