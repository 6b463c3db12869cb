//! `neighbour`: another process on the target's machine holds what the target waits for: its CPUs, its disk, its memory.
//!
//! Evidence, of one of the three: (process) the target's busiest thread waited for a CPU a fifth of the time it wanted one
//! (`cpu-contention`), its working threads waited for a disk a fifth of the time, or ten page faults of it a second waited for one;
//! and (kernel) one program, by the CPU time, disk bytes or memory of its processes, had a quarter of a core, half of what all
//! others and the target moved to and from disks, or took an eighth of the machine's memory while next to none was free. It is
//! named with its process. Refuted where the target waits for none of them, or nobody else had it. Looks alike: a database
//! that works for the target, which is a backend (`backend-wait`): what it uses ends with the load, and where it listens at an
//! address that the target has connections to, it is no neighbour. Source: the catalogue.

use super::{cpu_contention, disk_bound};
use crate::evidence::{Kernel, Process};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DISK_STANDS, FAULTS_MIN, MEMORY_TAKEN, NEIGHBOUR_DISK, NEIGHBOURS};
use model::Snapshot;
use model::finding::{LossKind, Severity};
use model::snapshot::Neighbour;
use model::units::show_bytes;
use std::collections::BTreeMap;

const READINGS_MIN: usize = 3;
/// Less moved to and from disks is no load of one, bytes a second.
const DISK_BYTES_MIN: f64 = 1e6;
/// So much of the machine's memory, or less, is next to none.
const FREE_MAX: f64 = 0.10;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "neighbour",
    needs: Needs::Nothing,
    reads: &[&["process/neighbours"], &["process/threads"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    if facts.is_target_elsewhere() {
        return Verdict::not_observable(
            "who else uses the target's machine",
            "the other processes of the target's machine were not read, only the generator's",
        );
    }
    let found = [of_cpu(facts), of_disk(facts), of_memory(facts)].into_iter().flatten().next();
    found.unwrap_or_else(|| Verdict::refuted("nobody else held a CPU, disk or memory that the target waited for"))
}

/// A program that uses something: its name, the process of it that uses most, how many it has, and how much they use together.
struct Program<'a> {
    name: &'a str,
    pid: u32,
    processes: usize,
    used: f64,
}

impl Program<'_> {
    fn named(&self) -> String {
        match self.processes {
            0 | 1 => format!("{} (pid {})", self.name, self.pid),
            n => format!("{} (pid {} and {} more)", self.name, self.pid, n - 1),
        }
    }
}

/// The program that uses most, of processes with what each uses.
fn most<'a>(uses: impl Iterator<Item = (&'a str, u32, f64)>) -> Option<Program<'a>> {
    let mut programs: BTreeMap<&str, (Program<'a>, f64)> = BTreeMap::new();
    for (name, pid, used) in uses.filter(|(_, _, used)| *used > 0.0) {
        let (program, largest) = programs.entry(name).or_insert((Program { name, pid, processes: 0, used: 0.0 }, 0.0));
        (program.processes, program.used) = (program.processes + 1, program.used + used);
        if used > *largest {
            (program.pid, *largest) = (pid, used);
        }
    }
    programs.into_values().map(|(program, _)| program).max_by(|a, b| a.used.total_cmp(&b.used))
}

fn of_cpu(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let contention = cpu_contention::contention(facts).ok()?;
    let program = most(facts.strangers().map(|n| (n.name, n.pid, n.cores)))?;
    if program.used < NEIGHBOURS.value {
        return None;
    }
    let text = format!("{} used {:.2} cores meanwhile", program.named(), program.used);
    let kernel = facts.piece::<Kernel>(text, "neighbours.cores", program.used, "cores").from(NEIGHBOURS.value);
    let title = format!("{} holds CPUs that the target wants: {:.1} cores", program.named(), program.used);
    let verdict = Verdict::proved(Severity::Warning, title, contention.waited, kernel);
    let verdict = match contention.of_time {
        Some(most) => verdict.explains(LossKind::Slow, most / 2.0, 0.0, most),
        None => verdict,
    };
    Some(
        verdict
            .remedy(format!("End {} or move it, or give the target CPUs of its own (cpuset, taskset, CPUAffinity=), or weight (cpu.weight, nice)", program.name))
            .check(format!("top -p {}; pidstat -u 1", program.pid))
            .confidence(0.85),
    )
}

/// What each of some neighbours has used since the observation began, by its last reading.
fn used<'a>(
    facts: &'a Facts<'_>,
    list: fn(&Snapshot) -> &[Neighbour],
    value: fn(&Neighbour) -> Option<f64>,
) -> Vec<(&'a str, u32, f64)> {
    let mut last: BTreeMap<(u32, u64), (&'a Neighbour, bool)> = BTreeMap::new();
    for neighbour in facts.snapshots().flat_map(list) {
        let (seen, is_of_run) = last.entry((neighbour.pid, neighbour.start_ticks)).or_insert((neighbour, false));
        // Not every reading looks whom the target asks.
        (*seen, *is_of_run) = (neighbour, *is_of_run || neighbour.is_backend || neighbour.is_generator);
    }
    // What a backend uses, it uses for the target; what another generator uses, it uses to put the load on.
    let strangers = last.into_values().filter(|(_, is_of_run)| !is_of_run);
    strangers.filter_map(|(n, _)| Some((&*n.name, n.pid, value(n)?))).collect()
}

fn of_disk(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let waited = disk_bound::waited_for_disk(facts, READINGS_MIN).filter(|share| *share >= DISK_STANDS.value)?;
    let bytes = |n: &Neighbour| Some(n.disk_read_bytes.unwrap_or(0) as f64 + n.disk_written_bytes.unwrap_or(0) as f64);
    let others = used(facts, |snapshot| &snapshot.disk_neighbours, bytes);
    let all_others: f64 = others.iter().map(|(_, _, bytes)| bytes).sum();
    let own = facts.target_grown("io_disk_read_bytes")? + facts.target_grown("io_disk_write_bytes")?;
    let program = most(others.into_iter())?;
    let share = program.used / (all_others + own).max(1.0);
    let rate = program.used / facts.measured_s().max(1e-9);
    if share < NEIGHBOUR_DISK.value || rate < DISK_BYTES_MIN {
        return None;
    }
    let text = format!(
        "{} moved {} to and from disks, {} of what it and the target did",
        program.named(),
        show_bytes(program.used),
        percent(share)
    );
    let kernel = facts.piece::<Kernel>(text, "disk_neighbours.share", share, "ratio").from(NEIGHBOUR_DISK.value);
    let text = format!("the target's working threads waited for a disk {} of the time", percent(waited));
    let process = facts.piece::<Process>(text, "target.threads_disk", waited, "ratio").from(DISK_STANDS.value);
    let title = format!("{} holds the disk that the target waits for: {} a second", program.named(), show_bytes(rate));
    Some(
        Verdict::proved(Severity::Warning, title, kernel, process)
            .explains(LossKind::Waiting, waited, waited * 0.5, 1.0)
            .remedy(format!("End {} or move it, give it less of the disk (ionice -c idle, io.max, io.weight), or the target a disk of its own", program.name))
            .check("pidstat -d 1; iotop -o; iostat -x 1")
            .confidence(0.75),
    )
}

fn of_memory(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let faults = facts.target_grown("major_faults")? / facts.measured_s().max(1e-9);
    let level = |name| facts.level(Subject::Machine, name);
    let (total, available) = (level("memory_total_bytes")?.max as f64, level("memory_available_bytes")?.min as f64);
    let taken = |n: &Neighbour| n.rss_bytes.map(|bytes| bytes as f64);
    let program = most(used(facts, |snapshot| &snapshot.memory_neighbours, taken).into_iter())?;
    let share = program.used / total.max(1.0);
    if faults < FAULTS_MIN.value || available > FREE_MAX * total || share < MEMORY_TAKEN.value {
        return None;
    }
    let text = format!(
        "{} has {} of the machine's memory, {} of it, and {} were left",
        program.named(),
        show_bytes(program.used),
        percent(share),
        show_bytes(available)
    );
    let kernel = facts.piece::<Kernel>(text, "memory_neighbours.share", share, "ratio").from(MEMORY_TAKEN.value);
    let text = format!("{faults:.0} page faults of the target a second waited for a disk");
    let process = facts.piece::<Process>(text, "major_faults", faults, "1/s").from(FAULTS_MIN.value);
    let title = format!("{} has the memory that the target needs: {}", program.named(), show_bytes(program.used));
    let verdict = Verdict::proved(Severity::Warning, title, kernel, process);
    let verdict = match disk_bound::of_what_is_done(facts) {
        Some(waited) => verdict.explains(LossKind::Slow, waited, waited * 0.5, 1.0),
        None => verdict,
    };
    Some(
        verdict
            .remedy(format!("Bound what {} may take (memory.max of its control group, MemoryMax=), or protect the target's (memory.low)", program.name))
            .check("ps -eo pid,rss,comm --sort=-rss | head; vmstat 1 # si, so, wa")
            .confidence(0.75),
    )
}
