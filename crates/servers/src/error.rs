//! Why a server could not start or go on: facts, and what to do next, in one sentence each.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::names::error::NamesError;
use crate::tls::error::TlsError;

/// A server that did not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Neither an address nor a unix socket was given.
    #[error("expected an address or a unix socket to listen on, got none: name one, for example 127.0.0.1:8080")]
    NothingToListenOn,
    /// An option outside its bounds.
    #[error("expected {option} from {min} to {max}, got {got}: choose a value within")]
    OutOfBounds {
        /// The option's name.
        option: &'static str,
        /// The value given.
        got: usize,
        /// The smallest allowed.
        min: usize,
        /// The largest allowed.
        max: usize,
    },
    /// Another socket listens there.
    #[error("expected {addr} to be free, but another socket listens on it: choose another port, or port 0 for a free one (who holds it: ss -ltnp 'sport = :{}')", addr.port())]
    AddressInUse {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The kernel refused the bind for want of a right.
    #[error(
        "expected to be allowed to listen on {addr}, but the kernel refused: choose a port from net.ipv4.ip_unprivileged_port_start (mostly 1024) up, or grant CAP_NET_BIND_SERVICE"
    )]
    AddressNotAllowed {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The address is not one of this host's.
    #[error(
        "expected {addr} to be an address of this host, but it is not: choose one that `ip -brief address` lists, or 0.0.0.0 or [::] for all"
    )]
    AddressNotHere {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// Any other failure to listen.
    #[error("could not listen on {addr} ({source}): check `ulimit -n` and the address")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A live server, or a file that is no socket, stands at the unix socket's path.
    #[error("expected {} to be free or a socket nobody serves, but {got}: choose another path, or remove it yourself", path.display())]
    UnixInUse {
        /// The path asked for.
        path: PathBuf,
        /// What was found there.
        got: &'static str,
    },
    /// Any other failure to listen on the unix socket.
    #[error("could not listen on unix socket {} ({source}): its folder must exist and be writable, and the path be shorter than 108 bytes", path.display())]
    UnixListen {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// No server answers at a control socket's path.
    #[error("expected a server's control socket at {}, but {source}: name the path that `plimsoll serve … --control` was given, while it runs", path.display())]
    NoControl {
        /// The path given.
        path: PathBuf,
        /// What connecting or reading said.
        source: io::Error,
    },
    /// The design has one worker by its nature.
    #[error(
        "expected one worker for the design {design}, got {got}: leave --workers out, or choose a design that has several"
    )]
    OneWorker {
        /// The design asked for.
        design: &'static str,
        /// The workers asked for.
        got: usize,
    },
    /// The root is not a folder that can be read.
    #[error("expected root {} to be a folder that can be read, got {source}: name an existing folder", path.display())]
    BadRoot {
        /// The path given.
        path: PathBuf,
        /// What opening it as a folder said.
        source: io::Error,
    },
    /// The kernel has no `openat2`, or a sandbox forbids it.
    #[error("expected openat2(2), which keeps requests inside root {}, but this kernel or sandbox has none ({source}): run on Linux 5.6 or newer and allow openat2, or serve without a root", path.display())]
    NoOpenat2 {
        /// The root that will not be served.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// io_uring is not there, or not allowed.
    #[error("expected io_uring with direct descriptors, but {why}: use --design epoll-edge")]
    NoIoUring {
        /// What stands against it.
        why: &'static str,
    },
    /// Rings and listeners would take more descriptors than there are.
    #[error(
        "expected {needed} descriptors for the rings and listeners of {connections} connections, but nofile allows {nofile}: hold fewer (--connections-max), listen on fewer ports, or raise `ulimit -n`"
    )]
    TooFewDescriptors {
        /// The connections asked for.
        connections: usize,
        /// Descriptors that would take.
        needed: u64,
        /// The limit.
        nofile: u64,
    },
    /// A worker could not be bound to its CPU.
    #[error(
        "expected to pin a worker to CPU {cpu}, but the kernel refused ({source}): choose CPUs that `nproc` and `taskset -p $$` allow"
    )]
    Pin {
        /// The CPU asked for.
        cpu: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// A worker could not be set up, or its event queue failed.
    #[error("a worker could not {doing} ({source}): check `ulimit -n`, `ulimit -u` and memory")]
    Worker {
        /// What it was doing.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The name service could not start, or gave up.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// The design speaks no TLS.
    #[error("expected a design that speaks TLS, but {design} does not: choose one of {able}, or serve without TLS")]
    NoTlsInDesign {
        /// The design asked for.
        design: &'static str,
        /// Those that do.
        able: String,
    },
    /// The server cannot carry this defect.
    #[error("serve {server} cannot carry the defect {defect}: it is one of {able} (plimsoll serve --list shows all)")]
    NoSuchDefectHere {
        /// The defect asked for.
        defect: &'static str,
        /// The server.
        server: &'static str,
        /// The servers that can carry it.
        able: String,
    },
    /// The design cannot carry this defect.
    #[error("the design {design} cannot carry the defect {defect}, because {why}: choose {able}")]
    NoDefectInDesign {
        /// The defect asked for.
        defect: &'static str,
        /// The design asked for.
        design: &'static str,
        /// What stands against it.
        why: &'static str,
        /// The designs that can.
        able: String,
    },
    /// A defect's strength outside its bounds.
    #[error("expected {expected} as strength of the defect {defect}, got {got}: choose one within")]
    DefectStrength {
        /// The defect.
        defect: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        got: String,
    },
    /// A part of a defect outside its bounds.
    #[error("expected {expected} as {part}= of the defect {defect}, got {got}: choose one within")]
    DefectPart {
        /// The defect.
        defect: &'static str,
        /// The part.
        part: &'static str,
        /// What it takes.
        expected: String,
        /// What was given.
        got: String,
    },
    /// A defect that is there from the server's start or not at all.
    #[error("the defect {defect} cannot begin later than the server: leave its @START out")]
    DefectFromStart {
        /// The defect.
        defect: &'static str,
    },
    /// A defect does not fit what else was asked for.
    #[error("expected {expected} with the defect {defect}, got {got}: {next}")]
    DefectMisused {
        /// The defect.
        defect: &'static str,
        /// What it needs.
        expected: String,
        /// What it was given.
        got: String,
        /// What to do.
        next: &'static str,
    },
    /// A defect could not be set up.
    #[error("could not {doing} for the defect {defect} ({source})")]
    Defect {
        /// The defect.
        defect: &'static str,
        /// What it was doing.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A proxy without anybody to ask.
    #[error("expected at least one origin, got none: name one, for example --origin http://127.0.0.1:8080")]
    NoOrigin,
    /// An origin's name has no address.
    #[error(
        "expected {origin} to have an address, but {source}: check the name, and that it resolves here (getent hosts NAME)"
    )]
    OriginUnknown {
        /// The origin as it was named.
        origin: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No temp file can be made there.
    #[error("expected to be able to make temp files in {}, got {source}: choose a writable folder with --temp-dir, or do without with --temp-max 0", path.display())]
    TempDir {
        /// The folder given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A worker panicked: a bug here.
    #[error("a worker panicked: this is a defect of the reference server itself, not of the test; please report it")]
    WorkerPanicked,
}

impl ServeError {
    /// Whether what was asked for is at fault, and not the machine.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NoTlsInDesign { .. }
            | Self::OneWorker { .. }
            | Self::NoOrigin
            | Self::NoSuchDefectHere { .. }
            | Self::NoDefectInDesign { .. }
            | Self::DefectPart { .. }
            | Self::DefectFromStart { .. }
            | Self::DefectStrength { .. }
            | Self::DefectMisused { .. } => true,
            Self::Tls(error) => error.is_usage(),
            Self::Names(error) => error.is_usage(),
            _ => false,
        }
    }
}
