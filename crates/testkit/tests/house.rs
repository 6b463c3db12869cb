//! The rules of the house that can be checked: layers, and documents that name only what exists.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lower layers first. A crate may depend on crates of lower layers only.
const LAYERS: &[&[&str]] = &[
    &["model", "state"],
    &["wire", "diagnose"],
    &["engine", "observe", "fault", "store", "report", "target"],
    &["session"],
    &["cli"],
];

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&room))
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let metadata = MetadataCommand::new().current_dir(testkit::workspace()).no_deps().exec().unwrap();
    let room = |package: &str| match package {
        "plimsoll" => "cli".to_owned(),
        other => other.trim_start_matches("plimsoll-").to_owned(),
    };
    let mut seen = BTreeMap::new();
    for package in &metadata.packages {
        let name = room(&package.name);
        let Some(own) = layer(&name) else {
            assert!(
                ["testkit", "bench-floor", "bench-runner"].contains(&&*name),
                "the crate '{name}' is in no layer: add it to ARCHITECTURE.md and to this test"
            );
            continue;
        };
        seen.insert(name.clone(), own);
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            let on = room(&dependency.name);
            if dependency.kind == DependencyKind::Development {
                continue;
            }
            let lower = layer(&on).unwrap_or_else(|| panic!("{name} depends on {on}, which is for tests"));
            assert!(lower < own, "{name} must not depend on {on}: it is not in a lower layer");
        }
    }
    assert_eq!(seen.len(), LAYERS.iter().map(|l| l.len()).sum::<usize>(), "{seen:?}");
}

/// Crates without I/O, clocks, threads or `unsafe` (invariant 1), and where `unsafe` may stand (invariant 2).
#[test]
fn unsafe_stands_only_where_the_house_allows_it() {
    let allowed = [
        "crates/engine/src/driver",
        "crates/observe/src/source",
        "crates/fault",
        "crates/target",
        "crates/testkit",
        "bench/floor",
    ];
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let inside = file.strip_prefix(testkit::workspace()).unwrap();
        let is_test = inside.components().any(|c| c.as_os_str() == "tests");
        let uses = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or("");
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        if uses && !is_test {
            assert!(allowed.iter().any(|a| inside.starts_with(a)), "{} has unsafe code", inside.display());
        }
    }
    for pure in ["model", "wire", "diagnose"] {
        let lib = fs::read_to_string(testkit::workspace().join("crates").join(pure).join("src/lib.rs")).unwrap();
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{pure}");
    }
}

#[test]
fn pure_crates_know_no_io_no_clock_no_threads() {
    for file in sources() {
        let inside = file.strip_prefix(testkit::workspace()).unwrap().to_owned();
        if !["crates/model/src", "crates/wire/src", "crates/diagnose/src"].iter().any(|p| inside.starts_with(p)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for word in ["std::fs", "std::thread", "std::time::Instant", "SystemTime", "std::net::Tcp", "std::process"] {
            assert!(!code.contains(word), "{} uses {word}", inside.display());
        }
    }
}

#[test]
fn every_source_file_says_what_it_is_and_stays_readable() {
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let inside = file.strip_prefix(testkit::workspace()).unwrap();
        assert!(text.starts_with("//!"), "{} does not open with what it is for", inside.display());
        let lines = text.lines().count();
        assert!(lines <= 600, "{}: {lines} lines: which two axes meet here?", inside.display());
    }
}

/// What is built, not what the lock file lists: that names `ring` for a feature of webpki's that nobody turns on.
#[test]
fn there_is_one_crypto_provider() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--prefix", "none", "--offline", "--edges", "normal,build,dev"])
        .current_dir(testkit::workspace())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let has = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    assert!(has("rustls") && has("aws-lc-rs"), "is this the right tree?");
    for other in ["ring", "openssl-sys", "native-tls"] {
        assert!(!has(other), "{other} is in the tree: cargo tree --workspace -i {other} says by whom");
    }
}

#[test]
fn documents_name_only_paths_that_exist() {
    let root = testkit::workspace();
    let mut documents = vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("CONTRIBUTING.md")];
    walk(&root.join("docs"), &mut |file| documents.push(file.to_owned()));
    documents.push(root.join("bench/README.md"));
    let mut checked = 0;
    for document in documents.iter().filter(|d| d.extension().is_some_and(|e| e == "md")) {
        let text = fs::read_to_string(document).unwrap_or_else(|e| panic!("{}: {e}", document.display()));
        // A decision tells of its day: what it names may be gone since.
        if document.starts_with(root.join("docs/decisions")) {
            continue;
        }
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = quoted.trim_end_matches('/');
            let looks_like_a_path = path.contains('/')
                && !path.contains([' ', '<', '*', '{', ':', '$', '=', '→', '…', '|', '~'])
                && !path.starts_with('/')
                && ["crates/", "docs/", "bench/", "fuzz/", "scripts/", ".ci/"].iter().any(|p| path.starts_with(p));
            if looks_like_a_path {
                checked += 1;
                assert!(root.join(path).exists(), "{} names `{path}`, which does not exist", document.display());
            }
        }
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or("");
            if link.is_empty() || link.contains(':') || link.starts_with('#') {
                continue;
            }
            let path = document.parent().unwrap_or(root).join(link.split('#').next().unwrap_or(""));
            checked += 1;
            assert!(path.exists(), "{} links to {link}, which does not exist", document.display());
        }
    }
    assert!(checked > 10, "the documents name almost no path: is this test looking at the right ones?");
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "bench", "fuzz"] {
        walk(&testkit::workspace().join(folder), &mut |file| {
            if file.extension().is_some_and(|e| e == "rs") {
                files.push(file.to_owned());
            }
        });
    }
    assert!(files.len() > 20);
    files
}

fn walk(folder: &Path, found: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match path.is_dir() {
            true if !["target", "corpus", "artifacts"].iter().any(|n| path.ends_with(n)) => walk(&path, found),
            true => {}
            false => found(&path),
        }
    }
}
