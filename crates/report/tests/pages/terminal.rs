//! The view of a run that goes on, at sizes of terminals, over a recording built by hand. The snapshots were read by eye;
//! change one only if the new one reads better.

use crate::common::*;
use model::finding::{Finding, Standing as HowItStands, WhatGives};
use model::interval::{Counts, Gauges};
use model::recording::Row;
use model::snapshot::{Role, Snapshot, ThreadSample};
use model::{ErrorKind, Event, Interval, LatencyKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use report::terminal::{Looks, Standing, View, Which, draw};
use testkit::recordings::{process, thread};

const LOOKS: Looks = Looks { which: Which::Run, scrolled: 0, color: false, unicode: true };

/// A run in its sixth of ten seconds, of which a tenth of the requests fails.
fn view(threads: &[&str]) -> View {
    let (_, recording, mut diagnosis) = cases().into_iter().find(|case| case.0 == "errors").unwrap();
    let finding = single_thread();
    diagnosis.gives = Some(WhatGives {
        standing: HowItStands::Gives,
        text: "one thread of the target is full while the machine is not, and requests wait for it".to_owned(),
        finding: Some(finding.id.clone()),
        behind: None,
    });
    diagnosis.findings = vec![finding, neighbour(), not_observable()];
    let mut view = View::default();
    view.begin(&recording.plan);
    for second in 0..6 {
        let (start_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
        let counts = Counts { started: 4500, ok: 4000 + 50 * second, failed: 450, ..Counts::default() };
        let mut interval = Interval::new(0);
        (interval.start_ns, interval.end_ns, interval.counts) = (start_ns, end_ns, counts);
        interval.errors.add(ErrorKind::Reset, 400);
        interval.errors.add(ErrorKind::ReplyTimeout, 50);
        interval.connection_errors.add(ErrorKind::Refused, 3);
        interval.latency.record_n(LatencyKind::Response, 800_000 + 150_000 * second, 3900);
        interval.latency.record_n(LatencyKind::Response, 12_000_000, 100);
        view.row(&Row {
            start_ns,
            end_ns,
            counts,
            gauges: Gauges { connections: 50, in_flight: 41, queued: 12, ..Gauges::default() },
            response_p50_ns: Some(800_000 + 150_000 * second),
            response_p99_ns: Some(9_000_000 + 600_000 * second),
            lag_p99_ns: Some(41_000),
            worker_busy_max: 0.42,
            worker_wait_max: 0.001,
            ..Row::default()
        });
        view.interval(&interval);
        let ran = threads.iter().zip(1..).map(|(name, tid)| ThreadSample {
            run_ns: Some(second * SECOND_NS / u64::from(tid)),
            state: if tid == 1 { 'R' } else { 'S' },
            ..thread(tid, name)
        });
        let server = process(Role::Target, 4711, "server", ran.collect());
        view.snapshot(&Snapshot { at_ns: end_ns as i64, processes: vec![server], ..Snapshot::default() });
    }
    view.event(&Event::new(3_200_000_000, "target-gone", "the target's process ended".to_owned()));
    view.remark("plimsoll: warning: 50 connections are few");
    view.standing(Standing::of(&recording, &diagnosis, &describe));
    view
}

fn neighbour() -> Finding {
    let title = "Another process took a core that the target wanted".to_owned();
    Finding { id: "neighbour".to_owned(), title, ..single_thread() }
}

/// What is drawn, line by line, and how many lines of it had no room.
fn drawn(view: &View, looks: Looks, width: u16, height: u16) -> (String, usize) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut beyond = 0;
    terminal.draw(|frame| beyond = draw(frame, view, looks)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    ((0..height).map(line).collect::<Vec<_>>().join("\n"), beyond)
}

#[test]
fn it_reads_well_at_every_size() {
    let view = view(&["server", "io-1", "io-2", "timer"]);
    for (width, height) in [(80, 24), (200, 60), (40, 10), (60, 16), (39, 10)] {
        insta::assert_snapshot!(format!("run_{width}x{height}"), drawn(&view, LOOKS, width, height).0);
    }
    let mut labelled = view.clone();
    labelled.label("step 3, 5,000 requests/s  ");
    for load in ["3,286", "4,272", "7,220", "5,554"] {
        labelled.remark(&format!("      {load}  p99    585 µs  held       find       line above 3,286"));
    }
    insta::assert_snapshot!("search_80x24", drawn(&labelled, LOOKS, 80, 24).0);
    insta::assert_snapshot!("search_40x10", drawn(&labelled, LOOKS, 40, 10).0);
}

#[test]
fn details_and_keys_read_well_and_scroll_to_their_end() {
    let view = view(&["server", "io-1"]);
    let looks = Looks { which: Which::Details, ..LOOKS };
    let (first, beyond) = drawn(&view, looks, 80, 24);
    insta::assert_snapshot!("details_80x24", first);
    assert!(beyond > 0, "{first}");
    let (last, _) = drawn(&view, Looks { scrolled: beyond, ..looks }, 80, 24);
    insta::assert_snapshot!("details_80x24_end", last);
    assert_eq!(drawn(&view, Looks { scrolled: usize::MAX, ..looks }, 80, 24).0, last, "it ends there");
    insta::assert_snapshot!("help_80x24", drawn(&view, Looks { which: Which::Help, ..LOOKS }, 80, 24).0);
}

#[test]
fn a_run_that_has_only_begun_says_that_nothing_is_known() {
    let mut view = View::default();
    view.begin(&cases().swap_remove(0).1.plan);
    insta::assert_snapshot!("begins_80x24", drawn(&view, LOOKS, 80, 24).0);
}

#[test]
fn no_size_panics_and_what_is_said_without_colour_is_the_same() {
    let full = view(&["server", "io-1"]);
    for view in [&full, &View::default()] {
        for which in [Which::Run, Which::Details, Which::Help] {
            for width in [1, 2, 10, 39, 40, 41, 79, 139, 140, 141, 300] {
                for height in [1, 2, 9, 10, 11, 23, 100] {
                    let looks = Looks { which, scrolled: 3, ..LOOKS };
                    let plain = drawn(view, looks, width, height);
                    assert_eq!(drawn(view, Looks { color: true, ..looks }, width, height), plain);
                }
            }
        }
    }
}

#[test]
fn without_colour_there_is_none() {
    let view = view(&["server"]);
    let colors = |color| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal
            .draw(|frame| {
                let _ = draw(frame, &view, Looks { color, ..LOOKS });
            })
            .unwrap();
        let cells = &terminal.backend().buffer().content;
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colors(false), 0);
    assert!(colors(true) > 0);
}

#[test]
fn nothing_that_steers_a_terminal_is_drawn_and_ascii_is_ascii() {
    let hostile =
        ["\u{1b}[2J\u{1b}]0;title\u{7}", "wide 漢字かな 👩‍👩‍👧", "rtl \u{202e}gpj", "\u{300}\u{200b}\u{feff}", "\0\r\n\t"];
    let mut view = view(&hostile);
    for text in hostile {
        view.event(&Event::new(1, "target-gone", text.to_owned()));
        view.remark(text);
        view.label(text);
    }
    for (width, height) in [(80, 24), (200, 60), (40, 10), (39, 9)] {
        for which in [Which::Run, Which::Details] {
            for unicode in [true, false] {
                let (text, _) = drawn(&view, Looks { which, unicode, ..LOOKS }, width, height);
                let steers = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}');
                assert!(!text.contains(steers), "{text:?}");
                assert!(unicode || text.is_ascii(), "{text}");
            }
        }
    }
    insta::assert_snapshot!("ascii_80x24", drawn(&view, Looks { unicode: false, ..LOOKS }, 80, 24).0);
}

#[test]
fn memory_is_bounded() {
    let mut view = View::default();
    let plan = &cases().swap_remove(0).1.plan;
    view.begin(plan);
    for second in 0..3000 {
        view.row(&Row { start_ns: second * SECOND_NS, end_ns: (second + 1) * SECOND_NS, ..Row::default() });
        view.remark("said");
    }
    let (_, beyond) = drawn(&view, Looks { which: Which::Details, ..LOOKS }, 80, 24);
    assert!(beyond < 300, "{beyond}");
}
