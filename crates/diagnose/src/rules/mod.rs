//! The rules, a cause a file. [`RULES`] is the whole list: to add one, copy a neighbour and add a line here.
//!
//! First those that make a result invalid, then those that say what happened to the load, then what the target did.

pub mod clock_step;
pub mod connections_not_reached;
pub mod cpu_stolen;
pub mod error_status;
pub mod figure_audit;
pub mod generator_cpu;
pub mod generator_fds;
pub mod generator_lag;
pub mod generator_memory;
pub mod generator_ports;
pub mod generator_starved;
pub mod keepalive_off;
pub mod not_steady;
pub mod rate_not_reached;
pub mod single_thread_bound;
pub mod starved_users;
pub mod too_few;

use crate::rule::Rule;

/// Every rule.
pub const RULES: &[&dyn Rule] = &[
    &generator_cpu::GeneratorCpu,
    &generator_starved::GeneratorStarved,
    &cpu_stolen::CpuStolen,
    &generator_lag::GeneratorLag,
    &generator_fds::GeneratorFds,
    &generator_ports::GeneratorPorts,
    &generator_memory::GeneratorMemory,
    &clock_step::ClockStep,
    &figure_audit::FigureAudit,
    &starved_users::StarvedUsers,
    &rate_not_reached::RateNotReached,
    &connections_not_reached::ConnectionsNotReached,
    &not_steady::NotSteady,
    &too_few::TooFew,
    &error_status::ErrorStatus,
    &keepalive_off::KeepaliveOff,
    &single_thread_bound::SingleThreadBound,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct() {
        for (i, rule) in RULES.iter().enumerate() {
            assert!(RULES[..i].iter().all(|other| other.id() != rule.id()), "{}", rule.id());
        }
    }
}
