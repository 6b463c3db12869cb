//! Which CPUs take the interrupts of devices: away from those that the target and the generator run on, or onto them.
//!
//! Every interrupt that can be moved is; those of a driver that has placed them itself stay. Where irqbalance(1) runs it
//! would place them anew within seconds, so that is refused. Source: Documentation/core-api/irq/irq-affinity.rst.

use super::{Around, Deed, Fault, Kind, Undoing, affinity};
use crate::change::Change;
use crate::error::ApplyError;
use crate::process;
use crate::values::attributes::{AttributeOf, Attributes};
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "interrupts",
    takes: "CPUS",
    example: "0",
    does: "has the interrupts of all devices taken by these CPUs, such as 0 or 0-1; those that a driver has placed itself stay",
    needs: "root on the host itself; no irqbalance, which would place them anew",
    undone: Undoing::Back("each interrupt's as it was"),
    parse: |words| Ok(Arc::new(Placing(words.parsed("CPUs such as 0 or 0-1,3", affinity::normal)?))),
};

#[derive(Debug)]
struct Placing(String);

impl Fault for Placing {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let missing = |expected: &str, reason: String| ApplyError::Missing {
            name: "interrupts".to_owned(),
            expected: expected.to_owned(),
            reason,
        };
        let is_balancer = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "irqbalance")
        };
        if let Some(pid) = process::all().find(is_balancer) {
            let reason = format!("irqbalance (process {pid}) runs, which would place them anew: stop it first");
            return Err(missing("interrupts that stay where they are put", reason));
        }
        let planned = Attributes::planned(AttributeOf::Interrupt, &self.0)?;
        let none =
            || missing("interrupts in /proc/irq", "there are none, as in containers: do it on the host".to_owned());
        Ok(vec![Deed::Change(Change::Attributes(planned.ok_or_else(none)?))])
    }
}
