//! The most memory that processes may have from now on, by a control group of their own.
//!
//! What they have already stays charged where it was (both versions of control groups): the limit holds for what is taken,
//! read from files or buffered by sockets from then on. Beyond it the kernel first takes file pages back and swaps, then ends
//! a process of the group (OOM kill), which cannot be undone. No swap limit is set.

use super::{Kind, Undoing};
use crate::group::InGroup;
use model::units::size_bytes;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "memory-limit",
    takes: "WHO SIZE",
    example: "target 64MiB",
    does: "lets processes take so much more memory together, and no more, in a control group of their own",
    needs: "the right to make control groups (root)",
    undone: Undoing::Back(
        "moved back, and the group removed; what the kernel has killed for want of memory stays dead",
    ),
    parse: |words| {
        let who = words.who()?;
        let bytes = words.parsed("a size such as 64MiB", |word| size_bytes(word).ok().filter(|bytes| *bytes > 0))?;
        let value = Some(bytes.to_string());
        let one = vec![("memory.limit_in_bytes", value.clone())];
        Ok(InGroup::shared(who, ["memory", "memory"], [one, vec![("memory.max", value)]]))
    },
};
