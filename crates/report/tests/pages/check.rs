//! The check for people and for machines, and TIME_WAIT in a run's report: built by hand, read by eye.

use crate::common::*;
use model::check::{Check, Demand, Fix, FixOutcome, Item, Setting, Standing};
use model::plan::DriverKind;
use report::check::{Checked, Document, write};
use report::text::{Options, Style};

fn checked() -> Checked {
    let item = |id, setting, value: Option<&str>, standing, amounts: Option<(f64, f64)>, text: &str| Item {
        id,
        setting,
        value: value.map(str::to_owned),
        standing,
        allows: amounts.map(|a| a.0),
        needs: amounts.map(|a| a.1),
        unit: if amounts.is_some() { "connections" } else { "" },
        text: text.to_owned(),
        commands: Vec::new(),
        fix: None,
    };
    let mut nofile = item(
        "nofile",
        "nofile (ulimit -n)",
        Some("soft 1,024, hard 20,000"),
        Standing::Binds,
        Some((19_936.0, 100_000.0)),
        "19,936 connections by epoll in one process, at each end (64 descriptors for the rest)",
    );
    nofile.commands = vec!["ulimit -n 110000".to_owned()];
    let mut somaxconn = item(
        "somaxconn",
        "net.core.somaxconn",
        Some("4,096"),
        Standing::Tight,
        Some((4096.0, 65_535.0)),
        "at most 4,096 connections wait to be accepted by one listening socket; 100,000 may come at once",
    );
    somaxconn.commands = vec!["sysctl -w net.core.somaxconn=65535".to_owned()];
    somaxconn.fix = Some(Setting { name: "net.core.somaxconn".to_owned(), value: "65535".to_owned() });
    let items = vec![
        nofile,
        somaxconn,
        item("governor", "cpufreq governor", None, Standing::NotKnown, None, "this machine shows no cpufreq"),
        item("huge-pages", "transparent_hugepage/enabled", Some("mad\x1bvise"), Standing::Ok, None, "as it should be"),
    ];
    let demand = Demand {
        connections: 100_000,
        rate_per_s: Some(5000.0),
        connects_per_s: Some(0.0),
        busy_at_once: None,
        destinations: 1,
        sources: 4,
        ends_here: 2,
        is_loopback: true,
        workers: 1,
        driver: DriverKind::Epoll,
        direct_descriptors: false,
    };
    let fix = |name: &str, outcome, reason: &str| Fix {
        name: name.to_owned(),
        before: Some("4096".to_owned()),
        after: "65535".to_owned(),
        outcome,
        reason: reason.to_owned(),
    };
    let fixes = vec![
        fix("net.core.somaxconn", FixOutcome::Applied, ""),
        fix("fs.nr_open", FixOutcome::Refused, "fs.nr_open: expected the right to change it, but permission denied"),
    ];
    Checked { target: "echo://127.0.0.1:7777".to_owned(), check: Check { demand, items }, fixes }
}

fn text(checked: &Checked, width: usize, unicode: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, checked, Style { color: false, width, unicode }).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_check_reads_well() {
    let checked = checked();
    insta::assert_snapshot!("check_80", text(&checked, 80, true));
    assert!(text(&checked, 80, false).is_ascii());
    assert!(!text(&checked, 80, true).contains('\x1b'), "a value cannot steer the terminal");
    for line in text(&checked, 80, true).lines() {
        assert!(line.chars().count() <= 80 && line.trim_end() == line, "{line}");
    }
    let mut sound = checked;
    (sound.check.items, sound.fixes, sound.target) = (Vec::new(), Vec::new(), String::new());
    let sound = text(&sound, 80, true);
    assert!(sound.contains("Ready      no limit that was read stands in the way\n"), "{sound}");
}

#[test]
fn the_document_is_valid_by_its_schema_and_the_schema_is_fresh() {
    let validator = fresh("plimsoll.check-1", &report::check::schema());
    let mut out = Vec::new();
    Document::of(&checked(), "1.2.3").write(&mut out).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    for (pointer, value) in [
        ("/schema", serde_json::json!("plimsoll.check/1")),
        ("/ready", false.into()),
        ("/first_to_bind", "nofile".into()),
        ("/not_known", 1.into()),
        ("/demand/connections", 100_000.into()),
        ("/items/0/standing", "binds".into()),
        ("/items/1/fix/name", "net.core.somaxconn".into()),
        ("/items/2/standing", "not-known".into()),
        ("/items/2/value", serde_json::Value::Null),
        ("/fixes/1/outcome", "refused".into()),
    ] {
        assert_eq!(document.pointer(pointer), Some(&value), "{pointer}");
    }
    // And it does refuse something.
    let mut wrong = document;
    wrong["items"][0]["standing"] = "fine".into();
    assert!(!validator.is_valid(&wrong));
}

/// A run's report with so many sockets in TIME_WAIT at its readings.
fn time_wait(counts: &[u64], range: &str) -> (String, serde_json::Value) {
    let mut case = cases().swap_remove(0);
    let last = case.1.snapshots.last().unwrap().clone();
    case.1.snapshots.resize(counts.len(), last);
    for (snapshot, count) in case.1.snapshots.iter_mut().zip(counts) {
        snapshot.time_wait = Some(*count);
    }
    case.1.courses = model::courses::RunCourses::of(&case.1.snapshots);
    case.1.capsule.sysctls.insert("net.ipv4.ip_local_port_range".to_owned(), range.to_owned());
    let mut out = Vec::new();
    let style = Style { color: false, width: 80, unicode: true };
    report::text::write(&mut out, &case.1, &case.2, &Options { style, describe: &describe, all: false, kept: None })
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("TIME_WAIT")).take(5).collect();
    let document = report::json::Document::of(&case.1, &case.2, &describe, None);
    (lines.join("\n"), serde_json::to_value(document).unwrap()["observed"].clone())
}

#[test]
fn time_wait_is_shown_where_it_matters() {
    let (text, observed) = time_wait(&[12, 20_000, 19_000], "32768 60999");
    insta::assert_snapshot!("time_wait", text);
    assert_eq!(
        [&observed["time_wait_start"], &observed["time_wait_max"], &observed["time_wait_end"]],
        [12, 20_000, 19_000]
    );
    let says = |counts: &[u64], range| time_wait(counts, range).0;
    assert_eq!(says(&[12, 900], "32768 60999"), "", "a run's end leaves some");
    assert!(says(&[12, 2000], "32768 60999").contains("of 28,232 ports"));
    assert!(says(&[20_000, 20_000], "32768 60999").contains("most of 28,232 ports"), "others left them");
    assert!(!says(&[0, 2000], "nonsense").contains("ports to one"), "a range that was not read is not made up");
}
