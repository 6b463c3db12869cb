//! What the kernel's probes have counted of the target: counts, histograms by powers of two, and what they point at.
//!
//! Everything grows from the start of the observation: a rate is the difference of two samples. Probes that cost by the
//! call run in windows; their figures are of those windows alone, whose length is [`BpfSample::window_ns`].

use crate::threads::ThreadStates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which probes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// None.
    #[default]
    None,
    /// Only those that are cheap; receives and sends in windows.
    Light,
    /// And the others in windows: one second in ten.
    Windows,
    /// All of them all the time.
    Full,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Level::None => "none",
            Level::Light => "light",
            Level::Windows => "windows",
            Level::Full => "full",
        })
    }
}

/// What the probes have counted up to a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BpfSample {
    /// Counts by name, `probe.what`; those that end in `_lost` tell what did not fit into a bounded map, or
    /// (`runs_lost`) how often a program was left out because it was running on that CPU already; `began_before` and
    /// `not_ended`, what a window cut, so that it is in no histogram of times.
    pub counts: BTreeMap<String, u64>,
    /// Histograms by name, `probe.what_unit`.
    pub histograms: BTreeMap<String, Log2>,
    /// Segments dropped on their way to the target's ports, by the kernel's reason (`enum skb_drop_reason`).
    pub drops: BTreeMap<String, u64>,
    /// Windows that have ended.
    pub windows: u64,
    /// Their length together, nanoseconds.
    pub window_ns: u64,
    /// How long of that its system calls and delayed acknowledgements were counted, nanoseconds: of a busy target, only
    /// until enough were seen.
    pub calls_window_ns: u64,
    /// Replies that the target began meanwhile: what its system calls are divided by.
    pub window_replies: u64,
    /// System calls in the windows, those that took longest first.
    pub calls: Vec<CallUse>,
    /// Where threads waited in the windows, longest first. Empty in a sample that follows no window.
    pub waits: Vec<WaitUse>,
    /// Where threads waited in `futex` in the windows, those that took longest without a time limit first.
    pub futexes: Vec<FutexUse>,
    /// Calls of 1 ms and more in the windows, by kind of descriptor, those that took longest in all first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub long_calls: Vec<LongCall>,
    /// How threads spent the windows. Only in a sample that follows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadStates>,
    /// The files that the target opened most often in the windows, by the names it gave them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileUse>,
}

impl BpfSample {
    /// What was counted since an earlier sample of the same observation. What is only in samples that follow a window is taken
    /// from `base`, the last one before that had it; a row that was beyond a list's bound then counts in full.
    pub fn since(&self, earlier: &BpfSample, base: &BpfSample) -> BpfSample {
        let counts = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let less =
                |(name, n): (&String, &u64)| (name.clone(), n.saturating_sub(then.get(name).copied().unwrap_or(0)));
            now.iter().map(less).collect::<BTreeMap<_, _>>()
        };
        let empty = Log2::default();
        let histogram =
            |(name, now): (&String, &Log2)| (name.clone(), now.since(earlier.histograms.get(name).unwrap_or(&empty)));
        BpfSample {
            counts: counts(&self.counts, &earlier.counts),
            histograms: self.histograms.iter().map(histogram).collect(),
            drops: counts(&self.drops, &earlier.drops),
            windows: self.windows.saturating_sub(earlier.windows),
            window_ns: self.window_ns.saturating_sub(earlier.window_ns),
            calls_window_ns: self.calls_window_ns.saturating_sub(earlier.calls_window_ns),
            window_replies: self.window_replies.saturating_sub(earlier.window_replies),
            calls: rows_since(&self.calls, &earlier.calls, |a, b| a.name == b.name, CallUse::since, |call| call.ns),
            waits: rows_since(&self.waits, &base.waits, WaitUse::is_same, WaitUse::since, |wait| wait.ns),
            futexes: rows_since(&self.futexes, &earlier.futexes, FutexUse::is_same, FutexUse::since, |futex| futex.ns),
            long_calls: rows_since(
                &self.long_calls,
                &earlier.long_calls,
                |a, b| (&a.name, &a.at) == (&b.name, &b.at),
                LongCall::since,
                |call| call.ns,
            ),
            threads: self.threads.as_ref().map(|now| match &base.threads {
                Some(then) => now.since(then),
                None => now.clone(),
            }),
            files: rows_since(
                &self.files,
                &earlier.files,
                |a, b| a.path == b.path,
                |a, b| FileUse { path: a.path.clone(), opens: a.opens.saturating_sub(b.opens) },
                |file| file.opens,
            ),
        }
    }
}

/// Rows of a list less those of an earlier one, the largest first; rows that did not grow are left out.
pub(crate) fn rows_since<T: Clone>(
    now: &[T],
    then: &[T],
    is_same: impl Fn(&T, &T) -> bool,
    less: impl Fn(&T, &T) -> T,
    size: impl Fn(&T) -> u64,
) -> Vec<T> {
    let since = |row: &T| then.iter().find(|earlier| is_same(row, earlier)).map_or(row.clone(), |old| less(row, old));
    let mut rows: Vec<T> = now.iter().map(since).filter(|row| size(row) > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(size(row)));
    rows
}

impl CallUse {
    fn since(&self, then: &CallUse) -> CallUse {
        let mut errors_by = self.errors_by.clone();
        for (error, count) in &then.errors_by {
            if let Some(now) = errors_by.get_mut(error) {
                *now = now.saturating_sub(*count);
            }
        }
        CallUse {
            name: self.name.clone(),
            count: self.count.saturating_sub(then.count),
            errors: self.errors.saturating_sub(then.errors),
            ns: self.ns.saturating_sub(then.ns),
            not_ended: self.not_ended.saturating_sub(then.not_ended),
            errors_by,
        }
    }
}

impl LongCall {
    /// The longest is that of all.
    fn since(&self, then: &LongCall) -> LongCall {
        LongCall { count: self.count.saturating_sub(then.count), ns: self.ns.saturating_sub(then.ns), ..self.clone() }
    }
}

impl WaitUse {
    fn is_same(&self, other: &WaitUse) -> bool {
        (self.tid, &self.state, &self.stack) == (other.tid, &other.state, &other.stack)
    }

    fn since(&self, then: &WaitUse) -> WaitUse {
        WaitUse { count: self.count.saturating_sub(then.count), ns: self.ns.saturating_sub(then.ns), ..self.clone() }
    }
}

impl FutexUse {
    fn is_same(&self, other: &FutexUse) -> bool {
        (self.pid, self.address) == (other.pid, other.address)
    }

    /// Threads that waited are those of all time.
    fn since(&self, then: &FutexUse) -> FutexUse {
        FutexUse {
            count: self.count.saturating_sub(then.count),
            ns: self.ns.saturating_sub(then.ns),
            timed_count: self.timed_count.saturating_sub(then.timed_count),
            timed_ns: self.timed_ns.saturating_sub(then.timed_ns),
            timeouts: self.timeouts.saturating_sub(then.timeouts),
            ..self.clone()
        }
    }
}

/// Openings of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileUse {
    /// Its name as the target gave it, cut off after 127 bytes; relative ones are to whatever folder the call named.
    pub path: String,
    /// Calls that began, those that failed too.
    pub opens: u64,
}

/// A histogram by powers of two.
///
/// Bucket 0 counts zeros, bucket n the values of n binary digits: from 2^(n-1) to 2^n − 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Log2 {
    /// Sum of all values.
    pub sum: u64,
    /// Counts, empty buckets at the end left out.
    pub buckets: Vec<u64>,
}

impl Log2 {
    /// The values that came after an earlier state of it.
    pub fn since(&self, then: &Log2) -> Log2 {
        let of = |(i, n): (usize, &u64)| n.saturating_sub(then.buckets.get(i).copied().unwrap_or(0));
        Log2 { sum: self.sum.saturating_sub(then.sum), buckets: self.buckets.iter().enumerate().map(of).collect() }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The mean, where there is a value.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// Lowest and highest value of a bucket.
    pub fn edges(bucket: usize) -> (u64, u64) {
        match u32::try_from(bucket) {
            Ok(0) => (0, 0),
            Ok(n) if n < 64 => (1 << (n - 1), (1 << n) - 1),
            _ => (1 << 63, u64::MAX),
        }
    }

    /// The upper edge of the bucket in which a quantile (0..=1) lies: the quantile is at most this, and more than half.
    pub fn at_most(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((count as f64 * quantile).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.buckets.iter().enumerate().find_map(|(i, n)| {
            seen += n;
            (seen >= rank).then(|| Self::edges(i).1)
        })
    }
}

/// One system call of the target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CallUse {
    /// Its name, or `call N` where it has none here.
    pub name: String,
    /// How many ended.
    pub count: u64,
    /// Those that returned an error.
    pub errors: u64,
    /// Time in it, waiting included, nanoseconds.
    pub ns: u64,
    /// Those that had begun in a window and not ended when it did: they are in no other figure.
    #[serde(default)]
    pub not_ended: u64,
    /// How often which error was returned, by its name, such as `EAGAIN`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors_by: BTreeMap<String, u64>,
}

/// Long calls of one kind, at one kind of descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LongCall {
    /// The call; `none`: a thread that was in no call for so long, its turns off a CPU included.
    pub name: String,
    /// What its first argument is, of [`crate::threads::DESCRIPTORS`].
    pub at: String,
    /// How many ended.
    pub count: u64,
    /// Their time, waiting included, nanoseconds.
    pub ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
    /// The thread of that.
    pub longest_tid: u32,
    /// When that ended, nanoseconds since the run's start.
    pub longest_at_ns: i64,
}

/// Time that a thread spent off a CPU at one place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct WaitUse {
    /// The thread's id.
    pub tid: u32,
    /// How it was taken off: `runnable` (its turn was over), `sleeping`, `uninterruptible` or `other`.
    pub state: String,
    /// How many times.
    pub count: u64,
    /// Time, nanoseconds.
    pub ns: u64,
    /// Where it waited, innermost first: functions of the kernel, then of the program; `[file+offset]` where one has no name.
    pub stack: Vec<String>,
}

/// Waits in `futex` at one address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FutexUse {
    /// The process.
    pub pid: u32,
    /// The futex' address in it.
    pub address: u64,
    /// That address as `file+offset`, or as itself where it is in no file: on a heap or a stack.
    pub place: String,
    /// Waits without a time limit that ended.
    pub count: u64,
    /// Their time, nanoseconds.
    pub ns: u64,
    /// Threads that waited there.
    pub waiters: u64,
    /// Waits with a time limit that ended: most likely a thread without work.
    pub timed_count: u64,
    /// Their time, nanoseconds.
    pub timed_ns: u64,
    /// How many of them reached their limit.
    pub timeouts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_in_its_bucket() {
        // 0; 1; 2, 3; 4..7 three times.
        let histogram = Log2 { sum: 21, buckets: vec![1, 1, 2, 3] };
        assert_eq!((histogram.count(), histogram.mean()), (7, Some(3.0)));
        assert_eq!(histogram.at_most(0.0), Some(0));
        assert_eq!(histogram.at_most(0.5), Some(3));
        assert_eq!(histogram.at_most(1.0), Some(7));
        assert_eq!(Log2::default().at_most(0.5), None);
        assert_eq!((Log2::edges(1), Log2::edges(64)), ((1, 1), (1 << 63, u64::MAX)));
    }

    #[test]
    fn what_came_since_is_told_row_by_row_and_a_new_row_counts_in_full() {
        let call = |name: &str, count, ns| CallUse { name: name.to_owned(), count, ns, ..CallUse::default() };
        let then = BpfSample {
            histograms: [("a".to_owned(), Log2 { sum: 3, buckets: vec![0, 1, 1] })].into(),
            counts: [("n".to_owned(), 5)].into(),
            window_ns: 10,
            calls: vec![call("read", 10, 100), call("write", 4, 40)],
            ..BpfSample::default()
        };
        let now = BpfSample {
            histograms: [("a".to_owned(), Log2 { sum: 10, buckets: vec![0, 1, 1, 1] })].into(),
            counts: [("n".to_owned(), 7), ("m".to_owned(), 2)].into(),
            window_ns: 30,
            calls: vec![call("read", 10, 100), call("fsync", 3, 300), call("write", 9, 80)],
            ..BpfSample::default()
        };
        let since = now.since(&then, &then);
        assert_eq!(since.calls, [call("fsync", 3, 300), call("write", 5, 40)]);
        assert_eq!((since.counts["n"], since.counts["m"], since.window_ns), (2, 2, 20));
        assert_eq!((since.histograms["a"].count(), since.histograms["a"].mean()), (1, Some(7.0)));
        assert_eq!(now.since(&BpfSample::default(), &BpfSample::default()).calls.len(), 3);
    }
}
