//! A search for the load line and a surface of them: their documents are valid by their schemas, and the map says by figures and
//! letters what it says by shades.

use crate::common::fresh;
use crate::common::surfaces::{one, search, two};
use report::capacity::{Document, OwnConnections, Surface, write_surface};
use report::text::Style;
use serde_json::json;

fn text(surface: &Surface, unicode: bool) -> String {
    let mut out = Vec::new();
    let style = Style { color: false, width: 80, unicode };
    write_surface(&mut out, surface, Some("/state/surface.json"), style).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn both_documents_are_valid_by_their_schemas_which_are_fresh() {
    let of_search = fresh("plimsoll.capacity-1", &schemars::schema_for!(Document).to_value());
    let document = serde_json::to_value(search(Some(9.0), None, None)).unwrap();
    assert!(of_search.is_valid(&document), "{document:#}");
    let of_surface = fresh("plimsoll.surface-1", &schemars::schema_for!(Surface).to_value());
    let document = serde_json::to_value(two()).unwrap();
    assert!(of_surface.is_valid(&document), "{document:#}");
    let again: Surface = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(again, two());
    for (at, wrong) in [("/cells/0/at", json!("16")), ("/over", json!(null)), ("/end", json!("over"))] {
        let mut other = document.clone();
        *other.pointer_mut(at).unwrap() = wrong;
        assert!(!of_surface.is_valid(&other), "{at}");
    }
}

#[test]
fn a_map_has_a_figure_and_a_letter_in_each_cell() {
    let shown = text(&two(), true);
    insta::assert_snapshot!("surface", shown);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let plain = text(&two(), false);
    assert!(plain.contains("40.0k a") && plain.contains("11.0k b") && plain.contains(">3,000"), "{plain}");
}

#[test]
fn one_parameter_is_a_list() {
    insta::assert_snapshot!("surface-of-one", text(&one(), true));
}

#[test]
fn what_held_in_spite_of_a_disturbance_is_not_said_to_be_undisturbed() {
    let why = "the generator took requests up late. Give it CPUs of its own";
    let kept_up = crate::common::answers::search();
    let disturbed = Document { held_in_spite_of: Some(why.to_owned()), ..kept_up.clone() };
    let verdict = |document: &Document| {
        let mut out = Vec::new();
        report::capacity::write(&mut out, document, &[], Style { color: false, width: 400, unicode: true }).unwrap();
        String::from_utf8(out).unwrap().lines().find(|line| line.starts_with("Verdict")).unwrap().to_owned()
    };
    assert!(verdict(&kept_up).contains("valid: the generator kept up"), "{}", verdict(&kept_up));
    let said = verdict(&disturbed);
    assert!(said.contains("valid: ") && said.contains("although it was disturbed") && said.contains(why), "{said}");
    assert!(!said.contains("kept up"), "{said}");
    // A file of an older version does not say.
    let mut older = serde_json::to_value(&disturbed).unwrap();
    older.as_object_mut().unwrap().remove("held_in_spite_of");
    let older: Document = serde_json::from_value(older).unwrap();
    assert_eq!(older.held_in_spite_of, None);
}

#[test]
fn what_stands_in_the_place_of_a_cause_is_what_was_seen() {
    let gives = |document: &Document| {
        let mut out = Vec::new();
        report::capacity::write(&mut out, document, &[], Style { color: false, width: 400, unicode: true }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let mut page = Vec::new();
        report::html::capacity::write(&mut page, document, None).unwrap();
        let line = text.lines().find(|line| line.starts_with("Gives first")).map(str::to_owned);
        (line.unwrap_or_default(), String::from_utf8(page).unwrap())
    };
    let untold = Document { gives: None, ..crate::common::answers::search() };
    assert!(gives(&untold).0.contains("not known: no rule found its evidence"), "{}", gives(&untold).0);
    let seen = Document { unexplained: Some("requests wait for each other".to_owned()), ..untold.clone() };
    let (line, page) = gives(&seen);
    assert!(line.contains("not known; beyond the line requests wait for each other"), "{line}");
    assert!(page.contains("beyond the line requests wait for each other"));
    let own = OwnConnections { connections: 50, each_us: 30_500.0, at_most_per_s: 1_639.3 };
    let (line, page) = gives(&Document { own_connections: Some(own), ..untold.clone() });
    assert!(line.contains("the load's own 50 connections: each request takes 30.5 ms"), "{line}");
    assert!(line.contains("they carry some 1,639 requests/s, ") && page.contains("own 50 connections"), "{line}");
    // Beside a cause that explains a part.
    let beside = Document { gives: crate::common::answers::search().gives, ..seen.clone() };
    let mut out = Vec::new();
    report::capacity::write(&mut out, &beside, &[], Style { color: false, width: 400, unicode: true }).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("\n  besides   requests wait for each other") && !gives(&beside).0.contains("not known"),
        "{text}"
    );
    assert!(gives(&beside).1.contains("Besides, "), "in the page, too");
    // Nothing gives where no load missed.
    let mut held = untold;
    held.capacity.missed = None;
    assert_eq!(gives(&held).0, "");
}
