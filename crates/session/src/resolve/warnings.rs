//! What looks like a mistake though it can be done: one sentence each, with the figure and what to do instead.
//!
//! Looks at the finished plan and at what was written; changes nothing. A plan without any of these has no warning:
//! a warning that is always there is not read.

use super::defaults::{HTTP_PORT, HTTPS_PORT, QUEUE_SECONDS};
use super::hold;
use super::host::Machine;
use super::origin::Asked;
use super::pace;
use super::url::{Endpoint, Protocol};
use model::plan::{Address, DriverKind, OnFull, Pace, Plan, Workload};
use model::tls::TlsVersion;
use model::units::{show_count, show_duration_ns};
use model::{Scenario, limits};

/// Every warning of a plan.
pub(super) fn find(
    plan: &Plan,
    scenario: &Scenario,
    asked: &[Asked],
    unused: &[String],
    machine: &Machine,
) -> Vec<String> {
    let mut found = Vec::new();
    urls(asked, &mut found);
    found.extend(unused.iter().map(|text| format!("{text} matches no URL: check its host and port")));
    addresses(plan, scenario, &mut found);
    ports_and_files(plan, machine, &mut found);
    workers(plan, scenario, machine, &mut found);
    pacing(plan, scenario, &mut found);
    reuse(plan, scenario, &mut found);
    requests(scenario, &mut found);
    tls(plan, &mut found);
    found
}

fn urls(asked: &[Asked], found: &mut Vec<String>) {
    if let Some(url) = asked.iter().find(|url| !url.parsed.has_path) {
        found.push(format!("URL '{}' has no path: / is asked for", url.text));
    }
    let on_tls_port = |url: &&Asked| {
        url.parsed.protocol == Protocol::Http
            && !url.parsed.tls
            && matches!(url.parsed.endpoint, Endpoint::Tcp { port: HTTPS_PORT, .. })
    };
    let on_plain_port =
        |url: &&Asked| url.parsed.tls && matches!(url.parsed.endpoint, Endpoint::Tcp { port: HTTP_PORT, .. });
    if let Some(url) = asked.iter().find(on_plain_port) {
        found.push(format!(
            "URL '{}' speaks TLS to port {HTTP_PORT}, where servers expect plain HTTP: check scheme and port",
            url.text
        ));
    }
    if let Some(url) = asked.iter().find(on_tls_port) {
        found.push(format!(
            "URL '{}' speaks plain HTTP to port {HTTPS_PORT}, where servers expect TLS: check scheme and port",
            url.text
        ));
    }
}

fn addresses(plan: &Plan, scenario: &Scenario, found: &mut Vec<String>) {
    let is_v6 = |address: &Address| matches!(address, Address::Tcp(a) if a.is_ipv6());
    let is_v4 = |address: &Address| matches!(address, Address::Tcp(a) if a.is_ipv4());
    let both = |addresses: &[Address]| addresses.iter().any(is_v4) && addresses.iter().any(is_v6);
    if let Some(origin) = plan.origins.iter().find(|o| scenario.ip_version.is_none() && both(&o.addresses)) {
        let shown: Vec<String> = origin.addresses.iter().map(ToString::to_string).collect();
        found.push(format!(
            "{} has addresses of both families ({}) and all are used: a server that listens on one refuses the others, choose with -4 or -6",
            origin.name,
            shown.join(", ")
        ));
    }
}

fn ports_and_files(plan: &Plan, machine: &Machine, found: &mut Vec<String>) {
    if matches!(plan.workload, Workload::Hold(_)) {
        let bounds = hold::bounds(&plan.origins, &plan.sources, plan.driver, plan.threads, machine);
        for bound in bounds.iter().filter(|bound| bound.most < u64::from(plan.connections)) {
            found.push(format!(
                "-c {} is above what {} allow, {}: {}",
                plan.connections, bound.what, bound.most, bound.remedy
            ));
        }
        return;
    }
    let tables = if plan.driver == DriverKind::Rings { u64::MAX } else { u64::from(plan.threads) };
    if let Some(files) = machine.files_max.filter(|files| u64::from(plan.connections) >= files.saturating_mul(tables)) {
        found.push(format!(
            "-c {} needs a descriptor each, and each of {} workers may open {files}: use more workers (-t), or ask for fewer",
            plan.connections, plan.threads
        ));
    }
    let mut destinations: Vec<_> = plan.origins.iter().flat_map(|o| &o.addresses).collect();
    destinations.sort_by_key(ToString::to_string);
    destinations.dedup();
    let has_unix = destinations.iter().any(|a| matches!(a, Address::Unix(_)));
    if let (Some((first, last)), false) = (machine.local_ports, has_unix) {
        let ports = u64::from(last - first) + 1;
        let capacity = ports * destinations.len() as u64 * plan.sources.len().max(1) as u64;
        if u64::from(plan.connections) > capacity {
            found.push(format!(
                "-c {} is above the {ports} local ports ({first} to {last}) for each of {} addresses: widen net.ipv4.ip_local_port_range, or ask for at most {capacity}",
                plan.connections,
                destinations.len()
            ));
        }
    }
}

fn workers(plan: &Plan, scenario: &Scenario, machine: &Machine, found: &mut Vec<String>) {
    if plan.threads > machine.cores {
        found.push(format!(
            "-t {} is above the {} CPUs this process may use: workers wait for each other, and it shows as lag",
            plan.threads, machine.cores
        ));
    }
    if let Some(asked) = scenario.threads.filter(|asked| *asked > plan.threads) {
        found.push(format!("-t {asked} is above -c {}: {} workers are used", plan.connections, plan.threads));
    }
    if plan.pin.len() > usize::from(plan.threads) {
        found.push(format!(
            "--pin names {} CPUs for {} workers: the last ones stay unused",
            plan.pin.len(),
            plan.threads
        ));
    }
    let by_count = plan.stop.requests.filter(|n| *n < u64::from(plan.connections));
    if let Some(requests) = by_count {
        found.push(format!("-n {requests} is below -c {}: not every connection carries a request", plan.connections));
    }
}

fn pacing(plan: &Plan, scenario: &Scenario, found: &mut Vec<String>) {
    let Pace::Open { profile, .. } = &plan.pace else {
        if matches!(plan.pace, Pace::Held { .. } | Pace::Burst { .. }) {
            return;
        }
        for (flag, is_set) in
            [("--on-full", scenario.on_full.is_some()), ("--queue", scenario.queue_capacity.is_some())]
        {
            if is_set {
                found.push(format!(
                    "{flag} has no effect on a closed pace, which waits for its replies: add --rate, --ramp or --steps"
                ));
            }
        }
        return;
    };
    if plan.on_full == OnFull::Wait {
        let holds_ns = f64::from(plan.queue_capacity) * f64::from(plan.threads) / pace::peak_per_s(profile) * 1e9;
        // A queue of the default length holds QUEUE_SECONDS, rounded up; it is shorter only where a limit cut it.
        let enough_ns = (plan.timeouts.reply_ns as f64).min(QUEUE_SECONDS * 1e9) * 0.999;
        if holds_ns < enough_ns {
            found.push(format!(
                "the queue of {} requests per worker holds {} at the highest rate: a longer stall drops requests (counted); --queue may be up to {}, more workers have more queues",
                plan.queue_capacity,
                show_duration_ns(holds_ns),
                limits::QUEUE_MAX
            ));
        }
    } else if scenario.queue_capacity.is_some() {
        found.push("--queue has no effect with --on-full drop: nothing waits".to_owned());
    }
    if plan.pipeline > 1 {
        found.push(format!(
            "--pipeline {} with an open pace: requests wait behind each other on a connection, and that is counted as service time; more connections do not have that",
            plan.pipeline
        ));
    }
    let occupied_max = pace::peak_per_s(profile) * plan.timeouts.reply_ns as f64 / 1e9;
    if let Some(asked) = scenario.connections.filter(|n| f64::from(*n) > occupied_max.max(1.0)) {
        found.push(format!(
            "-c {asked} is more than {} requests/s can occupy: most connections stay idle",
            show_count(pace::peak_per_s(profile))
        ));
    }
    let length_ns = pace::profile_ns(&scenario.profile);
    if let Some(duration_ns) = plan.stop.duration_ns.filter(|ns| *ns < length_ns) {
        found.push(format!(
            "-d {} ends before the profile of {}: its end is never reached",
            show_duration_ns(duration_ns as f64),
            show_duration_ns(length_ns as f64)
        ));
    }
}

fn requests(scenario: &Scenario, found: &mut Vec<String>) {
    if let Some(method) = scenario.method.as_deref().filter(|m| m.chars().any(|c| c.is_ascii_lowercase())) {
        found.push(format!(
            "methods are case-sensitive: '{method}' is sent as written, most servers know {}",
            method.to_ascii_uppercase()
        ));
    }
    let names =
        |text: &str| text.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
    if scenario.headers.iter().any(|text| names(text)) {
        found.push(
            "Transfer-Encoding is sent as written, with the body as it is: the body must be encoded already".to_owned(),
        );
    }
}

fn tls(plan: &Plan, found: &mut Vec<String>) {
    let Some(tls) = &plan.tls else { return };
    let is_http = matches!(plan.workload, Workload::Http1(_));
    if let Some(other) =
        tls.alpn.iter().find(|protocol| is_http && !["http/1.1", "http/1.0"].contains(&protocol.as_str()))
    {
        found.push(format!("--alpn {other}: a server that takes it up expects it, and HTTP/1.1 is what is spoken"));
    }
    let has_client_wait = tls.handshake_only && !tls.resume && tls.identity.is_some();
    if has_client_wait && tls.versions.contains(&TlsVersion::V13) {
        found.push(
            "--handshake-only with --cert: in TLS 1.3 a server refuses a client certificate after the client's handshake is done, which is not waited for"
                .to_owned(),
        );
    }
}

fn reuse(plan: &Plan, scenario: &Scenario, found: &mut Vec<String>) {
    if let (true, Some(n @ 2..)) = (scenario.disable_keepalive, scenario.requests_per_connection) {
        found.push(format!(
            "--requests-per-connection {n} has no effect with --disable-keepalive: every connection carries 1"
        ));
    }
    let within = plan.requests_per_connection.filter(|n| *n < u32::from(plan.pipeline));
    if let Some(n) = within {
        found.push(format!(
            "--requests-per-connection {n} is below --pipeline {}: the pipeline never fills",
            plan.pipeline
        ));
    }
}
