//! What the generator itself cost, and how the machine and the target's process fared beside it.
//!
//! A generator that was short of CPU measured itself: these lines let one see it before a rule says so.

use super::Paint;
use super::page::Page;
use crate::figures::{
    generator_host_use, reap_delay_ns_max, requests_per_cpu_second, worker_busy_max, worker_wait_max,
};
use crate::words::{duration, figure, grouped, listed, percent};
use model::plan::Address;
use model::recording::Recording;
use model::snapshot::{Role, SamplerState};
use model::units::show_bytes;
use std::io::{self, Write};

const INDENT: usize = 13;
/// So many more sockets in TIME_WAIT than at the start are worth a line: fewer are those of a run's end.
const TIME_WAIT_GROWN_MIN: u64 = 1000;
/// A worker that waited for less of an interval waited as any thread does.
const WAIT_SHOWN_MIN: f64 = 0.05;

/// Writes the lines.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    cost(page, recording)?;
    machines(page, recording)
}

/// What the load cost.
pub(crate) fn cost<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let totals = &recording.totals;
    let cpu_s = (totals.cpu_user_ns.saturating_add(totals.cpu_system_ns)) as f64 / 1e9;
    // It is told at the end: of a run that goes on over agents, or whose recording stops in the middle, it is not known.
    let mut cost = vec![if cpu_s > 0.0 { format!("{cpu_s:.2} CPU-s") } else { "CPU time not known".to_owned() }];
    if let Some(per_cpu_s) = requests_per_cpu_second(recording) {
        cost.push(format!("{} {}s per CPU-second", figure(per_cpu_s), recording.plan.unit()));
    }
    let busy = worker_busy_max(recording);
    if busy > 0.0 {
        cost.push(format!("busiest worker {}", percent(100.0 * busy)));
    }
    let wait = worker_wait_max(recording);
    if wait >= WAIT_SHOWN_MIN {
        cost.push(format!("waited for a CPU up to {}", percent(100.0 * wait)));
    }
    if totals.peak_rss_bytes > 0 {
        cost.push(show_bytes(totals.peak_rss_bytes as f64));
    }
    page.gap()?;
    page.wrapped(INDENT, (Paint::Heading, "Generator".to_owned()), Paint::Plain, &listed(&cost))?;
    let capsule = &recording.capsule;
    let mut how = Vec::new();
    if !capsule.driver.is_empty() {
        let reason =
            if capsule.driver_reason.is_empty() { String::new() } else { format!(" ({})", capsule.driver_reason) };
        how.push(format!("driver {}{reason}", capsule.driver));
    }
    if recording.plan.receive_stamps {
        how.push("replies end at the kernel's receive stamp".to_owned());
    }
    let reap_ns = reap_delay_ns_max(recording);
    if reap_ns > 0 {
        how.push(format!("a completion waited at most {} to be seen", duration(reap_ns)));
    }
    if !how.is_empty() {
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &listed(&how))?;
    }
    Ok(())
}

/// The target's processes, and the machines.
pub(crate) fn machines<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    target(page, recording)?;
    host(page, recording)
}

fn target<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    for process in recording.courses.of_role(Role::Target) {
        let runtime = process.runtime.map_or(String::new(), |runtime| format!(", {}", runtime.name()));
        let mut parts = vec![format!("{} (pid {}{runtime})", process.name, process.pid)];
        parts.extend(process.cpu.and_then(|cpu| cpu.cpus()).map(|cpus| format!("{cpus:.2} CPUs")));
        if let Some((name, share)) = process.busiest_thread() {
            parts.push(format!("busiest thread {name} {}", percent(100.0 * share)));
        }
        parts.extend(process.rss_bytes.map(|course| show_bytes(course.max as f64)));
        parts.extend(process.descriptors.map(|course| format!("{} descriptors", grouped(course.max))));
        page.wrapped(INDENT, (Paint::Heading, "Target".to_owned()), Paint::Plain, &listed(&parts))?;
    }
    Ok(())
}

fn host<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let mut parts = Vec::new();
    if let Some(host) = generator_host_use(&recording.snapshots) {
        parts.push(format!("CPU {} busy", percent(100.0 * host.busy)));
        if host.steal >= 0.001 {
            parts.push(format!("{} stolen by the hypervisor", percent(100.0 * host.steal)));
        }
    }
    if recording.capsule.cores > 0 {
        parts.push(format!("{} cores", recording.capsule.cores));
    }
    let target_host = recording.capsule.target_host.as_ref();
    if let Some(host) = target_host {
        super::remote::write(page, host, &recording.snapshots)?;
    }
    if !parts.is_empty() {
        // Of two the target's has a name; this one is where the generator ran.
        page.wrapped(
            INDENT,
            (Paint::Heading, if target_host.is_some() { "This host" } else { "Host" }.to_owned()),
            Paint::Plain,
            &listed(&parts),
        )?;
    }
    time_wait(page, recording)?;
    for sampler in recording.samplers.iter().filter(|s| s.status == SamplerState::Failed) {
        let text = format!("{} could not be read: {}", sampler.name, sampler.reason);
        page.wrapped(INDENT, (Paint::Heading, "Not seen".to_owned()), Paint::Warn, &text)?;
    }
    crate::agreement::write(page, INDENT, &recording.snapshots)
}

/// Only where it grew, or may have left few ports: whose sockets they are, and to where, the kernel's count does not say.
fn time_wait<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let Some(seen) = recording.courses.time_wait else { return Ok(()) };
    let ports = recording.capsule.sysctls.get("net.ipv4.ip_local_port_range").and_then(|range| ports_of(range));
    let mut targets: Vec<String> = recording
        .plan
        .origins
        .iter()
        .flat_map(|origin| &origin.addresses)
        .filter_map(|address| match address {
            Address::Tcp(address) => Some(address.to_string()),
            Address::Unix(_) => None,
        })
        .collect();
    targets.sort();
    targets.dedup();
    let is_most = |ports: u64| seen.max > ports / 2;
    if targets.is_empty() || (seen.max - seen.first < TIME_WAIT_GROWN_MIN && !ports.is_some_and(is_most)) {
        return Ok(());
    }
    let mut parts = vec![format!("{} → {} on this host", grouped(seen.first), grouped(seen.max))];
    if seen.last != seen.max {
        parts.push(format!("{} at the end", grouped(seen.last)));
    }
    parts.extend(ports.map(|ports| {
        let most = if is_most(ports) { "most of " } else { "of " };
        format!("{most}{} ports to one address", grouped(ports))
    }));
    page.wrapped(INDENT, (Paint::Heading, "TIME_WAIT".to_owned()), Paint::Plain, &listed(&parts))?;
    let to = if let [only] = &targets[..] { only } else { "HOST:PORT" };
    let text = format!(
        "who closes first keeps the socket for 60 s: where that is the generator and ports × addresses run out, \
         connects fail; `plimsoll drop time-wait --to {to}` frees its ports"
    );
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &text)
}

/// How many ports a range such as `32768 60999` has.
fn ports_of(range: &str) -> Option<u64> {
    let (first, last) = range.split_once(' ')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?);
    (first <= last).then(|| last - first + 1)
}
