//! The parts of the page, in the order of its questions: what gives, how much, how fast, when, of what; then how sure, and how
//! to do it again.

use crate::flame::why_none;
use crate::html::Report;
use crate::html::charts::Chart;
use crate::html::lines::{self, Row, list, shown, spans};
use crate::html::page::{Page, Part};
use crate::html::periods::Periods;
use crate::html::run::{loads, numbers, target};
use crate::html::table::{Cell, Table, texts};
use crate::json::Document;
use crate::text::findings::{PIECES_MAX, proof, unseen};
use crate::text::page::Span;
use crate::text::{
    Options, Paint, disruptions, failures, faults, generator, headline, held, imported, isolation, latency, segments,
    slow,
};
use crate::words::{capitalized, counted, duration, grouped, of_plan};
use crate::{damage, entries};
use maud::{Markup, html};
use model::finding::{Finding, Severity, Status};
use model::profile::Kind;
use model::recording::End;
use model::snapshot::SamplerState;
use std::io;

/// Events in the table.
const EVENTS_MAX: usize = 500;

/// What the run was of.
pub(in crate::html) fn target_of(report: &Report<'_>) -> String {
    match (&report.recording.capsule.import, &report.recording.capsule.watched) {
        (Some(import), _) => import.name(),
        (None, Some(whom)) => format!("watch {whom}"),
        (None, None) => headline::target(report.recording),
    }
}

/// All of the page but its data.
///
/// # Errors
/// Those of the parts of the text report.
pub fn body(report: &Report<'_>, document: &Document, charts: &[Chart]) -> io::Result<Markup> {
    let recording = report.recording;
    let has_load = recording.capsule.why_no_load().is_none();
    let of_load = |parts: io::Result<Vec<Markup>>| if has_load { parts } else { Ok(Vec::new()) };
    let page = Page {
        heading: target_of(report),
        plan: if has_load { of_plan(&recording.plan) } else { "no load was put on".to_owned() },
        started_at_unix_ns: recording.capsule.started_at_unix_ns,
        command: report.kept.map(|kept| kept.command),
        alert: damage::sentence(&recording.integrity),
        version: &recording.capsule.version,
        goes_on: report.goes_on,
        verdict: verdict(report)?,
        parts: vec![
            Part::new("broke", "Faults", "What was done, and what came of it", broke(report)?),
            Part::new("loads", "Loads", "The loads, put on together", loads::parts(report)?),
            Part::new("speed", "How fast", "How fast", of_load(Ok(numbers::speed(report)))?),
            Part::new("course", "Over time", "Over time", course(report, charts)?),
            Part::new("outcomes", "Outcomes", "What became of the requests", of_load(outcomes(report))?),
            Part::new("target", "Target", "The target", target::parts(report)?),
            Part::new("findings", "Causes", "Everything that was looked for", all_findings(report)?),
            Part::new("sure", "Validity", "Generator and validity", sure(report)?),
            Part::new("events", "Events", "Events", vec![events(report)]),
            Part::new("again", "Do it again", "Do it again", again(report, document)),
        ],
    };
    Ok(page.markup())
}

/// Faults, and what they or what befell the target by itself did to the load.
fn broke(report: &Report<'_>) -> io::Result<Vec<Markup>> {
    let done = lines::rows(|page| faults::write(page, report.recording))?;
    let told = lines::rows(|page| disruptions::write(page, report.recording, report.diagnosis))?;
    Ok(vec![list(&done), list(&told)])
}

fn verdict(report: &Report<'_>) -> io::Result<Markup> {
    let (recording, diagnosis) = (report.recording, report.diagnosis);
    let mood = lines::class(headline::mood(diagnosis)).unwrap_or("plain");
    let facts = match (&recording.capsule.import, &recording.capsule.watched) {
        (Some(import), _) => lines::rows(|page| imported::write(page, recording, import))?,
        (None, Some(_)) => Vec::new(),
        (None, None) => lines::rows(|page| headline::facts(page, recording, diagnosis))?,
    };
    // Remarks have no label; they stand first.
    let (remarks, facts): (Vec<Row>, Vec<Row>) = facts.into_iter().partition(|row| row.label.1.is_empty());
    let changed = lines::rows(|page| segments::write(page, diagnosis))?;
    let held = lines::rows(|page| held::write(page, recording, diagnosis))?;
    Ok(html! {
        section #verdict aria-labelledby="verdict-title" {
            div class={ "gives " (mood) } {
                h2 #verdict-title {
                    @match &diagnosis.gives {
                        Some(gives) => {
                            (capitalized(&shown(&gives.text)))
                            @if let Some(id) = &gives.finding { " " a.id href={ "#finding-" (id) } { (id) } }
                        },
                        None => "Verdict",
                    }
                }
                @for row in &remarks { @for line in &row.lines { p.alert { (spans(line)) } } }
                (slow_time(report)?)
                @if let Some(finding) = diagnosis.first_to_give() { (evidence(finding, &report.options())?) }
            }
            (cards(&facts))
            (list(&changed))
            (list(&held))
        }
    })
}

/// How much, how fast, how sure, and what was asked for: the figure large, what is to be known of it below.
pub(in crate::html) fn cards(rows: &[Row]) -> Markup {
    html! {
        @if !rows.is_empty() {
            div.cards {
                @for row in rows {
                    div.card {
                        h3 { (row.label.1) }
                        @for (i, line) in row.lines.iter().enumerate() {
                            p class=[(i == 0).then_some("first")] { (spans(&set_apart(line))) }
                        }
                    }
                }
            }
        }
    }
}

/// Parts of a line that only blanks set apart in a text.
fn set_apart(line: &[Span]) -> Vec<Span> {
    let one = |(i, (paint, text)): (usize, &Span)| {
        let trimmed = text.trim_start_matches(' ');
        let gap = text.len() - trimmed.len() > 1;
        // What follows the large figure stands on a line of its own.
        let is_first = line[..i].iter().all(|(paint, _)| *paint == Paint::Strong);
        match gap {
            true if is_first => (*paint, trimmed.to_owned()),
            true => (*paint, format!(" · {trimmed}")),
            false => (*paint, text.clone()),
        }
    };
    line.iter().enumerate().map(one).collect()
}

/// Where the time of slow requests went, as a bar, and where they concentrate.
fn slow_time(report: &Report<'_>) -> io::Result<Markup> {
    let losses = &report.diagnosis.losses;
    let time = losses.iter().find_map(|loss| loss.time.as_ref());
    let parts = time.map(|time| slow::parts(&time.waits)).unwrap_or_default();
    let places: Vec<&str> =
        losses.iter().filter_map(|loss| loss.concentrated.first()).map(|place| &*place.text).collect();
    let slowest = lines::rows(|page| slow::slowest(page, report.diagnosis))?;
    Ok(html! {
        @if !parts.is_empty() {
            figure.split {
                figcaption { "Where the slow requests’ time went" }
                (bar(&parts))
                ul.legend {
                    @for (i, (words, share)) in parts.iter().enumerate() {
                        li { span class={ "swatch part" (i) } aria-hidden="true" {} (words) " " b { (slow::whole_percent(*share)) } }
                    }
                }
                @if !slowest.is_empty() {
                    details { summary { "The slowest requests, each cut into its waits" } (list(&slowest)) }
                }
            }
        }
        @for place in places { p.where { (capitalized(&shown(place))) } }
    })
}

/// A bar in parts. What they are stands in words beside it.
pub(in crate::html) fn bar<T>(parts: &[(T, f64)]) -> Markup {
    let total: f64 = parts.iter().map(|(_, share)| share).sum();
    let widths: Vec<f64> = parts.iter().map(|(_, share)| 1000.0 * share / total.max(f64::EPSILON)).collect();
    let from = |i: usize| widths[..i].iter().sum::<f64>();
    html! {
        svg.bar viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" {
            @for (i, width) in widths.iter().enumerate() {
                @if *width > 0.0 {
                    rect class={ "part" (i) } x=(format!("{:.1}", from(i))) y="0" width=(format!("{:.1}", (width - 3.0).max(1.0))) height="20" {}
                }
            }
        }
    }
}

/// What proves a finding, what to do, how to check it by hand.
pub(in crate::html) fn evidence(finding: &Finding, options: &Options<'_>) -> io::Result<Markup> {
    let rows = lines::rows(|page| proof(page, finding, options))?;
    Ok(html! {
        dl.proof {
            @for row in &rows {
                div {
                    dt { (row.label.1.trim()) }
                    dd {
                        @if row.label.1.trim() == "check" {
                            @for line in &row.lines { (command(line.iter().map(|(_, text)| text.as_str()).collect::<String>().trim())) }
                        } @else {
                            @for line in row.lines.iter().take(PIECES_MAX) { p { (spans(line)) } }
                            @if row.lines.len() > PIECES_MAX {
                                details {
                                    summary { (counted((row.lines.len() - PIECES_MAX) as u64, "more piece")) " of evidence" }
                                    @for line in row.lines.iter().skip(PIECES_MAX) { p { (spans(line)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// A command that is there to be copied.
pub(in crate::html) fn command(text: &str) -> Markup {
    html! { div.command { code { (shown(text)) } } }
}

/// The same of the words of a command line; nothing where they are not known.
pub(in crate::html) fn command_line(words: &[String]) -> Markup {
    let quoted = |word: &String| shlex::try_quote(word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned());
    let words: Vec<String> = words.iter().map(quoted).collect();
    html! { @if !words.is_empty() { (command(&words.join(" "))) } }
}

fn course(report: &Report<'_>, charts: &[Chart]) -> io::Result<Vec<Markup>> {
    let pauses = lines::rows(|page| latency::gaps::write(page, report.recording))?;
    if charts.is_empty() && report.heat.is_empty() {
        return Ok(Vec::new());
    }
    let figure = |chart: &Chart| {
        html! {
            figure.chart id={ "chart-" (chart.id) } data-chart=(chart.id) {
                figcaption { h3 { (shown(&chart.title)) } p { (shown(&chart.about)) } }
                div.plot {}
                details.figures { summary { "Figures of this chart" } (chart.table().markup()) }
            }
        }
    };
    let heat = (!report.heat.is_empty()).then(|| {
        html! {
            figure.chart id="chart-heat" data-chart="heat" {
                figcaption {
                    h3 { "Response times" }
                    p { "how many requests took how long, when: the darker, the more; single requests as dots (○ slowest, × failed); logarithmic" }
                }
                div.plot {}
                details.figures { summary { "Figures of this chart" } (numbers::segments(report)) (numbers::distribution(report)) }
            }
        }
    });
    Ok(vec![html! {
        p.hint {
            "One axis of time and one cursor for all of these. Choose a stretch with the mouse, or with Shift and the arrow \
             keys; another with Ctrl held as well, to set beside it. Shaded: "
            span.key { span.swatch.window {} "probes’ windows" }
            span.key { span.swatch.warmup {} "warm-up and drain" }
            span.key { span.swatch.pause {} "pauses of all replies" }
            @if report.diagnosis.recoveries.iter().any(|recovery| recovery.until_s > recovery.at_s) {
                span.key { span.swatch.disruption {} "disruptions, until all was as before" }
            }
        }
        (list(&pauses))
        @if let Some(heat) = &heat { (heat) }
        @for chart in charts { (figure(chart)) }
        div #selection {}
        (stacks(report))
        (of_stretches(report, charts))
    }])
}

/// Where the script puts the flame graphs of chosen stretches, with the reason for each kind that the recording has none of.
fn stacks(report: &Report<'_>) -> Markup {
    let reason = |kind: Kind| {
        let has_some = report.flames.iter().any(|flame| flame.kind == kind);
        (!has_some).then(|| shown(&why_none(report.recording, kind, None)))
    };
    html! { div #stacks data-none-on-cpu=[reason(Kind::OnCpu)] data-none-off-cpu=[reason(Kind::OffCpu)] {} }
}

/// What of a chosen stretch is known, and what is not.
fn of_stretches(report: &Report<'_>, charts: &[Chart]) -> Markup {
    let has_states = charts.iter().any(|chart| chart.id == "states");
    let periods: Vec<&Periods> = report.flames.iter().filter_map(|flame| flame.periods.as_ref()).collect();
    let since_ns = periods.iter().find_map(|periods| periods.since_ns());
    html! {
        p.hint {
            "Of a chosen stretch there are the means of all lines"
            @if has_states { ", those of threads and waits too" }
            @if periods.is_empty() { "." } @else {
                ", and the flame graphs of where the target ran and waited in it; of two, what is different between them."
            }
            @if let Some(since_ns) = since_ns {
                " Stacks are known by stretch from " (duration(since_ns)) " on: of older ticks the file has those of all together."
            }
            @match (has_states, periods.is_empty()) {
                (true, true) => " There is no flame graph of it: the recording holds no stacks.",
                (false, true) => " What the target’s threads waited for in it the recording does not hold: that takes --observe windows \
                    or full.",
                (false, false) => " How its threads spent it the recording does not hold: that takes --observe windows or full.",
                (true, false) => "",
            }
        }
    }
}

fn outcomes(report: &Report<'_>) -> io::Result<Vec<Markup>> {
    let recording = report.recording;
    let failed = lines::rows(|page| failures::errors(page, recording, report.describe))?;
    let status = lines::rows(|page| failures::status(page, recording))?;
    let losses: Vec<&str> = report.diagnosis.losses.iter().map(|loss| &*loss.text).collect();
    Ok(vec![html! {
        @if !losses.is_empty() {
            h3 { "What users lost" }
            ul { @for loss in losses { li { (capitalized(&shown(loss))) } } }
        }
        (groups(&failed))
        (numbers::by_entry(&entries::of(recording)))
        (list(&status))
    }])
}

/// Rows under headings that stand alone on a line.
pub(in crate::html) fn groups(rows: &[Row]) -> Markup {
    html! {
        @for row in rows {
            @if row.label.1.is_empty() {
                @for line in &row.lines {
                    @if line.iter().all(|(paint, _)| *paint == Paint::Heading) { h3 { (spans(line)) } } @else { p { (spans(line)) } }
                }
            } @else {
                dl.counts { div { dt class=[lines::class(row.label.0)] { (row.label.1) } dd { @for line in &row.lines { p { (spans(line)) } } } } }
            }
        }
    }
}

fn all_findings(report: &Report<'_>) -> io::Result<Vec<Markup>> {
    let diagnosis = report.diagnosis;
    let supported: Vec<&Finding> = diagnosis.findings.iter().filter(|f| f.status == Status::Supported).collect();
    let others: Vec<&Finding> = diagnosis.findings.iter().filter(|f| f.status != Status::Supported).collect();
    if diagnosis.findings.is_empty() {
        return Ok(Vec::new());
    }
    let card = |finding: &&Finding| -> io::Result<Markup> {
        let paint = match finding.severity {
            Severity::Info => "plain",
            Severity::Warning => "warn",
            Severity::Error => "bad",
        };
        let explains = finding.explains.map(|part| {
            let [share, low, high] = [part.share, part.low, part.high].map(|share| 100.0 * share);
            format!("explains {share:.0} % ({low:.0} to {high:.0} %) of the loss: {}", part.of.name())
        });
        Ok(html! {
            article class={ "finding " (paint) } id={ "finding-" (finding.id) } {
                h3 { (capitalized(&shown(&finding.title))) " " span.id { (finding.id) } }
                @if let Some(explains) = explains { p.dim { (explains) } }
                (evidence(finding, &report.options())?)
            }
        })
    };
    let cards = supported.iter().map(card).collect::<io::Result<Vec<Markup>>>()?;
    let row = |finding: &&Finding| {
        let why: Vec<&str> = finding.because.iter().map(|evidence| &*evidence.text).collect();
        vec![
            Cell::text(&*finding.id),
            Cell::text(finding.status.name()),
            Cell::text(&*finding.title),
            Cell::text(why.join("; ")),
        ]
    };
    let judged = Table {
        caption: format!("{} that were looked for and not found, each with why", counted(others.len() as u64, "cause")),
        columns: texts(&["cause", "status", "what it is", "because"]),
        rows: others.iter().map(row).collect(),
    };
    let unseen = unseen(diagnosis);
    Ok(vec![html! {
        @if supported.is_empty() { p { "No cause was found that the evidence supports." } }
        @for card in &cards { (card) }
        @if !unseen.is_empty() {
            h3 { "Could not be judged" }
            p.dim { "What could not be read is never taken for fine." }
            ul { @for (why, ids) in &unseen { li { b { (ids.join(", ")) } ": " (shown(why)) } } }
        }
        @if !others.is_empty() { details { summary { (judged.caption) } (judged.markup()) } }
    }])
}

fn sure(report: &Report<'_>) -> io::Result<Vec<Markup>> {
    let recording = report.recording;
    let generator = match recording.capsule.why_no_load() {
        None => lines::rows(|page| generator::cost(page, recording))?,
        Some(_) => Vec::new(),
    };
    let isolated = lines::rows(|page| isolation::write(page, recording))?;
    let verdicts = Table {
        caption: "Each figure, and what of it can be the generator’s".to_owned(),
        columns: texts(&["figure", "verdict", "why"]),
        rows: report
            .diagnosis
            .validity
            .figures
            .iter()
            .map(|verdict| {
                vec![Cell::text(verdict.figure.name()), Cell::text(verdict.state.name()), Cell::text(&*verdict.text)]
            })
            .collect(),
    };
    let samplers = Table {
        caption: format!("{}: how each fared", counted(recording.samplers.len() as u64, "sampler")),
        columns: texts(&["sampler", "state", "reason"]),
        rows: recording
            .samplers
            .iter()
            .map(|sampler| {
                let state = match sampler.status {
                    SamplerState::Active => "active",
                    SamplerState::Disabled => "disabled",
                    SamplerState::Failed => "failed",
                };
                vec![Cell::text(&*sampler.name), Cell::text(state), Cell::text(&*sampler.reason)]
            })
            .collect(),
    };
    Ok(vec![html! {
        (list(&generator))
        (list(&isolated))
        (verdicts.markup())
        @if !samplers.rows.is_empty() { details { summary { (samplers.caption) } (samplers.markup()) } }
    }])
}

fn events(report: &Report<'_>) -> Markup {
    let events = &report.recording.events;
    let row = |event: &model::Event| {
        let at_s = event.at_ns as f64 / 1e9;
        vec![
            Cell::figure(Some(at_s), |at_s| format!("{at_s:.2} s")),
            Cell::text(&*event.kind),
            Cell::text(&*event.text),
        ]
    };
    let table = Table {
        caption: counted(events.len() as u64, "event"),
        columns: texts(&["time", "kind", "what happened"]),
        rows: events.iter().take(EVENTS_MAX).map(row).collect(),
    };
    let lost: Vec<String> = events.lost().iter().map(|(kind, n)| format!("{} more of {kind}", grouped(*n))).collect();
    html! {
        (table.markup())
        @if events.len() > EVENTS_MAX { p.dim { "The others are in the JSON." } }
        @if !lost.is_empty() { p.dim { "Not kept: " (lost.join(", ")) } }
    }
}

fn again(report: &Report<'_>, document: &Document) -> Vec<Markup> {
    let capsule = &report.recording.capsule;
    let end = match report.recording.end {
        _ if report.goes_on => "the run goes on",
        End::Complete => "as planned",
        End::Interrupted => "ended early",
        End::Partial => "stops in the middle",
    };
    let facts = [
        ("plimsoll", capsule.version.clone()),
        ("kernel", format!("Linux {}", capsule.kernel)),
        ("processor", capsule.cpu.clone()),
        ("memory", model::units::show_bytes(capsule.memory_bytes as f64)),
        ("driver", capsule.driver.clone()),
        ("seed", report.recording.plan.seed.to_string()),
        ("end", end.to_owned()),
    ];
    let settings = Table {
        caption: "Settings of the machine and limits of the generator".to_owned(),
        columns: texts(&["setting", "value"]),
        rows: document
            .host
            .sysctls
            .iter()
            .chain(&document.host.limits)
            .map(|(name, value)| vec![Cell::text(&**name), Cell::text(&**value)])
            .collect(),
    };
    vec![html! {
        (command_line(&capsule.command))
        dl.facts { @for (name, value) in facts { @if !value.is_empty() { div { dt { (name) } dd { p { (shown(&value)) } } } } } }
        @if !settings.rows.is_empty() { details { summary { (settings.caption) } (settings.markup()) } }
        @if !report.goes_on { p #download { "All figures are in this file, as JSON (" code { (document.schema) } ")." } }
    }]
}
