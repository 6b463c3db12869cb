//! `swap-thrash`: memory that the target needs is fetched back from swap, again and again.
//!
//! Evidence: (kernel) a hundred pages a second and more were read back from swap, and tasks waited for memory a tenth of
//! the time, or all of them a twentieth (PSI); (process) page faults of the target waited for a disk. Refuted without either; cold pages that went to
//! swap once are none. Source: psi of the kernel's documentation; vmstat's pswpin.

use super::disk_bound;
use crate::evidence::{Kernel, Process};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{FAULTS_MIN, MEMORY_PRESSURE, MEMORY_PRESSURE_FULL, SWAPPED_IN};
use model::finding::{LossKind, Severity};

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "swap-thrash", needs: Needs::Nothing, reads: &[&["host/vmstat"], &["process/target"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let measured_s = facts.measured_s().max(1e-9);
    let Some(pages) = facts.grown(Subject::Machine, "swap_in_pages") else {
        return Verdict::not_observable(
            "pages read back from swap",
            "the kernel's counters of swap were not read twice in the measured time",
        );
    };
    let rate = pages / measured_s;
    let waited = |name| facts.grown(Subject::Machine, name).map(|ns| ns / 1e9 / measured_s);
    let (some, all) = (waited("pressure_memory_some_ns"), waited("pressure_memory_full_ns"));
    let said = |share: Option<f64>| share.map_or("an unknown part".to_owned(), percent);
    let waits = format!("some task waited for memory {} of the time, all of them {}", said(some), said(all));
    let text = format!("{rate:.0} pages a second were read back from swap; {waits}");
    let kernel = facts.piece::<Kernel>(text, "swap_in_pages", rate, "1/s").from(SWAPPED_IN.value);
    if rate < SWAPPED_IN.value {
        return Verdict::refuted("hardly a page was read back from swap").because(kernel.into());
    }
    // Where nobody counts waits, the faults have to do.
    let is_short = |share: Option<f64>, least: f64| share.is_none_or(|share| share < least);
    let is_read = some.is_some() || all.is_some();
    if is_read && is_short(some, MEMORY_PRESSURE.value) && is_short(all, MEMORY_PRESSURE_FULL.value) {
        return Verdict::refuted(format!("pages were read back from swap, and nobody waited for them long: {waits}"))
            .because(kernel.into());
    }
    let faults = facts.target_grown("major_faults").unwrap_or(0.0) / measured_s;
    let process = facts
        .piece::<Process>(
            format!("{faults:.0} page faults of the target a second waited for a disk"),
            "major_faults",
            faults,
            "1/s",
        )
        .from(FAULTS_MIN.value);
    if faults < FAULTS_MIN.value {
        return Verdict::refuted("others than the target had their pages read back")
            .because(kernel.into())
            .because(process.into());
    }
    let title = "memory that the target needs is fetched back from swap all the time";
    let verdict = Verdict::proved(Severity::Error, title, kernel, process);
    let verdict = match disk_bound::of_what_is_done(facts) {
        Some(waited) => verdict.explains(LossKind::Slow, waited, waited * 0.5, 1.0),
        None => verdict,
    };
    verdict
        .remedy("Give it more memory, or let it take less (smaller buffers, fewer connections); vm.swappiness moves the trouble and does not end it")
        .check("cat /proc/pressure/memory; grep VmSwap /proc/PID/status; vmstat 1 # si")
        .confidence(0.9)
}
