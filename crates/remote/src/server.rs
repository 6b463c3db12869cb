//! The observer's side: `plimsoll watch --serve`. A thread for each client, with samplers of its own; one for all strangers.
//!
//! Strangers are heard by [`super::admission`]. Who has proved the token is served until he ends, goes away, falls
//! silent or takes nothing any more. Readings that the link cannot take are dropped and counted. Nothing is kept of
//! anyone, and an end waits for nobody long.

use super::admission::{Admission, Lines, Proved};
use super::channel::{Channel, LinkError};
use super::limits::*;
use super::message::{Answer, FromObserver, FromRun, Reading, Start, Whom};
use super::monotonic_ns;
use super::tls::{self, Fingerprint, TlsError};
use super::token::{Binding, Side, Token};
use model::Event;
use model::bpf::Level;
use model::event::Events;
use model::limits::{TICK_NS_MAX, TICK_NS_MIN};
use model::plan::Address;
use model::remote::TargetHost;
use model::watched::Whom as Fixed;
use observe::target::{find, find_port};
use observe::{Extent, ObserveSpec, ObserverThread, WindowShare};
use rustls::ServerConfig;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How observations are served.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen.
    pub address: SocketAddr,
    /// What whoever asks must have.
    pub token: Token,
    /// Certificate chain and key; `None`: one is made.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The only thing that is observed; `None`: what is asked for.
    pub whom: Option<Fixed>,
    /// The dearest probes that a run is given, whatever it asks for.
    pub level_max: Level,
    /// The tool's version.
    pub version: String,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("expected to listen on {address}, but {source}: choose another address or port (--serve)")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The certificate cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound server.
#[derive(Debug)]
pub struct Serving {
    listener: TcpListener,
    address: SocketAddr,
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    options: Arc<ServeOptions>,
}

/// What is given a line for each who comes and goes. It must not block: it is called by the thread that hears strangers.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Why a client is let go.
enum Parting {
    /// It said that it has enough.
    Finished,
    /// It was not let in.
    Refused(String),
    /// This server ends.
    Stopped,
    /// Its connection is of no use any more.
    Broken(LinkError),
}

impl<E: Into<LinkError>> From<E> for Parting {
    fn from(error: E) -> Self {
        Parting::Broken(error.into())
    }
}

impl Serving {
    /// Binds and makes ready.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn bind(options: ServeOptions) -> Result<Self, ServeError> {
        let no_address = |source| ServeError::Listen { address: options.address, source };
        let files = options.certificate.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
        let (config, fingerprint) = tls::server(files)?;
        let listener = TcpListener::bind(options.address).map_err(no_address)?;
        listener.set_nonblocking(true).map_err(no_address)?;
        // Of a listening socket it only changes the queue's length.
        rustix::net::listen(&listener, BACKLOG).map_err(|errno| no_address(errno.into()))?;
        let address = listener.local_addr().map_err(no_address)?;
        Ok(Serving { listener, address, config, fingerprint, options: Arc::new(options) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The SHA-256 of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Serves until told to stop, and then lets every client go; for one that hangs it does not wait.
    pub fn run(&self, stop: &Arc<AtomicBool>, say: &Say) {
        let clients = Arc::new(AtomicUsize::new(0));
        let lines = Lines::new(&**say);
        let (token, version) = (&self.options.token, self.options.version.as_str());
        let mut door =
            Admission { listener: &self.listener, config: &self.config, token, version, lines, strangers: Vec::new() };
        while !stop.load(Ordering::Relaxed) {
            for mut proved in door.turn() {
                let Some(place) = Place::take(&clients) else {
                    let why = format!("the observer has {CLIENTS_MAX} clients already: wait for one to end");
                    // Best effort: it is let go in every case.
                    let _ = proved.channel.send(&Answer::Busy { why });
                    proved.channel.close();
                    say(&format!("{}: turned away: there are {CLIENTS_MAX} clients already", proved.from));
                    continue;
                };
                let guest = Guest { options: Arc::clone(&self.options), from: proved.from, stop: Arc::clone(stop) };
                let (its, from) = (Arc::clone(say), proved.from);
                let serve = move || {
                    guest.serve(proved, &*its);
                    drop(place);
                };
                // Its connection is closed then.
                if let Err(error) = std::thread::Builder::new().name("observed".to_owned()).spawn(serve) {
                    say(&format!("{from}: turned away: expected a thread for it, but {error}"));
                }
            }
        }
        door.lines.tell();
        drop(door);
        let until = Instant::now() + END_WAIT;
        while clients.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A client with a place of its own.
struct Guest {
    options: Arc<ServeOptions>,
    from: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Guest {
    fn serve(&self, proved: Proved, say: &dyn Fn(&str)) {
        let (mut channel, from, mut observed_for) = (proved.channel, self.from, None);
        let parting = match self.converse(&mut channel, &proved.binding, say, &mut observed_for) {
            Ok(never) => match never {},
            Err(parting) => parting,
        };
        let since = observed_for.map(|since: Instant| format!(" after {:.1} s", since.elapsed().as_secs_f64()));
        let after = since.unwrap_or_default();
        let (told, line) = match parting {
            Parting::Finished => ("the run has ended".to_owned(), format!("{from}: ended{after}")),
            Parting::Stopped => ("the observer was stopped".to_owned(), format!("{from}: let go{after}, as this ends")),
            Parting::Refused(why) => (String::new(), format!("{from}: refused: {why}")),
            Parting::Broken(error) if after.is_empty() => (String::new(), format!("{from}: no client: {error}")),
            Parting::Broken(error) => (error.to_string(), format!("{from}: gone{after}: {error}")),
        };
        // Who was not observed for waits for an answer of another kind.
        if !told.is_empty() && !after.is_empty() {
            // It ends either way.
            let _ = channel.send(&FromObserver::Ended { why: told });
        }
        channel.close();
        say(&line);
    }

    /// Stamps, then what is asked for, until there is a reason to part.
    fn converse(
        &self,
        channel: &mut Channel,
        binding: &Binding,
        say: &dyn Fn(&str),
        observed_for: &mut Option<Instant>,
    ) -> Result<std::convert::Infallible, Parting> {
        let stop = &self.stop;
        let proof = self.options.token.proof(Side::Observer, binding);
        channel.send(&Answer::Welcome { version: self.options.version.clone(), proof })?;
        channel.allow(ASKED_BYTES_MAX);
        let start = self.exchange_until_start(channel, stop)?;
        if !(TICK_NS_MIN..=TICK_NS_MAX).contains(&start.tick_ns) {
            return Err(Parting::Refused("expected a tick from 100ms to 60s".to_owned()));
        }
        *observed_for = Some(Instant::now());
        say(&format!("{}: observing for it, every {:.1} s", self.from, start.tick_ns as f64 / 1e9));
        self.observe(channel, &start, stop)
    }

    fn exchange_until_start(&self, channel: &mut Channel, stop: &AtomicBool) -> Result<Start, Parting> {
        let until = Instant::now() + HELLO_WAIT;
        loop {
            match expect(channel, until, stop)? {
                FromRun::Ping { sent_ns } => pong(channel, sent_ns)?,
                FromRun::Start(start) => return Ok(start),
                // Nothing is observed yet.
                FromRun::Slow => {}
                FromRun::Finish => return Err(Parting::Finished),
            }
        }
    }

    /// A reading at once, then one each tick.
    fn observe(
        &self,
        channel: &mut Channel,
        start: &Start,
        stop: &AtomicBool,
    ) -> Result<std::convert::Infallible, Parting> {
        let found = self.find(&start.whom);
        let host = Box::new(host(&self.options.version));
        channel.send(&FromObserver::Started { host, unknown: found.unknown.clone() })?;
        let mut seer = Seer {
            observer: ObserverThread::new(ObserveSpec {
                target: found.pids,
                target_unknown: found.unknown,
                addresses: found.addresses,
                own_pid: std::process::id(),
                has_requests: matches!(&start.whom, Whom::Addresses(asked) if !asked.is_empty()),
                probes: start.probes.min(self.options.level_max),
                // How long the load is to last is not told here.
                windows: WindowShare::TenthOfMeasured { measured_ns: None, warmup_ns: 0, tick_ns: start.tick_ns },
                ..ObserveSpec::default()
            }),
            told: Vec::new(),
            events: limited(start.probes, self.options.level_max).into_iter().collect(),
            lost: 0,
        };
        // Its clock is this machine's own: moment 0 is its moment 0.
        seer.observer.begin(0);
        let tick = Duration::from_nanos(start.tick_ns);
        let (mut due, mut heard) = (Instant::now(), Instant::now());
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Parting::Stopped);
            }
            let now = Instant::now();
            if now >= due {
                seer.look(channel, Extent::Due)?;
                // Ticks that were missed are not made up for.
                while due <= Instant::now() {
                    due += tick;
                }
            }
            channel.wait(due.saturating_duration_since(Instant::now()).min(LOOK_EVERY), None)?;
            while let Some(message) = channel.next()? {
                heard = Instant::now();
                match message {
                    FromRun::Ping { sent_ns } => pong(channel, sent_ns)?,
                    FromRun::Slow => seer.observer.hint_slow(),
                    FromRun::Finish => {
                        seer.look(channel, Extent::Whole)?;
                        return Err(Parting::Finished);
                    }
                    FromRun::Start(_) => return Err(LinkError::Told("it asked twice".to_owned()).into()),
                }
            }
            if heard.elapsed() > SILENCE_MAX {
                return Err(LinkError::Silent(SILENCE_MAX.as_secs()).into());
            }
        }
    }

    /// The processes meant: what this observer was started with, else what is asked for.
    fn find(&self, asked: &Whom) -> Found {
        match (&self.options.whom, asked) {
            (Some(Fixed::Pid(pid)), _) | (None, Whom::Pid(pid)) => Found::pid(*pid),
            (Some(Fixed::Port(port)), _) | (None, Whom::Port(port)) => Found::port(*port),
            (None, Whom::Addresses(addresses)) => Found::addresses(addresses),
        }
    }
}

/// What a run is told that asks for dearer probes than it is given.
fn limited(asked: Level, level_max: Level) -> Option<Event> {
    (asked > level_max).then(|| {
        let text = format!(
            "probes at level '{level_max}' and not '{asked}': whoever started the observer allows no more (--level-max)"
        );
        Event::new(monotonic_ns(), model::event::PROBES_LIMITED, text)
    })
}

/// Takes readings and sends them, unless the link is behind.
struct Seer {
    observer: ObserverThread,
    /// The samplers' state as the client knows it.
    told: Vec<model::snapshot::SamplerStatus>,
    /// What happened and was not sent yet.
    events: Events,
    lost: u64,
}

impl Seer {
    fn look(&mut self, channel: &mut Channel, extent: Extent) -> Result<(), LinkError> {
        let snapshot = self.observer.reading(monotonic_ns(), extent);
        self.events.extend(self.observer.take_events());
        if channel.is_behind() {
            self.lost += 1;
            return Ok(());
        }
        let now = self.observer.statuses();
        let samplers = (now != self.told).then(|| now.clone());
        let events = self.events.take(monotonic_ns());
        channel.send(&FromObserver::Reading(Box::new(Reading { snapshot, events, samplers, lost: self.lost })))?;
        self.told = now;
        Ok(())
    }
}

/// Which processes, where they listen, and if none: why.
struct Found {
    pids: Vec<u32>,
    addresses: Vec<Address>,
    unknown: Option<String>,
}

impl Found {
    fn none(why: String) -> Self {
        Found { pids: Vec::new(), addresses: Vec::new(), unknown: Some(why) }
    }

    fn pid(pid: u32) -> Self {
        if !std::path::Path::new(&format!("/proc/{pid}/stat")).exists() {
            return Found::none(format!("there is no process {pid} on the target's machine"));
        }
        Found { pids: vec![pid], addresses: Vec::new(), unknown: None }
    }

    fn port(port: u16) -> Self {
        match find_port(port) {
            Ok((pids, addresses)) => Found { pids, addresses, unknown: None },
            Err(why) => Found::none(why.to_string()),
        }
    }

    /// By the addresses; where they are none of this machine's (a translated or a balancer's one), by their ports.
    fn addresses(asked: &[SocketAddr]) -> Self {
        if asked.is_empty() {
            let why = "neither was the observer started with --pid or --port, nor was a process, a port or a TCP address asked for";
            return Found::none(why.to_owned());
        }
        let asked = &asked[..asked.len().min(ADDRESSES_MAX)];
        let addresses: Vec<Address> = asked.iter().copied().map(Address::Tcp).collect();
        let why = match find(&addresses) {
            Ok(pids) => return Found { pids, addresses, unknown: None },
            Err(why) => why.to_string(),
        };
        let ports: BTreeSet<u16> = asked.iter().map(SocketAddr::port).collect();
        let mut found = Found::none(why);
        for port in ports {
            let Ok((pids, addresses)) = find_port(port) else { continue };
            found.pids.extend(pids);
            found.addresses.extend(addresses);
            found.unknown = None;
        }
        found
    }
}

/// What this machine is.
fn host(version: &str) -> TargetHost {
    let capsule = observe::capsule();
    TargetHost {
        address: String::new(),
        name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: version.to_owned(),
        kernel: capsule.kernel,
        cpu: capsule.cpu,
        cores: capsule.cores,
        memory_bytes: capsule.memory_bytes,
        sysctls: capsule.sysctls,
    }
}

fn pong(channel: &mut Channel, sent_ns: i64) -> Result<(), LinkError> {
    // Taken after the ping was read: a stamp from before it might be from before it was sent.
    let received_ns = monotonic_ns();
    channel.send(&FromObserver::Pong { sent_ns, received_ns, answered_ns: monotonic_ns() })
}

/// The next message, in time.
fn expect<T: serde::de::DeserializeOwned>(
    channel: &mut Channel,
    until: Instant,
    stop: &AtomicBool,
) -> Result<T, Parting> {
    loop {
        if let Some(message) = channel.next()? {
            return Ok(message);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Parting::Stopped);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkError::Silent(HELLO_WAIT.as_secs()).into());
        }
        channel.wait(left.min(LOOK_EVERY), None)?;
    }
}

/// A place among clients, given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Option<Self> {
        let one_more = |count: usize| (count < CLIENTS_MAX).then_some(count + 1);
        clients.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok().map(|_| Place(Arc::clone(clients)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
