//! A plan in words: what would run, what was chosen and why, every limit that holds.
//!
//! What each protocol says of itself is in `crate::protocols`. Secrets are not in the plan that is handed over here ([`model::hide`]), for terminals are shared.

use crate::protocols;
use model::expectation::Expectation;
use model::limits;
use model::plain::plain;
use model::plan::{Arrivals, BurstAt, OnFull, Pace, Plan, Think};
use model::tls::{Identity, Verify};
use model::units::{show_count, show_duration_ns};

/// What is told of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Explained<'a> {
    /// The plan, without secrets.
    pub plan: &'a Plan,
    /// What becomes of the results, in words.
    pub results: &'a str,
    /// What was left open, what was chosen, and why.
    pub choices: &'a [(&'a str, &'a str, &'a str)],
    /// What looks like a mistake, a sentence each.
    pub warnings: &'a [String],
}

/// The plan in words, a page of lines.
pub fn words(explained: &Explained<'_>) -> String {
    let plan = explained.plan;
    let mut page = Page::default();
    page.heading("What would run (no load was put on)");
    for origin in &plan.origins {
        let addresses: Vec<String> = origin.addresses.iter().map(ToString::to_string).collect();
        page.row("where", &format!("{} at {}", origin.name, addresses.join(", ")));
    }
    what(plan, &mut page);
    tls(plan, &mut page);
    when(plan, &mut page);
    for (at, fault) in plan.faults.iter().enumerate() {
        page.row(if at == 0 { "faults" } else { "" }, &fault.to_string());
    }
    page.row("connections", &connections(plan));
    page.row("workers", &workers(plan));
    page.row("results", explained.results);
    page.row("expected", &expected(plan));
    for when in &plan.abort_when {
        page.row("ended early", &format!("when {when} (--abort-when)"));
    }
    page.row("seed", &plan.seed.to_string());
    page.heading("Chosen, because it was left open");
    for (what, value, why) in explained.choices {
        page.row(what, &format!("{value} ({why})"));
    }
    all_limits(plan, &mut page);
    if !explained.warnings.is_empty() {
        page.heading("Warnings");
        for warning in explained.warnings {
            page.line(warning);
        }
    }
    page.text
}

/// A page of lines that is being written.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, text: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        self.text += &format!("{gap}{text}\n");
    }

    /// A line with its name before it; an empty one says that it goes on.
    pub(crate) fn row(&mut self, name: &str, value: &str) {
        self.text += &format!("  {name:<18} {}\n", plain(value));
    }

    fn line(&mut self, text: &str) {
        self.text += &format!("  {}\n", plain(text));
    }
}

fn what(plan: &Plan, page: &mut Page) {
    if plan.tls.as_ref().is_some_and(|tls| tls.handshake_only) {
        return page.row("what", "TLS handshakes alone: connect, handshake, close; no request is sent");
    }
    protocols::of(&plan.workload).what(page);
}

fn tls(plan: &Plan, page: &mut Page) {
    let Some(tls) = &plan.tls else { return };
    let versions: Vec<&str> = tls.versions.iter().map(|version| version.name()).collect();
    page.row("TLS", &format!("versions {}", versions.join(", ")));
    page.row("", &format!("cipher suites {}", tls.ciphers.join(", ")));
    page.row("", &format!("key exchange {}", tls.groups.join(", ")));
    if !tls.alpn.is_empty() {
        page.row("", &format!("ALPN {}", tls.alpn.join(", ")));
    }
    let mut names = tls.server_names.clone();
    names.dedup();
    let names = names.join(", ");
    page.row(
        "trust",
        &match &tls.verify {
            Verify::System(trusted) | Verify::File(trusted) => {
                format!("a certificate for {names} by one of {} authorities: {}", trusted.certificates, trusted.from)
            }
            Verify::Off => format!("any certificate at all (--insecure); {names} is asked for"),
        },
    );
    if let Some(identity) = &tls.identity {
        let Identity { certificate_file, certificate_sha256, key_file, .. } = identity;
        page.row("our certificate", &format!("{certificate_file}, SHA-256 {certificate_sha256}; its key {key_file}"));
    }
    page.row("sessions", if tls.resume { "are resumed, by each worker for itself" } else { "are not resumed" });
}

fn when(plan: &Plan, page: &mut Page) {
    match &plan.pace {
        Pace::Closed { think } => {
            let think = match think {
                Think::None => String::new(),
                Think::FixedNs(ns) => format!(" and {}", duration(*ns)),
                Think::UniformNs(low, high) => format!(" and {} to {}", duration(*low), duration(*high)),
                Think::ExponentialNs(mean) => format!(" and on average {} (exponential)", duration(*mean)),
            };
            page.row("when", &format!("closed: a connection's next request after its reply{think}"));
        }
        Pace::Burst { rounds, at, pause_ns } => {
            let what = match at {
                BurstAt::Connect => "connects, each with its request behind it",
                BurstAt::Send => "requests on established connections",
            };
            let (size, pause) = (plan.connections, duration(*pause_ns));
            page.row("when", &format!("bursts: {rounds} times {size} {what}, at one moment; {pause} between"));
        }
        Pace::Held { every_ns, connects_per_s } => {
            let messages = match every_ns {
                Some(ns) => format!("each sends every {}, on its own phase", duration(*ns)),
                None => "nothing is sent".to_owned(),
            };
            page.row("when", &format!("held: {}/s are made; {messages}", show_count(*connects_per_s)));
        }
        Pace::Open { profile, arrivals } => {
            let arrivals = match arrivals {
                Arrivals::Constant => "evenly",
                Arrivals::Poisson => "as a Poisson process",
            };
            let on_full = match plan.on_full {
                OnFull::Wait => "waits for a free connection, measured as queue",
                OnFull::Drop => "is dropped without a free connection, and counted",
            };
            page.row("when", &format!("open: by the clock, {arrivals}; a due request {on_full}"));
            for segment in profile {
                let (from, to) = (show_count(segment.from_per_s), show_count(segment.to_per_s));
                let rate = if from == to { format!("{from}/s") } else { format!("{from}/s to {to}/s") };
                page.row("", &format!("{rate} for {}", duration(segment.for_ns)));
            }
        }
    }
    if plan.warmup_ns > 0 {
        page.row("warm-up", &format!("{}, not in the figures", duration(plan.warmup_ns)));
    }
    let ends = match (plan.stop.duration_ns, plan.stop.requests) {
        (Some(ns), Some(n)) => format!("after {} or {n} requests, whichever comes first", duration(ns)),
        (Some(ns), None) => format!("after {}", duration(ns)),
        (None, Some(n)) => format!("after {n} requests"),
        (None, None) => "never".to_owned(),
    };
    page.row("ends", &format!("{ends}, then up to {} for replies in flight", duration(plan.drain_ns)));
}

fn connections(plan: &Plan) -> String {
    let mut text = plan.connections.to_string();
    if plan.pipeline > 1 {
        text += &format!(", {} requests outstanding on each", plan.pipeline);
    }
    match plan.requests_per_connection {
        None => {}
        Some(1) => text += ", each for one request (no keep-alive)",
        Some(n) => text += &format!(", each replaced after {n} requests"),
    }
    text
}

fn workers(plan: &Plan) -> String {
    let mut text = format!("{} driven by {}", plan.threads, plan.driver.name());
    if !plan.pin.is_empty() {
        let cpus: Vec<String> = plan.pin.iter().map(u16::to_string).collect();
        text += &format!(", pinned to CPU {}", cpus.join(","));
    }
    if plan.isolation.is_some() {
        text += ", the machine held still for the run (--isolate)";
    }
    if let Some(batch) = plan.batch {
        text += &format!(", {} completions reaped together or after {}", batch.completions, duration(batch.delay_ns));
    }
    if plan.receive_stamps {
        text += ", replies end at the kernel's receive stamp";
    }
    text
}

fn expected(plan: &Plan) -> String {
    let shown =
        |expectations: &[Expectation]| expectations.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let of_phases = plan.phases.iter().flat_map(|phase| {
        phase.expectations.iter().map(move |expectation| format!("{expectation} in phase \"{}\"", phase.name))
    });
    let more: Vec<String> = of_phases.chain(plan.finding_expectations.iter().map(ToString::to_string)).collect();
    if !more.is_empty() {
        let of_run = plan.expectations.iter().map(ToString::to_string);
        let all: Vec<String> = of_run.chain(more).collect();
        return format!("{}; else the exit status is 3", all.join(", "));
    }
    match &plan.expectations[..] {
        [] if plan.workload.protocol().is_until_failure() => {
            "nothing: connections are added until something gives".to_owned()
        }
        [] => format!("{} (nothing was said); else the exit status is 3", shown(&[Expectation::HALF])),
        stated => format!("{}; else the exit status is 3", shown(stated)),
    }
}

fn all_limits(plan: &Plan, page: &mut Page) {
    page.heading("Limits of this run");
    let and_tls = if plan.tls.is_some() { ", TLS handshake included" } else { "" };
    page.row("connect timeout", &format!("{}{and_tls}", duration(plan.timeouts.connect_ns)));
    page.row("reply timeout", &format!("{}, also for a free connection", duration(plan.timeouts.reply_ns)));
    if !plan.on_error.is_fail_fast() {
        page.row("when it fails", &plan.on_error.to_string());
    }
    page.row(
        "reconnect after",
        &format!("{} to {}", duration(plan.reconnect.first_ns), duration(plan.reconnect.max_ns)),
    );
    let give_up =
        plan.give_up_ns.map_or("never".to_owned(), |ns| format!("{} in which nothing has connected", duration(ns)));
    page.row("given up after", &give_up);
    if plan.after_ns > 0 {
        page.row("read on after it", &format!("{}, the machine and the target without load", duration(plan.after_ns)));
    }
    if matches!(plan.pace, Pace::Open { .. }) {
        page.row(
            "queue",
            &format!("{} requests per worker, further ones are dropped and counted", plan.queue_capacity),
        );
    }
    protocols::of(&plan.workload).limits(page);
    page.row("interval", &duration(plan.tick_ns));
    page.heading("Limits of this version");
    page.row("connections", &limits::CONNECTIONS_MAX.to_string());
    page.row("workers", &limits::THREADS_MAX.to_string());
    page.row("pipeline", &limits::PIPELINE_MAX.to_string());
    page.row("queue", &format!("{} per worker", limits::QUEUE_MAX));
    for (name, value) in protocols::limits_of_version() {
        page.row(name, &value);
    }
    page.row("latency", &format!("{} digits, to {}", limits::LATENCY_DIGITS, duration(limits::LATENCY_NS_MAX)));
    page.row("interval", &format!("{} to {}", duration(limits::TICK_NS_MIN), duration(limits::TICK_NS_MAX)));
    page.row("timeline rows", &limits::TIMELINE_ROWS_MAX.to_string());
    page.row("snapshots", &format!("{} in memory, all in the recording", limits::SNAPSHOTS_MAX));
    page.row("events of a kind", &limits::EVENTS_OF_KIND_MAX.to_string());
}

fn duration(ns: u64) -> String {
    show_duration_ns(ns as f64)
}
