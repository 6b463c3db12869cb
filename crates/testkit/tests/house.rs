//! The rules of the house that can be checked: layers, sources that can be read, documents that name only what exists.
//!
//! What is looked at is what git would commit (`git ls-files`), so no folder is passed over for its name.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of source has at most so many lines.
const LINES_MAX: usize = 600;

/// A folder below a `src` has at most so many files of source beside those that a registry in it lists.
const FILES_MAX: usize = 15;

/// Folders directly below the root in which people have their files: a path through one is somebody's own.
const OWN_FOLDERS: &[&str] = &["home", "root", "Users", "work"];

/// Paths that are meant as examples: where they stand, the folder, how they go on, and why.
const EXAMPLE_PATHS: &[(&str, &str, &str, &str)] = &[
    (
        "crates/report/tests/",
        "home",
        "me/.local/state/plimsoll/runs/",
        "a report names the recording of a made-up user",
    ),
    ("crates/state/src/group.rs", "home", "ann:", "a made-up line of /etc/passwd"),
];

/// Lower layers first. A crate may depend on crates of lower layers only.
const LAYERS: &[&[&str]] = &[
    &["model", "state"],
    &["wire", "diagnose"],
    &["engine", "observe", "fault", "store", "report", "servers", "resolve"],
    &["remote"],
    &["session"],
    &["agents", "kubernetes"],
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
                ["testkit", "bench-floor", "bench-runner", "fuzz"].contains(&&*name),
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

/// The page says of each room what it knows, and how they lie above each other: both as they are.
#[test]
fn the_architecture_names_every_room_and_what_it_knows() {
    let page = fs::read_to_string(testkit::workspace().join("ARCHITECTURE.md")).unwrap();
    let metadata = MetadataCommand::new().current_dir(testkit::workspace()).no_deps().exec().unwrap();
    for package in &metadata.packages {
        let folder = package.manifest_path.parent().unwrap();
        let room = folder.strip_prefix(testkit::workspace().to_str().unwrap()).unwrap();
        let row = page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{room}`")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row of `{room}`"));
        let said = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap().trim();
        let own = |dependency: &&cargo_metadata::Dependency| {
            dependency.path.is_some() && dependency.kind == DependencyKind::Normal
        };
        let mut known: Vec<&str> =
            package.dependencies.iter().filter(own).map(|on| on.name.trim_start_matches("plimsoll-")).collect();
        known.sort_unstable();
        let mut of_row: Vec<&str> = said.split(", ").collect();
        of_row.sort_unstable();
        match said {
            "all above" | "what they measure" | "what they fuzz" | "–" => {}
            "nothing" | "nothing of ours" => assert!(known.is_empty(), "{room}: '{said}', and it knows {known:?}"),
            _ => assert_eq!(of_row, known, "ARCHITECTURE.md says of {room} what it does not know, or not all"),
        }
    }
    let layers = page.split("Layers: ").nth(1).and_then(|rest| rest.split(". ").next()).unwrap_or_default();
    let named: Vec<Vec<String>> = layers
        .split('<')
        .map(|layer| layer.split(',').map(|room| room.trim_matches([' ', '\n', '`']).to_owned()).collect())
        .collect();
    assert_eq!(named, LAYERS, "the line of layers");
}

/// Crates without I/O, clocks, threads or `unsafe` (invariant 1), and where `unsafe` may stand (invariant 2).
#[test]
fn unsafe_stands_only_where_the_house_allows_it() {
    let allowed = [
        "crates/engine/src/driver",
        "crates/observe/src/source",
        "crates/fault",
        "crates/servers",
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

/// tokio has its rooms (invariant 15), and the engine is none of them.
#[test]
fn tokio_stands_only_where_the_house_allows_it() {
    let allowed =
        ["crates/servers/src/names", "crates/session/src/pages", "crates/agents/src", "crates/kubernetes/src/cluster"];
    for file in sources() {
        let inside = file.strip_prefix(testkit::workspace()).unwrap();
        let is_test = inside.components().any(|c| c.as_os_str() == "tests");
        let text = fs::read_to_string(&file).unwrap();
        let uses = text.lines().any(|line| line.split("//").next().unwrap_or("").contains("tokio::"));
        if uses && !is_test {
            assert!(allowed.iter().any(|a| inside.starts_with(a)), "{} uses tokio", inside.display());
        }
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
        assert!(lines <= LINES_MAX, "{}: {lines} lines: which two axes meet here?", inside.display());
    }
}

#[test]
fn every_folder_can_be_taken_in_at_a_glance() {
    let mut folders = BTreeMap::<PathBuf, Vec<String>>::new();
    for file in sources() {
        let inside = file.strip_prefix(testkit::workspace()).unwrap();
        let (folder, stem) = (inside.parent().unwrap(), inside.file_stem().unwrap());
        if folder.components().any(|part| part.as_os_str() == "src") {
            folders.entry(folder.to_owned()).or_default().push(stem.to_string_lossy().into_owned());
        }
    }
    for (folder, stems) in &folders {
        let listed = listed_by_a_registry(&testkit::workspace().join(folder));
        let number = stems.iter().filter(|stem| !listed.contains(stem)).count();
        assert!(
            number <= FILES_MAX,
            "{}: {number} files that no registry lists, expected at most {FILES_MAX}: group them",
            folder.display()
        );
    }
}

/// Folders in which each protocol has a file of its name; the page on adding one names them, with their registries.
const OF_PROTOCOLS: &[&str] = &[
    "crates/model/src/load/workload",
    "crates/resolve/src/workload",
    "crates/cli/src/args/protocols",
    "crates/report/src/protocols",
];

#[test]
fn a_protocol_has_its_file_in_every_layer_and_the_page_says_where() {
    let page = fs::read_to_string(testkit::workspace().join("docs/adding/protocol.md")).unwrap();
    let files = sources();
    let names_in = |folder: &str| -> Vec<String> {
        let folder = testkit::workspace().join(folder);
        let own = files.iter().filter(|file| file.parent() == Some(&*folder));
        let mut names: Vec<String> = own.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let first = names_in(OF_PROTOCOLS[0]);
    assert!(first.len() > 2 && first.contains(&"mod".to_owned()), "{first:?}");
    for folder in OF_PROTOCOLS {
        assert_eq!(names_in(folder), first, "{folder} beside {}", OF_PROTOCOLS[0]);
        assert!(page.contains(&format!("`{folder}/`")), "the page does not name {folder}");
        assert!(page.contains(&format!("`{folder}/mod.rs`")), "the page does not name the registry of {folder}");
    }
}

/// The modules that the folder's `const …: &[…]` slices name, in `mod.rs` or `lib.rs`.
fn listed_by_a_registry(folder: &Path) -> Vec<String> {
    let text = ["mod.rs", "lib.rs"].iter().find_map(|name| fs::read_to_string(folder.join(name)).ok());
    let mut modules = Vec::new();
    let text = text.unwrap_or_default();
    let slices = text.split("const ").skip(1).filter_map(|rest| rest.split_once(": &[")?.1.split_once("= &["));
    for (_, rest) in slices.filter(|(r#type, _)| !r#type.contains(';')) {
        let entries = rest.split("];").next().unwrap_or("");
        // An entry is a path to an item of its module: `module::NAME`.
        let names = entries.split("::").filter_map(|before| before.rsplit(|c: char| !is_of_a_name(c)).next());
        modules.extend(names.map(str::to_owned));
    }
    modules
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A path of the machine that something was made on is of no use to anybody else, and says who had it.
#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    let root = testkit::workspace();
    let mut is_used = vec![false; EXAMPLE_PATHS.len()];
    for file in files() {
        let inside = file.strip_prefix(root).unwrap();
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let temporary = inside.starts_with("bench/results").then_some("tmp");
        for folder in OWN_FOLDERS.iter().copied().chain(temporary) {
            for (at, needle) in text.match_indices(&format!("/{folder}/")) {
                // Behind a name it is a part of some other path.
                if text[..at].ends_with(|c: char| is_of_a_name(c) || ".-*}]>".contains(c)) {
                    continue;
                }
                let rest = &text[at + needle.len()..];
                let example = EXAMPLE_PATHS.iter().position(|(place, of, goes_on, _)| {
                    inside.to_string_lossy().starts_with(place) && *of == folder && rest.starts_with(goes_on)
                });
                let line = text[..at].lines().count();
                let path: String = rest.chars().take(40).take_while(|c| !c.is_whitespace()).collect();
                let example = example.unwrap_or_else(|| {
                    panic!(
                        "{}, line {line}: expected no path of a machine, got {needle}{path}: write it relative to the \
                         repository, or add it to EXAMPLE_PATHS with why",
                        inside.display()
                    )
                });
                is_used[example] = true;
            }
        }
    }
    for ((place, folder, rest, why), is_used) in EXAMPLE_PATHS.iter().zip(is_used) {
        assert!(is_used && !why.is_empty(), "/{folder}/{rest} in {place} is in EXAMPLE_PATHS, and not there");
    }
}

/// What is built, not what the lock file lists: that names `ring` for a feature of webpki's that nobody turns on.
#[test]
fn there_is_one_crypto_provider() {
    let tree = Command::new(env!("CARGO"))
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
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "ROADMAP.md"];
    let mut documents: Vec<PathBuf> = top.iter().map(|name| root.join(name)).collect();
    documents.extend(files().into_iter().filter(|file| file.starts_with(root.join("docs"))));
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

#[test]
fn commits_that_documents_name_are_in_the_history() {
    let is_commit = |word: &str| {
        word.len() == 7
            && word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            && word.bytes().any(|b| b.is_ascii_digit())
    };
    let is_known = |commit: &str| {
        let object = format!("{commit}^{{commit}}");
        let git = Command::new("git").args(["cat-file", "-e", &object]).current_dir(testkit::workspace()).output();
        git.is_ok_and(|output| output.status.success())
    };
    let (mut known, mut unknown) = (0, Vec::new());
    for path in files().iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = fs::read_to_string(path).unwrap();
        for commit in text.split('`').skip(1).step_by(2).filter(|word| is_commit(word)) {
            if is_known(commit) {
                known += 1;
            } else {
                unknown.push(format!("{}: {commit}", path.display()));
            }
        }
    }
    if known == 0 {
        return eprintln!(
            "skipped: this is not the project's own history (none of {} commits is known)",
            unknown.len()
        );
    }
    assert!(unknown.is_empty(), "not in the history:\n{}", unknown.join("\n"));
}

/// Every file of Rust source.
fn sources() -> Vec<PathBuf> {
    let sources: Vec<_> = files().into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs")).collect();
    assert!(sources.len() > 20);
    sources
}

/// Every file that is committed or would be: tracked, or new and not ignored. Where this is no checkout (an archive of
/// the sources), every file but what is built.
fn files() -> Vec<PathBuf> {
    let root = testkit::workspace();
    // The checkout may belong to somebody else, as in a container: nothing of its configuration is run here.
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let mut files: Vec<PathBuf> = match listed {
        Ok(listed) if listed.status.success() => {
            let listed = String::from_utf8(listed.stdout).expect("names of files are UTF-8 here");
            listed.split_terminator('\0').map(|file| root.join(file)).collect()
        }
        _ => {
            let mut files = Vec::new();
            walk(root, &BUILT.map(|folder| root.join(folder)), &mut files);
            files
        }
    };
    // One that was removed and not committed yet is listed; one in the middle of a merge is so several times.
    files.retain(|file| file.is_file());
    files.dedup();
    files
}

/// What building and fuzzing make, as `.gitignore` says too.
const BUILT: [&str; 5] = [".git", "target", "fuzz/corpus", "fuzz/artifacts", "bench/instructions/target"];

fn walk(folder: &Path, but: &[PathBuf], files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() && !but.contains(&path) {
            walk(&path, but, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}
