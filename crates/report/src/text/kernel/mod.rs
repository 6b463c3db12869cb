//! What the kernel's probes saw of the target: times between request and reply, sends, waits, calls, losses.
//!
//! Only what there is: a probe that counted nothing has no line. Times come from histograms by powers of two, so a
//! quantile is an upper edge: at most so much, and more than half of it. What ran in windows stands below how long they
//! were, and what did not fit into the probes' maps at the end.

mod threads;

use super::Paint;
use super::page::Page;
use crate::words::{counted, duration, figure, grouped, length, listed, percent};
use model::Snapshot;
use model::bpf::{BpfSample, CallUse, FileUse, FutexUse, Log2, WaitUse};
use model::threads::ThreadStates;
use model::units::show_bytes;
use std::io::{self, Write};

const INDENT: usize = 17;
/// Lines of a list, longest first.
const LIST_MAX: usize = 5;
/// Frames of a stack that are shown: where it waits, and who asked for it.
const FRAMES_MAX: usize = 4;

/// Writes the section, where there is a sample of the probes.
pub(crate) fn write<W: Write>(page: &mut Page<'_, W>, snapshots: &[Snapshot]) -> io::Result<()> {
    let samples = || snapshots.iter().rev().filter_map(|snapshot| snapshot.bpf.as_ref());
    let Some(last) = samples().next() else { return Ok(()) };
    let seen = Seen(last);
    let always = [
        ("losses", seen.losses()),
        ("TLS handshakes", seen.handshakes()),
        ("collector", seen.times("collector.pause_ns", "paused by the language runtime, of each collection")),
    ];
    // Waits are of the last window alone, which a later sample does not repeat.
    let waits = samples().map(|bpf| &bpf.waits).find(|waits| !waits.is_empty());
    let states = samples().find_map(|bpf| bpf.threads.as_ref());
    let threads = threads::rows(states.unwrap_or(&ThreadStates::default()), &last.long_calls);
    let windows = [
        ("run queue", seen.times("runqueue.wait_ns", "runnable, without a CPU")),
        ("service", seen.times("sockets.service_ns", "from a request’s arrival to sending its reply")),
        ("others", seen.others()),
        ("first read", seen.times("sockets.first_read_ns", "from established")),
        ("accept queue", seen.times("sockets.accept_queue_ns", "from established to accepted")),
        ("unread", seen.times("sockets.accepted_read_ns", "from accepted to first read")),
        ("receives", seen.receives()),
        ("sends", seen.sends()),
        ("system calls", seen.calls()),
        ("off CPU", waits.map(|waits| of_waits(waits)).unwrap_or_default()),
        ("futex", seen.futexes()),
        ("files", seen.files()),
        ("kernel locks", seen.times("locks.wait_ns", "")),
        ("block I/O", seen.block()),
        ("delayed ACKs", seen.delayed_acks()),
    ];
    let windows: Vec<(&str, Vec<String>)> = windows.into_iter().chain(threads).collect();
    let lost = seen.lost();
    if always.iter().chain(&windows).all(|(_, lines)| lines.is_empty()) && lost.is_empty() {
        return Ok(());
    }
    page.gap()?;
    let about = "what its probes saw of the target; quantiles are “at most”, by powers of two";
    page.wrapped(INDENT, (Paint::Heading, "Kernel".to_owned()), Paint::Dim, about)?;
    rows(page, &always)?;
    if windows.iter().any(|(_, lines)| !lines.is_empty()) {
        page.wrapped(5, (Paint::Dim, "  in".to_owned()), Paint::Dim, &seen.windows())?;
        rows(page, &windows)?;
    }
    let cut = seen.cut();
    if !cut.is_empty() {
        page.wrapped(INDENT, (Paint::Dim, "  cut".to_owned()), Paint::Dim, &cut)?;
    }
    if !lost.is_empty() {
        page.wrapped(INDENT, (Paint::Warn, "  lost".to_owned()), Paint::Warn, &lost)?;
    }
    Ok(())
}

fn rows<W: Write>(page: &mut Page<'_, W>, rows: &[(&str, Vec<String>)]) -> io::Result<()> {
    for (name, lines) in rows {
        let mut label = format!("  {name}");
        for line in lines {
            page.wrapped(INDENT, (Paint::Plain, std::mem::take(&mut label)), Paint::Plain, line)?;
        }
    }
    Ok(())
}

/// A sample, as lines of text; no line where nothing was counted.
struct Seen<'a>(&'a BpfSample);

impl Seen<'_> {
    fn count(&self, name: &str) -> u64 {
        self.0.counts.get(name).copied().unwrap_or(0)
    }

    /// A histogram that is not empty.
    fn histogram(&self, name: &str) -> Option<&Log2> {
        self.0.histograms.get(name).filter(|histogram| histogram.count() > 0)
    }

    /// Parts for counts that are not zero.
    fn counted(&self, probe: &str, of: &[(&str, &str)]) -> Vec<String> {
        let part = |(name, words): &(&str, &str)| match self.count(&format!("{probe}.{name}")) {
            0 => None,
            n => Some(format!("{} {words}", grouped(n))),
        };
        of.iter().filter_map(part).collect()
    }

    fn times(&self, name: &str, meaning: &str) -> Vec<String> {
        let of = |histogram: &Log2| {
            let mut parts = vec![quantiles(histogram), format!("×{}", grouped(histogram.count()))];
            parts.extend((!meaning.is_empty()).then(|| meaning.to_owned()));
            listed(&parts)
        };
        self.histogram(name).map(of).into_iter().collect()
    }

    fn receives(&self) -> Vec<String> {
        self.histogram("sockets.receive_bytes").map(sizes).into_iter().collect()
    }

    fn sends(&self) -> Vec<String> {
        let Some(bytes) = self.histogram("sockets.send_bytes") else { return Vec::new() };
        let nodelay = self.count("sockets.sends_nodelay") as f64 / bytes.count() as f64;
        let mut parts = vec![sizes(bytes), format!("NODELAY {}", percent(100.0 * nodelay))];
        parts.extend(self.counted(
            "sockets",
            &[
                ("small_sends_in_flight", "small with data in flight"),
                ("sends_held_back", "held back by Nagle’s rule"),
                ("send_buffer_full", "found the send buffer full"),
            ],
        ));
        vec![listed(&parts)]
    }

    fn losses(&self) -> Vec<String> {
        let of = |(name, noun, rest): (&str, &str, &str)| match self.count(name) {
            0 => None,
            n => Some(format!("{}{rest}", counted(n, noun))),
        };
        let counts = [
            ("losses.retransmits", "segment", " sent again"),
            ("losses.resets_sent", "reset", " sent"),
            ("losses.resets_received", "reset", " received"),
            ("losses.drops", "segment", " dropped"),
        ];
        let mut parts: Vec<String> = counts.into_iter().filter_map(of).collect();
        let mut reasons: Vec<(&String, u64)> = self.0.drops.iter().map(|(reason, n)| (reason, *n)).collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let named: Vec<String> = reasons.iter().map(|(reason, n)| format!("{reason} ×{}", grouped(*n))).collect();
        if let (Some(dropped), false) = (parts.last_mut(), named.is_empty()) {
            *dropped += &format!(" ({})", named.join(", "));
        }
        if parts.is_empty() { Vec::new() } else { vec![listed(&parts)] }
    }

    fn handshakes(&self) -> Vec<String> {
        let mut parts = self.counted("tls", &[("completed", "by libssl"), ("failed", "failed")]);
        parts.extend(self.histogram("tls.handshake_ns").map(quantiles));
        parts.extend(self.histogram("tls.inside_ns").map(|inside| format!("inside it {}", quantiles(inside))));
        if parts.is_empty() { Vec::new() } else { vec![listed(&parts)] }
    }

    fn windows(&self) -> String {
        let bpf = self.0;
        let all = length(bpf.window_ns);
        // A little less is the time that closing one probe after the other takes.
        let calls = match bpf.calls_window_ns {
            0 => String::new(),
            ns if ns > bpf.window_ns / 10 * 9 => String::new(),
            ns => format!("; system calls and delayed ACKs, of which there were enough, in {} of it", length(ns)),
        };
        match bpf.windows {
            0 => "windows that have not ended".to_owned(),
            1 => format!("one window of {all}{calls}"),
            n => format!("{n} windows of {} each, {all} in all{calls}", length(bpf.window_ns / n)),
        }
    }

    fn calls(&self) -> Vec<String> {
        let all: u64 = self.0.calls.iter().map(|call| call.count).sum();
        if all == 0 {
            return Vec::new();
        }
        let mut first = vec![grouped(all)];
        if self.0.window_replies > 0 {
            first.push(format!("{} a reply", figure(all as f64 / self.0.window_replies as f64)));
        }
        first.push("longest in all:".to_owned());
        let line = |call: &CallUse| {
            let mut parts = vec![format!("{} ×{}", call.name, grouped(call.count)), duration(call.ns)];
            parts.extend((call.errors > 0).then(|| match &errors_of(call)[..] {
                "" => counted(call.errors, "error"),
                names => format!("{} ({names})", counted(call.errors, "error")),
            }));
            parts.extend((call.not_ended > 0).then(|| format!("{} not ended", grouped(call.not_ended))));
            listed(&parts)
        };
        std::iter::once(listed(&first)).chain(self.0.calls.iter().take(LIST_MAX).map(line)).collect()
    }

    fn futexes(&self) -> Vec<String> {
        let mut first: Vec<String> = self.times("futex.wait_ns", "without a time limit");
        let timed = self.counted("futex", &[("timed_waits", "with one"), ("timeouts", "reached it")]);
        if let (Some(line), false) = (first.first_mut(), timed.is_empty()) {
            *line += &format!(", {}", listed(&timed));
        }
        if first.is_empty() && !timed.is_empty() {
            first.push(format!("waits with a time limit alone: {}", listed(&timed)));
        }
        let line = |futex: &FutexUse| {
            let parts = [
                futex.place.clone(),
                format!("{} in {}", duration(futex.ns), counted(futex.count, "wait")),
                format!("of {}", counted(futex.waiters, "thread")),
            ];
            listed(&parts)
        };
        first.extend(self.0.futexes.iter().filter(|futex| futex.count > 0).take(LIST_MAX).map(line));
        first
    }

    fn others(&self) -> Vec<String> {
        let requests = self.count("sockets.others_requests");
        // The generator's own first request on a connection that is older than the probe counts as another's.
        let own_at_most = self.count("sockets.generator_ports");
        let Some(service) = self.histogram("sockets.others_service_ns").filter(|_| requests > own_at_most) else {
            return Vec::new();
        };
        vec![listed(&[format!("{} of other clients", counted(requests, "request")), quantiles(service)])]
    }

    fn files(&self) -> Vec<String> {
        let line = |file: &FileUse| format!("{} opened ×{}", file.path, grouped(file.opens));
        self.0.files.iter().filter(|file| file.opens > 1).take(LIST_MAX).map(line).collect()
    }

    fn block(&self) -> Vec<String> {
        let mut lines = self.times("block.io_ns", "of the whole host");
        let more =
            self.counted("block", &[("issued_by_target", "issued by the target itself"), ("errors", "with an error")]);
        if let (Some(line), false) = (lines.first_mut(), more.is_empty()) {
            *line += &format!(", {}", listed(&more));
        }
        lines
    }

    fn delayed_acks(&self) -> Vec<String> {
        let pairs = self.count("delayed_acks.pairs");
        let Some(held) = self.histogram("delayed_acks.held_ns") else { return Vec::new() };
        let sends = counted(pairs, "small send");
        let mut parts = vec![format!("{sends} held until a bare acknowledgement")];
        parts.extend(self.counted("delayed_acks", &[("pairs_at_40ms", "for 36 to 48 ms")]));
        parts.push(quantiles(held));
        vec![listed(&parts)]
    }

    /// What a window cut: it is in no time above.
    fn cut(&self) -> String {
        let all = |ends: &str| -> Vec<String> {
            let of = |(name, n): (&String, &u64)| {
                let probe = name.strip_suffix(ends).filter(|_| *n > 0)?;
                Some(format!("{probe} {}", grouped(*n)))
            };
            self.0.counts.iter().filter_map(of).collect()
        };
        let (before, after) = (all(".began_before"), all(".not_ended"));
        let told = [("begun before a window", before), ("not ended in it", after)];
        let parts: Vec<String> = told
            .into_iter()
            .filter(|(_, parts)| !parts.is_empty())
            .map(|(what, parts)| format!("{what}: {}", listed(&parts)))
            .collect();
        if parts.is_empty() { String::new() } else { format!("without a time: {}", parts.join("; ")) }
    }

    /// What did not fit into a bounded map.
    fn lost(&self) -> String {
        let lost = self.0.counts.iter().filter(|(name, n)| name.ends_with("_lost") && **n > 0);
        let parts: Vec<String> =
            lost.map(|(name, n)| format!("{} {}", name.trim_end_matches("_lost"), grouped(*n))).collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!("not counted, as the probes’ maps were full: {}", listed(&parts))
        }
    }
}

/// Which errors a call returned, the most frequent first.
fn errors_of(call: &CallUse) -> String {
    let mut errors: Vec<(&String, &u64)> = call.errors_by.iter().collect();
    errors.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let each = errors.into_iter().take(LIST_MAX).map(|(name, times)| format!("{name} {}", grouped(*times)));
    listed(&each.collect::<Vec<_>>())
}

/// Where threads wait: those states and stacks that took longest.
fn of_waits(waits: &[WaitUse]) -> Vec<String> {
    let line = |wait: &WaitUse| {
        let stack: Vec<&str> = wait.stack.iter().take(FRAMES_MAX).map(String::as_str).collect();
        let parts = [
            format!("thread {} {}", wait.tid, wait.state),
            format!("{} in {}", duration(wait.ns), counted(wait.count, "wait")),
            stack.join(" ← "),
        ];
        parts.join(", ")
    };
    waits.iter().take(LIST_MAX).map(line).collect()
}

/// `p50 131 µs, p99 1.05 ms`, each an upper edge.
fn quantiles(histogram: &Log2) -> String {
    let of = |quantile: f64| histogram.at_most(quantile).map_or_else(|| "–".to_owned(), duration);
    format!("p50 {}, p99 {}", of(0.5), of(0.99))
}

fn sizes(histogram: &Log2) -> String {
    let mean = histogram.mean().map_or_else(|| "–".to_owned(), show_bytes);
    format!("{} of {mean} on average", grouped(histogram.count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Style;
    use model::bpf::LongCall;
    use model::threads::{FutexHolder, Pause, Stall, ThreadTime, WaitPlace, Wake};
    use std::collections::BTreeMap;

    fn text(bpf: BpfSample, width: usize, unicode: bool) -> String {
        let mut out = Vec::new();
        let snapshots = [Snapshot { bpf: Some(bpf), ..Snapshot::default() }];
        write(&mut Page::new(&mut out, Style { color: false, width, unicode }), &snapshots).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
        of.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
    }

    /// So many values of so many binary digits.
    fn values(bits: usize, n: u64) -> Log2 {
        let mut buckets = vec![0; bits + 1];
        buckets[bits] = n;
        Log2 { sum: n << (bits - 1), buckets }
    }

    fn full() -> BpfSample {
        let histograms = [
            ("sockets.service_ns", values(17, 2000)),
            ("sockets.others_service_ns", values(28, 12)),
            ("sockets.first_read_ns", values(15, 16)),
            ("sockets.receive_bytes", values(7, 2000)),
            ("sockets.send_bytes", values(10, 4000)),
            ("runqueue.wait_ns", values(14, 9000)),
            ("tls.handshake_ns", values(21, 30)),
            ("collector.pause_ns", values(24, 9)),
            ("tls.inside_ns", values(20, 30)),
            ("futex.wait_ns", values(18, 1500)),
            ("locks.wait_ns", values(12, 40)),
            ("block.io_ns", values(19, 77)),
            ("delayed_acks.held_ns", values(26, 120)),
        ];
        let call = |name: &str, count, ns| CallUse {
            name: name.to_owned(),
            count,
            errors: count / 100,
            ns,
            ..CallUse::default()
        };
        BpfSample {
            counts: counts(&[
                ("sockets.sends_nodelay", 1000),
                ("sockets.others_requests", 12),
                ("sockets.small_sends_in_flight", 1900),
                ("sockets.sends_held_back", 120),
                ("losses.retransmits", 3),
                ("losses.resets_received", 12),
                ("losses.drops", 45),
                ("tls.completed", 30),
                ("tls.failed", 10),
                ("futex.timed_waits", 25),
                ("futex.timeouts", 20),
                ("block.issued_by_target", 70),
                ("delayed_acks.pairs", 120),
                ("delayed_acks.pairs_at_40ms", 112),
                ("sockets.sockets_lost", 0),
                ("offcpu.waits_lost", 7),
            ]),
            histograms: histograms.into_iter().map(|(name, h)| (name.to_owned(), h)).collect(),
            drops: counts(&[("NO_SOCKET", 4), ("TCP_LISTEN_OVERFLOW", 41)]),
            windows: 3,
            window_ns: 3_012_000_000,
            calls_window_ns: 640_000_000,
            window_replies: 1900,
            calls: ["epoll_wait", "sendmsg", "futex", "read", "close", "getpid"]
                .iter()
                .zip(1..)
                .map(|(name, i)| call(name, 2000 / i, 900_000_000 / i))
                .collect(),
            waits: vec![WaitUse {
                tid: 4242,
                state: "sleeping".to_owned(),
                count: 1900,
                ns: 2_100_000_000,
                stack: [
                    "schedule_hrtimeout_range_clock",
                    "ep_poll",
                    "do_epoll_wait",
                    "__x64_sys_epoll_wait",
                    "libc.so.6+0x10",
                ]
                .map(str::to_owned)
                .to_vec(),
            }],
            futexes: vec![
                FutexUse {
                    pid: 4242,
                    address: 0x7f00_1234_5678,
                    place: "0x7f0012345678".to_owned(),
                    count: 1480,
                    ns: 1_800_000_000,
                    waiters: 4,
                    ..FutexUse::default()
                },
                FutexUse { pid: 4242, place: "only timed".to_owned(), timed_count: 25, ..FutexUse::default() },
            ],
            files: [("/etc/localtime", 7600), ("/etc/hosts", 1)]
                .map(|(path, opens)| FileUse { path: path.to_owned(), opens })
                .to_vec(),
            long_calls: vec![
                LongCall {
                    name: "fsync".to_owned(),
                    at: "log".to_owned(),
                    count: 33,
                    ns: 210_000_000,
                    longest_ns: 12_000_000,
                    longest_tid: 4243,
                    longest_at_ns: 3_000_000_000,
                },
                LongCall {
                    name: "none".to_owned(),
                    at: "none".to_owned(),
                    count: 2,
                    ns: 61_000_000,
                    longest_ns: 50_000_000,
                    longest_tid: 4242,
                    longest_at_ns: 3_100_000_000,
                },
            ],
            threads: Some(threads()),
        }
    }

    /// One that works, one that waits for a lock that the other holds, and some that have ended.
    fn threads() -> ThreadStates {
        let text = str::to_owned;
        let thread = |tid, name: &str, ns: &[(&str, u64)], waits| ThreadTime {
            threads: 1,
            pid: 4242,
            tid,
            name: text(name),
            alive_ns: 3_000_000_000,
            ns: counts(ns),
            waits,
        };
        let asks = WaitPlace {
            state: text("socket"),
            call: text("recvfrom"),
            at: text("backend"),
            remote: Some(text("10.0.0.2:5432")),
            ..WaitPlace::default()
        };
        ThreadStates {
            window_ns: 3_000_000_000,
            threads: vec![
                thread(
                    4242,
                    "worker-0",
                    &[("on-cpu", 2_400_000_000), ("socket", 590_000_000), ("runnable", 10_000_000)],
                    vec![asks],
                ),
                thread(4243, "worker-1", &[("on-cpu", 300_000_000), ("futex", 2_700_000_000)], vec![]),
            ],
            others: Some(ThreadTime { threads: 12, alive_ns: 9, ..ThreadTime::default() }),
            wakes: vec![Wake {
                tid: 4243,
                state: text("futex"),
                by: text("thread"),
                waker_tid: 4242,
                waker_name: text("worker-0"),
                count: 1480,
                ns: 2_650_000_000,
            }],
            holders: vec![FutexHolder {
                pid: 4242,
                place: text("server+0x4040"),
                tid: 4242,
                known_by: text("owner"),
                waits: 1480,
                ns: 2_600_000_000,
                ran_ns: 2_340_000_000,
                ..FutexHolder::default()
            }],
            stalls: vec![Stall {
                tid: 4242,
                from_ns: 3_217_000_000,
                ns: 41_000_000,
                state: text("socket"),
                call: text("recvfrom"),
                at: text("backend"),
            }],
            pauses: vec![Pause {
                from_ns: 3_300_000_000,
                ns: 120_000_000,
                ended_by: 4242,
                threads: counts(&[("stopped", 2)]),
            }],
        }
    }

    #[test]
    fn what_the_probes_saw_reads_well() {
        insta::assert_snapshot!("kernel_100", text(full(), 100, true));
        for width in [60, 80, 100, 200] {
            let text = text(full(), width, false);
            assert!(text.is_ascii() && text.lines().all(|line| line.len() <= width), "{width}: {text}");
        }
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert_eq!(text(BpfSample::default(), 80, true), "");
        let zeros =
            BpfSample { counts: counts(&[("sockets.sends", 0), ("sockets.sockets_lost", 0)]), ..full_of_nothing() };
        assert_eq!(text(zeros, 80, true), "");
        let one = BpfSample { counts: counts(&[("losses.resets_sent", 1)]), ..BpfSample::default() };
        let text = text(one, 100, true);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("1 reset sent") && !text.contains("window"), "{text}");
    }

    fn full_of_nothing() -> BpfSample {
        let histograms =
            full().histograms.into_keys().map(|name| (name, Log2 { sum: 0, buckets: vec![0; 4] })).collect();
        BpfSample { histograms, windows: 2, window_ns: 2_000_000_000, ..BpfSample::default() }
    }
}
