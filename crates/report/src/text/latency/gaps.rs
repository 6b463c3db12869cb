//! The longest pause of all replies, in a line.

use crate::figures::common_gaps;
use crate::text::Paint;
use crate::text::page::Page;
use crate::words::{counted, length};
use model::recording::Recording;
use model::{Gap, LatencyKind};
use std::io::{self, Write};

/// A single pause is told from this length on, nanoseconds: shorter ones are seen in the quantiles, and a worker that was
/// stopped may have slept up to 50 ms before that (`engine::ledger::SLEEP_NS_MAX`), which is not known to be its own doing.
const ONE_NS_MIN: u64 = 100_000_000;
/// Pauses from this length on are told, nanoseconds, where they are together at least [`SHARE_MIN`] of the measured time.
const MANY_NS_MIN: u64 = 20_000_000;
/// See [`MANY_NS_MIN`].
const SHARE_MIN: f64 = 0.1;
/// Where replies take long, pauses between them do, too: told are those of so many times their median.
const TIMES_MIN: u64 = 4;

/// Writes it, where there is one to tell of.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let Some((least_ns, told)) = told(recording) else { return Ok(()) };
    let Some(longest) = told.first() else { return Ok(()) };
    let together_ns: u64 = told.iter().map(Gap::length_ns).sum();
    let more = match told.len() as u64 - 1 {
        0 => String::new(),
        others => format!("; {others} more of at least {}, {} in all", length(least_ns), length(together_ns)),
    };
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

/// The pauses worth telling, the longest first, and from which length on they are told, nanoseconds.
pub(crate) fn told(recording: &Recording) -> Option<(u64, Vec<Gap>)> {
    let service = recording.totals.sum.latency.of(LatencyKind::Service);
    let median_ns = if service.is_empty() { 0 } else { service.value_at_quantile(0.5) };
    let gaps = common_gaps(recording);
    let from = |least_ns: u64| {
        let least_ns = least_ns.max(median_ns.saturating_mul(TIMES_MIN));
        let told: Vec<Gap> = gaps.iter().filter(|gap| gap.others_ns() >= least_ns).copied().collect();
        (least_ns, told)
    };
    let many = from(MANY_NS_MIN);
    let together_ns: u64 = many.1.iter().map(Gap::length_ns).sum();
    if together_ns as f64 >= SHARE_MIN * recording.totals.measured_ns as f64 && many.1.len() > 1 {
        return Some(many);
    }
    Some(from(ONE_NS_MIN)).filter(|(_, told)| !told.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::request::IntervalRequests;

    fn recording(gaps_ms: &[(u64, u64)]) -> Recording {
        let plan = testkit::recordings::plan(
            testkit::recordings::http1(testkit::recordings::get()),
            vec![testkit::recordings::origin("http://localhost:1", 1)],
        );
        let mut recording = Recording::new(model::recording::Capsule::default(), plan);
        recording.totals.measured_ns = 10_000_000_000;
        for (second, (length_ms, own_ms)) in gaps_ms.iter().enumerate() {
            let from_ns = second as u64 * 1_000_000_000;
            let mut tick = IntervalRequests::default();
            let (to_ns, own_ns_max) = (from_ns + length_ms * 1_000_000, own_ms * 1_000_000);
            tick.offer_gap(Gap { from_ns, to_ns, in_flight: 7, connections: 5, open: 9, worker: 0, own_ns_max });
            recording.requests.push(second as u64, 1, &tick);
        }
        recording
    }

    fn lengths_ms(gaps_ms: &[(u64, u64)]) -> Option<Vec<u64>> {
        Some(told(&recording(gaps_ms))?.1.iter().map(|gap| gap.length_ns() / 1_000_000).collect())
    }

    #[test]
    fn told_is_what_is_long_or_often_and_not_the_generators() {
        assert_eq!(lengths_ms(&[]), None);
        assert_eq!(lengths_ms(&[(99, 0), (30, 0)]), None);
        assert_eq!(lengths_ms(&[(150, 0), (30, 0)]), Some(vec![150]));
        assert_eq!(lengths_ms(&[(2000, 1950)]), None, "the worker stood still itself");
        assert_eq!(lengths_ms(&[(2000, 1000)]), Some(vec![2000]));
        let often = vec![(80, 0); 9];
        assert_eq!(lengths_ms(&often), None, "7 % of the time");
        assert_eq!(lengths_ms(&[(95, 0); 11]).map(|told| told.len()), Some(11), "more than a tenth");
    }
}
