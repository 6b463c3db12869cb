//! Agents and observers placed by Kubernetes: what a cluster is to have, as text for `kubectl`, or put there, waited for and taken away.
//!
//! [`Wanted`] is what was asked for, [`objects`] makes Kubernetes' own types of it without I/O, [`yaml`] writes them, [`cluster`]
//! brings them there and takes them away by kube-rs. Everything that is made carries the labels of [`labels`], and what is taken
//! away is found by these alone: so nothing need be remembered, and an `apply` that was killed at any moment can be undone.
//! Nothing here knows of loads: agents do the rest, over NATS. The runtime is one thread, made only by [`apply`] and [`delete`].

#![forbid(unsafe_code)]

pub mod cluster;
mod error;
pub mod labels;
pub mod limits;
pub mod objects;
mod wanted;
pub mod yaml;

pub use cluster::{Applied, Conduct, Deleted, Place, apply, delete};
pub use error::KubernetesError;
pub use wanted::{Nats, SecretKey, Wanted};
