//! What the name service counted, besides what every server counts; and the figures that INFO reads while it runs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::Counters;

/// Sums of one name service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamesCounters {
    /// What every server counts. `requests` were answered, `refused` of them with an error.
    pub common: Counters,
    /// Values saved.
    pub saves: u64,
    /// Values asked for, there or not; LOADALL counts as one.
    pub loads: u64,
    /// Names removed, and REMOVEALL as one.
    pub removes: u64,
    /// Requests refused because the store was down.
    pub unavailable: u64,
    /// Writes refused because the journal could not take them, or the store was full.
    pub writes_refused: u64,
    /// Times the store crashed.
    pub crashes: u64,
    /// Times it was started again.
    pub restarts: u64,
    /// Batches of requests the store took at once.
    pub batches: u64,
    /// Of those, the ones made durable, with one fdatasync each.
    pub commits: u64,
    /// Records read back from the journal, at the start and after crashes.
    pub recovered: u64,
    /// Bytes of torn ends cut off it.
    pub cut_bytes: u64,
    /// Times it was rewritten.
    pub rewrites: u64,
    /// Times that failed; the old one stays.
    pub rewrites_failed: u64,
    /// Its size at the end, in bytes.
    pub journal_bytes: u64,
    /// Names at the end.
    pub keys: u64,
}

impl NamesCounters {
    /// Names and values, those of every server first.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        // Taken apart without `..`: a new counter that is not shown does not compile.
        let Self {
            common,
            saves,
            loads,
            removes,
            unavailable,
            writes_refused,
            crashes,
            restarts,
            batches,
            commits,
            recovered,
            cut_bytes,
            rewrites,
            rewrites_failed,
            journal_bytes,
            keys,
        } = *self;
        let mut rows = common.rows().to_vec();
        rows.extend([
            ("saves", saves),
            ("loads", loads),
            ("removes", removes),
            ("unavailable", unavailable),
            ("writes_refused", writes_refused),
            ("crashes", crashes),
            ("restarts", restarts),
            ("batches", batches),
            ("commits", commits),
            ("recovered", recovered),
            ("cut_bytes", cut_bytes),
            ("rewrites", rewrites),
            ("rewrites_failed", rewrites_failed),
            ("journal_bytes", journal_bytes),
            ("keys", keys),
        ]);
        rows
    }
}

/// The same while the server runs, shared by all of it; written a batch at a time.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) accepted: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) accept_error: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) saves: AtomicU64,
    pub(super) loads: AtomicU64,
    pub(super) removes: AtomicU64,
    pub(super) unavailable: AtomicU64,
    pub(super) writes_refused: AtomicU64,
    pub(super) crashes: AtomicU64,
    pub(super) restarts: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) recovered: AtomicU64,
    pub(super) cut_bytes: AtomicU64,
    pub(super) rewrites: AtomicU64,
    pub(super) rewrites_failed: AtomicU64,
    pub(super) journal_bytes: AtomicU64,
    pub(super) keys: AtomicU64,
    pub(super) store_bytes: AtomicU64,
}

impl Gauges {
    /// The figures of the end; `common` comes from the connections.
    pub(super) fn sums(&self, common: Counters) -> NamesCounters {
        NamesCounters {
            common: Counters {
                accepted: self.accepted.load(Relaxed),
                closed: self.closed.load(Relaxed),
                accept_error: self.accept_error.load(Relaxed),
                requests: self.requests.load(Relaxed),
                ..common
            },
            saves: self.saves.load(Relaxed),
            loads: self.loads.load(Relaxed),
            removes: self.removes.load(Relaxed),
            unavailable: self.unavailable.load(Relaxed),
            writes_refused: self.writes_refused.load(Relaxed),
            crashes: self.crashes.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            batches: self.batches.load(Relaxed),
            commits: self.commits.load(Relaxed),
            recovered: self.recovered.load(Relaxed),
            cut_bytes: self.cut_bytes.load(Relaxed),
            rewrites: self.rewrites.load(Relaxed),
            rewrites_failed: self.rewrites_failed.load(Relaxed),
            journal_bytes: self.journal_bytes.load(Relaxed),
            keys: self.keys.load(Relaxed),
        }
    }
}

/// Adds to a figure.
pub(super) fn count(figure: &AtomicU64, n: u64) {
    figure.fetch_add(n, Relaxed);
}
