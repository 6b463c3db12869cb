//! `plimsoll agent`, `agents` and `attach`, and a load that agents put on.
//!
//! `agent` serves until Ctrl-C or SIGTERM; a run that is under way is ended first, and handed over. `agents` lists who is there; `attach`
//! takes a run over, or lists those that go on. Results are those of `load`.

pub mod kubernetes;
mod together;

pub use together::{PutOnBy, put_on_together};

use super::output::progress::Shown;
use super::output::together as shown_together;
use super::{interrupt, tell};
use crate::args::agents::{AgentArgs, AgentsArgs, AttachArgs, ByAgentsArgs, Count};
use crate::args::load::LoadArgs;
use crate::args::remote::BehindArg;
use crate::exit::{Exit, Failure};
use agents::message::{NAMES, is_label, is_name};
use agents::{
    AgentOptions, AgentsError, Asked, BehindOf, Conduct, Listed, OnLost, RunResult, RunStream, Team, TeamSpec,
};
use model::Plan;
use model::plain::plain;
use model::units::show_duration_ns;
use serde_json::json;
use session::faults::Setup;
use session::{Hands, Options, Outcome, RecordTo, ThisProcess, Watch};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Serves as an agent.
pub fn agent(args: &AgentArgs) -> Result<Exit, Failure> {
    super::raise_descriptor_limit();
    let name = match &args.name {
        Some(name) => name.clone(),
        None => default_name("agent"),
    };
    if !is_name(&name) {
        return Err(Failure::usage(format!("--name: expected {NAMES}, got '{}'", plain(&name))));
    }
    if let Some(label) = args.label.iter().find(|label| !is_label(label)) {
        return Err(Failure::usage(format!(
            "--label: expected a word such as big, or one with a value such as zone=a, got '{}'",
            plain(label)
        )));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let folder = store::default_folder()?.with_file_name("agents");
    store::probe(&folder)?;
    let options = AgentOptions {
        name,
        labels: args.label.clone(),
        workers: args.cores.unwrap_or(u16::try_from(cores).unwrap_or(u16::MAX).min(agents::limits::WORKERS_MAX)),
        allowed: args.allow_target.clone(),
        rate_max: args.rate_max,
        connections_max: args.connections_max,
        token: args.token()?,
        version: VERSION.to_owned(),
        folder,
        tell,
        interrupted: interrupt::flag()?,
    };
    agents::serve(&args.nats.nats(), options)?;
    Ok(Exit::Fine)
}

/// The machine's name as far as it can be part of one, and the process.
pub fn default_name(otherwise: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = host.trim().split('.').next().unwrap_or_default();
    let host: String = short.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect();
    let host = host.trim_start_matches('-');
    format!("{}-{}", if host.is_empty() { otherwise } else { host }, std::process::id())
}

/// Lists agents.
pub fn list(args: &AgentsArgs) -> Result<Exit, Failure> {
    let (listed, observers) = agents::list(&args.nats.nats())?;
    let mut stdout = std::io::stdout().lock();
    if args.json {
        let all: Vec<serde_json::Value> = listed.iter().map(as_json).collect();
        writeln!(stdout, "{}", json!({ "schema": "plimsoll.agents/1", "agents": all, "observers": observers }))?;
        return Ok(Exit::Fine);
    }
    if listed.is_empty() {
        tell("no agent answers there: start one with `plimsoll agent`");
    }
    for Listed { card, clock } in &listed {
        let state = match &card.run {
            Some(run) => format!("{} {run}", card.doing.name()),
            None => card.doing.name().to_owned(),
        };
        let clock = match clock {
            Some(clock) => format!(
                "clock {}{} ± {}",
                if clock.offset_ns < 0 { "−" } else { "+" },
                show_duration_ns(clock.offset_ns.unsigned_abs() as f64),
                show_duration_ns(clock.bound_ns as f64)
            ),
            None => "its clock does not answer".to_owned(),
        };
        let other =
            if card.version == VERSION { String::new() } else { format!(" (another than this, {VERSION}: refused)") };
        let labels = if card.labels.is_empty() { String::new() } else { format!(", labels {}", card.labels.join(" ")) };
        let line = format!(
            "{}: {state}, version {}{other}, {} workers, {clock}, may load {}{labels}",
            card.name,
            card.version,
            card.workers,
            card.targets.join(" ")
        );
        writeln!(stdout, "{}", plain(&line))?;
    }
    for one in &observers {
        let line = format!("observer nats:{}: version {}, fingerprint {}", one.name, one.version, one.fingerprint);
        writeln!(stdout, "{}", plain(&line))?;
    }
    Ok(Exit::Fine)
}

fn as_json(Listed { card, clock }: &Listed) -> serde_json::Value {
    json!({
        "name": card.name,
        "state": card.doing,
        "run": card.run,
        "version": card.version,
        "cpu": card.cpu,
        "workers": card.workers,
        "labels": card.labels,
        "targets": card.targets,
        "clock": clock.map(|clock| json!({ "offset_ns": clock.offset_ns, "bound_ns": clock.bound_ns })),
    })
}

/// Takes a run over, or lists those that go on.
pub fn attach(args: &AttachArgs) -> Result<Exit, Failure> {
    let nats = args.nats.nats();
    let Some(run) = &args.run else {
        let mut stdout = std::io::stdout().lock();
        let open = agents::open_runs(&nats)?;
        if open.is_empty() {
            tell("no run goes on there");
        }
        for one in open {
            writeln!(stdout, "{}", plain(&format!("{}: {} agents, {}", one.run, one.agents, one.target)))?;
        }
        return Ok(Exit::Fine);
    };
    let record = match (&args.record, args.no_record) {
        (Some(file), _) => RecordTo::File(file.clone()),
        (None, true) => RecordTo::Nothing,
        (None, false) => RecordTo::Folder(store::default_folder()?),
    };
    let interrupted = interrupt::flag()?;
    let mut shown = Shown::new(args.quiet);
    let conduct = conduct(record, args.agents_wait, Arc::clone(&interrupted), Setup::default(), &mut shown);
    let ended = agents::attach(&nats, run, conduct);
    shown.clear();
    interrupt::end_at_once(&interrupted);
    // Its stream goes when all of this is printed.
    let RunResult { outcome, stream: _stream, .. } = match ended {
        Err(error @ AgentsError::TakenAway(_)) => {
            tell(&error.to_string());
            return Ok(Exit::Fine);
        }
        ended => ended?,
    };
    let parts = [shown_together::Part::of_outcome(&outcome)];
    if args.json {
        shown_together::json(&parts)?;
    } else {
        let no_color = args.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        shown_together::text(&parts, false, no_color)?;
    }
    Ok(shown_together::exit_of(&parts))
}

fn conduct<'w>(
    record: RecordTo,
    wait_ns: u64,
    interrupted: Arc<AtomicBool>,
    faults: Setup,
    watch: &'w mut dyn Watch,
) -> Conduct<'w> {
    let wait = Duration::from_nanos(wait_ns);
    Conduct { record, wait, version: VERSION.to_owned(), interrupted, tell, watch, faults, series: None, company: None }
}

/// Refuses what agents cannot do yet, before anything is done.
pub fn refuse(args: &LoadArgs) -> Result<(), Failure> {
    let wrong = [(!args.place.source.is_empty(), "--source"), (args.output.record_secrets, "--record-secrets")];
    match wrong.iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => {
            Err(Failure::usage(format!("{what} cannot be used with --agents yet: leave one of them out")))
        }
        None => Ok(()),
    }
}

/// What agents have put on: each load's outcome, and what NATS still has of it, to be dropped when that is printed.
pub struct Had {
    /// The loads' outcomes, in their order.
    pub outcomes: Vec<Outcome>,
    /// The runs' streams.
    pub streams: Vec<RunStream>,
}

/// Puts a plan on by agents; `None`: another command that follows the run has its result, and that was said.
pub fn put_on(
    args: &LoadArgs,
    plan: &Plan,
    count: u16,
    options: &Options,
    faults: Setup,
    shown: &mut Shown,
) -> Result<Option<Had>, Failure> {
    let asked = Asked {
        driver_reason: options.driver_reason.clone(),
        observe: options.observe,
        command: options.command.clone(),
        ..asked(args, count, args.by_agents.on_lost())?
    };
    let token = args.remote.link.token()?;
    let interrupted = Arc::clone(&options.interrupted);
    let conduct = conduct(options.record.clone(), args.by_agents.agents_wait, interrupted, faults, shown);
    match agents::load(&args.by_agents.nats("--agents")?, plan, asked, token.as_ref(), conduct) {
        Err(error @ AgentsError::TakenAway(_)) => {
            tell(&error.to_string());
            Ok(None)
        }
        ended => {
            let RunResult { outcome, stream, .. } = ended?;
            Ok(Some(Had { outcomes: vec![outcome], streams: vec![stream] }))
        }
    }
}

/// What a load of so many agents asks for; what is only known with each load is to be filled in.
fn asked(args: &LoadArgs, agents: u16, on_lost: OnLost) -> Result<Asked, Failure> {
    let ByAgentsArgs { agent_label, lost_after, stream_max, .. } = &args.by_agents;
    if let Some(label) = agent_label.iter().find(|label| !is_label(label)) {
        return Err(Failure::usage(format!("--agent-label: expected a label such as zone=a, got '{}'", plain(label))));
    }
    let probes = args.output.probes();
    let behind = |behind: &BehindArg| {
        let at = args.remote.link.of_agents(&behind.observer, probes)?;
        Ok::<_, Failure>(BehindOf { at, port: behind.port })
    };
    Ok(Asked {
        agents,
        labels: agent_label.clone(),
        on_lost,
        lost_after_ns: *lost_after,
        workers: args.machine.threads,
        driver_reason: String::new(),
        observe: true,
        observe_at: args
            .remote
            .observe_at
            .as_ref()
            .map(|address| args.remote.link.of_agents(address, probes))
            .transpose()?,
        behind: args.remote.behind.iter().map(behind).collect::<Result<_, _>>()?,
        command: Vec::new(),
        version: VERSION.to_owned(),
        stream_bytes_max: *stream_max,
    })
}

/// Agents for the steps of a search, where they were asked for. `is_by_connections`: the number of connections is what is looked for.
pub fn team_of_search(args: &LoadArgs, is_by_connections: bool) -> Result<Option<Team>, Failure> {
    // A step of which an agent was lost is put on again: nothing more is to be learned of it.
    team_of(args, is_by_connections, OnLost::Stop)
}

/// Agents for a series of loads, where they were asked for.
pub fn team(args: &LoadArgs) -> Result<Option<Team>, Failure> {
    args.by_agents.count()?;
    team_of(args, false, args.by_agents.on_lost())
}

fn team_of(args: &LoadArgs, is_by_connections: bool, on_lost: OnLost) -> Result<Option<Team>, Failure> {
    let Some(Count { least, most }) = args.by_agents.agents else { return Ok(None) };
    refuse(args)?;
    Ok(Some(Team::new(TeamSpec {
        nats: args.by_agents.nats("--agents")?,
        asked: asked(args, least, on_lost)?,
        agents: least..=most,
        is_by_connections,
        token: args.remote.link.token()?,
        wait: Duration::from_nanos(args.by_agents.agents_wait),
        tell,
    })))
}

/// Those who put a series on: the agents that were asked for, or this process.
pub fn hands<'t>(team: &'t mut Option<Team>, own: &'t mut ThisProcess) -> &'t mut dyn Hands {
    match team {
        Some(team) => team,
        None => own,
    }
}

impl From<AgentsError> for Failure {
    fn from(error: AgentsError) -> Self {
        match error {
            AgentsError::Merge(error) => error.into(),
            AgentsError::Store(error) => error.into(),
            AgentsError::Run(error) => error.into(),
            AgentsError::Interrupted => Failure::interrupted(error.to_string()),
            error if error.is_usage() => Failure::usage(error.to_string()),
            error => Failure::could_not_run(error.to_string()),
        }
    }
}
