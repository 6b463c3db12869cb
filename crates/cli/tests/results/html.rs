//! `plimsoll report --html` of real recordings: those beside the cases of `truth/`. The pages are left in `target/pages`, where
//! `make test-web` opens them in a browser.

use crate::common::*;
use lzma_rust2::XzReader;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Every recording in `truth/`, with the name of its case.
fn recordings() -> Vec<(String, PathBuf)> {
    let cases = std::fs::read_dir(testkit::workspace().join("truth")).unwrap().map(|entry| entry.unwrap());
    let packed = cases.map(|case| (case.file_name().into_string().unwrap(), case.path().join("recording.xz")));
    packed.filter(|(_, packed)| packed.exists()).collect()
}

fn unpacked(packed: &Path, to: &Path) {
    std::io::copy(&mut XzReader::new(File::open(packed).unwrap(), false), &mut File::create(to).unwrap()).unwrap();
}

/// What a browser shows of it: without elements, and with its characters as they are.
fn visible(html: &str) -> String {
    let markup = html.split("<script type=\"text/plain\"").next().unwrap();
    let text: String = markup.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&").replace('\u{a0}', " ")
}

#[test]
fn the_page_of_a_recording_says_what_its_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let pages = testkit::workspace().join("target/pages");
    std::fs::create_dir_all(&pages).unwrap();
    let all = recordings();
    assert!(!all.is_empty(), "no recordings: make truth-recordings");
    for (name, packed) in all {
        let file = folder.path().join(format!("{name}.plimsoll"));
        unpacked(&packed, &file);
        let (file, page) = (file.to_str().unwrap(), pages.join(format!("truth-{name}.html")));
        let run = plimsoll(&["report", file, "--html", page.to_str().unwrap()]);
        run.assert_exit(0);
        assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{}{}", run.stdout, run.stderr);
        let html = std::fs::read_to_string(&page).unwrap();
        let document = plimsoll(&["report", file, "--json"]).json();
        let text = visible(&html).to_lowercase();
        let mut said = vec![document["gives"]["text"].as_str().unwrap()];
        said.extend(document["findings"].as_array().unwrap().iter().map(|finding| finding["title"].as_str().unwrap()));
        for sentence in said {
            assert!(text.contains(&sentence.to_lowercase()), "{name}: '{sentence}' is not on the page");
        }
        assert!(html.contains("data-chart=\"heat\"") && html.contains("data-chart=\"cpu\""), "{name}");
    }
}

#[test]
fn where_it_cannot_be_written_one_sentence_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_, packed)) = recordings().into_iter().next() else { panic!("no recordings: make truth-recordings") };
    let file = folder.path().join("one.plimsoll");
    unpacked(&packed, &file);
    let to = folder.path().join("no/such/folder/page.html");
    let run = plimsoll(&["report", file.to_str().unwrap(), "--html", to.to_str().unwrap()]);
    run.assert_exit(1);
    assert!(run.stderr.contains("expected to write the page to") && run.stderr.lines().count() == 1, "{}", run.stderr);
    let run = plimsoll(&["report", file.to_str().unwrap(), "--html", "-"]);
    run.assert_exit(0);
    assert!(run.stdout.starts_with("<!DOCTYPE html>") && run.stdout.ends_with("</html>"), "{}", run.stdout.len());
}
