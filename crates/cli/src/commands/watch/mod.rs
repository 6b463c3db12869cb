//! `plimsoll watch`: a server observed without load, a row a reading; at the end what gives, as far as that can be told
//! without a load, and what was not seen.
//!
//! Status 0 also when the server ended meanwhile: that is what was seen. Recorded only where a file is named. Rows that nobody reads hold
//! nothing up: see [`Outlet`].

mod serve;

use super::interrupt;
use super::output::live::Live;
use super::output::outlet::Outlet;
use super::output::{terminal, timeline};
use crate::args::watch::WatchArgs;
use crate::exit::{Exit, Failure};
use model::limits::{TICK_NS_MAX, TICK_NS_MIN};
use model::plain::plain;
use model::recording::End;
use model::watched::Whom;
use model::{Event, Snapshot};
use remote::{ObserveAt, RemoteError, watch};
use report::answer::{self, diagnosis::Answer};
use report::timeline::Timeline;
use report::watched::{Document, write_end};
use session::observing::{ObserveError, observe};
use session::watching::{Keeper, WatchSpec};
use session::{RecordTo, Watch};
use std::io::Write;
use std::time::Duration;

/// How long a row may take to be written before the next is read: a stdout that fails ends it at once.
const SETTLE: Duration = Duration::from_millis(20);

/// Observes.
pub fn run(args: &WatchArgs) -> Result<Exit, Failure> {
    if args.list {
        return list(args);
    }
    if let Some(address) = args.serve {
        return serve::run(args, address);
    }
    let whom = match (args.pid, args.port) {
        (Some(pid), _) => Some(Whom::Pid(pid)),
        (None, Some(port)) => Some(Whom::Port(port)),
        (None, None) => None,
    };
    if !(TICK_NS_MIN..=TICK_NS_MAX).contains(&args.tick) {
        return Err(Failure::usage("expected --tick from 100ms to 60s"));
    }
    let table = timeline::of(args.metrics.as_deref().unwrap_or_default())?;
    let interrupted = interrupt::flag()?;
    let outlet = Outlet::start().map_err(|error| Failure::could_not_run(format!("expected a thread, but {error}")))?;
    let style = terminal::style(args.no_color);
    let mut rows = Rows { table, style, before: Vec::new(), outlet: outlet.clone(), written: Ok(()) };
    let duration = args.duration.map(Duration::from_nanos);
    let tick = Duration::from_nanos(args.tick);
    let probes = args.observe.map_or_else(Default::default, Into::into);
    let record = args.record.clone().map_or(RecordTo::Nothing, RecordTo::File);
    let spec = WatchSpec {
        whom,
        at: args.at.as_deref(),
        tick_ns: args.tick,
        record: &record,
        command: super::command_line::whole(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if whom.is_none() && args.at.is_none() {
        return Err(Failure::usage(
            "expected whom to look at, got nobody: name --pid PID or --port PORT, on another machine --at HOST:PORT, or see what can be read with --list",
        ));
    }
    let mut keeper = Keeper::start(&spec)?;
    let mut live = Live::start(&args.live, "watch", None, &interrupted)?;
    let each = |snapshot: &Snapshot, events: &[Event]| {
        keeper.push(snapshot, events);
        if let Some(live) = &mut live {
            let at_ns = u64::try_from(snapshot.at_ns).unwrap_or(0);
            live.at(at_ns, args.duration);
            live.on_snapshot(snapshot);
            if live.wants_standing() {
                let (recording, diagnosis) = keeper.standing(at_ns);
                live.on_standing(recording, &diagnosis);
            }
        }
        if !args.json {
            rows.show(snapshot, events);
            // Nobody reads on: the signal's way out.
            if rows.written.is_err() {
                interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
    let watched = match (&args.at, whom) {
        (Some(address), whom) => {
            let at = ObserveAt {
                tell: Some(super::tell),
                ..args.link.at(address, || args.nats_link.wanted(args.nats.as_deref(), "--at nats:NAME"))?
            };
            watch(&at, whom, duration, tick, probes, &interrupted, each).map_err(Failure::from)
        }
        (None, Some(whom)) => observe(whom, duration, tick, probes, &interrupted, each).map_err(Failure::from),
        // Refused above.
        (None, None) => return Ok(Exit::Usage),
    };
    let was_told_to_end = interrupted.load(std::sync::atomic::Ordering::Relaxed);
    interrupt::end_at_once(&interrupted);
    rows.written?;
    // What was not read yet comes before the end, however long that takes; a signal ends it.
    outlet.finish()?;
    let watched = watched?;
    // Without a length it is Ctrl-C that ends it as planned.
    let end = if was_told_to_end && args.duration.is_some() { End::Interrupted } else { End::Complete };
    let outcome = keeper.finish(&watched, end);
    let kept = outcome.recorded_at.as_ref().map(|path| path.display().to_string());
    // A document of many lines is not handed over line by line.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.json {
        true => {
            Document::of(watched, &outcome.diagnosis, kept.as_deref(), env!("CARGO_PKG_VERSION")).write(&mut out)?
        }
        false => {
            write_end(&mut out, &watched, rows.style)?;
            writeln!(out)?;
            let answer = Answer { recording: &outcome.recording, diagnosis: &outcome.diagnosis, partial: None };
            answer::diagnosis::write(&mut out, &answer, false, rows.style)?;
        }
    }
    out.flush()?;
    if let Some(live) = live {
        live.end_with(&outcome.recording, &outcome.diagnosis, outcome.recorded_at.as_deref())?;
    }
    match outcome.recording_error {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Fine),
    }
}

/// What could be read, and whether it works here.
fn list(args: &WatchArgs) -> Result<Exit, Failure> {
    let samplers = observe::list::list();
    let mut out = std::io::stdout().lock();
    match args.json {
        true => report::samplers::json(&mut out, samplers, env!("CARGO_PKG_VERSION"))?,
        false => report::samplers::write(&mut out, &samplers, terminal::style(args.no_color))?,
    }
    Ok(Exit::Fine)
}

struct Rows {
    table: Timeline,
    style: report::text::Style,
    /// The last ones, the oldest first.
    before: Vec<Snapshot>,
    outlet: Outlet,
    /// The first failure of stdout.
    written: std::io::Result<()>,
}

impl Rows {
    fn show(&mut self, snapshot: &Snapshot, events: &[Event]) {
        if self.written.is_err() {
            return;
        }
        let mut row = Vec::new();
        self.written = match &*self.before {
            [] => self.table.head(&mut row, self.style),
            before => self.table.row(&mut row, before, snapshot, self.style),
        };
        self.outlet.rows(String::from_utf8_lossy(&row).into_owned());
        for event in events {
            // At the end they come again.
            self.outlet.remark(format!("plimsoll: {}: {}", plain(&event.kind), plain(&event.text)));
        }
        if self.written.is_ok() {
            self.written = self.outlet.settle(SETTLE);
        }
        if self.before.len() == report::timeline::LOOKED_BACK_MAX {
            self.before.remove(0);
        }
        self.before.push(snapshot.clone());
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Address { .. } => Failure::usage(error.to_string()),
            other => Failure::could_not_run(other.to_string()),
        }
    }
}

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Self {
        Failure::could_not_run(error.to_string())
    }
}
