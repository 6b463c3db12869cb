//! `thundering-herd`: each new connection wakes several workers of the target, of which one finds it.
//!
//! Evidence: (process) its threads went to sleep, and so were woken, more than twice and a half a connection beyond once a
//! request; (kernel) they were woken for nothing more often than by an accept that is made until nothing is left (once a
//! connection): accepts came back with nothing, or a thread was woken within epoll_wait(2) and waited on there. Needs
//! hundreds of connections. It costs CPU time and no request waits for it while there is some, so it is for information.
//! Refuted below, and where connections last. Busy workers do not sleep, so a full target has none. Source: epoll_ctl(2),
//! EPOLLEXCLUSIVE; measured with four workers: 3.8 wake-ups a connection, 0.9 without; for nothing 3.6 and 1.0.

use crate::evidence::{Kernel, Process};
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{EMPTY_ACCEPTS, HERD_WAKES};
use model::finding::Severity;

/// Calls that wait for events of descriptors. A call that need not wait returns without a wake-up.
const POLLS: [&str; 3] = ["epoll_wait", "epoll_pwait", "epoll_pwait2"];
const CONNECTIONS_MIN: f64 = 200.0;
const ACCEPTS_MIN: u64 = 50;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "thundering-herd",
    needs: Needs::Connections,
    reads: &[&["process/switches"], &["bpf/syscalls"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let connected = facts.recording.totals.in_time.connected as f64;
    if connected < CONNECTIONS_MIN {
        return Verdict::not_applicable("hardly a connection was made in the measured time");
    }
    let Some(window) = facts.read_window() else {
        return Verdict::not_observable("wake-ups", "fewer than two readings of the target's threads");
    };
    let switches = |thread: &crate::usage::ThreadUse<'_>| {
        let process =
            facts.history.threads(model::snapshot::Role::Target, window).find(|(_, tid, _)| *tid == thread.tid);
        let subject = crate::history::Subject::Thread(process?.0, thread.tid);
        let grown = facts.history.growth(crate::history::Metric::new(subject, "switches.voluntary"), window).ok()?;
        Some((grown.value, grown.covered_ns as f64))
    };
    let (mut sleeps, mut threads) = (0.0, 0u32);
    for (grown, covered_ns) in facts.target_threads.iter().filter_map(switches) {
        sleeps += grown * window.length_ns() as f64 / covered_ns.max(1.0);
        threads += u32::from(grown >= connected / 10.0);
    }
    if sleeps <= 0.0 {
        return Verdict::not_observable("wake-ups", "how often the target's threads left a CPU was not read twice");
    }
    let wakes = (sleeps - facts.ended).max(0.0) / connected;
    let text = format!("{threads} threads were woken {wakes:.1} times a connection, beyond once a request");
    let process = facts.piece::<Process>(text, "target.wakes_a_connection", wakes, "wake-ups").from(HERD_WAKES.value);
    if wakes < HERD_WAKES.value || threads < 2 {
        return Verdict::refuted("a connection wakes hardly more than one worker").because(process.into());
    }
    let counted = |name| facts.counted(name);
    let (Some(accepted), Some(empty)) = (counted("accepts.accepted"), counted("accepts.empty_handed")) else {
        return Verdict::not_observable("accepts with nothing", "the target's accepts were not counted")
            .because(process.into());
    };
    if accepted < ACCEPTS_MIN {
        return Verdict::not_observable("accepts with nothing", "too few accepts fell into the probes' windows")
            .because(process.into());
    }
    let within = woken_within_epoll(facts);
    let share = (empty as f64 + within) / accepted as f64;
    let within = match within as u64 {
        0 => String::new(),
        within => format!(", and {within} times a thread was woken within epoll_wait(2) and found nothing"),
    };
    let text = format!("{empty} accepts came back with nothing for {accepted} that brought a connection{within}");
    let kernel = facts.piece::<Kernel>(text, "accepts.empty_share", share, "ratio").from(EMPTY_ACCEPTS.value);
    if share < EMPTY_ACCEPTS.value {
        return Verdict::refuted("hardly a thread was woken for nothing")
            .because(process.into())
            .because(kernel.into());
    }
    let title = format!("each connection wakes {threads} threads of the target, and one of them gets it");
    Verdict::proved(Severity::Info, title, process, kernel)
        .remedy("Wait at the shared listener with EPOLLEXCLUSIVE, or give each worker a listener of its own (SO_REUSEPORT)")
        .check("grep ^voluntary_ctxt /proc/PID/task/*/status; timeout 5 strace -f -c -e trace=accept4,epoll_wait -p PID # accept4 with many errors")
        .confidence(0.85)
}

/// How often the target's threads were woken while they waited for events, and went on waiting, in the windows in which its accepts were
/// counted: who comes late finds nothing ready there, and makes no accept.
fn woken_within_epoll(facts: &Facts<'_>) -> f64 {
    let (returned, _) = facts.calls(&POLLS);
    let (Some(states), Some(calls_ns), Some(probes)) = (facts.thread_states(), facts.calls_window_ns(), facts.probes())
    else {
        return 0.0;
    };
    let waits = states.threads.iter().flat_map(|thread| &thread.waits);
    let woken: u64 = waits.filter(|wait| POLLS.contains(&&*wait.call)).map(|wait| wait.count).sum();
    let per_ns = woken as f64 / states.window_ns.max(1) as f64 - returned as f64 / calls_ns;
    (per_ns * probes.window_ns as f64).max(0.0)
}
