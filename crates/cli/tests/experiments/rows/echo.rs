//! Rows of what was published of an echo server in the kernel, as far as its users see it.

use super::*;

pub const ROWS: &[Row] = &[
    Row {
        id: "C1",
        published: "100 to 300 µs in the kernel, up to 20,000 µs with a thread each, at 1,000 clients",
        by: By::Kernel { says: |page| Some(line_of(page, "**")?.trim_matches('*').to_owned()) },
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
        by: By::Command {
            serve: None,
            line: "f=$(mktemp); plimsoll serve echo --listen 127.0.0.1:7761 >$f & s=$!; sleep 1; \
                   plimsoll load echo://127.0.0.1:7761 -c 50 -n 10000 --requests-per-connection 1 -q --json --no-record; kill $s; wait $s; cat $f; rm $f",
            says: counted_alike,
        },
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
        by: By::Command {
            serve: Some("serve echo --workers 1 --listen 127.0.0.1:7759"),
            line: "plimsoll load echo://127.0.0.1:7759 -c 8 -d 2s --isolate -q --json --no-record",
            says: isolated,
        },
    },
    Row {
        id: "C9",
        published: "bound 2,000 to 5,000 µs with outliers, unbound best, high priority no gain",
        by: By::Kernel {
            says: |page| {
                let flags = page.split_once("| flags | throughput | p99 |")?.1;
                let of = |name: &str| {
                    let line = line_of(flags, &format!("| `{name}` |"))?;
                    Some(format!("{name}: {}", line.split('|').nth(2)?.trim()))
                };
                Some(format!(
                    "throughput against an unbound queue, two CPUs: {}; {}; {}",
                    of("bound")?,
                    of("unbound,highpri")?,
                    of("unbound,cpu_intensive")?
                ))
            },
        },
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

/// What was set and undone, and what could not be; each by its name.
fn isolated(document: &Value) -> Option<String> {
    let all = document["isolation"].as_array().filter(|all| !all.is_empty())?;
    let of = |states: &[&str]| {
        let those = all.iter().filter(|one| one["state"].as_str().is_some_and(|state| states.contains(&state)));
        let names: Vec<&str> = those.filter_map(|one| one["what"].as_str()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    Some(format!(
        "set, and undone where it lasts: {}; so before: {}; not to be had on this machine: {}",
        of(&["set", "undone"]),
        of(&["was-so"]),
        of(&["not-set"])
    ))
}

/// What the client, the target and the kernel counted of one load, and whether they agree.
fn counted_alike(printed: &Value) -> Option<String> {
    let (document, of_target) = printed.as_str()?.split_once("\nlistening on")?;
    let document: Value = serde_json::from_str(document).ok()?;
    let totals = &document["totals"];
    let client = |name: &str| totals[name].as_u64();
    let target = |name: &str| {
        let line = of_target.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let kernel = |name: &str| document["observed"]["metrics"]["network"][name]["delta"].as_u64();
    let connected = totals["connections"]["connected"].as_u64()?;
    let errors: u64 =
        ["recv_error", "send_error", "memory_error", "accept_error", "work_error"].into_iter().filter_map(target).sum();
    let is_alike = client("ok") == target("recv")
        && target("recv") == target("send")
        && client("bytes_sent") == target("bytes_in")
        && client("bytes_received") == target("bytes_out")
        && target("shutdown") == Some(connected)
        && kernel("tcp_active_opens") >= Some(connected)
        && kernel("tcp_passive_opens") >= Some(connected);
    Some(format!(
        "client: {} requests answered over {connected} connections, {} bytes each way; target: recv {}, send {}, shutdown {}, \
         {errors} errors; kernel: {} opened, {} accepted. {}",
        client("ok")?,
        client("bytes_sent")?,
        target("recv")?,
        target("send")?,
        target("shutdown")?,
        kernel("tcp_active_opens")?,
        kernel("tcp_passive_opens")?,
        if is_alike {
            "They agree; together with the reads of a shutdown the target reads twice a request, as was published"
        } else {
            "They do not agree"
        }
    ))
}

/// The first line of a page that begins so.
fn line_of<'p>(page: &'p str, mark: &str) -> Option<&'p str> {
    page.lines().find(|line| line.starts_with(mark))
}
