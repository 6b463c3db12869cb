//! All probes together: loaded once for a target, read at each tick, the costly ones attached for a tick in ten.

use super::oncpu::Beats;
use super::window::{Why, Window};
use super::{Living, Names, PROBES, Probe, Reading, Runs};
use crate::limits::{CALLS_ENOUGH, CALLS_LOOK_NS, CALLS_NS_MIN, LIGHT_ENOUGH, LIGHT_LOOK_NS, LIGHT_NS_MIN};
use crate::observer::ObserveSpec;
use crate::source::bpf::{BpfError, Programs, Scope, clock_events};
use crate::source::clock;
use crate::source::schedule::Turn;
use model::bpf::{BpfSample, Level};
use model::plan::Address;
use model::profile::Profile;
use model::snapshot::{Role, SamplerState, SamplerStatus};
use model::{Event, Snapshot};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// The histogram that counts the target's replies: its probe, its name there.
const REPLIES: (&str, &str) = ("bpf/sockets", "service_ns");
/// Those that count what the target does.
const DOINGS: [(&str, &str); 3] =
    [("bpf/syscalls", "call_ns"), ("bpf/sockets", "receive_bytes"), ("bpf/sockets", "send_bytes")];

/// The probes of a run.
#[derive(Debug)]
pub(crate) struct Family {
    level: Level,
    /// Why there is none.
    absent: Option<(SamplerState, String)>,
    scope: Option<Scope>,
    running: Vec<Running>,
    /// Those to be loaded, the next one last.
    pending: Vec<&'static Probe>,
    /// Those that are of no use to the target as it is; they are loaded with the reading that finds it otherwise.
    waiting: Vec<&'static Probe>,
    /// The target's processes at the last reading.
    targets: Vec<Living>,
    spec: ObserveSpec,
    /// Moment 0 of the run's clock, as the monotonic clock has it; `None`: nobody has said.
    origin_ns: Option<i64>,
    known: BTreeSet<u32>,
    /// Numbers of the target's network namespaces.
    networks: BTreeSet<u32>,
    names: Names,
    beats: Beats,
    window: Window,
    sample: BpfSample,
}

#[derive(Debug)]
struct Running {
    probe: &'static Probe,
    programs: Option<Programs>,
    failure: Option<BpfError>,
    remark: Option<(SamplerState, String)>,
    has_read: bool,
}

impl Family {
    /// For a target; [`Family::load_next`] loads them.
    pub(crate) fn pending(target: Result<&[u32], &str>, spec: &ObserveSpec) -> Self {
        let mut family = Family {
            level: spec.probes,
            absent: None,
            scope: None,
            running: Vec::new(),
            pending: Vec::new(),
            waiting: Vec::new(),
            targets: Vec::new(),
            spec: spec.clone(),
            origin_ns: None,
            known: BTreeSet::new(),
            networks: BTreeSet::new(),
            names: Names::default(),
            beats: Beats::default(),
            window: Window::of(spec.windows),
            sample: BpfSample::default(),
        };
        match (spec.probes, target) {
            (Level::None, _) => {
                let reason = "not asked for (--observe light, windows or full)".to_owned();
                family.absent = Some((SamplerState::Disabled, reason));
            }
            (_, Err(unknown)) => family.absent = Some((SamplerState::Disabled, unknown.to_owned())),
            (level, Ok(_)) => {
                let is_wanted = |probe: &&Probe| level >= probe.level() && probe.not_wanted(spec).is_none();
                family.pending = PROBES.iter().rev().filter(is_wanted).collect();
            }
        }
        family
    }

    /// Loads the next; whether any is left. Each takes a millisecond or two, the first some more, for the kernel's types.
    pub(crate) fn load_next(&mut self) -> bool {
        let Some(probe) = self.pending.pop() else { return false };
        if self.scope.is_none() {
            // The types of all that may be loaded are read at once.
            let objects = std::iter::once(probe).chain(self.pending.iter().copied()).map(|probe| probe.object);
            match Scope::new(objects, super::LOCATE) {
                Ok(scope) => self.scope = Some(self.fill(scope)),
                Err(error) => {
                    // Not a failure of ours: the run goes on as it would without them, and the status says what is wanted.
                    self.absent = Some((SamplerState::Disabled, error.to_string()));
                    self.pending.clear();
                    return false;
                }
            }
        }
        if probe.waits_for(&self.targets).is_some() {
            self.waiting.push(probe);
        } else {
            self.load(probe);
        }
        if self.pending.is_empty() && self.level == Level::Full {
            self.window.open_since_ns = Some(clock::monotonic_ns());
        }
        !self.pending.is_empty()
    }

    fn load(&mut self, probe: &'static Probe) {
        let Some(scope) = &mut self.scope else { return };
        let bound: &[u64] = &[0, u64::from(self.spec.sockets_max), 0, 0];
        let generator: &[u64] = &[u64::from(self.spec.own_pid)];
        let settings = [("bound", bound), ("generator", generator)];
        let loaded = Programs::load(probe.object, scope, &settings).and_then(|mut programs| {
            if probe.runs == Runs::Always || self.level == Level::Full {
                programs.attach(self.level == Level::Full)?;
            }
            if probe.has_beats() {
                programs.beat_on(&clock_events::online())?;
            }
            Ok(programs)
        });
        let (programs, failure) = match loaded {
            Ok(programs) => (Some(programs), None),
            Err(failure) => (None, Some(failure)),
        };
        self.running.push(Running { probe, programs, failure, remark: None, has_read: false });
    }

    fn fill(&mut self, mut scope: Scope) -> Scope {
        let mut ports: BTreeSet<u16> = BTreeSet::new();
        ports.extend(self.spec.addresses.iter().filter_map(|address| match address {
            Address::Tcp(socket) => Some(socket.port()),
            Address::Unix(_) => None,
        }));
        if ports.is_empty() {
            ports.insert(0);
        }
        for port in ports {
            scope.add_port(port);
        }
        for pid in &self.spec.target {
            scope.add_target(*pid);
            self.known.insert(*pid);
        }
        self.networks.extend(self.spec.target.iter().filter_map(|pid| network_of(&pid.to_string())));
        if self.networks.is_empty() {
            // Not for us to see: then an address of this host is most likely one of this process's own network.
            self.networks.extend(network_of("self"));
        }
        for number in &self.networks {
            scope.add_network(*number);
        }
        scope
    }

    /// The load begins now, of a run whose moment 0 is that one of the monotonic clock.
    pub(crate) fn begin(&mut self, origin_ns: i64) {
        self.origin_ns = Some(origin_ns);
        self.window.begin(clock::monotonic_ns());
    }

    /// Reads everything into the snapshot; what happened to the target goes to `events`.
    pub(crate) fn sample(&mut self, turn: &mut Turn, snapshot: &mut Snapshot, events: &mut Vec<Event>) {
        let living = snapshot.processes.iter().filter(|process| process.role == Role::Target);
        self.targets = living.clone().map(|process| Living { pid: process.pid, runtime: process.runtime }).collect();
        let wanted = self.waiting.extract_if(.., |probe| probe.waits_for(&self.targets).is_none());
        for probe in wanted.collect::<Vec<_>>() {
            self.load(probe);
        }
        let Some(scope) = &self.scope else { return };
        for process in living {
            if self.known.insert(process.pid) {
                scope.add_target(process.pid);
            }
            let network = network_of(&process.pid.to_string());
            if let Some(number) = network.filter(|number| self.networks.insert(*number)) {
                scope.add_network(number);
            }
            if self.level >= Level::Windows {
                self.names.symbols.know(process.pid);
            }
        }
        self.names.symbols.prepare();
        let origin_ns = self.origin_ns.unwrap_or_else(|| clock::monotonic_ns().saturating_sub(snapshot.at_ns));
        let closed_since_ns = if self.has_windows() {
            self.window.begin_if(snapshot.at_ns >= 0);
            self.end_window();
            (snapshot.windows, snapshot.is_in_window) = (Some(self.window.begun), self.window.open_since_ns.is_some());
            self.window.closed.take()
        } else {
            None
        };
        self.sample.waits.clear();
        self.sample.threads = None;
        let window_ended = closed_since_ns.is_some() || self.level == Level::Full;
        let attached = match (closed_since_ns, self.window.open_since_ns) {
            (Some((from_ns, _)), _) => Some((from_ns, self.window.attached_to_ns)),
            (None, Some(from_ns)) => Some((from_ns, clock::monotonic_ns())),
            (None, None) => None,
        };
        let mut profile = Profile::default();
        for running in &mut self.running {
            let Some(programs) = &mut running.programs else { continue };
            if running.probe.has_beats() {
                let cpus = self.beats.cpus(snapshot.processes.iter().filter(|process| process.role == Role::Target));
                if let Some(Err(failure)) = cpus.map(|cpus| programs.beat_on(&cpus)) {
                    running.failure = Some(failure);
                }
            }
            let mut reading = Reading {
                sample: &mut self.sample,
                profile: &mut profile,
                events: &mut *events,
                names: &mut self.names,
                origin_ns,
                at_ns: snapshot.at_ns,
                window_ended,
                targets: &self.targets,
                remark: None,
                window_from_ns: closed_since_ns.map(|(from_ns, _)| from_ns.saturating_sub(origin_ns)),
                attached,
                exchanges: &mut snapshot.exchanges,
            };
            if let Err(failure) = read(running.probe, programs, &mut reading) {
                running.failure = Some(failure);
            }
            running.has_read = true;
            running.remark = reading.remark;
            turn.give_way();
        }
        self.count_window(closed_since_ns);
        snapshot.bpf = Some(self.sample.clone());
        snapshot.profile = (!profile.is_empty()).then_some(profile);
        // Not before the load: a run's first tick is its warm-up. Right after a reading, so that few intervals have one.
        if snapshot.at_ns >= 0 && clock::monotonic_ns() >= self.window.next_ns {
            self.open_window(Why::Due);
        }
    }

    /// Opens a window now where none is open: the target was slow just now.
    pub(crate) fn hint_slow(&mut self) {
        self.open_window(Why::Slow);
    }

    /// When [`Family::relieve`] is wanted next; `None`: not before the next reading.
    pub(crate) fn relieve_in(&self) -> Option<Duration> {
        if !self.has_windows() || !self.pending.is_empty() || self.running.is_empty() {
            return None;
        }
        let looks = self.window.enough.is_none()
            && (self.level == Level::Windows || self.level == Level::Light && self.window.may_end_early());
        let next_ns = match self.window.open_since_ns {
            Some(_) => [self.window.ends_ns, looks.then_some(self.window.look_ns)].into_iter().flatten().min(),
            None => self.window.opens_ns(),
        };
        let wait_ns = next_ns?.saturating_sub(clock::monotonic_ns());
        Some(Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(0)))
    }

    /// Opens a window that is due between two readings, ends one whose time is up, and ends where enough was seen: a due
    /// window of the light probes, or of any other the dearest probes.
    pub(crate) fn relieve(&mut self) {
        let now_ns = clock::monotonic_ns();
        if self.window.open_since_ns.is_none() {
            if self.window.opens_ns().is_some_and(|opens_ns| opens_ns <= now_ns) {
                self.open_window(Why::Due);
            }
            return;
        }
        if self.window.ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns) {
            self.end_window();
            return;
        }
        let may_end_early = self.level == Level::Light && self.window.may_end_early();
        let looks = self.level == Level::Windows || may_end_early;
        if !looks || self.window.enough.is_some() || now_ns < self.window.look_ns {
            return;
        }
        let (look_ns, enough) =
            if may_end_early { (LIGHT_LOOK_NS, LIGHT_ENOUGH) } else { (CALLS_LOOK_NS, CALLS_ENOUGH) };
        self.window.look_ns = now_ns.saturating_add(look_ns);
        if self.doings().saturating_sub(self.window.doings) < enough {
            return;
        }
        if may_end_early {
            self.window.ends_ns = Some(now_ns);
            self.end_window();
            return;
        }
        for running in self.running.iter_mut().filter(|running| running.probe.runs == Runs::UntilEnough) {
            running.programs.iter_mut().for_each(|programs| programs.detach(true));
        }
        self.window.enough = Some((clock::monotonic_ns(), self.replies()));
    }

    fn has_windows(&self) -> bool {
        matches!(self.level, Level::Light | Level::Windows)
    }

    fn replies(&self) -> u64 {
        self.count_of(REPLIES)
    }

    fn doings(&self) -> u64 {
        DOINGS.iter().map(|which| self.count_of(*which)).sum()
    }

    /// Values in a histogram, now; 0 where its probe does not run.
    fn count_of(&self, (probe, histogram): (&str, &str)) -> u64 {
        let running = self.running.iter().find(|running| running.probe.name == probe);
        let read = |running: &Running| {
            let at = running.probe.histograms.iter().position(|name| *name == histogram)?;
            running.programs.as_ref()?.histogram(u32::try_from(at).ok()?).ok()
        };
        running.and_then(read).map_or(0, |histogram| histogram.count())
    }

    fn open_window(&mut self, why: Why) {
        let now_ns = clock::monotonic_ns();
        if !self.has_windows() || !self.pending.is_empty() || self.running.is_empty() {
            return;
        }
        let Some(length_ns) = self.window.may_open(now_ns, why) else { return };
        for running in &mut self.running {
            let outcome = running.programs.as_mut().map_or(Ok(()), |programs| programs.attach(true));
            if let Err(failure) = outcome {
                running.failure = Some(failure);
            }
        }
        let (replies, doings) = (self.replies(), self.doings());
        let since_ns = clock::monotonic_ns();
        self.window.open(why, now_ns, since_ns, length_ns, replies, doings);
        let least_ns = if self.level == Level::Light { LIGHT_NS_MIN } else { CALLS_NS_MIN };
        self.window.look_ns = since_ns.saturating_add(least_ns);
    }

    /// Closes the window where its time is up.
    fn end_window(&mut self) {
        if !self.window.is_over(clock::monotonic_ns()) {
            return;
        }
        self.window.attached_to_ns = clock::monotonic_ns();
        for running in &mut self.running {
            let is_all = running.probe.runs != Runs::Always;
            running.programs.iter_mut().for_each(|programs| programs.detach(is_all));
        }
        self.window.close(clock::monotonic_ns());
    }

    /// Counts the window that was closed; without windows, the time since the start is one.
    fn count_window(&mut self, closed: Option<(i64, i64)>) {
        let length = |from_ns: i64, to_ns: i64| u64::try_from(to_ns.saturating_sub(from_ns)).unwrap_or(0);
        match (closed, self.level, self.window.open_since_ns) {
            (Some((from_ns, to_ns)), ..) => {
                self.sample.windows += 1;
                self.sample.window_ns = self.sample.window_ns.saturating_add(length(from_ns, to_ns));
                let (to_ns, replies) = self.window.enough.unwrap_or_else(|| (to_ns, self.replies()));
                self.sample.calls_window_ns = self.sample.calls_window_ns.saturating_add(length(from_ns, to_ns));
                self.sample.window_replies += replies.saturating_sub(self.window.replies);
            }
            (None, Level::Full, Some(since_ns)) => {
                self.sample.windows = 1;
                self.sample.window_ns = length(since_ns, clock::monotonic_ns());
                self.sample.calls_window_ns = self.sample.window_ns;
                self.sample.window_replies = self.replies();
            }
            (None, ..) => {}
        }
    }

    /// How each probe fares.
    pub(crate) fn statuses(&self) -> Vec<SamplerStatus> {
        let status = |probe: &Probe| {
            let running = self.running.iter().find(|running| running.probe.name == probe.name);
            let failure = running.and_then(|running| running.failure.as_ref());
            let (status, reason) = match (&self.absent, running, failure) {
                (Some((status, reason)), ..) => (*status, reason.clone()),
                (None, None, _) if self.level >= probe.level() && probe.not_wanted(&self.spec).is_some() => {
                    (SamplerState::Disabled, probe.not_wanted(&self.spec).unwrap_or_default().to_owned())
                }
                (None, None, _) if self.waiting.iter().any(|waiting| waiting.name == probe.name) => {
                    (SamplerState::Disabled, probe.waits_for(&self.targets).unwrap_or_default().to_owned())
                }
                (None, None, _) | (None, Some(Running { has_read: false, .. }), None) if self.level >= probe.level() => (
                    SamplerState::Disabled,
                    "not attached before the run ended: probes are loaded while it goes, within some tenths of a second"
                        .to_owned(),
                ),
                (None, None, _) => (
                    SamplerState::Disabled,
                    "costs more, so not with --observe light: choose windows or full".to_owned(),
                ),
                (None, Some(Running { remark: Some(remark), .. }), None) => remark.clone(),
                (None, Some(_), Some(failure)) => (SamplerState::Failed, failure.to_string()),
                (None, Some(_), None) => (SamplerState::Active, String::new()),
            };
            SamplerStatus { name: probe.name.to_owned(), status, reason }
        };
        PROBES.iter().map(status).collect()
    }
}

/// The number of a process's network namespace.
fn network_of(pid: &str) -> Option<u32> {
    let namespace = std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    u32::try_from(namespace.ino()).ok()
}

fn read(probe: &Probe, programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let prefix = probe.name.trim_start_matches("bpf/");
    let whole = |name: &str| if name.contains('.') { name.to_owned() } else { format!("{prefix}.{name}") };
    for (name, count) in probe.counts.iter().zip(programs.counts()?) {
        reading.sample.counts.insert(whole(name), count);
    }
    for (which, name) in (0..).zip(probe.histograms) {
        reading.sample.histograms.insert(whole(name), programs.histogram(which)?);
    }
    if let Some(misses) = programs.misses() {
        reading.sample.counts.insert(format!("{prefix}.runs_lost"), misses);
    }
    (probe.read)(programs, reading)
}
