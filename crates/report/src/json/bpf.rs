//! What the probes counted, as the document says it: the last reading, which holds all before it.

use super::document::{Bpf, BpfBucket, BpfHistogram};
use model::Snapshot;
use model::bpf::Log2;

/// The last reading of the probes. Waits are those of the last window, and threads are told at its end: no later reading
/// repeats them.
pub(super) fn of(snapshots: &[Snapshot]) -> Option<Bpf> {
    let samples = || snapshots.iter().rev().filter_map(|snapshot| snapshot.bpf.as_ref());
    let last = samples().next()?;
    let waits = samples().map(|bpf| &bpf.waits).find(|waits| !waits.is_empty());
    let calls: u64 = last.calls.iter().map(|call| call.count).sum();
    Some(Bpf {
        counts: last.counts.clone(),
        histograms: last.histograms.iter().map(|(name, histogram)| (name.clone(), of_histogram(histogram))).collect(),
        drops: last.drops.clone(),
        windows: last.windows,
        window_s: last.window_ns as f64 / 1e9,
        calls_window_s: last.calls_window_ns as f64 / 1e9,
        window_replies: last.window_replies,
        calls_per_reply: (last.window_replies > 0).then(|| calls as f64 / last.window_replies as f64),
        calls: last.calls.clone(),
        waits: waits.cloned().unwrap_or_default(),
        futexes: last.futexes.clone(),
        long_calls: last.long_calls.clone(),
        threads: samples().find_map(|bpf| bpf.threads.clone()),
        files: last.files.clone(),
    })
}

fn of_histogram(histogram: &Log2) -> BpfHistogram {
    let filled = histogram.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let bucket = |(i, count): (usize, &u64)| {
        let (from, to) = Log2::edges(i);
        BpfBucket { from, to, count: *count }
    };
    BpfHistogram {
        count: histogram.count(),
        mean: histogram.mean(),
        p50_at_most: histogram.at_most(0.5),
        p99_at_most: histogram.at_most(0.99),
        buckets: filled.map(bucket).collect(),
    }
}
