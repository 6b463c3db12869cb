//! From an address to an observation that was started: TCP, TLS, both proofs, stamps, the start. And how often that is
//! tried, with pauses that grow and have something of chance.
//!
//! What came instead is told in words ([`super::failure`]). Not here: what is read then.

use super::channel::{Channel, LinkError};
use super::failure::{Came, RemoteError, Tried};
use super::limits::*;
use super::message::{Answer, FromObserver, FromRun, Hello, Start};
use super::offset::{Clock, Exchange};
use super::tls::{self, Trust};
use super::token::{Side, Token};
use super::{monotonic_ns, tamed};
use aws_lc_rs::rand;
use model::remote::TargetHost;
use model::units::show_duration_ns;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where a target is observed, and how one knows who answers there.
#[derive(Debug, Clone)]
pub struct ObserveAt {
    /// `HOST:PORT`, or what it is called where `via` leads to it.
    pub address: String,
    /// Dial this: a way that leads there. `None`: the address.
    pub via: Option<SocketAddr>,
    /// What both sides have.
    pub token: Token,
    /// Which certificate is taken.
    pub trust: Trust,
    /// How long the first connection is tried again where what came may pass; zero: it is tried once.
    pub wait: Duration,
    /// Who is told that the first try has failed, and is tried again.
    pub tell: Option<fn(&str)>,
    /// The tool's version.
    pub version: String,
}

/// Makes connections, each from nothing to an observation that was started.
#[derive(Debug)]
pub(super) struct Dialer {
    /// As it was written.
    pub address: String,
    via: Option<SocketAddr>,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    token: Token,
    version: String,
    start: Start,
}

/// A connection over which an observation was started.
pub(super) struct Up {
    pub channel: Channel,
    /// Where the observer is.
    pub host: TargetHost,
    /// Why it knows no process of the target.
    pub unknown: Option<String>,
}

impl Dialer {
    /// For an observation.
    ///
    /// # Errors
    /// [`RemoteError::Address`], [`RemoteError::Tls`].
    pub fn new(at: &ObserveAt, start: Start) -> Result<Self, RemoteError> {
        let (config, name) = tls::client(&at.trust, host_of(at)?)?;
        let (address, token, version) = (at.address.clone(), at.token.clone(), at.version.clone());
        Ok(Dialer { address, via: at.via, config, name, token, version, start })
    }

    /// Dials until there is a connection, or what came will not pass, or it was tried for so long, or someone interrupts.
    ///
    /// # Errors
    /// [`RemoteError`], of the last attempt.
    pub fn reach(&self, clock: &mut Clock, at: &ObserveAt, interrupted: &AtomicBool) -> Result<Up, RemoteError> {
        let wait = at.wait;
        let (began, mut backoff, mut times) = (Instant::now(), Backoff::new(RETRY_MIN, RETRY_MAX), 0);
        loop {
            let mut failed = match self.dial(clock) {
                Ok(up) => return Ok(up),
                Err(failed) => failed,
            };
            times += 1;
            let RemoteError::NotReached { came, tried, .. } = &mut failed else { return Err(failed) };
            *tried = Tried { times, within: began.elapsed() };
            let until = Instant::now() + backoff.next().min(wait.saturating_sub(began.elapsed()));
            if !came.may_pass() || began.elapsed() >= wait {
                return Err(failed);
            }
            if let (Some(tell), 1) = (at.tell, times) {
                let wait = show_duration_ns(wait.as_nanos() as f64);
                tell(&format!("no observer at {} yet: {came}; trying for up to {wait}", self.address));
            }
            while !interrupted.load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK_EVERY));
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(failed);
            }
        }
    }

    /// One attempt.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn dial(&self, clock: &mut Clock) -> Result<Up, RemoteError> {
        let mut channel = self.connect()?;
        let until = Instant::now() + HELLO_WAIT;
        while channel.binding().is_none() {
            wait(&mut channel, until).map_err(|why| self.not_reached(Came::of_link(why, false)))?;
        }
        let broken = |why| self.not_reached(Came::of_link(why, true));
        if channel.alpn() != Some(tls::ALPN) {
            return Err(self.not_reached(Came::OtherTls));
        }
        let binding = channel.binding().ok_or_else(|| broken(LinkError::Closed))?;
        let proof = self.token.proof(Side::Run, &binding);
        channel.send(&Hello { protocol: PROTOCOL, version: self.version.clone(), proof }).map_err(broken)?;
        match expect(&mut channel, until).map_err(broken)? {
            Answer::Welcome { proof, .. } if self.token.is_proved(Side::Observer, &binding, &proof) => {}
            Answer::Welcome { .. } => return Err(RemoteError::Impostor { address: self.address.clone() }),
            Answer::Busy { why } => return Err(self.not_reached(Came::Busy(tamed(&why)))),
            Answer::Refused { why } => {
                return Err(RemoteError::Refused { address: self.address.clone(), why: tamed(&why) });
            }
        }
        channel.allow(READING_BYTES_MAX);
        clock.forget();
        for _ in 0..EXCHANGES_FIRST {
            self.exchange(&mut channel, clock, until).map_err(broken)?;
        }
        channel.send(&FromRun::Start(self.start.clone())).map_err(broken)?;
        match expect(&mut channel, Instant::now() + FIRST_WAIT).map_err(broken)? {
            FromObserver::Started { host, unknown } => {
                Ok(Up { channel, host: *host, unknown: unknown.map(|why| tamed(&why)) })
            }
            FromObserver::Ended { why } => Err(broken(LinkError::Told(tamed(&why)))),
            _ => Err(broken(LinkError::Told("it answered something else than was asked".to_owned()))),
        }
    }

    fn connect(&self) -> Result<Channel, RemoteError> {
        let addresses: Vec<SocketAddr> = match self.via {
            Some(via) => vec![via],
            None => {
                let found = self.address.to_socket_addrs();
                found.map_err(|error| self.not_reached(Came::NoAddress(error)))?.collect()
            }
        };
        let mut came = Came::NoAddress(io::Error::new(io::ErrorKind::NotFound, "none was found"));
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
                Ok(socket) => {
                    let broken = |why| self.not_reached(Came::of_link(why, false));
                    let tls = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
                    let tls = Connection::Client(tls.map_err(|error| broken(error.into()))?);
                    return Channel::new(socket, tls, HELLO_BYTES_MAX, ASKED_BYTES_MAX, true).map_err(broken);
                }
                Err(error) => came = Came::of_connecting(error, CONNECT_WAIT),
            }
        }
        Err(self.not_reached(came))
    }

    fn not_reached(&self, came: Came) -> RemoteError {
        let tried = Tried { times: 1, within: Duration::ZERO };
        RemoteError::NotReached { address: self.address.clone(), came, tried }
    }

    /// One exchange of stamps, waited for.
    fn exchange(&self, channel: &mut Channel, clock: &mut Clock, until: Instant) -> Result<(), LinkError> {
        let asked_ns = monotonic_ns();
        channel.send(&FromRun::Ping { sent_ns: asked_ns })?;
        match expect(channel, until)? {
            FromObserver::Pong { sent_ns, received_ns, answered_ns } if sent_ns == asked_ns => {
                clock.push(stamps(sent_ns, received_ns, answered_ns));
                Ok(())
            }
            _ => Err(LinkError::Told("it answered something else than was asked".to_owned())),
        }
    }
}

/// Whose certificate it is to be: the host of an address, or what stands after a scheme where another way leads there.
fn host_of(at: &ObserveAt) -> Result<&str, RemoteError> {
    let not_one = || RemoteError::Address { got: at.address.clone() };
    let (host, port) = at.address.rsplit_once(':').ok_or_else(not_one)?;
    if at.via.is_some() {
        return Ok(port);
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(not_one());
    }
    Ok(bare)
}

/// An exchange whose answer has come just now.
pub(super) fn stamps(sent_ns: i64, there_received_ns: i64, there_sent_ns: i64) -> Exchange {
    Exchange { sent_ns, there_received_ns, there_sent_ns, received_ns: monotonic_ns() }
}

fn wait(channel: &mut Channel, until: Instant) -> Result<(), LinkError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(LinkError::Silent(HELLO_WAIT.as_secs()));
    }
    channel.wait(left, None)
}

fn expect<T: serde::de::DeserializeOwned>(channel: &mut Channel, until: Instant) -> Result<T, LinkError> {
    loop {
        if let Some(message) = channel.next()? {
            return Ok(message);
        }
        wait(channel, until)?;
    }
}

/// Pauses that double up to a longest one; each is between half of that and all of it, by chance.
#[derive(Debug)]
pub(super) struct Backoff {
    pause: Duration,
    longest: Duration,
}

impl Backoff {
    /// With the first and the longest.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Backoff { pause: first, longest }
    }

    /// The next.
    pub fn next(&mut self) -> Duration {
        let mut bytes = [0; 4];
        // Without randomness all of them are as long as they may be.
        let share = rand::fill(&mut bytes).map_or(1.0, |()| f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX));
        let pause = self.pause.mul_f64(0.5 + 0.5 * share);
        self.pause = (self.pause * 2).min(self.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_not_all_alike() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let pauses: Vec<Vec<Duration>> = (0..50)
            .map(|_| {
                let mut backoff = Backoff::new(first, longest);
                (0..8).map(|_| backoff.next()).collect()
            })
            .collect();
        for series in &pauses {
            for (at, pause) in series.iter().enumerate() {
                let most = (first * 2_u32.pow(at as u32)).min(longest);
                assert!((most / 2..=most).contains(pause), "{at}: {pause:?}");
            }
        }
        assert!(pauses.iter().any(|series| series != &pauses[0]), "chance is in it");
    }
}
