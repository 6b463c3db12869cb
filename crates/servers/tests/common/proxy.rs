//! A proxy in a thread, for the tests.

use std::net::SocketAddr;

use servers::proxy::{self, ProxyCounters, ProxyOptions};
use servers::{Counters, ServeOptions};

use super::{Counted, Running};

/// A proxy, which counts what its origins did, too.
pub type Proxied = Running<(Counters, ProxyCounters)>;

impl Counted for (Counters, ProxyCounters) {
    fn counters(&self) -> &Counters {
        &self.0
    }
}

/// A proxy of one worker to those origins.
pub fn proxy_to(origins: &[SocketAddr], options: ProxyOptions) -> Proxied {
    let origins = origins.iter().map(|addr| format!("http://{addr}").parse().unwrap()).collect();
    start(ServeOptions::default(), ProxyOptions { origins, ..options })
}

pub fn start(options: ServeOptions, proxy: ProxyOptions) -> Proxied {
    Running::start(move |stop, ready| proxy::serve(&options, &proxy, stop, |addrs| ready(addrs)))
}
