//! A machine for tests: four CPUs, a handful of names, two files, nothing random.
//!
//! Its fields are public, so that a test changes the one thing it is about.

use crate::host::{Host, Machine};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The machine of the tests.
pub(crate) struct FakeHost {
    pub(crate) machine: Machine,
    pub(crate) uring: Result<(), String>,
    pub(crate) authorities: Result<Vec<Vec<u8>>, String>,
    /// Files beside the two that are always there.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
}

impl Default for FakeHost {
    fn default() -> Self {
        FakeHost {
            machine: Machine {
                cores: 4,
                cpus_online: vec![0, 1, 2, 3],
                cpus_allowed: vec![0, 1, 2, 3],
                local_ports: Some((32_768, 60_999)),
                files_max: Some(20_000),
                memory_available_bytes: None,
            },
            uring: Ok(()),
            authorities: Err("it has none".to_owned()),
            files: Vec::new(),
        }
    }
}

impl Host for FakeHost {
    fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let addresses: &[&str] = match name {
            "two.test" => &["192.0.2.1", "2001:db8::1", "192.0.2.1"],
            "four.test" => &["192.0.2.4"],
            "localhost" => &["127.0.0.1"],
            "empty.test" => &[],
            _ => return Err(io::Error::other("fake: not known")),
        };
        Ok(addresses.iter().filter_map(|a| a.parse::<IpAddr>().ok()).map(|ip| SocketAddr::from((ip, port))).collect())
    }

    fn is_own_address(&self, address: IpAddr) -> bool {
        address.is_loopback()
    }

    fn read_file(&self, path: &Path, _bytes_max: u64) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/body") => Ok(b"a\0b".to_vec()),
            Some("/endless") => Err(io::Error::new(io::ErrorKind::FileTooLarge, "has more")),
            Some(path) if self.files.iter().any(|(known, _)| *known == path) => Ok(self
                .files
                .iter()
                .find(|(known, _)| *known == path)
                .map(|(_, bytes)| bytes.clone())
                .unwrap_or_default()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn certificate_authorities(&self) -> Result<(Vec<Vec<u8>>, String), String> {
        self.authorities.clone().map(|der| (der, "the machine's own".to_owned()))
    }

    fn tls(&self) -> model::tls::TlsNames {
        engine::tls::NAMES
    }

    fn uring_available(&self) -> Result<(), String> {
        self.uring.clone()
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn random_seed(&self) -> u64 {
        4711
    }
}
