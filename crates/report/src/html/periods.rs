//! Stacks period by period, on the tree of the whole run's graph: of each period which nodes were counted in it, and how often.
//! So a chosen stretch of the run has a flame graph of its own, and two have what is different between them.
//!
//! Bounded: more periods, or more counts, than a page should hold are merged in pairs, as the columns of the map of response
//! times are: no count is lost, only how fine they stand. A count takes two to three bytes of the page. Not here: which
//! periods a stretch takes in; that is the page's script's (`web/src/stacks.ts`).

use super::pack::{Column, Columns};
use model::profile::{Folding, Period, Stacks};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Nodes of a graph at most.
pub(super) const NODES_MAX: usize = 20_000;
/// Periods at most.
const PERIODS_MAX: usize = 1440;
/// Counts of all periods together at most.
const COUNTS_MAX: usize = 400_000;

/// The stacks of a run's periods.
#[derive(Debug, Clone, Default)]
pub struct Periods {
    /// The whole run's, as many as are drawn.
    tree: Stacks,
    /// Numbers of its names and of its nodes, the latter from 1 on.
    names: HashMap<String, u32>,
    nodes: HashMap<(u32, u32), u32>,
    parts: Vec<Part>,
    counts: usize,
    /// Periods a part stands for.
    stride: usize,
    pending: usize,
    /// Of older ones there are only those of all together.
    since_ns: Option<u64>,
    left_out: u64,
}

/// What was counted in one, or in neighbours that were merged.
#[derive(Debug, Clone)]
struct Part {
    from_ns: u64,
    to_ns: u64,
    /// So much of it lies in periods.
    counted_ns: u64,
    counts: BTreeMap<u32, u64>,
}

/// Where the page finds them.
#[derive(Debug, Clone, Serialize)]
pub struct Places {
    /// Columns, a value a period: start, end, and how much of it stacks were counted in, seconds; how many nodes it has.
    from_s: Column,
    to_s: Column,
    counted_s: Column,
    lengths: Column,
    /// Columns, one period after another: numbers of nodes from 0 on, ascending in each, and what was counted.
    nodes: Column,
    counts: Column,
    /// How many of the recording's periods one of these stands for.
    merged: usize,
    /// From when on stacks are known period by period, seconds; null: from the start.
    since_s: Option<f64>,
    /// What was counted in stacks that the graph has no room for.
    left_out: u64,
}

impl Periods {
    /// None yet, of a run whose stacks are all of these.
    pub fn of(whole: &Stacks) -> Self {
        let tree = drawable(whole).into_owned();
        let names = (0..).zip(&tree.names).map(|(number, name)| (name.clone(), number)).collect();
        let nodes = (1..).zip(&tree.nodes).map(|(number, (caller, name, _))| ((*caller, *name), number)).collect();
        Periods { tree, names, nodes, ..Periods::default() }
    }

    /// Says that periods are known from this moment of the run on, nanoseconds.
    pub fn known_since(&mut self, from_ns: i64) {
        self.since_ns = Some(from_ns.max(0).cast_unsigned());
    }

    /// Takes in a period; the oldest comes first.
    pub fn push(&mut self, period: &Period) {
        let (from_ns, to_ns) = (period.from_ns.max(0).cast_unsigned(), period.to_ns.max(0).cast_unsigned());
        let part =
            Part { from_ns, to_ns, counted_ns: to_ns.saturating_sub(from_ns), counts: self.counted(&period.stacks) };
        self.stride = self.stride.max(1);
        match self.parts.last_mut().filter(|_| self.pending > 0 && self.pending < self.stride) {
            Some(last) => {
                self.counts -= last.counts.len();
                last.merge(part);
                self.counts += last.counts.len();
                self.pending += 1;
            }
            None => {
                self.counts += part.counts.len();
                self.parts.push(part);
                self.pending = 1;
            }
        }
        while self.parts.len() > 1 && (self.parts.len() > PERIODS_MAX || self.counts > COUNTS_MAX) {
            self.halve();
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All of them together, and with them what the graph has no room for.
    pub fn total(&self) -> u64 {
        self.parts
            .iter()
            .flat_map(|part| part.counts.values())
            .fold(self.left_out, |sum, count| sum.saturating_add(*count))
    }

    /// From when on they are known, nanoseconds of the run; `None`: from its start.
    pub fn since_ns(&self) -> Option<u64> {
        self.since_ns
    }

    /// The tree that the numbers of nodes are of.
    pub(super) fn tree(&self) -> &Stacks {
        &self.tree
    }

    /// Packs them; nothing where there are none.
    pub(super) fn packed(&self, to: &mut Columns) -> Option<Places> {
        if self.is_empty() {
            return None;
        }
        let mut seconds =
            |of: fn(&Part) -> u64| to.push(1e6, self.parts.iter().map(|part| Some(of(part) as f64 / 1e9)));
        let (from_s, to_s) = (seconds(|part| part.from_ns), seconds(|part| part.to_ns));
        let counted_s = seconds(|part| part.counted_ns);
        let all = || self.parts.iter().flat_map(|part| part.counts.iter());
        Some(Places {
            from_s,
            to_s,
            counted_s,
            lengths: to.push_whole(self.parts.iter().map(|part| part.counts.len() as u64)),
            nodes: to.push_whole(all().map(|(node, _)| u64::from(*node))),
            counts: to.push_whole(all().map(|(_, count)| *count)),
            merged: self.stride,
            since_s: self.since_ns.map(|ns| ns as f64 / 1e9),
            left_out: self.left_out,
        })
    }

    /// What was counted with which node of the tree.
    fn counted(&mut self, stacks: &Stacks) -> BTreeMap<u32, u64> {
        let names: Vec<Option<u32>> = stacks.names.iter().map(|name| self.names.get(name).copied()).collect();
        // Of each node of theirs the number of ours, from 1 on. A caller stands before what it calls; one that does not, as
        // in a damaged file, is not known.
        let mut known: Vec<Option<u32>> = Vec::with_capacity(stacks.nodes.len());
        let mut counts = BTreeMap::new();
        for (caller, name, count) in &stacks.nodes {
            let caller = match caller.checked_sub(1) {
                None => Some(0),
                Some(at) => known.get(at as usize).copied().flatten(),
            };
            let name = names.get(*name as usize).copied().flatten();
            let node = caller.zip(name).and_then(|place| self.nodes.get(&place).copied());
            known.push(node);
            match node {
                _ if *count == 0 => {}
                Some(node) => add(&mut counts, node - 1, *count),
                None => self.left_out = self.left_out.saturating_add(*count),
            }
        }
        counts
    }

    fn halve(&mut self) {
        let all = std::mem::take(&mut self.parts);
        // The last one stands for fewer than the others where it is alone, or not yet full.
        self.pending += if all.len().is_multiple_of(2) { self.stride } else { 0 };
        for (i, part) in all.into_iter().enumerate() {
            match self.parts.last_mut().filter(|_| i % 2 == 1) {
                Some(last) => last.merge(part),
                None => self.parts.push(part),
            }
        }
        self.stride *= 2;
        self.counts = self.parts.iter().map(|part| part.counts.len()).sum();
    }
}

impl Part {
    fn merge(&mut self, later: Part) {
        self.from_ns = self.from_ns.min(later.from_ns);
        self.to_ns = self.to_ns.max(later.to_ns);
        self.counted_ns = self.counted_ns.saturating_add(later.counted_ns);
        later.counts.into_iter().for_each(|(node, count)| add(&mut self.counts, node, count));
    }
}

fn add(to: &mut BTreeMap<u32, u64>, node: u32, count: u64) {
    let sum = to.entry(node).or_insert(0);
    *sum = sum.saturating_add(count);
}

/// As many stacks as a graph has room for, those counted most.
pub(super) fn drawable(stacks: &Stacks) -> Cow<'_, Stacks> {
    if stacks.nodes.len() <= NODES_MAX {
        return Cow::Borrowed(stacks);
    }
    let mut folding = Folding::new(NODES_MAX);
    for stack in stacks.top(usize::MAX) {
        folding.add(&stack.frames, stack.count);
    }
    Cow::Owned(folding.into_stacks())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks of a second, `width` of them, other ones each second, of `all`; and those of all seconds.
    fn recorded(seconds: u64, all: u64, width: u64) -> (Vec<Period>, Stacks) {
        let mut sum = Folding::default();
        let one = |second: u64| {
            let mut folding = Folding::default();
            for i in 0..width {
                let leaf = format!("leaf{}", (second * 7 + i * 13) % all);
                folding.add(&["server", &format!("work{}", i % 3), &leaf], 1 + (second + i) % 5);
            }
            sum.merge(folding.stacks());
            let (from_ns, to_ns) = ((second * 1_000_000_000) as i64, ((second + 1) * 1_000_000_000) as i64);
            Period { from_ns, to_ns, stacks: folding.into_stacks() }
        };
        let periods = (0..seconds).map(one).collect();
        (periods, sum.into_stacks())
    }

    fn pushed(periods: &[Period], whole: &Stacks) -> Periods {
        let mut all = Periods::of(whole);
        periods.iter().for_each(|period| all.push(period));
        all
    }

    fn sums(periods: &Periods) -> Vec<u64> {
        let mut sums = vec![0; periods.tree.nodes.len()];
        for (node, count) in periods.parts.iter().flat_map(|part| &part.counts) {
            sums[*node as usize] += count;
        }
        sums
    }

    fn of_nodes(stacks: &Stacks) -> Vec<u64> {
        stacks.nodes.iter().map(|(.., count)| *count).collect()
    }

    #[test]
    fn all_periods_together_are_the_whole_run_node_for_node() {
        let (recorded, whole) = recorded(30, 50, 8);
        let periods = pushed(&recorded, &whole);
        assert_eq!((periods.len(), periods.stride), (30, 1));
        assert_eq!(sums(&periods), of_nodes(&whole));
        assert_eq!((periods.total(), periods.left_out), (whole.total(), 0));
        let of_third: u64 = periods.parts[2].counts.values().sum();
        assert_eq!(of_third, recorded[2].stacks.total());
    }

    #[test]
    fn too_many_periods_or_counts_are_merged_and_none_is_lost() {
        for (seconds, all, width) in [(PERIODS_MAX as u64 * 3 + 5, 20, 2), (1400, 600, 400)] {
            let (recorded, whole) = recorded(seconds, all, width);
            let periods = pushed(&recorded, &whole);
            assert!(
                periods.len() <= PERIODS_MAX && periods.counts <= COUNTS_MAX && periods.stride > 1,
                "{}",
                periods.len()
            );
            assert!(periods.len() > 100, "{}", periods.len());
            assert_eq!(periods.counts, periods.parts.iter().map(|part| part.counts.len()).sum::<usize>());
            assert_eq!(sums(&periods), of_nodes(&whole));
            assert!(periods.parts.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
            let stride_ns = periods.stride as u64 * 1_000_000_000;
            let (last, full) = periods.parts.split_last().unwrap();
            assert!(
                full.iter().all(|part| part.to_ns - part.from_ns == stride_ns)
                    && last.to_ns - last.from_ns <= stride_ns
            );
            assert_eq!(periods.parts.iter().map(|part| part.counted_ns).sum::<u64>(), seconds * 1_000_000_000);
        }
    }

    #[test]
    fn stacks_that_the_graph_has_no_room_for_are_counted_as_left_out() {
        let (recorded, whole) = recorded(60, 40_000, 900);
        assert!(whole.nodes.len() > NODES_MAX, "{}", whole.nodes.len());
        let periods = pushed(&recorded, &whole);
        assert!(periods.tree.nodes.len() <= NODES_MAX && periods.left_out > 0);
        assert_eq!(sums(&periods), of_nodes(&periods.tree));
        assert_eq!(periods.total(), whole.total());
    }

    #[test]
    fn a_damaged_tree_is_no_panic() {
        let (_, whole) = recorded(3, 5, 2);
        let nodes = vec![(9, 0, 3), (0, 99, 4), (u32::MAX, u32::MAX, u64::MAX), (3, 0, 1)];
        let mut periods = Periods::of(&whole);
        periods.push(&Period {
            from_ns: 5,
            to_ns: -5,
            stacks: Stacks { names: vec!["server".to_owned()], nodes, lost: 0 },
        });
        assert_eq!((periods.len(), periods.total()), (1, u64::MAX));
    }
}
