//! Follows a run in its stream: what each agent said, its ticks, its recording; and who is lost.
//!
//! All of it can be read again from the stream's beginning, so a controller that takes over knows what the one before it knew. Ticks
//! and recordings go to files as they come; in memory is what the progress needs. A message that comes twice counts once.

use super::Conduct;
use super::faults::Faults;
use super::joint::Joint;
use super::reading::{ReadTo, Reading};
use super::redeal::{self, Left, redealt};
use super::release::Released;
use crate::agent::of_workers;
use crate::document::{Document, OnLost, hex};
use crate::error::AgentsError;
use crate::limits::{CHUNK_BYTES, END_GRACE};
use crate::link::Link;
use crate::message::{Alive, Deal, Doing, Done, Moments, Redeal, ShareOf, State, Stop, read, tamed, write};
use crate::subject::{self, What};
use async_nats::Subscriber;
use futures_util::{FutureExt, StreamExt};
use model::recording::{Capsule, Tick};
use model::{Event, Plan};
use session::{Aborting, Standing};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often it looks at clocks.
const LOOK: Duration = Duration::from_millis(50);
/// A silent stream is asked for its end after so long.
const QUIET: Duration = Duration::from_millis(400);

/// What is known of an agent.
pub(super) struct Known {
    pub(super) share: ShareOf,
    pub(super) capsule: Option<Box<Capsule>>,
    pub(super) kept_at: String,
    /// How many times its share its owner allows; `None`: any.
    factor_max: Option<f64>,
    /// On its own clock, and after the moment that it was told.
    pub(super) began: Option<(i64, u64)>,
    pub(super) failed: Option<String>,
    /// Its recording is here whole.
    pub(super) is_delivered: bool,
    /// Nothing is heard of it any more.
    pub(super) is_lost: bool,
    /// Why its recording will not come, though it is well.
    pub(super) kept_back: Option<String>,
    /// Ticks are here until then, nanoseconds since the run's start.
    pub(super) until_ns: u64,
    /// Bursts that it was ready for.
    pub(super) met: u32,
    /// Bursts that it released late, and the latest of them, nanoseconds.
    pub(super) late_releases: (u32, u64),
    /// Requests that it had started by then, warm-up excluded.
    pub(super) started: u64,
    /// Whether what it measured counts yet.
    pub(super) has_measured: bool,
    heard: Instant,
    trouble: Option<String>,
    ticks: u64,
    last_tick: Option<u64>,
    chunks: u64,
    digest: Sha256,
    tick_file: File,
    recording_file: File,
}

/// Follows a run.
pub(super) struct Follower {
    pub(super) link: Link,
    pub(super) run: String,
    pub(super) document: Document,
    /// The plan of all workers together, once they are dealt.
    pub(super) plan: Plan,
    pub(super) folder: TempDir,
    /// In the order in which they were dealt.
    pub(super) agents: Vec<Known>,
    pub(super) events: Vec<Event>,
    /// Second deals, in their order.
    pub(super) redeals: Vec<Redeal>,
    /// Bursts that were released.
    pub(super) released: Released,
    /// What faults did.
    pub(super) faults: Faults,
    deal: Option<Deal>,
    begin: Option<Moments>,
    begun_at: Option<Instant>,
    pub(super) is_stopped: bool,
    /// What ends the run early (`--abort-when`), and why it did.
    aborting: Aborting,
    aborted: Option<String>,
    /// Another controller has said that it has the result.
    is_done: bool,
    reading: Reading,
    alive: Subscriber,
    joint: Joint,
    /// Ticks were shown until then, nanoseconds since the run's start.
    pub(super) shown_ns: u64,
    /// How it stands, from the first tick that is shown on.
    standing: Option<Standing>,
}

impl Follower {
    /// From the stream's beginning; a tick that all agents are to have come to waits for no more than so many later ones.
    pub(super) async fn new(
        link: &Link,
        run: &str,
        document: Document,
        waiting_max: usize,
    ) -> Result<Self, AgentsError> {
        let alive = link.client.subscribe(subject::alive(run)).await;
        let alive = alive.map_err(|error| AgentsError::stream("to hear of the agents", error))?;
        let folder = tempfile::tempdir().map_err(AgentsError::io("expected a folder for what comes of the agents"))?;
        Ok(Follower {
            link: link.clone(),
            run: run.to_owned(),
            plan: document.shown.clone(),
            document,
            folder,
            agents: Vec::new(),
            events: Vec::new(),
            redeals: Vec::new(),
            released: Released::default(),
            faults: Faults::default(),
            deal: None,
            begin: None,
            begun_at: None,
            is_stopped: false,
            aborting: Aborting::default(),
            aborted: None,
            is_done: false,
            reading: Reading::new(link, run),
            alive,
            joint: Joint::new(waiting_max),
            shown_ns: 0,
            standing: None,
        })
    }

    pub(super) fn deal(&self) -> Option<&Deal> {
        self.deal.as_ref()
    }

    pub(super) fn begin(&self) -> Option<&Moments> {
        self.begin.as_ref()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.agents.iter().map(|known| known.share.agent.clone()).collect()
    }

    pub(super) fn are_all_ready_or_failed(&self) -> bool {
        self.agents.iter().all(|known| known.capsule.is_some())
            || self.agents.iter().any(|known| known.failed.is_some())
    }

    /// Why the load cannot begin.
    pub(super) fn why_not_ready(&self) -> Option<String> {
        let why = |known: &Known| {
            let name = &known.share.agent;
            match &known.failed {
                Some(why) => Some(format!("'{name}' cannot: {why}")),
                None if known.capsule.is_none() => Some(format!("'{name}' is not")),
                None => None,
            }
        };
        let all: Vec<String> = self.agents.iter().filter_map(why).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether every agent has handed over all that it measured.
    pub(super) fn has_everything(&self) -> bool {
        self.agents.iter().all(|known| known.is_delivered)
    }

    /// The file of an agent's recording.
    pub(super) fn recording_of(&self, agent: &str) -> PathBuf {
        self.folder.path().join(agent).with_extension(store::EXTENSION)
    }

    /// The file of its ticks, each after its length (4 bytes, big-endian).
    pub(super) fn ticks_of(&self, agent: &str) -> PathBuf {
        self.folder.path().join(agent).with_extension("ticks")
    }

    /// Reads what is in the stream already, and not what is put there meanwhile: while a load goes on that has no end.
    pub(super) async fn catch_up(&mut self) -> Result<(), AgentsError> {
        let last = self.reading.last().await;
        while last.is_none_or(|last| !self.reading.has_read(last)) {
            let Some((subject, body)) = self.reading.message(QUIET).await? else { break };
            self.take_in(&subject, &body)?;
        }
        // What was said before this process began is no sign of life, and its absence none of death.
        self.agents.iter_mut().for_each(|known| known.heard = Instant::now());
        Ok(())
    }

    /// Follows until something is so.
    ///
    /// # Errors
    /// [`AgentsError::NotReady`]: it was not in time; [`AgentsError::Interrupted`].
    pub(super) async fn until(
        &mut self,
        within: Duration,
        conduct: &Conduct<'_>,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<(), AgentsError> {
        let since = Instant::now();
        while !is_so(self) {
            conduct.check()?;
            if since.elapsed() > within {
                let why =
                    self.why_not_ready().unwrap_or_else(|| "NATS does not give back what was put there".to_owned());
                return Err(AgentsError::NotReady(format!("{why} after {} s", within.as_secs())));
            }
            if let Some((subject, body)) = self.reading.message(LOOK).await? {
                self.take_in(&subject, &body)?;
            }
        }
        Ok(())
    }

    /// Follows until every agent has handed its recording over, or cannot.
    pub(super) async fn follow_to_end(&mut self, conduct: &mut Conduct<'_>) -> Result<(), AgentsError> {
        let since = *self.begun_at.get_or_insert_with(Instant::now);
        let planned = self.document.planned_ns.map(Duration::from_nanos);
        let mut looked = Instant::now();
        while !self.agents.iter().all(Known::is_settled) {
            match self.reading.message(LOOK).await {
                Err(AgentsError::NoRun(run)) => return Err(self.why_gone(run).await),
                message => {
                    if let Some((subject, body)) = message? {
                        self.take_in(&subject, &body)?;
                    }
                }
            }
            // Not with a timeout of nothing, which takes a millisecond: of a thousand messages a second that is all of it.
            while let Some(Some(said)) = self.alive.next().now_or_never() {
                if let Some(alive) = read::<Alive>(&said.payload) {
                    self.is_alive(&alive, conduct);
                }
                self.is_done |= read::<Done>(&said.payload).is_some_and(|done| done.done == self.run);
            }
            self.show(conduct);
            // Of a thousand agents the clock is not asked with each of a thousand messages.
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look_for_lost(conduct).await;
            }
            self.release().await?;
            self.follow_faults(conduct).await;
            if conduct.interrupted.load(Ordering::Relaxed) {
                self.stop("the run was told to end early (Ctrl-C or SIGTERM)", false).await;
            } else if let Some(why) = self.aborted.clone() {
                if let Some(company) = &conduct.company {
                    company.end_all(&why);
                }
                self.stop(&why, true).await;
            } else if let Some(why) = conduct.company.as_ref().and_then(|company| company.ended()) {
                self.end_with_the_others(&why, conduct).await;
            } else if conduct.watch.is_enough() {
                self.stop("enough was seen", true).await;
            }
            let is_overdue = planned.is_some_and(|planned| since.elapsed() > planned + END_GRACE);
            if is_overdue {
                for known in self.agents.iter_mut().filter(|known| !known.is_settled()) {
                    known.is_lost = true;
                }
            }
        }
        self.follow_faults(conduct).await;
        while let Some(tick) = self.joint.take_oldest() {
            self.show_one(&tick, conduct);
        }
        Ok(())
    }

    /// Why the stream of a run is gone in the midst of it: another controller has taken it away, if it says so.
    async fn why_gone(&mut self, run: String) -> AgentsError {
        while let Ok(Some(said)) = tokio::time::timeout(QUIET, self.alive.next()).await {
            self.is_done |= read::<Done>(&said.payload).is_some_and(|done| done.done == self.run);
        }
        if self.is_done { AgentsError::TakenAway(run) } else { AgentsError::NoRun(run) }
    }

    /// Stops every agent's load: early, or as if it had been planned so.
    pub(super) async fn stop(&mut self, why: &str, is_enough: bool) {
        if self.is_stopped {
            return;
        }
        let stop = write(&Stop { why: why.to_owned(), is_enough });
        let subject = subject::word(&self.run, "stop");
        self.is_stopped = self.link.put(&subject, &format!("{}/stop", self.run), stop).await.is_ok();
    }

    fn take_in(&mut self, subject: &str, body: &[u8]) -> Result<(), AgentsError> {
        let run = self.run.clone();
        match subject::what(&run, subject) {
            Some(What::Word("deal")) if self.deal.is_none() => {
                let deal = read::<Deal>(body).and_then(|deal| deal.workers().map(|workers| (deal, workers)));
                let Some((deal, workers)) = deal else { return Ok(()) };
                self.plan = of_workers(&self.document.shown, workers);
                self.plan.faults = self.document.faults.clone();
                for share in &deal.shares {
                    let known = self.known(share.clone())?;
                    self.agents.push(known);
                }
                self.joint.begin(self.agents.len(), self.plan.tick_ns);
                self.aborting = Aborting::of(&self.plan);
                self.deal = Some(deal);
            }
            Some(What::Word("begin")) if self.begin.is_none() => {
                self.begin = read(body);
                self.begun_at = self.begin.as_ref().map(|_| Instant::now());
            }
            Some(What::Word("stop")) => self.is_stopped = true,
            Some(What::Word(word))
                if self.document.on_lost == OnLost::Redistribute
                    && subject::redeal_of(word) == Some(self.redeals.len()) =>
            {
                if let Some(redeal) = read::<Redeal>(body).filter(Redeal::is_sound) {
                    let at_ns = i64::try_from(redeal.from_ns).unwrap_or(i64::MAX);
                    self.events.push(Event::new(at_ns, model::event::AGENT_REDEALT, redeal::said(&redeal)));
                    self.redeals.push(redeal);
                }
            }
            Some(What::Word(word)) if subject::fault_of(word) == Some(self.faults.known) => self.take_fault(body),
            Some(What::Word(word)) if subject::release_of(word) == Some(self.released.rounds) => {
                if let Some(moments) = read::<Moments>(body) {
                    self.released.add(&moments);
                }
            }
            Some(What::Agent { name, what }) => {
                let Some(at) = self.agents.iter().position(|known| known.share.agent == name) else { return Ok(()) };
                self.agents[at].heard = Instant::now();
                match what {
                    "state" => {
                        let state = read(body);
                        if matches!(state, Some(State::Failed { .. } | State::Delivered { .. })) {
                            self.joint.ended(at);
                        }
                        self.agents[at].state(state);
                    }
                    "tick" => self.tick(at, body)?,
                    "recording" => {
                        self.joint.ended(at);
                        self.agents[at].chunk(body)?;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn known(&self, share: ShareOf) -> Result<Known, AgentsError> {
        let made = |path: PathBuf| {
            File::create_new(path).map_err(AgentsError::io("expected a file for what comes of an agent"))
        };
        Ok(Known {
            capsule: None,
            kept_at: String::new(),
            factor_max: None,
            began: None,
            failed: None,
            is_delivered: false,
            is_lost: false,
            kept_back: None,
            until_ns: 0,
            met: 0,
            late_releases: (0, 0),
            started: 0,
            has_measured: false,
            heard: Instant::now(),
            trouble: None,
            ticks: 0,
            last_tick: None,
            chunks: 0,
            digest: Sha256::new(),
            tick_file: made(self.ticks_of(&share.agent))?,
            recording_file: made(self.recording_of(&share.agent))?,
            share,
        })
    }

    fn tick(&mut self, at: usize, body: &[u8]) -> Result<(), AgentsError> {
        let Some((interval, row)) = store::carried::tick(body) else { return Ok(()) };
        let number = interval.sequence;
        let warmup_ns = self.plan.warmup_ns;
        let known = &mut self.agents[at];
        if known.last_tick.is_some_and(|last| number <= last) {
            return Ok(());
        }
        let length = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
        let kept = known.tick_file.write_all(&length).and_then(|()| known.tick_file.write_all(body));
        kept.map_err(AgentsError::io("expected to keep an agent's tick"))?;
        (known.last_tick, known.ticks) = (Some(number), known.ticks + 1);
        known.started = known.started.saturating_add(row.counts.started);
        if !row.is_drain {
            known.until_ns = known.until_ns.max(row.end_ns);
            known.has_measured |= row.end_ns > warmup_ns;
        }
        self.joint.push(at, interval, &row);
        Ok(())
    }

    fn is_alive(&mut self, alive: &Alive, conduct: &Conduct<'_>) {
        let Some(known) = self.agents.iter_mut().find(|known| known.share.agent == alive.agent) else { return };
        known.heard = Instant::now();
        let trouble = alive.trouble.as_deref().map(tamed);
        if alive.doing == Doing::Idle && !known.is_delivered {
            known.kept_back = trouble.clone();
        }
        if trouble != known.trouble
            && let Some(trouble) = &trouble
        {
            (conduct.tell)(&format!("agent '{}': {trouble}", alive.agent));
        }
        known.trouble = trouble;
    }

    /// Shows the ticks that all agents have come to, and ends the run with the one that is not to be gone on from.
    fn show(&mut self, conduct: &mut Conduct<'_>) {
        while let Some(tick) = self.joint.take(|at| !self.agents[at].is_settled()) {
            self.show_one(&tick, conduct);
        }
    }

    fn show_one(&mut self, tick: &Tick, conduct: &mut Conduct<'_>) {
        let Tick { sum, row } = tick;
        // What comes late is counted, and for the eye it is over.
        if row.end_ns > self.shown_ns && !row.is_drain {
            self.shown_ns = row.end_ns;
            conduct.watch.on_tick(row, &self.plan);
        }
        conduct.watch.on_interval(sum, &self.plan);
        let capsule = self.agents.iter().find_map(|known| known.capsule.as_deref());
        let capsule = || Capsule { version: conduct.version.clone(), ..capsule.cloned().unwrap_or_default() };
        let began = || Standing::new(capsule(), self.plan.clone());
        self.standing.get_or_insert_with(began).push(tick, conduct.watch);
        if self.aborted.is_none()
            && let Some(event) = self.aborting.ended_by(tick)
        {
            self.aborted = Some(event.text.clone());
            conduct.watch.on_event(&event);
            self.events.push(event);
        }
    }

    async fn look_for_lost(&mut self, conduct: &mut Conduct<'_>) {
        let lost_after = Duration::from_nanos(self.document.lost_after_ns);
        let is_silent = |known: &Known| !known.is_settled() && known.heard.elapsed() > lost_after;
        let mut at = Instant::now();
        if self.agents.iter().any(is_silent) {
            at = match self.reading.read_to().await {
                ReadTo::End(at) => at,
                ReadTo::Behind => return,
                // It is this process that is cut off, and who is silent for it may be well.
                ReadTo::Unanswered => return self.agents.iter_mut().for_each(|known| known.heard = Instant::now()),
            };
        }
        let mut lost = Vec::new();
        let may_be_lost =
            |known: &&mut Known| !known.is_delivered && known.failed.is_none() && known.kept_back.is_none();
        for known in self.agents.iter_mut().filter(may_be_lost) {
            let is_lost = at.saturating_duration_since(known.heard) > lost_after;
            if known.is_lost != is_lost {
                known.is_lost = is_lost;
                lost.push((known.share.agent.clone(), is_lost, known.until_ns));
            }
        }
        for (name, is_lost, until_ns) in lost {
            let (kind, text) = match is_lost {
                true => (
                    model::event::AGENT_LOST,
                    format!("agent '{name}' is lost: nothing was heard of it for {} s", lost_after.as_secs_f64()),
                ),
                false => (model::event::AGENT_BACK, format!("agent '{name}' is heard again")),
            };
            let event = Event::new(i64::try_from(until_ns).unwrap_or(i64::MAX), kind, text);
            conduct.watch.on_event(&event);
            self.events.push(event);
            if is_lost && self.document.on_lost == OnLost::Stop {
                self.stop(&format!("agent '{name}' is lost, and the run was to stop then (--on-lost)"), false).await;
            }
        }
        if self.document.on_lost == OnLost::Redistribute {
            self.redeal(conduct).await;
        }
    }

    /// Deals the shares of those that put nothing on any more to the others, once for each of them.
    async fn redeal(&mut self, conduct: &mut Conduct<'_>) {
        let is_out = |known: &Known| known.is_lost || (known.failed.is_some() && known.began.is_some());
        let is_dealt = |name: &String| self.redeals.last().is_some_and(|redeal| redeal.lost.contains(name));
        let out: Vec<String> =
            self.agents.iter().filter(|known| is_out(known)).map(|known| known.share.agent.clone()).collect();
        let before = self.redeals.last().map_or(&[][..], |redeal| &redeal.lost);
        // One that came back was told that it is out.
        let lost: Vec<String> =
            before.iter().cloned().chain(out.iter().filter(|name| !is_dealt(name)).cloned()).collect();
        if lost.len() == before.len() || self.is_stopped {
            return;
        }
        let is_left = |known: &&Known| !lost.contains(&known.share.agent) && !known.is_settled();
        let left: Vec<Left> = self
            .agents
            .iter()
            .filter(is_left)
            .map(|known| Left { share: known.share.clone(), factor_max: known.factor_max })
            .collect();
        let until_ns = self.agents.iter().filter(is_left).map(|known| known.until_ns).max().unwrap_or(0);
        let Some(redeal) = redealt(lost, &left, self.plan.threads, until_ns, self.plan.tick_ns) else { return };
        // Too late for it to begin, nothing is to be dealt.
        if self.plan.planned_ns().is_some_and(|planned_ns| redeal.from_ns >= planned_ns) {
            return;
        }
        let number = self.redeals.len();
        let word = subject::word(&self.run, &subject::redeal(number));
        // What another controller has dealt is read in the stream, as this one is; where it is not kept it is tried again.
        if let Ok(true) = self.link.put_first(&word, write(&redeal)).await {
            let at_ns = i64::try_from(redeal.from_ns).unwrap_or(i64::MAX);
            conduct.watch.on_event(&Event::new(at_ns, model::event::AGENT_REDEALT, redeal::said(&redeal)));
        }
        // Where the way to it breaks, that shows in what follows.
        if let Err(error) = self.read_back(|follower| follower.redeals.len() > number).await {
            (conduct.tell)(&error.to_string());
        }
    }

    /// Reads what was just put into the stream, with all before it, for a short while.
    pub(super) async fn read_back(&mut self, is_there: impl Fn(&Self) -> bool) -> Result<(), AgentsError> {
        let until = Instant::now() + QUIET;
        while !is_there(self) && Instant::now() < until {
            if let Some((subject, body)) = self.reading.message(LOOK).await? {
                self.take_in(&subject, &body)?;
            }
        }
        Ok(())
    }
}

impl Known {
    /// Whether nothing more is to come of it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_delivered || self.is_lost || self.kept_back.is_some() || (self.failed.is_some() && self.began.is_none())
    }

    fn state(&mut self, state: Option<State>) {
        match state {
            Some(State::Ready { capsule, kept_at, factor_max }) => {
                (self.capsule, self.kept_at, self.factor_max) = (Some(capsule), tamed(&kept_at), factor_max);
            }
            Some(State::Began { at_ns, late_ns }) => self.began = Some((at_ns, late_ns)),
            Some(State::Met { round }) => self.met = self.met.max(round.saturating_add(1)),
            Some(State::ReleasedLate { late_ns, .. }) => {
                let (count, latest_ns) = self.late_releases;
                self.late_releases = (count + 1, latest_ns.max(late_ns));
            }
            Some(State::Failed { why }) => self.failed = Some(tamed(&why)),
            Some(State::Delivered { chunks, sha256, .. }) => {
                self.is_delivered = chunks == self.chunks && sha256 == hex(&self.digest.clone().finalize());
                if !self.is_delivered {
                    self.failed = Some("its recording did not come as it was sent".to_owned());
                    self.is_lost = true;
                }
            }
            None => {}
        }
    }

    /// A part of its recording. They come in their order, each once: NATS passes over what it has had.
    fn chunk(&mut self, body: &[u8]) -> Result<(), AgentsError> {
        if self.is_delivered || body.len() > CHUNK_BYTES {
            return Ok(());
        }
        self.digest.update(body);
        self.chunks += 1;
        self.recording_file.write_all(body).map_err(AgentsError::io("expected to keep an agent's recording"))
    }
}
