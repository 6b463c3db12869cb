//! `plimsoll fault undo` and `plimsoll fault list`: what was changed of this host, and put back.
//!
//! A line for each change on stdout. Status 1 where one is left: each says why, on stderr.

use super::say;
use crate::args::host::{ListArgs, UndoArgs};
use crate::exit::{Exit, Failure};
use ::fault::{Entry, Journal, Outcome, Undone};
use model::units::show_duration_ns;
use session::check::journal_folder;
use std::time::SystemTime;

/// Puts back what is open.
pub fn undo(args: &UndoArgs) -> Result<Exit, Failure> {
    let folder = args.journal.clone().map_or_else(journal_folder, Ok)?;
    // A journal that was never kept is not made only to be found empty.
    if Journal::list(&folder)?.is_empty() {
        say(&format!("nothing to undo: no change is open in {}", folder.display()))?;
        return Ok(Exit::Fine);
    }
    let mut journal = Journal::open(&folder)?;
    let mut exit = Exit::Fine;
    for undone in ::fault::undo(&mut journal, args.force, &mut |_| {})? {
        match said(&undone) {
            Ok(line) => say(&line)?,
            Err(why) => exit = exit.worst(Failure::could_not_run(why).show()),
        }
    }
    Ok(exit)
}

/// What became of an entry: a line where it is closed, a sentence where it stays open.
fn said(Undone { entry, outcome }: &Undone) -> Result<String, String> {
    let (name, before, after) = (entry.what.name(), entry.what.before(), entry.what.after());
    if let (true, Outcome::PutBack) = (entry.what.is_blind(), outcome) {
        return Ok(format!("command '{after}' undone by '{before}'"));
    }
    match outcome {
        Outcome::PutBack => Ok(format!("{name}: {after} → {before}, as before")),
        Outcome::AsBefore => Ok(format!("{name}: {before}, was as before already")),
        Outcome::Forced { found } => {
            Ok(format!("{name}: {found} → {before}, as before (somebody had changed our {after} to {found})"))
        }
        Outcome::Restarted => Ok(format!("{name}: gone with the restart of the machine since")),
        Outcome::Gone => Ok(format!("{name}: gone since, and what was changed of it with it")),
        Outcome::Forgotten => Ok(format!("{name}: forgotten, no process is in its network namespace any more")),
        Outcome::Foreign { found } => Err(format!(
            "{name}: expected the value we set, {after}, but somebody has changed it to {found} since: left as it is; \
             --force puts {before} back"
        )),
        Outcome::OtherNetwork { process: Some(pid) } => Err(format!(
            "{name}: was changed in the network namespace of process {pid}, not in this one: run \
             `nsenter -t {pid} -n plimsoll fault undo`"
        )),
        Outcome::OtherNetwork { process: None } => Err(format!(
            "{name}: was changed in another network namespace, and no process can be seen in it: if it is gone, --force \
             forgets the change"
        )),
        Outcome::Failed(error) => Err(format!("{error}; it stays in the journal")),
    }
}

/// Lists what is open.
pub fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let folder = args.journal.clone().map_or_else(journal_folder, Ok)?;
    let entries = Journal::list(&folder)?;
    if entries.is_empty() {
        say(&format!("no change is open in {}", folder.display()))?;
    }
    entries.iter().try_for_each(|entry| say(&listed(entry)))?;
    Ok(Exit::Fine)
}

fn listed(entry: &Entry) -> String {
    let (name, before, after) = (entry.what.name(), entry.what.before(), entry.what.after());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let age_ns = now.saturating_sub(u128::from(entry.at_unix_ns)) as f64;
    let made = if entry.done { "" } else { ", not known to have been made: its process ended in between" };
    format!(
        "{}  {name}: {before} → {after}  ({} ago by process {}{made})",
        entry.id,
        show_duration_ns(age_ns),
        entry.pid
    )
}
