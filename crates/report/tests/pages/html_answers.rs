//! Pages of searches and comparisons: they ask for nothing, say what the text says, and hold what the document does.
//!
//! They are left in `target/pages`, where `make test-web` opens them in a browser.

use crate::common::answers::{compared, search, search_over_connections};
use crate::common::surfaces;
use diagnose::comparison::{Comparison, Pairing, Side};
use model::recording::End;
use report::capacity::{self, Document, Surface, Verdict};
use report::html::SCRIPT;
use report::text::Style;

/// What a hostile server may send.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&<!--\u{202e}\0";
const STYLE: Style = Style { color: false, width: 100_000, unicode: true };

fn kept(name: &str, out: Vec<u8>) -> String {
    let folder = testkit::workspace().join("target/pages");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.html")), &out).unwrap();
    let html = String::from_utf8(out).unwrap();
    assert!(html.contains("default-src 'none'"), "{name}");
    let markup = html.split("<script type=\"text/plain\"").next().unwrap();
    for asks in ["src=\"", "<link rel=\"stylesheet\"", "@import", "url(", "style=\"", "<iframe", "<object"] {
        assert!(!markup.contains(asks), "{name}: {asks}");
    }
    assert_eq!(html.matches("<script").count(), 3 + SCRIPT.matches("<script").count(), "{name}");
    html
}

fn page_of_search(name: &str, document: &Document) -> String {
    let mut out = Vec::new();
    report::html::capacity::write(&mut out, document, Some("plimsoll report search.json")).unwrap();
    kept(name, out)
}

fn page_of_surface(name: &str, surface: &Surface) -> String {
    let mut out = Vec::new();
    report::html::surface::write(&mut out, surface, Some("plimsoll report surface.json")).unwrap();
    kept(name, out)
}

fn page_of_comparison(name: &str, comparison: &Comparison) -> String {
    let mut out = Vec::new();
    report::html::comparison::write(&mut out, comparison, Some("plimsoll report comparison.json")).unwrap();
    kept(name, out)
}

/// What a browser shows of it.
fn visible(html: &str) -> String {
    let markup = html.split("<script type=\"text/plain\"").next().unwrap();
    let text: String = markup.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.replace('\u{a0}', " ")
}

#[test]
fn the_page_of_a_search_says_what_its_text_does() {
    for (name, document) in [("capacity", search()), ("capacity-connections", search_over_connections())] {
        let text = visible(&page_of_search(name, &document));
        let mut out = Vec::new();
        capacity::write(&mut out, &document, &[], STYLE).unwrap();
        let plain = String::from_utf8(out).unwrap().replace('\u{a0}', " ");
        for label in ["Load line", "Objective", "Knee"] {
            let said = plain.lines().find_map(|line| line.strip_prefix(label)).unwrap().trim();
            assert!(text.contains(said), "{name}: '{said}' is not on the page");
        }
        let finding = &document.gives.as_ref().unwrap().finding;
        for said in [&finding.title, &finding.because[0].text, &finding.remedy, &finding.check_yourself] {
            assert!(text.contains(&**said), "{name}: '{said}' is not on the page");
        }
        assert!(text.contains("plimsoll report /runs/"), "{name}: the recordings at the line");
    }
}

#[test]
fn each_kind_of_load_has_the_pictures_that_say_something_of_it() {
    let of = |html: &str, id: &str| html.contains(&format!("data-plot=\"{id}\""));
    let rates = page_of_search("capacity", &search());
    assert!(["line", "order", "latency", "achieved"].iter().all(|id| of(&rates, id)) && !of(&rates, "scaling"));
    let closed = page_of_search("capacity-connections", &search_over_connections());
    assert!(["line", "order", "latency", "scaling", "throughput-latency"].iter().all(|id| of(&closed, id)));
    assert!(!of(&closed, "achieved") && closed.contains("Universal Scalability Law"));
}

#[test]
fn a_search_without_a_line_or_without_a_step_has_its_page() {
    let mut document = search();
    document.steps.retain(|step| step.verdict == Verdict::Held);
    document.curve.retain(|point| point.verdict == Verdict::Held);
    let found = &mut document.capacity;
    (found.load_line, found.high, found.missed, found.steepness) = (None, None, None, None);
    (document.gives, document.end) = (None, capacity::End::Interrupted);
    let text = visible(&page_of_search("capacity-interrupted", &document));
    assert!(text.contains("not enclosed") && text.contains("The search was interrupted"));
    document.steps.clear();
    document.curve.clear();
    document.end = capacity::End::Partial;
    let html = page_of_search("capacity-nothing", &document);
    assert!(!html.contains("<figure") && visible(&html).contains("0 steps"));
}

#[test]
fn a_surface_is_a_map_of_figures_and_shades_or_a_curve_and_a_table_of_all_cells() {
    let html = page_of_surface("surface", &surfaces::two());
    let text = visible(&html);
    for said in
        ["40.0k a", "11.0k b", "≥3,000", "a: at-its-limit gives first", "size ↓ connections →", "64.0 KiB", "36,000"]
    {
        assert!(text.contains(said), "'{said}' is not on the page");
    }
    assert!(text.contains("expected an answer, got none") && text.contains("It was interrupted"), "{text}");
    // Darkest where the line is highest, and an outline where there is none.
    assert!(html.contains("fill-opacity=\"1.00\"") && html.contains("fill-opacity=\"0.28\""));
    assert_eq!(html.matches("fill=\"none\" stroke=\"currentColor\"").count(), 2);
    let html = page_of_surface("surface-of-one", &surfaces::one());
    assert!(html.contains("data-plot=\"over\""));
    let mut hostile = surfaces::two();
    hostile.target = HOSTILE.to_owned();
    hostile.cells[4].why = Some(HOSTILE.to_owned());
    page_of_surface("surface-hostile", &hostile);
}

#[test]
fn the_page_of_a_comparison_says_what_its_text_does() {
    let mut interrupted = compared(3);
    (interrupted.end, interrupted.repeats) = (End::Interrupted, 10);
    interrupted.slices[4].disturbed = Some("the generator waited for a CPU 12 % of the time".to_owned());
    interrupted.judge();
    let mut single = compared(1);
    single.pairing = Pairing::Single;
    single.slices.retain(|slice| slice.side != Side::AgainA);
    single.judge();
    let all = [("comparison", compared(10)), ("comparison-interrupted", interrupted), ("comparison-single", single)];
    for (name, comparison) in all {
        let html = page_of_comparison(name, &comparison);
        let text = visible(&html);
        let mut out = Vec::new();
        report::answer::comparison::write(&mut out, &comparison, STYLE).unwrap();
        let plain = String::from_utf8(out).unwrap().replace('\u{a0}', " ");
        let sentence = plain.lines().next().unwrap();
        assert!(text.contains(sentence), "{name}: '{sentence}' is not on the page");
        for label in ["throughput", "p99", "CPU a request", "failures"] {
            let line = plain.lines().find(|line| line.starts_with(label)).unwrap();
            let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(1);
            // A change stands above its interval.
            for said in cells.flat_map(|cell| cell.split(" (")).map(|said| said.trim_end_matches(')')) {
                assert!(text.contains(said), "{name}: '{said}' of '{line}' is not on the page");
            }
        }
        assert!(html.contains("data-plot=\"slices-p99\"") && !html.contains("data-plot=\"slices-failures\""), "{name}");
    }
}

#[test]
fn what_came_from_outside_changes_nothing_but_text() {
    let long = HOSTILE.repeat(1500);
    let mut document = search();
    (document.target, document.sentence, document.pace) = (long.clone(), long.clone(), HOSTILE.to_owned());
    document.command.push(long.clone());
    document.capacity.unit = HOSTILE.to_owned();
    document.objectives[0].text = HOSTILE.to_owned();
    document.steps[0].purpose = HOSTILE.to_owned();
    document.steps[0].recording = Some(HOSTILE.to_owned());
    if let Some(gives) = &mut document.gives {
        (gives.finding.title, gives.finding.remedy) = (long.clone(), long.clone());
    }
    let mut comparison = compared(3);
    (comparison.a, comparison.b) = (long.clone(), HOSTILE.to_owned());
    comparison.differences[0].a = long.clone();
    comparison.findings[0].id = HOSTILE.to_owned();
    comparison.slices[0].gives = Some(long.clone());
    comparison.slices[1].disturbed = Some(long);
    comparison.judge();
    for html in [page_of_search("capacity-hostile", &document), page_of_comparison("comparison-hostile", &comparison)] {
        assert_eq!(html.matches("<img").count(), 0);
        assert!(html.contains("&lt;/script&gt;") && !html.contains('\u{202e}') && !html.contains('\0'));
        assert!(html.len() < 500_000, "{}", html.len());
    }
}
