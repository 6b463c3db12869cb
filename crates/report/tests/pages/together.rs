//! The report of several loads put on together, and of a run that was repeated: as text and as documents.

use crate::common::{cases, describe, fresh};
use diagnose::repeats::{RepeatedLoad, Repeats, SCHEMA};
use diagnose::variants::{Axis, Value, Variant, Variants};
use model::finding::{ExpectationState, Judgement};
use model::plan::{Arrivals, Pace, Segment};
use model::recording::{End, LoadRole};
use report::json::{Document, LoadBeside};
use report::text::together::LoadShown;
use report::text::{Kept, Options, Style};

fn judgement(state: ExpectationState, got: &str) -> Judgement {
    Judgement { expected: "p99 < 5.00 ms".to_owned(), is_stated: true, state, got: got.to_owned(), value: None }
}

#[test]
fn several_loads_read_as_one_report() {
    let mut cases = cases();
    let (mut second, mut first) = (cases.swap_remove(1), cases.swap_remove(0));
    first.2.expectations = vec![judgement(ExpectationState::Met, "4.10 ms")];
    second.2.expectations = vec![judgement(ExpectationState::NotMet, "7.00 ms")];
    let mut canary = first.clone();
    let second_long = Segment { from_per_s: 1.0, to_per_s: 1.0, for_ns: 1_000_000_000 };
    canary.1.plan.pace = Pace::Open { profile: vec![second_long], arrivals: Arrivals::Constant };
    canary.2.expectations = Vec::new();
    let style = Style { color: false, width: 100, unicode: true };
    let kept = Kept { path: "/runs/a.plimsoll", command: "plimsoll report a" };
    let options = Options { style, describe: &describe, all: false, kept: Some(kept) };
    let shown = [
        ("users", LoadRole::Main, &first),
        ("batch", LoadRole::Beside, &second),
        ("canary", LoadRole::Canary, &canary),
    ];
    let loads =
        shown.map(|(name, role, case)| LoadShown { name, role, recording: &case.1, diagnosis: &case.2, options });
    let mut out = Vec::new();
    report::text::together::write(&mut out, &loads, style).unwrap();
    insta::assert_snapshot!("together", String::from_utf8(out).unwrap());
}

#[test]
fn the_document_has_the_other_loads_in_it() {
    let cases = cases();
    let of = |at: usize| Document::of(&cases[at].1, &cases[at].2, &describe, None);
    let beside = LoadBeside { name: "batch".to_owned(), role: LoadRole::Beside, canary: None, report: of(1) };
    let document = serde_json::to_value(of(0).with_loads(vec![beside])).unwrap();
    assert_eq!(document["loads"][0]["report"]["schema"], "plimsoll.report/1");
    let validator = jsonschema::validator_for(&report::json::schema()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    // A load alone says nothing of others.
    assert!(serde_json::to_value(of(0)).unwrap().get("loads").is_none());
}

#[test]
fn repeats_read_well_and_are_a_document() {
    let case = cases().swap_remove(0);
    let mut load = RepeatedLoad::new(Some("users".to_owned()));
    for run in 1..=6u64 {
        let (mut recording, mut diagnosis) = (case.1.clone(), case.2.clone());
        recording.totals.in_time.ok += 1000 * run;
        let state = if run == 3 { ExpectationState::NotMet } else { ExpectationState::Met };
        diagnosis.expectations = vec![judgement(state, "")];
        load.push(&recording, &diagnosis, Some(format!("/runs/{run}.plimsoll")));
    }
    let repeats = Repeats {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        started_at_unix_ns: 1,
        end: End::Complete,
        asked: 6,
        made: 6,
        loads: vec![load],
    };
    let mut out = Vec::new();
    report::answer::repeats::write(&mut out, &repeats, Style { color: false, width: 100, unicode: true }).unwrap();
    insta::assert_snapshot!("repeats", String::from_utf8(out).unwrap());
    let schema = schemars::schema_for!(Repeats).to_value();
    let document = serde_json::to_value(&repeats).unwrap();
    assert!(fresh("plimsoll.repeats-1", &schema).is_valid(&document), "{document}");
    assert_eq!(serde_json::from_value::<Repeats>(document).unwrap(), repeats);
}

#[test]
fn variants_read_well_and_are_a_document() {
    let case = cases().swap_remove(0);
    let variant = |design: &str, size: &str, more: u64, state: ExpectationState| {
        let (mut recording, mut diagnosis) = (case.1.clone(), case.2.clone());
        recording.totals.in_time.ok += more;
        diagnosis.expectations = vec![judgement(state, "")];
        let mut load = RepeatedLoad::new(None);
        load.push(&recording, &diagnosis, Some(format!("/runs/{design}-{size}.plimsoll")));
        let repeats = Repeats {
            schema: SCHEMA.to_owned(),
            version: "0.1.0".to_owned(),
            started_at_unix_ns: 1,
            end: End::Complete,
            asked: 1,
            made: 1,
            loads: vec![load],
        };
        let values = [("design", design), ("size", size)];
        let values = values.map(|(axis, value)| Value { axis: axis.to_owned(), value: value.to_owned() }).to_vec();
        Variant { values, repeats }
    };
    let axis =
        |name: &str, values: [&str; 2]| Axis { name: name.to_owned(), values: values.map(str::to_owned).to_vec() };
    let variants = Variants {
        schema: diagnose::variants::SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        end: End::Complete,
        asked: 4,
        axes: vec![axis("design", ["fork", "epoll"]), axis("size", ["16", "4KiB"])],
        variants: vec![
            variant("fork", "16", 0, ExpectationState::NotMet),
            variant("fork", "4KiB", 1000, ExpectationState::Met),
            variant("epoll", "16", 90_000, ExpectationState::Undetermined),
        ],
    };
    let mut out = Vec::new();
    report::answer::variants::write(&mut out, &variants, Style { color: false, width: 100, unicode: true }).unwrap();
    insta::assert_snapshot!("variants", String::from_utf8(out).unwrap());
    let schema = schemars::schema_for!(Variants).to_value();
    let document = serde_json::to_value(&variants).unwrap();
    assert!(fresh("plimsoll.variants-1", &schema).is_valid(&document), "{document}");
    assert_eq!(serde_json::from_value::<Variants>(document).unwrap(), variants);
}
