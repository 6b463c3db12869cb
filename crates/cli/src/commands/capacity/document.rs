//! A search as the report's document, and a document's steps as what a search goes on from.

use model::finding::{Standing, ValidityState};
use model::units::{show_duration_ns, show_figure, show_grouped};
use report::capacity as shown;
use session::capacity::axis::Of;
use session::capacity::beyond::gives::{Gives, at_line, gives};
use session::capacity::beyond::places::{InTurn, in_turn, own_limit};
use session::capacity::beyond::without::without;
use session::capacity::blocks::{Block, Counted};
use session::capacity::decision::{Bound, Verdict};
use session::capacity::flat::Flat;
use session::capacity::live::{Ended, Ran, Spec};
use session::capacity::objective::Objective;
use session::capacity::scaling::{Estimate, Sample, Turn, scaling};
use session::capacity::search::{Line, Point, Purpose, Search, Step};
use std::path::Path;

/// A search's file is no longer than this, bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// What stays the same while a search goes.
#[derive(Debug, Clone)]
pub struct About {
    /// What the load is put on, without secrets.
    pub target: String,
    /// How requests are due, and over how many connections.
    pub pace: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// What must hold, as shown.
    pub slo: String,
    /// The same one by one.
    pub objectives: Vec<shown::Objective>,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// What the load is.
    pub of: Of,
    /// Wanted width of the interval.
    pub precision: f64,
    /// Connections of an open pace, where they are not the default.
    pub connections: Option<u32>,
}

impl About {
    /// Of a search that begins now.
    pub fn of(spec: &Spec, target: String, pace: String, command: Vec<String>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        About {
            target,
            pace,
            started_at_unix_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            slo: Objective::words(&spec.objectives),
            objectives: objectives(&spec.objectives),
            command,
            of: spec.of,
            precision: spec.precision,
            connections: connections_of(spec),
        }
    }

    /// What nobody had asked for is settled.
    pub fn settle(&mut self, spec: &Spec, pace: String) {
        (self.slo, self.objectives) = (Objective::words(&spec.objectives), objectives(&spec.objectives));
        (self.pace, self.connections) = (pace, connections_of(spec));
    }
}

/// Of an open pace: those of a closed one are its load.
fn connections_of(spec: &Spec) -> Option<u32> {
    spec.scenario.connections.filter(|_| !spec.of.is_closed())
}

/// Objectives as the document has them.
fn objectives(all: &[Objective]) -> Vec<shown::Objective> {
    let one = |objective: &Objective| {
        let bound = objective.bound();
        shown::Objective {
            text: Objective::words(std::slice::from_ref(objective)),
            allowed: bound.share_max,
            late_us: (bound.late_s > 0.0).then_some(1e6 * bound.late_s),
        }
    };
    all.iter().map(one).collect()
}

/// The document of what is known.
pub fn document(about: &About, search: &Search, ran: &[Ran], ended: Option<&Ended>, took_s: f64) -> shown::Document {
    let line = search.line();
    let found = gives(ran, &line);
    let is_open = found.as_ref().is_none_or(Gives::is_part);
    let own = own_limit(ran, &line).filter(|_| is_open);
    let (held, missed) = at_line(ran, &line);
    let sides: Vec<&Ran> = held.into_iter().chain(missed).collect();
    let states: Vec<ValidityState> =
        sides.iter().filter_map(|one| one.diagnosis.as_ref()).map(|diagnosis| diagnosis.validity.state).collect();
    let is_disturbed = matches!(ended, Some(Ended::Disturbed { .. }));
    let validity = match () {
        () if is_disturbed => ValidityState::NotValid,
        () if states.is_empty() || states.contains(&ValidityState::Undetermined) => ValidityState::Undetermined,
        // A held step that was disturbed held all the same; a missed one would have been run again.
        () => ValidityState::Valid,
    };
    let first = found.as_ref().map(|gives| gives.finding.id.clone());
    let turn = in_turn(ran).filter(|_| is_open && own.is_none() && missed.is_some());
    let unexplained = missed.filter(|_| is_open && own.is_none()).and_then(|missed| match &turn {
        Some(turn) => Some(waits(turn)),
        None => seen(ran, missed, &search.settings().bounds).filter(|_| found.is_none()),
    });
    // What explains a part of the loss is said behind what is seen of all of it.
    let part = first.as_ref().map_or(String::new(), |id| format!("; {id} explains a part of it"));
    let then = match (&first, &own, &turn) {
        (_, Some(own), _) => format!(
            "; then the load's own {} connections are all taken, and the server may carry more{part}",
            show_grouped(u64::from(own.connections))
        ),
        (_, None, Some(turn)) => {
            format!("; then requests wait for each other, and {} served at a time{part}", served(turn))
        }
        (Some(id), None, None) if id == "at-its-limit" => "; then the server is full".to_owned(),
        (Some(id), None, None) => format!("; then {id} gives first"),
        (None, None, None) => String::new(),
    };
    shown::Document {
        schema: shown::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target: about.target.clone(),
        started_at_unix_ns: about.started_at_unix_ns,
        took_s,
        end: match ended {
            None => shown::End::Partial,
            Some(Ended::Done) => shown::End::Complete,
            Some(Ended::Interrupted) => shown::End::Interrupted,
            Some(Ended::Disturbed { .. }) => shown::End::Disturbed,
        },
        why: ended.and_then(|ended| why(ended, about.of.unit())),
        pace: about.pace.clone(),
        precision: about.precision,
        command: about.command.clone(),
        objectives: about.objectives.clone(),
        sentence: sentence(about, &line, &then, search.flat()),
        capacity: shown::Capacity {
            load_line: line.load,
            unit: about.of.unit().to_owned(),
            low: line.low,
            high: line.high,
            slo: about.slo.clone(),
            first_to_give: first,
            held: line.held,
            missed: line.missed,
            steepness: line.steepness,
        },
        gives: found.map(|gives| shown_gives(gives, about.of, &line, ran)),
        connections: about.connections,
        own_connections: own.map(|own| shown::OwnConnections {
            connections: own.connections,
            each_us: own.service_p50_ns / 1e3,
            at_most_per_s: own.at_most_per_s(),
        }),
        unexplained,
        validity,
        held_in_spite_of: held.and_then(in_spite_of),
        busy: sides.iter().find_map(|one| one.busy.clone()),
        lag_p99_us: sides.iter().filter_map(|one| one.lag_p99_ns).max().map(|ns| ns as f64 / 1e3),
        curve: search.points().iter().map(|point| curve(point, ran, search)).collect(),
        scaling: (about.of == Of::Connections).then(|| scales(ran)).flatten(),
        steps: ran.iter().map(step).collect(),
    }
}

/// How many are served at a time, with the verb.
fn served(turn: &InTurn) -> String {
    match turn.at_a_time {
        1 => "one is".to_owned(),
        count => format!("about {} are", show_grouped(u64::from(count))),
    }
}

/// That requests wait for each other, by what they take in the steps.
fn waits(turn: &InTurn) -> String {
    format!(
        "requests wait for each other in the server, or on the way to it, and {} served at a time: one takes {} while few are under way, \
         and {} when all connections wait; look in its program and its settings for a lock, a semaphore, a pool or a number of workers",
        served(turn),
        show_duration_ns(turn.alone_ns),
        show_duration_ns(turn.beyond_ns)
    )
}

/// What is seen beyond the line where no cause is known: of the step that was put on to be looked at, or the lowest that missed. Where
/// replies were in time and only too many failed, it is how they did that.
fn seen(ran: &[Ran], missed: &Ran, bounds: &[Bound]) -> Option<String> {
    let looked_at = ran.iter().rev().find(|one| one.step.purpose == Purpose::Explain);
    let seen = looked_at.unwrap_or(missed);
    if is_missed_by_failures(&seen.step, bounds)
        && let Some(failures) = &seen.failures
    {
        return Some(failures.clone());
    }
    let gives = seen.diagnosis.as_ref()?.gives.as_ref()?;
    let is_loss = matches!(gives.standing, Standing::Gives | Standing::Unexplained | Standing::Unknown);
    // What could not be looked at stands in the report of that step.
    is_loss.then(|| gives.text.replace(", see below", ""))
}

/// Whether a step missed what is asked of failures alone, and held what is asked of times.
fn is_missed_by_failures(step: &Step, bounds: &[Bound]) -> bool {
    let counted = |at| Counted::sum(&step.blocks.iter().map(|block| Counted::of(block, at)).collect::<Vec<_>>());
    let is_kept = |(at, bound): (usize, &Bound)| bound.late_s <= 0.0 || counted(at).share() < bound.share_max;
    step.verdict == Verdict::Missed && !step.is_growing && bounds.iter().enumerate().all(is_kept)
}

/// What a step that held is not valid for.
fn in_spite_of(held: &Ran) -> Option<String> {
    let validity = held.diagnosis.as_ref().map(|diagnosis| &diagnosis.validity)?;
    let reason = validity.reasons.first().filter(|_| validity.state == ValidityState::NotValid)?;
    Some(reason.text.clone())
}

fn shown_gives(gives: Gives, of: Of, line: &Line, ran: &[Ran]) -> shown::Gives {
    let without = line.held.and_then(|held| without(&gives.finding.id, of, held, ran));
    shown::Gives {
        finding: gives.finding,
        is_new: gives.is_new,
        at_load: gives.at,
        without: without.map(|without| shown::Without {
            at_most: without.at_most,
            cores_used: without.cores.used(),
            cores_all: without.cores.all,
        }),
    }
}

fn why(ended: &Ended, unit: &str) -> Option<String> {
    match ended {
        Ended::Disturbed { why, is_generator: true, load } => {
            Some(format!("the generator is the limit at {} {unit}: {why}", show_grouped(*load)))
        }
        Ended::Disturbed { why, load, .. } => {
            Some(format!("{} {unit} could not be put on undisturbed: {why}", show_grouped(*load)))
        }
        Ended::Done | Ended::Interrupted => None,
    }
}

/// What a colleague would say; `then`: what comes beyond the line, with what parts it from the rest.
pub fn sentence(about: &About, line: &Line, then: &str, flat: Option<Flat>) -> String {
    let (unit, slo) = (about.of.unit(), &about.slo);
    let whole = |load: f64| show_grouped(load.max(0.0).round() as u64);
    match (line.load, line.low, line.high) {
        (Some(load), Some(low), Some(high)) => {
            let interval = format!("{}–{}", whole(low), whole(high));
            format!("{} {unit} ({interval}, 95 %) within {slo}{then}", whole(load))
        }
        (None, Some(held), _) => format!("at least {} {unit} within {slo}: no higher load was decided", whole(held)),
        (None, None, Some(_)) if let Some(flat) = flat => format!(
            "none within {slo}: at {} {unit} as at {} {} % of the requests miss '{}', so that fewer make it no better{then}",
            whole(flat.from),
            whole(flat.to),
            show_figure((1000.0 * flat.share).round() / 10.0),
            about.objectives.get(flat.objective).map_or(slo.as_str(), |objective| &objective.text)
        ),
        (None, None, Some(missed)) => format!("below {} {unit} within {slo}: no load tried held{then}", whole(missed)),
        _ => format!("not known: no load was decided within {slo}"),
    }
}

fn verdict(verdict: Verdict) -> shown::Verdict {
    match verdict {
        Verdict::Held => shown::Verdict::Held,
        Verdict::Missed => shown::Verdict::Missed,
        Verdict::Undecided => shown::Verdict::Undecided,
    }
}

fn curve(point: &Point, ran: &[Ran], search: &Search) -> shown::Point {
    let at: Vec<&Ran> = ran.iter().filter(|one| one.step.asked == point.asked).collect();
    let share = |objective: usize| {
        let blocks = at.iter().flat_map(|one| &one.step.blocks);
        Counted::sum(&blocks.map(|block| Counted::of(block, objective)).collect::<Vec<_>>()).share()
    };
    let mut p99: Vec<u64> = at.iter().filter_map(|one| one.response_p99_ns).collect();
    p99.sort_unstable();
    shown::Point {
        load: point.load,
        verdict: verdict(point.verdict),
        steps: point.steps,
        bad_shares: (0..search.settings().bounds.len()).map(share).collect(),
        response_p99_us: p99.get(p99.len() / 2).map(|ns| *ns as f64 / 1e3),
    }
}

/// A step as the document has it.
pub fn step(ran: &Ran) -> shown::Step {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let of = &ran.step;
    shown::Step {
        purpose: of.purpose.name().to_owned(),
        asked: of.asked,
        load: of.load,
        took_s: of.took_s,
        verdict: verdict(of.verdict),
        is_growing: of.is_growing,
        response_p50_us: us(ran.response_p50_ns),
        response_p99_us: us(ran.response_p99_ns),
        recording: ran.recorded_at.as_ref().map(|path| path.display().to_string()),
        blocks: of.blocks.iter().map(block).collect(),
    }
}

fn block(block: &Block) -> shown::Block {
    shown::Block { seconds: block.seconds, requests: block.requests, bad: block.bad.clone(), backlog: block.backlog }
}

/// A search that was kept. What older files do not have is made of what they do.
///
/// # Errors
/// Why it is none, in words.
pub fn read(path: &Path) -> Result<shown::Document, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("it has {length} bytes, and none is longer than 64 MiB"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut document: shown::Document = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if document.schema != shown::SCHEMA {
        return Err(format!("it is a '{}' and not a '{}'", document.schema, shown::SCHEMA));
    }
    if document.objectives.is_empty() {
        document.objectives = Objective::list(&document.capacity.slo).map(|all| objectives(&all)).unwrap_or_default();
    }
    Ok(document)
}

/// The steps of a document, to go on from.
pub fn known(document: &shown::Document) -> Vec<Step> {
    let purpose = |word: &str| {
        [Purpose::Find, Purpose::Narrow, Purpose::Hold, Purpose::Replicate, Purpose::Explain]
            .into_iter()
            .find(|one| one.name() == word)
    };
    let step = |step: &shown::Step| Step {
        asked: step.asked,
        load: step.load,
        took_s: step.took_s,
        verdict: match step.verdict {
            shown::Verdict::Held => Verdict::Held,
            shown::Verdict::Missed => Verdict::Missed,
            shown::Verdict::Undecided => Verdict::Undecided,
        },
        is_growing: step.is_growing,
        purpose: purpose(&step.purpose).unwrap_or(Purpose::Find),
        blocks: step
            .blocks
            .iter()
            .map(|block| Block {
                seconds: block.seconds,
                requests: block.requests,
                bad: block.bad.clone(),
                backlog: block.backlog,
            })
            .collect(),
    };
    document.steps.iter().map(step).collect()
}

/// The Universal Scalability Law over the steps of a closed load.
fn scales(ran: &[Ran]) -> Option<shown::Scaling> {
    let sample = |one: &Ran| {
        let seconds: f64 = one.step.blocks.iter().map(|block| block.seconds).sum();
        let requests: u64 = one.step.blocks.iter().map(|block| block.requests).sum();
        Sample { connections: one.step.load, per_s: if seconds > 0.0 { requests as f64 / seconds } else { 0.0 } }
    };
    let found = scaling(&ran.iter().map(sample).collect::<Vec<_>>())?;
    let ends = |of: Estimate| [of.value, of.low, of.high];
    let (turn, peak_low) = match found.turn {
        Turn::At(at, per_s) => (Some((at, per_s)), Some(at.low)),
        Turn::NotBefore(low) => (None, Some(low)),
        Turn::Unknown => (None, None),
    };
    Some(shown::Scaling {
        single_per_s: ends(found.single_per_s),
        contention: ends(found.contention),
        coherency: ends(found.coherency),
        peak_at: turn.map(|(at, _)| at.value),
        peak_low,
        peak_high: turn.map(|(at, _)| at.high),
        peak_per_s: turn.map(|(_, per_s)| per_s),
    })
}
