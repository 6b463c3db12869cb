//! What observing costs: the target, in its own CPU time a request and in p99, by level; and the observer, in a share of
//! a core at one reading a second.
//!
//! The first is a ratio within each round to the run without any observer, with a 95 % interval by Student's t on the
//! logarithms of the rounds' ratios: they are what is near normal, and few rounds are honest with t. With many short rounds of
//! two rows (`--rounds 170 --seconds 1 --tools none,light`), which are pairs that take turns, the median of the ratios says
//! more: a machine that was disturbed in some of them does not move it, and its interval is one of ranks. The second is from
//! `own_cpu_s` of `plimsoll watch --json`, which is everything the process used.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use floor::process;
use serde_json::{Value, json};

use super::shared::{bounds, load, method, one};
use crate::args::Settings;
use crate::machine;
use crate::measure::Measured;
use crate::report::{Document, NOTHING, Table, figure, spread};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::stats::{interval_of_median_ratio, interval_of_ratio};
use crate::target::{MANY_HOLDER, Target};
use crate::tools::{self, OBSERVED};

const SECONDS: f64 = 10.0;
const ROUNDS: usize = 10;
/// Connections of the targets of the second table that hold some: the last are a million sockets, both ends being here.
const HELD: [usize; 2] = [100_000, 500_000];
/// What a held connection takes of the machine's memory, bytes, both ends counted; with room to spare.
const HELD_BYTES: u64 = 20_000;
/// Sockets of others that may have gone since they were counted.
const FEW: u64 = 100;
/// How long they may take to come.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the observer is looked at.
const WATCHED_S: f64 = 30.0;

/// Measures the tables.
///
/// # Errors
/// nginx or the holder cannot be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rows = tools::wanted(OBSERVED, settings);
    let mut document = Document::new(settings, "What does observing cost the target, and the observer?");
    document.method = method(settings, seconds, rounds);
    document.method.push(
        "Closed loop: nginx with one worker is at its limit. Its CPU time is its processes' schedstat over the run. A \
         ratio is to the run without any observer in the same round; its 95 % interval is Student's t on the logarithms \
         of the rounds' ratios. The median is that of the same ratios, its 95 % interval by order statistics; 'without \
         windows' is that of the p99 which the report gives of the intervals without windows of the probes."
            .to_owned(),
    );
    document.method.push(format!(
        "The observer's own CPU time: `plimsoll watch --json` for {WATCHED_S} s at one reading a second, `own_cpu_s` over \
         `watched_s`, its start and the document included."
    ));
    let mut runs = Vec::new();
    for &connections in settings.connections() {
        let title = format!("nginx, {connections} connections");
        say(&title);
        let target = Target::start("nginx", &[settings.target_cpu], settings)?;
        let load = load(&target, connections, seconds, None);
        let series =
            rounds::interleave(&rows, rounds, settings, |row| one(row, &load, &target, &[settings.load_cpu], settings));
        document.tables.push(table(title, &series));
        runs.push(json!({"connections": connections, "series": series}));
    }
    // Named rows are those of the first table.
    if settings.tools.is_empty() {
        let (table, own) = observer(settings);
        document.tables.push(table);
        runs.push(own);
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series]) -> Table {
    let columns = [
        "observer",
        "target CPU-µs a request",
        "× none",
        "95 %",
        "median",
        "95 %",
        "p99, µs",
        "× none",
        "95 %",
        "median",
        "95 %",
        "without windows",
        "95 %",
        "rounds",
        "remarks",
    ];
    let mut table = Table::new(title, &columns);
    let none = series.iter().find(|series| series.name == OBSERVED[0].name);
    let cost = |run: &Measured| Some(run.target_cpu_seconds / run.reported.ok as f64 * 1e6);
    let p99 = |run: &Measured| run.reported.response.p99_us;
    // Where none was opened, all of it is without windows.
    let outside = |run: &Measured| run.reported.without_windows_p99_us.or(run.reported.response.p99_us);
    for one in series {
        let against =
            |figure: &dyn Fn(&Measured) -> Option<f64>| interval_of_ratio(&one.figures(figure), &none?.figures(figure));
        let ranked = |figure: &dyn Fn(&Measured) -> Option<f64>| {
            interval_of_median_ratio(&one.figures(figure), &none?.figures(figure))
        };
        let (of_cost, of_p99) = (against(&cost), against(&p99));
        let (median_cost, median_p99, median_outside) = (ranked(&cost), ranked(&p99), ranked(&outside));
        table.rows.push(vec![
            one.name.clone(),
            spread(one.summary(cost), 3),
            figure(of_cost.map(|ratio| ratio.middle), 4),
            bounds(of_cost),
            figure(median_cost.map(|ratio| ratio.middle), 4),
            bounds(median_cost),
            spread(one.summary(p99), 0),
            figure(of_p99.map(|ratio| ratio.middle), 3),
            bounds(of_p99),
            figure(median_p99.map(|ratio| ratio.middle), 3),
            bounds(median_p99),
            figure(median_outside.map(|ratio| ratio.middle), 3),
            bounds(median_outside),
            of_cost.map_or(NOTHING.to_owned(), |ratio| ratio.count.to_string()),
            one.remarks(),
        ]);
    }
    table
}

/// The observer's own cost. What cannot be measured is said in the table.
fn observer(settings: &Settings) -> (Table, Value) {
    let columns = ["target", "% of a core", "readings", "remarks"];
    let mut table = Table::new("the observer's own CPU time, one reading a second", &columns);
    let mut runs = Vec::new();
    for held in std::iter::once(0).chain(HELD) {
        let what = match held {
            0 => "nginx without load".to_owned(),
            held => format!("plimsoll serve echo, {held} connections"),
        };
        say(&what);
        let watched = if held == 0 { idle(settings) } else { holding(settings, held) };
        let (share, readings, remarks) = match watched {
            Ok(document) => {
                let of = |name: &str| document.pointer(name).and_then(Value::as_f64);
                let share = of("/own_cpu_s").zip(of("/watched_s")).map(|(own, watched)| 100.0 * own / watched);
                let readings = document.pointer("/snapshots").and_then(Value::as_array).map_or(0, Vec::len);
                runs.push(json!({"target": what, "own_cpu_s": of("/own_cpu_s"), "watched_s": of("/watched_s")}));
                (share, readings.to_string(), String::new())
            }
            Err(error) => (None, NOTHING.to_owned(), format!("{error:#}")),
        };
        table.rows.push(vec![what, figure(share, 3), readings, remarks]);
    }
    (table, json!({"observer": runs}))
}

fn idle(settings: &Settings) -> Result<Value> {
    let target = Target::start("nginx", &[settings.target_cpu], settings)?;
    watch(settings, &target)
}

fn holding(settings: &Settings, held: usize) -> Result<Value> {
    let (wanted, free) = (held as u64 * HELD_BYTES, machine::memory_available_bytes()?);
    if free < wanted {
        bail!("{} GB of memory are free, {} GB wanted", free >> 30, wanted >> 30);
    }
    let target = Target::start(MANY_HOLDER, &[settings.target_cpu], settings)?;
    let before = sockets()?;
    let url = format!("hold://{}", target.addr);
    let mut command = Command::new(&settings.plimsoll);
    command.args([
        "load",
        &url,
        "-c",
        &held.to_string(),
        "--every",
        "never",
        "--sweep",
        "1h",
        "--connect-rate",
        "10k/s",
    ]);
    command.args(["-d", "600s", "--threads", "1", "--no-record", "--no-observe", "-q"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process::prepare(&mut command, &[settings.load_cpu]);
    let child = command.spawn().with_context(|| format!("starting {}", settings.plimsoll.display()))?;
    let watched = await_sockets(before + 2 * held as u64 - FEW).and_then(|()| watch(settings, &target));
    // Gone already or ended now: both is well.
    let _ = process::signal(child.id(), process::SIGTERM);
    process::wait(child, PATIENCE)?;
    watched
}

/// TCP sockets of this network namespace, both ends counted.
fn sockets() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/net/sockstat").context("reading /proc/net/sockstat")?;
    let tcp = text.lines().find_map(|line| line.strip_prefix("TCP: inuse "));
    tcp.and_then(|rest| rest.split(' ').next()?.parse().ok()).context("/proc/net/sockstat has no line TCP")
}

fn await_sockets(wanted: u64) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if sockets()? >= wanted {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    bail!("waited {PATIENCE:?} for {wanted} sockets, there are {}", sockets()?)
}

/// What `plimsoll watch` says of a target.
fn watch(settings: &Settings, target: &Target) -> Result<Value> {
    let mut command = Command::new(&settings.plimsoll);
    command.args(["watch", "--json", "-d", &format!("{WATCHED_S}s"), "--port", &target.addr.port().to_string()]);
    process::prepare(&mut command, &[settings.load_cpu]);
    let output = command.output().with_context(|| format!("starting {}", settings.plimsoll.display()))?;
    if !output.status.success() {
        bail!("plimsoll watch says: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("its document")
}
