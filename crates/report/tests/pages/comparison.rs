//! A comparison as text and as its document.

use crate::common::answers::compared;
use crate::common::fresh;
use diagnose::comparison::{Comparison, Figures, LeftOut, Pairing, Quantity, SCHEMA, SeriesRun, Side, Trend, trend};
use model::Recording;
use model::recording::{Capsule, End};
use report::answer::comparison;
use report::text::Style;

fn text(comparison: &Comparison, width: usize) -> String {
    let mut out = Vec::new();
    comparison::write(&mut out, comparison, Style { color: false, width, unicode: true }).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_comparison_reads_well() {
    insta::assert_snapshot!("comparison", text(&compared(10), 100));
    let mut interrupted = compared(3);
    (interrupted.end, interrupted.repeats) = (End::Interrupted, 10);
    interrupted.slices[4].disturbed = Some("the generator waited for a CPU 12 % of the time".to_owned());
    interrupted.judge();
    insta::assert_snapshot!("comparison_interrupted", text(&interrupted, 100));
    let mut single = compared(1);
    single.pairing = Pairing::Single;
    single.slices.retain(|slice| slice.side != Side::AgainA);
    single.judge();
    insta::assert_snapshot!("comparison_single", text(&single, 100));
}

#[test]
fn a_picture_of_many_slices_is_as_wide_as_the_page() {
    let comparison = compared(100);
    for line in text(&comparison, 80).lines().filter(|line| line.starts_with("              ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text(&comparison, 80).contains("CPU a request, slices in the order they were run"));
}

#[test]
fn the_document_is_valid_by_its_schema_and_the_schema_is_fresh() {
    let schema = serde_json::to_value(schemars::schema_for!(Comparison)).unwrap();
    let validator = fresh("plimsoll.comparison-1", &schema);
    let document = serde_json::to_value(compared(10)).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let cpu = document["judgements"].as_array().unwrap().iter().find(|j| j["quantity"] == "cpu").unwrap();
    assert_eq!((&cpu["state"], &cpu["is_worse"]), (&"different".into(), &true.into()));
    assert_eq!(document["schema"], SCHEMA);
    let mut wrong = document;
    wrong["judgements"][0]["state"] = "better".into();
    assert!(validator.iter_errors(&wrong).next().is_some(), "a word that is none is refused");
}

#[test]
fn a_series_reads_well_and_its_document_is_valid_by_its_schema() {
    let run = |n: u64| {
        let (p99_us, version) = if n < 17 { (4000.0, "1.0") } else { (4600.0, "1.1") };
        let noise = 1.0 + 0.005 * ((n * 7919 % 13) as f64 / 6.0 - 1.0);
        let capsule = Capsule { started_at_unix_ns: n, version: version.to_owned(), ..Capsule::default() };
        SeriesRun {
            id: format!("run-{n:02}"),
            recording: Recording::new(capsule, testkit::recordings::any_plan()),
            figures: Figures([(Quantity::P99, p99_us * noise)].into()),
        }
    };
    let left_out =
        vec![LeftOut { id: "run-99".to_owned(), why: "no load was put on: the target was watched".to_owned() }];
    let found = trend((0..30).map(run).collect(), left_out, 0.03);
    let mut out = Vec::new();
    report::answer::trend::write(&mut out, &found, Style { color: false, width: 80, unicode: true }).unwrap();
    insta::assert_snapshot!("trend", String::from_utf8(out).unwrap());
    let validator = fresh("plimsoll.trend-1", &serde_json::to_value(schemars::schema_for!(Trend)).unwrap());
    let errors: Vec<String> =
        validator.iter_errors(&serde_json::to_value(&found).unwrap()).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
