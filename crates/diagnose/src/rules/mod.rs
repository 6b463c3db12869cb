//! The rules on figures, load and generator, one a file. [`RULES`] is the whole list: to add one, copy a neighbour and add a line
//! here. What the target did is in [`crate::causes`].
//!
//! First those that make a result invalid, then those that say what happened to the load.

pub mod clock_step;
pub mod connections_not_reached;
pub mod cpu_stolen;
pub mod figure_audit;
pub mod generator_cpu;
pub mod generator_fds;
pub mod generator_lag;
pub mod generator_memory;
pub mod generator_ports;
pub mod generator_starved;
pub mod not_steady;
pub mod rate_not_reached;
pub mod starved_users;
pub mod too_few;

use crate::rule::Rule;

/// Every rule.
pub const RULES: &[&Rule] = &[
    &generator_cpu::RULE,
    &generator_starved::RULE,
    &cpu_stolen::RULE,
    &generator_lag::RULE,
    &generator_fds::RULE,
    &generator_ports::RULE,
    &generator_memory::RULE,
    &clock_step::RULE,
    &figure_audit::RULE,
    &starved_users::RULE,
    &rate_not_reached::RULE,
    &connections_not_reached::RULE,
    &not_steady::RULE,
    &too_few::RULE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use model::finding::About;

    /// What is the generator's by its name is never told as the target's giving first.
    #[test]
    fn a_rule_named_for_the_generator_is_about_it() {
        for rule in RULES {
            let is_named = rule.id.starts_with("generator-");
            assert!(!is_named || rule.about == About::Generator, "{}", rule.id);
            assert!(rule.about != About::Target, "{} belongs to the causes", rule.id);
        }
    }

    #[test]
    fn ids_are_distinct() {
        for (i, rule) in RULES.iter().enumerate() {
            assert!(RULES[..i].iter().all(|other| other.id != rule.id), "{}", rule.id);
        }
    }
}
