//! How fast the CPUs run: the governor of cpufreq, and whether they go beyond their nominal rate (turbo, boost).
//!
//! Both are the machine's, not a process's, and what a small load waits for: a CPU that was slowed down, or one that is fast as
//! long as its neighbours sleep. Guests mostly see neither. Source: Documentation/admin-guide/pm/cpufreq.rst.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::error::ApplyError;
use crate::values::attributes::{AttributeOf, Attributes};
use std::sync::Arc;

/// What is said of the governor.
pub(crate) const GOVERNOR: Kind = Kind {
    name: "governor",
    takes: "NAME",
    example: "performance",
    does: "sets the governor of every CPU's clock rate: performance keeps it up, powersave and others let it follow the load",
    needs: "root; a machine that shows cpufreq, as most guests do not",
    undone: Undoing::Back("each policy's as it was"),
    parse: |words| {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let expected = "a governor such as performance or powersave";
        Ok(Arc::new(Governor(words.parsed(expected, |word| is_word(word).then(|| word.to_owned()))?)))
    },
};

/// What is said of turbo.
pub(crate) const TURBO: Kind = Kind {
    name: "turbo",
    takes: "on|off",
    example: "off",
    does: "lets CPUs go beyond their nominal clock rate, or not",
    needs: "root; a machine that shows intel_pstate or cpufreq's boost, as most guests do not",
    undone: Undoing::Back("as it was"),
    parse: |words| {
        let is_on = |word: &str| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        Ok(Arc::new(Turbo(words.parsed("on or off", is_on)?)))
    },
};

#[derive(Debug)]
struct Governor(String);

impl Fault for Governor {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        deed(Attributes::planned(AttributeOf::Governor, &self.0)?, "cpufreq")
    }
}

#[derive(Debug)]
struct Turbo(bool);

impl Fault for Turbo {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let value = |is_one: bool| if is_one { "1" } else { "0" };
        let intel = Attributes::planned(AttributeOf::NoTurbo, value(!self.0))?;
        let other = if intel.is_none() { Attributes::planned(AttributeOf::Boost, value(self.0))? } else { None };
        deed(intel.or(other), "turbo or boost")
    }
}

fn deed(planned: Option<Attributes>, what: &str) -> Result<Vec<Deed>, ApplyError> {
    let planned = planned.ok_or_else(|| ApplyError::Missing {
        name: "clock rate".to_owned(),
        expected: format!("a machine that shows {what}"),
        reason: "this one does not, and whoever runs it decides, as for most guests: set it on the host".to_owned(),
    })?;
    Ok(vec![Deed::Change(Change::Attributes(planned))])
}
