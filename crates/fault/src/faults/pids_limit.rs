//! The most processes and threads that processes may have, by a control group of their own.
//!
//! fork(2) and clone(2) beyond it fail with EAGAIN. Threads count, and so do those that are there: a limit below their number
//! ends none of them, and lets no new one come.

use super::{Kind, Undoing};
use crate::group::InGroup;
use model::units::count;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "pids-limit",
    takes: "WHO N",
    example: "tree:target 8",
    does: "lets processes have so many processes and threads together, in a control group of their own",
    needs: "the right to make control groups (root)",
    undone: Undoing::Back("moved back, and the group removed"),
    parse: |words| {
        let who = words.who()?;
        let most = words.parsed("a number of processes and threads", |word| count(word).ok())?;
        let limits = || vec![("pids.max", Some(most.to_string()))];
        Ok(InGroup::shared(who, ["pids", "pids"], [limits(), limits()]))
    },
};
