//! `plimsoll fault`: one fault by hand, the list of all of them, and what was changed and is put back ([`journal`]).
//!
//! What is done is said on stdout, a line a deed. With `--for` it is undone after that time or by Ctrl-C; without, it stays,
//! and the last line says how it is undone. Status 1 where it was not done or not undone, 2 where it is none.

mod journal;

use super::interrupt;
use crate::args::host::{FaultArgs, FaultCommand};
use crate::exit::{Exit, Failure};
use ::fault::{ApplyError, Asked, Begun, Deed, EndError, FAULTS, Undoing};
use model::fault::LoadFault;
use model::plain::plain;
use model::units::show_duration_ns;
use session::check::journal_folder;
use session::faults::{Whom, understood};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest that is slept without looking whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// Carries out `plimsoll fault`.
pub fn run(args: &FaultArgs) -> Result<Exit, Failure> {
    match &args.command {
        Some(FaultCommand::Undo(args)) => return journal::undo(args),
        Some(FaultCommand::List(args)) => return journal::list(args),
        None if args.list => return list(),
        None => {}
    }
    let bad = |error: ::fault::BadArgument| Failure::usage(error.to_string());
    let asked = Asked::of_words(&args.words).map_err(bad)?;
    // The same check as for a fault of a run: what cannot be undone has no length.
    understood(&LoadFault { fault: asked.text(), at_ns: 0, for_ns: args.for_ns }).map_err(bad)?;
    let deeds = asked.plan(&Whom::without_run()).map_err(refused)?;
    if args.dry_run {
        return would_do(&asked, &deeds, args.for_ns);
    }
    let folder = args.journal.clone().map_or_else(journal_folder, Ok)?;
    make(&asked, deeds, args.for_ns, &folder)
}

/// Does it, and undoes it when its time is over.
fn make(asked: &Asked, deeds: Vec<Deed>, for_ns: Option<u64>, folder: &Path) -> Result<Exit, Failure> {
    let said: Vec<String> = deeds.iter().map(Deed::words).collect();
    let is_all_so = deeds.iter().all(Deed::is_so);
    // Before it is done: from now on Ctrl-C undoes it.
    let interrupted = interrupt::flag()?;
    let begun = Begun::make(folder, deeds, &mut |_| {}).map_err(refused)?;
    said.iter().try_for_each(|line| say(line))?;
    let end = |begun: Begun| -> Result<(), Failure> {
        Ok(begun.end().map_err(not_undone)?.iter().try_for_each(|line| say(line))?)
    };
    let Some(for_ns) = for_ns else {
        match asked.kind().undone {
            Undoing::Back(_) if is_all_so => say("it is so already: nothing was changed")?,
            Undoing::Back(_) => {
                begun.leave();
                say("it stays so until `plimsoll fault undo`")?;
            }
            Undoing::SecondHalf(_) => end(begun)?,
            Undoing::Never(_) => {}
        }
        return Ok(Exit::Fine);
    };
    let (began, whole) = (Instant::now(), Duration::from_nanos(for_ns));
    while began.elapsed() < whole && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(whole.saturating_sub(began.elapsed()).min(LOOK));
    }
    end(begun)?;
    Ok(if interrupted.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Fine })
}

/// Says what would be done. Status 1 where a right or program is missing.
fn would_do(asked: &Asked, deeds: &[Deed], for_ns: Option<u64>) -> Result<Exit, Failure> {
    say(&format!("{} would do (nothing was done):", asked.text()))?;
    let mut exit = Exit::Fine;
    for deed in deeds {
        let so = if deed.is_so() { ", so already" } else { "" };
        say(&format!("  {}{so}", deed.words()))?;
    }
    let undone = asked.kind().undone;
    let when = match (undone, for_ns) {
        (Undoing::Never(_), _) => "never".to_owned(),
        (_, Some(ns)) => format!("after {} or by Ctrl-C", show_duration_ns(ns as f64)),
        (Undoing::SecondHalf(_), None) => "at once".to_owned(),
        (Undoing::Back(_), None) => "by `plimsoll fault undo`".to_owned(),
    };
    say(&format!("undone: {when}: {}", undone.words()))?;
    for missing in deeds.iter().filter_map(|deed| deed.may().err()) {
        exit = exit.worst(Failure::could_not_run(missing.to_string()).show());
    }
    if exit == Exit::Fine {
        say("the rights and programs that it needs are there")?;
    }
    Ok(exit)
}

/// Every fault.
fn list() -> Result<Exit, Failure> {
    say(
        "WHO: a process's id, port:PORT (who listens there), or target (in a run); tree: before it for its descendants, too",
    )?;
    for kind in FAULTS {
        say("")?;
        say(format!("{} {}", kind.name, kind.takes).trim_end())?;
        say(&format!("    {}", kind.does))?;
        say(&format!("    needs: {}", kind.needs))?;
        let not = if matches!(kind.undone, Undoing::Never(_)) { "cannot be" } else { "undone" };
        say(&format!("    {not}{}", undone_words(kind.undone)))?;
        say(&format!("    such as: plimsoll fault {} {}", kind.name, kind.example))?;
    }
    Ok(Exit::Fine)
}

fn undone_words(undone: Undoing) -> String {
    match undone {
        Undoing::Never(why) => format!(" undone: {why}"),
        other => format!(": {}", other.words()),
    }
}

fn refused(error: ApplyError) -> Failure {
    match error {
        ApplyError::Journal(error) => error.into(),
        error => Failure::could_not_run(error.to_string()),
    }
}

fn not_undone(error: EndError) -> Failure {
    match error {
        EndError::Journal(error) => error.into(),
        error => Failure::could_not_run(error.to_string()),
    }
}

/// A line on stdout: what a journal or a process's name says must not steer the terminal.
fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{}", plain(line))
}
