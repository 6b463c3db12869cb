//! What every reference server is told: where it listens, with how many workers, on which CPUs.
//!
//! Plain data; `listen` and `workers` act on it and report what does not fit.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::counters::Live;
use crate::defects::{Able, Defect, Server, Setting};
use crate::error::ServeError;
use crate::timers::NEVER_NS;
use crate::tls::TlsOptions;

/// How a server runs, whatever it speaks.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Addresses to listen on. Port 0 takes a free one; the addresses bound are given to `ready`.
    pub listen: Vec<SocketAddr>,
    /// A unix socket to listen on as well. Removed again at the end.
    pub unix: Option<PathBuf>,
    /// Worker threads, each with its own connections.
    pub workers: usize,
    /// All workers wait at one listener an address; otherwise each has its own (`SO_REUSEPORT`).
    pub shared_listeners: bool,
    /// Worker `i` runs only on CPU `pin[i % pin.len()]`.
    pub pin: Option<Vec<usize>>,
    /// Length asked of the accept queue; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Size of a worker's receive buffer, in bytes; also what an echo connection holds at most.
    pub buffer_bytes: usize,
    /// A connection on which nothing moved for this long is closed. `None`: never.
    pub idle_timeout: Option<Duration>,
    /// TLS on every listener; a handshake has the idle timeout as a whole. `None`: plain bytes.
    pub tls: Option<TlsOptions>,
    /// Faults it carries on purpose; none unless asked for.
    pub defects: Vec<Setting>,
    /// Where the counters can be read while it runs.
    pub live: Live,
}

impl Default for ServeOptions {
    /// One worker on a free port of 127.0.0.1, a 64 KiB buffer, and nginx's idle timeout of 75 s.
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            unix: None,
            workers: 1,
            shared_listeners: false,
            pin: None,
            backlog: 4096,
            buffer_bytes: 64 * 1024,
            idle_timeout: Some(Duration::from_secs(75)),
            tls: None,
            defects: Vec::new(),
            live: Live::default(),
        }
    }
}

impl ServeOptions {
    /// The idle timeout in nanoseconds.
    pub(crate) fn idle_ns(&self) -> Option<u64> {
        self.idle_timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NEVER_NS))
    }

    /// Refuses TLS for a design without it.
    pub(crate) fn check_tls(
        &self,
        design: &DesignInfo,
        all: impl Iterator<Item = DesignInfo>,
    ) -> Result<(), ServeError> {
        if self.tls.is_none() || design.tls {
            return Ok(());
        }
        let able: Vec<_> = all.filter(|info| info.tls).map(|info| info.name).collect();
        Err(ServeError::NoTlsInDesign { design: design.name, able: able.join(", ") })
    }

    /// Refuses defects that this server, or this design of it, cannot carry.
    pub(crate) fn check_defects(
        &self,
        server: Server,
        design: &DesignInfo,
        all: impl Iterator<Item = DesignInfo>,
    ) -> Result<(), ServeError> {
        if let Some(setting) = self.defects.iter().find(|setting| !setting.defect.servers.contains(&server)) {
            let defect = setting.defect;
            let able: Vec<_> = defect.servers.iter().map(|server| format!("serve {}", server.name())).collect();
            return Err(ServeError::NoSuchDefectHere {
                defect: defect.name,
                server: server.name(),
                able: able.join(", "),
            });
        }
        let all: Vec<_> = all.collect();
        for Setting { defect, .. } in &self.defects {
            if let Some(missing) = design.lacks(defect) {
                let able: Vec<_> =
                    all.iter().filter(|info| info.lacks(defect).is_none()).map(|info| info.name).collect();
                return Err(ServeError::NoDefectInDesign {
                    defect: defect.name,
                    design: design.name,
                    why: missing.why_not(),
                    able: if able.is_empty() { "another server".to_owned() } else { able.join(", ") },
                });
            }
        }
        Ok(())
    }
}

/// A design as it is listed: its name, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DesignInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// One sentence: how the server is built.
    pub about: &'static str,
    /// Whether it can speak TLS.
    pub tls: bool,
    /// What it lets a defect do.
    pub able: &'static [Able],
}

impl DesignInfo {
    /// The first thing that this defect needs and the design has not; `None` if it can carry it.
    #[must_use]
    pub fn lacks(&self, defect: &Defect) -> Option<Able> {
        defect.needs.iter().find(|need| !self.able.contains(need)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_without_tls_is_refused_with_those_that_have_it() {
        let with = DesignInfo { name: "with", about: "", tls: true, able: Able::ALL };
        let without = DesignInfo { name: "without", about: "", tls: false, able: &[] };
        let plain = ServeOptions::default();
        let tls = ServeOptions { tls: Some(TlsOptions::default()), ..ServeOptions::default() };
        let check = |options: &ServeOptions, design| options.check_tls(design, [with, without].into_iter());
        assert!(check(&plain, &without).is_ok() && check(&plain, &with).is_ok() && check(&tls, &with).is_ok());
        let error = check(&tls, &without).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("without does not: choose one of with,"), "{error}");
    }
}
