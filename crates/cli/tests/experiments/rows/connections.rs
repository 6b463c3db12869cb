//! Rows of what was published of long connections and HTTPS.

use super::*;

pub const ROWS: &[Row] = &[
    Row {
        id: "A1",
        published: "one core, 1 GB: the board",
        by: By::Run {
            name: "long-connections",
            says: |d| {
                let metrics = &d["observed"]["target"][0]["metrics"];
                let limit = metrics["cgroup_memory_limit_bytes"]["last"].as_f64()? / GIB;
                let most = metrics["cgroup_memory_usage_bytes"]["max"].as_f64()? / MIB;
                Some(format!(
                    "the server in a control group of one core and {limit:.0} GiB, of which it used {most:.0} MiB at most"
                ))
            },
        },
    },
    Row {
        id: "A2",
        published: "100,000 connections held that seldom speak",
        by: By::Run {
            name: "long-connections",
            says: |d| {
                let held = &d["held"];
                let (n, s) = (held["established_at_end"].as_f64()?, held["made_in_s"].as_f64()?);
                let lost = held["closed_by_peer"].as_f64()?;
                Some(format!("{} held to the end, made in {s:.0} s, {lost:.0} closed by the server", thousands(n)))
            },
        },
    },
    Row {
        id: "A3",
        published: "limits of descriptors, ports, queues and memory raised by hand",
        by: By::Command {
            serve: None,
            line: "plimsoll check -c 100k hold://127.0.0.1:7780-7784",
            says: |d| {
                let text = d.as_str()?;
                let (_, ready) = text.split_once("Ready")?;
                Some(ready.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>().join(" "))
            },
        },
    },
    Row {
        id: "A4",
        published: "five servers on five ports, clients of 500 connections each",
        by: By::Run {
            name: "long-connections",
            says: |d| {
                let ports: usize = d["plan"]["origins"]
                    .as_array()?
                    .iter()
                    .filter_map(|o| Some(o["addresses"].as_array()?.len()))
                    .sum();
                let sources = d["plan"]["sources"].as_array()?.len();
                Some(format!("{ports} ports of one server, from {sources} source addresses, chosen by themselves"))
            },
        },
    },
    Row {
        id: "A5",
        published: "128 bytes each five seconds on each: 3.75 MB/s",
        by: By::Run {
            name: "long-connections",
            says: |d| {
                let (sent, received) =
                    (d["achieved"]["bytes_sent_per_s"].as_f64()?, d["achieved"]["bytes_received_per_s"].as_f64()?);
                let due = d["requested"]["connections"].as_f64()? * 128.0 / 5.0;
                Some(format!(
                    "{:.2} MB/s there and {:.2} MB/s back, of {:.2} MB/s each that are due once all are connected, headers not counted",
                    sent / 1e6,
                    received / 1e6,
                    due / 1e6
                ))
            },
        },
    },
    Row {
        id: "A6",
        published: "300 MB of 1 GB left, the CPU idle for a fifth of the time",
        by: By::Run {
            name: "long-connections",
            says: |d| {
                let memory = &d["held"]["memory"];
                Some(format!(
                    "each connection: {:.1} KiB of kernel memory for both ends, {:.0} bytes of the server's own; the server used {:.2} cores",
                    memory["slab_bytes"].as_f64()? / 1024.0,
                    memory["target_bytes"].as_f64()?,
                    d["observed"]["target"][0]["cpus"].as_f64()?,
                ))
            },
        },
    },
    Row {
        id: "A7",
        published: "\"only for idle ones, traffic is limited\"",
        by: By::Command {
            serve: Some("serve http --workers 1 --listen 127.0.0.1:7747"),
            line: "plimsoll capacity http://127.0.0.1:7747/ --of users --over think=50ms,200ms,500ms --slo 'p99<50ms' --time 75s -q",
            says: |d| {
                // A line for each think time, below the table's head.
                let rows = d.as_str()?.lines().skip_while(|line| !line.trim_end().ends_with("users")).skip(1);
                let rows: Vec<String> = rows
                    .take_while(|line| !line.trim().is_empty())
                    .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                    .collect();
                if rows.iter().all(|row| row.ends_with(['?', '–'])) {
                    return Some("no line could be found: the machine was disturbed all the time".to_owned());
                }
                Some(format!("users that are carried who think so long before each request: {}", rows.join("; ")))
            },
        },
    },
    Row {
        id: "A8",
        published: "20 and 200 kept connections: https 755 and 858, http 1,269 and 1,741 requests/s; 512-bit key 959",
        by: By::Run {
            name: "https-cost",
            says: |d| {
                let rate = |server, clients, connections| {
                    figure(d, &[("server", server), ("clients", clients), ("connections", connections)], "throughput")
                };
                let cpu = |server, connections| {
                    figure(d, &[("server", server), ("clients", "20"), ("connections", connections)], "cpu")
                };
                let handshake = |server| Some(cpu(server, "new each")? - cpu("http", "new each")?);
                Some(format!(
                    "kept, by p-256: https {} and {}, http {} and {} requests/s, so the records cost {:.0} µs more of CPU each; the server's CPU for \
                     a connection made anew is more than by http by {:.0} µs with ed25519, {:.0} p-256, {:.0} p-384, {:.0} rsa-2048, {:.0} rsa-3072, \
                     {:.0} rsa-4096",
                    thousands(rate("p-256", "20", "kept")?),
                    thousands(rate("p-256", "200", "kept")?),
                    thousands(rate("http", "20", "kept")?),
                    thousands(rate("http", "200", "kept")?),
                    cpu("p-256", "kept")? - cpu("http", "kept")?,
                    handshake("ed25519")?,
                    handshake("p-256")?,
                    handshake("p-384")?,
                    handshake("rsa-2048")?,
                    handshake("rsa-3072")?,
                    handshake("rsa-4096")?,
                ))
            },
        },
    },
    Row {
        id: "A8 weak key",
        published: "a key of 512 bits was used",
        by: By::Command {
            serve: None,
            line: "cd $(mktemp -d) && openssl req -x509 -newkey rsa:512 -nodes -subj /CN=localhost -keyout key -out cert 2>why; \
                   plimsoll serve http --tls --tls-cert cert --tls-key-file key --listen 127.0.0.1:0",
            says: |d| last_line(d, "plimsoll:"),
        },
    },
    Row {
        id: "A9",
        published: "\"enough for a small site, perhaps a chat server\"",
        by: By::Command {
            serve: Some("serve http --workers 1 --listen 127.0.0.1:7741"),
            line: "plimsoll capacity http://127.0.0.1:7741/ --slo 'p99<50ms, errors<0.1%' --time 30s -q --no-record",
            says: |d| Some(d.as_str()?.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")),
        },
    },
    Row {
        id: "A10",
        published: "a stressor of seven workers beside ext4: kernel panic after minutes",
        by: By::Run {
            name: "stress-neighbour",
            says: |d| {
                let mean = |at: usize| ms(&d["phases"][at]["response"]["mean_us"]);
                let canary = &d["loads"][0]["canary"];
                Some(format!(
                    "not reproduced: this kernel bears it ({}); the service's mean response time went from {} to {} and back to {}; {} of the canary's {} were answered, the slowest after {:.0} ms",
                    judged(d, "kernel-trouble")?,
                    mean(0)?,
                    mean(1)?,
                    mean(2)?,
                    canary["answered"],
                    canary["asked"],
                    canary["slowest_ms"].as_f64()?,
                ))
            },
        },
    },
];
