//! `plimsoll audit`: what cannot be of a load's figures, with the arithmetic; of a recording, or of figures given by hand.
//!
//! Status 3 where figures contradict each other, else 0: an audit finds what cannot be true, and proves nothing.

use super::output::{results, terminal};
use crate::args::audit::{AuditArgs, FigureArgs};
use crate::exit::{Exit, Failure};
use diagnose::audit::{Figures, audit, of_run};
use report::answer::audit::Document;
use store::Reader;

/// Audits it.
pub fn run(args: &AuditArgs) -> Result<Exit, Failure> {
    let given = by_hand(&args.figures);
    let document = match &args.run {
        Some(run) => {
            let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
            let path = store::find(folder, run)?;
            let (recording, history) = Reader::open(&path)?.load_with_history()?;
            let diagnosis = diagnose::diagnose_with(&recording, &history);
            let checks = of_run(&recording, &diagnosis, &given);
            Document::of(checks, Some(path.display().to_string()))
        }
        None => Document::of(audit(&given), None),
    };
    if document.checks.is_empty() {
        return Err(Failure::usage(
            "expected figures that can be held against each other, such as --throughput 228/s --latency 43ms --concurrency 10, \
             or --rate 3000/s --size 26MB --link 10Gbit, or a recording such as 'last'",
        ));
    }
    match args.json {
        true => results::to_stdout(|out| document.write_json(out))?,
        false => {
            let style = terminal::style(args.no_color);
            results::to_stdout(|out| document.write_text(out, style))?;
        }
    }
    Ok(if document.contradicts { Exit::ExpectationFailed } else { Exit::Fine })
}

fn by_hand(args: &FigureArgs) -> Figures {
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    let count = |n: Option<u64>| n.map(|n| n as f64);
    Figures {
        throughput_per_s: args.throughput,
        rate_per_s: args.rate,
        latency_s: seconds(args.latency),
        concurrency: args.concurrency.map(f64::from),
        size_bytes: count(args.size),
        link_bits_per_s: args.link,
        duration_s: seconds(args.duration),
        requests: count(args.requests),
        bytes: count(args.bytes),
    }
}
