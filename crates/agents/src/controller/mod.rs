//! The controller of a run: finds agents, deals the shares, says when to begin, follows, and makes one result.
//!
//! Everything it decides lies in the run's stream before it counts: plan, shares, the word to begin. So another controller
//! ([`attach`]) finds all of it there and goes on; of two that do the same at once the first word of a kind stands, as NATS takes only
//! one. What it holds beside that, it can make again. Of a series of loads each is a run of its own ([`Team`]).

mod company;
mod faults;
mod follow;
mod gather;
mod joint;
mod reading;
mod redeal;
mod release;
mod result;
mod team;

use crate::clock;
use crate::document::{Asked, Document, OnLost, Parts};
use crate::error::AgentsError;
use crate::limits::{
    AGENTS_MAX, BEGIN_AFTER, DECISIVE_TICKS_WAITING_MAX, LOST_AFTER_MIN, PROTOCOL, READY_WITHIN, STREAM_AGE_MAX,
    TICKS_SHOWN_WAITING_MAX, WHO_FOR,
};
use crate::link::{Link, Nats, fresh, runtime};
use crate::message::{Card, Done, Moment, Moments, Stop, Take, tamed, write};
use crate::observers::{self, Observer};
use crate::subject;
pub use company::{Company, Member};
use follow::Follower;
use futures_util::TryStreamExt;
use gather::{dealt, gathered};
use model::Plan;
use remote::offset::Estimate;
use remote::{Token, monotonic_ns};
use session::faults::{Ready, Setup};
use session::generators::MergeError;
use session::{Outcome, RecordTo, RunError, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
pub use team::{Team, TeamSpec};

/// An agent as the list has it.
#[derive(Debug)]
pub struct Listed {
    /// What it says of itself.
    pub card: Card,
    /// Its clock less ours; `None`: it did not answer.
    pub clock: Option<Estimate>,
}

/// A run whose stream is there.
#[derive(Debug)]
pub struct Open {
    /// Its name.
    pub run: String,
    /// Where its load goes, in words.
    pub target: String,
    /// Agents it wants.
    pub agents: u16,
    /// When it was asked for, nanoseconds since 1970.
    pub written_at_unix_ns: u64,
}

/// How a run is conducted.
pub struct Conduct<'w> {
    /// Where the recording goes.
    pub record: RecordTo,
    /// How long agents are waited for.
    pub wait: Duration,
    /// The tool's version.
    pub version: String,
    /// Becomes true when the run is to end early.
    pub interrupted: Arc<AtomicBool>,
    /// Says what happens.
    pub tell: fn(&str),
    /// Sees the run while it goes.
    pub watch: &'w mut dyn Watch,
    /// What the plan's faults need beside it.
    pub faults: Setup,
    /// It is one load of a series: the agents of the load before, which put this one on if they are to be had. `None`: it is alone.
    pub series: Option<Vec<String>>,
    /// Its place among loads that are put on together; `None`: it is alone.
    pub company: Option<Member>,
}

impl Conduct<'_> {
    /// Asked before anything is put on: of a load that is over, what was measured would have no place.
    fn has_room_for_its_recording(&self) -> Result<(), AgentsError> {
        match &self.record {
            RecordTo::File(path) if path.exists() => Err(MergeError::Exists(path.clone()).into()),
            RecordTo::File(_) | RecordTo::Folder(_) | RecordTo::Nothing => Ok(()),
        }
    }
}

impl std::fmt::Debug for Conduct<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conduct").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Conduct<'_> {
    fn check(&self) -> Result<(), AgentsError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(AgentsError::Interrupted) } else { Ok(()) }
    }
}

/// The agents that are there, with each one's clock, and the observers.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached.
pub fn list(nats: &Nats) -> Result<(Vec<Listed>, Vec<Observer>), AgentsError> {
    runtime()?.block_on(async {
        let link = nats.connect("plimsoll agents").await?;
        let (cards, observers) = tokio::join!(who(&link, 2 * WHO_FOR, &[]), observers::who(&link, 2 * WHO_FOR, None));
        if cards.is_empty() && observers.is_empty() {
            link.permitted()?;
        }
        let mut listed = Vec::new();
        for card in cards {
            let clock = clock::measure(&link, &card.name).await;
            listed.push(Listed { card, clock });
        }
        Ok((listed, observers))
    })
}

/// The runs that go on, or that nobody came back to.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached, or has no JetStream.
pub fn open_runs(nats: &Nats) -> Result<Vec<Open>, AgentsError> {
    runtime()?.block_on(async {
        let link = nats.connect("plimsoll attach").await?;
        let names: Vec<String> = link.streams.stream_names().try_collect().await.map_err(|error| {
            link.permitted().err().unwrap_or_else(|| AgentsError::stream("a list of streams", error))
        })?;
        let mut found = Vec::new();
        for run in names.iter().filter_map(|name| subject::run_of(name)) {
            let Ok(Some(bytes)) = link.last(run, &subject::word(run, "plan")).await else { continue };
            if let Some(document) = Document::read(&bytes) {
                let Document { target, agents, written_at_unix_ns, .. } = document;
                found.push(Open { run: run.to_owned(), target: tamed(&target), agents, written_at_unix_ns });
            }
        }
        Ok(found)
    })
}

/// What a run came to.
#[derive(Debug)]
pub struct RunResult {
    /// The result.
    pub outcome: Outcome,
    /// The agents that put it on.
    pub agents: Vec<String>,
    /// What NATS still has of it: to be dropped when the result is out, so that until then whoever is killed has lost nothing.
    pub stream: RunStream,
}

/// What NATS still has of a run whose result is here. Dropped, it is taken away; until then `attach` comes to the same result.
pub struct RunStream {
    runtime: tokio::runtime::Runtime,
    link: Link,
    run: String,
    tell: fn(&str),
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        // Who panics has not said what came of the run.
        if !std::thread::panicking() {
            self.runtime.block_on(done_with(&self.link, &self.run, self.tell));
        }
    }
}

/// Puts a plan on by agents, and makes one result of what they measured.
///
/// # Errors
/// [`AgentsError`], with nothing put on; or where of what was put on nothing came back.
pub fn load(
    nats: &Nats,
    plan: &Plan,
    asked: Asked,
    token: Option<&Token>,
    mut conduct: Conduct<'_>,
) -> Result<RunResult, AgentsError> {
    let agents = usize::from(asked.agents);
    if !(1..=AGENTS_MAX).contains(&agents) {
        return Err(AgentsError::Usage(format!("--agents: expected from 1 to {AGENTS_MAX}, got {agents}")));
    }
    if (plan.connections as usize) < agents {
        return Err(AgentsError::Usage(format!(
            "expected at least a connection for each of {agents} agents, got {}: use more connections (-c) or fewer agents",
            plan.connections
        )));
    }
    if asked.workers.is_some_and(|workers| usize::from(workers) < agents) {
        return Err(AgentsError::Usage(
            "expected at least a worker for each agent: use more (--threads) or fewer agents".to_owned(),
        ));
    }
    if let (OnLost::Redistribute, Some(why)) = (asked.on_lost, redeal::unfit(plan)) {
        return Err(AgentsError::Usage(why.to_owned()));
    }
    if asked.on_lost == OnLost::Redistribute && Duration::from_nanos(asked.lost_after_ns) < LOST_AFTER_MIN {
        return Err(AgentsError::Usage(format!(
            "--lost-after: expected {} s at the least with --on-lost redistribute, got {:.1} s: signs of life are too seldom for less",
            LOST_AFTER_MIN.as_secs(),
            asked.lost_after_ns as f64 / 1e9
        )));
    }
    conduct.has_room_for_its_recording()?;
    // Every load's plan names them, and they are done once.
    let faults = match conduct.company.as_ref().is_none_or(Member::is_main) {
        true => Ready::check(plan, &conduct.faults).map_err(RunError::Fault)?,
        false => None,
    };
    let (run, bytes_max) = (fresh(), asked.stream_bytes_max);
    let (document, files) = Document::new(plan, &run, asked, token).map_err(AgentsError::Usage)?;
    let runtime = runtime()?;
    let (link, (outcome, agents)) = runtime.block_on(async {
        let link = nats.connect("plimsoll load").await?;
        let bytes = link.make_stream(&run, bytes_max).await?;
        if bytes < bytes_max && conduct.series.is_none() {
            (conduct.tell)(&format!(
                "NATS has no room for {} MiB (--stream-max): what agents hand over of this run may take {} MiB there",
                bytes_max >> 20,
                bytes >> 20
            ));
        }
        if let Err(error) = publish(&link, &run, &document, files).await {
            remove(&link, &run, conduct.tell).await;
            return Err(error);
        }
        if conduct.series.is_none() {
            let of = conduct.company.as_ref().map_or(String::new(), |own| format!(" (load '{}')", own.name()));
            (conduct.tell)(&format!("run {run}{of}: `plimsoll attach {run}` takes over if this process ends"));
        }
        let had = conducted(&link, &run, document, faults, &mut conduct).await?;
        Ok::<_, AgentsError>((link, had))
    })?;
    Ok(RunResult { outcome, agents, stream: RunStream { runtime, link, run, tell: conduct.tell } })
}

/// Takes a run over: whatever its controller had come to, this one goes on from there. Its faults are the other one's.
///
/// # Errors
/// As [`load`]; [`AgentsError::NoRun`].
pub fn attach(nats: &Nats, run: &str, mut conduct: Conduct<'_>) -> Result<RunResult, AgentsError> {
    let none = || AgentsError::NoRun(tamed(run));
    if !crate::message::is_name(run) {
        return Err(none());
    }
    let runtime = runtime()?;
    let (link, (outcome, agents)) = runtime.block_on(async {
        let link = nats.connect("plimsoll attach").await?;
        let bytes = link.last(run, &subject::word(run, "plan")).await.ok().flatten().ok_or_else(none)?;
        let document = Document::read(&bytes).ok_or_else(|| {
            AgentsError::Usage(format!(
                "run {run} was asked for by another version, whose plan this one does not know: use that one"
            ))
        })?;
        conduct.has_room_for_its_recording()?;
        let had = conducted(&link, run, document, None, &mut conduct).await?;
        Ok::<_, AgentsError>((link, had))
    })?;
    Ok(RunResult { outcome, agents, stream: RunStream { runtime, link, run: run.to_owned(), tell: conduct.tell } })
}

/// The agents that answer within a time, each once, by name; not longer than until all of `names` have, where there are any.
pub(crate) async fn who(link: &Link, within: Duration, names: &[String]) -> Vec<Card> {
    let mut found: BTreeMap<(String, String), Card> = BTreeMap::new();
    link.ask_all(subject::WHO, within, |card: Card| {
        if card.is_sound() {
            found.insert((card.name.clone(), card.instance.clone()), card);
        }
        !names.is_empty() && names.iter().all(|name| found.keys().any(|(known, _)| known == name))
    })
    .await;
    found.into_values().collect()
}

/// Lays a plan into the stream of its run.
async fn publish(link: &Link, run: &str, document: &Document, files: Vec<Parts>) -> Result<(), AgentsError> {
    let failed = |why: String| AgentsError::stream("to keep the plan", why);
    for (index, Parts(parts)) in files.into_iter().enumerate() {
        for (at, part) in parts.into_iter().enumerate() {
            let id = format!("{run}/file/{index}/{at}");
            link.put_patiently(&subject::file(run, index), &id, part).await.map_err(failed)?;
        }
    }
    link.put_first(&subject::word(run, "plan"), write(document)).await.map_err(failed).map(drop)
}

/// From a plan in its stream to the result. What is not put on leaves nothing behind.
async fn conducted(
    link: &Link,
    run: &str,
    document: Document,
    faults: Option<Ready>,
    conduct: &mut Conduct<'_>,
) -> Result<(Outcome, Vec<String>), AgentsError> {
    // Where something is decided by ticks, those of all agents are waited for.
    let is_decisive = conduct.series.is_some() || !document.shown.abort_when.is_empty();
    let waiting_max = if is_decisive { DECISIVE_TICKS_WAITING_MAX } else { TICKS_SHOWN_WAITING_MAX };
    let mut follower = Follower::new(link, run, document, waiting_max).await?;
    follower.catch_up().await?;
    let mut agreed = Vec::new();
    if let Err(error) = begun(link, run, &mut follower, faults, conduct, &mut agreed).await {
        let stop = Stop { why: error.to_string(), is_enough: false };
        let _ = link.put(&subject::word(run, "stop"), &format!("{run}/stop"), write(&stop)).await;
        // Also those whose shares were not read back.
        let names: BTreeSet<String> = follower.names().into_iter().chain(agreed).collect();
        for name in names {
            leave(link, run, &name, &conduct.version).await;
        }
        remove(link, run, conduct.tell).await;
        return Err(error);
    }
    let followed = follower.follow_to_end(conduct).await;
    // Where another command has its result, it is over, and the others go on.
    if let Some(company) =
        conduct.company.as_ref().filter(|_| matches!(followed, Ok(()) | Err(AgentsError::TakenAway(_))))
    {
        let faults = company.has_followed().await;
        follower.events.extend(faults);
    }
    followed?;
    let made = result::made(&follower, conduct);
    let is_nothing = matches!(made, Err(AgentsError::Nothing(_))) && follower.has_everything();
    if is_nothing {
        done_with(link, run, conduct.tell).await;
    }
    match made {
        Err(AgentsError::Nothing(_)) if is_nothing && conduct.check().is_err() => Err(AgentsError::Interrupted),
        made => Ok((made?, follower.names())),
    }
}

/// The result is out, or there was nothing: NATS need keep nothing. Who follows the run as well is told so.
async fn done_with(link: &Link, run: &str, tell: fn(&str)) {
    let done = Done { done: run.to_owned() };
    let _ = link.client.publish(subject::alive(run), write(&done).into()).await;
    link.flush().await;
    remove(link, run, tell).await;
}

/// Leaves nothing of a run behind, or says what is left.
async fn remove(link: &Link, run: &str, tell: fn(&str)) {
    if !link.remove_stream(run).await {
        tell(&format!(
            "NATS did not take away what it had of run {run}: it goes by itself within {} h, or by `nats stream rm {}`",
            STREAM_AGE_MAX.as_secs() / 3600,
            subject::stream(run)
        ));
    }
}

/// Deals and begins, unless that was done; `names`: of agents that have agreed with this controller.
async fn begun(
    link: &Link,
    run: &str,
    follower: &mut Follower,
    faults: Option<Ready>,
    conduct: &mut Conduct<'_>,
    names: &mut Vec<String>,
) -> Result<(), AgentsError> {
    let failed = |why: String| AgentsError::stream("to keep what was dealt", why);
    if follower.deal().is_none() {
        if let Some(company) = &conduct.company {
            company.turn(conduct).await?;
        }
        let agreed = gathered(link, run, &follower.document, conduct).await?;
        if let Some(company) = &conduct.company {
            company.has_gathered();
        }
        names.extend(agreed.iter().map(|(name, _)| name.clone()));
        let deal = dealt(&agreed, &follower.document);
        if !link.put_first(&subject::word(run, "deal"), write(&deal)).await.map_err(failed)? {
            (conduct.tell)("another controller has dealt: this one follows");
        }
        follower.until(READY_WITHIN, conduct, |follower| follower.deal().is_some()).await?;
    }
    if follower.begin().is_none() {
        follower.until(READY_WITHIN, conduct, |follower| follower.are_all_ready_or_failed()).await?;
        if let Some(why) = follower.why_not_ready() {
            return Err(AgentsError::NotReady(why));
        }
        if let Some(company) = &conduct.company {
            company.until_all_ready(conduct).await?;
        }
        let clocks = clock::measure_all(link, follower.names()).await;
        let clocks = clocks.map_err(|name| AgentsError::NotReady(format!("the clock of '{name}' does not answer")))?;
        conduct.check()?;
        let at_ns = match &conduct.company {
            Some(company) => company.moment_ns(conduct).await?,
            None => monotonic_ns().saturating_add_unsigned(BEGIN_AFTER.as_nanos() as u64),
        };
        let begin = moments(&clocks, at_ns);
        if link.put_first(&subject::word(run, "begin"), write(&begin)).await.map_err(failed)? {
            follower.start_faults(faults, at_ns)?;
        }
        follower.until(READY_WITHIN, conduct, |follower| follower.begin().is_some()).await?;
    }
    if let Some(company) = &conduct.company {
        company.may_begin();
    }
    Ok(())
}

/// A moment of the controller's clock, on each agent's own.
fn moments(clocks: &[(String, Estimate)], at_ns: i64) -> Moments {
    let moment = |(name, clock): &(String, Estimate)| {
        let Estimate { offset_ns, bound_ns } = *clock;
        (name.clone(), Moment { at_ns: at_ns.saturating_add(offset_ns), offset_ns, bound_ns })
    };
    Moments { moments: clocks.iter().map(moment).collect() }
}

async fn leave(link: &Link, run: &str, name: &str, version: &str) {
    let take = Take { run: run.to_owned(), version: version.to_owned(), protocol: PROTOCOL };
    let _ = link.client.publish(subject::leave(name), write(&take).into()).await;
}
