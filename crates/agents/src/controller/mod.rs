//! The controller of a run: finds agents, deals the shares, says when to begin, follows, and makes one result.
//!
//! Everything it decides lies in the run's stream before it counts: plan, shares, the word to begin. So another controller
//! ([`attach`]) finds all of it there and goes on; of two that do the same at once the first word of a kind stands, as NATS takes only
//! one. What it holds beside that, it can make again.

mod follow;
mod result;

use crate::clock;
use crate::document::{Asked, Document, Parts};
use crate::error::AgentsError;
use crate::limits::{AGENTS_MAX, ANSWER_WITHIN, BEGIN_AFTER, PROTOCOL, READY_WITHIN, STREAM_AGE_MAX, WHO_FOR};
use crate::link::{Link, Nats, fresh, runtime};
use crate::message::{Begin, Card, Deal, Doing, Moment, ShareOf, Stop, Take, Taken, read, tamed, write};
use crate::subject;
use follow::Follower;
use futures_util::{StreamExt, TryStreamExt};
use model::Plan;
use remote::offset::Estimate;
use remote::{Token, monotonic_ns};
use session::{Outcome, RecordTo, Watch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between two looks for agents.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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

/// Who is there, with each one's clock.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached.
pub fn list(nats: &Nats) -> Result<Vec<Listed>, AgentsError> {
    runtime()?.block_on(async {
        let link = nats.connect("plimsoll agents").await?;
        let mut listed = Vec::new();
        for card in who(&link, 2 * WHO_FOR).await {
            let clock = clock::measure(&link, &card.name).await;
            listed.push(Listed { card, clock });
        }
        Ok(listed)
    })
}

/// The runs that go on, or that nobody came back to.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached, or has no JetStream.
pub fn open_runs(nats: &Nats) -> Result<Vec<Open>, AgentsError> {
    runtime()?.block_on(async {
        let link = nats.connect("plimsoll attach").await?;
        let names: Vec<String> = link
            .streams
            .stream_names()
            .try_collect()
            .await
            .map_err(|error| AgentsError::stream("a list of streams", error))?;
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
) -> Result<Outcome, AgentsError> {
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
    let (run, bytes_max) = (fresh(), asked.stream_bytes_max);
    let (document, files) = Document::new(plan, &run, asked, token).map_err(AgentsError::Usage)?;
    runtime()?.block_on(async {
        let link = nats.connect("plimsoll load").await?;
        publish(&link, &run, &document, files, bytes_max).await?;
        (conduct.tell)(&format!("run {run}: `plimsoll attach {run}` takes over if this process ends"));
        conducted(&link, &run, document, &mut conduct).await
    })
}

/// Takes a run over: whatever its controller had come to, this one goes on from there.
///
/// # Errors
/// As [`load`]; [`AgentsError::NoRun`].
pub fn attach(nats: &Nats, run: &str, mut conduct: Conduct<'_>) -> Result<Outcome, AgentsError> {
    let none = || AgentsError::NoRun(tamed(run));
    if !crate::message::is_name(run) {
        return Err(none());
    }
    runtime()?.block_on(async {
        let link = nats.connect("plimsoll attach").await?;
        let bytes = link.last(run, &subject::word(run, "plan")).await.ok().flatten().ok_or_else(none)?;
        let document = Document::read(&bytes).ok_or_else(|| {
            AgentsError::Usage(format!(
                "run {run} was asked for by another version, whose plan this one does not know: use that one"
            ))
        })?;
        conducted(&link, run, document, &mut conduct).await
    })
}

/// The agents that answer within a time, each once, by name.
pub(crate) async fn who(link: &Link, within: Duration) -> Vec<Card> {
    let inbox = link.client.new_inbox();
    let mut found: BTreeMap<(String, String), Card> = BTreeMap::new();
    let Ok(mut answers) = link.client.subscribe(inbox.clone()).await else { return Vec::new() };
    if link.client.publish_with_reply(subject::WHO, inbox, Vec::new().into()).await.is_err() {
        return Vec::new();
    }
    let until = Instant::now() + within;
    while let Ok(Some(answer)) =
        tokio::time::timeout(until.saturating_duration_since(Instant::now()), answers.next()).await
    {
        if let Some(card) = read::<Card>(&answer.payload).filter(Card::is_sound) {
            found.insert((card.name.clone(), card.instance.clone()), card);
        }
    }
    found.into_values().collect()
}

/// Lays a plan into the stream of its run.
async fn publish(
    link: &Link,
    run: &str,
    document: &Document,
    files: Vec<Parts>,
    bytes_max: u64,
) -> Result<(), AgentsError> {
    link.make_stream(run, bytes_max).await?;
    let failed = |why: String| AgentsError::stream("to keep the plan", why);
    for (index, Parts(parts)) in files.into_iter().enumerate() {
        for (at, part) in parts.into_iter().enumerate() {
            link.put(&subject::file(run, index), &format!("{run}/file/{index}/{at}"), part).await.map_err(failed)?;
        }
    }
    link.put_first(&subject::word(run, "plan"), write(document)).await.map_err(failed).map(drop)
}

/// From a plan in its stream to the result. What is not put on leaves nothing behind.
async fn conducted(
    link: &Link,
    run: &str,
    document: Document,
    conduct: &mut Conduct<'_>,
) -> Result<Outcome, AgentsError> {
    let mut follower = Follower::new(link, run, document).await?;
    follower.catch_up().await?;
    if let Err(error) = begun(link, run, &mut follower, conduct).await {
        let stop = Stop { why: error.to_string() };
        let _ = link.put(&subject::word(run, "stop"), &format!("{run}/stop"), write(&stop)).await;
        for name in follower.names() {
            leave(link, run, &name, &conduct.version).await;
        }
        remove(link, run, conduct).await;
        return Err(error);
    }
    follower.follow_to_end(conduct).await?;
    let outcome = result::made(&follower, conduct)?;
    // All of it is in the recording: NATS need keep nothing.
    remove(link, run, conduct).await;
    Ok(outcome)
}

/// Leaves nothing of a run behind, or says what is left.
async fn remove(link: &Link, run: &str, conduct: &Conduct<'_>) {
    if !link.remove_stream(run).await {
        (conduct.tell)(&format!(
            "NATS did not take away what it had of run {run}: it goes by itself within {} h, or by `nats stream rm {}`",
            STREAM_AGE_MAX.as_secs() / 3600,
            subject::stream(run)
        ));
    }
}

/// Deals and begins, unless that was done.
async fn begun(link: &Link, run: &str, follower: &mut Follower, conduct: &mut Conduct<'_>) -> Result<(), AgentsError> {
    let failed = |why: String| AgentsError::stream("to keep what was dealt", why);
    if follower.deal().is_none() {
        let agreed = gathered(link, run, &follower.document, conduct).await?;
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
        let mut clocks = Vec::new();
        for name in follower.names() {
            let found = clock::measure(link, &name).await;
            clocks.push((
                name.clone(),
                found.ok_or_else(|| AgentsError::NotReady(format!("the clock of '{name}' does not answer")))?,
            ));
        }
        conduct.check()?;
        let at_ns = monotonic_ns().saturating_add(i64::try_from(BEGIN_AFTER.as_nanos()).unwrap_or(0));
        let moment =
            |Estimate { offset_ns, bound_ns }| Moment { at_ns: at_ns.saturating_add(offset_ns), offset_ns, bound_ns };
        let begin = Begin { moments: clocks.into_iter().map(|(name, clock)| (name, moment(clock))).collect() };
        link.put_first(&subject::word(run, "begin"), write(&begin)).await.map_err(failed)?;
        follower.until(READY_WITHIN, conduct, |follower| follower.begin().is_some()).await?;
    }
    Ok(())
}

async fn leave(link: &Link, run: &str, name: &str, version: &str) {
    let take = Take { run: run.to_owned(), version: version.to_owned(), protocol: PROTOCOL };
    let _ = link.client.publish(subject::leave(name), write(&take).into()).await;
}

/// As many agents as are wanted, each of which has agreed, with the workers that it gives.
async fn gathered(
    link: &Link,
    run: &str,
    document: &Document,
    conduct: &Conduct<'_>,
) -> Result<Vec<(String, u16)>, AgentsError> {
    let (wanted, since) = (usize::from(document.agents), Instant::now());
    let mut agreed: Vec<(String, u16)> = Vec::new();
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    let (mut is_told, mut has_looked) = (false, false);
    loop {
        let stopped = conduct.check().err();
        if stopped.is_some() || (has_looked && since.elapsed() > conduct.wait) {
            for (name, _) in &agreed {
                leave(link, run, name, &conduct.version).await;
            }
            let refused = refused.into_iter().map(|(name, why)| format!("'{name}': {why}")).collect();
            return Err(stopped.unwrap_or(AgentsError::TooFew { wanted, got: agreed.len(), refused }));
        }
        has_looked = true;
        let mut cards = who(link, WHO_FOR).await;
        // Those that can do most first, so that few are enough.
        cards.sort_by(|a, b| b.workers.cmp(&a.workers).then_with(|| a.name.cmp(&b.name)));
        for card in cards {
            if agreed.len() == wanted || agreed.iter().any(|(name, _)| *name == card.name) {
                continue;
            }
            match asked(link, run, document, conduct, &card).await {
                Ok(workers) => {
                    refused.remove(&card.name);
                    agreed.push((card.name, workers));
                }
                Err(why) => drop(refused.insert(card.name, why)),
            }
        }
        if agreed.len() == wanted {
            return Ok(agreed);
        }
        if !is_told && !conduct.wait.is_zero() {
            let so_far =
                format!("waits for {} more agents, for {} s at most", wanted - agreed.len(), conduct.wait.as_secs());
            let why: Vec<String> = refused.iter().map(|(name, why)| format!("'{name}': {why}")).collect();
            (conduct.tell)(&if why.is_empty() { so_far } else { format!("{so_far} ({})", why.join("; ")) });
            is_told = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Asks an agent, unless its card says why it would be of no use.
async fn asked(link: &Link, run: &str, document: &Document, conduct: &Conduct<'_>, card: &Card) -> Result<u16, String> {
    if card.version != conduct.version || card.protocol != PROTOCOL {
        return Err(format!(
            "it is version {}, and this is {}: install the same on both",
            tamed(&card.version),
            conduct.version
        ));
    }
    if let Some(label) = document.labels.iter().find(|label| !card.labels.contains(label)) {
        return Err(format!("it does not have the label {label}"));
    }
    if card.doing != Doing::Idle {
        return Err(format!("it is busy ({})", card.doing.name()));
    }
    let take = Take { run: run.to_owned(), version: conduct.version.clone(), protocol: PROTOCOL };
    let answer = link.ask(&subject::take(&card.name), write(&take), ANSWER_WITHIN).await;
    match answer.as_deref().map(read::<Taken>) {
        Some(Some(Taken::Agreed { workers })) => Ok(workers.clamp(1, crate::limits::WORKERS_MAX)),
        Some(Some(Taken::Refused { why })) => Err(tamed(&why)),
        Some(None) => Err("it answered in words that are not known here".to_owned()),
        None => Err("it did not answer".to_owned()),
    }
}

/// Who has which workers: as many as were asked for, or as agents give, in proportion to what each gives; at least one each, and no
/// more in all than there are connections.
fn dealt(agreed: &[(String, u16)], document: &Document) -> Deal {
    let given: u64 = agreed.iter().map(|(_, workers)| u64::from(*workers)).sum();
    let most = u64::from(document.shown.connections).min(u64::from(u16::MAX));
    let all = document.workers.map_or(given, u64::from).clamp(agreed.len() as u64, most.max(agreed.len() as u64));
    // One each, and the rest by what each gives (largest remainders).
    let rest = all - agreed.len() as u64;
    let exact = |workers: u16| rest as f64 * f64::from(workers) / given.max(1) as f64;
    let mut parts: Vec<u64> = agreed.iter().map(|(_, workers)| 1 + exact(*workers) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| exact(agreed[*b].1).fract().total_cmp(&exact(agreed[*a].1).fract()).then(a.cmp(b)));
    let left = all.saturating_sub(parts.iter().sum());
    for at in order.into_iter().cycle().take(left as usize) {
        parts[at] += 1;
    }
    let mut first = 0u16;
    let share = |((agent, _), workers): (&(String, u16), u64)| {
        let workers = u16::try_from(workers).unwrap_or(u16::MAX);
        let share = ShareOf { agent: agent.clone(), first, workers };
        first = first.saturating_add(workers);
        share
    };
    Deal { shares: agreed.iter().zip(parts).map(share).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::OnLost;

    fn document(connections: u32, workers: Option<u16>) -> Document {
        let mut plan = testkit::recordings::any_plan();
        plan.connections = connections;
        let asked = Asked {
            agents: 3,
            labels: Vec::new(),
            on_lost: OnLost::Continue,
            lost_after_ns: 1,
            workers,
            driver_reason: String::new(),
            observe: false,
            command: Vec::new(),
            version: "1".to_owned(),
            stream_bytes_max: 1,
        };
        Document::new(&plan, "r", asked, None).unwrap().0
    }

    #[test]
    fn shares_are_by_what_each_gives_and_none_is_without() {
        let workers = |given: &[u16], connections, wanted| -> Vec<u16> {
            let agreed: Vec<(String, u16)> = given.iter().enumerate().map(|(i, n)| (format!("a{i}"), *n)).collect();
            let deal = dealt(&agreed, &document(connections, wanted));
            assert!(deal.workers().is_some(), "{deal:?}");
            deal.shares.iter().map(|share| share.workers).collect()
        };
        assert_eq!(workers(&[4, 2, 2], 100, None), [4, 2, 2]);
        assert_eq!(workers(&[4, 2, 2], 100, Some(16)), [8, 4, 4]);
        assert_eq!(workers(&[4, 2, 2], 3, None), [1, 1, 1]);
        assert_eq!(workers(&[30, 1, 1], 5, None), [3, 1, 1]);
        assert_eq!(workers(&[1, 1, 1], 100, Some(4)).iter().sum::<u16>(), 4);
    }
}
