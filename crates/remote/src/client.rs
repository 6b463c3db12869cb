//! The run's side: a connection to the observer on the target's machine, read by a thread of its own.
//!
//! The first connection is made ([`super::dial`]) before any load is put on, and its failure is the run's. After that
//! nothing of it fails a run: what breaks is made again with growing pauses, the gap becomes two events, and readings that
//! nobody takes are dropped and counted. Times are set to the clock here before they are handed on.

use super::channel::{Channel, LinkError};
use super::dial::{Backoff, Dialer, ObserveAt, stamps};
use super::failure::RemoteError;
use super::limits::*;
use super::message::{FromObserver, FromRun, Reading, Start};
use super::offset::Clock;
use super::{monotonic_ns, tamed};
use model::event::Events;
use model::remote::{Link, TargetHost};
use model::snapshot::SamplerStatus;
use model::{Event, Snapshot};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the thread hands on. Times are of the clock here, CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct Seen {
    /// A reading; `None`: only something happened.
    pub snapshot: Option<Box<Snapshot>>,
    /// What happened since the last.
    pub events: Vec<Event>,
}

/// How the link is.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// How the samplers there fare.
    pub samplers: Vec<SamplerStatus>,
    /// Since when it is broken, CLOCK_MONOTONIC; `None`: it is not.
    pub broken_since_ns: Option<i64>,
    /// Why it broke last.
    pub why: String,
    /// What became of the last attempt to make it again.
    pub attempt: String,
    /// What has been counted.
    pub link: Link,
}

/// A link that is up.
#[derive(Debug)]
pub(super) struct Client {
    pub host: TargetHost,
    pub unknown: Option<String>,
    seen: Receiver<Seen>,
    shared: Arc<Shared>,
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// One last reading is wanted.
    finish: AtomicBool,
    /// The target was slow, and the observer has not been told.
    slow: AtomicBool,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Connects, proves the token, exchanges stamps, and has the observation started. What may pass is tried again, as
    /// long as [`ObserveAt::wait`] says and nobody interrupts.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn start(at: &ObserveAt, start: Start, interrupted: &AtomicBool) -> Result<Self, RemoteError> {
        let dialer = Dialer::new(at, start)?;
        let mut clock = Clock::default();
        let up = dialer.reach(&mut clock, at, interrupted)?;
        let (mut host, unknown) = (up.host, up.unknown);
        host.address.clone_from(&at.address);
        let (waker, woken) = UnixStream::pair().map_err(RemoteError::Thread)?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true).map_err(RemoteError::Thread)?;
        }
        let (sender, seen) = sync_channel(READINGS_MAX);
        let shared = Arc::new(Shared::default());
        let follower = Follower {
            dialer,
            clock,
            sender,
            woken,
            shared: Arc::clone(&shared),
            events: Events::default(),
            dropped: 0,
            lost: (0, 0),
        };
        let thread = std::thread::Builder::new()
            .name("observer".to_owned())
            .spawn(move || follower.run(up.channel))
            .map_err(RemoteError::Thread)?;
        Ok(Client { host, unknown, seen, shared, waker, thread: Some(thread) })
    }

    /// What has come since this was last asked; never waits.
    pub fn take(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }

    /// The next that comes, in time.
    pub fn next(&self, at_most: Duration) -> Option<Seen> {
        self.seen.recv_timeout(at_most).ok()
    }

    /// How the link is.
    pub fn state(&self) -> State {
        self.shared.state().clone()
    }

    /// Tells the observer that the target was slow just now. While the link is broken, nobody.
    pub fn hint_slow(&self) {
        self.shared.slow.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Has one last reading taken, and waits for it a little; nothing comes after that.
    pub fn finish(&mut self) -> Vec<Seen> {
        let Some(thread) = self.thread.take() else { return Vec::new() };
        self.shared.finish.store(true, Ordering::Relaxed);
        self.wake();
        let (until, mut all) = (Instant::now() + LAST_WAIT, Vec::new());
        while !thread.is_finished() && Instant::now() < until {
            all.extend(self.next(Duration::from_millis(10)));
        }
        // One that is in the middle of connecting anew ends by itself; a run does not wait for it.
        if thread.is_finished() {
            // It has no result; a panic of its was printed.
            let _ = thread.join();
        }
        all.extend(self.take());
        all
    }

    fn wake(&self) {
        // A full pipe wakes as well.
        let _ = io::Write::write(&mut (&self.waker), &[1]);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The thread: reads what comes, and makes the link again when it breaks.
struct Follower {
    dialer: Dialer,
    clock: Clock,
    sender: SyncSender<Seen>,
    woken: UnixStream,
    shared: Arc<Shared>,
    /// What happened and was not handed on yet: it must not be lost with a reading that is.
    events: Events,
    /// Readings that nobody took here.
    dropped: u64,
    /// Readings lost there, of links before this one and of this one.
    lost: (u64, u64),
}

impl Follower {
    fn run(mut self, channel: Channel) {
        // What it does must not become a worker's lag; a thread may always lower its own priority.
        let _ = rustix::process::setpriority_process(None, observe::FOLLOW_NICE);
        let mut channel = Some(channel);
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        while let Some(up) = &mut channel {
            let Err(why) = self.follow(up) else { break };
            self.lost = (self.lost.0.saturating_add(self.lost.1), 0);
            self.broken(&why);
            channel = None;
            while channel.is_none() && !self.is_to_finish() {
                self.rest(backoff.next());
                if self.is_to_finish() {
                    break;
                }
                match self.dialer.dial(&mut self.clock) {
                    Ok(up) => {
                        self.made_again();
                        channel = Some(up.channel);
                        backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
                    }
                    Err(error) => self.shared.state().attempt = error.to_string(),
                }
            }
        }
        self.hand_on(None);
    }

    /// Reads until the last reading has come (`Ok`) or the link breaks.
    fn follow(&mut self, channel: &mut Channel) -> Result<(), LinkError> {
        let mut asked: Option<(i64, Instant)> = None;
        let mut next_exchange = Instant::now() + EXCHANGE_EVERY;
        let mut heard = Instant::now();
        let mut finishing: Option<Instant> = None;
        // Of a time when there was no link.
        self.shared.slow.store(false, Ordering::Relaxed);
        loop {
            if self.is_to_finish() && finishing.is_none() {
                channel.send(&FromRun::Finish)?;
                finishing = Some(Instant::now() + LAST_WAIT);
            }
            if finishing.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            if self.shared.slow.swap(false, Ordering::Relaxed) && finishing.is_none() {
                channel.send(&FromRun::Slow)?;
            }
            if asked.is_none() && finishing.is_none() && Instant::now() >= next_exchange {
                let sent_ns = monotonic_ns();
                channel.send(&FromRun::Ping { sent_ns })?;
                asked = Some((sent_ns, Instant::now()));
                next_exchange = Instant::now() + EXCHANGE_EVERY;
            }
            let look = finishing.map_or(next_exchange, |until| until).saturating_duration_since(Instant::now());
            // With an exchange under way nothing is due before its answer.
            let look = if asked.is_some() { EXCHANGE_EVERY } else { look };
            match channel.wait(look, Some(&self.woken)) {
                Err(LinkError::Closed) if finishing.is_some() => return Ok(()),
                other => other?,
            }
            while let Some(message) = channel.next()? {
                heard = Instant::now();
                match message {
                    FromObserver::Pong { sent_ns, received_ns, answered_ns } => {
                        if asked.is_some_and(|(ns, _)| ns == sent_ns) {
                            self.clock.push(stamps(sent_ns, received_ns, answered_ns));
                            asked = None;
                        }
                    }
                    FromObserver::Reading(reading) => self.take(*reading),
                    FromObserver::Ended { .. } if finishing.is_some() => return Ok(()),
                    FromObserver::Ended { why } => return Err(LinkError::Told(tamed(&why))),
                    FromObserver::Started { .. } => return Err(LinkError::Told("it started twice".to_owned())),
                }
            }
            let is_unanswered = asked.is_some_and(|(_, at)| at.elapsed() > SILENCE_MAX);
            if is_unanswered || heard.elapsed() > SILENCE_MAX.max(2 * EXCHANGE_EVERY) {
                return Err(LinkError::Silent(SILENCE_MAX.as_secs()));
            }
        }
    }

    /// Sets a reading's times to the clock here and hands it on.
    fn take(&mut self, reading: Reading) {
        let Some(estimate) = self.clock.at(monotonic_ns()) else { return };
        let mut snapshot = reading.snapshot;
        let there_ns = snapshot.at_ns;
        let here = |at_ns: i64| at_ns.saturating_sub(estimate.offset_ns);
        snapshot.at_ns = here(there_ns);
        for mut event in reading.events {
            // What has no moment of its own is of the reading's.
            event.at_ns = here(if event.at_ns > 0 { event.at_ns } else { there_ns });
            // It may be shown on a terminal.
            (event.kind, event.text) = (tamed(&event.kind), event.text.replace(char::is_control, " "));
            event.details.texts_mut().for_each(|text| *text = tamed(text));
            self.events.push(event);
        }
        let mut state = self.shared.state();
        if let Some(samplers) = reading.samplers {
            state.samplers = samplers;
        }
        state.link.offset_ns = estimate.offset_ns;
        state.link.bound_ns = estimate.bound_ns;
        state.link.exchanges = self.clock.exchanges();
        self.lost.1 = reading.lost;
        state.link.lost = self.lost.0.saturating_add(self.lost.1).saturating_add(self.dropped);
        if let Some(exchanges) = &mut snapshot.exchanges {
            exchanges.set_back(estimate.offset_ns);
            exchanges.clock_error_ns = estimate.bound_ns;
        }
        snapshot.link = Some(state.link);
        drop(state);
        self.hand_on(Some(Box::new(snapshot)));
    }

    fn hand_on(&mut self, snapshot: Option<Box<Snapshot>>) {
        let is_reading = snapshot.is_some();
        let seen = Seen { snapshot, events: self.events.take(monotonic_ns()) };
        if !is_reading && seen.events.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(seen) | TrySendError::Disconnected(seen)) = self.sender.try_send(seen) {
            self.dropped += u64::from(is_reading);
            self.events.extend(seen.events);
        }
    }

    fn broken(&mut self, why: &LinkError) {
        let (now_ns, address) = (monotonic_ns(), self.dialer.address.clone());
        let mut state = self.shared.state();
        state.broken_since_ns = Some(now_ns);
        state.why = why.to_string();
        state.attempt = String::new();
        state.link.breaks += 1;
        drop(state);
        let text = format!("the target is not seen from here on: the link to the observer at {address} broke ({why})");
        self.events.push(Event::new(now_ns, model::event::OBSERVER_LOST, text));
        self.hand_on(None);
    }

    fn made_again(&mut self) {
        let now_ns = monotonic_ns();
        let mut state = self.shared.state();
        let since_ns = state.broken_since_ns.take().unwrap_or(now_ns);
        let gap_ns = now_ns.saturating_sub(since_ns).max(0).unsigned_abs();
        state.link.broken_ns = state.link.broken_ns.saturating_add(gap_ns);
        drop(state);
        let gap_s = gap_ns as f64 / 1e9;
        let text = format!(
            "the target is seen again: the link to the observer at {} was broken for {gap_s:.1} s; what its probes \
             count begins again",
            self.dialer.address
        );
        self.events.push(Event::new(now_ns, model::event::OBSERVER_BACK, text));
        self.hand_on(None);
    }

    fn is_to_finish(&self) -> bool {
        self.shared.finish.load(Ordering::Relaxed)
    }

    /// Waits, unless the end is wanted.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_to_finish() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}
