//! Attributes of the kernel, a value a file below /sys and /proc: several are set to one value, and each gets back what it had.
//!
//! Which file an attribute is follows from what it is of and a number, so a journal can name no other. One that is gone, as of a
//! device that was taken out, is left out. Of interrupts the kernel keeps some where they are (EPERM or EIO, by its version, of
//! those that a driver has placed itself): they stay, and are counted. Source: Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst and
//! Documentation/core-api/irq/irq-affinity.rst of the kernel.

use crate::change::Reversible;
use crate::error::ApplyError;
use crate::faults::affinity;
use crate::limits::VALUE_BYTES_MAX;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// What attributes are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttributeOf {
    /// The governor of a cpufreq policy, which is of a CPU or of several.
    Governor,
    /// Whether intel_pstate keeps to the nominal clock rate, for all CPUs.
    NoTurbo,
    /// Whether other drivers of cpufreq go beyond it, for all CPUs.
    Boost,
    /// The CPUs that may take an interrupt, by its number.
    Interrupt,
}

use AttributeOf::{Boost, Governor, Interrupt, NoTurbo};

impl AttributeOf {
    fn path(self, number: u32) -> String {
        match self {
            Governor => format!("/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor"),
            NoTurbo => "/sys/devices/system/cpu/intel_pstate/no_turbo".to_owned(),
            Boost => "/sys/devices/system/cpu/cpufreq/boost".to_owned(),
            Interrupt => format!("/proc/irq/{number}/smp_affinity_list"),
        }
    }

    /// The numbers of those that this machine has.
    fn numbers(self) -> Vec<u32> {
        let (folder, prefix) = match self {
            Governor => ("/sys/devices/system/cpu/cpufreq", "policy"),
            Interrupt => ("/proc/irq", ""),
            NoTurbo | Boost => return vec![0],
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// Whether a value is one of its form.
    fn takes(self, value: &str) -> bool {
        match self {
            Governor => {
                !value.is_empty() && value.len() <= 32 && value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            }
            NoTurbo | Boost => matches!(value, "0" | "1"),
            Interrupt => value.is_empty() || affinity::normal(value).is_some(),
        }
    }

    /// Whether the kernel may leave one as it is, and no harm is done.
    fn may_stay(self, error: &io::Error) -> bool {
        self == Interrupt && matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NOSPC | Errno::PERM))
    }
}

/// Attributes, what each was, and what all are to become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    of: AttributeOf,
    #[serde(with = "crate::values::numbered")]
    before: BTreeMap<u32, String>,
    after: String,
}

impl Attributes {
    /// What becomes of all that this machine has; `None`: it has none.
    pub(crate) fn planned(of: AttributeOf, after: &str) -> Result<Option<Self>, ApplyError> {
        let mut before = BTreeMap::new();
        for number in of.numbers() {
            match read(of, number) {
                // An interrupt that no CPU may take is nobody's.
                Ok(Some(value)) if !value.is_empty() => drop(before.insert(number, value)),
                Ok(_) => {}
                Err(error) => return Err(ApplyError::unreadable(&of.path(number), &error)),
            }
        }
        Ok((!before.is_empty()).then(|| Attributes { of, before, after: after.to_owned() }))
    }

    /// Those that are there, each with its value now.
    fn now(&self) -> Result<BTreeMap<u32, String>, ApplyError> {
        let read = |number: &u32| {
            read(self.of, *number).map_err(|error| ApplyError::unreadable(&self.of.path(*number), &error))
        };
        let all = self.before.keys().map(|number| Ok(read(number)?.map(|value| (*number, value))));
        Ok(all.collect::<Result<Vec<_>, ApplyError>>()?.into_iter().flatten().collect())
    }

    /// Those that have another value now than they had.
    fn changed(&self) -> Result<usize, ApplyError> {
        Ok(self.now()?.iter().filter(|(number, value)| self.before.get(number) != Some(value)).count())
    }
}

impl Reversible for Attributes {
    fn name(&self) -> String {
        let n = self.before.len();
        let s = if n == 1 { "" } else { "s" };
        match self.of {
            Governor => format!("governor of {n} cpufreq polic{}", if n == 1 { "y" } else { "ies" }),
            NoTurbo => "no_turbo of intel_pstate".to_owned(),
            Boost => "boost of cpufreq".to_owned(),
            Interrupt => format!("CPUs of {n} interrupt{s}"),
        }
    }

    /// Every value that one had.
    fn before(&self) -> String {
        let mut values: Vec<&str> = self.before.values().map(String::as_str).collect();
        values.sort_unstable();
        values.dedup();
        values.join(" or ")
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        let now = self.now()?;
        let is_own = |number: &u32, value: &String| self.before.get(number) == Some(value);
        let foreign = now.iter().find(|(number, value)| **value != self.after && !is_own(number, value));
        Ok(match now.iter().all(|(number, value)| is_own(number, value)) {
            true if now.is_empty() => None,
            true => Some(self.before()),
            false => Some(foreign.map_or(&self.after, |(_, value)| value).clone()),
        })
    }

    fn may(&self) -> Result<(), ApplyError> {
        let all = self.before.keys().map(|number| self.of.path(*number));
        for path in all {
            match OpenOptions::new().write(true).open(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ApplyError::of_write(&path, "", &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        let now = self.now()?;
        let is_back = value == self.before();
        let wanted = |number: &u32| if is_back { self.before.get(number).map_or("", String::as_str) } else { value };
        let mut stayed = None;
        for (number, _) in now.iter().filter(|(number, found)| *found != wanted(number)) {
            match write(self.of, *number, wanted(number)) {
                Ok(()) => {}
                Err(error) if self.of.may_stay(&error) => stayed = Some(error),
                Err(error) => return Err(ApplyError::of_write(&self.of.path(*number), wanted(number), &error)),
            }
        }
        match stayed {
            // Not one has gone there.
            Some(error) if !is_back && self.changed()? == 0 => Err(ApplyError::of_write(&self.name(), value, &error)),
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), ApplyError> {
        let wrong = self.before.values().chain([&self.after]).find(|value| !self.of.takes(value));
        wrong.map_or(Ok(()), |value| Err(ApplyError::not_ours(&self.name(), value)))
    }

    fn told(&self) -> Option<String> {
        let all = self.before.len();
        let changed = self.changed().ok().filter(|_| self.of == Interrupt)?;
        let asked = self.before.values().filter(|value| **value != self.after).count();
        (changed < asked).then(|| format!("the kernel kept {} of {all} interrupts where they were", asked - changed))
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}

/// Its value; `None`: there is no such attribute.
fn read(of: AttributeOf, number: u32) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(of.path(number)).and_then(|file| file.take(VALUE_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes it, in one call.
fn write(of: AttributeOf, number: u32, value: &str) -> io::Result<()> {
    match OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(of.path(number))
        .and_then(|mut file| file.write(format!("{value}\n").as_bytes()))
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_values_of_its_form_is_written() {
        let of = |of, before: &[&str], after: &str| {
            let before = (0..).zip(before.iter().map(|value| (*value).to_owned())).collect();
            Attributes { of, before, after: after.to_owned() }
        };
        for (kind, good, bad) in [
            (Governor, "performance", "performance; reboot"),
            (Governor, "schedutil", "../x"),
            (NoTurbo, "1", "2"),
            (Boost, "0", ""),
            (Interrupt, "0-1,3", "all"),
        ] {
            of(kind, &[good], good).check().unwrap();
            assert!(matches!(of(kind, &[good], bad).check(), Err(ApplyError::NotOurs { .. })), "{bad}");
            assert!(
                matches!(of(kind, &[good, bad], good).check(), Err(ApplyError::NotOurs { .. })) || bad.is_empty(),
                "{bad}"
            );
        }
        // What several had is told once each.
        let governors = of(Governor, &["powersave", "performance", "powersave"], "performance");
        assert_eq!(governors.before(), "performance or powersave");
        assert_eq!(governors.name(), "governor of 3 cpufreq policies");
    }
}
