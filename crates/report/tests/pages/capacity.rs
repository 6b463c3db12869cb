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
