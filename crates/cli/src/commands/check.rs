//! `plimsoll check`: is this host ready for a load, what binds first, and with `--fix` what can be changed about it.
//!
//! Status 0 when nothing binds, 3 when something does, 1 when a change was refused.

use super::output::terminal;
use crate::args::host::CheckArgs;
use crate::args::protocols;
use crate::exit::{Exit, Failure};
use model::Scenario;
use model::check::FixOutcome;
use model::scenario::WeightedUrl;
use model::workload::http::HttpAsked;
use report::check::{Checked, Document};
use session::check;

/// Checks, and changes where that was asked for.
pub fn run(args: CheckArgs) -> Result<Exit, Failure> {
    if args.dry_run && !args.fix {
        return Err(Failure::usage("--dry-run says what --fix would change: add --fix, or leave it out"));
    }
    let urls: Vec<WeightedUrl> =
        args.url.iter().map(|url| WeightedUrl { url: model::hide::secret_url(url), weight: 1.0 }).collect();
    let closing = args.disable_keepalive.then_some(HttpAsked { disable_keepalive: true, ..HttpAsked::default() });
    let given = closing.iter().map(|_| "disable_keepalive".to_owned()).collect::<Vec<_>>();
    protocols::refuse_others(&given, urls.first().map(|first| &first.url))?;
    let scenario = Scenario {
        urls,
        what: closing.map(Into::into),
        connections: args.connections,
        profile: args.rate.map(|profile| profile.0).unwrap_or_default(),
        driver: args.driver.map(Into::into),
        ..Scenario::default()
    };
    let host = super::host();
    let demand = check::demand(&scenario, args.sources, &host)?;
    let mut found = check::check(demand);
    let fixes = match (args.fix, args.dry_run) {
        (false, _) => Vec::new(),
        (true, true) => check::would_fix(&found),
        (true, false) => {
            let fixes = check::fix(&found, &args.journal.map_or_else(check::journal_folder, Ok)?)?;
            // What is shown is how it is now.
            found = check::check(found.demand);
            fixes
        }
    };
    let checked =
        Checked { target: args.url.map_or_else(String::new, |url| model::hide::url(&url)), check: found, fixes };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => Document::of(&checked, env!("CARGO_PKG_VERSION")).write(&mut out)?,
        false => report::check::write(&mut out, &checked, terminal::style(args.no_color))?,
    }
    drop(out);
    Ok(exit_of(&checked))
}

fn exit_of(checked: &Checked) -> Exit {
    let mut exit = match checked.check.first_to_bind() {
        Some(_) => Exit::ExpectationFailed,
        None => Exit::Fine,
    };
    for refused in checked.fixes.iter().filter(|fix| fix.outcome == FixOutcome::Refused) {
        exit = exit.worst(Failure::could_not_run(&refused.reason).show());
    }
    exit
}
