//! Echo one connection at a time: the others wait in the accept queue until the one before has ended.
//!
//! The simplest server there is. A client that stays keeps everybody else out for as long as it moves.

use super::{Design, EchoOptions, blocking, threads};
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "iterative",
        about: "one thread serves one connection from its beginning to its end, and then the next",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Connections,
            Able::Replies,
            Able::Writes,
            Able::OneProcess,
            Able::Lasting,
        ],
    },
    serve,
};

fn serve(options: &ServeOptions, _: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    blocking::check_one_worker(DESIGN.info.name, options.workers)?;
    threads::serve(options, stop, ready, true)
}
