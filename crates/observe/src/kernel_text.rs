//! What the kernel writes of trouble, line by line: which kind it is, the process it names, and where in the kernel it was.
//!
//! A fault is several lines: a first one that says what (`BUG: kernel NULL pointer dereference`), then the task, the instruction
//! (`RIP: 0010:echo_conn_receive+0x5a/0x110 [plimsoll_echo]`) and the calls that led there. They are put together into one event,
//! whose text ends in the place and a fingerprint of kind, place and calls, without addresses, offsets and process ids: the same
//! fault has the same one after a restart, in another build and on another machine. Pure.

use model::Event;
use model::event::Details;

/// What is looked for, the first that fits counts: kind of event, a part of the text.
const TROUBLE: &[(&str, &str)] = &[
    ("kernel-oom-kill", "Out of memory: Killed process"),
    ("kernel-oom-kill", "emory cgroup out of memory: Killed process"),
    ("kernel-allocation-failure", "page allocation failure"),
    ("kernel-hung-task", "blocked for more than"),
    ("kernel-soft-lockup", "soft lockup"),
    ("kernel-hard-lockup", "hard LOCKUP"),
    ("kernel-stall", "detected stall"),
    ("kernel-stall", "self-detected stall"),
    ("kernel-bug", "BUG: "),
    ("kernel-bug", "kernel BUG at"),
    ("kernel-oops", "Oops: "),
    ("kernel-oops", "general protection fault"),
    ("kernel-panic", "Kernel panic"),
    ("kernel-warning", "WARNING: "),
    ("kernel-syn-flooding", "Possible SYN flooding"),
    ("kernel-tcp-memory", "TCP: out of memory"),
    ("kernel-orphans", "too many orphaned sockets"),
    ("kernel-conntrack-full", "table full, dropping packet"),
    ("kernel-neighbour-full", "neighbour: arp_cache: neighbor table overflow"),
    ("kernel-segfault", "segfault at"),
    ("kernel-trap", "trap invalid opcode"),
    ("kernel-io-error", "I/O error, dev"),
];
/// Kinds whose lines go on with a place and the calls that led there.
const WITH_TRACE: &[&str] = &["kernel-bug", "kernel-oops", "kernel-warning", "kernel-soft-lockup", "kernel-stall"];
/// Lines after the first that may belong to it.
const TRACE_LINES_MAX: u32 = 120;
/// Calls that make the fingerprint, the innermost first: what led to these differs from one request to the next.
const CALLS_MAX: usize = 6;
const TEXT_CHARS_MAX: usize = 300;

/// Puts lines together.
#[derive(Debug, Default)]
pub(crate) struct KernelText {
    open: Option<Open>,
}

/// A fault whose lines still come.
#[derive(Debug)]
struct Open {
    event: Event,
    lines: u32,
    place: Option<String>,
    calls: Vec<String>,
    is_in_calls: bool,
}

impl KernelText {
    /// Takes in a line that was said at a moment; what it ends, and what it is itself, oldest first.
    pub(crate) fn line(&mut self, at_ns: i64, text: &str) -> Vec<Event> {
        let found = TROUBLE.iter().find(|(_, part)| text.contains(part)).map(|(kind, _)| *kind);
        let is_own = match (found, &self.open) {
            (None, None) => return Vec::new(),
            // An oops follows on the line that says what it is of, and the trace is of both.
            (Some("kernel-oops"), Some(open)) if open.event.kind == "kernel-bug" && open.place.is_none() => {
                let text = text.chars().take(TEXT_CHARS_MAX).collect::<String>();
                return vec![Event::new(at_ns, "kernel-oops", text)];
            }
            (None, Some(_)) => false,
            (Some(_), _) => true,
        };
        if !is_own {
            let is_over = self.open.as_mut().is_some_and(|open| open.take(text));
            return if is_over { self.end().into_iter().collect() } else { Vec::new() };
        }
        let mut events: Vec<Event> = self.end().into_iter().collect();
        let Some(kind) = found else { return events };
        let event = Event::new(at_ns, kind, text.chars().take(TEXT_CHARS_MAX).collect::<String>()).with(known_of(text));
        match WITH_TRACE.contains(&kind) {
            true => {
                let (place, calls) = (None, Vec::new());
                self.open = Some(Open { event, lines: 0, place, calls, is_in_calls: false });
            }
            false => events.push(event),
        }
        events
    }

    /// The fault whose lines were still coming, as far as they came: for who has read all there is.
    pub(crate) fn end(&mut self) -> Option<Event> {
        self.open.take().map(Open::told)
    }
}

impl Open {
    /// Takes in a line; whether it was the last one.
    fn take(&mut self, text: &str) -> bool {
        self.lines += 1;
        let text = text.trim();
        if text.contains("---[ end trace") || self.lines >= TRACE_LINES_MAX {
            return true;
        }
        if text.starts_with("Call Trace:") {
            self.is_in_calls = true;
        } else if text == "</TASK>" || text.starts_with("Modules linked in") {
            self.is_in_calls = false;
        } else if let Some(at) = text.strip_prefix("RIP: ").or_else(|| text.strip_prefix("pc : ")) {
            // `0010:name+0x1/0x2 [module]`; a user's own has an address instead of a name.
            let name = at.split_once(':').map_or(at, |(_, name)| name);
            if self.place.is_none() {
                self.place = function(name);
            }
        } else if self.is_in_calls && !text.starts_with('?') && self.calls.len() < CALLS_MAX {
            self.calls.extend(function(text));
        }
        if let Some((_, task)) = text.split_once("Comm: ")
            && self.event.details.process.is_none()
        {
            let pid = text.split_once("PID: ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
            // The name may hold blanks: it ends where the taint, or the kernel's release, begins.
            let name = task.split(" Tainted:").next().unwrap_or(task).split(" Not tainted").next().unwrap_or(task);
            let details = &mut self.event.details;
            (details.pid, details.process) = (pid, Some(name.trim().to_owned()));
        }
        false
    }

    fn told(self) -> Event {
        let Open { mut event, place, calls, .. } = self;
        if let Some(place) = place.as_ref().or(calls.first()) {
            let mut hash = Fingerprint::default();
            [&event.kind, place].into_iter().chain(&calls).for_each(|word| hash.word(word));
            event.text = format!("{}, at {place}, fingerprint {}", event.text, hash.shown());
        }
        event
    }
}

/// `name+0x1a/0x20 [module]` as `name [module]`; `None`: it is no function's.
fn function(text: &str) -> Option<String> {
    let (name, rest) = text.split_once("+0x")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    // What the compiler appends to parts of a function differs between builds.
    let name = name.split('.').next().unwrap_or(name);
    let module = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(module, _)| module);
    Some(module.map_or_else(|| name.to_owned(), |module| format!("{name} [{module}]")))
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits, of which half are shown: it tells faults apart, and guards nothing.
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    fn word(&mut self, word: &str) {
        for byte in word.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn shown(&self) -> String {
        format!("{:08x}", self.0 >> 32)
    }
}

/// The process that the kernel names: `Killed process 812 (nginx)`, `task nginx:812 blocked`, `nginx[812]: segfault`. Its id
/// is that of the initial PID namespace.
fn known_of(text: &str) -> Details {
    let found = || {
        if let Some((_, rest)) = text.split_once("Killed process ") {
            let (pid, rest) = rest.split_once(" (")?;
            return Some((rest.split_once(')')?.0, pid));
        }
        if let Some((_, rest)) = text.split_once("task ")
            && text.contains("blocked for more than")
        {
            return rest.split_once(' ')?.0.rsplit_once(':');
        }
        let (name, rest) = text.split_once('[').filter(|_| text.contains("segfault at") || text.contains("trap "))?;
        Some((name, rest.split_once("]:")?.0))
    };
    let known = found().and_then(|(name, pid)| Some((name, pid.parse().ok()?)));
    known.map_or_else(Details::default, |(name, pid)| Details {
        pid: Some(pid),
        process: Some(name.to_owned()),
        ..Details::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &[&str]) -> Vec<Event> {
        let mut text = KernelText::default();
        let mut events: Vec<Event> = lines.iter().flat_map(|line| text.line(7, line)).collect();
        events.extend(text.end());
        events
    }

    #[test]
    fn the_process_that_the_kernel_names_is_known_by_its_fields() {
        for (text, name) in [
            ("Memory cgroup out of memory: Killed process 812 (nginx) total-vm:1kB", "nginx"),
            ("INFO: task a:b:812 blocked for more than 120 seconds.", "a:b"),
            ("a.out[812]: segfault at 0 ip 000055 sp 00007f error 6 in a.out", "a.out"),
        ] {
            let known = known_of(text);
            assert_eq!((known.pid, known.process.as_deref()), (Some(812), Some(name)), "{text}");
        }
        for text in
            ["Killed process x (nginx)", "Killed process 812", "BUG: [812]: x", "task blocked for more than", ""]
        {
            assert!(known_of(text).is_empty(), "{text}");
        }
    }

    /// Texts as kernels 6.1 to 6.18 write them.
    #[test]
    fn each_kind_of_trouble_is_known() {
        for (kind, text) in [
            ("kernel-oom-kill", "Out of memory: Killed process 812 (nginx) total-vm:1kB, anon-rss:2kB"),
            ("kernel-oom-kill", "Memory cgroup out of memory: Killed process 812 (nginx) total-vm:1kB"),
            ("kernel-allocation-failure", "nginx: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL)"),
            ("kernel-hung-task", "INFO: task nginx:812 blocked for more than 120 seconds."),
            ("kernel-soft-lockup", "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [nginx:812]"),
            ("kernel-bug", "BUG: kernel NULL pointer dereference, address: 0000000000000010"),
            ("kernel-oops", "Oops: 0002 [#1] PREEMPT SMP NOPTI"),
            ("kernel-oops", "Oops: general protection fault, probably for non-canonical address"),
            ("kernel-stall", "rcu: INFO: rcu_preempt self-detected stall on CPU"),
            (
                "kernel-syn-flooding",
                "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. Sending cookies.",
            ),
            ("kernel-conntrack-full", "nf_conntrack: nf_conntrack: table full, dropping packet"),
            ("kernel-segfault", "a.out[77]: segfault at 0 ip 000055 sp 00007f error 6 in a.out"),
        ] {
            let events = all(&[text]);
            let found: Vec<(&str, &str)> = events.iter().map(|e| (e.kind.as_str(), e.text.as_str())).collect();
            assert_eq!(found, [(kind, text)]);
        }
        assert_eq!(all(&["eth0: link up", "", ";", "Call Trace:"]), []);
    }

    const FAULT: [&str; 15] = [
        "BUG: kernel NULL pointer dereference, address: 0000000000000000",
        "#PF: supervisor write access in kernel mode",
        "Oops: 0002 [#1] PREEMPT SMP NOPTI",
        "CPU: 1 PID: 25 Comm: kworker/u4:1 Tainted: G           OE      6.1.0-56-cloud-amd64 #1  Debian 6.1.192-2",
        "Workqueue: plimsoll_echo serve [plimsoll_echo]",
        "RIP: 0010:echo_conn_receive+0x9d/0x120 [plimsoll_echo]",
        "RSP: 0018:ffffb8c0400cbe50 EFLAGS: 00010246",
        "Call Trace:",
        " <TASK>",
        " ? __die_body.cold+0x1a/0x1f",
        " echo_conn_serve.isra.0+0x25/0x60 [plimsoll_echo]",
        " process_one_work+0x1c4/0x380",
        " </TASK>",
        "RIP: 0033:0x7f0000001234",
        "---[ end trace 0000000000000000 ]---",
    ];

    #[test]
    fn a_fault_is_one_event_with_its_place_and_the_same_fingerprint_each_time() {
        let events = all(&FAULT);
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["kernel-oops", "kernel-bug"]);
        let bug = &events[1];
        assert_eq!((bug.details.pid, bug.details.process.as_deref()), (Some(25), Some("kworker/u4:1")));
        let (text, fingerprint) = bug.text.rsplit_once(" fingerprint ").unwrap();
        assert!(text.ends_with("address: 0000000000000000, at echo_conn_receive [plimsoll_echo],"), "{text}");
        let moved: Vec<String> = FAULT
            .iter()
            .map(|line| line.replace("+0x9d/0x120", "+0x11/0x130").replace("PID: 25", "PID: 9").replace(".isra.0", ""))
            .collect();
        let moved: Vec<&str> = moved.iter().map(String::as_str).collect();
        assert!(all(&moved)[1].text.ends_with(fingerprint), "another boot and build");
        let elsewhere: Vec<String> = FAULT.iter().map(|line| line.replace("echo_conn_receive", "echo_send")).collect();
        let elsewhere: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
        assert!(!all(&elsewhere)[1].text.ends_with(fingerprint), "another place");
        // Cut anywhere it is still told, once.
        for cut in 1..FAULT.len() {
            let bugs = all(&FAULT[..cut]).iter().filter(|event| event.kind == "kernel-bug").count();
            assert_eq!(bugs, 1, "after {cut} lines");
        }
    }

    #[test]
    fn two_faults_are_two() {
        let twice: Vec<&str> = FAULT.iter().chain(&FAULT).copied().collect();
        assert_eq!(all(&twice).iter().filter(|event| event.kind == "kernel-bug").count(), 2);
        let cut: Vec<&str> = FAULT[..6].iter().chain(&FAULT).copied().collect();
        assert_eq!(all(&cut).iter().filter(|event| event.kind == "kernel-bug").count(), 2);
    }
}
