//! What befell the target while its requests took long for no cause that is known: it started processes, or somebody traced it.
//!
//! Who starts a process for each request (a shell, a converter, a CGI program) waits until it runs, as the kernel copies what both share, and
//! for its end. No thread shows that but for moments, and the processes are gone before they are read. Whom another process traces by
//! ptrace(2), as strace and debuggers do, is stopped at each of its system calls until that one has looked. Both are seen, and not how long a
//! request waited for it: so they are no finding.

use crate::facts::Facts;
use crate::history::Subject;
use model::snapshot::Role;
use model::units::show_figure;

/// Fewer for each request are something else: a log that is turned over, a health check.
const EACH_MIN: f64 = 0.5;
/// Of fewer requests nothing is said.
const REQUESTS_MIN: f64 = 20.0;
/// Who is traced in fewer readings was looked at for a moment.
const TRACED_MIN: usize = 2;

/// All of it, in words to put behind a sentence; empty: nothing of it was seen.
pub(super) fn meanwhile(facts: &Facts<'_>) -> String {
    [started(facts), traced(facts)].into_iter().flatten().map(|text| format!("; meanwhile {text}")).collect()
}

/// How many processes it started for each request; `None`: few, or nobody counted.
fn started(facts: &Facts<'_>) -> Option<String> {
    // Of the measured time alone: a server that starts its workers while it is looked at starts none for a request.
    let each = facts.grown(Subject::Probes, "lifecycle.forks")? / facts.ended;
    let number = if each < 1.5 { "a process".to_owned() } else { format!("{} processes", show_figure(each)) };
    let is_much = facts.ended >= REQUESTS_MIN && each >= EACH_MIN;
    is_much.then(|| format!("it started {number} for each request"))
}

/// Who traces one of its processes.
fn traced(facts: &Facts<'_>) -> Option<String> {
    let of_target = || facts.snapshots().flat_map(|snapshot| &snapshot.processes).filter(|p| p.role == Role::Target);
    let tracers = of_target().filter_map(|process| Some((process, process.metrics.of("tracer_pid")?)));
    let traced: Vec<_> = tracers.filter(|(_, tracer)| *tracer > 0).collect();
    let (process, tracer) = traced.last().filter(|_| traced.len() >= TRACED_MIN)?;
    let known = facts.neighbours.iter().find(|other| u64::from(other.pid) == *tracer);
    let name = known.map_or("process", |other| other.name);
    Some(format!(
        "{name} ({tracer}) traced {} ({}), which stops at each of its system calls for that",
        process.name, process.pid
    ))
}
