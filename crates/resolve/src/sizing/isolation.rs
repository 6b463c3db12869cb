//! Which CPUs are whose while a machine is held still for a run (`--isolate`): the generator's, the target's, the interrupts'.
//!
//! Only of those that this process may run on: a container has no others. The generator has those that were named, else the last
//! ones, one a worker. A target on this machine has the others, but for
//! the first of three and more, which takes the interrupts of devices. Where the target is elsewhere all the others do.

use crate::Choice;
use crate::host::Machine;
use model::Scenario;
use model::plan::Isolation;

/// From this many CPUs on that are not the generator's, one is the interrupts' alone: of two, the target would lose half.
const CPUS_WITH_INTERRUPTS: usize = 3;

/// The CPUs that workers are pinned to, and whose the others are.
pub(crate) fn isolation(
    scenario: &Scenario,
    pin: Vec<u16>,
    threads: u16,
    is_local: bool,
    machine: &Machine,
    choices: &mut Vec<Choice>,
) -> (Vec<u16>, Option<Isolation>) {
    if !scenario.isolate {
        return (pin, None);
    }
    let allowed = &machine.cpus_allowed;
    let pin = match pin.is_empty() {
        true => allowed[allowed.len().saturating_sub(usize::from(threads))..].to_vec(),
        false => pin,
    };
    let mut rest: Vec<u16> = allowed.iter().copied().filter(|cpu| !pin.contains(cpu)).collect();
    let interrupts = match (is_local, rest.len()) {
        (false, _) => std::mem::take(&mut rest),
        (true, CPUS_WITH_INTERRUPTS..) => vec![rest.remove(0)],
        (true, _) => Vec::new(),
    };
    let isolation = Isolation { target_cpus: rest, interrupt_cpus: interrupts };
    let whose = |whom: &str, cpus: &[u16]| {
        let cpus: Vec<String> = cpus.iter().map(u16::to_string).collect();
        (!cpus.is_empty()).then(|| format!("{whom} {}", cpus.join(",")))
    };
    let all = [
        whose("generator", &pin),
        whose("target", &isolation.target_cpus),
        whose("interrupts", &isolation.interrupt_cpus),
    ];
    let value = all.into_iter().flatten().collect::<Vec<_>>().join("; ");
    choices.push(Choice { what: "CPUs", value, why: "--isolate gives each its own, as far as they go".to_owned() });
    (pin, Some(isolation))
}
