//! What manifests name is used: a dependency that no source of its crate mentions is a door that leads nowhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot read is a test that fails")]

use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use std::path::Path;

/// Dependencies that are used without their name standing in any source, each with the reason.
const USED_OTHERWISE: &[(&str, &str, &str)] =
    &[("plimsoll-observe", "libbpf-sys", "build.rs reads what its build script says (DEP_BPF_INCLUDE)")];

/// All Rust sources of a crate, of one kind of dependency: tests and benches may use all of them.
fn sources(package: &Package, kind: DependencyKind) -> String {
    let folder = package.manifest_path.parent().unwrap().as_std_path();
    let mut text = String::new();
    let parts: &[&str] = match kind {
        DependencyKind::Build => &["build.rs"],
        DependencyKind::Development => &["src", "tests", "benches", "examples"],
        // What is fuzzed is in `targets`.
        _ => &["src", "targets"],
    };
    parts.iter().for_each(|part| read(&folder.join(part), &mut text));
    text
}

fn read(path: &Path, text: &mut String) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| read(&entry.unwrap().path(), text));
    } else if path.extension().is_some_and(|ending| ending == "rs") {
        text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
    }
}

/// Whether a name stands in code as a path's beginning (`name::`), or alone in a `use`.
fn is_named(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '.');
        let after = &text[at + name.len()..];
        let is_use = text[..at].ends_with("use ") && after.starts_with([';', ' ']);
        before && (after.starts_with("::") || is_use)
    })
}

#[test]
fn every_dependency_is_used_by_its_crate() {
    let metadata = MetadataCommand::new().current_dir(testkit::workspace()).no_deps().exec().unwrap();
    let mut unused = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            // Without another name here, a crate of the workspace goes by that of its library.
            let own = metadata.packages.iter().find(|other| other.name == dependency.name);
            let library = own.and_then(|other| other.targets.iter().find(|target| target.is_lib()));
            let library = library.map_or(&dependency.name, |target| &target.name);
            let name = dependency.rename.as_ref().unwrap_or(library).as_str();
            let is_excused = USED_OTHERWISE.iter().any(|(of, on, _)| *of == package.name.as_str() && *on == name);
            if !is_excused && !is_named(&sources(package, dependency.kind), &name.replace('-', "_")) {
                unused.push(format!("{} names {name} ({}) and does not use it", package.name, dependency.kind));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
    // What is excused is still there.
    for (of, on, _) in USED_OTHERWISE {
        let package = metadata.packages.iter().find(|package| package.name.as_str() == *of).unwrap();
        assert!(
            package.dependencies.iter().any(|dependency| dependency.name == *on),
            "{of} does not name {on} any more"
        );
    }
}

/// Client and server must not share a parser bug.
#[test]
fn reference_servers_do_not_use_the_clients_protocol_machines() {
    let metadata = MetadataCommand::new().current_dir(testkit::workspace()).no_deps().exec().unwrap();
    let servers = metadata.packages.iter().find(|p| p.name.as_str() == "plimsoll-servers");
    let named: Vec<&str> = servers.unwrap().dependencies.iter().map(|dependency| dependency.name.as_str()).collect();
    assert!(!named.contains(&"plimsoll-wire"), "{named:?}");
}
