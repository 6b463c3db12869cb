//! The reference servers: real servers, sound by default, that load is put on to prove a measurement.
//!
//! `http::serve`, `echo::serve`, `websocket::serve`, `proxy::serve` and `names::serve` block until their [`Stop`] is pulled, then say what
//! they counted.
//! They share no code with the client side, so that no parser bug can hide by being on both ends.
//! Not here: command lines, signals. Cost: one thread a worker, nothing else running.

mod clock;
pub mod control;
mod counters;
pub mod defects;
pub mod echo;
mod error;
pub mod http;
pub mod limits;
mod link;
mod listen;
pub mod names;
mod options;
pub mod proxy;
mod reactor;
mod slab;
mod stack;
mod stop;
mod timers;
pub mod tls;
mod transfer;
pub mod websocket;
mod workers;

pub use counters::{Counters, Live, Reading};
pub use error::ServeError;
pub use options::{DesignInfo, ServeOptions};
pub use stop::Stop;
