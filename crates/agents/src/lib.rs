//! A load of many machines as one: agents that put on shares of a plan, and the controller that makes one result of them.
//!
//! What carries it is NATS: messages for questions and the word to begin, a JetStream stream a run for all that must not be lost (plan,
//! shares, states, ticks, recordings), acknowledged and told apart by (run, agent, number). An agent runs what a run on one machine
//! runs ([`session::run_among_others`]) on some of the plan's workers ([`engine::plan_of`]); the result is that of [`session::generators`].
//! A run without agents starts nothing of this. Every bound is in [`limits`].
//! A search and a comparison are series of such loads, put on by a [`Team`].
//! An observer on the target's machine is reached over the same NATS ([`observers`]).
//! Several loads at once are runs that begin together ([`Company`]), each with agents of its own.
//! Faults are done by the controller, on its own machine. Not here: placing agents on machines.
#![forbid(unsafe_code)]

mod agent;
pub mod allow;
mod clock;
mod controller;
mod document;
mod error;
pub mod limits;
mod link;
pub mod message;
pub mod observers;
mod sealed;
mod subject;

pub use agent::{Options as AgentOptions, serve};
pub use controller::{
    Company, Conduct, Listed, Member, Open, RunResult, RunStream, Team, TeamSpec, attach, list, load, open_runs,
};
pub use document::{Asked, BehindOf, ObserveAt, OnLost};
pub use error::AgentsError;
pub use link::Nats;
