//! docs/kernel.md and its pictures, from what the guests brought out.

use super::matrix::FLAGS_COMPARED;
use model::latency::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use testkit::guest::NS_PER_INSTRUCTION;

/// What the guests brought out.
pub struct Comparison<'c> {
    /// By the experiment's name.
    pub documents: BTreeMap<&'static str, Value>,
    pub bursts: Vec<Burst>,
    /// `plimsoll ab` of the default and these flags.
    pub flags: Vec<(&'static str, Value)>,
    /// Of the guests in which nothing was measured: 6.1, and the newer one.
    pub consoles: [&'c str; 2],
    pub kernels: [&'c str; 2],
    pub took: Duration,
}

/// A burst of a thousand: what the slowest so many of them took, in milliseconds, the quickest first.
pub struct Burst {
    pub echo_ms: Vec<f64>,
    pub connect_ms: Vec<f64>,
}

/// Clients of a burst.
const RANKS: usize = 1000;
/// Told in words as the same.
const SAME: f64 = 0.01;

/// Those of a folder, in the order of the experiment's variants.
pub fn bursts(folder: &Path) -> Vec<Burst> {
    let of = |number: usize| {
        let recording = store::Reader::open(&folder.join(format!("burst-{number}-1.plimsoll"))).ok()?.load().ok()?;
        let ranks = |kind| {
            let times = recording.totals.sum.latency.of(kind);
            let at = |rank: usize| times.value_at_quantile((rank as f64 + 0.5) / RANKS as f64) as f64 / 1e6;
            (0..RANKS).map(at).collect()
        };
        Some(Burst { echo_ms: ranks(Kind::Service), connect_ms: ranks(Kind::Connect) })
    };
    (1..).map_while(of).collect()
}

struct Row<'d> {
    values: Vec<&'d str>,
    load: &'d Value,
}

impl Row<'_> {
    fn all(&self, figure: &str) -> Vec<f64> {
        let runs = self.load["runs"].as_array().unwrap();
        let mut all: Vec<f64> = runs.iter().filter_map(|run| run["figures"][figure].as_f64()).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn figure(&self, figure: &str) -> Option<f64> {
        let all = self.all(figure);
        all.get(all.len() / 2).copied()
    }

    /// Of everything on the only CPU: client, both sides of TCP, server. True where no time was waited.
    fn instructions(&self) -> Option<f64> {
        let is_busy = self.figure("failures").is_some_and(|failures| failures < 0.01);
        self.figure("throughput").filter(|_| is_busy).map(|rate| 1e9 / rate / f64::from(NS_PER_INSTRUCTION))
    }
}

fn rows<'d>(document: &'d Value) -> Vec<Row<'d>> {
    let of = |variant: &'d Value| Row {
        values: variant["values"].as_array().unwrap().iter().map(|one| one["value"].as_str().unwrap()).collect(),
        load: &variant["repeats"]["loads"][0],
    };
    document["variants"].as_array().unwrap().iter().map(of).collect()
}

/// The values of an axis, in order.
fn values<'d>(rows: &[Row<'d>], axis: usize) -> Vec<&'d str> {
    let mut seen = Vec::new();
    for row in rows {
        if !seen.contains(&row.values[axis]) {
            seen.push(row.values[axis]);
        }
    }
    seen
}

fn find<'r, 'd>(rows: &'r [Row<'d>], wanted: &[&str]) -> &'r Row<'d> {
    rows.iter().find(|row| row.values == wanted).unwrap_or_else(|| panic!("no variant {wanted:?}"))
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn ms(us: f64) -> String {
    if us < 1e3 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1e3) }
}

/// The page.
pub fn write(all: &Comparison<'_>) -> String {
    let mut page = String::new();
    let designs = rows(&all.documents["designs"]);
    let _ = write!(
        page,
        "# An echo in the kernel: is it worth it, and when?\n\n\
         Published in 2022: an echo server as a kernel module, 100 to 300 µs, against one in user space with a thread for each client, up to \
         20,000 µs at a thousand. Here the same is asked of three ways to do it in the kernel and nine in user space, in one guest, with \
         the same clients. Made by `make kernel` of real runs; do not edit. It took {} s; kernels {} and {} under QEMU (accel=tcg).\n\n",
        all.took.as_secs(),
        all.kernels[0],
        all.kernels[1]
    );
    let _ = writeln!(page, "**{}**\n", verdict(&designs, all));
    page.push_str(
        "## What these figures can carry\n\n\
         The guest has one CPU, which client and server share, and a clock that counts its instructions, four nanoseconds each (QEMU's \
         `-icount`). So nothing that others do on the machine shows, and two runs of the same come out nearly the same, but for a thousand threads, whose order is another each time. What they can carry: how \
         many instructions a design takes, who waits for whom, and who is never answered. What they cannot: caches, the price of crossing \
         into the kernel on a real CPU (an instruction like another here), several CPUs at once. As client and server share a CPU, `plimsoll` calls \
         every run at full load \"not valid\", and is right: these are costs, not how fast a server is.\n\n",
    );
    matrix(&mut page, &designs);
    sizes(&mut page, &rows(&all.documents["sizes"]));
    flags(&mut page, all);
    idle(&mut page, &rows(&all.documents["idle"]));
    burst(&mut page, &all.documents["burst"], &all.bursts);
    conduct(&mut page, all);
    page
}

/// The answer, of the figures themselves.
fn verdict(designs: &[Row<'_>], all: &Comparison<'_>) -> String {
    let cheapest = |is_kernel: bool, clients: &str| {
        designs
            .iter()
            .filter(|row| row.values[1] == clients && row.values[0].starts_with("kernel: ") == is_kernel)
            .filter_map(|row| Some((row.values[0], row.instructions()?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap()
    };
    let compared = |clients: &str| {
        let ((kernel, in_kernel), (user, in_user)) = (cheapest(true, clients), cheapest(false, clients));
        let less = 1.0 - in_kernel / in_user;
        let kernel = kernel.trim_start_matches("kernel: ");
        let how = if less.abs() < SAME {
            "as many".to_owned()
        } else if less > 0.0 {
            format!("{:.0} % fewer", 100.0 * less)
        } else {
            format!("{:.0} % more", -100.0 * less)
        };
        format!(
            "with {clients} client{} the cheapest in the kernel ({kernel}) takes {how} instructions for a round trip than the cheapest in user space ({user})",
            if clients == "1" { "" } else { "s" }
        )
    };
    let idle = rows(&all.documents["idle"]);
    let silent = find(&idle, &["kernel: workqueue", "256"]).figure("failures").unwrap_or(0.0);
    format!(
        "Not for an echo: {}; {}. What the published module saves it loses with silent clients: at 256 of them {:.0} % of the others' requests \
         failed in those two seconds, and with a work item for each readable event none. How connections are served decides, and not on which side \
         of the kernel's border.",
        compared("1"),
        compared("100"),
        100.0 * silent
    )
}

fn matrix(page: &mut String, designs: &[Row<'_>]) {
    let (servers, clients) = (values(designs, 0), values(designs, 1));
    page.push_str("## Every design, at one client, a hundred and a thousand\n\n![instructions of a round trip](pictures/kernel-designs.svg)\n\n");
    page.push_str("Instructions of a whole round trip (client, both sides of TCP, server), and how long it took, p50 and p99. Messages of 16 to 32 bytes, closed loop. Of two runs each, which differ as the last column says.\n\n| server |");
    for clients in &clients {
        let _ = write!(page, " {clients}: instructions | p50 | p99 | failed |");
    }
    page.push_str(" runs apart |\n|---|");
    page.push_str(&"---|".repeat(4 * clients.len() + 1));
    page.push('\n');
    for server in servers {
        let _ = write!(page, "| {server} |");
        let mut apart: f64 = 0.0;
        for clients in &clients {
            let row = find(designs, &[server, clients]);
            let rates = row.all("throughput");
            if let ([least, ..], Some(most)) = (&rates[..], rates.last()) {
                apart = apart.max(most / least.max(1.0) - 1.0);
            }
            let failed = row.figure("failures").unwrap_or(0.0);
            let failed = if failed == 0.0 { "0".to_owned() } else { format!("{:.0} %", 100.0 * failed) };
            let time = |name| or_dash(row.figure(name).map(ms));
            let _ = write!(
                page,
                " {} | {} | {} | {failed} |",
                or_dash(row.instructions().map(thousands)),
                time("p50"),
                time("p99")
            );
        }
        let _ = writeln!(page, " {:.1} % |", 100.0 * apart);
    }
    page.push_str(
        "\nA dash: more than one in a hundred failed, so a round trip has no price. `workqueue` has at most 512 work items under way, so of a \
         thousand clients 488 are never answered. `iterative` serves one client at a time; the others wait for its end.\n\n",
    );
}

fn sizes(page: &mut String, rows: &[Row<'_>]) {
    let (servers, sizes) = (values(rows, 0), values(rows, 1));
    page.push_str(
        "## What a byte costs\n\nInstructions of a round trip, ten clients, by the size of the message.\n\n| server |",
    );
    for size in &sizes {
        let _ = write!(page, " {size} |");
    }
    let _ = writeln!(page, "\n|---|{}", "---|".repeat(sizes.len()));
    for server in servers {
        let cells = sizes.iter().map(|size| or_dash(find(rows, &[server, size]).instructions().map(thousands)));
        let _ = writeln!(page, "| {server} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    page.push_str(
        "\nQEMU copies memory by ordinary instructions, a real CPU many bytes at once: the larger the message, the less of this is \
         true of one.\n\n",
    );
}

fn flags(page: &mut String, all: &Comparison<'_>) {
    let rows = rows(&all.documents["flags"]);
    let (flags, models) = (values(&rows, 0), values(&rows, 1));
    page.push_str("## Flags of the work queue\n\nInstructions of a round trip, a hundred clients, three runs each, the least and the most; one CPU.\n\n| flags |");
    for model in &models {
        let _ = write!(page, " {model} |");
    }
    let _ = writeln!(page, "\n|---|{}", "---|".repeat(models.len()));
    for flag in &flags {
        let of = |model: &&str| {
            let rates = find(&rows, &[flag, model]).all("throughput");
            let cost = |rate: &f64| thousands(1e9 / rate / f64::from(NS_PER_INSTRUCTION));
            or_dash(
                Some((rates.last(), rates.first()))
                    .and_then(|(most, least)| Some(format!("{} to {}", cost(most?), cost(least?)))),
            )
        };
        let _ = writeln!(page, "| `{flag}` | {} |", models.iter().map(of).collect::<Vec<_>>().join(" | "));
    }
    page.push_str(
        "\nWith two CPUs, by QEMU's ordinary clock, `model=workqueue`, against `unbound`, in turn and in random order (the slices of `plimsoll ab`, \
         which itself gives no verdict of them, as client and server share the CPUs). The middle of the repeats, and the least to the most of \
         them, an interval of the median at 98 % for seven:\n\n| flags | throughput | p99 |\n|---|---|---|\n",
    );
    for name in FLAGS_COMPARED {
        let document = &all.flags.iter().find(|(of, _)| *of == name).unwrap().1;
        let _ = writeln!(
            page,
            "| `{name}` | {} | {} |",
            against_first(document, "throughput"),
            against_first(document, "p99")
        );
    }
    page.push_str(
        "\nPublished: bound queues slowest, with outliers, unbound best, and no gain by a high priority or `cpu_intensive`.\n\n",
    );
}

/// B's figure against the mean of A's two, over the repeats of a comparison.
fn against_first(document: &Value, figure: &str) -> String {
    let mut repeats: BTreeMap<u64, BTreeMap<&str, f64>> = BTreeMap::new();
    for slice in document["slices"].as_array().unwrap() {
        if let Some(value) = slice["figures"][figure].as_f64() {
            // One that was run again counts as it was at last.
            repeats
                .entry(slice["repeat"].as_u64().unwrap())
                .or_default()
                .insert(slice["side"].as_str().unwrap(), value);
        }
    }
    let mut changes: Vec<f64> = Vec::new();
    for sides in repeats.values() {
        let of = |is_b: bool| {
            let all: Vec<f64> =
                sides.iter().filter(|(side, _)| (**side == "b") == is_b).map(|(_, value)| *value).collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        changes.push(of(true) / of(false) - 1.0);
    }
    changes.retain(|change| change.is_finite());
    changes.sort_by(f64::total_cmp);
    let ([least, ..], Some(most)) = (&changes[..], changes.last()) else { return "no figure".to_owned() };
    let middle = changes[changes.len() / 2];
    let said = if *least > 0.0 {
        "more"
    } else if *most < 0.0 {
        "less"
    } else {
        "no difference shown"
    };
    format!(
        "{said}: {:+.1} % ({:+.1} to {:+.1} %, {} repeats)",
        100.0 * middle,
        100.0 * least,
        100.0 * most,
        changes.len()
    )
}

fn idle(page: &mut String, rows: &[Row<'_>]) {
    let (servers, idle) = (values(rows, 0), values(rows, 1));
    page.push_str(
        "## Silent clients\n\nFour clients that connect anew for each message, 200 a second, beside so many that connect and say nothing: the share of \
         their requests that failed (no reply within 400 ms), and p50 of the others. The queue has 256 work items.\n\n| server |",
    );
    for count in &idle {
        let _ = write!(page, " {count} silent |");
    }
    let _ = writeln!(page, "\n|---|{}", "---|".repeat(idle.len()));
    for server in servers {
        let of = |count: &&str| {
            let row = find(rows, &[server, count]);
            let failed = 100.0 * row.figure("failures").unwrap_or(0.0);
            let p50 = row.figure("p50").filter(|us| *us > 0.0).map_or(String::new(), |us| format!(", {}", ms(us)));
            format!("{failed:.0} %{p50}")
        };
        let _ = writeln!(page, "| {server} | {} |", idle.iter().map(of).collect::<Vec<_>>().join(" | "));
    }
    page.push('\n');
}

const BURST: &str = "## A thousand at one moment\n";

/// The page with another section of bursts.
pub fn with_burst(page: &str, document: &Value, bursts: &[Burst]) -> String {
    let (before, rest) = page.split_once(BURST).unwrap();
    let mut whole = before.to_owned();
    burst(&mut whole, document, bursts);
    whole + &rest[rest.find("\n## ").unwrap() + 1..]
}

fn burst(page: &mut String, document: &Value, bursts: &[Burst]) {
    let rows = rows(document);
    assert_eq!(rows.len(), bursts.len(), "a recording of each variant");
    page.push_str(BURST);
    page.push_str(
        "\nThe published experiment: a thousand clients, connected, released at once, a message each, five rounds. \
         On the left as it was published, a time for each rank; on the right all of the times on a scale that shows their ends, and with the connects, which \
         it did not time.\n\n![a burst of a thousand](pictures/kernel-burst.svg)\n\n| server | echo p50 | p99 | slowest | connect p50 | p99 | failed |\n|---|---|---|---|---|---|---|\n",
    );
    for (row, burst) in rows.iter().zip(bursts) {
        let at = |of: &[f64], rank: usize| of.get(rank).map_or("–".to_owned(), |ms| format!("{ms:.0} ms"));
        let failed = 100.0 * row.figure("failures").unwrap_or(0.0);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {failed:.0} % |",
            row.values[0],
            at(&burst.echo_ms, 500),
            at(&burst.echo_ms, 990),
            at(&burst.echo_ms, 999),
            at(&burst.connect_ms, 500),
            at(&burst.connect_ms, 990)
        );
    }
    page.push_str(
        "\nAll of it is one queue before one CPU: who comes last has waited for all others, whichever design serves them.\n\n",
    );
}

/// What is left after a hundred thousand connections, and the rest that was proved.
fn conduct(page: &mut String, all: &Comparison<'_>) {
    let lines = |mark: &str| -> Vec<Vec<&str>> {
        all.consoles[0]
            .lines()
            .filter(|line| line.starts_with(mark))
            .map(|line| line.split_whitespace().collect())
            .collect()
    };
    page.push_str(
        "## How it bears\n\nA hundred thousand connections, each new, a message each; slab debugging on. Objects in the kernel's slabs and open sockets, before and \
         after (sockets in TIME-WAIT were dropped first, caches emptied):\n\n| model | what | before | after |\n|---|---|---|---|\n",
    );
    let (before, after) = (lines("before "), lines("after "));
    for (was, is) in before.iter().zip(&after) {
        let _ = writeln!(page, "| {} | {} | {} | {} |", was[1], was[3], was[4], is[4]);
    }
    page.push_str("\nAnd what the module counted: ");
    let counted: Vec<String> = lines("counter callback ")
        .iter()
        .map(|words| format!("{} {}", words[2], thousands(words[3].parse().unwrap_or(0.0))))
        .collect();
    let _ = writeln!(page, "{} (`model=callback`).\n", counted.join(", "));
    page.push_str("Proved in the guests, the kernel's log without a complaint:\n\n");
    for (console, kernel) in all.consoles.iter().zip(all.kernels) {
        for line in console.lines().filter_map(|line| line.strip_prefix("proved: ")) {
            let _ = writeln!(page, "- {kernel}: {}", line.trim());
        }
    }
    let one = |mark: &str| lines(mark).first().and_then(|words| words.get(2).copied()).unwrap_or("–").to_owned();
    let _ = write!(
        page,
        "\nTIME-WAIT: after 5,000 new connections {} sockets waited; `plimsoll drop time-wait` ended them, and {} were left. It asks the kernel by \
         sock_diag(7), as `ss -K` does: no module is needed for that, and the one that was published for it has none to add (the decision: \
         [echo in the kernel](decisions/2026-11-25-echo-in-the-kernel.md)).\n",
        one("waiting before"),
        one("waiting after")
    );
}

const COLOURS: [&str; 6] = ["#0b6e99", "#4aa3c7", "#95c8dd", "#c25b00", "#e39a4d", "#7a5195"];
const INK: &str = "#444";

fn svg(width: usize, height: usize, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"DejaVu Sans, sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn text(at: (f64, f64), anchor: &str, text: &str) -> String {
    format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{INK}\">{text}</text>\n", at.0, at.1)
}

/// A bar for each server's round trip, with one client and with a hundred.
pub fn designs_picture(all: &Comparison<'_>) -> String {
    let designs = rows(&all.documents["designs"]);
    let servers = values(&designs, 0);
    let costs = |clients: &str| -> Vec<Option<f64>> {
        servers.iter().map(|server| find(&designs, &[server, clients]).instructions()).collect()
    };
    let most = ["1", "100"].iter().flat_map(|clients| costs(clients)).flatten().fold(1.0, f64::max);
    let (left, width, step) = (150.0, 560.0, 34.0);
    let mut body = text((left, 24.0), "start", "Instructions of a round trip: client, both sides of TCP, server");
    for (series, clients) in ["1", "100"].iter().enumerate() {
        let x = left + 220.0 * series as f64;
        let _ = write!(body, "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{}\"/>", COLOURS[3 * series]);
        body += &text((x + 18.0, 46.0), "start", &format!("{clients} client{}", if series == 0 { "" } else { "s" }));
        for (at, cost) in costs(clients).into_iter().enumerate() {
            let y = 60.0 + step * at as f64 + 13.0 * series as f64;
            if series == 0 {
                body += &text((left - 8.0, y + 16.0), "end", servers[at]);
            }
            let Some(cost) = cost else {
                body += &text((left + 4.0, y + 11.0), "start", "not all were answered");
                continue;
            };
            let length = width * cost / most;
            let _ = writeln!(
                body,
                "<rect x=\"{left}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"12\" fill=\"{}\"/>",
                COLOURS[3 * series]
            );
            body += &text((left + length + 5.0, y + 10.5), "start", &thousands(cost));
        }
    }
    svg(800, 70 + 34 * servers.len(), &body)
}

/// The published picture and a better one.
pub fn burst_picture(document: &Value, bursts: &[Burst]) -> String {
    let rows = rows(document);
    let (top, height, width) = (50.0, 300.0, 360.0);
    let mut body = String::new();
    let lefts = [60.0, 520.0];
    let most = bursts.iter().flat_map(|burst| &burst.echo_ms).fold(1.0_f64, |a, b| a.max(*b));
    // Whole powers of ten around all times.
    let times = || bursts.iter().flat_map(|burst| burst.echo_ms.iter().chain(&burst.connect_ms)).copied();
    let low = times().fold(f64::MAX, f64::min).max(0.001).log10().floor();
    let high = times().fold(0.01, f64::max).log10().ceil();
    let by_rank = |rank: f64| lefts[0] + width * rank / RANKS as f64;
    let linear = |ms: f64| top + height * (1.0 - ms / most);
    // Of the right one: how many of them took longer, on a scale by tens.
    let by_time = |ms: f64| lefts[1] + width * ((ms.log10() - low) / (high - low)).clamp(0.0, 1.0);
    let share = |rank: f64| top + height * (1.0 - (RANKS as f64 / (RANKS as f64 - rank)).log10() / 3.0);
    body += &text((lefts[0], 20.0), "start", "As published: echo time by rank, ms");
    body += &text((lefts[1], 20.0), "start", "How many took longer (echo; dashed: connect), ms");
    for left in lefts {
        let _ = writeln!(
            body,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#ccc\"/>"
        );
    }
    for step in 0..=4 {
        let ms = most * f64::from(step) / 4.0;
        body += &text((lefts[0] - 6.0, linear(ms) + 4.0), "end", &format!("{ms:.0}"));
        let rank = RANKS as f64 * f64::from(step) / 4.0;
        body += &text((by_rank(rank), top + height + 18.0), "middle", &format!("{rank:.0}"));
    }
    for power in low as i32..=high as i32 {
        for factor in [1.0, 2.0, 5.0] {
            let ms = factor * 10_f64.powi(power);
            if ms <= 10_f64.powf(high) {
                body += &text((by_time(ms), top + height + 18.0), "middle", &format!("{ms}"));
            }
        }
    }
    for (rank, label) in [(0.0, "all"), (900.0, "1 in 10"), (990.0, "1 in 100"), (999.0, "1 in 1000")] {
        body += &text((lefts[1] - 6.0, share(rank) + 4.0), "end", label);
    }
    for (at, (row, burst)) in rows.iter().zip(bursts).enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let line = |points: Vec<(f64, f64)>, dash: &str| {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            format!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dash} points=\"{}\"/>\n",
                points.join(" ")
            )
        };
        let ranks = || (0..RANKS).step_by(5).chain([RANKS - 1]);
        body += &line(ranks().map(|rank| (by_rank(rank as f64), linear(burst.echo_ms[rank]))).collect(), "");
        let right = |of: &[f64]| ranks().map(|rank| (by_time(of[rank]), share(rank as f64))).collect::<Vec<_>>();
        body += &line(right(&burst.echo_ms), "");
        body += &line(right(&burst.connect_ms), " stroke-dasharray=\"4 3\"");
        let (x, y) = (60.0 + 280.0 * (at % 3) as f64, 396.0 + 20.0 * (at / 3) as f64);
        let _ = write!(body, "<rect x=\"{x}\" y=\"{:.0}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>", y - 10.0);
        // One that leaves half of them out is not quick: it looks so.
        let failed = row.figure("failures").unwrap_or(0.0);
        let of = if failed > 0.01 {
            format!(", the {:.0} % that it answered", 100.0 * (1.0 - failed))
        } else {
            String::new()
        };
        body += &text((x + 18.0, y), "start", &format!("{}{of}", row.values[0]));
    }
    svg(920, 430, &body)
}
