//! Recordings of cases: small ones lie beside their cases, so that rules are tested in milliseconds and without root.
//!
//! `PLIMSOLL_TRUTH_RECORD=1` makes them anew: of the last run that was right, and is so by its recording alone, without what is
//! allowed for on a crowded machine. One that comes to more than [`BYTES_MAX`] compressed is not kept, as a repository carries
//! it for ever; nor one with a path of whoever made it.

use crate::case::{Case, cases};
use crate::results::{Judgement, Outcome};
use crate::run::{self, Broken, recording_of};
use lzma_rust2::{XzOptions, XzReader, XzWriter};
use model::finding::{About, Diagnosis, Severity, Status};
use std::io::{Read, Write};
use std::path::Path;
use store::Reader;

/// A recording may take so many bytes.
const BYTES_MAX: usize = 60_000;
/// All of them together may.
const BYTES_MAX_ALL: usize = 3_000_000;

/// Runs a case. A run that is not right leaves its recording in `target/truth`, for `plimsoll report`; a right one beside its
/// case where that is wanted.
pub fn run(case: &Case, number: usize, seed: u64, is_recording: bool) -> Result<Outcome, Broken> {
    let name = format!("{}-{seed}.db", case.name.replace('/', "-"));
    let file = crate::results::folder().join(&name);
    remove(&file);
    let outcome = run::run(case, number, seed, &name)?;
    if outcome.judgement(case) != Judgement::Right {
        return Ok(outcome);
    }
    if is_recording {
        let mut packed = XzWriter::new(Vec::new(), XzOptions::with_preset(9)).unwrap();
        packed.write_all(&std::fs::read(&file).unwrap()).unwrap();
        let packed = packed.finish().unwrap();
        let own = own_path_in(&file);
        println!(
            "{:32} its recording takes {} bytes{}",
            case.name,
            packed.len(),
            own.as_ref().map_or("", |_| " and has somebody's paths")
        );
        // That the machine was crowded is not in it: it must speak for itself.
        let is_right_again = judged(case, &file).is_ok_and(|outcome| outcome.is_as_expected(case));
        if packed.len() <= BYTES_MAX && own.is_none() && is_right_again {
            std::fs::write(recording_of(case), packed).unwrap();
        }
    }
    remove(&file);
    Ok(outcome)
}

/// With the parts that a run leaves which was killed: the next one of that name would be refused.
fn remove(file: &Path) {
    for part in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(part);
        let _ = std::fs::remove_file(name);
    }
}

/// A folder in which people have their files, of which something is in a file.
fn own_path_in(file: &Path) -> Option<String> {
    let text = std::fs::read(file).unwrap();
    let is_in = |own: &String| text.windows(own.len()).any(|at| at == own.as_bytes());
    ["home", "root", "work", "Users"].map(|folder| format!("/{folder}/")).into_iter().find(is_in)
}

fn unpacked(packed: &Path, to: &Path) {
    let mut bytes = Vec::new();
    XzReader::new(std::fs::File::open(packed).unwrap(), false).read_to_end(&mut bytes).unwrap();
    std::fs::write(to, bytes).unwrap();
}

fn judged(case: &Case, file: &Path) -> Result<Outcome, store::StoreError> {
    let (recording, history) = Reader::open(file)?.load_with_history()?;
    Ok(outcome(case, &diagnose::diagnose_with(&recording, &history)))
}

/// As a report has it.
fn outcome(case: &Case, diagnosis: &Diagnosis) -> Outcome {
    let of_target = || diagnosis.findings.iter().filter(|f| f.about == About::Target && f.status == Status::Supported);
    let gives = diagnosis.gives.as_ref();
    Outcome {
        first: gives.and_then(|gives| gives.finding.clone()),
        standing: gives.map_or(String::new(), |gives| {
            serde_json::to_value(gives.standing).unwrap().as_str().unwrap_or_default().to_owned()
        }),
        text: gives.map_or(String::new(), |gives| gives.text.clone()),
        above: of_target()
            .filter(|f| f.severity > Severity::Info && !case.expect.explains(&f.because_of))
            .map(|f| f.id.clone())
            .collect(),
        supported: of_target().map(|f| f.id.clone()).collect(),
        ..Outcome::of(case, 0, case.draw(0), &serde_json::json!({"findings": []}))
    }
}

/// The recordings that there are, unpacked one after the other.
fn each_recording(mut each: impl FnMut(&Case, &Path)) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.db");
    let all = cases();
    let recorded = all.iter().filter(|case| recording_of(case).exists());
    recorded
        .map(|case| {
            unpacked(&recording_of(case), &file);
            each(case, &file);
        })
        .count()
}

#[test]
fn recordings_of_cases_are_diagnosed_as_their_cases_say() {
    let mut wrong = Vec::new();
    let count = each_recording(|case, file| {
        let outcome = judged(case, file).unwrap();
        if !outcome.is_as_expected(case) {
            wrong.push(format!("{}: {}", case.name, outcome.line(case)));
        }
    });
    assert!(count >= 6, "{count} recordings");
    assert!(wrong.is_empty(), "of {count} recordings are wrong:\n{}", wrong.join("\n"));
}

#[test]
fn recordings_of_cases_are_small_and_hold_nobodys_paths() {
    let mut bytes_all = 0;
    let count = each_recording(|case, file| {
        let bytes = std::fs::metadata(recording_of(case)).unwrap().len() as usize;
        assert!(bytes <= BYTES_MAX, "{}: {bytes} bytes", case.name);
        bytes_all += bytes;
        let own = own_path_in(file);
        assert_eq!(own, None, "{}: its recording has a path below it", case.name);
    });
    assert!(count > 0 && bytes_all <= BYTES_MAX_ALL, "{count} recordings, {bytes_all} bytes");
}
