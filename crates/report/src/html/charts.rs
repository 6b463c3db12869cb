//! What is drawn over the time of a run: charts of lines, all on one axis of time, each with its figures as a table.
//!
//! The lines go to the page packed; the table says the same to whom sees no picture. Charts without a line are left out.

use super::course::{Course, Group};
use super::pack::{Column, Columns};
use super::table::{Cell, Table, figures};
use super::unit::Unit;
use crate::figures::{per_s, s};
use model::Recording;
use model::recording::Row;
use serde::Serialize;

/// From this share of a bound on it is near.
const NEAR: f64 = 0.1;

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Its id in the page.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// In what its lines are counted.
    pub unit: Unit,
    /// Whether its axis is logarithmic.
    pub is_log: bool,
    /// When its points are.
    pub times: Times,
    /// Its lines.
    pub lines: Vec<Drawn>,
    /// Stretches shaded in it and in no other, seconds: in which nothing was answered.
    pub silences: Vec<(f64, f64)>,
}

/// When the points of a chart are.
#[derive(Debug, Clone, PartialEq)]
pub enum Times {
    /// In the middle of the main load's intervals.
    Intervals,
    /// Where snapshots were taken.
    Snapshots,
    /// At these seconds.
    Own(Vec<f64>),
}

/// A line of it.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Its name.
    pub name: String,
    /// What it means, for its colour and its dashes.
    pub role: Role,
    /// A value a point.
    pub values: Vec<Option<f64>>,
}

/// What a line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// One of several.
    Plain,
    /// What was wanted, or may be.
    Asked,
    /// What failed or was lost.
    Bad,
}

/// Where the page finds a chart's lines.
#[derive(Debug, Clone, Serialize)]
pub struct Places {
    id: String,
    unit: Unit,
    log: bool,
    times: Column,
    silences: Vec<(f64, f64)>,
    lines: Vec<LinePlace>,
}

#[derive(Debug, Clone, Serialize)]
struct LinePlace {
    name: String,
    role: Role,
    column: Column,
}

impl Chart {
    /// Packs its lines; `intervals` and `snapshots` are the columns of their moments.
    pub fn packed(&self, to: &mut Columns, intervals: Column, snapshots: Column) -> Places {
        let times = match &self.times {
            Times::Intervals => intervals,
            Times::Snapshots => snapshots,
            Times::Own(seconds) => to.push(1e6, seconds.iter().map(|s| Some(*s))),
        };
        let line = |line: &Drawn| LinePlace {
            name: super::lines::shown(&line.name),
            role: line.role,
            column: to.push(self.unit.scale(), line.values.iter().copied()),
        };
        Places {
            id: self.id.clone(),
            unit: self.unit,
            log: self.is_log,
            times,
            silences: self.silences.clone(),
            lines: self.lines.iter().map(line).collect(),
        }
    }

    /// Its figures, for whom sees no picture.
    pub(crate) fn table(&self) -> Table {
        let row = |line: &Drawn| {
            let known = || line.values.iter().flatten().copied();
            let count = known().count();
            let mean = (count > 0).then(|| known().sum::<f64>() / count as f64);
            let shown = |value: Option<f64>| Cell::figure(value, |value| self.unit.shown(value));
            vec![
                Cell::text(&*line.name),
                shown(known().reduce(f64::min)),
                shown(mean),
                shown(known().reduce(f64::max)),
                shown(known().last()),
            ]
        };
        Table {
            caption: format!("{}: least, mean, most and last of its points", self.title),
            columns: figures(&["line", "least", "mean", "most", "last"]),
            rows: self.lines.iter().map(row).collect(),
        }
    }
}

/// Charts of the load.
pub fn of_load(recording: &Recording, rows: &[Row]) -> Vec<Chart> {
    let plan = &recording.plan;
    let unit = plan.unit();
    let of = |value: &dyn Fn(&Row) -> Option<f64>| rows.iter().map(value).collect::<Vec<_>>();
    let line = |name: &str, role, values: Vec<Option<f64>>| Drawn { name: name.to_owned(), role, values };
    let length = |row: &Row| row.end_ns.saturating_sub(row.start_ns);
    let rate = |count: u64, row: &Row| (length(row) > 0).then(|| per_s(count, length(row)));
    let ns = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let chart = |id: &str, title: &str, about: String, unit, is_log, lines: Vec<Drawn>| Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        about,
        unit,
        is_log,
        times: Times::Intervals,
        lines,
        silences: Vec::new(),
    };
    // A rate of a piece that is much shorter than the others is no rate: the run's end.
    let longest = rows.iter().map(length).max().unwrap_or(0);
    let is_whole = |row: &Row| !row.is_drain && 4 * length(row) >= longest;
    vec![
        chart(
            "response",
            "Response and failures",
            "time from when a request was due, successes and failures apart; logarithmic".to_owned(),
            Unit::Ns,
            true,
            vec![
                line("response p50", Role::Plain, of(&|row| ns(row.response_p50_ns))),
                line("response p99", Role::Plain, of(&|row| ns(row.response_p99_ns))),
                line("failed p50", Role::Bad, of(&|row| ns(row.failed_p50_ns))),
                line("lag p99, the generator’s own", Role::Asked, of(&|row| ns(row.lag_p99_ns).filter(|ns| *ns > 0.0))),
            ],
        ),
        chart(
            "throughput",
            "Throughput",
            format!("{unit}s a second: asked for, ended well, failed"),
            Unit::PerS,
            false,
            vec![
                line(
                    "asked for",
                    Role::Asked,
                    of(&|row| is_whole(row).then(|| plan.mean_rate_per_s(row.start_ns, row.end_ns)).flatten()),
                ),
                line("ok", Role::Plain, of(&|row| rate(row.counts.ok_arrived(), row).filter(|_| is_whole(row)))),
                line("failed", Role::Bad, of(&|row| rate(row.counts.failed, row).filter(|_| is_whole(row)))),
                line("dropped", Role::Bad, of(&|row| rate(row.counts.dropped, row).filter(|_| is_whole(row)))),
            ],
        ),
        chart(
            "connections",
            "Connections",
            "where an interval ended".to_owned(),
            Unit::Count,
            false,
            vec![
                line("connections", Role::Plain, of(&|row| Some(row.gauges.connections as f64))),
                line("requests under way", Role::Plain, of(&|row| Some(row.gauges.in_flight as f64))),
                line("requests waiting for a connection", Role::Bad, of(&|row| Some(row.gauges.queued as f64))),
            ],
        ),
        chart(
            "generator",
            "Generator",
            "of its busiest worker: the share of the time on a CPU, without one, and late".to_owned(),
            Unit::Share,
            false,
            vec![
                line("on a CPU", Role::Plain, of(&|row| Some(row.worker_busy_max).filter(|_| is_whole(row)))),
                line("waiting for a CPU", Role::Plain, of(&|row| Some(row.worker_wait_max).filter(|_| is_whole(row)))),
                line("late", Role::Bad, of(&|row| Some(row.worker_late_max).filter(|_| is_whole(row)))),
            ],
        ),
    ]
    .into_iter()
    .map(without_idle_lines)
    .filter(|chart| !chart.lines.is_empty() && rows.len() > 1)
    .collect()
}

/// Lines that never left nothing are left out, unless they are what is asked about.
fn without_idle_lines(mut chart: Chart) -> Chart {
    let is_news = |line: &Drawn| line.values.iter().flatten().any(|value| *value != 0.0);
    let stays = |line: &Drawn| is_news(line) || line.name == "ok" || line.name == "on a CPU";
    chart.lines.retain(|line| stays(line) && line.values.iter().flatten().next().is_some());
    chart
}

/// A bound that nothing comes near would make lines of all else, and none is drawn alone.
fn without_far_bounds(mut chart: Chart) -> Chart {
    let most = |role: &dyn Fn(Role) -> bool| {
        let lines = chart.lines.iter().filter(|line| role(line.role));
        lines.flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max)
    };
    if most(&|role| role != Role::Asked) < NEAR * most(&|role| role == Role::Asked) {
        chart.lines.retain(|line| line.role != Role::Asked);
    }
    chart
}

/// Charts of what was read of machine and target.
pub fn of_course(course: &Course) -> Vec<Chart> {
    let readings = course.readings();
    let groups = [
        (
            Group::Cpu,
            "cpu",
            "Processors",
            "processors used: by the machine, the target and its busiest threads, the generator",
        ),
        (Group::Memory, "memory", "Memory", "the target’s, by kind"),
        (
            Group::KernelMemory,
            "kernel-memory",
            "Kernel memory",
            "of the machine: buffers of sockets, and the slab, in which sockets are",
        ),
        (
            Group::Sockets,
            "sockets",
            "Sockets",
            "TCP sockets by state in the target’s network namespace, and the target’s descriptors",
        ),
        (Group::Queue, "queue", "Accept queue", "connections that the target has not accepted yet"),
        (Group::QueueBytes, "bytes", "Socket queues", "bytes that wait in the target’s connections"),
        (Group::Losses, "losses", "Losses", "of the target’s network namespace, a second; those that there were"),
        (
            Group::Pressure,
            "pressure",
            "Pressure",
            "the share of the time in which somebody waited for a resource (PSI), and throttling",
        ),
        (
            Group::States,
            "states",
            "Threads",
            "of the time of the target’s threads in the probes’ windows, the share in each state",
        ),
        (Group::Waits, "waits", "Waits", "of the same time, the share that they waited at each place; the longest"),
    ];
    let chart = |(group, id, title, about): (Group, &'static str, &'static str, &str)| {
        let role = |name: &str| match (group, name) {
            (Group::Queue, "as many may wait") => Role::Asked,
            (Group::Losses, _) | (Group::Cpu, "stolen by the hypervisor") => Role::Bad,
            _ => Role::Plain,
        };
        let lines = readings.iter().filter(|reading| reading.group == group).map(|reading| Drawn {
            name: reading.name.clone(),
            role: role(&reading.name),
            values: reading.values.clone(),
        });
        let chart = Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            about: about.to_owned(),
            unit: group.unit(),
            is_log: false,
            times: Times::Snapshots,
            lines: lines.collect(),
            silences: Vec::new(),
        };
        without_idle_lines(chart)
    };
    groups
        .map(chart)
        .map(without_far_bounds)
        .into_iter()
        .filter(|chart| !chart.lines.is_empty() && course.at_ns().len() > 1)
        .collect()
}

/// The middle of each interval, seconds: where its point is drawn.
pub fn middles_s(rows: &[Row]) -> Vec<f64> {
    rows.iter().map(|row| (s(row.start_ns) + s(row.end_ns)) / 2.0).collect()
}
