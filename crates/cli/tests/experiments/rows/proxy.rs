//! Rows of what was published of a proxy whose memory was full.

use super::*;

pub const ROWS: &[Row] = &[
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
                    "nginx, {:.0} MiB with 40 slow clients; {}",
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
                Some(format!(
                    "nginx: {}. plimsoll, which keeps idle connections to its origin, and in its cache only what says how long it is fresh: {}",
                    nginx?.join("; "),
                    ours?.join("; ")
                ))
            },
        },
    },
    Row {
        id: "B10",
        published: "\"how much buffer should each connection get?\"",
        by: By::Command {
            serve: None,
            line: "plimsoll serve proxy --origin http://127.0.0.1:1 --buffer-size 32KiB --explain --within 1GiB --slow-connections 1000 --object 26MB",
            says: |d| {
                let (_, recommended) = d.as_str()?.split_once("1000 slow connections of")?;
                let words: Vec<&str> = recommended.split_whitespace().collect();
                Some(format!("1000 slow connections of {}", words.join(" ")))
            },
        },
    },
];
