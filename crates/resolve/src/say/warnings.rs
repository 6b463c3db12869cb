//! What looks like a mistake though it can be done: one sentence each, with the figure and what to do instead.
//!
//! Looks at the finished plan and at what was written; changes nothing. A plan without any of these has no warning:
//! a warning that is always there is not read.

use crate::defaults::{HTTP_PORT, QUEUE_SECONDS};
use crate::host::Machine;
use crate::origin::Asked;
use crate::pace;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::url::Endpoint;
use crate::workload::{Protocol, Spread};
use model::plan::{Address, DriverKind, OnFull, Pace, Plan};
use model::tls::TlsVersion;
use model::units::{show_count, show_duration_ns};
use model::{Scenario, limits};

/// Every warning of a plan.
pub(crate) fn find(
    plan: &Plan,
    scenario: &Scenario,
    asked: &[Asked],
    unused: &[Words],
    machine: &Machine,
) -> Vec<Words> {
    let mut found = Vec::new();
    let Some(protocol) = asked.first().map(|url| url.parsed.protocol) else { return found };
    urls(asked, &mut found);
    found.extend(unused.iter().map(|entry| words![entry, " matches no URL: check its host and port"]));
    addresses(plan, scenario, &mut found);
    ports_and_files(plan, protocol, machine, &mut found);
    workers(plan, scenario, machine, &mut found);
    pacing(plan, scenario, &mut found);
    reuse(plan, scenario, protocol, &mut found);
    protocol.warnings(plan, scenario, asked, &mut found);
    tls(plan, &mut found);
    found
}

fn urls(asked: &[Asked], found: &mut Vec<Words>) {
    if let Some(url) = asked.iter().find(|url| !url.parsed.place.has_path) {
        found.push(format!("URL '{}' has no path: / is asked for", url.text).into());
    }
    let on_plain_port = |url: &&Asked| {
        url.parsed.has_tls() && matches!(url.parsed.place.endpoint, Endpoint::Tcp { port: HTTP_PORT, .. })
    };
    if let Some(url) = asked.iter().find(on_plain_port) {
        found.push(
            format!(
                "URL '{}' speaks TLS to port {HTTP_PORT}, where servers expect plain HTTP: check scheme and port",
                url.text
            )
            .into(),
        );
    }
}

fn addresses(plan: &Plan, scenario: &Scenario, found: &mut Vec<Words>) {
    let is_v6 = |address: &Address| matches!(address, Address::Tcp(a) if a.is_ipv6());
    let is_v4 = |address: &Address| matches!(address, Address::Tcp(a) if a.is_ipv4());
    let both = |addresses: &[Address]| addresses.iter().any(is_v4) && addresses.iter().any(is_v6);
    if let Some(origin) = plan.origins.iter().find(|o| scenario.ip_version.is_none() && both(&o.addresses)) {
        let shown: Vec<String> = origin.addresses.iter().map(ToString::to_string).collect();
        found.push(words![
            format!("{} has addresses of both families ({}) and all are used: ", origin.name, shown.join(", ")),
            "a server that listens on one refuses the others, choose with ",
            (Field::IpVersion, 4),
            " or ",
            (Field::IpVersion, 6)
        ]);
    }
}

fn ports_and_files(plan: &Plan, protocol: &dyn Protocol, machine: &Machine, found: &mut Vec<Words>) {
    let spread = Spread { origins: &plan.origins, sources: &plan.sources, driver: plan.driver, threads: plan.threads };
    if let Some(bounds) = protocol.bounds(&spread, machine) {
        for bound in bounds.iter().filter(|bound| bound.most < u64::from(plan.connections)) {
            found.push(words![
                (Field::Connections, plan.connections),
                format!(" is above what {} allow, {}: ", bound.what, bound.most),
                &bound.remedy
            ]);
        }
        return;
    }
    let tables = if plan.driver == DriverKind::Rings { u64::MAX } else { u64::from(plan.threads) };
    if let Some(files) = machine.files_max.filter(|files| u64::from(plan.connections) >= files.saturating_mul(tables)) {
        found.push(words![
            (Field::Connections, plan.connections),
            format!(
                " needs a descriptor each, and each of {} workers may open {files}: use more workers (",
                plan.threads
            ),
            Field::Threads,
            "), or ask for fewer"
        ]);
    }
    let mut destinations: Vec<_> = plan.origins.iter().flat_map(|o| &o.addresses).collect();
    destinations.sort_by_key(ToString::to_string);
    destinations.dedup();
    let has_unix = destinations.iter().any(|a| matches!(a, Address::Unix(_)));
    if let (Some((first, last)), false) = (machine.local_ports, has_unix) {
        let ports = u64::from(last - first) + 1;
        let capacity = ports * destinations.len() as u64 * plan.sources.len().max(1) as u64;
        if u64::from(plan.connections) > capacity {
            found.push(words![
                (Field::Connections, plan.connections),
                format!(
                    " is above the {ports} local ports ({first} to {last}) for each of {} addresses: widen net.ipv4.ip_local_port_range, or ask for at most {capacity}",
                    destinations.len()
                )
            ]);
        }
    }
}

fn workers(plan: &Plan, scenario: &Scenario, machine: &Machine, found: &mut Vec<Words>) {
    if plan.threads > machine.cores {
        found.push(words![
            (Field::Threads, plan.threads),
            format!(
                " is above the {} CPUs this process may use: workers wait for each other, and it shows as lag",
                machine.cores
            )
        ]);
    }
    if let Some(asked) = scenario.threads.filter(|asked| *asked > plan.threads) {
        found.push(words![
            (Field::Threads, asked),
            " is above ",
            (Field::Connections, plan.connections),
            format!(": {} workers are used", plan.threads)
        ]);
    }
    if plan.pin.len() > usize::from(plan.threads) {
        found.push(words![
            Field::Pin,
            format!(" names {} CPUs for {} workers: the last ones stay unused", plan.pin.len(), plan.threads)
        ]);
    }
    let by_count = plan.stop.requests.filter(|n| *n < u64::from(plan.connections));
    if let Some(requests) = by_count {
        found.push(words![
            (Field::Requests, requests),
            " is below ",
            (Field::Connections, plan.connections),
            ": not every connection carries a request"
        ]);
    }
}

fn pacing(plan: &Plan, scenario: &Scenario, found: &mut Vec<Words>) {
    let Pace::Open { profile, .. } = &plan.pace else {
        if matches!(plan.pace, Pace::Held { .. } | Pace::Burst { .. }) {
            return;
        }
        for (field, is_set) in
            [(Field::OnFull, scenario.on_full.is_some()), (Field::Queue, scenario.queue_capacity.is_some())]
        {
            if is_set {
                found.push(words![
                    field,
                    " has no effect on a closed pace, which waits for its replies: add ",
                    Field::Rate,
                    ", ",
                    Field::Ramp,
                    " or ",
                    Field::Steps
                ]);
            }
        }
        return;
    };
    if plan.on_full == OnFull::Wait {
        let holds_ns = f64::from(plan.queue_capacity) * f64::from(plan.threads) / pace::peak_per_s(profile) * 1e9;
        // A queue of the default length holds QUEUE_SECONDS, rounded up; it is shorter only where a limit cut it.
        let enough_ns = (plan.timeouts.reply_ns as f64).min(QUEUE_SECONDS * 1e9) * 0.999;
        if holds_ns < enough_ns {
            found.push(words![
                format!(
                    "the queue of {} requests per worker holds {} at the highest rate: a longer stall drops requests (counted); ",
                    plan.queue_capacity,
                    show_duration_ns(holds_ns)
                ),
                Field::Queue,
                format!(" may be up to {}, more workers have more queues", limits::QUEUE_MAX)
            ]);
        }
    } else if scenario.queue_capacity.is_some() {
        found.push(words![Field::Queue, " has no effect with ", (Field::OnFull, "drop"), ": nothing waits"]);
    }
    if plan.pipeline > 1 {
        found.push(words![
            (Field::Pipeline, plan.pipeline),
            " with an open pace: requests wait behind each other on a connection, and that is counted as service time; more connections do not have that"
        ]);
    }
    let occupied_max = pace::peak_per_s(profile) * plan.timeouts.reply_ns as f64 / 1e9;
    if let Some(asked) = scenario.connections.filter(|n| f64::from(*n) > occupied_max.max(1.0)) {
        found.push(words![
            (Field::Connections, asked),
            format!(
                " is more than {} requests/s can occupy: most connections stay idle",
                show_count(pace::peak_per_s(profile))
            )
        ]);
    }
    let length_ns = pace::profile_ns(&scenario.profile);
    if let Some(duration_ns) = plan.stop.duration_ns.filter(|ns| *ns < length_ns) {
        found.push(words![
            (Field::Duration, show_duration_ns(duration_ns as f64)),
            format!(" ends before the profile of {}: its end is never reached", show_duration_ns(length_ns as f64))
        ]);
    }
}

fn tls(plan: &Plan, found: &mut Vec<Words>) {
    let Some(tls) = &plan.tls else { return };
    let has_client_wait = tls.handshake_only && !tls.resume && tls.identity.is_some();
    if has_client_wait && tls.versions.contains(&TlsVersion::V13) {
        found.push(words![
            Field::HandshakeOnly,
            " with ",
            Field::Cert,
            ": in TLS 1.3 a server refuses a client certificate after the client's handshake is done, which is not waited for"
        ]);
    }
}

fn reuse(plan: &Plan, scenario: &Scenario, protocol: &dyn Protocol, found: &mut Vec<Words>) {
    if let (Some(closes), Some(n @ 2..)) = (protocol.closes_after_each(scenario), scenario.requests_per_connection) {
        found.push(words![
            (Field::RequestsPerConnection, n),
            " has no effect with ",
            closes,
            ": every connection carries 1"
        ]);
    }
    let within = plan.requests_per_connection.filter(|n| *n < u32::from(plan.pipeline));
    if let Some(n) = within {
        found.push(words![
            (Field::RequestsPerConnection, n),
            " is below ",
            (Field::Pipeline, plan.pipeline),
            ": the pipeline never fills"
        ]);
    }
}
