//! `plimsoll load --explain`: the plan in words, what was chosen and why, every limit that holds. Puts no load on.
//!
//! With `--json` the same as a document: the plan as it would be recorded, warnings and choices beside it.
//! Secrets are not in the plan that is handed over here ([`model::hide`]), for terminals are shared.

use crate::args::load::OutputArgs;
use crate::exit::{Exit, Failure};
use model::limits;
use model::plain::plain;
use model::plan::{Arrivals, BurstAt, Content, Echo, Http1, OnFull, Pace, Plan, Sizes, Think, Workload};
use model::resp::{KeyDistribution, Resp, RespExpect};
use model::tls::{Identity, Verify};
use model::units::{show_bytes, show_count, show_duration_ns};
use session::resolve::Resolved;
use std::io::Write;

/// Requests of a mix that are shown each; the others are counted.
const REQUESTS_SHOWN_MAX: usize = 8;

/// Prints it.
pub fn run(resolved: &Resolved, output: &OutputArgs) -> Result<Exit, Failure> {
    let text = if output.json { json(resolved)? } else { words(resolved, output) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Fine)
}

fn json(resolved: &Resolved) -> Result<String, Failure> {
    let choices: Vec<_> = resolved
        .choices
        .iter()
        .map(|choice| serde_json::json!({"what": choice.what, "value": choice.value, "why": choice.why}))
        .collect();
    let document = serde_json::json!({"plan": resolved.plan, "choices": choices, "warnings": resolved.warnings});
    serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(|error| {
        Failure::could_not_run(format!("the plan cannot be written as JSON ({error}); please report this"))
    })
}

fn words(resolved: &Resolved, output: &OutputArgs) -> String {
    let plan = &resolved.plan;
    let mut page = Page::default();
    page.heading("What would run (no load was put on)");
    for origin in &plan.origins {
        let addresses: Vec<String> = origin.addresses.iter().map(ToString::to_string).collect();
        page.row("where", &format!("{} at {}", origin.name, addresses.join(", ")));
    }
    what(plan, &mut page);
    tls(plan, &mut page);
    when(plan, &mut page);
    page.row("connections", &connections(plan));
    page.row("workers", &workers(plan));
    page.row("results", &results(output));
    page.row("seed", &plan.seed.to_string());
    page.heading("Chosen, because it was left open");
    for choice in &resolved.choices {
        page.row(choice.what, &format!("{} ({})", choice.value, choice.why));
    }
    all_limits(plan, &mut page);
    if !resolved.warnings.is_empty() {
        page.heading("Warnings");
        for warning in &resolved.warnings {
            page.line(warning);
        }
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, text: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        self.text += &format!("{gap}{text}\n");
    }

    fn row(&mut self, name: &str, value: &str) {
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
    match &plan.workload {
        Workload::Http1(http) => requests(http, page),
        Workload::Echo(echo) => {
            page.row("what", &format!("echo of {}", payload(echo)));
        }
        Workload::Resp(resp) => commands(resp, page),
        Workload::Hold(hold) => {
            let back = if hold.is_echoed { "expected back" } else { "sent only" };
            page.row("what", &format!("held connections; messages of {}, {back}", payload(&hold.message)));
            let watched = match hold.sweep_ns {
                Some(ns) => format!("looked at every {}: a close is seen so late at the most", duration(ns)),
                None => "watched all the time".to_owned(),
            };
            page.row("", &watched);
        }
    }
}

fn commands(resp: &Resp, page: &mut Page) {
    let total: f64 = resp.commands.iter().map(|command| command.weight).sum();
    for command in &resp.commands {
        let share = match resp.commands.len() {
            1 => String::new(),
            _ => format!(", {:.1} % of the requests", command.weight / total * 100.0),
        };
        page.row("what", &format!("{}{share}", command.words.join(" ")));
        let due = match command.expect {
            RespExpect::Ok => "+OK",
            RespExpect::Pong => "+PONG",
            RespExpect::Integer => "an integer",
            RespExpect::Value if resp.validate => "its key's value, or nil",
            RespExpect::Value => "a string or nil",
            RespExpect::Array => "an array",
            RespExpect::Any => "anything but an error",
        };
        page.row("", &format!("a good reply is {due}"));
    }
    let drawn = match resp.key_distribution {
        KeyDistribution::Uniform => "each as often as any other".to_owned(),
        KeyDistribution::Zipf(exponent) => format!("Zipf with exponent {exponent}"),
        KeyDistribution::Sequential => "one after another".to_owned(),
    };
    let last = format!("{}{:012}", resp.key_prefix, resp.keys - 1);
    page.row("keys", &format!("{}{:012} to {last}, {drawn}", resp.key_prefix, 0));
    page.row("values", &format!("{}, seed {}", made_of(&resp.values, resp.content), resp.value_seed));
    for login in resp.logins.iter().filter(|login| login.auth || login.database.is_some()) {
        let auth = login.auth.then(|| match &login.user {
            Some(user) => format!("AUTH as {user}, password not shown"),
            None => "AUTH, password not shown".to_owned(),
        });
        let select = login.database.map(|database| format!("SELECT {database}"));
        let said: Vec<String> = auth.into_iter().chain(select).collect();
        page.row("said first", &said.join("; "));
    }
}

fn payload(echo: &Echo) -> String {
    made_of(&echo.sizes, echo.content)
}

fn made_of(sizes: &Sizes, content: Content) -> String {
    let largest = sizes.largest();
    let sizes = match sizes {
        Sizes::Fixed(size) => format!("{size} B"),
        Sizes::Range(low, high) => format!("{low} to {high} B, uniform"),
        Sizes::List(sizes) => format!("{} sizes in turn, the largest {largest} B", sizes.len()),
    };
    let content = match content {
        Content::Text => "text",
        Content::Binary => "binary",
        Content::Incompressible => "incompressible",
    };
    format!("{content}, {sizes}")
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

fn requests(http: &Http1, page: &mut Page) {
    let total: f64 = http.requests.iter().map(|request| request.weight).sum();
    for request in http.requests.iter().take(REQUESTS_SHOWN_MAX) {
        let share = match http.requests.len() {
            1 => String::new(),
            _ => format!(", {:.1} % of the requests", request.weight / total * 100.0),
        };
        page.row("what", &format!("{} {} HTTP/1.1{share}", request.method, request.target));
    }
    if http.requests.len() > REQUESTS_SHOWN_MAX {
        page.row("", &format!("and {} more", http.requests.len() - REQUESTS_SHOWN_MAX));
    }
    let Some(first) = http.requests.first() else { return };
    for (name, value) in &first.headers {
        page.row("", &format!("{name}: {value}"));
    }
    if !first.body.sha256.is_empty() {
        page.row("body", &format!("{}, SHA-256 {}", show_bytes(first.body.length as f64), first.body.sha256));
    }
    page.row("a good reply has", &good_reply(http));
    page.row("redirects", "are not followed: a status below 400 is a good reply");
}

fn good_reply(http: &Http1) -> String {
    let Some(expect) = http.requests.first().map(|request| &request.expect) else { return String::new() };
    let mut parts = Vec::new();
    parts.push(match &expect.status[..] {
        [] => "a status below 400".to_owned(),
        ranges => {
            let shown =
                ranges.iter().map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") });
            format!("status {}", shown.collect::<Vec<_>>().join(" or "))
        }
    });
    parts.extend(expect.body_regex.as_ref().map(|regex| format!("a body that matches '{regex}'")));
    parts.extend(expect.body_sha256.as_ref().map(|hex| format!("a body with SHA-256 {hex}")));
    parts.join(", ")
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
    if let Some(batch) = plan.batch {
        text += &format!(", {} completions reaped together or after {}", batch.completions, duration(batch.delay_ns));
    }
    if plan.receive_stamps {
        text += ", replies end at the kernel's receive stamp";
    }
    text
}

fn results(output: &OutputArgs) -> String {
    let record = match (&output.record, output.no_record) {
        (Some(path), _) => format!("recording in {}", path.display()),
        (None, true) => "no recording".to_owned(),
        (None, false) => "recording in the default folder".to_owned(),
    };
    let csv = output.csv.as_ref().map(|path| format!(", intervals as CSV in {}", path.display())).unwrap_or_default();
    let colour = if output.no_color { ", no colours" } else { "" };
    let quiet = if output.quiet { ", no progress" } else { "" };
    format!("{record}{csv}{colour}{quiet}")
}

fn all_limits(plan: &Plan, page: &mut Page) {
    page.heading("Limits of this run");
    let and_tls = if plan.tls.is_some() { ", TLS handshake included" } else { "" };
    page.row("connect timeout", &format!("{}{and_tls}", duration(plan.timeouts.connect_ns)));
    page.row("reply timeout", &format!("{}, also for a free connection", duration(plan.timeouts.reply_ns)));
    page.row(
        "reconnect after",
        &format!("{} to {}", duration(plan.reconnect.first_ns), duration(plan.reconnect.max_ns)),
    );
    let give_up =
        plan.give_up_ns.map_or("never".to_owned(), |ns| format!("{} in which nothing has connected", duration(ns)));
    page.row("given up after", &give_up);
    if matches!(plan.pace, Pace::Open { .. }) {
        page.row(
            "queue",
            &format!("{} requests per worker, further ones are dropped and counted", plan.queue_capacity),
        );
    }
    if let Workload::Http1(http) = &plan.workload {
        page.row("reply head", &show_bytes(f64::from(http.head_bytes_max)));
        page.row("body check", &format!("the first {}", show_bytes(f64::from(limits::BODY_CHECK_BYTES_MAX))));
    }
    page.row("interval", &duration(plan.tick_ns));
    page.heading("Limits of this version");
    page.row("connections", &limits::CONNECTIONS_MAX.to_string());
    page.row("workers", &limits::THREADS_MAX.to_string());
    page.row("pipeline", &limits::PIPELINE_MAX.to_string());
    page.row("queue", &format!("{} per worker", limits::QUEUE_MAX));
    page.row("echo payload", &show_bytes(f64::from(limits::ECHO_BYTES_MAX)));
    page.row("RESP reply", &resp_limits());
    page.row("latency", &format!("{} digits, to {}", limits::LATENCY_DIGITS, duration(limits::LATENCY_NS_MAX)));
    page.row("interval", &format!("{} to {}", duration(limits::TICK_NS_MIN), duration(limits::TICK_NS_MAX)));
    page.row("timeline rows", &limits::TIMELINE_ROWS_MAX.to_string());
    page.row("snapshots", &format!("{} in memory, all in the recording", limits::SNAPSHOTS_MAX));
    page.row("events", &limits::EVENTS_MAX.to_string());
}

fn resp_limits() -> String {
    let (string, line) =
        (show_bytes(f64::from(limits::RESP_BULK_BYTES_MAX)), show_bytes(f64::from(limits::RESP_LINE_BYTES_MAX)));
    let (deep, elements) = (limits::RESP_DEPTH_MAX, limits::RESP_ELEMENTS_MAX);
    format!("strings of {string}, lines of {line}, {elements} elements, {deep} deep")
}

fn duration(ns: u64) -> String {
    show_duration_ns(ns as f64)
}
