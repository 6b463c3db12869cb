//! One result of what came of the agents: their recordings, or what their ticks make up for, merged as those of generators are.
//!
//! A recording that was handed over is taken as it is. Of an agent that was lost, one is made of its ticks that NATS had acknowledged:
//! counts, errors and histograms until then, without single requests and without a verdict of its own machine. What an agent did not
//! put on, or of which nothing is known, is named with its share of the load.

use super::Conduct;
use super::follow::{Follower, Known};
use super::redeal::owed;
use crate::error::AgentsError;
use crate::limits::LATE_MAX;
use model::Event;
use model::recording::Shortfall;
use model::units::show_duration_ns;
use session::generators::clock::Offset;
use session::generators::{OfAgents, Spec, merge};
use session::{Outcome, RecordTo};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use store::{Reader, Writer};

/// A tick's length in a file of ours; more is damage.
const TICK_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The result of a run that has come to its end.
pub(super) fn made(follower: &Follower, conduct: &Conduct<'_>) -> Result<Outcome, AgentsError> {
    let (mut runs, mut taken, mut shortfalls) = (Vec::new(), Vec::new(), Vec::new());
    for known in &follower.agents {
        let path = match known.is_delivered {
            true => measured(follower.recording_of(&known.share.agent)),
            false => rebuilt(follower, known, conduct)?,
        };
        shortfalls.extend(shortfall(follower, known, path.is_some()));
        if let Some(path) = path {
            runs.push(path);
            taken.push(known);
        }
    }
    if runs.is_empty() {
        let why: Vec<String> = shortfalls.iter().map(|short| format!("'{}': {}", short.name, short.text)).collect();
        return Err(AgentsError::Nothing(why.join("; ")));
    }
    let (offsets, first_ns) = offsets(follower, &taken);
    let mut events = follower.events.clone();
    // They are told by the moment at which all were to begin; in the result time begins with the first agent.
    for event in events.iter_mut().filter(|event| model::event::is_fault(&event.kind)) {
        event.at_ns = event.at_ns.saturating_sub(first_ns);
    }
    for known in &follower.agents {
        if let Some((_, late_ns)) = known.began.filter(|(_, late_ns)| *late_ns > LATE_MAX.as_nanos() as u64) {
            let text =
                format!("agent '{}' began {} after the others", known.share.agent, show_duration_ns(late_ns as f64));
            events.push(Event::new(0, model::event::AGENT_LATE, text));
        }
        let (count, latest_ns) = known.late_releases;
        if count > 0 {
            let text = format!(
                "agent '{}' heard the word for {count} bursts too late, and released them up to {} after the others",
                known.share.agent,
                show_duration_ns(latest_ns as f64)
            );
            events.push(Event::new(0, model::event::AGENT_LATE, text));
        }
    }
    let out = match &conduct.record {
        RecordTo::File(path) => path.clone(),
        RecordTo::Folder(folder) => {
            store::probe(folder)?;
            store::new_path(folder, &observe::capsule(), &follower.plan)
        }
        RecordTo::Nothing => follower.folder.path().join("all").with_extension(store::EXTENSION),
    };
    let spec = Spec {
        runs,
        out: out.clone(),
        clock_bound_ns: None,
        version: conduct.version.clone(),
        command: follower.document.command.clone(),
        agents: Some(OfAgents {
            plan: follower.plan.clone(),
            offsets,
            shortfalls,
            events,
            release_bound_ns: follower.released.bound_ns,
            together: conduct.company.as_ref().map(|company| company.together.clone()),
        }),
    };
    let merged = merge(&spec)?;
    let recorded_at = (conduct.record != RecordTo::Nothing).then_some(out);
    let (recording, diagnosis) = (merged.recording, merged.diagnosis);
    Ok(Outcome { recording, diagnosis, recorded_at, recording_error: None })
}

/// How long after the first one each began, and how long after the moment that it was told the first did, nanoseconds. Each clock was laid beside the controller's within a bound, so two of them are within the
/// sum of both.
fn offsets(follower: &Follower, taken: &[&Known]) -> (Vec<Offset>, i64) {
    let moments = follower.begin().map(|begin| &begin.moments);
    let placed: Vec<(i64, u64)> = taken
        .iter()
        .map(|known| {
            let moment = moments.and_then(|moments| moments.get(&known.share.agent));
            let (at_ns, bound_ns) = moment.map_or((0, 0), |moment| (moment.at_ns, moment.bound_ns));
            (known.began.map_or(0, |(began_ns, _)| began_ns.saturating_sub(at_ns)), bound_ns)
        })
        .collect();
    let first = placed.iter().enumerate().min_by_key(|(at, (ns, _))| (*ns, *at)).map(|(at, placed)| (at, *placed));
    let Some((first, (first_ns, first_bound_ns))) = first else { return (Vec::new(), 0) };
    let offset = |(at, (ns, bound_ns)): (usize, &(i64, u64))| Offset {
        ns: u64::try_from(ns.saturating_sub(first_ns)).unwrap_or(0),
        bound_ns: if at == first { 0 } else { bound_ns.saturating_add(first_bound_ns) },
    };
    (placed.iter().enumerate().map(offset).collect(), first_ns)
}

/// A recording that was handed over, if anything was measured in it.
fn measured(path: PathBuf) -> Option<PathBuf> {
    let recording = Reader::open(&path).and_then(|reader| reader.load()).ok()?;
    (recording.totals.measured_ns > 0).then_some(path)
}

/// A recording of an agent's ticks; `None`: it measured nothing, or nothing is known of it.
fn rebuilt(follower: &Follower, known: &Known, conduct: &Conduct<'_>) -> Result<Option<PathBuf>, AgentsError> {
    let (Some(capsule), true) = (&known.capsule, known.has_measured) else { return Ok(None) };
    let path = follower.recording_of(&known.share.agent);
    // Of its own there may be a part.
    std::fs::remove_file(&path).map_err(AgentsError::io("expected to put a file in the place of an unfinished one"))?;
    let mut capsule = (**capsule).clone();
    (capsule.version, capsule.command) = (conduct.version.clone(), follower.document.command.clone());
    let plan = engine::plan_of(&follower.plan, &known.share.range());
    let mut writer = Writer::create(&path, &capsule, &plan)?;
    each_tick(&follower.ticks_of(&known.share.agent), |tick| Ok(writer.append_carried(tick).map(drop)?))?;
    writer.mark_partial("it was made of an agent's ticks, as its own recording did not come")?;
    Ok(Some(path))
}

/// Each tick of a file of ours, one in memory at a time.
fn each_tick(path: &Path, mut take: impl FnMut(&[u8]) -> Result<(), AgentsError>) -> Result<(), AgentsError> {
    let failed = || AgentsError::io("expected an agent's ticks");
    let mut file = BufReader::new(File::open(path).map_err(failed())?);
    let (mut length, mut body) = ([0; 4], Vec::new());
    while file.read_exact(&mut length).is_ok() {
        let length = u32::from_be_bytes(length);
        if length > TICK_BYTES_MAX {
            break;
        }
        body.resize(length as usize, 0);
        file.read_exact(&mut body).map_err(failed())?;
        take(&body)?;
    }
    Ok(())
}

/// What an agent did not put on, or of which nothing is known.
fn shortfall(follower: &Follower, known: &Known, has_recording: bool) -> Option<Shortfall> {
    if known.is_delivered && known.failed.is_none() && has_recording {
        return None;
    }
    let own = f64::from(known.share.workers) / f64::from(follower.plan.threads.max(1));
    let planned_ns = follower.plan.planned_ns();
    let until_ns = if has_recording { known.until_ns } else { 0 };
    let missing =
        planned_ns.map_or(1.0, |planned_ns| planned_ns.saturating_sub(until_ns) as f64 / planned_ns.max(1) as f64);
    let at = show_duration_ns(until_ns as f64);
    let what = match (&known.failed, known.is_lost) {
        _ if known.kept_back.is_some() => {
            format!("its recording did not come: {}", known.kept_back.as_deref().unwrap_or_default())
        }
        (Some(why), _) => format!("it could not go on: {why}"),
        (None, true) => format!(
            "it was lost: nothing was heard of it for {}",
            show_duration_ns(follower.document.lost_after_ns as f64)
        ),
        (None, false) => "nothing was measured by it".to_owned(),
    };
    let dealt =
        planned_ns.and_then(|planned_ns| owed(&follower.redeals, &known.share.agent, own, until_ns, planned_ns));
    let share = dealt.unwrap_or(own * missing);
    let taken_on =
        follower.redeals.iter().find(|redeal| redeal.lost.contains(&known.share.agent)).filter(|_| dealt.is_some());
    let rest = match until_ns {
        _ if planned_ns.is_some_and(|planned_ns| until_ns >= planned_ns) => {
            "its counts and histograms are all here, what it read of its machine is not".to_owned()
        }
        _ if let Some(redeal) = taken_on => {
            let to = show_duration_ns(redeal.from_ns as f64);
            format!(
                "of its {:.0} % of the load nothing is known from {at} to {to}, when the others took it on",
                100.0 * own
            )
        }
        0 => format!("nothing is known of its {:.0} % of the load", 100.0 * own),
        _ => format!("of its {:.0} % of the load nothing is known from {at} on", 100.0 * own),
    };
    let kept = match known.kept_at.as_str() {
        "" => String::new(),
        path if known.kept_back.is_some() => format!("; it is {path} on its machine"),
        path if known.is_lost => format!("; if it lives, its recording is {path} on its machine"),
        _ => String::new(),
    };
    Some(Shortfall { name: known.share.agent.clone(), text: format!("{what}; {rest}{kept}"), share })
}
