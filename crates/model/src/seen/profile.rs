//! Stacks of the target, folded: where its threads ran, and where they waited, tick by tick.
//!
//! A tree of calls with a table of names, so that neither a caller nor a name is written twice. Frames are named
//! outermost first; the outermost is the process's name. `_[k]` marks a kernel's function, `_[i]` one that was inlined, as
//! perf's tools do. Bounded; what did not fit is counted as lost. Names and drawing: elsewhere.

use crate::limits::{PROFILE_DEPTH_MAX, PROFILE_NODES_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The mark of a function of the kernel.
pub const KERNEL: &str = "_[k]";
/// The mark of a function that the compiler put into its caller.
pub const INLINED: &str = "_[i]";
/// The innermost frame of a wait that was none: another thread had the CPU.
pub const PREEMPTED: &str = "[preempted]";

/// Which stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Where threads ran; counted in samples.
    OnCpu,
    /// Where they were off a CPU; counted in microseconds.
    OffCpu,
}

/// The stacks of a tick.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Profile {
    /// Where threads ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_cpu: Option<Period>,
    /// Where they were off a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<Period>,
}

/// Stacks of a time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Period {
    /// Its start, nanoseconds since the run's start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// What was seen in it.
    pub stacks: Stacks,
}

/// Folded stacks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stacks {
    /// Names of frames, each once.
    pub names: Vec<String>,
    /// The tree: of each node the number of its caller's node counted from 1 (0: it has none), always an earlier one; the
    /// number of its name counted from 0; and what was counted with this frame innermost.
    pub nodes: Vec<(u32, u32, u64)>,
    /// What was counted and did not fit.
    pub lost: u64,
}

/// A stack and what was counted with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack<'s> {
    /// Its frames, outermost first.
    pub frames: Vec<&'s str>,
    /// Samples, or microseconds.
    pub count: u64,
}

/// Stacks that are being added up. As text they are the stacks alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Stacks", try_from = "Stacks")]
pub struct Folding {
    stacks: Stacks,
    names: BTreeMap<String, u32>,
    nodes: BTreeMap<(u32, u32), u32>,
    nodes_max: usize,
}

/// The stacks of a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunProfile {
    /// Where threads ran.
    pub on_cpu: Folding,
    /// Where they were off a CPU.
    pub off_cpu: Folding,
}

impl Kind {
    /// As it is written: `on-cpu` or `off-cpu`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::OnCpu => "on-cpu",
            Kind::OffCpu => "off-cpu",
        }
    }

    /// What is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::OnCpu => "samples",
            Kind::OffCpu => "µs",
        }
    }
}

impl Profile {
    /// One of the two.
    pub fn of(&self, kind: Kind) -> Option<&Period> {
        match kind {
            Kind::OnCpu => self.on_cpu.as_ref(),
            Kind::OffCpu => self.off_cpu.as_ref(),
        }
    }

    /// Whether there is neither.
    pub fn is_empty(&self) -> bool {
        self.on_cpu.is_none() && self.off_cpu.is_none()
    }
}

impl Stacks {
    /// Everything counted, but what was lost.
    pub fn total(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, (.., count)| sum.saturating_add(*count))
    }

    /// Every stack with what was counted. One that names what is not there, as a damaged file may, is left out.
    pub fn each(&self) -> impl Iterator<Item = Stack<'_>> {
        let counted = self.nodes.iter().enumerate().filter(|(_, (.., count))| *count > 0);
        counted.filter_map(|(at, (.., count))| Some(Stack { frames: self.frames(at)?, count: *count }))
    }

    /// The stacks counted most, most first.
    pub fn top(&self, at_most: usize) -> Vec<Stack<'_>> {
        let mut all: Vec<Stack<'_>> = self.each().collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.frames.cmp(&b.frames)));
        all.truncate(at_most);
        all
    }

    /// A line a stack, frames with `;` between, outermost first, then a blank and the count: what flame graph tools read.
    pub fn folded(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.each().map(|stack| format!("{} {}", stack.frames.join(";"), stack.count)).collect();
        lines.sort_unstable();
        lines
    }

    fn frames(&self, mut at: usize) -> Option<Vec<&str>> {
        let mut frames = Vec::new();
        loop {
            let (caller, name, _) = self.nodes.get(at)?;
            frames.push(self.names.get(*name as usize)?.as_str());
            let caller = *caller as usize;
            if caller == 0 {
                break;
            }
            // A caller stands before those it calls: so this ends.
            if caller > at || frames.len() > PROFILE_DEPTH_MAX {
                return None;
            }
            at = caller - 1;
        }
        frames.reverse();
        Some(frames)
    }
}

impl Folding {
    /// Nothing yet; at most so many nodes.
    pub fn new(nodes_max: usize) -> Self {
        Folding { stacks: Stacks::default(), names: BTreeMap::new(), nodes: BTreeMap::new(), nodes_max }
    }

    /// Adds a stack, outermost frame first. Of one that is too deep the outermost frames are left out.
    pub fn add<S: AsRef<str>>(&mut self, frames: &[S], count: u64) {
        let frames = &frames[frames.len().saturating_sub(PROFILE_DEPTH_MAX)..];
        if frames.is_empty() || count == 0 {
            return;
        }
        if self.stacks.nodes.len() + frames.len() > self.nodes_max && self.is_new(frames) {
            self.stacks.lost = self.stacks.lost.saturating_add(count);
            return;
        }
        let caller = frames.iter().fold(0, |caller, frame| self.node(caller, frame.as_ref()));
        if let Some((.., counted)) = self.stacks.nodes.get_mut(caller as usize - 1) {
            *counted = counted.saturating_add(count);
        }
    }

    /// Adds all of some others.
    pub fn merge(&mut self, other: &Stacks) {
        for stack in other.each() {
            self.add(&stack.frames, stack.count);
        }
        self.stacks.lost = self.stacks.lost.saturating_add(other.lost);
    }

    /// What was counted and had no room.
    pub fn lose(&mut self, count: u64) {
        self.stacks.lost = self.stacks.lost.saturating_add(count);
    }

    /// The sum.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The sum, taken.
    pub fn into_stacks(self) -> Stacks {
        self.stacks
    }

    fn is_new<S: AsRef<str>>(&self, frames: &[S]) -> bool {
        let mut caller = 0;
        for frame in frames {
            let node = self.names.get(frame.as_ref()).and_then(|name| self.nodes.get(&(caller, *name)));
            let Some(node) = node else { return true };
            caller = *node;
        }
        false
    }

    /// The number, counted from 1, of the node of a frame.
    fn node(&mut self, caller: u32, frame: &str) -> u32 {
        let name = match self.names.get(frame) {
            Some(name) => *name,
            None => {
                let name = self.names.len() as u32;
                self.stacks.names.push(frame.to_owned());
                self.names.insert(frame.to_owned(), name);
                name
            }
        };
        let next = self.stacks.nodes.len() as u32 + 1;
        let node = *self.nodes.entry((caller, name)).or_insert(next);
        if node == next {
            self.stacks.nodes.push((caller, name, 0));
        }
        node
    }
}

impl From<Folding> for Stacks {
    fn from(folding: Folding) -> Self {
        folding.into_stacks()
    }
}

/// Those of a run, to be gone on with.
impl TryFrom<Stacks> for Folding {
    type Error = &'static str;

    fn try_from(stacks: Stacks) -> Result<Self, Self::Error> {
        let mut folding = Folding::default();
        if stacks.nodes.len() > folding.nodes_max || stacks.names.len() > stacks.nodes.len() {
            return Err("it holds more stacks than a run keeps");
        }
        for (number, name) in (0..).zip(&stacks.names) {
            if folding.names.insert(name.clone(), number).is_some() {
                return Err("a frame's name stands twice");
            }
        }
        for (number, (caller, name, _)) in (1..).zip(&stacks.nodes) {
            let is_known = *caller < number && (*name as usize) < stacks.names.len();
            if !is_known || folding.nodes.insert((*caller, *name), number).is_some() {
                return Err("a stack names what is not there, or stands twice");
            }
        }
        folding.stacks = stacks;
        Ok(folding)
    }
}

impl Default for Folding {
    fn default() -> Self {
        Folding::new(PROFILE_NODES_MAX)
    }
}

impl RunProfile {
    /// Adds a tick's.
    pub fn add(&mut self, profile: &Profile) {
        if let Some(period) = &profile.on_cpu {
            self.on_cpu.merge(&period.stacks);
        }
        if let Some(period) = &profile.off_cpu {
            self.off_cpu.merge(&period.stacks);
        }
    }

    /// One of the two.
    pub fn of(&self, kind: Kind) -> &Stacks {
        match kind {
            Kind::OnCpu => self.on_cpu.stacks(),
            Kind::OffCpu => self.off_cpu.stacks(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(stacks: &[(&str, u64)], nodes_max: usize) -> Folding {
        let mut folding = Folding::new(nodes_max);
        for (stack, count) in stacks {
            folding.add(&stack.split(';').collect::<Vec<_>>(), *count);
        }
        folding
    }

    #[test]
    fn stacks_of_one_place_are_one_line_and_callers_are_kept_once() {
        let folding = folded(&[("p;main;work", 3), ("p;main;wait", 1), ("p;main", 5), ("p;main;work", 4)], 100);
        let stacks = folding.stacks();
        assert_eq!(stacks.folded(), ["p;main 5", "p;main;wait 1", "p;main;work 7"]);
        assert_eq!((stacks.nodes.len(), stacks.names.len(), stacks.total(), stacks.lost), (4, 4, 13, 0));
        assert_eq!(stacks.top(1)[0], Stack { frames: vec!["p", "main", "work"], count: 7 });
    }

    #[test]
    fn sums_are_those_of_the_parts_and_survive_json() {
        let (a, b) = (folded(&[("p;f", 1), ("p;g", 2)], 100), folded(&[("p;g", 5), ("q", 7)], 100));
        let mut sum = Folding::new(100);
        let again: Stacks = serde_json_like(a.stacks());
        sum.merge(&again);
        sum.merge(b.stacks());
        assert_eq!(sum.stacks().folded(), ["p;f 1", "p;g 7", "q 7"]);
    }

    /// What a file would give back.
    fn serde_json_like(stacks: &Stacks) -> Stacks {
        Stacks { names: stacks.names.clone(), nodes: stacks.nodes.clone(), lost: stacks.lost }
    }

    #[test]
    fn what_does_not_fit_is_counted_and_what_is_there_goes_on_counting() {
        let mut folding = folded(&[("p;f;g", 1), ("p;f;h", 2), ("p;f;g", 3)], 3);
        assert_eq!((folding.stacks().folded(), folding.stacks().lost), (vec!["p;f;g 4".to_owned()], 2));
        folding.add(&vec!["deep"; PROFILE_DEPTH_MAX + 10], 9);
        assert_eq!(folding.stacks().lost, 11);
        let mut folding = Folding::new(10_000);
        folding.add(&vec!["deep"; PROFILE_DEPTH_MAX + 10], 9);
        assert_eq!(folding.stacks().each().next().unwrap().frames.len(), PROFILE_DEPTH_MAX);
    }

    #[test]
    fn a_tree_that_is_none_is_not_walked_for_ever() {
        let names = vec!["a".to_owned()];
        for nodes in [vec![(1, 0, 1)], vec![(2, 0, 1), (1, 0, 1)], vec![(0, 9, 1)], vec![(7, 0, 1)]] {
            let stacks = Stacks { names: names.clone(), nodes, lost: 0 };
            assert!(stacks.folded().len() <= 1, "{stacks:?}");
        }
        let full = Stacks { names, nodes: vec![(0, 0, u64::MAX), (1, 0, u64::MAX)], lost: u64::MAX };
        let mut sum = Folding::default();
        sum.merge(&full);
        sum.merge(&full);
        assert_eq!((sum.stacks().total(), sum.stacks().lost), (u64::MAX, u64::MAX));
    }
}
