//! `plimsoll watch`: a server observed without load, a row a reading, and what was not seen at the end.
//!
//! Status 0 also when the server ended meanwhile: that is what was seen. Nothing is recorded.

use super::{interrupt, terminal, timeline};
use crate::args::watch::WatchArgs;
use crate::exit::{Exit, Failure};
use model::limits::{TICK_NS_MAX, TICK_NS_MIN};
use model::plain::plain;
use model::{Event, Snapshot};
use report::samplers::Listed;
use report::timeline::Timeline;
use report::watched::{Document, write_end};
use session::observing::{ObserveError, Whom, observe};
use session::remote::{RemoteError, watch};
use std::io::Write;
use std::time::Duration;

/// Observes.
pub fn run(args: &WatchArgs) -> Result<Exit, Failure> {
    if args.list {
        return list(args);
    }
    if let Some(address) = args.serve {
        return super::watch_serve::run(args, address);
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
    let mut rows = Rows { table, style: terminal::style(args.no_color), before: None, written: Ok(()) };
    let duration = args.duration.map(Duration::from_nanos);
    let tick = Duration::from_nanos(args.tick);
    let probes = args.observe.map_or_else(Default::default, Into::into);
    let each = |snapshot: &Snapshot, events: &[Event]| {
        if !args.json {
            rows.show(snapshot, events);
            // Nobody reads on: the signal's way out.
            if rows.written.is_err() {
                interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
    let watched = match (&args.at, whom) {
        (Some(address), whom) => watch(&args.link.at(address)?, whom, duration, tick, probes, &interrupted, each)?,
        (None, Some(whom)) => observe(whom, duration, tick, probes, &interrupted, each)?,
        (None, None) => return Err(Failure::usage("expected --pid or --port: whom to look at")),
    };
    rows.written?;
    // A document of many lines is not handed over line by line.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.json {
        true => Document::of(watched, env!("CARGO_PKG_VERSION")).write(&mut out)?,
        false => write_end(&mut out, &watched, rows.style)?,
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// What could be read, and whether it works here.
fn list(args: &WatchArgs) -> Result<Exit, Failure> {
    let samplers: Vec<Listed> = observe::list::list()
        .into_iter()
        .map(|l| Listed {
            name: l.name,
            about: l.about,
            needs: l.needs,
            cost: l.cost,
            status: l.status,
            reason: l.reason,
        })
        .collect();
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
    before: Option<Snapshot>,
    /// The first failure of stdout.
    written: std::io::Result<()>,
}

impl Rows {
    fn show(&mut self, snapshot: &Snapshot, events: &[Event]) {
        if self.written.is_err() {
            return;
        }
        let mut out = std::io::stdout().lock();
        self.written = match &self.before {
            None => self.table.head(&mut out, self.style),
            Some(before) => self.table.row(&mut out, before, snapshot, self.style),
        }
        .and_then(|()| out.flush());
        for event in events {
            // Nothing is left to do where stderr is closed; at the end they come again.
            let _ = writeln!(std::io::stderr(), "plimsoll: {}: {}", plain(&event.kind), plain(&event.text));
        }
        self.before = Some(snapshot.clone());
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
