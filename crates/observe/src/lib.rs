//! Reads the host, the target's processes and the generator's own, from `/proc` and three clocks.
//!
//! [`Observer::snapshot`] never fails: what cannot be read is absent from the snapshot, and the sampler that could not
//! read it says why in its status. Nothing here judges what it reads; that is for diagnosis. Each sampler's head says what
//! it costs; all together take one to two milliseconds a tick for a target with a few processes. Probes in the kernel
//! ([`samplers::bpf`], feature `bpf`) count what `/proc` does not show.

pub mod capsule;
mod census;
pub mod import;
mod kernel_text;
mod limits;
pub mod list;
pub mod metric;
mod namespaces;
mod observation;
mod observer;
mod observer_thread;
pub mod own;
pub mod samplers;
mod settings;
mod source;
pub mod target;
mod watch;

pub use capsule::{capsule, run_clock};
pub use limits::{BPF_SOCKETS_MAX, PROCESSES_MAX, THREADS_MAX};
pub use observation::{FOLLOW_NICE, Observation};
pub use observer::{Extent, ObserveSpec, Observer, WindowShare};
pub use observer_thread::ObserverThread;
pub use settings::settings;
pub use source::schedule::give_way;
