//! The observations that were published, a row each: as what, by which experiment or command it is looked at, and how what that gave
//! reads. Nothing here is a figure of ours: each `says` takes it from the document.

use serde_json::Value;

/// By what a row is looked at.
pub enum By {
    /// A file of `experiments/`.
    Run { name: &'static str, says: fn(&Value) -> Option<String> },
    /// A line for a shell, beside a server: `serve` with its words. JSON is read as such, else what it printed.
    Command { serve: Option<&'static str>, line: &'static str, says: fn(&Value) -> Option<String> },
    /// Nothing yet, and what there is instead.
    NotYet(&'static str),
}

/// An observation.
pub struct Row {
    pub id: &'static str,
    pub published: &'static str,
    pub by: By,
}

/// What was published together.
pub struct Group {
    pub title: &'static str,
    pub about: &'static str,
    pub rows: &'static [Row],
}

pub const GROUPS: &[Group] = &[
    Group { title: "A. Long connections, and HTTPS", about: "A 1-core ARM board with 1 GB, 2013.", rows: A },
    Group { title: "B. A proxy whose memory was full", about: "nginx on 10 GbE before a cache, 2014.", rows: B },
    Group {
        title: "C. An echo server in the kernel",
        about: "Against one of user space, 2022. The module itself is not among them; what its users see is.",
        rows: C,
    },
    Group { title: "D. Forty milliseconds", about: "A small HTTP server, 2018.", rows: D },
    Group {
        title: "E. A name service that is crashed",
        about: "Supervised, at 13,000 transactions a second, 2009.",
        rows: E,
    },
];

const A: &[Row] = &[
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
        by: By::NotYet("connections and message rate as a surface"),
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
            line: "d=$(mktemp -d) && openssl req -x509 -newkey rsa:512 -nodes -subj /CN=localhost -keyout $d/k -out $d/c 2>$d/why; \
                   cat $d/why | tail -n 1; plimsoll serve http --tls --tls-cert $d/c --tls-key-file $d/k --listen 127.0.0.1:0; rm -r $d",
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

const B: &[Row] = &[
    Row {
        id: "B1",
        published: "a proxy tier before a cache tier, by hash of the URL",
        by: By::Run {
            name: "proxy-memory",
            says: |d| {
                Some(format!(
                    "real nginx and plimsoll's proxy, {} variants, in a network namespace with their origin, the clients in another",
                    d["variants"].as_array()?.len()
                ))
            },
        },
    },
    Row {
        id: "B2",
        published: "swap from 0 to 97.76 % in six minutes, 64.94 % iowait; still swapped afterwards",
        by: By::Run {
            name: "proxy-swap",
            says: |d| {
                let swapped = &d["observed"]["target"]
                    .as_array()?
                    .iter()
                    .find_map(|t| t["metrics"].get("cgroup_swapped_bytes"))?;
                let host = &d["observed"]["metrics"]["host"];
                Some(format!(
                    "{:.0} MiB of the proxy's memory swapped at most, {:.0} MiB of it still after the load; {} pages read back; {}",
                    swapped["max"].as_f64()? / MIB,
                    swapped["last"].as_f64()? / MIB,
                    thousands(host["swap_in_pages"]["delta"].as_f64()?),
                    judged(d, "swap-thrash")?,
                ))
            },
        },
    },
    Row {
        id: "B3",
        published: "4 GB for each worker, never given back",
        by: By::Run {
            name: "proxy-memory",
            says: |d| {
                let run = run_of(d, &[("proxy", "nginx"), ("buffers", "1024 of 256k")])?;
                let found =
                    variant(d, &[("proxy", "nginx"), ("buffers", "1024 of 256k")])?["repeats"]["loads"][0]["findings"]
                        .as_array()?;
                let is_kept = found.iter().any(|one| one["id"] == "memory-kept");
                Some(format!(
                    "nginx' worker {:.0} MiB with 40 slow clients; {}",
                    run["target_memory_bytes_max"].as_f64()? / MIB,
                    if is_kept {
                        "found: memory-kept"
                    } else {
                        "not reproduced: three seconds after the load most of it was given back"
                    },
                ))
            },
        },
    },
    Row {
        id: "B4",
        published: "the server gave no answer",
        by: By::Run {
            name: "proxy-swap",
            says: |d| {
                let canary = &d["loads"][0]["canary"];
                Some(format!(
                    "{} of the canary's {} small requests were answered, the slowest after {:.0} ms",
                    canary["answered"],
                    canary["asked"],
                    canary["slowest_ms"].as_f64()?
                ))
            },
        },
    },
    Row {
        id: "B5",
        published: "page allocation failures, a driver without memory",
        by: By::Run { name: "proxy-swap", says: |d| Some(format!("not reproduced: {}", judged(d, "kernel-trouble")?)) },
    },
    Row {
        id: "B6",
        published: "tables of sar",
        by: By::Command {
            serve: None,
            line: "plimsoll import sar crates/observe/tests/testdata/import/sar-10-12h.txt",
            says: |d| Some(d.as_str()?.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")),
        },
    },
    Row {
        id: "B7",
        published: "wanted: 3,000 requests/s of 26 MB on 10 Gbit/s",
        by: By::Command {
            serve: None,
            line: "plimsoll audit --rate 3000/s --size 26MB --link 10Gbit",
            says: |d| Some(d.as_str()?.split_once("link ")?.1.split_whitespace().collect::<Vec<_>>().join(" ")),
        },
    },
    Row {
        id: "B8",
        published: "proxy_buffers 1024 256k",
        by: By::Command {
            serve: None,
            line: "plimsoll serve proxy --origin http://127.0.0.1:1 --buffers 1024 --buffer-size 256KiB --explain",
            says: |d| {
                let row = d.as_str()?.lines().find(|line| line.split_whitespace().take(2).eq(["40", "26000000"]))?;
                let bytes: f64 = row.split_whitespace().nth(2)?.parse().ok()?;
                Some(format!(
                    "foretold for 40 slow clients of 26 MB: {:.0} MiB; measured in the row below",
                    bytes / MIB
                ))
            },
        },
    },
    Row {
        id: "B9",
        published: "remedies: a cache, no buffering, 16 buffers of 32k",
        by: By::Run {
            name: "proxy-memory",
            says: |d| {
                let of = |proxy, buffers| {
                    let run = run_of(d, &[("proxy", proxy), ("buffers", buffers)])?;
                    Some(format!(
                        "{:.0} MiB, {:.0} MiB in files, {:.0} connections to the origin in the mean",
                        run["target_memory_bytes_max"].as_f64()? / MIB,
                        run["target_files_bytes_max"].as_f64().unwrap_or(0.0) / MIB,
                        run["target_backends_mean"].as_f64().unwrap_or(0.0),
                    ))
                };
                let all = ["1024 of 256k", "cache", "off", "16 of 32k"];
                let nginx: Option<Vec<String>> =
                    all.iter().map(|b| Some(format!("{b}: {}", of("nginx", b)?))).collect();
                let ours: Option<Vec<String>> =
                    all.iter().map(|b| Some(format!("{b}: {}", of("plimsoll", b)?))).collect();
                Some(format!("nginx: {}. plimsoll: {}", nginx?.join("; "), ours?.join("; ")))
            },
        },
    },
    Row {
        id: "B10",
        published: "\"how much buffer should each connection get?\"",
        by: By::NotYet("a recommendation from sizes, connections and memory; `serve proxy --explain` has the sums"),
    },
];

const C: &[Row] = &[
    Row {
        id: "C1",
        published: "100 to 300 µs in the kernel, up to 20,000 µs with a thread each, at 1,000 clients",
        by: By::NotYet("the module"),
    },
    Row {
        id: "C2",
        published: "seven designs proposed, none compared",
        by: By::Run {
            name: "echo-designs",
            says: |d| {
                let mut all: Vec<(f64, &str)> = Vec::new();
                for one in d["variants"].as_array()? {
                    if value(one, "clients")? == "64" && value(one, "size")? == "16" {
                        all.push((
                            one["repeats"]["loads"][0]["runs"][0]["figures"]["throughput"].as_f64()?,
                            value(one, "design")?,
                        ));
                    }
                }
                all.sort_by(|a, b| b.0.total_cmp(&a.0));
                let shown: Vec<String> =
                    all.iter().map(|(rate, design)| format!("{design} {}", thousands(*rate))).collect();
                Some(format!("64 clients, 16 bytes, requests/s of one run each: {}", shown.join(", ")))
            },
        },
    },
    Row {
        id: "C3",
        published: "1,000 threads behind a barrier, one message each: a mean of 38 ms; connects not timed",
        by: By::Command {
            serve: Some("serve echo --listen 127.0.0.1:7742"),
            line: "plimsoll load echo://127.0.0.1:7742 --burst 1000 --rounds 50 --size 16..32 -q --json --no-record",
            says: |d| {
                let of = |kind: &str, q: &str| ms(&d["latency"][kind][q]);
                Some(format!(
                    "echo p50 {}, p99 {}; connect p50 {}, p99 {}",
                    of("response", "p50_us")?,
                    of("response", "p99_us")?,
                    of("connect", "p50_us")?,
                    of("connect", "p99_us")?
                ))
            },
        },
    },
    Row {
        id: "C4",
        published: "the barrier let 1 to 10 % of the threads start late",
        by: By::Command {
            serve: Some("serve echo --listen 127.0.0.1:7742"),
            line: "plimsoll load echo://127.0.0.1:7742 --burst 1000 --rounds 20 --size 16..32 -q --json --no-record",
            says: |d| {
                Some(format!(
                    "all released at one moment; the skew is their lag: p50 {}, p99 {}",
                    ms(&d["latency"]["lag"]["p50_us"])?,
                    ms(&d["latency"]["lag"]["p99_us"])?
                ))
            },
        },
    },
    Row {
        id: "C5",
        published: "random texts of 16 to 32 bytes (a NUL byte crashes the module)",
        by: By::Run { name: "size-sweep", says: |d| size_sweep(d, "up to a NUL") },
    },
    Row {
        id: "C6",
        published: "counters of 100,000 and 50,000, explained by the read of the shutdown",
        by: By::NotYet("the client's, the target's and the kernel's counts side by side; a run's own are audited"),
    },
    Row {
        id: "C7",
        published: "4,096 bytes fine, 4,100 \"validation failed\"; a reply of whole buffers hangs",
        by: By::Run {
            name: "size-sweep",
            says: |d| Some(format!("{}; {}", size_sweep(d, "one receive for each")?, size_sweep(d, "whole buffers")?)),
        },
    },
    Row {
        id: "C8",
        published: "ASLR off, performance governor, no turbo, one CPU",
        by: By::NotYet("`--isolate`; `--pin` pins, and `check` names governor and turbo"),
    },
    Row {
        id: "C9",
        published: "bound 2,000 to 5,000 µs with outliers, unbound best, high priority no gain",
        by: By::NotYet("the module"),
    },
    Row {
        id: "C10",
        published: "clients that connect and then wait: unanswered",
        by: By::Run {
            name: "idle-sweep",
            says: |d| {
                let failures = |design, idle| {
                    Some(100.0 * run_of(d, &[("design", design), ("idle", idle)])?["figures"]["failures"].as_f64()?)
                };
                Some(format!(
                    "a pool of 64 threads fails {:.1} % with 63 silent clients, {:.0} % with 64, {:.0} % with 128; one loop {:.1} % with 128",
                    failures("pool of 64", "63")?,
                    failures("pool of 64", "64")?,
                    failures("pool of 64", "128")?,
                    failures("epoll-edge", "128")?,
                ))
            },
        },
    },
    Row {
        id: "C11",
        published: "sockets in TIME-WAIT, and a module that drops them",
        by: By::Command {
            serve: Some("serve echo --listen 127.0.0.1:7743"),
            line: "plimsoll load echo://127.0.0.1:7743 --requests-per-connection 1 -n 2000 -c 4 -q --no-record >/dev/null; plimsoll drop time-wait --to 127.0.0.1:7743",
            says: |d| Some(d.as_str()?.split_whitespace().collect::<Vec<_>>().join(" ")),
        },
    },
    Row {
        id: "C12",
        published: "a printf left in made the mean better, and nobody knew why",
        by: By::Command {
            serve: None,
            line: "plimsoll ab --a 'plimsoll serve echo --listen 127.0.0.1:7744' --b 'plimsoll serve echo --defect cpu-heavy=20us --listen 127.0.0.1:7744' \
                   echo://127.0.0.1:7744 -c 8 --slice 1s --repeats 8 -q",
            says: |d| Some(format!("B does 20 µs more of work for each: {}", first_sentence(d)?)),
        },
    },
];

const D: &[Row] = &[
    Row {
        id: "D1",
        published: "10 connections, 10 s: 43.72 ms, 228.12 requests/s",
        by: By::Run {
            name: "forty-milliseconds",
            says: |d| {
                let (mean, rate) =
                    (d["latency"]["response"]["mean_us"].as_f64()? / 1e3, d["achieved"]["ok_per_s"].as_f64()?);
                Some(format!(
                    "{mean:.2} ms, {rate:.2} requests/s, which fits: {:.2} requests under way, of 10",
                    rate * mean / 1e3
                ))
            },
        },
    },
    Row {
        id: "D2",
        published: "on-CPU flame graphs, which showed nothing",
        by: By::Run {
            name: "forty-milliseconds",
            says: |d| {
                Some(format!(
                    "the target used {:.2} cores; where its threads waited is drawn by `plimsoll report last --flame off-cpu`",
                    d["observed"]["target"][0]["cpus"].as_f64()?
                ))
            },
        },
    },
    Row {
        id: "D3",
        published: "fast without keep-alive, slow with it",
        by: By::Run { name: "forty-milliseconds", says: |d| evidence(d, "nagle-delayed-ack", "second request") },
    },
    Row {
        id: "D4",
        published: "strace: two timeouts of 20 ms",
        by: By::Run {
            name: "forty-milliseconds",
            says: |d| {
                let split = &d["split"];
                let back = split
                    .as_object()
                    .map(|_| "the split of response times has it on the way back, after the server's last write")
                    .unwrap_or("no request was joined with the target's sockets");
                Some(back.to_owned())
            },
        },
    },
    Row {
        id: "D5",
        published: "Nagle's algorithm and delayed acknowledgements, TCP_NODELAY on the wrong descriptor",
        by: By::Run { name: "forty-milliseconds", says: |d| Some(d["gives"]["text"].as_str()?.to_owned()) },
    },
    Row {
        id: "D6",
        published: "fixed, and measured again",
        by: By::Command {
            serve: None,
            line: "plimsoll ab --a 'plimsoll serve http --workers 1 --defect nagle --listen 127.0.0.1:7745' \
                   --b 'plimsoll serve http --workers 1 --listen 127.0.0.1:7745' http://127.0.0.1:7745/ -c 10 --slice 1s --repeats 6 -q",
            says: |d| first_sentence(d),
        },
    },
    Row {
        id: "D7",
        published: "gone without a word; a debugger: SIGPIPE in send",
        by: By::Run {
            name: "sudden-death",
            says: |d| {
                let events = d["events"].as_array()?;
                let end = events.iter().find(|event| event["kind"] == "target-exit")?["text"].as_str()?;
                let finding =
                    d["findings"].as_array()?.iter().find(|one| one["id"] == "sigpipe-death")?["title"].as_str()?;
                Some(format!("{finding}; {end}"))
            },
        },
    },
    Row {
        id: "D8",
        published: "two epoll_ctl, two openat, an fstat and a close for each request",
        by: By::Run {
            name: "forty-milliseconds",
            says: |d| {
                let probes = &d["observed"]["bpf"]["counts"];
                let calls = probes["syscalls.calls"].as_f64()?;
                Some(format!(
                    "{:.2} system calls a reply, by name in the report",
                    calls / probes["sockets.requests"].as_f64()?
                ))
            },
        },
    },
    Row {
        id: "D9",
        published: "a client that sends a byte each 30 ms",
        by: By::Run {
            name: "slow-clients",
            says: |d| {
                Some(format!(
                    "200 that think long, and for four seconds 100 that send a byte every 30 ms and 100 that read 64 KiB a second: the p99 of the \
                     fast ones was {}, and {} of their requests failed",
                    ms(&d["latency"]["response"]["p99_us"])?,
                    d["totals"]["failed"]
                ))
            },
        },
    },
];

const E: &[Row] = &[
    Row {
        id: "E1",
        published: "six operations, one of which crashes the store; supervised",
        by: By::Run {
            name: "name-service-crash-fail-fast",
            says: |d| {
                Some(format!(
                    "the fault is {}: {}",
                    d["faults"][0]["fault"].as_str()?,
                    d["faults"][0]["state"].as_str()?
                ))
            },
        },
    },
    Row {
        id: "E2",
        published: "200 clients: 13,000 transactions/s at 15 ms",
        by: By::Run {
            name: "name-service",
            says: |d| {
                let (mean, rate) =
                    (d["latency"]["response"]["mean_us"].as_f64()? / 1e3, d["achieved"]["ok_per_s"].as_f64()?);
                Some(format!(
                    "{} a second at {mean:.2} ms in the mean: {:.0} under way, of 200",
                    thousands(rate),
                    rate * mean / 1e3
                ))
            },
        },
    },
    Row {
        id: "E3",
        published: "crash at 90 s: 99 aborts, some 50 failures a second for 10 s",
        by: By::Run {
            name: "name-service-crash-fail-fast",
            says: |d| {
                let fault = &d["faults"][0];
                let first = fault["first_success_s"]
                    .as_f64()
                    .map_or_else(|| "no outage".to_owned(), |s| format!("first success at {s:.3} s"));
                let back = fault["recovered_s"].as_f64().map_or_else(
                    || "not known when all was as before".to_owned(),
                    |s| format!("all as before after {s:.2} s"),
                );
                Some(format!(
                    "at {:.3} s: {} requests failed, {} connections aborted, {first}, {back}",
                    fault["at_s"].as_f64()?,
                    fault["failed_requests"],
                    fault["aborted_connections"]
                ))
            },
        },
    },
    Row {
        id: "E4",
        published: "response times fell in the crash",
        by: By::Run {
            name: "name-service-crash-fail-fast",
            says: |d| {
                let (ok, failed) = (ms(&d["latency"]["response"]["p50_us"])?, ms(&d["latency"]["failed"]["p50_us"])?);
                Some(format!(
                    "successes and failures are apart: p50 {ok} and {failed}; {}",
                    judged(d, "fast-failures")?
                ))
            },
        },
    },
    Row {
        id: "E5",
        published: "5 MB of memory were free after the crash: the state was gone",
        by: By::Run {
            name: "name-service-crash-fail-fast",
            says: |d| {
                Some(format!(
                    "{} acknowledged writes were gone",
                    thousands(d["totals"]["errors"]["lost-write"].as_f64()?)
                ))
            },
        },
    },
    Row {
        id: "E5 durable",
        published: "-",
        by: By::Run {
            name: "name-service-crash-durable",
            says: |d| {
                Some(format!("with a journal {} were", d["totals"]["errors"]["lost-write"].as_u64().unwrap_or(0)))
            },
        },
    },
    Row {
        id: "E6",
        published: "a failure at once, a wait, or bounded retries: argued for, not measured",
        by: By::Run {
            name: "name-service-policies",
            says: |d| {
                let mut all = Vec::new();
                for one in d["variants"].as_array()? {
                    let errors = &one["repeats"]["loads"][0]["runs"][0]["errors"];
                    let shown = thousands(errors["error-reply"].as_f64().unwrap_or(0.0));
                    all.push(format!("{} client, {} server: {shown}", value(one, "client")?, value(one, "server")?));
                }
                Some(format!(
                    "error replies that a client saw of one crash: {}; what was acknowledged is lost in each",
                    all.join("; ")
                ))
            },
        },
    },
    Row {
        id: "E7",
        published: "two generators, two results",
        by: By::NotYet("recordings of several generators as one result"),
    },
    Row {
        id: "E8",
        published: "nmon's Wait% always 0, vmstat disagreed",
        by: By::Run {
            name: "name-service",
            says: |d| {
                let all = d["observed"]["disagreements"].as_array()?;
                let shown: Vec<&str> =
                    all.iter().filter_map(|one| one["text"].as_str().or(one["metric"].as_str())).collect();
                Some(if shown.is_empty() {
                    "two sources of each figure were held against each other, and agreed".to_owned()
                } else {
                    shown.join("; ")
                })
            },
        },
    },
    Row {
        id: "E9",
        published: "epoll, descriptors, ports, processes and socket buffers tuned",
        by: By::Command {
            serve: None,
            line: "plimsoll ab --a 'plimsoll serve names --listen 127.0.0.1:7746' --b 'plimsoll serve names --workers 2 --listen 127.0.0.1:7746' \
                   resp://127.0.0.1:7746 -c 50 --slice 1s --repeats 6 -q",
            says: |d| first_sentence(d),
        },
    },
];

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;

/// A number with its thousands apart.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Microseconds of a document in milliseconds; `None`: too few for it.
fn ms(us: &Value) -> Option<String> {
    Some(us.as_f64().map_or_else(|| "(too few)".to_owned(), |us| format!("{:.2} ms", us / 1e3)))
}

fn value<'a>(variant: &'a Value, axis: &str) -> Option<&'a str> {
    variant["values"].as_array()?.iter().find(|one| one["axis"] == axis)?["value"].as_str()
}

/// The variant in which each of these axes has that value.
fn variant<'a>(document: &'a Value, wanted: &[(&str, &str)]) -> Option<&'a Value> {
    let is_it = |one: &&Value| wanted.iter().all(|(axis, wanted)| value(one, axis) == Some(*wanted));
    document["variants"].as_array()?.iter().find(is_it)
}

fn run_of<'a>(document: &'a Value, wanted: &[(&str, &str)]) -> Option<&'a Value> {
    Some(&variant(document, wanted)?["repeats"]["loads"][0]["runs"][0])
}

fn figure(document: &Value, wanted: &[(&str, &str)], figure: &str) -> Option<f64> {
    run_of(document, wanted)?["figures"][figure].as_f64()
}

/// How a finding stands: its title where it was found, or why it was not.
fn judged(document: &Value, id: &str) -> Option<String> {
    let all = ["findings", "judged"].into_iter().filter_map(|list| document[list].as_array());
    let finding = all.flatten().find(|finding| finding["id"] == id)?;
    let title = finding["title"].as_str()?;
    Some(if finding["status"] == "supported" { format!("found: {title}") } else { title.to_owned() })
}

/// The piece of a finding's evidence with a text in it.
fn evidence(document: &Value, id: &str, text: &str) -> Option<String> {
    let finding = document["findings"].as_array()?.iter().find(|finding| finding["id"] == id)?;
    let pieces = finding["because"].as_array()?.iter().filter_map(|piece| piece["text"].as_str());
    pieces.into_iter().find(|piece| piece.contains(text)).map(str::to_owned)
}

/// What gives first with a server of the size sweep.
fn size_sweep(document: &Value, server: &str) -> Option<String> {
    Some(format!("{server}: {}", run_of(document, &[("server", server)])?["gives"].as_str()?))
}

/// A comparison's first paragraph.
fn first_sentence(document: &Value) -> Option<String> {
    let text = document.as_str()?;
    let lines = text.lines().take_while(|line| !line.trim_start().starts_with("A ") && !line.is_empty());
    Some(lines.collect::<Vec<_>>().join(" "))
}

/// The last line that begins so.
fn last_line(document: &Value, start: &str) -> Option<String> {
    document.as_str()?.lines().rfind(|line| line.starts_with(start)).map(str::to_owned)
}
