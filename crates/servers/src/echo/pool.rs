//! Echo by a fixed number of threads (`workers`), each with one connection at a time.
//!
//! As many idle connections as there are threads starve it: those that come later wait in the accept queue until one
//! ends. That is its nature.

use super::{Design, EchoOptions, threads};
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "pool",
        about: "a fixed number of threads, each serving one connection at a time; more wait",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Connections,
            Able::Replies,
            Able::Writes,
            Able::Queues,
            Able::OneProcess,
            Able::Lasting,
            Able::Workers,
            Able::Parallel,
        ],
    },
    serve,
};

fn serve(options: &ServeOptions, _: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    threads::serve(options, stop, ready, false)
}
