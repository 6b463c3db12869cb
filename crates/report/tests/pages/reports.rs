//! Every form of report over recordings built by hand. The snapshots were read by eye; change one only if the new one
//! reads better.

use crate::common::*;
use model::Status;
use report::json::Document;
use report::text::{Kept, Options, Style};

fn text(case: &Case, style: Style) -> String {
    let kept = Kept {
        path: "/home/me/.local/state/plimsoll/runs/20250731-142233-localhost-1a2b.plimsoll",
        command: "plimsoll report 20250731-142233-localhost-1a2b",
    };
    let mut out = Vec::new();
    let options = Options { style, describe: &describe, all: false, kept: (case.0 != "few").then_some(kept) };
    report::text::write(&mut out, &case.1, &case.2, &options).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_reads_well() {
    for case in cases() {
        for width in [80, 120] {
            let text = text(&case, Style { color: false, width, unicode: true });
            insta::assert_snapshot!(format!("{}_{width}", case.0), text);
        }
    }
}

#[test]
fn where_a_run_changed_is_one_line() {
    let segment = |from_s: f64, requests_per_s, p99_us, failed_per_s| model::finding::Segment {
        from_s,
        to_s: from_s + 30.0,
        requests_per_s,
        response_p50_us: Some(900.0),
        response_p99_us: Some(p99_us),
        failed_per_s,
    };
    let line = |segments: Vec<model::finding::Segment>| {
        let mut case = cases().swap_remove(0);
        case.2.segments = segments;
        let text = text(&case, Style { color: false, width: 120, unicode: true });
        text.lines().find(|line| line.starts_with("Changed")).map(|line| line.replace('\u{a0}', " "))
    };
    let before = segment(0.0, 20_000.0, 4000.0, 0.0);
    let after = segment(30.0, 8000.0, 212_000.0, 0.0);
    assert_eq!(line(vec![before]), None);
    let expected = "Changed      from 30.0 s on: p99 4.00 ms → 212 ms, 20.0k/s → 8,000/s";
    assert_eq!(line(vec![before, after]).as_deref(), Some(expected));
    // Of several the largest change; failures where there are some.
    let last = segment(60.0, 7900.0, 200_000.0, 5.0);
    let expected = format!("{expected} (3 stretches of their own level in all)");
    assert_eq!(line(vec![before, after, last]), Some(expected));
    let failing = line(vec![segment(0.0, 100.0, 10.0, 0.0), segment(30.0, 100.0, 10.0, 50.0)]).unwrap();
    assert!(failing.ends_with("failed 0/s → 50/s"), "{failing}");
}

#[test]
fn faults_are_told_by_what_became_of_each() {
    use model::event::{Details, FAULT_BEGAN, FAULT_REFUSED, FAULT_UNDONE};
    let mut case = cases().swap_remove(0);
    let asked = ["stop target@1s:2s", "kill 12@2s", "nice 12 5@3s:1s", "nice 13 5@4s:1s", "stop 12@90s"];
    case.1.plan.faults = asked.iter().map(|text| model::fault::LoadFault::parse(text).unwrap()).collect();
    let mut tell = |fault: u32, kind: &str, at_ms: i64, text: &str| {
        let details = Details { fault: Some(fault), took_ns: Some(2_500_000), ..Details::default() };
        case.1.push_event(model::Event::new(at_ms * 1_000_000, kind, text).with(details));
    };
    tell(1, FAULT_BEGAN, 1001, "fault stop target: process 7: running → stopped");
    tell(2, FAULT_BEGAN, 2002, "fault kill 12: SIGKILL to process 12 (x)");
    tell(1, FAULT_UNDONE, 3003, "fault stop target is undone");
    tell(3, FAULT_REFUSED, 3004, "fault nice 12 5 was not done: there is no such process");
    tell(4, FAULT_BEGAN, 4001, "fault nice 13 5: niceness of process 13: 0 → 5");
    tell(4, FAULT_REFUSED, 5001, "fault nice 13 5 was not undone: somebody else has changed it to 7 since");
    let document = serde_json::to_value(document(&case)).unwrap();
    let told: Vec<String> = document["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| format!("{} {} {} {} {}", f["number"], f["name"], f["state"], f["at_s"], f["undone_at_s"]))
        .collect();
    let expected = [
        "1 \"stop\" \"undone\" 1.001 3.003",
        "2 \"kill\" \"done\" 2.002 null",
        "3 \"nice\" \"refused\" null null",
        "4 \"nice\" \"not-undone\" 4.001 null",
        "5 \"stop\" \"not-reached\" null null",
    ];
    assert_eq!(told, expected);
    assert_eq!((&document["faults"][0]["took_ms"], &document["faults"][0]["asked_for_s"]), (&2.5.into(), &2.0.into()));
    let text = text(&case, Style { color: false, width: 180, unicode: true });
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Faults")).take(5).map(str::trim).collect();
    let expected = [
        "Faults       1.001 s: fault stop target: process 7: running → stopped; undone at 3.003 s",
        "2.002 s: fault kill 12: SIGKILL to process 12 (x)",
        "3.000 s: fault nice 12 5 was not done: there is no such process",
        "4.001 s: fault nice 13 5: niceness of process 13: 0 → 5; fault nice 13 5 was not undone: somebody else has changed it to 7 since",
        "stop 12: the load ended before its moment at 90.000 s",
    ];
    assert_eq!(lines.iter().map(|line| line.replace('\u{a0}', " ")).collect::<Vec<_>>(), expected);
}

#[test]
fn text_in_ascii_and_in_colour() {
    let case = &cases()[0];
    let ascii = text(case, Style { color: false, width: 80, unicode: false });
    assert!(ascii.is_ascii());
    insta::assert_snapshot!("healthy_ascii", ascii);
    let colour = text(case, Style { color: true, width: 80, unicode: true });
    let plain = text(case, Style { color: false, width: 80, unicode: true });
    let mut stripped = String::new();
    for (i, part) in colour.split('\x1b').enumerate() {
        stripped.push_str(if i == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_eq!(stripped, plain);
}

#[test]
fn no_line_is_longer_than_the_width_and_none_ends_in_blanks_or_begins_with_a_unit() {
    for case in cases() {
        for width in [60, 72, 80, 100, 120, 200] {
            for line in text(&case, Style { color: false, width, unicode: true }).lines() {
                let is_path = line.contains(".plimsoll") || line.contains("plimsoll report");
                assert!(line.chars().count() <= width || is_path, "{} at {width}: {line}", case.0);
                assert_eq!(line.trim_end(), line);
                let first = line.trim_start().split([' ', ',', ';', ')', '.']).next().unwrap();
                let units = ["ns", "µs", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "MiB/s", "KiB/s", "B/s"];
                assert!(!units.contains(&first), "{} at {width}: a figure lost its unit: {line}", case.0);
            }
        }
    }
}

#[test]
fn what_comes_from_outside_cannot_steer_the_terminal() {
    let (name, mut r, mut diagnosis) = cases().swap_remove(0);
    r.plan.origins[0].name = "http://x\x1b]0;owned\x07".to_owned();
    r.courses.processes[0].name = "evil\x1b[2J\n".to_owned();
    diagnosis.findings[0].title = "\u{9b}31m".to_owned();
    let text = text(&(name, r, diagnosis), Style { color: false, width: 80, unicode: true });
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

fn document(case: &Case) -> Document {
    Document::of(&case.1, &case.2, &describe, Some("/runs/a.plimsoll"))
}

#[test]
fn json_has_its_fixed_names() {
    let mut healthy = document(&cases()[0]);
    healthy.intervals.truncate(1);
    insta::assert_json_snapshot!("document", serde_json::to_value(healthy).unwrap());
    // What a script leans on, in the words of the design.
    let errors = serde_json::to_value(document(&cases()[1])).unwrap();
    for pointer in [
        "/schema",
        "/tool/version",
        "/plan/connections",
        "/started_at",
        "/host/kernel",
        "/host/cpu",
        "/host/memory_bytes",
        "/host/sysctls",
        "/validity/valid",
        "/validity/state",
        "/validity/quiet",
        "/summary",
        "/latency/response/unfinished",
        "/latency/response/at_least",
        "/validity/reasons",
        "/requested/connections",
        "/requested/rate_per_s",
        "/achieved/connections",
        "/achieved/rate_per_s",
        "/totals/started",
        "/totals/requests",
        "/totals/ok",
        "/totals/failed",
        "/totals/in_flight_at_end",
        "/totals/dropped",
        "/totals/bytes_sent",
        "/totals/bytes_received",
        "/totals/errors/unexpected-status",
        "/totals/status/503",
        "/totals/status/other",
        "/generator/cpu_seconds",
        "/generator/requests_per_cpu_second",
        "/generator/peak_rss_bytes",
        "/generator/driver",
        "/intervals/9/t_s",
        "/intervals/9/requests",
        "/intervals/9/failed",
        "/intervals/9/connections",
        "/intervals/9/response_p50_us",
        "/intervals/9/response_p99_us",
        "/faults",
        "/observed",
        "/samplers/0/reason",
        "/findings",
        "/judged",
    ] {
        assert!(errors.pointer(pointer).is_some(), "{pointer} is missing");
    }
    for kind in ["response", "service", "failed", "connect", "tls", "first_byte", "queue", "lag"] {
        for figure in ["count", "mean_us", "p50_us", "p75_us", "p90_us", "p95_us", "p99_us", "p999_us", "max_us"] {
            assert!(errors.pointer(&format!("/latency/{kind}/{figure}")).is_some(), "{kind} {figure}");
        }
    }
    assert!(errors["latency"]["tls"]["p50_us"].is_null());
    assert!(errors["requested"]["rate_per_s"].is_null());
    assert!(errors.get("capacity").is_none());
}

#[test]
fn what_was_found_and_what_was_only_looked_for_are_apart() {
    let all = cases();
    let (found, only_looked_for) = (all[0].2.findings[0].clone(), all[0].2.findings[1].clone());
    assert_eq!((found.status, only_looked_for.status), (Status::Supported, Status::NotObservable));
    let document = document(&all[0]);
    assert_eq!((document.findings, document.judged), (vec![found], vec![only_looked_for]));
}

#[test]
fn json_says_which_figures_are_lower_bounds_and_what_stands() {
    let all = cases();
    let of = |name: &str| serde_json::to_value(document(all.iter().find(|case| case.0 == name).unwrap())).unwrap();
    let unfinished = of("unfinished");
    let response = &unfinished["latency"]["response"];
    assert_eq!((&response["count"], &response["unfinished"]), (&5000.into(), &4990.into()));
    // The youngest of them is younger than most replies.
    assert_eq!(
        response["at_least"],
        serde_json::json!(["p50_us", "p75_us", "p90_us", "p95_us", "p99_us", "max_us", "mean_us"])
    );
    assert!(response["p99_us"].as_f64().unwrap() > 4_800_000.0, "{response}");
    assert_eq!(unfinished["users"]["never_served"], 10);
    assert!(unfinished["users"]["time_p50_us"].as_f64().unwrap() > 3_000_000.0, "{}", unfinished["users"]);
    assert_eq!(unfinished["intervals"][9]["at_least"], serde_json::json!(["response_p99_us"]));
    assert_eq!(unfinished["summary"][0]["id"], "users-starved");
    let quiet = of("quiet");
    assert_eq!((&quiet["validity"]["valid"], &quiet["validity"]["quiet"]["is_used"]), (&true.into(), &true.into()));
    assert_eq!(quiet["without_windows"]["share"], 0.9);
    assert_eq!(of("undetermined")["validity"]["state"], "undetermined");
    assert_eq!(of("undetermined")["validity"]["valid"], false);
}

#[test]
fn a_diagnosis_stored_before_there_were_three_states_still_loads() {
    use model::finding::{Diagnosis, ValidityState};
    for (valid, state) in [("true", ValidityState::Valid), ("false", ValidityState::NotValid)] {
        let old = format!(r#"{{"validity":{{"valid":{valid},"reasons":[]}},"findings":[]}}"#);
        let diagnosis: Diagnosis = serde_json::from_str(&old).unwrap();
        assert_eq!((diagnosis.validity.state, diagnosis.validity.valid), (state, valid == "true"));
        let again: Diagnosis = serde_json::from_str(&serde_json::to_string(&diagnosis).unwrap()).unwrap();
        assert_eq!(again, diagnosis);
    }
}

#[test]
fn json_hides_credentials() {
    let text = serde_json::to_string(&document(&cases()[0])).unwrap();
    assert!(text.contains("***") && !text.contains("c2VjcmV0"));
}

#[test]
fn json_accounts_for_every_request() {
    for case in cases() {
        let d = document(&case);
        assert_eq!(d.totals.requests, d.totals.ok + d.totals.failed, "{}", case.0);
        assert_eq!(d.totals.started, d.totals.requests + d.totals.in_flight_at_end, "{}", case.0);
        assert_eq!(d.totals.errors.values().sum::<u64>(), d.totals.failed, "{}", case.0);
    }
}

#[test]
fn every_document_is_valid_by_the_schema_and_the_schema_is_fresh() {
    let validator = fresh("plimsoll.report-1", &report::json::schema());
    let check = |name: &str, value: &serde_json::Value| {
        let errors: Vec<String> = validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    };
    for case in cases() {
        check(case.0, &serde_json::to_value(document(&case)).unwrap());
        let streamed = document(&case).with_rows(case.1.timeline.rows().iter().map(|row| Ok::<_, String>(*row)));
        let mut out = Vec::new();
        streamed.write(&mut out).unwrap();
        let streamed: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(streamed, serde_json::to_value(document(&case)).unwrap());
    }
    // And it does refuse something.
    let mut wrong = serde_json::to_value(document(&cases()[0])).unwrap();
    wrong["totals"]["ok"] = "many".into();
    assert!(!validator.is_valid(&wrong));
    wrong = serde_json::to_value(document(&cases()[0])).unwrap();
    wrong.as_object_mut().unwrap().remove("latency");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn a_row_that_cannot_be_read_is_an_error_of_the_writing() {
    let rows = [Ok(model::recording::Row::default()), Err("tick 2 is damaged".to_owned())];
    let document = document(&cases()[0]).with_rows(rows);
    let said = document.write(&mut Vec::new()).unwrap_err().to_string();
    assert!(said.contains("tick 2 is damaged"), "{said}");
}

#[test]
fn runs_are_a_table() {
    use model::Head;
    use model::finding::{Standing, ValidityState, WhatGives};
    use model::recording::End;
    use report::runs::{Run, Verdict, write};
    let head = |requests, end, target: &str| {
        Ok(Head {
            started_at_unix_ns: 1_753_971_753_000_000_000,
            target: target.to_owned(),
            requests,
            end,
            is_damaged: false,
        })
    };
    let run = |id: &str, head| Run { id: id.to_owned(), head, verdict: None };
    let mut runs = [
        run("20250731-142233-localhost-1a2b", head(2_281_234, End::Complete, "http://localhost:8080")),
        run("20250731-150000-localhost-00ff", head(12, End::Interrupted, "http://localhost:8080 and 2 more")),
        run("20250731-151500-echo-beef", head(0, End::Partial, "echo://127.0.0.1:7\x1b[2J")),
        run("old", Err("old.plimsoll is damaged: its table 'tick' is missing".to_owned())),
    ];
    let text = "its one worker is full (97 % of a core)".to_owned();
    let gives = WhatGives {
        standing: Standing::AtItsLimit,
        text,
        finding: Some("single-thread-bound".to_owned()),
        behind: None,
    };
    let verdict = |validity, gives| Verdict { rate_per_s: 228_123.4, unit: "request".to_owned(), validity, gives };
    runs[0].verdict = Some(verdict(ValidityState::Valid, Some(gives)));
    runs[1].verdict = Some(verdict(ValidityState::NotValid, None));
    let style = Style { color: false, width: 80, unicode: true };
    let mut out = Vec::new();
    write(&mut out, &runs, style).unwrap();
    insta::assert_snapshot!("runs", String::from_utf8(out).unwrap());
    let mut out = Vec::new();
    write(&mut out, &[], style).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "no runs yet: `plimsoll load URL` makes one\n");
}
