//! An agent: says who it is, answers with its clock, and puts load on for runs that its owner allows.
//!
//! It takes one run at a time. What it agrees to is checked first: version, targets, its own limits, the token. Everything it measures
//! is in a recording on its own disk before it goes anywhere else, so a NATS that is gone, full or slow costs it nothing. One thread
//! speaks with NATS; the load has its own, as ever.
//! Not here: what all agents together are to do ([`crate::controller`]).

mod bursts;
mod deliver;
mod observing;
mod run;

pub(crate) use run::of_workers;

use crate::allow::Allowed;
use crate::clock;
use crate::error::AgentsError;
use crate::limits::{PROTOCOL, WHO_FOR};
use crate::link::{Link, Nats, fresh, runtime};
use crate::message::{Card, Doing, Take, Taken, read, write};
use crate::{controller, subject};
use async_nats::Message;
use futures_util::StreamExt;
use remote::{Token, monotonic_ns};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it looks whether it is to end.
const LOOK_FOR_END: Duration = Duration::from_millis(100);

/// What an agent is, and what its owner allows.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name; no two have the same.
    pub name: String,
    /// What its owner calls it by.
    pub labels: Vec<String>,
    /// Workers that it can give.
    pub workers: u16,
    /// Where load may go.
    pub allowed: Vec<Allowed>,
    /// Most requests a second of its share; `None`: no limit, and closed paces are allowed.
    pub rate_max: Option<f64>,
    /// Most connections of its share; `None`: no limit.
    pub connections_max: Option<u32>,
    /// Takes only plans that were sealed with it.
    pub token: Option<Token>,
    /// The tool's version.
    pub version: String,
    /// Where recordings lie until they have been handed over.
    pub folder: PathBuf,
    /// Says something to its owner.
    pub tell: fn(&str),
    /// Becomes true when it is to end.
    pub interrupted: Arc<AtomicBool>,
}

/// What it does at the moment.
#[derive(Debug, Clone)]
struct Now {
    doing: Doing,
    run: Option<String>,
    /// It has looked at the run's plan, and said that it takes part: who asks again did not hear it.
    has_said_so: bool,
}

/// What all parts of an agent share.
#[derive(Debug)]
struct Own {
    options: Options,
    instance: String,
    cpu: String,
    link: Link,
    now: Mutex<Now>,
    /// The run that it was told to forget.
    left: Mutex<Option<String>>,
}

impl Own {
    fn now(&self) -> Now {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, doing: Doing, run: Option<&str>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) =
            Now { doing, run: run.map(str::to_owned), has_said_so: false };
    }

    /// Agrees to a run, unless it has another one; `true`: it had agreed to this one already.
    fn begin(&self, run: &str) -> Result<bool, String> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.doing == Doing::Agreed && now.has_said_so && now.run.as_deref() == Some(run) {
            return Ok(true);
        }
        if now.doing != Doing::Idle {
            let other = now.run.clone().unwrap_or_default();
            return Err(format!("it is busy with run {other} ({})", now.doing.name()));
        }
        *now = Now { doing: Doing::Agreed, run: Some(run.to_owned()), has_said_so: false };
        Ok(false)
    }

    /// Says that it takes part.
    async fn agree(&self, to: Option<async_nats::Subject>) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).has_said_so = true;
        answer(self, to, write(&Taken::Agreed { workers: self.options.workers })).await;
    }

    fn has_left(&self, run: &str) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).as_deref() == Some(run)
    }

    fn card(&self) -> Card {
        let Now { doing, run, .. } = self.now();
        let Options { name, version, workers, labels, allowed, .. } = &self.options;
        Card {
            name: name.clone(),
            instance: self.instance.clone(),
            version: version.clone(),
            protocol: PROTOCOL,
            cpu: self.cpu.clone(),
            workers: *workers,
            labels: labels.clone(),
            targets: allowed.iter().map(|one| one.written().to_owned()).collect(),
            doing,
            run,
        }
    }

    fn tell(&self, text: &str) {
        (self.options.tell)(text);
    }
}

/// Serves until it is told to end.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached or does not let it hear what it waits for, or its name is taken.
pub fn serve(nats: &Nats, options: Options) -> Result<(), AgentsError> {
    runtime()?.block_on(serving(nats, options))
}

async fn serving(nats: &Nats, options: Options) -> Result<(), AgentsError> {
    let link = nats.connect(&format!("plimsoll agent {}", options.name)).await?;
    let others = controller::who(&link, WHO_FOR, &[]).await;
    if let Some(other) = others.iter().find(|card| card.name == options.name) {
        return Err(AgentsError::Usage(format!(
            "expected a name that no other agent has, got '{}', which is there ({}): give another (--name)",
            options.name,
            other.doing.name()
        )));
    }
    let own = Arc::new(Own {
        instance: fresh(),
        cpu: observe::capsule().cpu,
        link,
        now: Mutex::new(Now { doing: Doing::Idle, run: None, has_said_so: false }),
        left: Mutex::new(None),
        options,
    });
    let name = &own.options.name;
    let subscribed = |subject: String| {
        let client = own.link.client.clone();
        async move {
            client
                .subscribe(subject)
                .await
                .map_err(|error| AgentsError::Connect { url: nats.shown(), why: error.to_string() })
        }
    };
    let mut who = subscribed(subject::WHO.to_owned()).await?;
    let mut takes = subscribed(subject::take(name)).await?;
    let mut leaves = subscribed(subject::leave(name)).await?;
    let mut clocks = subscribed(subject::clock(name)).await?;
    // Apart, so that nothing stands between a question and the stamp of its answer.
    let answering = own.link.client.clone();
    let clock = tokio::spawn(async move {
        while let Some(Message { reply: Some(reply), .. }) = clocks.next().await {
            let _ = answering.publish(reply, clock::answer(monotonic_ns()).into()).await;
        }
    });
    // Who came before this one learns of it.
    own.link.flush().await;
    own.tell(&format!(
        "agent '{name}' at {} waits for runs: {} workers, load may go to {}",
        nats.shown(),
        own.options.workers,
        own.card().targets.join(", ")
    ));
    let mut running: Option<tokio::task::JoinHandle<()>> = None;
    let mut look = tokio::time::interval(LOOK_FOR_END);
    loop {
        tokio::select! {
            Some(asked) = who.next() => answer(&own, asked.reply, write(&own.card())).await,
            Some(asked) = takes.next() => {
                if let Some(task) = taken(&own, asked).await {
                    running = Some(task);
                }
            }
            Some(asked) = leaves.next() => {
                let run = read::<Take>(&asked.payload).map(|take| take.run);
                *own.left.lock().unwrap_or_else(PoisonError::into_inner) = run;
                answer(&own, asked.reply, Vec::new()).await;
            }
            _ = look.tick() => {
                // What it may not hear, or ask, it would wait for without end.
                if running.is_none() {
                    own.link.permitted()?;
                }
                let is_over = running.as_ref().is_none_or(tokio::task::JoinHandle::is_finished);
                // A run that is under way ends first, and hands over what it has.
                if own.options.interrupted.load(Ordering::Relaxed) && is_over {
                    break;
                }
            }
        }
    }
    clock.abort();
    own.link.flush().await;
    Ok(())
}

async fn answer(own: &Own, to: Option<async_nats::Subject>, body: Vec<u8>) {
    if let Some(to) = to {
        // Who asked no longer waits: nothing to do.
        let _ = own.link.client.publish(to, body.into()).await;
    }
}

/// What comes of being asked to be part of a run.
async fn taken(own: &Arc<Own>, asked: Message) -> Option<tokio::task::JoinHandle<()>> {
    let refuse = |why: String| write(&Taken::Refused { why });
    let Some(take) = read::<Take>(&asked.payload).filter(|take| crate::message::is_name(&take.run)) else {
        answer(own, asked.reply, refuse("it was asked in words that it does not know".to_owned())).await;
        return None;
    };
    let version = &own.options.version;
    if take.version != *version || take.protocol != PROTOCOL {
        let theirs = crate::message::tamed(&take.version);
        let why = format!("it is version {version}, and the run is of {theirs}: install the same on both");
        own.tell(&format!("run {} refused: {why}", take.run));
        answer(own, asked.reply, refuse(why)).await;
        return None;
    }
    match own.begin(&take.run) {
        Ok(false) => {}
        Ok(true) => {
            own.agree(asked.reply).await;
            return None;
        }
        Err(why) => {
            answer(own, asked.reply, refuse(why)).await;
            return None;
        }
    }
    let own = Arc::clone(own);
    Some(tokio::spawn(async move {
        run::take_part(&own, &take.run, asked.reply).await;
        own.set(Doing::Idle, None);
    }))
}
