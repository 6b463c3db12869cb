//! Two commands of the user's: one that makes a fault, and one that puts things back.
//!
//! Both are run by `sh -c`, with plimsoll's own rights, and waited for; a first one that fails is followed by the second at
//! once. What it did nobody else knows: so it is undone whatever is found, and the second must bear being run twice. It is
//! the user who names both, so it can do all that they can.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::{ApplyError, plain};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "command",
    takes: "'COMMAND' 'COMMAND THAT UNDOES IT'",
    example: "'ip link set lo mtu 1500' 'ip link set lo mtu 65536'",
    does: "runs a command of yours, and another one to undo it; the latter must bear being run twice",
    needs: "what the commands need",
    undone: Undoing::Back("by the second command"),
    parse: |words| {
        let after = words.next("the command that makes the fault")?;
        let before = words.next("the command that undoes it")?;
        Ok(Arc::new(Commands { before, after }))
    },
};

/// What a command of the user's did: it, and the one that undoes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// Undoes it.
    pub before: String,
    /// Did it.
    pub after: String,
}

impl Fault for Commands {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        Ok(vec![Deed::Change(Change::Command(self.clone()))])
    }
}

impl Reversible for Commands {
    fn name(&self) -> String {
        "command".to_owned()
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(Some(self.after.clone()))
    }

    fn may(&self) -> Result<(), ApplyError> {
        Ok(())
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        let done = Command::new("sh").args(["-c", value]).stdin(Stdio::null()).stdout(Stdio::null()).status();
        let reason = match done {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => plain(&error),
        };
        Err(ApplyError::Command { command: value.to_owned(), reason })
    }

    fn is_blind(&self) -> bool {
        true
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}
