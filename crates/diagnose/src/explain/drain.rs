//! What a pause leaves behind it: those that stood in it are answered one after another when it is over.
//!
//! That time is the pause's, as far as the work of those that stood there takes it. Where they wait longer, something else holds them up,
//! of which there would be less without their queue, and less of their queue without it: neither has brought it about alone.
//! It is contested, and shared equally by the two (so are costs that two have only together: L. S. Shapley, "A Value for n-Person
//! Games", 1953).

use crate::facts::Facts;
use model::request::Gap;

/// From and to, nanoseconds of the run.
pub(super) type Span = (u64, u64);

/// Of those that stood in a pause, when this share was answered the pause's line is over.
const DRAINED: f64 = 0.9;

/// Pauses with what they leave behind, each in the order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Drained {
    /// With the time that the work of those takes that stood in them.
    pub(super) pauses: Vec<Span>,
    /// From then until they were answered, at most as long as the pause.
    pub(super) contested: Vec<Span>,
}

impl Drained {
    pub(super) fn of(facts: &Facts<'_>, pauses: &[Gap]) -> Self {
        let mut pauses = pauses.to_vec();
        pauses.sort_unstable_by_key(|gap| (gap.from_ns, gap.to_ns));
        pauses.dedup_by(|later, first| later.from_ns < first.to_ns);
        // When those that stood in each were answered, and what a quick one of their kind takes.
        let mut stood: Vec<Vec<(u64, Option<f64>)>> = vec![Vec::new(); pauses.len()];
        for request in facts.recording.requests.sampled() {
            // The last pause that ended while it was under way.
            let after = pauses.partition_point(|gap| gap.to_ns <= request.ended_ns);
            let Some((i, gap)) = after.checked_sub(1).map(|i| (i, pauses[i])) else { continue };
            let limit_ns = gap.to_ns.saturating_add(gap.length_ns());
            if request.ready_ns < gap.to_ns && request.ended_ns <= limit_ns {
                stood[i].push((request.ended_ns, facts.kinds.fast(request).map(|fast| fast.ns)));
            }
        }
        let mut drained = Drained::default();
        for (i, (gap, mut stood)) in pauses.iter().zip(stood).enumerate() {
            stood.sort_unstable_by_key(|(ended_ns, _)| *ended_ns);
            let next_ns = pauses.get(i + 1).map_or(u64::MAX, |next| next.from_ns);
            let last = ((stood.len() as f64 * DRAINED) as usize).min(stood.len().saturating_sub(1));
            let end_ns = stood.get(last).map_or(gap.to_ns, |(ended_ns, _)| gap.to_ns.max(*ended_ns).min(next_ns));
            let work_ns: Vec<f64> = stood.iter().filter_map(|(_, fast_ns)| *fast_ns).collect();
            let work_ns = gap.in_flight as f64 * work_ns.iter().sum::<f64>() / work_ns.len() as f64;
            // Of kinds without a band nothing is known of their work.
            let worked_ns = match work_ns.is_finite() {
                true => gap.to_ns.saturating_add(work_ns as u64).min(end_ns),
                false => end_ns,
            };
            drained.pauses.push((gap.from_ns, worked_ns));
            drained.contested.push((worked_ns, end_ns));
        }
        drained
    }
}
