//! The same agents for one load after another: what a search, a comparison or repeats are put on by.
//!
//! Each load is a run of its own, with a stream of its own, so what holds of a run holds of each: an agent that is lost makes that load
//! not valid, and it is put on again. The next load goes to the same agents; where one does not come back, another takes its place,
//! and that is said. How long a load takes beside its length is measured with each, so that a search knows what its steps cost.

use super::gather::of_no_use;
use super::{Conduct, RunResult, load, who};
use crate::document::Asked;
use crate::error::AgentsError;
use crate::limits::{AGENTS_MAX, WHO_FOR};
use crate::link::{Nats, runtime};
use model::Plan;
use model::plan::Pace;
use remote::Token;
use session::faults::Setup;
use session::{Hands, Options, Outcome, RunError, Watch};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// What a team is made of.
#[derive(Debug)]
pub struct TeamSpec {
    /// Where the agents are.
    pub nats: Nats,
    /// What each load asks for; how many agents that are is in `agents`.
    pub asked: Asked,
    /// How many agents: so many at first, and as many as this where they do not suffice.
    pub agents: RangeInclusive<u16>,
    /// Whether a load may have fewer agents where it has fewer connections: where these are what is looked for.
    pub is_by_connections: bool,
    /// What plans are sealed with.
    pub token: Option<Token>,
    /// How long agents are waited for, before each load.
    pub wait: Duration,
    /// Says what happens.
    pub tell: fn(&str),
}

/// Agents that put on one load after another.
#[derive(Debug)]
pub struct Team {
    spec: TeamSpec,
    /// How many the next load asks for.
    wanted: u16,
    /// Those of the load before.
    names: Vec<String>,
    /// The most that a load took beside its length.
    beside: Option<Duration>,
    /// What faults of the loads need beside their plans.
    faults: Setup,
}

impl Team {
    /// Of whoever is there when the first load comes.
    pub fn new(spec: TeamSpec) -> Self {
        let wanted = *spec.agents.start();
        Team { spec, wanted, names: Vec::new(), beside: None, faults: Setup::default() }
    }

    /// What faults of the loads to come need beside their plans.
    pub fn set_faults(&mut self, faults: Setup) {
        self.faults = faults;
    }

    /// Who could be had, beside those of the load before.
    fn idle(&self) -> Vec<String> {
        let of = || -> Result<Vec<String>, AgentsError> {
            runtime()?.block_on(async {
                let link = self.spec.nats.connect("plimsoll").await?;
                let cards = who(&link, WHO_FOR, &[]).await;
                let Asked { version, labels, .. } = &self.spec.asked;
                let is_free = |name: &String| !self.names.contains(name);
                let useful = cards.into_iter().filter(|card| of_no_use(card, version, labels).is_none());
                Ok(useful.map(|card| card.name).filter(is_free).collect())
            })
        };
        // That nobody answers is said by the load that comes.
        of().unwrap_or_default()
    }

    /// Says who came and went since the load before.
    fn say_changed(&self, names: &[String]) {
        let only = |of: &[String], not: &[String]| -> Vec<String> {
            of.iter().filter(|name| !not.contains(name)).map(|name| format!("'{name}'")).collect()
        };
        let (gone, came) = (only(&self.names, names), only(names, &self.names));
        if !gone.is_empty() && !came.is_empty() && names.len() == self.names.len() {
            let (gone, came) = (gone.join(", "), came.join(", "));
            (self.spec.tell)(&format!("agent {gone} did not come back: {came} in its place from here on"));
        }
    }
}

impl Hands for Team {
    fn put_on(&mut self, plan: Plan, options: &Options, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        let began = Instant::now();
        let is_closed = matches!(plan.pace, Pace::Closed { .. });
        let agents = match self.spec.is_by_connections && is_closed {
            true => u32::from(self.wanted).min(plan.connections.max(1)) as u16,
            false => self.wanted,
        };
        let asked = Asked {
            agents,
            // A worker each at least.
            workers: self.spec.asked.workers.map(|workers| workers.max(agents)),
            driver_reason: options.driver_reason.clone(),
            observe: options.observe,
            command: options.command.clone(),
            ..self.spec.asked.clone()
        };
        let conduct = Conduct {
            record: options.record.clone(),
            wait: self.spec.wait,
            version: options.version.clone(),
            interrupted: options.interrupted.clone(),
            tell: self.spec.tell,
            watch,
            faults: self.faults.clone(),
            series: Some(self.names.clone()),
            company: None,
        };
        // Nobody attaches to one load of a series, so its stream is let go with its result.
        let RunResult { outcome, agents: names, .. } =
            load(&self.spec.nats, &plan, asked, self.spec.token.as_ref(), conduct)?;
        self.say_changed(&names);
        if names.len() >= self.names.len() || names.len() >= usize::from(self.wanted) {
            self.names = names;
        }
        let totals = &outcome.recording.totals;
        let load = Duration::from_nanos(totals.measured_from_ns.saturating_add(totals.measured_ns));
        self.beside = self.beside.max(Some(began.elapsed().saturating_sub(load)));
        Ok(outcome)
    }

    fn beside(&self) -> Option<Duration> {
        self.beside
    }

    fn add(&mut self) -> Option<String> {
        let most = usize::from(*self.spec.agents.end()).min(AGENTS_MAX);
        let before = usize::from(self.wanted);
        let idle = if before < most { self.idle().len() } else { 0 };
        let after = (2 * before).min(most).min(before + idle);
        self.wanted = u16::try_from(after).unwrap_or(self.wanted);
        let (agents, are) = if before == 1 { ("agent", "is") } else { ("agents", "are") };
        (after > before).then(|| format!("{before} {agents} {are} the limit: {after} from here on"))
    }

    fn standing(&mut self) -> Option<String> {
        let (have, idle) = (usize::from(self.wanted), self.idle().len());
        let there_are = format!("{have} agent{} put it on", if have == 1 { "" } else { "s" });
        let most = (have + idle).min(AGENTS_MAX);
        Some(match most - have.min(most) {
            0 => format!("{there_are}, and no other is idle: start more with `plimsoll agent`"),
            1 => format!("{there_are}, and one more is idle: --agents {most}"),
            more => format!("{there_are}, and {more} more are idle: --agents {most}"),
        })
    }
}

impl From<AgentsError> for RunError {
    fn from(error: AgentsError) -> Self {
        match error {
            AgentsError::Run(error) => error,
            AgentsError::Store(error) => RunError::Store(error),
            AgentsError::Interrupted => RunError::Interrupted,
            error => RunError::ByOthers { is_usage: error.is_usage(), text: error.to_string() },
        }
    }
}
