//! Rows of what was published of a name service that is crashed.

use super::*;

pub const ROWS: &[Row] = &[
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
        by: By::Command {
            serve: None,
            line: "sh experiments/two-generators.sh 10 --json",
            says: |d| {
                let each = d["generators"]["generators"].as_array()?;
                let each: Option<Vec<String>> =
                    each.iter().map(|one| Some(thousands(one["requests_per_s"].as_f64()?))).collect();
                Some(format!(
                    "{} requests/s of one result, of {} and its own 99th percentile, {}: histograms are added, and not means",
                    thousands(d["achieved"]["rate_per_s"].as_f64()?),
                    each?.join(" and "),
                    ms(&d["latency"]["response"]["p99_us"])?,
                ))
            },
        },
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
