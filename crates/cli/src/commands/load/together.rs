//! Loads that are put on together: from scenarios to plans, and a run of them. One load alone is run as ever.
//!
//! Where nobody says how many workers a load has, several loads share what one would have had. A canary has one worker and asks
//! by the clock until every other load has ended.

use crate::commands::agents::{self, PutOnBy};
use crate::commands::output::progress::Shown;
use crate::exit::Failure;
use model::Scenario;
use model::hide;
use model::plan::{DriverKind, Pace, Segment, Stop};
use model::recording::LoadRole;
use model::scenario::WeightedUrl;
use resolve::{Choice, Host, Resolved, Words, resolve};
use session::faults::Setup;
use session::target::{self, Target, TargetError};
use session::{Hands, Load, Options, Outcome, RunError};

/// Time between two requests of a canary where none is said, nanoseconds.
pub const CANARY_EVERY_NS: u64 = 1_000_000_000;
/// How long a reply to a canary may take where nothing is said, nanoseconds.
const CANARY_TIMEOUT_NS: u64 = 5_000_000_000;
/// How long a canary's last request is waited for at the most, nanoseconds.
const CANARY_DRAIN_NS: u64 = 1_000_000_000;
/// How long a canary goes on that nothing else bounds, nanoseconds: a year.
const CANARY_NS_MAX: u64 = 365 * 86_400 * 1_000_000_000;

/// How often a run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Once, with its report.
    Once,
    /// So often, with what all of them come to.
    Times(u32),
}

/// A load as it was written.
pub struct Asked {
    /// What it is called.
    pub name: String,
    /// What it is among the others.
    pub role: LoadRole,
    /// What was written.
    pub scenario: Scenario,
}

impl Asked {
    /// A canary that asks a URL, trusting whom the main load trusts.
    pub fn canary(url: &str, every_ns: Option<u64>, main: &Scenario) -> Self {
        let has_tls = url.starts_with("https:") || url.starts_with("wss:") || url.contains("+tls:");
        let urls = vec![WeightedUrl { url: hide::secret_url(url), weight: 1.0 }];
        let tls = if has_tls { main.tls.clone() } else { Default::default() };
        let scenario = Scenario { urls, tls, ip_version: main.ip_version, ..Scenario::default() };
        Asked::as_canary(scenario, every_ns)
    }

    /// A canary that does what a scenario says, one request each time.
    pub fn as_canary(mut scenario: Scenario, every_ns: Option<u64>) -> Self {
        let every_ns = every_ns.unwrap_or(CANARY_EVERY_NS).max(1);
        let per_s = 1e9 / every_ns as f64;
        scenario.profile = vec![Segment { from_per_s: per_s, to_per_s: per_s, for_ns: every_ns }];
        scenario.phases = Vec::new();
        scenario.connections = Some(scenario.connections.unwrap_or(1));
        scenario.threads = Some(1);
        scenario.duration_ns = Some(CANARY_NS_MAX);
        scenario.timeout_ns = Some(scenario.timeout_ns.unwrap_or(CANARY_TIMEOUT_NS));
        scenario.driver = Some(scenario.driver.unwrap_or(DriverKind::Epoll));
        // What the environment may say of a load is not said of it.
        (scenario.requests, scenario.burst, scenario.think, scenario.warmup_ns) = (None, None, None, None);
        (scenario.after_ns, scenario.batch, scenario.abort_when) = (None, None, Vec::new());
        // It never gives up: that the target is not there yet is what it is to find out.
        scenario.give_up_ns = Some(0);
        Asked { name: "canary".to_owned(), role: LoadRole::Canary, scenario }
    }
}

/// A load resolved.
pub struct ResolvedLoad {
    /// What it is called.
    pub name: String,
    /// What it is among the others.
    pub role: LoadRole,
    /// Workers, where it was said how many.
    pub threads: Option<u16>,
    /// What will run.
    pub resolved: Resolved,
}

/// Every load of a run, the main one first, the canary last.
pub struct Loads {
    /// At least one.
    pub all: Vec<ResolvedLoad>,
}

/// What came of ending a target.
pub type Ended = Result<(), TargetError>;

/// What a run left, and what came of ending its target.
pub type Left = (Vec<Outcome>, Ended);

impl Loads {
    /// Makes plans of scenarios.
    ///
    /// # Errors
    /// What was written wrongly, or is missing, in one sentence with its place.
    pub fn resolve(
        asked: Vec<Asked>,
        host: &dyn Host,
        blamed: &dyn Fn(usize, Failure) -> Failure,
    ) -> Result<Self, Failure> {
        let several = asked.iter().filter(|load| load.role != LoadRole::Canary).count();
        let mut all: Vec<ResolvedLoad> = Vec::with_capacity(asked.len());
        for (at, Asked { name, role, mut scenario }) in asked.into_iter().enumerate() {
            let of = |scenario: &Scenario| resolve(scenario, host).map_err(|error| blamed(at, error.into()));
            if role != LoadRole::Main {
                // The machine is read on after the main load.
                scenario.after_ns = None;
            }
            if role == LoadRole::Canary {
                // Its intervals are those of the main load.
                scenario.tick_ns = all.first().map(|main| main.resolved.plan.tick_ns);
            }
            let threads = scenario.threads;
            let mut resolved = of(&scenario)?;
            let alone = resolved.plan.threads;
            if several > 1 && role != LoadRole::Canary && scenario.threads.is_none() && alone > 1 {
                scenario.threads = Some((usize::from(alone) / several).max(1) as u16);
                resolved = of(&scenario)?;
                let value = resolved.plan.threads.to_string();
                let why = format!("its share of the {alone} that one load alone would have");
                resolved.choices.push(Choice { what: "threads", value, why });
            }
            if role == LoadRole::Canary {
                canary(&mut resolved, &all)?;
            }
            all.push(ResolvedLoad { name, role, threads, resolved });
        }
        Ok(Loads { all })
    }

    /// What looks like a mistake, each with its load's name before it where there are several.
    pub fn warnings(&self) -> impl Iterator<Item = (String, &Words)> {
        let is_alone = self.all.len() == 1;
        self.all.iter().flat_map(move |load| {
            let name = if is_alone { String::new() } else { format!("load '{}': ", load.name) };
            load.resolved.warnings.iter().map(move |warning| (name.clone(), warning))
        })
    }

    /// Puts them on, at a target that is started for them and ended after. `None`: interrupted before.
    ///
    /// # Errors
    /// The target did not come up, or the run could not take place.
    pub fn put_on(
        &self,
        target: Option<&target::Spec>,
        options: &Options,
        by: &mut PutOnBy<'_>,
        shown: &mut Shown,
    ) -> Result<Option<Left>, Failure> {
        let main = || self.all[0].resolved.plan.clone();
        let put_on = |setup: &Setup, shown: &mut Shown| match by {
            PutOnBy::Team(team) => {
                team.set_faults(setup.clone());
                unless_interrupted(team.put_on(main(), options, shown).map(|outcome| vec![outcome]))
            }
            PutOnBy::Together { args, count, wait_ns } => {
                match agents::put_on_together(args, self, *count, *wait_ns, options, setup, shown) {
                    Err(failure) if failure.is_interrupted() => Ok(None),
                    Ok(None) => Err(Failure::could_not_run(
                        "expected the result of each run, but another command took one over and has it: run the series again",
                    )),
                    had => Ok(had?.map(|had| had.outcomes)),
                }
            }
            PutOnBy::This if self.all.len() == 1 => {
                unless_interrupted(session::run_with_faults(main(), options, setup, shown).map(|outcome| vec![outcome]))
            }
            PutOnBy::This => {
                let all: Vec<Load> = self.all.iter().map(load).collect();
                unless_interrupted(session::run_together(&all, options, setup, shown))
            }
        };
        let Some((outcomes, ended)) = self.at_target(target, options, shown, put_on)? else { return Ok(None) };
        Ok(outcomes?.map(|outcomes| (outcomes, ended)))
    }

    /// Does something while the target runs that is started for it and ended after, where there is one; with what came of ending it.
    /// `None`: interrupted before.
    ///
    /// # Errors
    /// The target did not come up.
    pub fn at_target<T>(
        &self,
        target: Option<&target::Spec>,
        options: &Options,
        shown: &mut Shown,
        doing: impl FnOnce(&Setup, &mut Shown) -> T,
    ) -> Result<Option<(T, Ended)>, Failure> {
        let main = &self.all[0].resolved;
        let fixed_addresses = self.all.iter().any(|load| load.resolved.plan.isolation.is_some());
        let target = target.map(|spec| target::Spec { fixed_addresses, ..spec.clone() });
        let started =
            match target.as_ref().map(|spec| Target::start(spec, &main.plan, &options.interrupted)).transpose() {
                Err(TargetError::Interrupted) => return Ok(None),
                started => started?,
            };
        shown.life = started.as_ref().map(Target::life);
        let setup = Setup { journal: None, started: started.as_ref().map(Target::started) };
        let done = doing(&setup, shown);
        // Before the first signal ends this process at once.
        let ended = started.map_or(Ok(()), Target::end);
        shown.clear();
        Ok(Some((done, ended)))
    }
}

/// What a run left; `None`: it was interrupted before there was anything.
fn unless_interrupted(outcomes: Result<Vec<Outcome>, RunError>) -> Result<Option<Vec<Outcome>>, Failure> {
    match outcomes {
        Err(RunError::Interrupted) => Ok(None),
        outcomes => Ok(Some(outcomes?)),
    }
}

/// What a session runs of it.
pub fn load(of: &ResolvedLoad) -> Load {
    let ResolvedLoad { name, role, resolved, .. } = of;
    let Resolved { plan, driver_reason, .. } = resolved;
    Load { name: name.clone(), role: *role, plan: plan.clone(), driver_reason: driver_reason.clone() }
}

/// What of a canary's plan follows from the loads that it goes beside.
fn canary(resolved: &mut Resolved, beside: &[ResolvedLoad]) -> Result<(), Failure> {
    let plan = &mut resolved.plan;
    if !matches!(plan.pace, Pace::Open { .. }) {
        return Err(Failure::usage(
            "canary: expected a URL that requests can be sent to by the clock, such as http://HOST/, got one that only holds \
             connections",
        ));
    }
    // It ends when the last of the others has; that is known beforehand unless a count ends one.
    let ends = beside.iter().map(|load| {
        let plan = &load.resolved.plan;
        plan.planned_ns().map(|ns| ns.saturating_add(plan.drain_ns))
    });
    let last_ns = ends.collect::<Option<Vec<u64>>>().and_then(|ends| ends.into_iter().max());
    plan.stop = Stop { duration_ns: Some(last_ns.unwrap_or(CANARY_NS_MAX)), requests: None };
    plan.drain_ns = plan.drain_ns.min(CANARY_DRAIN_NS);
    // A year is no mistake of whoever wrote it.
    resolved.warnings.clear();
    resolved.choices.retain(|choice| choice.what != "tick");
    Ok(())
}
