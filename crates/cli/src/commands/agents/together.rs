//! Several loads, and a canary, of which agents put on all but the canary.
//!
//! Each load has agents of its own, as many as each other one (the first ones one more where that does not come out even), and is a run
//! of its own in NATS; all begin at one moment ([`Company`]). The canary is this process's: a machine that puts on nothing else asks.

use super::super::load::together::{Loads, load};
use super::super::output::progress::Shown;
use super::{Had, asked, conduct, tell};
use crate::args::load::LoadArgs;
use crate::exit::Failure;
use agents::{AgentsError, Asked, Company, Conduct, RunResult, RunStream, Team};
use engine::Fleet;
use model::recording::{LoadRole, Together};
use session::faults::Setup;
use session::{Load, OneOf, Options, Outcome, RecordTo, RunError, Watch};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// What one of the loads came to, and what NATS still has of it: nothing of a canary.
type One = (Outcome, Option<RunStream>);

/// How long agents are waited for at the least before each run of a series, nanoseconds: they come back from the one before.
const BACK_WITHIN_NS: u64 = 3_000_000_000;

/// Who puts on each run of a series.
pub enum PutOnBy<'a> {
    /// This process.
    This,
    /// The same agents, one run after another.
    Team(Box<Team>),
    /// Agents of each load's own, which are found anew for each run.
    Together {
        /// What was asked for.
        args: &'a LoadArgs,
        /// How many agents all loads have.
        count: u16,
        /// How long they are waited for, nanoseconds.
        wait_ns: u64,
    },
}

impl<'a> PutOnBy<'a> {
    /// Who was asked for.
    ///
    /// # Errors
    /// Agents that are too few, or cannot do what is asked: nothing has run.
    pub fn of(args: &'a LoadArgs, loads: &Loads) -> Result<Self, Failure> {
        let Some(count) = args.by_agents.count()? else { return Ok(PutOnBy::This) };
        if let [_] = &loads.all[..] {
            return Ok(super::team(args)?.map_or(PutOnBy::This, |team| PutOnBy::Team(Box::new(team))));
        }
        super::refuse(args)?;
        enough(loads, count)?;
        Ok(PutOnBy::Together { args, count, wait_ns: args.by_agents.agents_wait.max(BACK_WITHIN_NS) })
    }
}

/// How many of the loads agents put on; there is to be an agent for each.
fn enough(loads: &Loads, count: u16) -> Result<usize, Failure> {
    let of_agents = loads.all.iter().filter(|load| load.role != LoadRole::Canary).count();
    if usize::from(count) < of_agents {
        return Err(Failure::usage(format!(
            "--agents: expected an agent for each of the {of_agents} loads at least, got {count}: each load has agents of its own"
        )));
    }
    Ok(of_agents)
}

/// Puts loads on by `count` agents, which are waited for as long as is said, and gives what the loads came to; `None`: another command
/// that follows one of them has its result, and that was said.
pub fn put_on_together(
    args: &LoadArgs,
    loads: &Loads,
    count: u16,
    wait_ns: u64,
    options: &Options,
    faults: &Setup,
    shown: &mut Shown,
) -> Result<Option<Had>, Failure> {
    let of_agents = enough(loads, count)?;
    let nats = args.by_agents.nats("--agents")?;
    let token = args.remote.link.token()?;
    let all: Vec<Load> = loads.all.iter().map(load).collect();
    // Before anything begins: the others would wait for a load that does not come.
    let asks: Vec<Asked> = (0..of_agents)
        .map(|number| {
            Ok(Asked {
                driver_reason: all[number].driver_reason.clone(),
                observe: options.observe,
                command: options.command.clone(),
                workers: loads.all[number].threads,
                ..asked(args, part(count, of_agents, number), args.by_agents.on_lost())?
            })
        })
        .collect::<Result<_, Failure>>()?;
    let places = session::places(&all, options)?;
    let company = Company::new(of_agents);
    let watch: Mutex<&mut dyn Watch> = Mutex::new(shown);
    let is_over = || company.is_over();
    let (nats, token, company, watch, is_over) = (&nats, token.as_ref(), &company, &watch, &is_over);
    let results: Vec<Result<Option<One>, AgentsError>> = std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(all.len());
        // The canary is the last of them.
        let mut asks = asks.into_iter();
        for (number, (load, place)) in all.iter().zip(places).enumerate() {
            let mut one = OneOf::new(load, watch, is_over);
            let Some(asked) = asks.next() else {
                let canary = move || {
                    let outcome = canary(load, place, company, options, &mut one).map_err(AgentsError::Run)?;
                    Ok(outcome.map(|outcome| (outcome, None)))
                };
                running.push(scope.spawn(canary));
                continue;
            };
            let (path, together) = place;
            let record = path.map_or(RecordTo::Nothing, RecordTo::File);
            let faults = if load.role == LoadRole::Main { faults.clone() } else { Setup::default() };
            let member = company.member(number, together);
            let interrupted = options.interrupted.clone();
            let carry = move || {
                let conduct = conduct(record, wait_ns, interrupted, faults, &mut one);
                let conduct = Conduct { company: Some(member), ..conduct };
                let RunResult { outcome, stream, .. } = agents::load(nats, &load.plan, asked, token, conduct)?;
                Ok(Some((outcome, Some(stream))))
            };
            running.push(scope.spawn(carry));
        }
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    taken_together(&all, results)
}

/// What all of them came to. Of those that were measured beside one that failed it is said where their recordings are.
fn taken_together(all: &[Load], results: Vec<Result<Option<One>, AgentsError>>) -> Result<Option<Had>, Failure> {
    let (mut failed, mut is_taken) = (Vec::new(), false);
    let mut had = Had { outcomes: Vec::new(), streams: Vec::new() };
    for (load, result) in all.iter().zip(results) {
        match result {
            Ok(Some((outcome, stream))) => {
                had.outcomes.push(outcome);
                had.streams.extend(stream);
            }
            Ok(None) => {}
            Err(error @ AgentsError::TakenAway(_)) => {
                tell(&format!("load '{}': {error}", load.name));
                is_taken = true;
            }
            Err(error) => failed.push(error),
        }
    }
    if !is_taken && failed.is_empty() {
        return Ok(Some(had));
    }
    for outcome in &had.outcomes {
        let name = outcome.recording.capsule.together.as_ref().and_then(|together| together.this());
        if let (Some(name), Some(path)) = (name, &outcome.recorded_at) {
            tell(&format!("load '{}' was measured: its recording is {}", name.name, path.display()));
        }
    }
    // That another one is not ready is no reason of its own.
    let own = failed.iter().position(|error| !matches!(error, AgentsError::OfAnother)).unwrap_or(0);
    if failed.is_empty() { Ok(None) } else { Err(failed.swap_remove(own).into()) }
}

/// How many of the agents a load has.
fn part(agents: u16, loads: usize, number: usize) -> u16 {
    let (each, more) = (usize::from(agents) / loads, usize::from(agents) % loads);
    u16::try_from(each + usize::from(number < more)).unwrap_or(u16::MAX)
}

/// Asks as long as the loads go on; `None`: they did not begin.
fn canary(
    load: &Load,
    place: (Option<PathBuf>, Together),
    company: &Company,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Option<Outcome>, RunError> {
    let Some(at_ns) = company.begins_ns() else { return Ok(None) };
    let options = Options { observe: false, observe_at: None, behind: Vec::new(), ..options.clone() };
    let start = |plan: &model::Plan| {
        let left_ns = at_ns.saturating_sub(remote::monotonic_ns());
        std::thread::sleep(Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)));
        Fleet::start(plan)
    };
    session::run_beside(load, place, &options, watch, start).map(Some)
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn every_load_has_its_part_of_the_agents() {
        for (agents, loads) in [(2, 2), (3, 2), (7, 3), (1024, 5)] {
            let parts: Vec<u16> = (0..loads).map(|number| part(agents, loads, number)).collect();
            assert_eq!(parts.iter().sum::<u16>(), agents, "{parts:?}");
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1, "{parts:?}");
        }
    }
}
