//! The table of `docs/faults.md` is made of the registry: `UPDATE_DOCS=1 cargo test -p plimsoll-fault --test page` writes it anew.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its page is a test that fails")]

use fault::{FAULTS, Undoing};
use std::path::Path;

const BEGIN: &str = "<!-- made of the registry: UPDATE_DOCS=1 cargo test -p plimsoll-fault --test page -->\n";
const END: &str = "<!-- end -->\n";

fn table() -> String {
    let row = |kind: &fault::Kind| {
        let takes = format!("{} {}", kind.name, kind.takes).replace('|', "\\|");
        let undone = match kind.undone {
            Undoing::Back(words) => words.to_owned(),
            Undoing::SecondHalf(words) => format!("in part: {words}"),
            Undoing::Never(words) => format!("**cannot be**: {words}"),
        };
        format!(
            "| `{}` | {} | {} | {undone} | `{} {}` |\n",
            takes.trim_end(),
            kind.does,
            kind.needs,
            kind.name,
            kind.example
        )
    };
    let head = "| fault | does | needs | undone | such as |\n|---|---|---|---|---|\n".to_owned();
    FAULTS.iter().fold(head, |page, kind| page + &row(kind))
}

#[test]
fn the_page_has_the_table_of_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (kept, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(
            kept == table,
            "docs/faults.md is not of the registry: UPDATE_DOCS=1 cargo test -p plimsoll-fault --test page"
        );
    }
}
