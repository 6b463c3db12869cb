//! What resolving asks of the machine: names, files, CPUs, ports. Everything else is arithmetic.
//!
//! Behind a trait, so that tests pass a machine of their own. The real one reads `/proc`, `/sys` and the
//! resolver, keeps nothing, and answers "not known" where the kernel does not say.

use crate::files::{self, Tell};
use model::tls::TlsNames;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

/// What resolving asks of the machine.
pub trait Host {
    /// Every address of a name, in the resolver's order.
    ///
    /// # Errors
    /// What the resolver said; no address at all may also be an empty list.
    fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
    /// Whether an address is this machine's own, loopback included.
    fn is_own_address(&self, address: IpAddr) -> bool;
    /// The bytes of a file, at most `bytes_max`.
    ///
    /// # Errors
    /// What the kernel said; [`io::ErrorKind::FileTooLarge`] where it is longer, as half a sentence about the file.
    fn read_file(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>>;
    /// The certificate authorities this machine trusts, each in DER, and where they are from.
    ///
    /// # Errors
    /// Why there are none, as half a sentence.
    fn certificate_authorities(&self) -> Result<(Vec<Vec<u8>>, String), String>;
    /// What the library that speaks TLS knows.
    fn tls(&self) -> TlsNames;
    /// Whether io_uring can be used, or why not.
    ///
    /// # Errors
    /// The reason, as half a sentence.
    fn uring_available(&self) -> Result<(), String>;
    /// The machine's figures.
    fn machine(&self) -> Machine;
    /// A seed nobody chose.
    fn random_seed(&self) -> u64;
}

/// Figures of the machine that puts the load on; `None` or empty: not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// CPUs this process may use at once (affinity and cgroup quota). At least 1.
    pub cores: u16,
    /// Numbers of the CPUs that are online.
    pub cpus_online: Vec<u16>,
    /// Those of them that this process may run on: its affinity, and a container's cpuset.
    pub cpus_allowed: Vec<u16>,
    /// First and last port the kernel gives to connections, `net.ipv4.ip_local_port_range`.
    pub local_ports: Option<(u16, u16)>,
    /// Descriptors this process may open at the most: the hard limit, to which a run raises the soft one.
    pub files_max: Option<u64>,
    /// Memory available, bytes (`MemAvailable`).
    pub memory_available_bytes: Option<u64>,
}

/// The machine the process runs on.
#[derive(Debug, Clone, Copy)]
pub struct SystemHost {
    uring: fn() -> Result<(), String>,
    tls: TlsNames,
    tell: Tell,
}

impl SystemHost {
    /// With the engine's own way of finding out whether io_uring can be used, and what its TLS knows.
    pub fn new(uring: fn() -> Result<(), String>, tls: TlsNames) -> Self {
        SystemHost { uring, tls, tell: |_| {} }
    }

    /// With somebody who is told what is waited for: a pipe's writer, the resolver.
    pub fn telling(self, tell: Tell) -> Self {
        SystemHost { tell, ..self }
    }
}

impl Host for SystemHost {
    fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let waiting = format!("waiting for the resolver to find the address of '{name}'");
        files::patiently(self.tell, &waiting, || Ok((name, port).to_socket_addrs()?.collect()))
    }

    fn is_own_address(&self, address: IpAddr) -> bool {
        // The kernel binds a socket only to an address of its own; a UDP socket sends nothing by that.
        address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
    }

    fn read_file(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        files::read(path, bytes_max, self.tell)
    }

    fn certificate_authorities(&self) -> Result<(Vec<Vec<u8>>, String), String> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            return Err(match found.errors.first() {
                Some(error) => format!("they cannot be read ({error})"),
                None => "it has none".to_owned(),
            });
        }
        let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().find(|name| std::env::var_os(name).is_some());
        let from = named.map_or_else(|| "the machine's own".to_owned(), |name| format!("those of {name}"));
        Ok((found.certs.into_iter().map(|certificate| certificate.to_vec()).collect(), from))
    }

    fn tls(&self) -> TlsNames {
        self.tls
    }

    fn uring_available(&self) -> Result<(), String> {
        (self.uring)()
    }

    fn machine(&self) -> Machine {
        let cores = std::thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX));
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Machine {
            cores,
            cpus_online: cpu_list(&read("/sys/devices/system/cpu/online")),
            cpus_allowed: read("/proc/self/status")
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .map(cpu_list)
                .unwrap_or_default(),
            local_ports: port_range(&read("/proc/sys/net/ipv4/ip_local_port_range")),
            files_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum,
            memory_available_bytes: memory_available(&read("/proc/meminfo")),
        }
    }

    fn random_seed(&self) -> u64 {
        // The standard library's hash keys come from the kernel. 53 bits, so that JSON readers keep every digit.
        std::hash::RandomState::new().build_hasher().finish() >> 11
    }
}

/// `MemAvailable` of `/proc/meminfo`, bytes (proc_meminfo(5)).
fn memory_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The kernel's CPU list format, such as `0-3,5` (cpuset(7), "List format"). Unreadable text is an empty list.
fn cpu_list(text: &str) -> Vec<u16> {
    let ranges: Option<Vec<(u16, u16)>> = text
        .trim()
        .split(',')
        .map(|piece| {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            Some((first.parse().ok()?, last.parse().ok()?))
        })
        .collect();
    ranges.unwrap_or_default().into_iter().flat_map(|(first, last)| first..=last).collect()
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut numbers = text.split_whitespace().map(str::parse::<u16>);
    match (numbers.next()?, numbers.next()?) {
        (Ok(first), Ok(last)) if first <= last => Some((first, last)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_read() {
        assert_eq!(cpu_list("0-3,5\n"), [0, 1, 2, 3, 5]);
        assert_eq!(cpu_list("0\n"), [0]);
        assert_eq!(cpu_list(""), [0u16; 0]);
        assert_eq!(cpu_list("0-x"), [0u16; 0]);
        assert_eq!(port_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(port_range("32768"), None);
        assert_eq!(port_range("5 4"), None);
    }

    #[test]
    fn this_machine_answers() {
        let host = SystemHost::new(|| Err("a test".to_owned()), engine::tls::NAMES);
        assert!(host.machine().cores >= 1);
        assert!(host.is_own_address("127.0.0.1".parse().unwrap()));
        assert!(!host.is_own_address("192.0.2.1".parse().unwrap()), "TEST-NET-1 is nobody's, RFC 5737");
        assert_eq!(host.lookup("127.0.0.1", 80).unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(host.read_file(Path::new("/dev/zero"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(host.random_seed() < 1 << 53);
        assert_ne!((host.random_seed(), host.random_seed()), (host.random_seed(), host.random_seed()));
    }
}
