//! A protocol put together with the link and the defects that the options ask for, and run by every worker.
//!
//! From the socket up: the reactor, TLS if asked for, defects if asked for, the protocol. Each combination is compiled
//! by itself, so what is not asked for is not there.

use std::sync::Arc;

use crate::counters::Counters;
use crate::defects::{Among, Defective, Defects};
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Protocol;
use crate::stop::Stop;
use crate::tls::{self, Tls};
use crate::workers::{Ready, run_reactors};

/// Serves `make`'s protocol over the link that `options` ask for, with the defects they ask for. `alpn`: the protocol's
/// names in TLS.
pub(crate) fn run<P: Protocol>(
    name: &str,
    alpn: &[&str],
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    make: impl Fn() -> P + Sync,
) -> Result<Counters, ServeError> {
    let mut options = options.clone();
    let defects = Defects::new(name, Among::Threads, &mut options)?;
    if defects.is_empty() {
        return run_linked(name, alpn, &options, stop, ready, make);
    }
    let ready = defects.told(ready);
    run_linked(name, alpn, &options, stop, ready, || Defective::new(make(), defects.clone(), stop.clone()))
}

fn run_linked<P: Protocol>(
    name: &str,
    alpn: &[&str],
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    make: impl Fn() -> P + Sync,
) -> Result<Counters, ServeError> {
    let Some(tls) = &options.tls else {
        return run_reactors(name, options, stop, ready, make);
    };
    let config = Arc::new(tls::config(tls, &options.listen, alpn)?);
    let idle_ns = options.idle_ns();
    run_reactors(name, options, stop, ready, || Tls::new(make(), Arc::clone(&config), idle_ns))
}
