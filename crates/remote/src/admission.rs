//! Where an observer's connections come in: all that have not proved to have the token, on one thread.
//!
//! A stranger costs a descriptor, a TLS state and a frame of a kibibyte, no thread. He has a few seconds in all for TLS
//! and his proof, however slowly his bytes come. Nobody is turned away: where there are too many, the oldest goes, of
//! whichever network has the most of them. So one address, or some, only take places of their own, and from ever so many
//! addresses somebody who comes with the token is new, and done before it would be his turn. Who has proved it leaves with
//! his connection, for a place that strangers cannot take. Not here: anything for those.

use super::channel::{Channel, LinkError};
use super::limits::*;
use super::message::{Answer, Hello};
use super::tamed;
use super::token::{Binding, Side, Token};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use rustls::{Connection, ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause where nothing can be taken and nobody be let go for it.
const PAUSE: Duration = Duration::from_millis(20);

/// Who comes in: connections that have proved nothing yet, and the few that go on from here.
pub(super) struct Admission<'s> {
    pub listener: &'s TcpListener,
    pub config: &'s Arc<ServerConfig>,
    pub token: &'s Token,
    /// The tool's version.
    pub version: &'s str,
    pub lines: Lines<'s>,
    /// The oldest first.
    pub strangers: Vec<Stranger>,
}

/// Somebody who has proved nothing yet.
pub(super) struct Stranger {
    channel: Channel,
    from: SocketAddr,
    until: Instant,
}

/// Somebody who has the token, and waits for an answer.
pub(super) struct Proved {
    pub channel: Channel,
    pub from: SocketAddr,
    pub binding: Binding,
}

/// What becomes of a stranger.
enum Fate {
    Stays,
    Proved(Binding),
    Refused(String),
    Gone(LinkError),
}

impl Admission<'_> {
    /// Waits a little for something to happen, and sees to it; those who have proved to have the token.
    pub fn turn(&mut self) -> Vec<Proved> {
        let came = self.wait();
        // First those who are there, then newcomers, who may take their places.
        let proved = self.hear(&came);
        if came.first().is_some_and(|came| !came.is_empty()) {
            self.let_in();
        }
        self.lines.turn();
        proved
    }

    /// What came on the listener, and then of each stranger.
    fn wait(&self) -> Vec<PollFlags> {
        let now = Instant::now();
        // Of those who came first the time is up first.
        let due = self.strangers.first().map_or(LOOK_EVERY, |oldest| oldest.until.saturating_duration_since(now));
        let at_most = Timespec::try_from(due.min(LOOK_EVERY)).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 100_000_000 });
        let mut polled = Vec::with_capacity(1 + self.strangers.len());
        polled.push(PollFd::new(self.listener, PollFlags::IN));
        let strangers =
            self.strangers.iter().map(|s| PollFd::from_borrowed_fd(s.channel.socket(), s.channel.interest()));
        polled.extend(strangers);
        // A signal wakes it, too; whatever it was, nothing came then.
        match poll(&mut polled, Some(&at_most)) {
            Ok(_) => polled.iter().map(PollFd::revents).collect(),
            Err(_) => vec![PollFlags::empty(); polled.len()],
        }
    }

    /// Reads what has come, and lets those go whose time is up.
    fn hear(&mut self, came: &[PollFlags]) -> Vec<Proved> {
        let (now, mut proved) = (Instant::now(), Vec::new());
        let mut stay = Vec::with_capacity(self.strangers.len());
        let came = came.iter().skip(1).copied().chain(std::iter::repeat(PollFlags::empty()));
        for (mut stranger, came) in std::mem::take(&mut self.strangers).into_iter().zip(came) {
            let from = stranger.from;
            match self.fate(&mut stranger, came, now) {
                Fate::Stays => stay.push(stranger),
                Fate::Proved(binding) => proved.push(Proved { channel: stranger.channel, from, binding }),
                Fate::Refused(why) => {
                    // What he is told is best effort: he is let go in every case.
                    let _ = stranger.channel.send(&Answer::Refused { why: why.clone() });
                    stranger.channel.close();
                    self.lines.say(from, &format!("refused: {why}"));
                }
                Fate::Gone(error) => {
                    stranger.channel.close();
                    self.lines.say(from, &format!("no client: {error}"));
                }
            }
        }
        self.strangers = stay;
        proved
    }

    fn fate(&self, stranger: &mut Stranger, came: PollFlags, now: Instant) -> Fate {
        if !came.is_empty()
            && let Err(error) = stranger.channel.came(came)
        {
            return Fate::Gone(error);
        }
        match stranger.channel.next::<Hello>() {
            Ok(Some(hello)) => self.judge(stranger, &hello),
            Ok(None) if stranger.channel.is_over() => Fate::Gone(LinkError::Closed),
            Ok(None) if now >= stranger.until => Fate::Gone(LinkError::Unproved(HELLO_WAIT.as_secs())),
            Ok(None) => Fate::Stays,
            Err(error) => Fate::Gone(error),
        }
    }

    fn judge(&self, stranger: &Stranger, hello: &Hello) -> Fate {
        if hello.protocol != PROTOCOL {
            return Fate::Refused(format!(
                "the run speaks protocol {} (plimsoll {}), the observer {PROTOCOL} (plimsoll {}): use the same version \
                 on both",
                hello.protocol,
                tamed(&hello.version),
                self.version
            ));
        }
        match stranger.channel.binding() {
            None => Fate::Gone(LinkError::Closed),
            Some(binding) if self.token.is_proved(Side::Run, &binding, &hello.proof) => Fate::Proved(binding),
            Some(_) => {
                Fate::Refused("the token is not the observer's, or something between both reads along".to_owned())
            }
        }
    }

    /// Takes those who wait outside, or some of them.
    fn let_in(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((socket, from)) => self.enter(socket, from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_shortage(&error) => {
                    // No descriptors, no memory: a stranger's are to be had.
                    if !self.part_with_oldest() {
                        std::thread::sleep(PAUSE);
                    }
                    return;
                }
                // A connection that has gone again: the next one may be there.
                Err(_) => {}
            }
        }
    }

    fn enter(&mut self, socket: TcpStream, from: SocketAddr) {
        if self.strangers.len() >= STRANGERS_MAX {
            self.part_with_oldest();
        }
        let tls = ServerConnection::new(Arc::clone(self.config)).map_err(LinkError::from);
        let channel = tls
            .and_then(|tls| Channel::new(socket, Connection::Server(tls), HELLO_BYTES_MAX, READING_BYTES_MAX, false));
        match channel {
            Ok(channel) => self.strangers.push(Stranger { channel, from, until: Instant::now() + HELLO_WAIT }),
            Err(error) => self.lines.say(from, &format!("no client: {error}")),
        }
    }

    /// Lets go the oldest of the network that has the most; whether there was one.
    fn part_with_oldest(&mut self) -> bool {
        let networks: Vec<IpAddr> = self.strangers.iter().map(|stranger| network(stranger.from.ip())).collect();
        let Some(at) = oldest_of_most(&networks) else { return false };
        let stranger = self.strangers.remove(at);
        self.lines
            .say(stranger.from, &format!("no client: more than {STRANGERS_MAX} had proved nothing, it for longest"));
        true
    }
}

/// Whether it is this side that lacks something.
fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}

/// Whose address it is: of IPv6 a site's, which has 2^64 of them (RFC 6177).
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// The first place of the one that is there most often; of several such, of the one that is there first.
fn oldest_of_most(networks: &[IpAddr]) -> Option<usize> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for network in networks {
        *counts.entry(*network).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    networks.iter().position(|network| counts.get(network) == Some(&most))
}

/// Lines about strangers, who must not decide how much is written.
pub(super) struct Lines<'s> {
    say: &'s dyn Fn(&str),
    since: Instant,
    said: u32,
    kept_back: u64,
}

impl<'s> Lines<'s> {
    pub fn new(say: &'s dyn Fn(&str)) -> Self {
        Lines { say, since: Instant::now(), said: 0, kept_back: 0 }
    }

    fn say(&mut self, from: SocketAddr, what: &str) {
        if self.said < STRANGER_LINES_MAX {
            self.said += 1;
            (self.say)(&format!("{from}: {what}"));
        } else {
            self.kept_back += 1;
        }
    }

    fn turn(&mut self) {
        if self.since.elapsed() >= STRANGER_LINES_EVERY {
            self.tell();
        }
    }

    /// Says how many were not said.
    pub fn tell(&mut self) {
        if self.kept_back > 0 {
            let (more, within_s) = (self.kept_back, self.since.elapsed().as_secs_f64());
            (self.say)(&format!("strangers: {more} more in {within_s:.0} s who did not prove to have the token"));
        }
        (self.since, self.said, self.kept_back) = (Instant::now(), 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn networks(addresses: &[&str]) -> Vec<IpAddr> {
        addresses.iter().map(|text| network(text.parse().unwrap())).collect()
    }

    #[test]
    fn the_oldest_of_the_network_with_the_most_goes() {
        assert_eq!(oldest_of_most(&networks(&[])), None);
        assert_eq!(oldest_of_most(&networks(&["192.0.2.1", "192.0.2.2", "192.0.2.3"])), Some(0));
        assert_eq!(oldest_of_most(&networks(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.2"])), Some(1));
        // A site is one, however many addresses it has; and an IPv4 address is the same in either writing.
        assert_eq!(
            oldest_of_most(&networks(&["192.0.2.1", "2001:db8::1", "2001:db8:0:1::1", "2001:db8::ffff"])),
            Some(1)
        );
        assert_eq!(oldest_of_most(&networks(&["2001:db8::1", "::ffff:192.0.2.1", "192.0.2.1"])), Some(1));
    }

    #[test]
    fn of_many_lines_about_strangers_most_are_only_counted() {
        let said = RefCell::new(Vec::new());
        let say = |line: &str| said.borrow_mut().push(line.to_owned());
        let mut lines = Lines::new(&say);
        for _ in 0..1000 {
            lines.say("192.0.2.1:5".parse().unwrap(), "no client");
        }
        assert_eq!(said.borrow().len(), STRANGER_LINES_MAX as usize);
        lines.tell();
        let count = 1000 - STRANGER_LINES_MAX;
        assert!(said.borrow().last().unwrap().starts_with(&format!("strangers: {count} more")), "{said:?}");
        lines.tell();
        assert_eq!(said.borrow().len(), STRANGER_LINES_MAX as usize + 1, "and not again");
    }
}
