//! The longest pause of all replies, in a line.

use super::Paint;
use super::page::Page;
use crate::figures::common_gaps;
use crate::words::{counted, length};
use model::LatencyKind;
use model::recording::Recording;
use std::io::{self, Write};

/// A pause is told from this length on, nanoseconds: shorter ones are seen in the quantiles, and a worker that was stopped
/// may have slept up to 50 ms before that (`engine::ledger::SLEEP_NS_MAX`), which is not known to be its own doing.
const TOLD_NS_MIN: u64 = 100_000_000;
/// Where replies take long, pauses between them do, too: told are those of so many times their median.
const TOLD_TIMES: u64 = 4;

/// Writes it, where there is one to tell of.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let service = recording.totals.sum.latency.of(LatencyKind::Service);
    let median_ns = if service.is_empty() { 0 } else { service.value_at_quantile(0.5) };
    let told_ns = TOLD_NS_MIN.max(median_ns.saturating_mul(TOLD_TIMES));
    let gaps = common_gaps(recording);
    let Some(longest) = gaps.iter().find(|gap| gap.others_ns() >= told_ns) else { return Ok(()) };
    let others = gaps.iter().filter(|gap| gap.others_ns() >= told_ns).count() as u64 - 1;
    let more = if others > 0 { format!("; {others} more of at least {}", length(told_ns)) } else { String::new() };
    let text = format!(
        "longest {} without any reply, from {} on, while {} on {} waited{more}",
        length(longest.length_ns()),
        length(longest.from_ns),
        counted(longest.in_flight, "request"),
        counted(longest.connections, "connection"),
    );
    page.gap()?;
    page.wrapped(11, (Paint::Heading, "Pauses".to_owned()), Paint::Plain, &text)
}
