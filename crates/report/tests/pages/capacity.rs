//! A search for the load line and a surface of them: their documents are valid by their schemas, and the map says by figures and
//! letters what it says by shades.

use crate::common::fresh;
use crate::common::surfaces::{one, search, two};
use report::capacity::{Document, Surface, write_surface};
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
