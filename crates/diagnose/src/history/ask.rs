//! What may be asked of a history: how much a counter grew in a window, how fast, what levels a gauge had, one as a share of
//! another. Each answer says what it rests on, or why there is none.

use super::axis::Window;
use super::series::{Growth, Series};
use super::tasks::{ProcessId, of_role};
use super::{Elsewhere, History};
use model::snapshot::Role;
use std::fmt;

/// Whose reading it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The machine's under the target; of the whole of it.
    Machine,
    /// The generator's, where the target's is another.
    GeneratorMachine,
    /// The generator's network namespace, where the target's machine is another.
    GeneratorNetwork,
    /// A network interface's of that namespace, by its name.
    GeneratorInterface(&'a str),
    /// A core's, by its number.
    Core(usize),
    /// A disk's, by its name.
    Disk(&'a str),
    /// The target's network namespace.
    Network,
    /// A network interface's of that namespace, by its name.
    Interface(&'a str),
    /// A listening socket's, by its address.
    Listener(&'a str),
    /// All processes of a role together. Figures of control groups are not summed.
    All(Role),
    /// A process's.
    Process(ProcessId),
    /// A thread's: `run_ns`, `wait_ns`, `switches.voluntary`, `switches.involuntary`.
    Thread(ProcessId, u32),
    /// The CPU time of another process: `cpu_ns`.
    Neighbour(ProcessId),
    /// The kernel probes': counts by their names, `drops.` and the reason, a histogram's name with `.count` or `.sum`.
    Probes,
}

/// A metric: whose, and its name as in `docs/metrics.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric<'a> {
    /// Whose.
    pub of: Subject<'a>,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Metric<'a> {
    /// Of whom, and its name.
    pub fn new(of: Subject<'a>, name: &'a str) -> Self {
        Metric { of, name }
    }
}

/// An answer with what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured<T> {
    /// The answer.
    pub value: T,
    /// Readings that it rests on.
    pub readings: u32,
    /// The window that they really cover, which may be less than was asked for, and may have gaps.
    pub window: Window,
    /// How long it covers in all, gaps left out, nanoseconds.
    pub covered_ns: u64,
    /// How often the counter began anew in the window; what it grew meanwhile is not in the answer.
    pub resets: u32,
}

/// The levels of a gauge in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The mean of the readings.
    pub mean: f64,
    /// The lowest.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// The last.
    pub last: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nobody read it in the whole run.
    NeverRead,
    /// Nobody read it, or too much was read to be kept.
    BeyondBound,
    /// It was read, and not in this window.
    NotThen,
    /// In this window the counter only began anew.
    OnlyResets,
    /// A gauge has no rate.
    IsGauge,
    /// A counter has no level: it grows from boot on.
    IsCounter,
    /// Nobody declared whether it grows: it is of another version.
    Undeclared,
    /// The whole that it is to be a share of is nothing.
    OfNothing,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoAnswer::NeverRead => "it was never read",
            NoAnswer::BeyondBound => "it was not read, or there was too much to keep",
            NoAnswer::NotThen => "it was not read in this window",
            NoAnswer::OnlyResets => "it only began anew in this window",
            NoAnswer::IsGauge => "it is a gauge, which has no rate",
            NoAnswer::IsCounter => "it is a counter, whose level says nothing",
            NoAnswer::Undeclared => "this version does not know whether it grows",
            NoAnswer::OfNothing => "the whole is nothing",
        })
    }
}

/// An answer, or why there is none.
pub type Answer<T> = Result<Measured<T>, NoAnswer>;

impl History {
    /// By how much a counter grew in a window. What is known only of a part of it is said of that part.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn growth(&self, metric: Metric<'_>, window: Window) -> Answer<f64> {
        if let Some(track) = self.track(metric) {
            return self.grown(track, window);
        }
        let tracks: Vec<_> = match self.series(metric)? {
            Found::One(series) => vec![series],
            Found::ByNamespace(all) => all,
        };
        let mut best: Answer<f64> = Err(NoAnswer::NotThen);
        for series in tracks {
            let answer = match series {
                Series::Counter(track, _) => self.grown(track, window),
                Series::Gauge(_) => Err(NoAnswer::IsGauge),
                Series::Undeclared(_) => Err(NoAnswer::Undeclared),
            };
            best = better(best, answer);
        }
        best
    }

    /// How fast a counter grew in a window, a second of the time that is known.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn rate(&self, metric: Metric<'_>, window: Window) -> Answer<f64> {
        let grown = self.growth(metric, window)?;
        Ok(Measured { value: grown.value * 1e9 / (grown.covered_ns as f64).max(1.0), ..grown })
    }

    /// The levels of a gauge in a window.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn level(&self, metric: Metric<'_>, window: Window) -> Answer<Level> {
        if self.track(metric).is_some() {
            return Err(NoAnswer::IsCounter);
        }
        let all = match self.series(metric)? {
            Found::One(series) => vec![series],
            Found::ByNamespace(all) => all,
        };
        let mut best: Answer<Level> = Err(NoAnswer::NotThen);
        for series in all {
            let answer = match series {
                Series::Counter(..) => Err(NoAnswer::IsCounter),
                Series::Gauge(track) | Series::Undeclared(track) => {
                    let over = track.over(&self.axis, window);
                    over.map_or(Err(NoAnswer::NotThen), |(levels, covered)| {
                        let mean = levels.sum / f64::from(levels.readings.max(1));
                        Ok(Measured {
                            value: Level { mean, min: levels.min, max: levels.max, last: levels.last },
                            readings: levels.readings,
                            window: covered,
                            covered_ns: covered.length_ns(),
                            resets: 0,
                        })
                    })
                }
            };
            best = better(best, answer);
        }
        best
    }

    /// The last reading of a gauge in each stretch, with the moment at which that ends, oldest first; of a run that is not long
    /// every reading. Nothing where there is no such gauge.
    pub(crate) fn readings(&self, metric: Metric<'_>) -> Vec<(i64, u64)> {
        let Ok(Found::One(Series::Gauge(track))) = self.series(metric) else { return Vec::new() };
        let ends_ns = self.axis.ends_ns().iter().enumerate();
        let read =
            ends_ns.filter_map(|(at, end_ns)| Some((*end_ns, track.of(at).filter(|cell| cell.readings > 0)?.last)));
        read.collect()
    }

    /// One counter's rate over another's, or one gauge's mean over another's, in a window; readings and cover are those of
    /// the one of which less is known.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn share(&self, part: Metric<'_>, whole: Metric<'_>, window: Window) -> Answer<f64> {
        let of = |metric| match self.rate(metric, window) {
            Err(NoAnswer::IsGauge | NoAnswer::Undeclared) => {
                let level = self.level(metric, window)?;
                Ok(Measured {
                    value: level.value.mean,
                    readings: level.readings,
                    window: level.window,
                    covered_ns: level.covered_ns,
                    resets: 0,
                })
            }
            answer => answer,
        };
        let (part, whole) = (of(part)?, of(whole)?);
        if whole.value <= 0.0 {
            return Err(NoAnswer::OfNothing);
        }
        let less = if part.covered_ns <= whole.covered_ns { part } else { whole };
        Ok(Measured { value: part.value / whole.value, resets: part.resets.saturating_add(whole.resets), ..less })
    }

    fn grown(&self, track: &super::axis::Track<Growth>, window: Window) -> Answer<f64> {
        match track.over(&self.axis, window) {
            Some((Growth { grown, covered_ns, readings, resets }, covered)) => Ok(Measured {
                value: grown,
                // Growth lies between readings: there is one more of these.
                readings: readings.saturating_add(1),
                window: covered,
                covered_ns: covered_ns as u64,
                resets,
            }),
            None if track.resets(&self.axis, window) > 0 => Err(NoAnswer::OnlyResets),
            None => Err(NoAnswer::NotThen),
        }
    }

    /// What is kept of a thread or a neighbour.
    fn track(&self, metric: Metric<'_>) -> Option<&super::axis::Track<Growth>> {
        match metric.of {
            Subject::Thread(process, tid) => {
                let thread = self.tasks.threads.get(&(process, tid))?;
                match metric.name {
                    "run_ns" => Some(&thread.run),
                    "wait_ns" => Some(&thread.wait),
                    "switches.voluntary" => Some(&thread.voluntary),
                    "switches.involuntary" => Some(&thread.involuntary),
                    _ => None,
                }
            }
            Subject::Neighbour(process) if metric.name == "cpu_ns" => {
                self.neighbours.get(&process).map(|neighbour| &neighbour.cpu)
            }
            _ => None,
        }
    }

    fn series(&self, metric: Metric<'_>) -> Result<Found<'_>, NoAnswer> {
        let name = metric.name;
        let by_namespace = |of: &dyn for<'e> Fn(&'e Elsewhere) -> Option<&'e Series>| {
            let all: Vec<&Series> = self.networks.values().filter_map(of).collect();
            (!all.is_empty()).then_some(Found::ByNamespace(all))
        };
        let found = match metric.of {
            Subject::Machine => self.machine.of(name).map(Found::One),
            Subject::GeneratorMachine => self.generator_machine.of(name).map(Found::One),
            Subject::GeneratorNetwork => self.generator_network.own.of(name).map(Found::One),
            Subject::GeneratorInterface(interface) => {
                self.generator_network.interfaces.get(interface).and_then(|group| group.of(name)).map(Found::One)
            }
            Subject::Core(core) => self.cores.get(core).and_then(|group| group.of(name)).map(Found::One),
            Subject::Disk(disk) => self.disks.get(disk).and_then(|group| group.of(name)).map(Found::One),
            Subject::Network => by_namespace(&|network| network.own.of(name)),
            Subject::Interface(interface) => {
                by_namespace(&|network| network.interfaces.get(interface).and_then(|group| group.of(name)))
            }
            Subject::Listener(address) => self.listeners.get(address).and_then(|group| group.of(name)).map(Found::One),
            Subject::All(role) => self.tasks.together[of_role(role)].of(name).map(Found::One),
            Subject::Process(process) => {
                self.tasks.processes.get(&process).and_then(|process| process.group.of(name)).map(Found::One)
            }
            Subject::Probes => self.probes.of(name).map(Found::One),
            Subject::Thread(..) | Subject::Neighbour(_) => None,
        };
        let is_whole = self.budget.lost == 0 && self.tasks.lost == 0;
        found.ok_or(if is_whole { NoAnswer::NeverRead } else { NoAnswer::BeyondBound })
    }
}

enum Found<'h> {
    One(&'h Series),
    /// Of each network namespace that was read: they are different things, and the one of which most is known answers.
    ByNamespace(Vec<&'h Series>),
}

/// The answer that covers more.
fn better<T>(a: Answer<T>, b: Answer<T>) -> Answer<T> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok(if b.covered_ns > a.covered_ns { b } else { a }),
        (Ok(a), Err(_)) => Ok(a),
        (Err(_), Ok(b)) => Ok(b),
        (Err(NoAnswer::NotThen), Err(b)) => Err(b),
        (Err(a), Err(_)) => Err(a),
    }
}
