//! How the target's threads spent the windows of the probes: states, holders of futexes, who woke whom, stalls, pauses.
//!
//! Only the first of each list. What a thread waited for when it had nothing to do is in its states, and not beside them.

use crate::words::{counted, duration, grouped, listed, percent};
use model::bpf::LongCall;
use model::threads::{FutexHolder, Pause, Stall, ThreadStates, ThreadTime};

/// Lines of a list, longest first.
const LIST_MAX: usize = 5;
/// Less than this share of a thread's time is not named.
const SHARE_MIN: f64 = 0.01;

/// The rows that there are, each a label and its lines.
pub(super) fn rows(states: &ThreadStates, long_calls: &[LongCall]) -> Vec<(&'static str, Vec<String>)> {
    let named = Names(states);
    let chains = states.threads.iter().filter_map(|thread| named.chain(thread)).take(LIST_MAX).collect();
    let first = |lines: &mut dyn Iterator<Item = String>| -> Vec<String> { lines.take(LIST_MAX).collect() };
    let threads = states.threads.iter().take(LIST_MAX).map(|thread| named.thread(thread));
    let others = states.threads.iter().skip(LIST_MAX).chain(&states.others).map(|thread| thread.threads).sum::<u64>();
    let others = (others > 0).then(|| format!("and {}", counted(others, "more thread")));
    vec![
        ("threads", threads.chain(others).collect()),
        ("futex held", first(&mut states.holders.iter().map(|held| named.holder(held)))),
        ("woken by", chains),
        ("stalls", first(&mut states.stalls.iter().map(|stall| named.stall(stall)))),
        ("pauses of all", first(&mut states.pauses.iter().map(|pause| named.pause(pause)))),
        ("long calls", first(&mut long_calls.iter().map(long_call))),
    ]
}

fn long_call(call: &LongCall) -> String {
    let what = match (&*call.name, &*call.at) {
        ("none", _) => "in no call".to_owned(),
        (name, "none") => name.to_owned(),
        (name, at) => format!("{name} at {at}"),
    };
    listed(&[
        format!("{what} ×{}", grouped(call.count)),
        duration(call.ns),
        format!("longest {} of thread {}", duration(call.longest_ns), call.longest_tid),
    ])
}

/// The threads by their names.
struct Names<'a>(&'a ThreadStates);

impl Names<'_> {
    fn name(&self, tid: u32) -> String {
        let row = self.0.threads.iter().find(|thread| thread.tid == tid).map(|thread| &thread.name);
        let waker = || self.0.wakes.iter().find(|wake| wake.waker_tid == tid).map(|wake| &wake.waker_name);
        match row.or_else(waker).filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} {tid}"),
            None => format!("thread {tid}"),
        }
    }

    fn thread(&self, thread: &ThreadTime) -> String {
        let share = |ns: u64| ns as f64 / thread.alive_ns.max(1) as f64;
        let mut states: Vec<(&String, u64)> = thread.ns.iter().map(|(state, ns)| (state, *ns)).collect();
        states.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let shown = states.into_iter().filter(|(_, ns)| share(*ns) >= SHARE_MIN).map(|(state, ns)| {
            let at = thread.waits.iter().find(|wait| wait.state == *state && wait.at != "none");
            let at = at.map(|wait| format!(" ({} at {})", wait.call, wait.remote.as_ref().unwrap_or(&wait.at)));
            format!("{state} {}{}", percent(100.0 * share(ns)), at.unwrap_or_default())
        });
        format!("{}: {}", self.name(thread.tid), listed(&shown.collect::<Vec<_>>()))
    }

    fn holder(&self, held: &FutexHolder) -> String {
        let ran = percent(100.0 * held.ran_ns as f64 / held.ns.max(1) as f64);
        let by = if held.known_by == "owner" { "owned by" } else { "let go by" };
        let parts = [
            format!("{}, {by} {}", held.place, self.name(held.tid)),
            format!("{} waited in {}", duration(held.ns), counted(held.waits, "wait")),
            format!("it ran {}{ran} of that", if held.known_by == "owner" { "" } else { "at least " }),
        ];
        listed(&parts)
    }

    /// Who woke it, and who that one, where the target's own threads wait for each other.
    fn chain(&self, thread: &ThreadTime) -> Option<String> {
        let chain = self.0.chain(thread.tid);
        let first = chain.first().filter(|wake| wake.by == "thread")?;
        self.0.threads.iter().find(|other| other.tid == first.waker_tid)?;
        let wakers = chain.iter().map(|wake| match wake.waker_tid {
            0 => wake.by.clone(),
            tid => self.name(tid),
        });
        let wakers: Vec<String> = wakers.collect();
        let waited = format!("{} in {} ×{}", duration(first.ns), first.state, grouped(first.count));
        Some(format!("{} ← {}, {waited}", self.name(thread.tid), wakers.join(" ← ")))
    }

    fn stall(&self, stall: &Stall) -> String {
        let at = match (&*stall.call, &*stall.at) {
            ("none", _) => String::new(),
            (call, "none") => format!(" ({call})"),
            (call, at) => format!(" ({call} at {at})"),
        };
        format!("{} {}{at} for {} at {}", self.name(stall.tid), stall.state, duration(stall.ns), moment(stall.from_ns))
    }

    fn pause(&self, pause: &Pause) -> String {
        let states: Vec<String> = pause.threads.iter().map(|(state, n)| format!("{} {state}", grouped(*n))).collect();
        let by = if pause.ended_by == 0 { String::new() } else { format!(", ended by {}", self.name(pause.ended_by)) };
        format!("{} at {}: {}{by}", duration(pause.ns), moment(pause.from_ns), listed(&states))
    }
}

/// A moment of the run, in seconds.
fn moment(ns: i64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
