//! The report as a page: it asks for nothing, nothing ends an element, its bundle is fresh, and a day of seconds stays small.
//!
//! The pages are left in `target/pages`, where `make test-web` opens them in a browser.

use crate::common::*;
use model::finding::{Standing, WhatGives};
use model::interval::Counts;
use model::plan::{Arrivals, Pace, Segment};
use model::profile::{Folding, Kind, Period, Stacks};
use model::recording::{LoadRole, Row};
use model::snapshot::{Role, Snapshot};
use model::{Histogram, LatencyKind};
use report::html::course::Course;
use report::html::flames::Flame;
use report::html::heat::Heat;
use report::html::loads::Beside;
use report::html::periods::Periods;
use report::html::unit::Unit;
use report::html::{BUNDLE_HASH, Report, SCRIPT};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use testkit::recordings::{process, thread};

/// What a hostile server may send, and a thread may be called.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&<!--\u{202e}\0";
const DAY_S: u64 = 86_400;

fn report<'a>(case: &'a Case, course: Course, heat: Heat, flames: Vec<Flame>) -> Report<'a> {
    let rows = case.1.timeline.rows().to_vec();
    let (recording, diagnosis, kept, beside) = (&case.1, &case.2, None, Vec::new());
    Report { recording, diagnosis, describe: &describe, kept, rows, heat, course, flames, beside, goes_on: false }
}

fn page(name: &str, report: &Report<'_>) -> String {
    let mut out = Vec::new();
    report.write(&mut out).unwrap();
    let folder = testkit::workspace().join("target/pages");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.html")), &out).unwrap();
    String::from_utf8(out).unwrap()
}

fn map(rows: &[Row]) -> Heat {
    let mut heat = Heat::default();
    for row in rows {
        let mut times = Histogram::<u64>::new();
        for part in 0..40u64 {
            let ns = row.response_p50_ns.unwrap_or(0) * (20 + part) / 40;
            times.record_n(ns, row.counts.ok * (40 - part) / 800);
        }
        heat.push(row.start_ns, row.end_ns, times.iter_recorded());
    }
    heat
}

fn snapshots(seconds: u64, name: &str) -> Vec<Snapshot> {
    let one = |second: u64| {
        let mut worker = thread(7, name);
        worker.run_ns = Some(second * 400_000_000 + second % 7 * 10_000_000);
        let mut target = process(Role::Target, 5, name, vec![worker]);
        target.rss_bytes = Some((20 << 20) + second * 4096);
        target.user_ns = Some(second * 300_000_000);
        target.system_ns = Some(second * 100_000_000);
        target.descriptors = Some(60 + second % 5);
        let mut snapshot =
            Snapshot { at_ns: (second * SECOND_NS) as i64, processes: vec![target], ..Snapshot::default() };
        snapshot.network.set_if("tcp_established", Some(50 + second % 3));
        snapshot.network.set_if("tcp_retransmits", Some(second / 10));
        snapshot
    };
    (0..=seconds).map(one).collect()
}

fn course(snapshots: &[Snapshot]) -> Course {
    let mut course = Course::default();
    snapshots.iter().for_each(|snapshot| course.push(snapshot));
    course
}

fn flame(name: &str) -> Vec<Flame> {
    let mut folding = Folding::new(1000);
    for (stack, count) in [(vec![name, "main", "work", name], 700), (vec![name, "main", "wait_[k]"], 300)] {
        folding.add(&stack, count);
    }
    let stacks = folding.stacks().clone();
    vec![
        Flame { kind: Kind::OnCpu, stacks: stacks.clone(), slow: None, periods: None },
        Flame { kind: Kind::OffCpu, stacks, slow: Some((2, 5_000_000_000)), periods: None },
    ]
}

/// A run's stacks with those of each of some seconds: of one second what stands in it, and how often.
fn by_period(kind: Kind, seconds: &[u64], stacks_of: impl Fn(u64) -> Vec<(Vec<String>, u64)>) -> Flame {
    let folded = |second: u64| {
        let mut folding = Folding::default();
        stacks_of(second).iter().for_each(|(frames, count)| folding.add(frames, *count));
        folding.into_stacks()
    };
    let mut whole = Folding::default();
    seconds.iter().for_each(|second| whole.merge(&folded(*second)));
    let stacks = whole.into_stacks();
    let mut periods = Periods::of(&stacks);
    for second in seconds {
        let ns = |second: u64| (second * SECOND_NS) as i64;
        periods.push(&Period { from_ns: ns(*second), to_ns: ns(second + 1), stacks: folded(*second) });
    }
    assert_eq!(periods.total(), stacks.total());
    Flame { kind, stacks, slow: None, periods: Some(periods) }
}

fn frames(text: &str) -> Vec<String> {
    text.split(';').map(str::to_owned).collect()
}

#[test]
fn every_case_is_a_page_that_asks_for_nothing() {
    for case in cases() {
        let heat = map(case.1.timeline.rows());
        let html = page(case.0, &report(&case, course(&snapshots(10, "worker")), heat, flame("server")));
        assert!(html.contains("default-src 'none'"), "{}", case.0);
        // Only the page's own parts: what it names outside itself is text.
        for asks in ["src=", "<link rel=\"stylesheet\"", "@import", "url(", "style=\"", "<iframe", "<object"] {
            let markup = html.split("<script type=\"text/plain\"").next().unwrap();
            assert!(!markup.contains(asks), "{}: {asks}", case.0);
        }
        assert_eq!(html.matches("<script").count(), 3 + SCRIPT.matches("<script").count(), "{}", case.0);
        let text = {
            let mut out = Vec::new();
            let style = report::text::Style { color: false, width: 100_000, unicode: true };
            let options = report::text::Options { style, describe: &describe, all: true, kept: None };
            report::text::write(&mut out, &case.1, &case.2, &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        // The words of the text report, as they are.
        let visible = html.replace('\u{a0}', " ").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        for label in ["  how fast", "  how sure"] {
            let line = text.lines().find_map(|line| line.strip_prefix(label));
            if let Some(said) = line.map(|line| line.trim().replace('\u{a0}', " ")) {
                assert!(visible.contains(&said), "{}: {said}", case.0);
            }
        }
    }
}

/// Green says that all is well, which nobody knows of figures that are not valid.
#[test]
fn a_sentence_above_figures_that_are_not_valid_is_not_green() {
    for (name, recording, mut diagnosis) in cases() {
        diagnosis.gives = Some(WhatGives {
            standing: Standing::BelowItsLimit,
            text: "not at its limit: nothing gives yet".to_owned(),
            finding: None,
            behind: None,
        });
        let mood = if diagnosis.validity.valid { "gives good" } else { "gives plain" };
        let case = (name, recording, diagnosis);
        let text = page("mood", &report(&case, Course::default(), Heat::default(), Vec::new()));
        assert!(text.contains(&format!("class=\"{mood}\"")), "{name}: {:?}", case.2.validity);
    }
}

#[test]
fn what_came_from_outside_changes_nothing_but_text() {
    let mut case = cases().swap_remove(1);
    let long = HOSTILE.repeat(1500);
    case.1.plan.origins[0].name = long.clone();
    case.1.capsule.command = vec!["plimsoll".to_owned(), long.clone()];
    case.1.capsule.kernel = HOSTILE.to_owned();
    case.1.push_event(model::Event::new(5, HOSTILE.to_owned(), long.clone()));
    if let Some(finding) = case.2.findings.first_mut() {
        finding.title = long.clone();
        finding.because.iter_mut().for_each(|evidence| evidence.text = HOSTILE.to_owned());
    }
    let heat = map(case.1.timeline.rows());
    let html = page("hostile", &report(&case, course(&snapshots(10, HOSTILE)), heat, flame(&long)));
    let scripts = 3 + SCRIPT.matches("<script").count();
    assert_eq!((html.matches("<script").count(), html.matches("<img").count()), (scripts, 0));
    assert!(html.contains("&lt;/script&gt;") && !html.contains('\u{202e}') && !html.contains('\0'));
    assert!(html.len() < 600_000, "{}", html.len());
}

/// Of 2,000 stacks that a busy server has, 60 in each second.
fn a_day_of_stacks() -> (Stacks, Periods) {
    let frames_of = |at: u64| {
        let (part, step) = (at % 7, at % 90);
        frames(&format!("server;main;serve;part{part};step{step};leaf{at}"))
    };
    let of_second = |second: u64| {
        (0..60u64).map(move |i| {
            let random = (second * 60 + i + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(31)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((random >> 40) % 2000, 1 + (random >> 20) % 40)
        })
    };
    let mut sums = vec![0; 2000];
    (0..DAY_S).flat_map(of_second).for_each(|(at, count)| sums[at as usize] += count);
    let mut whole = Folding::default();
    (0..2000).zip(&sums).for_each(|(at, sum)| whole.add(&frames_of(at), *sum));
    let whole = whole.into_stacks();
    let mut periods = Periods::of(&whole);
    for second in 0..DAY_S {
        // A tree with a twig for each stack: folding 5,000,000 would take longer than all other tests.
        let mut stacks = Stacks::default();
        for (at, count) in of_second(second) {
            for (depth, name) in frames_of(at).into_iter().enumerate() {
                let caller = if depth == 0 { 0 } else { stacks.nodes.len() as u32 };
                stacks.nodes.push((caller, stacks.names.len() as u32, if depth == 5 { count } else { 0 }));
                stacks.names.push(name);
            }
        }
        let ns = |second: u64| (second * SECOND_NS) as i64;
        periods.push(&Period { from_ns: ns(second), to_ns: ns(second + 1), stacks });
    }
    assert_eq!(periods.total(), whole.total());
    (whole, periods)
}

#[test]
fn a_day_of_seconds_is_a_file_of_less_than_five_megabytes() {
    let mut case = cases().swap_remove(0);
    // A load that breathes and is never twice the same: an easy one would say little of the size.
    let mut random = 1u64;
    let mut next = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % most
    };
    let mut rows = Vec::new();
    for second in 0..DAY_S {
        let ok = 20_000 + (second % 3600) * 3 + next(2000);
        let p50_ns = 400_000 + next(90_000) + second % 600 * 500;
        rows.push(Row {
            start_ns: second * SECOND_NS,
            end_ns: (second + 1) * SECOND_NS,
            counts: Counts { started: ok, ok, failed: next(40) / 38, ..Counts::default() },
            response_p50_ns: Some(p50_ns),
            response_p99_ns: Some(p50_ns * 3 + next(900_000)),
            lag_p99_ns: Some(20_000 + next(20_000)),
            worker_busy_max: next(300) as f64 / 1000.0,
            in_window: second % 60 == 0,
            ..Row::default()
        });
    }
    case.1.totals.measured_ns = DAY_S * SECOND_NS;
    let heat = map(&rows);
    let (stacks, periods) = a_day_of_stacks();
    let one = |kind: Kind| Flame { kind, stacks: stacks.clone(), slow: None, periods: Some(periods.clone()) };
    let flames = vec![one(Kind::OnCpu), one(Kind::OffCpu)];
    let mut report = report(&case, course(&snapshots(DAY_S, "worker")), heat, flames);
    report.rows = rows;
    let html = page("day", &report);
    let periods = report.flames.iter().flat_map(|flame| &flame.periods).map(Periods::len);
    println!("a day of seconds: {} bytes, stacks of {:?} periods", html.len(), periods.collect::<Vec<_>>());
    assert!(html.len() < 5_000_000, "{}", html.len());
}

#[test]
fn a_page_has_the_stacks_of_each_period_and_says_why_where_there_are_none() {
    let mut case = cases().swap_remove(0);
    // From its fourth second on the server waits for a lock, and compresses no more.
    let ran = |second: u64| {
        let is_late = second >= 4;
        vec![
            (frames("server;main;serve;parse"), 40),
            (frames("server;main;serve;compress"), if is_late { 5 } else { 50 }),
            (frames("server;main;serve;lock;futex_[k]"), if is_late { 60 + second } else { 2 }),
            (frames("server;main;serve;serve;parse"), 7),
        ]
    };
    let waited = |second: u64| vec![(frames("server;main;wait;epoll_wait_[k]"), 900_000 - 1000 * second)];
    let flames =
        vec![by_period(Kind::OnCpu, &(0..10).collect::<Vec<_>>(), ran), by_period(Kind::OffCpu, &[2, 3, 6], waited)];
    let heat = map(case.1.timeline.rows());
    let html = page("stretches", &report(&case, course(&snapshots(10, "worker")), heat, flames));
    assert!(
        html.contains("id=\"stacks\"") && html.contains("the flame graphs of where the target ran and waited in it")
    );
    assert!(!html.contains("data-none-on-cpu"));

    // A run so long that its file has merged what is older than its sixth second.
    let mut flame = by_period(Kind::OnCpu, &(0..10).collect::<Vec<_>>(), ran);
    let late = by_period(Kind::OnCpu, &(6..10).collect::<Vec<_>>(), ran);
    flame.periods = late.periods.map(|mut periods| {
        periods.known_since(6 * SECOND_NS as i64);
        periods
    });
    let heat = map(case.1.timeline.rows());
    let html = page("stretches-merged", &report(&case, course(&snapshots(10, "worker")), heat, vec![flame]));
    assert!(
        html.contains("Stacks are known by stretch from 6.00 s on: of older ticks the file has those of all together.")
    );

    case.1.samplers.clear();
    let heat = map(case.1.timeline.rows());
    let html = page("stretches-none", &report(&case, course(&snapshots(10, "worker")), heat, Vec::new()));
    for kind in ["on-cpu", "off-cpu"] {
        let why =
            format!("data-none-{kind}=\"expected {kind} stacks in the recording, but it says nothing of the sampler");
        assert!(html.contains(&why) && html.contains("record with --observe windows or full\""), "{why}");
    }
}

fn load<'a>(
    place: usize,
    name: &'a str,
    role: LoadRole,
    (recording, diagnosis): (&'a model::Recording, &'a model::finding::Diagnosis),
) -> Beside<'a> {
    let rows = recording.timeline.rows().to_vec();
    Beside { name, role, recording, diagnosis, describe: &describe, kept: None, rows, place }
}

#[test]
fn loads_put_on_together_are_one_page_with_the_canarys_time_line() {
    let mut cases = cases();
    let (beside, mut main) = (cases.swap_remove(1), cases.swap_remove(0));
    main.1.push_event(model::Event::new(
        4 * SECOND_NS as i64,
        "fault".to_owned(),
        "stop: pid 4242 was stopped".to_owned(),
    ));
    let every = Segment { from_per_s: 1.0, to_per_s: 1.0, for_ns: SECOND_NS };
    let mut plan = main.1.plan.clone();
    plan.pace = Pace::Open { profile: vec![every], arrivals: Arrivals::Constant };
    let mut canary = model::Recording::new(main.1.capsule.clone(), plan);
    for second in 0..10u64 {
        let ok = u64::from(!(4..8).contains(&second));
        let mut row = Row { start_ns: second * SECOND_NS, end_ns: (second + 1) * SECOND_NS, ..Row::default() };
        (row.counts.ok, row.counts.started, row.response_sum_ns) = (ok, 1, ok * 900_000);
        canary.timeline.push(row);
    }
    let counts = &mut canary.totals.sum.counts;
    (counts.ok, counts.failed, counts.started) = (6, 4, 10);
    let diagnosis = model::finding::Diagnosis::default();
    let heat = map(main.1.timeline.rows());
    let mut report = report(&main, course(&snapshots(10, "worker")), heat, Vec::new());
    report.beside = vec![
        load(0, "batch", LoadRole::Beside, (&beside.1, &beside.2)),
        load(1, "canary", LoadRole::Canary, (&canary, &diagnosis)),
    ];
    let html = page("together", &report);
    for chart in ["load0-response", "load0-throughput", "canary"] {
        assert!(html.contains(&format!("data-chart=\"{chart}\"")), "{chart}");
    }
    let says = |text: &str| assert!(html.contains(text), "'{text}' is not on the page");
    says("id=\"loads\"");
    says("no answer from second 4.0 to second 8.0");
    says("Load ‘batch’: throughput");
    // A load alone says nothing of others.
    let mut out = Vec::new();
    Report { beside: Vec::new(), ..report }.write(&mut out).unwrap();
    assert!(!String::from_utf8(out).unwrap().contains("id=\"loads\""));
}

#[test]
fn quantiles_and_the_map_hold_what_the_recording_does() {
    let case = cases().swap_remove(0);
    let heat = map(case.1.timeline.rows());
    let total = heat.total();
    let html = page("healthy", &report(&case, Course::default(), heat, Vec::new()));
    assert!(total > 0 && html.contains("data-chart=\"heat\"") && html.contains("data-chart=\"throughput\""));
    let p99 = case.1.totals.sum.latency.quantile(LatencyKind::Response, 0.99).unwrap();
    assert!(html.contains(&format!("data-value=\"{}\"", p99.ns)), "{}", p99.ns);
}

#[test]
fn the_script_says_figures_as_the_text_does() {
    let values = [
        0.0,
        0.004,
        0.5,
        0.9996,
        1.0,
        7.0,
        99.96,
        999.4,
        1234.5,
        9999.0,
        12_345.0,
        1e6,
        43_720_000.0,
        1e9,
        119e9,
        600e9,
    ];
    let mut fresh = String::from("[\n");
    for unit in Unit::ALL {
        for value in values.into_iter().filter(|value| unit != Unit::Share || *value <= 1.0) {
            let name = serde_json::to_value(unit).unwrap();
            let _ = writeln!(fresh, "  [{name}, {value}, {}],", serde_json::to_value(unit.shown(value)).unwrap());
        }
    }
    let fresh = fresh.trim_end_matches(",\n").to_owned() + "\n]\n";
    let path = testkit::workspace().join("web/tests/figures.json");
    if std::env::var_os("UPDATE_WEB").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == fresh, "web/tests/figures.json is stale: run this test once with UPDATE_WEB=1, then make test-web");
}

#[test]
fn the_bundle_is_made_of_the_sources_that_are_there() {
    let web = testkit::workspace().join("web");
    let mut paths: Vec<PathBuf> =
        ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"].iter().map(PathBuf::from).collect();
    below(&web, Path::new("src"), &mut paths);
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    let mut hash = Sha256::new();
    for path in paths {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(std::fs::read(web.join(&path)).unwrap());
        hash.update([0]);
    }
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let of_file = |name: &str| hex(&Sha256::digest(std::fs::read(assets.join(name)).unwrap()));
    let is = format!(
        "sources {}\nscript {}\nstyle {}\n",
        hex(&hash.finalize()),
        of_file("report.js"),
        of_file("report.css")
    );
    assert!(is == BUNDLE_HASH, "crates/report/assets is not made of web/ as it is: run scripts/web.sh (make web)");
    assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"), "the script would end its own element");
}

fn below(root: &Path, folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() { below(root, &path, paths) } else { paths.push(path) }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
