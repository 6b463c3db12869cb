//! A machine held still for a run (`--isolate`): what can be set is set and undone, what cannot be is said, and neither ends the run.
//!
//! Each thing is a fault of its own name ([`fault::FAULTS`]), journalled first, so that it is undone after `kill -9` as well; but
//! it is no fault of the run: it is set before the load and lasts until after it. The generator's own CPUs are its plan's;
//! addresses of a target that the run starts are fixed when it is started. What became of each is an event
//! ([`event::ISOLATED`] and its like), with its name.

use crate::faults::{Setup, Whom};
use fault::{Asked, Begun, Deed};
use model::Event;
use model::event::{self, Details};
use model::plan::Plan;
use std::path::{Path, PathBuf};

/// What is set for a run, until it is dropped or ended.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    begun: Vec<(&'static str, Begun)>,
    events: Vec<Event>,
}

/// What became of one thing.
enum Became {
    Set(String),
    WasSo(String),
    NotSet(String),
}

impl Isolation {
    /// Sets what can be set of what a plan asks for; `None`: it asks for nothing.
    pub(crate) fn begin(plan: &Plan, setup: &Setup) -> Option<Self> {
        let cpus = plan.isolation.as_ref()?;
        let addresses: Vec<_> = plan.origins.iter().flat_map(|origin| origin.addresses.iter().cloned()).collect();
        let whom = Whom::of_run(&addresses, setup.started.as_ref());
        let journal = setup.journal.clone().map_or_else(crate::check::journal_folder, Ok);
        let mut isolation = Isolation::default();
        isolation.tell(
            "generator",
            match plan.pin.is_empty() {
                true => Became::NotSet("the CPUs that are online are not known".to_owned()),
                false => Became::Set(format!("its workers on {}", words(&plan.pin))),
            },
        );
        isolation.tell("addresses", addresses_of(setup));
        let none_left = |cpus: &[u16], of: &str| (cpus.is_empty()).then(|| format!("no CPU is left for {of}"));
        let target = match &whom.target {
            Err(why) => Err(format!("no process of the target is known here: {why}")),
            Ok(_) => none_left(&cpus.target_cpus, "it beside the generator").map_or(Ok(()), Err),
        };
        let target = target.map(|()| format!("affinity tree:target {}", list(&cpus.target_cpus)));
        let interrupts =
            none_left(&cpus.interrupt_cpus, "them beside the generator and the target").map_or(Ok(()), Err);
        let interrupts = interrupts.map(|()| format!("interrupts {}", list(&cpus.interrupt_cpus)));
        let all = [
            ("target", target),
            ("interrupts", interrupts),
            ("governor", Ok("governor performance".to_owned())),
            ("turbo", Ok("turbo off".to_owned())),
        ];
        for (what, asked) in all {
            let became = match (asked, &journal) {
                (Err(why), _) => Became::NotSet(why),
                (Ok(_), Err(error)) => Became::NotSet(error.to_string()),
                (Ok(asked), Ok(journal)) => isolation.set(what, &asked, &whom, journal),
            };
            isolation.tell(what, became);
        }
        Some(isolation)
    }

    fn set(&mut self, what: &'static str, asked: &str, whom: &Whom, journal: &PathBuf) -> Became {
        let Ok(asked) = Asked::parse(asked) else { return Became::NotSet(format!("'{asked}' is no fault")) };
        let made = asked.plan(whom).and_then(|deeds| {
            let (so, to_do): (Vec<Deed>, Vec<Deed>) = deeds.into_iter().partition(Deed::is_so);
            let said = |deeds: &[Deed]| deeds.iter().map(Deed::words).collect::<Vec<_>>().join("; ");
            if to_do.is_empty() {
                return Ok(Became::WasSo(said(&so)));
            }
            let words = said(&to_do);
            self.begun.push((what, Begun::make(Path::new(journal), to_do, &mut |_| {})?));
            Ok(Became::Set(words))
        });
        made.unwrap_or_else(|error| Became::NotSet(error.to_string()))
    }

    fn tell(&mut self, what: &str, became: Became) {
        let (kind, text) = match became {
            Became::Set(said) => (event::ISOLATED, format!("{what}: {said}")),
            Became::WasSo(said) => (event::ISOLATED_ALREADY, format!("{what}: so before: {said}")),
            Became::NotSet(why) => (event::NOT_ISOLATED, format!("{what}: not set: {why}")),
        };
        self.events.push(of(0, kind, what, text));
    }

    /// What was set and what was not, at the run's beginning; once.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Puts back what was set, the last first.
    pub(crate) fn end(&mut self, at_ns: i64) -> Vec<Event> {
        let undo = |(what, begun): (&'static str, Begun)| match begun.end() {
            Ok(said) => of(at_ns, event::ISOLATION_UNDONE, what, format!("{what}: {}", said.join("; "))),
            Err(error) => of(at_ns, event::ISOLATION_NOT_UNDONE, what, format!("{what}: not undone: {error}")),
        };
        std::mem::take(&mut self.begun).into_iter().rev().map(undo).collect()
    }
}

fn addresses_of(setup: &Setup) -> Became {
    match setup.started.as_ref().map(|started| started.0.has_fixed_addresses()) {
        None => Became::NotSet(
            "the target was there before the run: have the run start it ([target] of a scenario file)".to_owned(),
        ),
        Some(Err(why)) => Became::NotSet(why),
        Some(Ok(())) => Became::Set("those of the target's processes are not randomised".to_owned()),
    }
}

fn of(at_ns: i64, kind: &str, what: &str, text: String) -> Event {
    Event::new(at_ns, kind, text).with(Details { of_kind: Some(what.to_owned()), ..Details::default() })
}

fn list(cpus: &[u16]) -> String {
    cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn words(cpus: &[u16]) -> String {
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, list(cpus))
}
