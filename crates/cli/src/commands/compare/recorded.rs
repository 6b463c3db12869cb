//! `plimsoll compare`: of recordings that exist, or what `ab` kept, once more.
//!
//! Two runs have no repeats: what differs is shown, and that one run each cannot tell chance from change. Several runs a side
//! are judged, in pairs only where the user says that they were made in turn.

use super::{Shown, again, exit_of, print};
use crate::args::compare::recorded::CompareArgs;
use crate::commands::command_line;
use crate::exit::{Exit, Failure};
use diagnose::comparison::{
    Comparison, Figures, Pairing, Quantity, REPEATS_MAX, SCHEMA, Seen, Side, Slice, differences, findings_seen,
};
use model::Recording;
use model::finding::{Diagnosis, ValidityState};
use model::recording::End;
use std::path::{Path, PathBuf};
use store::Reader;

/// A comparison is no longer than this, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// It has no more slices than this: three a repeat, each of them twice.
const SLICES_MAX: usize = 6 * REPEATS_MAX as usize;

/// Compares them, or shows one again.
pub fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let shown = Shown { file: None, json: args.json, html: args.html.as_deref(), no_color: args.no_color };
    if let ([path], []) = (&args.a[..], &args.b[..]) {
        if path.ends_with(".json") {
            return again(Path::new(path), &shown);
        }
        return Err(Failure::usage("expected two runs, or the file of a comparison, got one run: name another"));
    }
    let (a, b) = match (&args.a[..], &args.b[..]) {
        ([a, b], []) => (std::slice::from_ref(a), std::slice::from_ref(b)),
        (_, []) => {
            return Err(Failure::usage(format!(
                "expected two runs, or those of A and of B with -- between, got {} and no --: put it in",
                args.a.len()
            )));
        }
        (a, b) => (a, b),
    };
    if a.len().max(b.len()) > REPEATS_MAX as usize {
        return Err(Failure::usage(format!(
            "expected at most {REPEATS_MAX} runs a side, got {} and {}",
            a.len(),
            b.len()
        )));
    }
    if args.paired && a.len() != b.len() {
        return Err(Failure::usage(format!(
            "--paired: expected as many runs of B as of A, got {} and {}: leave it out, or name the missing ones",
            a.len(),
            b.len()
        )));
    }
    let [a, b] = [read(args, Side::A, a)?, read(args, Side::B, b)?];
    let comparison = compared(args, &a, &b);
    print(&comparison, None, &shown)?;
    Ok(exit_of(&comparison))
}

/// The page of one recording beside another.
///
/// # Errors
/// They cannot be read, or have no load.
pub fn page_of(a: &Path, b: &Path) -> Result<Vec<u8>, Failure> {
    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: CompareArgs,
    }
    let words = ["compare".as_ref(), a.as_os_str(), b.as_os_str()];
    let Typed { args } = clap::Parser::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))?;
    let [of_a, of_b] = [read(&args, Side::A, &args.a[..1])?, read(&args, Side::B, &args.a[1..])?];
    let comparison = Comparison { command: words_of(a, b), ..compared(&args, &of_a, &of_b) };
    let mut page = Vec::new();
    report::html::comparison::write(&mut page, &comparison, None)?;
    Ok(page)
}

fn words_of(a: &Path, b: &Path) -> Vec<String> {
    ["plimsoll".into(), "compare".into(), a.display().to_string(), b.display().to_string()].to_vec()
}

/// A recording with what is made of it.
struct Run {
    side: Side,
    path: PathBuf,
    recording: Recording,
    diagnosis: Diagnosis,
    figures: Figures,
    own_margin: Option<f64>,
}

fn read(args: &CompareArgs, side: Side, wanted: &[String]) -> Result<Vec<Run>, Failure> {
    let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
    let one = |wanted: &String| -> Result<Run, Failure> {
        let path = store::find(folder, wanted)?;
        let (mut recording, history) = Reader::open(&path)?.load_with_history()?;
        if let Some(why) = recording.capsule.why_no_load() {
            return Err(Failure::usage(format!("expected runs with a load, but of '{wanted}' {why}: leave it out")));
        }
        let diagnosis = diagnose::diagnose_with(&recording, &history);
        let figures = Figures::of(&recording, &history);
        let own_margin = Figures::own_margin(&recording, &history);
        // Only what it was made with is looked at from here on.
        recording.snapshots = Vec::new();
        Ok(Run { side, path, recording, diagnosis, figures, own_margin })
    };
    wanted.iter().map(one).collect()
}

fn compared(args: &CompareArgs, a: &[Run], b: &[Run]) -> Comparison {
    let began = |run: &Run| run.recording.capsule.started_at_unix_ns;
    let first_ns = a.iter().chain(b).map(began).min().unwrap_or(0);
    let pairing = match (a.len(), b.len()) {
        (1, 1) => Pairing::Single,
        _ if args.paired => Pairing::Paired,
        _ => Pairing::Unpaired,
    };
    let slices = |runs: &[Run]| -> Vec<Slice> { (1..).zip(runs).map(|(n, run)| slice(n, run, first_ns)).collect() };
    let mut slices = [slices(a), slices(b)].concat();
    slices.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    let named = |runs: &[Run]| runs.iter().map(|run| run.path.display().to_string()).collect::<Vec<_>>().join(", ");
    let pace = a.first().map(|run| &run.recording.plan.pace);
    let declared = match (&args.bounds.declare[..], pace) {
        ([], Some(pace)) => Quantity::declared_by_default(pace),
        (declared, _) => declared.to_vec(),
    };
    let seen: Vec<Seen> = a.iter().chain(b).map(|run| Seen::of(run.side, &run.diagnosis)).collect();
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at_unix_ns: first_ns,
        a: named(a),
        b: named(b),
        end: End::Complete,
        pairing,
        repeats: u32::try_from(a.len().min(b.len())).unwrap_or(u32::MAX),
        slice_s: None,
        seed: None,
        tolerance: args.bounds.tolerance,
        confidence: args.bounds.confidence,
        declared,
        command: command_line::whole(),
        sentence: String::new(),
        judgements: Vec::new(),
        differences: match (a.first(), b.first()) {
            (Some(a), Some(b)) => differences(&a.recording, &b.recording),
            _ => Vec::new(),
        },
        findings: findings_seen(&seen),
        slices,
    };
    comparison.judge();
    comparison
}

fn slice(number: u32, run: &Run, first_ns: u64) -> Slice {
    let validity = &run.diagnosis.validity;
    let disturbed = (validity.state == ValidityState::NotValid)
        .then(|| validity.reasons.first().map_or_else(|| "it is not valid".to_owned(), |reason| reason.text.clone()));
    Slice {
        repeat: number,
        side: run.side,
        at_s: run.recording.capsule.started_at_unix_ns.saturating_sub(first_ns) as f64 / 1e9,
        recording: Some(run.path.display().to_string()),
        figures: run.figures.clone(),
        own_margin: run.own_margin,
        disturbed,
        gives: run.diagnosis.gives.as_ref().map(|gives| gives.text.clone()),
    }
}

/// What was kept, judged anew.
///
/// # Errors
/// It is no comparison, or longer than any.
pub fn kept(path: &Path) -> Result<Comparison, Failure> {
    let wrong = |why: String| {
        Failure::could_not_run(format!("expected a comparison in '{}', but {why}: check its path", path.display()))
    };
    let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(wrong(format!("it has {length} bytes, and none is longer than 64 MiB")));
    }
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut comparison: Comparison = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if comparison.schema != SCHEMA {
        return Err(wrong(format!("it is a '{}' and not a '{SCHEMA}'", comparison.schema)));
    }
    if comparison.slices.len() > SLICES_MAX {
        return Err(wrong(format!("it has {} slices, and none has more than {SLICES_MAX}", comparison.slices.len())));
    }
    comparison.judge();
    Ok(comparison)
}
