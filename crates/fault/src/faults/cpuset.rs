//! The CPUs that processes may run on, by a control group of their own (cpuset(7)).
//!
//! As [`super::affinity`], but of whole processes, with all that is born meanwhile, and not to be escaped by
//! sched_setaffinity(2). The kernel takes only CPUs that the group above has. Version 1 also wants the memory nodes named:
//! those of the group above.

use super::{Kind, Undoing, affinity};
use crate::group::InGroup;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "cpuset",
    takes: "WHO CPUS",
    example: "tree:target 0",
    does: "lets processes, and all that they start meanwhile, run on these CPUs alone, in a control group of their own",
    needs: "the right to make control groups (root)",
    undone: Undoing::Back("moved back, and the group removed"),
    parse: |words| {
        let who = words.who()?;
        let cpus = words.parsed("CPUs such as 0 or 0-1,3", affinity::normal)?;
        let one = vec![("cpuset.mems", None), ("cpuset.cpus", Some(cpus.clone()))];
        Ok(InGroup::shared(who, ["cpuset", "cpuset"], [one, vec![("cpuset.cpus", Some(cpus))]]))
    },
};
