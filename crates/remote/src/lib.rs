//! Observation of a target on another machine: `plimsoll watch --serve` there, a run or a watch here.
//!
//! The observer there runs the same samplers at the run's tick and streams what they see over TLS 1.3; who may ask is
//! decided by a token both sides share and never send (`token`). Times come in its CLOCK_MONOTONIC and are set right by
//! the offset that exchanges of stamps give, within a bound that is shown (`offset`). Here a thread of its own reads
//! them; the session takes what has come at its ticks and never waits. A link that breaks is made again, and its gap is
//! said. Plain threads and sockets that never block: no runtime. Every bound is in [`limits`].
#![forbid(unsafe_code)]

mod admission;
mod channel;
mod client;
mod dial;
mod failure;
pub mod frame;
pub mod limits;
pub mod message;
mod observation;
pub mod offset;
mod server;
mod tls;
mod token;
mod watching;

pub use dial::ObserveAt;
pub use failure::{Came, RemoteError};
pub use observation::Elsewhere;
pub use server::{Say, ServeError, ServeOptions, Serving};
pub use tls::{Fingerprint, TlsError, Trust, page_identity};
pub use token::{NoToken, Token};
pub use watching::watch;

/// CLOCK_MONOTONIC now, nanoseconds.
pub fn monotonic_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// A text of the other side as it may be shown: bounded, on one line, without control characters.
fn tamed(text: &str) -> String {
    text.chars().take(limits::TEXT_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
