//! One run of an agent: the plan is fetched and checked, the share dealt, the word to begin waited for; then load as ever, with its
//! ticks and its recording handed over.
//!
//! Its workers are some of all workers of the plan, and do what those numbers of one process would do ([`engine::plan_of`]): of an even
//! pace every n-th request, of a Poisson process a thinned one, of unique rows those that are nobody else's.

use super::Own;
use super::bursts::Bursts;
use super::deliver::{Outbox, Way};
use super::observing::{self, Observing};
use crate::allow;
use crate::document::{Document, OnLost};
use crate::limits::{
    AGREED_FOR, ALIVE_EVERY, BEGIN_AFTER, CHUNK_BYTES, CUT_OFF_SHARE, FILES_BYTES_MAX, LATE_MAX, LOOK_EVERY,
    LOOKS_WITHIN_LOST,
};
use crate::message::{Alive, Deal, Doing, Moment, Moments, Redeal, State, Stop, Taken, read, write};
use crate::subject::{self, What};
use async_nats::Subscriber;
use engine::{Fleet, Rendezvous};
use futures_util::StreamExt;
use model::plan::{DriverKind, Pace, Segment};
use model::recording::Row;
use model::{Event, Interval, Plan};
use remote::monotonic_ns;
use session::{Options, RecordTo, Watch};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use store::carried::Packer;

/// What an agent has agreed to.
struct Agreed {
    document: Document,
    plan: Plan,
    /// Its files of data lie there for as long.
    folder: PathBuf,
}

/// From the question to the last word about it.
pub(super) async fn take_part(own: &Arc<Own>, run: &str, reply: Option<async_nats::Subject>) {
    // Before the answer: what is said after it must not be missed.
    let words = own.link.client.subscribe(subject::words(run)).await;
    let fetched = match words {
        Ok(words) => fetch(own, run).await.map(|agreed| (words, agreed)),
        Err(error) => Err(format!("it cannot listen to the run: {error}")),
    };
    let (words, agreed) = match fetched {
        Ok(fetched) => fetched,
        Err(why) => {
            own.tell(&format!("run {run} refused: {why}"));
            super::answer(own, reply, write(&Taken::Refused { why })).await;
            return;
        }
    };
    own.agree(reply).await;
    own.tell(&format!("run {run} agreed to: {}", crate::message::tamed(&agreed.document.target)));
    let folder = agreed.folder.clone();
    let how = Part { own: Arc::clone(own), run: run.to_owned(), words }.go(agreed).await;
    own.tell(&format!("run {run} {how}"));
    let _ = std::fs::remove_dir_all(folder);
}

/// The plan of a run, checked.
async fn fetch(own: &Own, run: &str) -> Result<Agreed, String> {
    let bytes = own.link.last(run, &subject::word(run, "plan")).await?.ok_or("the run has no plan")?;
    let document = Document::read(&bytes).ok_or("the run's plan is none that it knows")?;
    let options = &own.options;
    if document.version != options.version {
        let theirs = crate::message::tamed(&document.version);
        return Err(format!("it is version {}, and the run is of {theirs}: install the same on both", options.version));
    }
    let mut plan = document.open(run, options.token.as_ref())?;
    // Of all agents together, which the controller sees.
    plan.abort_when.clear();
    let (allowed, shown) = (options.allowed.clone(), plan.clone());
    let checked = tokio::task::spawn_blocking(move || allow::check(&allowed, &shown)).await;
    checked.map_err(|_| "its targets could not be looked up".to_owned())??;
    observing::check(options, &document).await?;
    if let (Some(most), Pace::Closed { .. } | Pace::Held { .. } | Pace::Burst { .. }) = (options.rate_max, &plan.pace) {
        return Err(format!(
            "its owner allows {most} requests a second (--rate-max), and this load has no rate (--rate)"
        ));
    }
    let folder = options.folder.join(format!("{run}-{}", options.name));
    state::made(&folder).map_err(|error| error.to_string())?;
    for (index, file) in document.files.iter().enumerate() {
        let parts = file_parts(own, run, index, file.chunks).await?;
        document.put_file(&mut plan, run, index, &parts, options.token.as_ref(), &folder)?;
    }
    Ok(Agreed { document, plan, folder })
}

/// The sealed parts of a file of data.
async fn file_parts(own: &Own, run: &str, index: usize, chunks: u64) -> Result<Vec<Vec<u8>>, String> {
    if chunks > FILES_BYTES_MAX.div_ceil(CHUNK_BYTES as u64) + 1 {
        return Err("the plan's data are more than it takes".to_owned());
    }
    let stream = own.link.streams.get_stream_no_info(subject::stream(run)).await.map_err(|error| error.to_string())?;
    let (subject, mut parts, mut next) = (subject::file(run, index), Vec::new(), 1);
    while (parts.len() as u64) < chunks {
        let found = stream.raw_message_builder().sequence(next).next_by_subject(subject.clone()).send().await;
        let message = found.map_err(|error| format!("the plan's data are not there: {error}"))?;
        next = message.sequence + 1;
        parts.push(message.payload.to_vec());
    }
    Ok(parts)
}

/// The whole plan for so many workers: each has as much room for requests that wait as all had together, divided.
pub(crate) fn of_workers(plan: &Plan, workers: u16) -> Plan {
    let mut whole = plan.clone();
    let all = u64::from(plan.queue_capacity).saturating_mul(u64::from(plan.threads.max(1)));
    whole.queue_capacity = u32::try_from(all.div_ceil(u64::from(workers.max(1)))).unwrap_or(u32::MAX).max(1);
    whole.threads = workers;
    whole
}

/// What ends a load before its time.
struct Ends<'a> {
    /// It was told to end.
    early: &'a AtomicBool,
    /// Enough was seen of it.
    enough: &'a AtomicBool,
}

/// The way to the load that waits for its beginning, and when that was, on the agent's own CLOCK_MONOTONIC, nanoseconds.
struct Beginning<'a> {
    word: &'a std::sync::mpsc::Sender<Option<Moment>>,
    began: &'a OnceLock<i64>,
}

/// What it takes on of the shares of others.
struct TakenOn {
    /// The time after which one counts as lost; `None`: no share is dealt anew.
    lost_after: Option<Duration>,
    /// At most so many times its own share.
    factor_max: f64,
    /// From when on it puts on how many times its own.
    rate: Arc<Mutex<Option<(u64, f64)>>>,
}

impl TakenOn {
    /// No more than its owner allows, whoever says so.
    fn begin(&self, from_ns: u64, factor: f64) {
        if self.lost_after.is_none() {
            return;
        }
        let factor = factor.min(self.factor_max);
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some((from_ns, factor));
    }
}

/// An agent's part in a run.
struct Part {
    own: Arc<Own>,
    run: String,
    words: Subscriber,
}

impl Part {
    /// To its end; says in words how it ended.
    async fn go(mut self, agreed: Agreed) -> String {
        let Agreed { document, plan, folder } = agreed;
        let name = self.own.options.name.clone();
        let (outbox, deliverer) = Outbox::new(&self.own, &self.run);
        let (way, load_ended) = (Arc::clone(&deliverer.way), Arc::new(Mutex::new(None)));
        let delivering = tokio::spawn(deliverer.deliver(Arc::clone(&load_ended)));
        let Some(deal) = self.word::<Deal>("deal", AGREED_FOR, &way).await else {
            return "was not begun: the word who does what did not come".to_owned();
        };
        let share = deal.shares.iter().find(|share| share.agent == name).cloned();
        let (Some(share), Some(workers)) = (share, deal.workers()) else { return "goes on without it".to_owned() };
        let mut whole = of_workers(&plan, workers);
        let mut driver_reason = document.driver_reason.clone();
        if matches!(whole.driver, DriverKind::Uring | DriverKind::Rings) && engine::driver::uring::available().is_err()
        {
            whole.driver = DriverKind::Epoll;
            driver_reason = "io_uring is not available on the agent's machine".to_owned();
        }
        let range = share.range();
        let part = engine::plan_of(&whole, &range);
        if let Err(why) = self.within_limits(&part) {
            outbox.state(State::Failed { why: why.clone() });
            drop(outbox);
            let _ = delivering.await;
            return format!("refused: {why}");
        }
        // Of all of them the first reads the target's machine, and its readings are the result's.
        let observing = match share.first {
            0 => Observing::begin(&self.own, &document).await,
            _ => Ok(Observing::default()),
        };
        let observing = match observing {
            Ok(observing) => observing,
            Err(why) => {
                outbox.state(State::Failed { why: why.clone() });
                drop(outbox);
                let _ = delivering.await;
                return format!("cannot see the target: {why}");
            }
        };
        let path = folder.with_extension(store::EXTENSION);
        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            record: RecordTo::File(path.clone()),
            command: document.command.clone(),
            record_secrets: false,
            version: self.own.options.version.clone(),
            driver_reason,
            observe: document.observe,
            probes: observing.probes,
            observe_at: observing.at.clone(),
            behind: observing.behind.clone(),
            interrupted: Arc::clone(&stop),
        };
        let enough = Arc::new(AtomicBool::new(false));
        let has_enough = Arc::clone(&enough);
        let factor_max = self.factor_max(&part);
        let rate = Arc::new(Mutex::new(None));
        let taken_on = TakenOn {
            lost_after: (document.on_lost == OnLost::Redistribute)
                .then_some(Duration::from_nanos(document.lost_after_ns)),
            // All of the load at the most, where it alone is left.
            factor_max: factor_max.unwrap_or(f64::INFINITY).min(f64::from(workers) / f64::from(share.workers.max(1))),
            rate: Arc::clone(&rate),
        };
        let (begin, to_begin) = channel::<Option<Moment>>();
        let (ended, mut has_ended) = tokio::sync::oneshot::channel::<Result<(), String>>();
        let (of_load, kept_at) = (outbox.clone(), path.display().to_string());
        let began = Arc::new(OnceLock::new());
        let has_begun = Arc::clone(&began);
        let telling = outbox.clone();
        let rendezvous =
            Arc::new(Rendezvous::among_others(share.workers, move |round| telling.state(State::Met { round })));
        let mut bursts = Bursts::of(&whole, &document, Arc::clone(&rendezvous), outbox.clone());
        let thread = std::thread::Builder::new().name("run".to_owned()).spawn(move || {
            let mut watch =
                Carrier { outbox: of_load.clone(), packer: Packer::default(), row: None, is_enough: has_enough, rate };
            let when = || {
                of_load.state(State::Ready { capsule: Box::new(observe::capsule()), kept_at, factor_max });
                let at_ns = wait_for_word(&to_begin, &of_load)?;
                let _ = has_begun.set(at_ns);
                u64::try_from(at_ns).ok()
            };
            let outcome = session::run_among_others(part, &options, &mut watch, |_| {
                Fleet::start_part(&whole, &range, rendezvous, when)
            });
            let outcome = match outcome {
                Ok(outcome) => outcome.recording_error.map_or(Ok(()), |error| Err(error.to_string())),
                Err(error) => Err(error.to_string()),
            };
            let _ = ended.send(outcome);
        });
        if let Err(error) = thread {
            outbox.state(State::Failed { why: format!("no thread for the load: {error}") });
            return format!("was not begun: {error}");
        }
        let ends = Ends { early: &stop, enough: &enough };
        let beginning = Beginning { word: &begin, began: &began };
        let outcome = self.follow(&beginning, &ends, &taken_on, &mut bursts, &mut has_ended, &way).await;
        // It can tell no more: nobody is to wait for it at the end of the line.
        drop(bursts);
        *load_ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.own.set(Doing::Delivering, Some(&self.run));
        if let Err(why) = &outcome {
            outbox.state(State::Failed { why: why.clone() });
        }
        if began.get().is_some() {
            outbox.recording(path.clone());
        }
        drop(outbox);
        let is_whole = self.until_delivered(delivering, &way).await;
        if !is_whole {
            // Its last word: it is not lost, and will not hand over more.
            self.own.set(Doing::Idle, None);
            self.say_alive(&way).await;
            self.own.link.flush().await;
        }
        match outcome {
            _ if began.get().is_some() && !is_whole => {
                let why = way.trouble().unwrap_or_default();
                format!("has ended, and its recording could not be handed over ({why}): it is {}", path.display())
            }
            Ok(()) => {
                // NATS has acknowledged all of it.
                let _ = std::fs::remove_file(&path);
                "has ended, and its recording is handed over".to_owned()
            }
            Err(why) => format!("failed: {why}"),
        }
    }

    /// Whether its owner allows its share.
    fn within_limits(&self, part: &Plan) -> Result<(), String> {
        let options = &self.own.options;
        if let Some(most) = options.connections_max.filter(|most| part.connections > *most) {
            return Err(format!(
                "its owner allows {most} connections (--connections-max), and its share has {}",
                part.connections
            ));
        }
        if let (Some(most), Pace::Open { profile, .. }) = (options.rate_max, &part.pace) {
            let peak = peak_per_s(profile);
            if peak > most {
                return Err(format!(
                    "its owner allows {most} requests a second (--rate-max), and its share has {peak:.0}"
                ));
            }
        }
        Ok(())
    }

    /// How many times its share its owner allows; `None`: any.
    fn factor_max(&self, part: &Plan) -> Option<f64> {
        let Pace::Open { profile, .. } = &part.pace else { return None };
        let peak = peak_per_s(profile);
        self.own.options.rate_max.filter(|_| peak > 0.0).map(|most| (most / peak).max(1.0))
    }

    /// A word of the controller's: as it is said, or from the stream where it was missed. `None`: it was not said in time.
    async fn word<T: for<'de> serde::Deserialize<'de>>(
        &mut self,
        word: &str,
        within: Duration,
        way: &Way,
    ) -> Option<T> {
        let (subject, asked_at) = (subject::word(&self.run, word), Instant::now());
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.tick().await;
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        while asked_at.elapsed() < within && !self.own.has_left(&self.run) && !self.is_to_end() {
            tokio::select! {
                Some(message) = self.words.next() => {
                    if *message.subject == *subject && let Some(word) = read(&message.payload) {
                        return Some(word);
                    }
                }
                _ = look.tick() => {
                    if let Ok(Some(bytes)) = self.own.link.last(&self.run, &subject).await {
                        return read(&bytes);
                    }
                }
                _ = alive.tick() => self.say_alive(way).await,
            }
        }
        None
    }

    fn is_to_end(&self) -> bool {
        self.own.options.interrupted.load(Ordering::Relaxed)
    }

    /// While the load is prepared and put on: passes the words to begin and to stop on.
    async fn follow(
        &mut self,
        beginning: &Beginning<'_>,
        ends: &Ends<'_>,
        taken_on: &TakenOn,
        bursts: &mut Option<Bursts>,
        ended: &mut tokio::sync::oneshot::Receiver<Result<(), String>>,
        way: &Way,
    ) -> Result<(), String> {
        let Beginning { word: begin, began } = *beginning;
        let (begins, stops) = (subject::word(&self.run, "begin"), subject::word(&self.run, "stop"));
        // One that takes NATS' answers for a lease asks often enough to have several within it.
        let look_every = taken_on.lost_after.map_or(LOOK_EVERY, |after| LOOK_EVERY.min(after / LOOKS_WITHIN_LOST));
        let mut look = tokio::time::interval(look_every);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        let (mut is_told, since) = (false, Instant::now());
        // When NATS answered last; the number of the second deal that is next; why it puts on nothing any more.
        let (mut answered, mut redeals, mut is_out) = (Instant::now(), 0, None);
        loop {
            let mut word: Option<(bool, Vec<u8>)> = None;
            let mut redeal: Option<(usize, Vec<u8>)> = None;
            let mut release: Option<(u32, Vec<u8>)> = None;
            tokio::select! {
                outcome = &mut *ended => {
                    if let Some(why) = is_out {
                        return Err(why);
                    }
                    return outcome.unwrap_or_else(|_| Err("a thread of it ended by a panic: please report this".to_owned()));
                }
                Some(message) = self.words.next() => {
                    if *message.subject == *begins || *message.subject == *stops {
                        word = Some((*message.subject == *begins, message.payload.to_vec()));
                    }
                    if let Some(What::Word(word)) = subject::what(&self.run, &message.subject)
                        && let Some(number) = subject::redeal_of(word).filter(|number| *number >= redeals)
                    {
                        redeal = Some((number, message.payload.to_vec()));
                    }
                    if let Some(What::Word(word)) = subject::what(&self.run, &message.subject)
                        && let Some(round) = subject::release_of(word)
                    {
                        release = Some((round, message.payload.to_vec()));
                    }
                }
                _ = look.tick() => {
                    let subject = if is_told { &stops } else { &begins };
                    // Where NATS does not answer the load goes on; it is asked again.
                    let last = tokio::time::timeout(look_every, self.own.link.last(&self.run, subject)).await;
                    if matches!(last, Ok(Ok(_))) {
                        answered = Instant::now();
                    }
                    if is_told && taken_on.lost_after.is_some() {
                        let next = subject::word(&self.run, &subject::redeal(redeals));
                        let found = tokio::time::timeout(look_every, self.own.link.last(&self.run, &next)).await;
                        if matches!(found, Ok(Ok(_))) {
                            answered = Instant::now();
                        }
                        redeal = found.ok().and_then(Result::ok).flatten().map(|bytes| (redeals, bytes));
                    }
                    if is_told && let Some(next) = bursts.as_ref().and_then(Bursts::awaited) {
                        let word = subject::word(&self.run, &subject::release(next));
                        let found = tokio::time::timeout(look_every, self.own.link.last(&self.run, &word)).await;
                        release = found.ok().and_then(Result::ok).flatten().map(|bytes| (next, bytes));
                    }
                    word = last.ok().and_then(Result::ok).flatten().map(|bytes| (!is_told, bytes));
                }
                _ = alive.tick() => self.say_alive(way).await,
            }
            if began.get().is_some() && self.own.now().doing == Doing::Agreed {
                self.own.set(Doing::Running, Some(&self.run));
            }
            match word {
                Some((true, bytes)) if !is_told => {
                    let moment =
                        read::<Moments>(&bytes).and_then(|said| said.moments.get(&self.own.options.name).copied());
                    is_told = true;
                    let _ = begin.send(moment);
                }
                Some((false, bytes)) => {
                    let said = read::<Stop>(&bytes).unwrap_or(Stop { why: String::new(), is_enough: false });
                    if said.is_enough {
                        ends.enough.store(true, Ordering::Relaxed);
                    } else if !ends.early.swap(true, Ordering::Relaxed) {
                        self.own.tell(&format!("run {} is stopped: {}", self.run, crate::message::tamed(&said.why)));
                    }
                    let _ = begin.send(None);
                }
                _ => {}
            }
            if let Some((number, bytes)) = redeal
                && let Some(said) = read::<Redeal>(&bytes).filter(Redeal::is_sound)
            {
                redeals = number + 1;
                if said.lost.contains(&self.own.options.name) {
                    is_out.get_or_insert_with(|| "it was taken for lost, and the others put on its share".to_owned());
                } else if let Some(factor) = said.factors.get(&self.own.options.name) {
                    taken_on.begin(said.from_ns, *factor);
                }
            }
            if let (Some(bursts), Some(origin_ns)) = (bursts.as_mut(), began.get()) {
                let name = &self.own.options.name;
                let why = release.and_then(|(round, bytes)| bursts.release(round, &bytes, name, *origin_ns));
                is_out = is_out.or(why).or_else(|| bursts.waited_in_vain());
            }
            if let Some(after) = taken_on.lost_after
                && began.get().is_some()
                && answered.elapsed() > after.mul_f64(CUT_OFF_SHARE)
            {
                let cut_off = answered.elapsed().as_secs_f64();
                is_out.get_or_insert_with(|| {
                    format!("it was cut off from NATS for {cut_off:.1} s and has ended its load, as the others are to put on its share")
                });
            }
            if let Some(why) = &is_out
                && !ends.enough.swap(true, Ordering::Relaxed)
            {
                self.own.tell(&format!("run {}: {why}", self.run));
            }
            if self.is_to_end() {
                ends.early.store(true, Ordering::Relaxed);
                let _ = begin.send(None);
            }
            if !is_told && (since.elapsed() > AGREED_FOR || self.own.has_left(&self.run)) {
                is_told = true;
                let _ = begin.send(None);
            }
        }
    }

    async fn until_delivered(&self, mut delivering: tokio::task::JoinHandle<bool>, way: &Way) -> bool {
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        loop {
            tokio::select! {
                done = &mut delivering => return done.unwrap_or(false),
                _ = alive.tick() => self.say_alive(way).await,
            }
        }
    }

    async fn say_alive(&self, way: &Way) {
        let alive = Alive { agent: self.own.options.name.clone(), doing: self.own.now().doing, trouble: way.trouble() };
        // One that is lost is followed by another.
        let _ = self.own.link.client.publish(subject::alive(&self.run), write(&alive).into()).await;
    }
}

/// The highest rate of a profile, requests a second.
fn peak_per_s(profile: &[Segment]) -> f64 {
    profile.iter().map(|segment| segment.from_per_s.max(segment.to_per_s)).fold(0.0, f64::max)
}

/// Waits for the word to begin, and then for the moment. `None`: the load is not to begin.
fn wait_for_word(to_begin: &Receiver<Option<Moment>>, outbox: &Outbox) -> Option<i64> {
    let moment = to_begin.recv().ok()??;
    let now_ns = monotonic_ns();
    // A moment that is far off is none that a controller of ours would say.
    let wait_ns = u64::try_from(moment.at_ns.saturating_sub(now_ns)).unwrap_or(0);
    if Duration::from_nanos(wait_ns) > 20 * BEGIN_AFTER {
        return None;
    }
    std::thread::sleep(Duration::from_nanos(wait_ns));
    let late_ns = u64::try_from(monotonic_ns().saturating_sub(moment.at_ns)).unwrap_or(0);
    let is_late = Duration::from_nanos(late_ns) > LATE_MAX;
    let at_ns = if is_late { monotonic_ns() } else { moment.at_ns };
    outbox.state(State::Began { at_ns, late_ns });
    Some(at_ns)
}

/// Sees the run while it goes, and hands its ticks over.
struct Carrier {
    outbox: Outbox,
    packer: Packer,
    row: Option<Row>,
    is_enough: Arc<AtomicBool>,
    /// A wish for another rate.
    rate: Arc<Mutex<Option<(u64, f64)>>>,
}

impl Watch for Carrier {
    fn on_tick(&mut self, row: &Row, _plan: &Plan) {
        self.row = Some(*row);
    }

    fn on_event(&mut self, _event: &Event) {}

    fn is_enough(&self) -> bool {
        self.is_enough.load(Ordering::Relaxed)
    }

    fn rate_from(&mut self) -> Option<(u64, f64)> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn on_interval(&mut self, interval: &Interval<u32>, _plan: &Plan) {
        if let Some(row) = self.row.take()
            && let Ok(bytes) = self.packer.pack(interval, &row)
        {
            self.outbox.tick(bytes);
        }
    }
}
