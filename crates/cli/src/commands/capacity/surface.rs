//! `plimsoll capacity --over`: the load line at each value of a parameter of the load, or of two, as a map.
//!
//! The surface is a JSON document beside the recordings, replaced as a whole after each step of each search, so that one that was ended
//! or killed can be gone on with (`--continue`): whole searches are kept, the one that was under way goes on from its steps. Status as
//! that of one search: 0 where some cell has a line or a load that held, 3 where none has, 130 where it was interrupted.

use super::document::{About, FILE_BYTES_MAX, document, known};
use super::{failed, keep_whole, own_file, pace, settings_of};
use crate::args::capacity::CapacityArgs;
use crate::commands::output::progress::Shown;
use crate::commands::output::view::When;
use crate::commands::output::{results, terminal};
use crate::commands::{agents, command_line, host, interrupt};
use crate::exit::{Exit, Failure};
use ::agents::Team;
use model::Event;
use model::plan::Plan;
use model::recording::Row;
use model::units::{show_duration_ns, show_grouped};
use report::capacity::{Cell, End, SURFACE_SCHEMA, Spanned, Surface, write_surface};
use session::capacity::live::{CapacityError, Ended, Follow, Found, Ran, Spec, TIME_MIN};
use session::capacity::over::{Over, Parameter};
use session::capacity::search::{Line, Search, Trial};
use session::capacity::surface::{CELLS_MAX, FollowSurface, Known, SurfaceEnded, cells, spec_at, surface};
use session::{Options, ThisProcess, Watch};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time of each search, where none was given for all: some six steps.
const CELL_TIME: Duration = Duration::from_secs(12);
/// Wanted width of each line's interval, where none was given.
const PRECISION: f64 = 0.1;

/// Searches it.
pub fn run(
    args: &CapacityArgs,
    base: Spec,
    target: String,
    options: &Options,
    team: &mut Option<Team>,
) -> Result<Exit, Failure> {
    let (search, output) = (&args.search, &args.load.output);
    let over = &search.over;
    let is_twice = matches!(&over[..], [one, other] if one.of == other.of);
    if over.len() > 2 || is_twice {
        return Err(Failure::usage(
            "--over: expected one parameter or two different ones, got others: a map has no more sides",
        ));
    }
    let count = cells(over).len();
    if count > CELLS_MAX {
        return Err(Failure::usage(format!(
            "--over: expected at most {CELLS_MAX} searches, got {count}: name fewer values"
        )));
    }
    let time = if search.given.time { base.time / count as u32 } else { CELL_TIME };
    if time < TIME_MIN {
        return Err(Failure::usage(format!(
            "--time: expected {} s at the least for {count} searches, got {:.0} s: give more, or name fewer values",
            TIME_MIN.as_secs() * count as u64,
            base.time.as_secs_f64()
        )));
    }
    let precision = if search.given.precision { base.precision } else { PRECISION };
    let base = Spec { time, precision, ..base };
    let command = command_line::of_load(&args.load);
    let mut map = Map::new(base.clone(), over, target, command, output.quiet)?;
    map.shown.draw(When::of(output, true), &options.interrupted);
    let own = || search.go_on.clone().map_or_else(own_file, Ok);
    map.file = (!output.no_record).then(|| output.record.clone().map_or_else(own, Ok)).transpose()?;
    if let Some(path) = &search.go_on {
        map.surface.cells = cells_of(path, &map.surface)?;
    }
    let whole = show_duration_ns(time.as_nanos() as f64 * count as f64);
    map.shown.say(&format!(
        "Looking for the load line of {} ({}) at {count} places: {whole} at most.",
        map.surface.target, map.surface.slo
    ));
    let mut own = ThisProcess;
    let ended = match surface(&base, over, &host(), options, agents::hands(team, &mut own), &mut map) {
        Ok(ended) => ended,
        Err(error) => return failed(error),
    };
    map.shown.clear();
    interrupt::end_at_once(&options.interrupted);
    map.finish(ended, output.json, output.no_color)
}

/// How requests are due, without what is varied.
fn pace_over(base: &Spec, over: &[Over]) -> String {
    let pace = pace(base);
    let is_over_connections = over.iter().any(|one| one.of == Parameter::Connections);
    match pace.rsplit_once(", over ") {
        Some((before, _)) if is_over_connections => format!("{before}, over as many connections as each place says"),
        _ => pace,
    }
}

/// A surface that was kept.
///
/// # Errors
/// In a few words, to go into a sentence: it is none, or cannot be read.
pub fn read(path: &Path) -> Result<Surface, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("it has {length} bytes, and none is longer than 64 MiB"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let surface: Surface = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    // Of another version's document not all need be there.
    let places = surface.over.iter().map(|one| one.values.len()).product::<usize>();
    match () {
        () if surface.schema != SURFACE_SCHEMA => {
            Err(format!("it is a '{}' and not a '{SURFACE_SCHEMA}'", surface.schema))
        }
        () if surface.over.is_empty() || surface.cells.len() != places => {
            Err(format!("it has {} cells, where its values make {places}", surface.cells.len()))
        }
        () => Ok(surface),
    }
}

/// What a surface means for the exit status.
pub fn exit_of(surface: &Surface) -> Exit {
    let is_any = surface.cells.iter().any(|cell| cell.load().is_some());
    match (surface.end, is_any) {
        (End::Interrupted | End::Partial, _) => Exit::Interrupted,
        (_, true) => Exit::Fine,
        (_, false) => Exit::ExpectationFailed,
    }
}

/// The cells of a surface's file that is gone on with.
fn cells_of(path: &Path, own: &Surface) -> Result<Vec<Cell>, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("--continue: expected a surface's file, got '{}' ({why}): name another", path.display()))
    };
    let its = read(path).map_err(wrong)?;
    let asked = |of: &Surface| (of.target.clone(), of.slo.clone(), of.unit.clone(), of.pace.clone(), of.over.clone());
    let places = |of: &Surface| of.cells.iter().map(|cell| cell.at.clone()).collect::<Vec<_>>();
    if asked(&its) != asked(own) || places(&its) != places(own) {
        return Err(wrong(format!(
            "it is of {} within {}, {}, over other values or by another load",
            its.target, its.slo, its.unit
        )));
    }
    Ok(its.cells)
}

/// What is known of the surface, shown and kept as it grows.
struct Map {
    surface: Surface,
    base: Spec,
    over: Vec<Over>,
    shown: Shown,
    file: Option<PathBuf>,
    failed: Option<Failure>,
    began: Instant,
    /// The cell that is searched, and its search.
    at: usize,
    spec: Spec,
    about: About,
    cell_began: Instant,
}

impl Map {
    fn new(base: Spec, over: &[Over], target: String, command: Vec<String>, quiet: bool) -> Result<Self, Failure> {
        let places = cells(over);
        // What every search would be refused for is said before the first.
        let first = places.first().map_or(Ok(base.clone()), |at| spec_at(&base, over, at));
        let spec = first.map_err(|error| Failure::usage(error.to_string()))?;
        let about = About::of(&base, target.clone(), pace(&base), command);
        let surface = Surface {
            schema: SURFACE_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target,
            started_at_unix_ns: about.started_at_unix_ns,
            took_s: 0.0,
            end: End::Partial,
            pace: pace_over(&base, over),
            slo: about.slo.clone(),
            unit: base.of.unit().to_owned(),
            precision: base.precision,
            cell_time_s: base.time.as_secs_f64(),
            sentence: String::new(),
            over: over
                .iter()
                .map(|one| Spanned {
                    name: one.of.name().to_owned(),
                    unit: one.of.unit().to_owned(),
                    values: one.values.clone(),
                })
                .collect(),
            cells: places.into_iter().map(|at| Cell { at, search: None, why: None }).collect(),
        };
        let now = Instant::now();
        Ok(Map {
            surface,
            over: over.to_vec(),
            base,
            shown: Shown::new(quiet),
            file: None,
            failed: None,
            began: now,
            at: 0,
            spec,
            about,
            cell_began: now,
        })
    }

    fn place(&self, at: usize) -> String {
        let cell = self.surface.cells.get(at);
        let values = cell.map(|cell| &cell.at[..]).unwrap_or_default();
        let all: Vec<String> = self
            .over
            .iter()
            .zip(values)
            .map(|(one, value)| format!("{} {}", one.of.name(), one.of.show(*value)))
            .collect();
        all.join(", ")
    }

    fn put(&mut self, at: usize, search: Option<report::capacity::Document>, why: Option<String>) {
        if let Some(cell) = self.surface.cells.get_mut(at) {
            (cell.search, cell.why) = (search.map(Box::new), why);
        }
        self.surface.took_s = self.began.elapsed().as_secs_f64();
        self.surface.sentence = self.surface.summary();
        if let Some(path) = &self.file {
            self.failed = keep_whole(path, &self.surface).err();
        }
    }

    fn finish(mut self, ended: SurfaceEnded, json: bool, no_color: bool) -> Result<Exit, Failure> {
        self.surface.end = match ended {
            SurfaceEnded::Done => End::Complete,
            SurfaceEnded::Interrupted => End::Interrupted,
        };
        self.surface.took_s = self.began.elapsed().as_secs_f64();
        self.surface.sentence = self.surface.summary();
        if let Some(path) = &self.file {
            self.failed = keep_whole(path, &self.surface).err();
        }
        let file = self.file.as_ref().map(|file| file.display().to_string());
        results::to_stdout(|out| {
            if json {
                serde_json::to_writer_pretty(&mut *out, &self.surface)?;
                return std::io::Write::write_all(out, b"\n");
            }
            write_surface(out, &self.surface, file.as_deref(), terminal::style(no_color))
        })?;
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        Ok(exit_of(&self.surface))
    }
}

impl FollowSurface for Map {
    fn known(&self, at: usize) -> Known {
        match self.surface.cells.get(at) {
            Some(Cell { search: Some(search), .. }) => match search.end {
                // One that was disturbed is tried again, from what was found.
                End::Complete => Known::Whole,
                End::Interrupted | End::Disturbed | End::Partial => Known::Steps(known(search)),
            },
            Some(Cell { why: Some(_), .. }) | None => Known::Whole,
            Some(_) => Known::Steps(Vec::new()),
        }
    }

    fn on_cell(&mut self, at: usize, spec: &Spec) -> &mut dyn Follow {
        (self.at, self.spec) = (at, spec.clone());
        let command = std::mem::take(&mut self.about.command);
        self.about = About::of(spec, self.surface.target.clone(), pace(spec), command);
        self.cell_began = Instant::now();
        self
    }

    fn on_found(&mut self, at: usize, found: Result<&Found, &CapacityError>) {
        let place = self.place(at);
        match found {
            Ok(found) => {
                let document = document(&self.about, &found.search, &found.ran, Some(&found.ended), found.took_s);
                let disturbed = matches!(found.ended, Ended::Disturbed { .. }).then(|| document.why.clone()).flatten();
                let note = disturbed.map_or(String::new(), |why| format!(" ({why})"));
                self.shown.say(&format!("  {place}: {}{note}", document.sentence));
                self.put(at, Some(document), None);
            }
            Err(error) => {
                self.shown.say(&format!("  {place}: {error}"));
                self.put(at, None, Some(error.to_string()));
            }
        }
    }
}

impl Watch for Map {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.shown.on_tick(row, plan);
    }
    fn passes_on_to(&mut self) -> Option<&mut dyn Watch> {
        Some(&mut self.shown)
    }
    fn on_event(&mut self, _: &Event) {
        // As of one search: a step's own events are what it is run for.
    }
}

impl Follow for Map {
    fn on_plan(&mut self, _: &Spec, _: &str) {
        // How long all of it takes was said before the first.
    }

    fn on_trial(&mut self, number: usize, trial: &Trial) {
        let load = show_grouped(trial.load.round() as u64);
        self.shown.label = format!("{}, step {number}, {load} {}  ", self.place(self.at), self.base.of.unit());
    }

    fn on_step(&mut self, ran: &[Ran], _: &Line) {
        let mut search = Search::new(1.0, settings_of(&self.spec));
        ran.iter().for_each(|one| search.observe(one.step.clone()));
        let document = document(&self.about, &search, ran, None, self.cell_began.elapsed().as_secs_f64());
        self.put(self.at, Some(document), None);
    }

    fn on_disturbed(&mut self, trial: &Trial, why: &str) {
        let load = show_grouped(trial.load.round() as u64);
        self.shown.say(&format!("  {}, {load}: disturbed, once more: {why}", self.place(self.at)));
    }

    fn on_added(&mut self, what: &str) {
        self.shown.say(&format!("  {}: {what}", self.place(self.at)));
    }
}
