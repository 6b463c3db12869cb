//! Rows of what was published of a small HTTP server at forty milliseconds.

use super::*;

pub const ROWS: &[Row] = &[
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
