//! Where the target ran and waited, in a few lines and in the document: the heaviest stacks of the whole run.
//!
//! The whole of it is drawn by [`crate::flame`].

use crate::text::Paint;
use crate::text::page::Page;
use crate::words::{duration, grouped, percent};
use model::profile::{INLINED, KERNEL, Kind, PREEMPTED, RunProfile, Stack, Stacks};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Lines of each kind in the text.
const LINES: usize = 5;
/// Stacks of each kind in the document.
const STACKS: usize = 20;
const INDENT: usize = 13;

/// Where the target's threads ran and waited over the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Profile {
    /// Where they ran, in samples; null without one.
    pub on_cpu: Option<Heaviest>,
    /// Where they were off a CPU in the windows, in microseconds; null where nothing was seen.
    pub off_cpu: Option<Heaviest>,
}

/// The heaviest stacks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Heaviest {
    /// Everything counted, of the stacks that are not listed too.
    pub total: u64,
    /// What was counted and had no room.
    pub lost: u64,
    /// At most 20, those counted most first.
    pub stacks: Vec<Heavy>,
}

/// A stack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Heavy {
    /// Samples, or microseconds.
    pub count: u64,
    /// Its share of all, 0..=1.
    pub share: f64,
    /// Its frames, innermost first; the last is the process. `_[k]`: a function of the kernel; `_[i]`: an inlined one.
    pub frames: Vec<String>,
}

impl Profile {
    /// Of a run; `None` where nothing was seen.
    pub fn of(run: &RunProfile) -> Option<Self> {
        let of = |kind| {
            let stacks = run.of(kind);
            let total = stacks.total();
            let heavy = |stack: Stack<'_>| Heavy {
                count: stack.count,
                share: stack.count as f64 / total.max(1) as f64,
                frames: stack.frames.iter().rev().map(|frame| (*frame).to_owned()).collect(),
            };
            let stacks = |s: &Stacks| s.top(STACKS).into_iter().map(heavy).collect();
            (total > 0).then(|| Heaviest { total, lost: run.of(kind).lost, stacks: stacks(run.of(kind)) })
        };
        let profile = Profile { on_cpu: of(Kind::OnCpu), off_cpu: of(Kind::OffCpu) };
        (profile.on_cpu.is_some() || profile.off_cpu.is_some()).then_some(profile)
    }
}

/// Writes the section; nothing where nothing was seen.
pub(crate) fn write<W: Write>(page: &mut Page<'_, W>, run: &RunProfile) -> io::Result<()> {
    let mut heading = "Profile";
    for kind in [Kind::OnCpu, Kind::OffCpu] {
        let stacks = run.of(kind);
        let total = stacks.total();
        if total == 0 {
            continue;
        }
        if !heading.is_empty() {
            page.gap()?;
        }
        let title = match kind {
            Kind::OnCpu => format!("where it ran: {} samples", grouped(total)),
            Kind::OffCpu => {
                format!("where it waited, in windows: {} of its threads' time", duration(total.saturating_mul(1000)))
            }
        };
        page.wrapped(INDENT, (Paint::Heading, heading.to_owned()), Paint::Dim, &title)?;
        heading = "";
        for (place, count) in places(stacks).into_iter().take(LINES) {
            let share = format!("{:>INDENT$}  ", percent(100.0 * count as f64 / total as f64));
            page.wrapped(share.chars().count(), (Paint::Strong, share), Paint::Plain, &place)?;
        }
    }
    Ok(())
}

/// From leaf to function: the innermost frame that says something, and the innermost function of the program above it.
pub(crate) fn places(stacks: &Stacks) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for stack in stacks.each() {
        let sum = sums.entry(place(&stack.frames)).or_default();
        *sum = sum.saturating_add(stack.count);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

fn place(frames: &[&str]) -> String {
    let bare = |frame: &str| frame.trim_end_matches(KERNEL).trim_end_matches(INLINED).to_owned();
    // Without the process; every wait ends in the scheduler.
    let mut inwards = frames.get(1..).unwrap_or_default().iter().rev().filter(|frame| !is_scheduler(frame));
    let Some(leaf) = inwards.next() else { return frames.first().map_or_else(String::new, |frame| bare(frame)) };
    let is_of_kernel = leaf.ends_with(KERNEL) || *leaf == PREEMPTED;
    // The C library's `syscall` stands between any caller and any call.
    let says = |frame: &&&str| (!is_of_kernel || !frame.ends_with(KERNEL)) && **frame != "syscall";
    match inwards.find(says) {
        Some(function) => format!("{} ← {}", bare(leaf), bare(function)),
        None => bare(leaf),
    }
}

fn is_scheduler(frame: &str) -> bool {
    frame.ends_with(KERNEL) && ["schedule", "__schedule", "preempt_schedule"].iter().any(|name| frame.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Style;
    use model::profile::Folding;

    fn run() -> RunProfile {
        let mut run = RunProfile::default();
        let folded =
            |folding: &mut Folding, stack: &str, count| folding.add(&stack.split(';').collect::<Vec<_>>(), count);
        folded(&mut run.on_cpu, "nginx;main;work", 60);
        folded(&mut run.on_cpu, "nginx;main;write;do_syscall_64_[k];tcp_sendmsg_[k]", 30);
        folded(&mut run.on_cpu, "nginx;other;write;do_syscall_64_[k];tcp_sendmsg_[k]", 10);
        folded(&mut run.off_cpu, "nginx;main;lock_[i];syscall;futex_wait_[k];schedule_[k]", 1_500_000);
        folded(&mut run.off_cpu, "nginx;main;[preempted]", 500_000);
        run
    }

    #[test]
    fn lines_go_from_the_leaf_to_the_function() {
        let mut out = Vec::new();
        write(&mut Page::new(&mut out, Style { color: false, width: 80, unicode: true }), &run()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "Profile where it ran: 100 samples", "{text}");
        assert!(lines[2].ends_with("work ← main") && lines[3].ends_with("tcp_sendmsg ← write"), "{text}");
        assert!(lines[3].starts_with("40"), "{text}");
        assert!(lines[5].ends_with("futex_wait ← lock") && lines[6].ends_with("[preempted] ← main"), "{text}");
        let mut out = Vec::new();
        write(&mut Page::new(&mut out, Style { color: false, width: 80, unicode: true }), &RunProfile::default())
            .unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn the_document_has_whole_stacks_innermost_first() {
        let profile = Profile::of(&run()).unwrap();
        let on_cpu = profile.on_cpu.unwrap();
        assert_eq!((on_cpu.total, on_cpu.stacks.len(), on_cpu.stacks[0].share), (100, 3, 0.6));
        assert_eq!(on_cpu.stacks[0].frames, ["work", "main", "nginx"]);
        assert_eq!(Profile::of(&RunProfile::default()), None);
    }
}
