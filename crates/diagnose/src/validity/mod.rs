//! The verdict on each figure, and on the run: valid, not valid, or undetermined.
//!
//! A figure is not valid where a rule whose [`Bearing`] is everything is supported, where the generator had too much work,
//! or where what kept it from running can have changed the figure by enough ([`crate::harm`]). It is undetermined where such
//! a rule found part of its evidence and could not see the rest; that nothing was read at all, and nothing speaks for the
//! rule, leaves nothing open. The run's state is the worst of the figures that its pace is asked for: throughput and
//! response time, or the connections held. Of a recording that stops before there was anything to judge it is undetermined. Where that is not `valid` and enough of the run was quiet, the quiet part is
//! judged in its place.

pub(crate) mod disturbed;
pub mod harm;
pub mod quiet;

use crate::NO_CONNECTION;
use crate::facts::{Facts, Scope, duration, percent, quantile_name};
use crate::rule::Bearing;
use crate::rules::generator_cpu;
use harm::{Added, Harm, NEVER_TAKEN_UP_MAX, SHARE_MAX};
use model::LatencyKind as Kind;
use model::Recording;
use model::finding::{Figure, FigureVerdict, Finding, Reason, Severity, Status, Validity, ValidityState};
use model::plan::Pace;
use model::recording::{End, SHORTFALL_MAX};
use model::units::show_grouped;

/// The reason's id where part of a load was not put on, as an agent was lost or could not.
pub const AGENT_LOST: &str = "agent-lost";

/// A rule's answer with what it means for the figures.
pub(crate) struct Judged<'f> {
    pub(crate) finding: &'f Finding,
    pub(crate) bearing: Bearing,
    pub(crate) is_open: bool,
}

impl Judged<'_> {
    fn is_against(&self, bearing: Bearing) -> bool {
        // What is supported for information only changed no figure by much.
        self.bearing == bearing && self.finding.status == Status::Supported && self.finding.severity == Severity::Error
    }
}

/// The verdicts of a run.
pub(crate) fn validity(facts: &Facts<'_>, judged: &[Judged<'_>]) -> Validity {
    if !is_nothing_measured(facts.recording) {
        return of_generators(of_what_is_there(facts, judged), facts.recording);
    }
    // Where there are no figures nothing speaks against them; they are not valid for that.
    let text = "the recording stops before anything had ended: there is nothing to judge".to_owned();
    let reason = Reason { id: "nothing-measured".to_owned(), text };
    Validity::of(ValidityState::Undetermined, vec![reason])
}

/// The verdict on what several generators measured: no better than that on any of them, as its requests are among the others.
fn of_generators(mut validity: Validity, recording: &Recording) -> Validity {
    let Some(all) = &recording.capsule.generators else { return validity };
    let mut worst = validity.state;
    // What the pooled readings say is one generator's own: it is said with its name.
    let doubtful = || all.generators.iter().filter(|generator| generator.validity != ValidityState::Valid);
    validity.reasons.retain(|reason| !doubtful().any(|generator| generator.reasons.contains(reason)));
    for generator in doubtful() {
        worst = worst.max(generator.validity);
        for reason in &generator.reasons {
            let text = format!("generator '{}': {}", generator.name, reason.text);
            validity.reasons.push(Reason { id: reason.id.clone(), text });
        }
        for own in &generator.figures {
            let figure = validity.figures.iter_mut().find(|verdict| verdict.figure == own.figure);
            if let Some(figure) = figure.filter(|figure| figure.state < own.state) {
                figure.state = own.state;
                figure.because_of.extend(own.because_of.iter().cloned());
            }
        }
    }
    // What was asked for was not put on: the rate is not the target's answer to it. Times are those of what was put on.
    for short in all.shortfalls.iter().filter(|short| short.share > SHORTFALL_MAX) {
        worst = ValidityState::NotValid;
        let text = format!("agent '{}': {}", short.name, short.text);
        validity.reasons.push(Reason { id: AGENT_LOST.to_owned(), text });
        let asked = asked_of(recording);
        let rate = validity.figures.iter_mut().find(|verdict| verdict.figure == asked);
        if let Some(figure) = rate {
            figure.state = ValidityState::NotValid;
            figure.because_of.push(AGENT_LOST.to_owned());
        }
    }
    if worst > validity.state {
        // What was set apart as quiet is not the answer: the others' doubts are about all of the run.
        validity.quiet.iter_mut().for_each(|quiet| quiet.is_used = false);
    }
    (validity.state, validity.valid) = (worst, worst == ValidityState::Valid);
    validity
}

/// The figure that says how much of what was asked for was put on.
fn asked_of(recording: &Recording) -> Figure {
    match recording.plan.pace {
        Pace::Held { .. } => Figure::Connections,
        Pace::Closed { .. } | Pace::Open { .. } | Pace::Burst { .. } => Figure::Throughput,
    }
}

/// Whether a recording that is not whole holds nothing that a verdict could be about.
fn is_nothing_measured(recording: &Recording) -> bool {
    let is_whole = recording.end != End::Partial && !recording.integrity.is_damaged();
    if is_whole || recording.capsule.why_no_load().is_some() {
        return false;
    }
    let counts = &recording.totals.sum.counts;
    match recording.plan.pace {
        Pace::Held { .. } => !recording.has_connected(),
        Pace::Closed { .. } | Pace::Open { .. } | Pace::Burst { .. } => counts.requests() == 0 && counts.arrived() == 0,
    }
}

fn of_what_is_there(facts: &Facts<'_>, judged: &[Judged<'_>]) -> Validity {
    if facts.recording.capsule.why_no_load().is_some() {
        let against: Vec<Reason> =
            judged.iter().filter(|j| j.is_against(Bearing::All)).map(|j| reason(j.finding)).collect();
        let state = if against.is_empty() { ValidityState::Valid } else { ValidityState::NotValid };
        return Validity::of(state, against);
    }
    if !facts.recording.has_connected() {
        let text = format!("{NO_CONNECTION}, so there is no figure to judge");
        return Validity::of(ValidityState::Undetermined, vec![Reason { id: "no-connection".to_owned(), text }]);
    }
    let whole = figures(facts, &facts.whole, judged);
    let state = state_of(facts, &whole);
    let mut quiet = quiet::quiet(facts);
    if let (Some(part), Some(scope)) = (&mut quiet, &facts.quiet)
        && state != ValidityState::Valid
        && quiet::is_enough(part)
    {
        let figures = figures(facts, scope, judged);
        if state_of(facts, &figures) == ValidityState::Valid {
            part.is_used = true;
            return Validity { quiet, figures, ..Validity::of(ValidityState::Valid, Vec::new()) };
        }
    }
    let reasons = reasons(facts, &whole, judged);
    Validity { quiet, figures: whole, ..Validity::of(state, reasons) }
}

/// The figures that a run of its pace is made for.
fn asked(facts: &Facts<'_>) -> &'static [Figure] {
    match facts.recording.plan.pace {
        Pace::Held { .. } => &[Figure::Connections],
        Pace::Closed { .. } | Pace::Open { .. } | Pace::Burst { .. } => &[Figure::Throughput, Figure::Response],
    }
}

fn state_of(facts: &Facts<'_>, figures: &[FigureVerdict]) -> ValidityState {
    let of_asked = figures.iter().filter(|verdict| asked(facts).contains(&verdict.figure));
    of_asked.map(|verdict| verdict.state).max().unwrap_or(ValidityState::Valid)
}

/// Why the figures that were asked for are not valid, each cause once; where one is not valid, what is only open is no
/// reason.
fn reasons(facts: &Facts<'_>, figures: &[FigureVerdict], judged: &[Judged<'_>]) -> Vec<Reason> {
    let worst = state_of(facts, figures);
    let mut reasons: Vec<Reason> = Vec::new();
    if worst == ValidityState::Valid {
        return reasons;
    }
    let against = figures.iter().filter(|verdict| asked(facts).contains(&verdict.figure) && verdict.state == worst);
    for id in against.flat_map(|verdict| &verdict.because_of) {
        if reasons.iter().all(|reason| reason.id != *id)
            && let Some(judged) = judged.iter().find(|judged| judged.finding.id == *id)
        {
            reasons.push(reason(judged.finding));
        }
    }
    reasons
}

fn reason(finding: &Finding) -> Reason {
    let said = match finding.status {
        Status::Supported | Status::Refuted | Status::NotApplicable => &finding.title,
        Status::NotObservable => finding.because.first().map_or(&finding.title, |evidence| &evidence.text),
    };
    let text = format!("{said}. {}", finding.remedy);
    Reason { id: finding.id.clone(), text: text.trim_end_matches([' ', '.']).to_owned() }
}

/// What is known against the figures of a part of the run.
struct Against<'j> {
    harm: Harm,
    /// Whether the generator had too much work; `None`: half of the evidence is there.
    work: Option<bool>,
    judged: &'j [Judged<'j>],
}

impl Against<'_> {
    fn ids(&self, bearing: Bearing) -> Vec<String> {
        self.judged.iter().filter(|j| j.is_against(bearing)).map(|j| j.finding.id.clone()).collect()
    }

    /// The state of a figure that is harmed by too much work, and decided by a measurement or not.
    fn state(&self, is_by_work: bool, is_decisive: bool) -> (ValidityState, Vec<String>) {
        let all = self.ids(Bearing::All);
        if !all.is_empty() {
            return (ValidityState::NotValid, all);
        }
        if is_decisive || (is_by_work && self.work == Some(true)) {
            let mut ids = self.ids(Bearing::Measured);
            if ids.is_empty() {
                // Of a part of the run, where of the whole it is too little to be supported.
                ids.push("generator-lag".to_owned());
            }
            return (ValidityState::NotValid, ids);
        }
        if is_by_work && self.work.is_none() {
            let open = self.judged.iter().filter(|j| j.is_open).map(|j| j.finding.id.clone());
            return (ValidityState::Undetermined, open.collect());
        }
        (ValidityState::Valid, Vec::new())
    }
}

/// The verdict on every figure that a part of the run has.
fn figures(facts: &Facts<'_>, scope: &Scope<'_>, judged: &[Judged<'_>]) -> Vec<FigureVerdict> {
    let against = Against { harm: Harm::of(facts, scope), work: generator_cpu::is_too_much_work(scope), judged };
    let mut all = Vec::new();
    let is_held = matches!(facts.recording.plan.pace, Pace::Held { .. });
    if is_held {
        all.push(connections(facts, &against));
    }
    if scope.measured_ns > 0 && (!is_held || scope.arrived() > 0.0) {
        all.push(throughput(facts, scope, &against));
    }
    for (figure, kind) in [(Figure::Response, Kind::Response), (Figure::Service, Kind::Service)] {
        if scope.latency.count(kind) > 0 {
            all.push(time(facts, scope, &against, figure, kind));
        }
    }
    all
}

fn connections(facts: &Facts<'_>, against: &Against<'_>) -> FigureVerdict {
    let (state, because_of) = against.state(false, false);
    let totals = &facts.recording.totals;
    let counts = &totals.sum.counts;
    let lost = counts.closed_by_peer as f64 + counts.closed_by_us as f64 + counts.connect_failed as f64;
    let lost =
        if lost > 0.0 { format!("{} lost or not made", show_grouped(lost as u64)) } else { "none lost".to_owned() };
    let text = format!("{} at most, {lost}", show_grouped(totals.connections_max));
    FigureVerdict { figure: Figure::Connections, state, text, up_to_us: None, up_to_share: Some(0.0), because_of }
}

fn throughput(facts: &Facts<'_>, scope: &Scope<'_>, against: &Against<'_>) -> FigureVerdict {
    let harm = &against.harm;
    let is_open = facts.is_open();
    // A rate that was asked for is what it is; only what was never taken up is missing from it.
    let (share, is_decisive, what) = if is_open {
        (harm.never, harm.never > NEVER_TAKEN_UP_MAX, "due and never taken up")
    } else {
        let stolen = harm.stolen.map_or(0.0, |stolen| stolen.added_share);
        let share = harm.kept.max(stolen);
        let what = if stolen > harm.kept {
            "taken by the hypervisor"
        } else {
            "lost while the generator was kept from running"
        };
        (share, share > SHARE_MAX, what)
    };
    let (state, because_of) = against.state(!is_open, is_decisive);
    let rate = format!("{} {}s/s", show_grouped(scope.requests_per_s().round() as u64), facts.recording.plan.unit());
    let text = match state {
        ValidityState::Undetermined => {
            format!("{rate}: whether that is the target's or the generator's limit is not known")
        }
        ValidityState::NotValid if share <= SHARE_MAX && !is_decisive => format!("{rate}: not the target's figure"),
        ValidityState::Valid if share < 0.005 => rate,
        ValidityState::Valid | ValidityState::NotValid => format!("{rate}, up to {} {what}", percent(share)),
    };
    let is_bounded = state == ValidityState::Valid || is_decisive;
    let up_to_share = is_bounded.then_some(share);
    FigureVerdict { figure: Figure::Throughput, state, text, up_to_us: None, up_to_share, because_of }
}

/// A bound on what was added to a time, and whose doing it is.
struct Bound {
    added_ns: f64,
    what: &'static str,
}

fn time(facts: &Facts<'_>, scope: &Scope<'_>, against: &Against<'_>, figure: Figure, kind: Kind) -> FigureVerdict {
    let harm = &against.harm;
    let is_response = figure == Figure::Response;
    let lag = harm.lag.filter(|_| is_response);
    let late = if is_response { harm.late } else { harm.service };
    let decides = |added: Option<Added>| added.is_some_and(|added| added.is_decisive);
    let is_decisive = decides(lag) || decides(late) || harm.kept > SHARE_MAX || harm.is_by_steal();
    let (state, because_of) = against.state(true, is_decisive);

    let quantile = scope.tail(kind).unwrap_or(0.5);
    let Some(tail) = scope.latency.quantile(kind, quantile) else {
        let text = "no request ended well".to_owned();
        return FigureVerdict { figure, state, text, up_to_us: None, up_to_share: None, because_of };
    };
    let tail_ns = tail.ns as f64;
    let of_tail = |added: Option<Added>| added.filter(|a| a.quantile == quantile).map_or(0.0, |a| a.added_ns);
    let lag_ns = if is_response && !facts.is_saturating() { of_tail(harm::lag_at(scope, quantile)) } else { 0.0 };
    let stolen = harm.stolen.map_or(0.0, |stolen| stolen.added_share);
    let bounds = [
        Bound { added_ns: lag_ns, what: "the generator's lag" },
        Bound { added_ns: of_tail(late), what: "late turns of the generator" },
        Bound { added_ns: harm.kept * tail_ns, what: "time the generator was kept from running" },
        Bound { added_ns: stolen * tail_ns, what: "the hypervisor's" },
    ];
    let [first, rest @ ..] = bounds;
    let most = rest.into_iter().fold(first, |most, next| if next.added_ns > most.added_ns { next } else { most });
    let at_least = if tail.is_bound { "≥ " } else { "" };
    let name = quantile_name(quantile);
    let shown = format!("{name} {at_least}{}", duration(tail_ns));
    let share = (most.added_ns / tail_ns.max(1.0)).min(1.0);
    let is_bounded = most.added_ns.is_finite() && (state == ValidityState::Valid || is_decisive);
    let text = match state {
        ValidityState::Undetermined => format!("{shown}: how much of it is the generator's is not known"),
        ValidityState::NotValid if !most.added_ns.is_finite() => {
            format!("{shown} of those taken up: more than {} of those due were not", percent(1.0 - quantile))
        }
        ValidityState::NotValid if share <= 0.005 || !is_bounded => format!("{shown}: not the target's figure"),
        ValidityState::Valid if share <= 0.005 => shown,
        ValidityState::Valid | ValidityState::NotValid => {
            format!("{shown}, up to {} of it {}", duration(most.added_ns.min(tail_ns)), most.what)
        }
    };
    FigureVerdict {
        figure,
        state,
        text,
        up_to_us: is_bounded.then_some(most.added_ns.min(tail_ns) / 1e3),
        up_to_share: is_bounded.then_some(share),
        because_of,
    }
}
