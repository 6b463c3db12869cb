//! Reads the host, the target's processes and the generator's own, from `/proc` and three clocks.
//!
//! [`Observer::snapshot`] never fails: what cannot be read is absent from the snapshot, and the sampler that could not
//! read it says why in its status. Nothing here judges what it reads; that is for diagnosis. Each sampler's head says what
//! it costs; all together take one to two milliseconds a tick for a target with a few processes. Probes in the kernel
//! ([`samplers::bpf`], feature `bpf`) count what `/proc` does not show.

mod apart;
pub mod capsule;
mod census;
mod elsewhere;
pub mod import;
mod limits;
pub mod list;
pub mod metric;
mod observer;
pub mod own;
pub mod samplers;
mod settings;
mod source;
pub mod target;
mod watch;

pub use apart::Apart;
pub use capsule::capsule;
pub use limits::{BPF_SOCKETS_MAX, PROCESSES_MAX, THREADS_MAX};
pub use observer::{ObserveSpec, Observer, WindowShare};
pub use settings::settings;
