//! Recordings of several generators that put load on one target at the same time, made one ordinary recording.
//!
//! Counts and histograms are summed, ticks laid on one clock ([`store::join`]): every quantile is that of all requests pooled.
//! What belongs together is told by the plans ([`plan`]) and the clocks ([`clock`]); what does not is refused in a sentence. Readings
//! of host and target are one generator's, as those of several cannot be added: of the one that saw the target. Each generator is
//! judged by its own recording first, and its verdict goes with it: in the sums a starved one could not be found again. Rates
//! are over the time from the first one's measuring to the last one's end.
//!
//! Not merged: bursts (whose moment is one generator's own), how replies were spread over connections, and outages other than
//! those that all had at once. Cost: that of reading each recording, on all cores, and a pass over all ticks; in memory a tick of each.

pub mod clock;
pub mod plan;

use clock::{Beginning, Offset};
use diagnose::history::History;
use model::courses::RunCourses;
use model::finding::{Diagnosis, Validity};
use model::latency::LatencySet;
use model::profile::RunProfile;
use model::recording::{Capsule, End, Generator, Generators, Recording, Shortfall, Timeline, Together, Totals};
use model::snapshot::Role;
use model::split::RunSplit;
use model::{Event, LatencyKind, Plan, Snapshot, event};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Joined, Reader, StoreError, Writer};

/// Most recordings that are made one: each is an open file, and a tick of it in memory.
pub const GENERATORS_MAX: usize = 1024;
/// Events of each generator beside those that every load has of its own.
const OF_EACH: [&str; 2] = ["interrupted", event::RATE_CHANGED];
/// Snapshots that are written at a time.
const BATCH: usize = 256;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The recordings.
    pub runs: Vec<PathBuf>,
    /// The file of the result.
    pub out: PathBuf,
    /// How far the clocks of different machines may be apart, nanoseconds, where the recordings do not say; `None`: they must.
    pub clock_bound_ns: Option<u64>,
    /// The tool's version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// What is known beyond the recordings, where they are of agents of one run; `None`: nothing.
    pub agents: Option<OfAgents>,
}

/// What is known of the agents of a run beyond their recordings.
#[derive(Debug, Clone)]
pub struct OfAgents {
    /// What all of them together were to do.
    pub plan: Plan,
    /// How long after the first one each recording's generator began, in the recordings' order: measured while they ran, and so not
    /// taken from what the recordings say of their clocks.
    pub offsets: Vec<Offset>,
    /// What was not put on.
    pub shortfalls: Vec<Shortfall>,
    /// What befell agents, on the first one's clock.
    pub events: Vec<Event>,
    /// Of bursts: within what the moments of two of them were one, nanoseconds.
    pub release_bound_ns: Option<u64>,
    /// What the result says of loads that were put on together with it; `None`: it was alone.
    pub together: Option<Together>,
}

/// Why recordings were not made one.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// One could not be read, or the result not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The result's file is there already.
    #[error("expected a file that is not there yet for the new recording, got '{}': name another", .0.display())]
    Exists(PathBuf),
    /// There are too few or too many.
    #[error("expected from 2 to {GENERATORS_MAX} recordings, got {0}: name each generator's")]
    Count(usize),
    /// The same one twice.
    #[error("expected recordings of different generators, got '{0}' twice: name it once")]
    Twice(String),
    /// It is not a generator's alone.
    #[error("expected the recording of a generator, but of '{name}' {why}: leave it out")]
    NotAGenerators {
        /// Its name.
        name: String,
        /// What it is instead.
        why: String,
    },
    /// The plans differ in what must be the same.
    #[error(
        "expected recordings of one load, but {what} of '{one}' and of '{other}' differ: merge runs that differ in connections, rate, workers and seed alone"
    )]
    Different {
        /// In what.
        what: &'static str,
        /// The first.
        one: String,
        /// The one that differs.
        other: String,
    },
    /// When it began is not known well enough.
    #[error(
        "expected to know when '{name}' began, but {why}: say with --clock-bound how far its clock may have been from the others'"
    )]
    Clock {
        /// Its name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// They were not put on at the same time.
    #[error(
        "expected recordings that measured at the same time, but '{late}' began to measure {gap_s:.1} s after '{early}' had ended: compare them instead"
    )]
    Apart {
        /// The one that ended first.
        early: String,
        /// The one that began last.
        late: String,
        /// Between them, seconds.
        gap_s: f64,
    },
}

/// What came of it.
#[derive(Debug)]
pub struct Merged {
    /// The recording, as it reads now.
    pub recording: Recording,
    /// What was made of it.
    pub diagnosis: Diagnosis,
    /// Why it is partial; `None`: it is whole.
    pub why_partial: Option<String>,
}

/// A recording that was read. Of a thousand only what the result needs is kept, so `recording` has no course, readings and
/// histograms any more: what they came to stands beside it.
struct Source {
    name: String,
    reader: Reader,
    recording: Recording,
    validity: Validity,
    lag_p99_ns: Option<u64>,
    has_seen_target: bool,
    /// It read its host at all.
    has_readings: bool,
    /// Its own process, as its machine's kernel knows it: id, and start in clock ticks since boot.
    own_process: Option<(u32, u64)>,
    offset: Offset,
}

impl Source {
    /// When it measured, on the result's clock, nanoseconds.
    fn measured(&self) -> (u64, u64) {
        let from_ns = self.offset.ns.saturating_add(self.recording.totals.measured_from_ns);
        (from_ns, from_ns.saturating_add(self.recording.totals.measured_ns))
    }
}

/// Makes recordings one. On an error there is no file.
///
/// # Errors
/// [`MergeError`].
pub fn merge(spec: &Spec) -> Result<Merged, MergeError> {
    // Of several agents one may be all that is left.
    let least = if spec.agents.is_some() { 1 } else { 2 };
    if !(least..=GENERATORS_MAX).contains(&spec.runs.len()) {
        return Err(MergeError::Count(spec.runs.len()));
    }
    if spec.out.exists() {
        return Err(MergeError::Exists(spec.out.clone()));
    }
    let mut sources = read_all(&spec.runs)?;
    let beginnings: Vec<Beginning<'_>> = sources.iter().map(|one| Beginning::of(&one.name, &one.recording)).collect();
    let offsets = match &spec.agents {
        Some(agents) => agents.offsets.clone(),
        None => clock::offsets(&beginnings, spec.clock_bound_ns)?,
    };
    sources.iter_mut().zip(offsets).for_each(|(source, offset)| source.offset = offset);
    sources.sort_by_key(|source| source.offset.ns);
    let named: Vec<plan::Named<'_>> = sources
        .iter()
        .map(|source| plan::Named { name: &source.name, plan: &source.recording.plan, offset_ns: source.offset.ns })
        .collect();
    let plan = match &spec.agents {
        None => plan::merged(&named)?,
        // What was asked for, and not only of those whose recordings are there.
        Some(agents) => plan::of_agents(&named).map(|()| model::hide::plan(&agents.plan))?,
    };
    let together_ns = overlap(&sources)?;
    let read_by = sources.iter().position(|source| source.has_seen_target).unwrap_or(0);
    let capsule = capsule(spec, &sources, together_ns, read_by);
    let writer = Writer::create(&spec.out, &capsule, &plan)?;
    write(writer, &sources, plan.warmup_ns, read_by, spec).inspect_err(|_| {
        // Ours and of no use: best effort.
        let _ = std::fs::remove_file(&spec.out);
    })
}

/// Reads them, as many at a time as there are cores; of several that cannot be read the first is told.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Source>, MergeError> {
    let readers = std::thread::available_parallelism().map_or(1, usize::from).min(paths.len());
    let next = AtomicUsize::new(0);
    let read_some = || {
        let take = || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            paths.get(at).map(|path| (at, read(path)))
        };
        std::iter::from_fn(take).collect::<Vec<_>>()
    };
    let mut found = std::thread::scope(|scope| {
        let others: Vec<_> = (1..readers).map(|_| scope.spawn(read_some)).collect();
        let mut found = read_some();
        for other in others {
            found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        found
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, source)| source).collect()
}

fn read(path: &Path) -> Result<Source, MergeError> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let reader = Reader::open(path)?;
    let (mut recording, history) = reader.load_with_history()?;
    let not = |why: &str| MergeError::NotAGenerators { name: name.clone(), why: why.to_owned() };
    if let Some(why) = recording.capsule.why_no_load() {
        return Err(not(why));
    }
    if recording.capsule.generators.is_some() {
        return Err(not("it was merged already, of recordings that could be named"));
    }
    if recording.capsule.together.is_some() {
        return Err(not("it is one of several loads that one generator put on together"));
    }
    if recording.totals.measured_ns == 0 {
        return Err(not("nothing was measured in it"));
    }
    recording.plan = model::hide::plan(&recording.plan);
    let validity = diagnose::diagnose_with(&recording, &history).validity;
    let lag_p99_ns = recording.totals.sum.latency.quantile(LatencyKind::Lag, 0.99).map(|figure| figure.ns);
    let is_of_target = |snapshot: &Snapshot| snapshot.processes.iter().any(|one| one.role == Role::Target);
    let has_seen_target = recording.snapshots.iter().any(is_of_target);
    let has_readings = !recording.snapshots.is_empty();
    let mut own = recording.snapshots.iter().flat_map(|snapshot| &snapshot.processes);
    let own_process = own.find(|one| one.role == Role::Generator).map(|one| (one.pid, one.start_ticks));
    lighten(&mut recording);
    Ok(Source {
        name,
        reader,
        recording,
        validity,
        lag_p99_ns,
        has_seen_target,
        has_readings,
        own_process,
        offset: Offset::default(),
    })
}

/// Takes away what is read from the file again, tick by tick, or not needed any more.
fn lighten(recording: &mut Recording) {
    recording.timeline = Timeline::default();
    recording.split = RunSplit::default();
    recording.courses = RunCourses::default();
    recording.profile = RunProfile::default();
    (recording.snapshots, recording.after) = (Vec::new(), Vec::new());
    recording.totals.sum.latency = LatencySet::default();
}

/// How long all of them measured at once, nanoseconds.
fn overlap(sources: &[Source]) -> Result<u64, MergeError> {
    let latest = sources.iter().max_by_key(|source| source.measured().0);
    let earliest = sources.iter().min_by_key(|source| source.measured().1);
    let (Some(latest), Some(earliest)) = (latest, earliest) else { return Ok(0) };
    let (from_ns, to_ns) = (latest.measured().0, earliest.measured().1);
    to_ns.checked_sub(from_ns).filter(|ns| *ns > 0).ok_or_else(|| MergeError::Apart {
        early: earliest.name.clone(),
        late: latest.name.clone(),
        gap_s: from_ns.saturating_sub(to_ns) as f64 / 1e9,
    })
}

fn capsule(spec: &Spec, sources: &[Source], together_ns: u64, read_by: usize) -> Capsule {
    let of = |at: usize, source: &Source| {
        let Source { name, recording, validity, offset, .. } = source;
        let totals = &recording.totals;
        Generator {
            name: name.clone(),
            cpu: recording.capsule.cpu.clone(),
            kernel: recording.capsule.kernel.clone(),
            driver: recording.capsule.driver.clone(),
            connections: recording.plan.connections,
            requests: totals.sum.counts.requests(),
            requests_per_s: totals.requests_per_s(),
            cpu_ns: totals.cpu_user_ns.saturating_add(totals.cpu_system_ns),
            peak_rss_bytes: totals.peak_rss_bytes,
            lag_p99_ns: source.lag_p99_ns,
            offset_ns: offset.ns,
            offset_bound_ns: offset.bound_ns,
            end: recording.end,
            is_damaged: recording.integrity.is_damaged(),
            has_readings: at == read_by && source.has_readings,
            validity: validity.state,
            figures: validity.figures.clone(),
            reasons: validity.reasons.clone(),
        }
    };
    let generators = sources.iter().enumerate().map(|(at, source)| of(at, source)).collect();
    let agents = spec.agents.as_ref();
    let shortfalls = agents.map_or_else(Vec::new, |agents| agents.shortfalls.clone());
    let release_bound_ns = agents.and_then(|agents| agents.release_bound_ns);
    let first = sources.first().map(|source| &source.recording.capsule);
    let read = sources.get(read_by).map(|source| &source.recording.capsule);
    Capsule {
        version: spec.version.clone(),
        command: spec.command.clone(),
        started_at_unix_ns: first.map_or(0, |capsule| capsule.started_at_unix_ns),
        clock: first.and_then(|capsule| capsule.clock.clone()),
        generators: Some(Generators { generators, together_ns, shortfalls, release_bound_ns }),
        together: agents.and_then(|agents| agents.together.clone()),
        ..read.cloned().unwrap_or_default()
    }
}

/// Writes all of it, and reads it again for the verdict.
fn write(
    mut writer: Writer,
    sources: &[Source],
    warmup_ns: u64,
    read_by: usize,
    spec: &Spec,
) -> Result<Merged, MergeError> {
    let mut workers_before = 0u16;
    let joined: Vec<Joined<'_>> = sources
        .iter()
        .map(|source| {
            let Source { reader, recording, offset, .. } = source;
            let one = Joined { reader, recording, offset_ns: offset.ns, workers_before };
            workers_before = workers_before.saturating_add(recording.plan.threads.max(1));
            one
        })
        .collect();
    store::join(&joined, warmup_ns, &mut writer)?;
    if let Some(source) = sources.get(read_by) {
        snapshots(source, &generators_beside(sources, read_by), &mut writer)?;
    }
    let mut events = events(sources, read_by);
    events.extend(spec.agents.iter().flat_map(|agents| agents.events.iter().cloned()));
    events.sort_by_key(|event| event.at_ns);
    writer.append(None, None, &events)?;
    let samplers = sources.get(read_by).map_or_else(Vec::new, |source| source.recording.samplers.clone());
    writer.keep_samplers(&samplers)?;
    let reader = Reader::open(&spec.out)?;
    let (mut recording, history): (Recording, History) = reader.load_with_history()?;
    drop(reader);
    settle(&mut recording.totals, sources);
    let why_partial = why_partial(sources);
    recording.end = match &why_partial {
        Some(_) => End::Partial,
        None if sources.iter().any(|source| source.recording.end == End::Interrupted) => End::Interrupted,
        None => End::Complete,
    };
    let diagnosis = diagnose::diagnose_with(&recording, &history);
    let totals = &recording.totals;
    match &why_partial {
        Some(reason) => writer.finish_partial(totals, &samplers, reason, Some(&diagnosis))?,
        None => writer.finish(totals, &samplers, recording.end, Some(&diagnosis))?,
    };
    Ok(Merged { recording, diagnosis, why_partial })
}

/// The processes of the other generators on the machine of the one that read it: machines are told apart by their clocks.
fn generators_beside(sources: &[Source], read_by: usize) -> BTreeSet<(u32, u64)> {
    let machine = |source: &Source| source.recording.capsule.clock.as_ref().map(|clock| clock.id.clone());
    let of = sources.get(read_by).and_then(machine);
    let beside = sources.iter().filter(|source| of.is_some() && machine(source) == of);
    beside.filter_map(|source| source.own_process).collect()
}

/// The readings of one generator, on the result's clock; the other generators among the processes beside it are said to be such.
fn snapshots(source: &Source, generators: &BTreeSet<(u32, u64)>, writer: &mut Writer) -> Result<(), MergeError> {
    let (mut batch, mut failed): (Vec<Snapshot>, _) = (Vec::new(), None);
    let mut flush = |batch: &mut Vec<Snapshot>| {
        if failed.is_none() && !batch.is_empty() {
            failed = writer.append_snapshots(batch).err();
        }
        batch.clear();
    };
    source.reader.load_with(|snapshot| {
        let mut snapshot = snapshot.clone();
        snapshot.shift(source.offset.ns);
        let beside = [&mut snapshot.neighbours, &mut snapshot.disk_neighbours, &mut snapshot.memory_neighbours];
        for neighbour in beside.into_iter().flatten() {
            neighbour.is_generator = generators.contains(&(neighbour.pid, neighbour.start_ticks));
        }
        batch.push(snapshot);
        if batch.len() >= BATCH {
            flush(&mut batch);
        }
    })?;
    flush(&mut batch);
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// What happened: of the target and the host as one generator saw it, of each load what is its own, outages where all had one.
fn events(sources: &[Source], read_by: usize) -> Vec<Event> {
    let mut all = common_outages(sources);
    for (at, source) in sources.iter().enumerate() {
        for event in source.recording.events.iter().filter(|event| event.kind != event::OUTAGE) {
            let is_of_load = event::is_of_one_load(&event.kind) || OF_EACH.contains(&&*event.kind);
            let is_of_fault = event::is_fault(&event.kind) && !source.recording.plan.faults.is_empty();
            if at != read_by && !is_of_load && !is_of_fault {
                continue;
            }
            let mut event = event.clone();
            event.shift(source.offset.ns);
            if is_of_load {
                event.text = format!("generator '{}': {}", source.name, event.text);
            }
            all.push(event);
        }
    }
    all
}

/// Spans in which no generator had a success.
fn common_outages(sources: &[Source]) -> Vec<Event> {
    let of = |source: &Source| -> Vec<Event> {
        let own = source.recording.events.iter().filter(|event| event.kind == event::OUTAGE);
        own.cloned()
            .map(|mut event| {
                event.shift(source.offset.ns);
                event
            })
            .collect()
    };
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    others.iter().fold(of(first), |common, source| {
        let own = of(source);
        common.iter().flat_map(|one| own.iter().filter_map(move |other| both(one, other))).collect()
    })
}

/// What two outages have in common; `None`: nothing.
fn both(one: &Event, other: &Event) -> Option<Event> {
    let ((from, to), (other_from, other_to)) = (one.outage_span()?, other.outage_span()?);
    let from_ns = from.max(other_from);
    let to_ns = match (to, other_to) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    if to_ns.is_some_and(|to_ns| to_ns <= from_ns) {
        return None;
    }
    let mut both = Event::new(from_ns, event::OUTAGE, "no request of any generator succeeded");
    both.details.took_ns = to_ns.and_then(|to_ns| u64::try_from(to_ns.saturating_sub(from_ns)).ok());
    both.details.times = one.details.times.zip(other.details.times).map(|(one, other)| one.saturating_add(other));
    both.details.first_failed_ns = one.details.first_failed_ns.min(other.details.first_failed_ns);
    both.details.last_failed_ns = one.details.last_failed_ns.max(other.details.last_failed_ns);
    Some(both)
}

/// What the sum of ticks does not have: what was told once a run, of each generator's process.
fn settle(totals: &mut Totals, sources: &[Source]) {
    let all = || sources.iter().map(|source| &source.recording.totals);
    let sum = |of: fn(&Totals) -> u64| all().map(of).fold(0u64, u64::saturating_add);
    totals.in_flight_at_end = sum(|one| one.in_flight_at_end);
    totals.peak_rss_bytes = sum(|one| one.peak_rss_bytes);
    totals.cpu_user_ns = sum(|one| one.cpu_user_ns);
    totals.cpu_system_ns = sum(|one| one.cpu_system_ns);
    totals.first_request_ns = all().filter_map(|one| one.first_request_ns).min();
    let held: Option<Vec<u64>> = all().map(|one| one.held_at_end).collect();
    totals.held_at_end = held.map(|held| held.into_iter().fold(0u64, u64::saturating_add));
    // Histograms of entries are in totals alone.
    let mut entries = model::Interval::<u64>::new(0);
    all().for_each(|one| entries.entries.add(&one.sum.entries));
    totals.sum.entries = entries.entries;
    let spans = || sources.iter().map(Source::measured);
    let from_ns = spans().map(|(from_ns, _)| from_ns).min().unwrap_or(0);
    let to_ns = spans().map(|(_, to_ns)| to_ns).max().unwrap_or(0);
    (totals.measured_from_ns, totals.measured_ns) = (from_ns, to_ns.saturating_sub(from_ns));
}

/// Why the result is not whole.
fn why_partial(sources: &[Source]) -> Option<String> {
    let is_short = |source: &&Source| source.recording.end == End::Partial || source.recording.integrity.is_damaged();
    let short: Vec<String> = sources
        .iter()
        .filter(is_short)
        .map(|source| {
            let how = if source.recording.end == End::Partial { "stops in the middle" } else { "is damaged" };
            format!("the recording of generator '{}' {how}", source.name)
        })
        .collect();
    (!short.is_empty()).then(|| short.join("; "))
}
