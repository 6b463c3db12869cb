//! The comparison of `make kernel`: the experiments of experiments/kernel in a guest, with the module and with servers in user
//! space, and a page of what came of it (docs/kernel.md).
//!
//! One guest has one CPU and a clock that counts its instructions, four nanoseconds each (QEMU's -icount): what others do on this
//! machine changes nothing there, and the same run comes out the same. Beside it a second one does what is not measured. A third has
//! two CPUs and QEMU's ordinary clock, for what needs two. PLIMSOLL_KERNEL is the program: a static one, the only one in the guests.

use super::page::{self, Comparison};
use super::{CONDUCT, WORDS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::guest::{Boot, Clock, Guest, Ran};

const AT_MOST: Duration = Duration::from_secs(1_800);
const THOROUGH: &str = include_str!("thorough.sh");
const MATRIX: &str = include_str!("matrix.sh");
const FLAGS: &str = include_str!("flags.sh");
pub const FLAGS_COMPARED: [&str; 3] = ["bound", "unbound,highpri", "unbound,cpu_intensive"];

/// A guest of a series with nothing but busybox, the static program, the module and the experiments.
fn boot(program: &Path, series: &str, clock: Clock, cpus: u32, kernel_arguments: &str, script: &str) -> Ran {
    let guest = Guest::find(series).unwrap();
    let module = guest.module("plimsoll_echo").unwrap();
    let mut files = vec![(program.to_owned(), "/bin/plimsoll".to_owned())];
    files.push((module.clone(), "/plimsoll_echo.ko".to_owned()));
    files.push((module, "/kernel/plimsoll_echo.ko".to_owned()));
    for name in ["designs.toml", "flags.toml", "idle.toml", "sizes.toml", "burst.toml", "serve.sh"] {
        files.push((testkit::workspace().join("experiments/kernel").join(name), format!("/experiments/kernel/{name}")));
    }
    let script = format!("{WORDS}{script}");
    let boot = Boot { files, script: &script, cpus, clock, kernel_arguments, shown: Some("proved: ") };
    let began = Instant::now();
    let ran = guest.boot(&boot, AT_MOST).unwrap();
    assert_eq!(ran.status, Some(0), "{}", ran.console);
    println!("Linux {series}: a guest of {cpus} CPUs took {} s", began.elapsed().as_secs());
    ran
}

fn document(ran: &Ran, name: &str) -> Value {
    let text = std::fs::read_to_string(ran.results.path().join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

#[test]
fn the_comparison() {
    let Some(program) = std::env::var_os("PLIMSOLL_KERNEL").map(PathBuf::from) else {
        return testkit::skip("make kernel runs it");
    };
    let docs = testkit::workspace().join("docs");
    // That section alone, in the page that is there.
    if std::env::var("PLIMSOLL_KERNEL_PART").is_ok_and(|part| part == "burst") {
        let ran = boot(&program, "6.1", Clock::Counted, 1, "", &format!("PARTS=burst\n{MATRIX}"));
        let (document, bursts) = (document(&ran, "burst"), page::bursts(ran.results.path()));
        std::fs::write(docs.join("pictures/kernel-burst.svg"), page::burst_picture(&document, &bursts)).unwrap();
        let page = std::fs::read_to_string(docs.join("kernel.md")).unwrap();
        std::fs::write(docs.join("kernel.md"), page::with_burst(&page, &document, &bursts)).unwrap();
        return;
    }
    let began = Instant::now();
    let (measured, [thorough, newer]) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let thorough = format!("ROUNDS=334\n({CONDUCT}) || exit 1\n{THOROUGH}");
            let thorough = boot(&program, "6.1", Clock::Running, 2, "slub_debug=FZPU", &thorough);
            let newer = format!("ROUNDS=10\n{CONDUCT}");
            [thorough, boot(&program, "6.12", Clock::Running, 2, "slub_debug=FZPU", &newer)]
        });
        let measured = boot(&program, "6.1", Clock::Counted, 1, "", MATRIX);
        (measured, beside.join().unwrap())
    });
    let flags = boot(&program, "6.1", Clock::Running, 2, "", FLAGS);
    let documents: BTreeMap<&str, Value> =
        ["burst", "idle", "designs", "sizes", "flags"].map(|name| (name, document(&measured, name))).into();
    let comparison = Comparison {
        documents,
        bursts: page::bursts(measured.results.path()),
        flags: FLAGS_COMPARED.iter().map(|name| (*name, document(&flags, name))).collect(),
        consoles: [&thorough.console, &newer.console],
        kernels: [thorough.kernel.as_deref().unwrap(), newer.kernel.as_deref().unwrap()],
        took: began.elapsed(),
    };
    std::fs::write(docs.join("pictures/kernel-designs.svg"), page::designs_picture(&comparison)).unwrap();
    std::fs::write(
        docs.join("pictures/kernel-burst.svg"),
        page::burst_picture(&comparison.documents["burst"], &comparison.bursts),
    )
    .unwrap();
    std::fs::write(docs.join("kernel.md"), page::write(&comparison)).unwrap();
    println!("docs/kernel.md is written; {} s in all", began.elapsed().as_secs());
}
