//! Answers and nothing else: what gives first, with its evidence, remedy and command; what experiments and toggles decided.
//!
//! The report has these among its figures ([`crate::text`]); here they stand alone, for people, for pasting and for machines.

pub mod diagnosis;
