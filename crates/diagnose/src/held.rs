//! What held connections cost: memory for each as a slope, with its parts, and how many would fit by that.
//!
//! The slope is that of least squares over the readings of the ramp, memory against connections established: constants
//! (histograms, the program itself) fall out of it. Loopback runs hold both ends on this machine, so the kernel's and the
//! target's slopes are of both. All readings count; of a run so long that the history merged them, the last of each stretch.
//! A line needs few points, but a range: under a hundred connections, or four points, there is no slope.

use crate::facts::Facts;
use crate::history::{Metric, Subject};
use model::finding::{HeldLine, MemorySlopes};
use model::recording::Row;
use model::snapshot::Role;
use model::units::show_grouped;
use model::{ErrorKind, Recording};

/// Points a line is laid through, at the least.
const POINTS_MIN: usize = 4;
/// Connections between the first and the last of them, at the least.
const RANGE_MIN: f64 = 100.0;

/// What a run that held connections came to; `None` of any other.
pub(crate) fn held(facts: &Facts<'_>) -> Option<HeldLine> {
    let recording = facts.recording;
    let protocol = recording.plan.workload.protocol();
    if !protocol.is_held() {
        return None;
    }
    let counts = &recording.totals.sum.counts;
    let slopes = slopes(facts);
    // What a connection takes of the target's machine, whose memory is looked at: the generator's part only if it is there.
    let of_generator = slopes.generator_bytes.filter(|_| !facts.is_target_elsewhere()).unwrap_or(0.0);
    let each = of_generator + slopes.target_bytes.unwrap_or(0.0) + slopes.slab_bytes.unwrap_or(0.0);
    let before = recording.snapshots.first().and_then(|s| s.memory_available_bytes);
    // The first attempt that failed, or the first connection lost, is where the ramp broke.
    let gave = recording.totals.examples().min_by_key(|example| example.at_ns).filter(|_| protocol.is_until_failure());
    let fits = before.filter(|_| each > 0.0 && gave.is_none()).map(|bytes| (bytes as f64 / each) as u64);
    // A tick's number is that of its end: the one in which it gave may have lost some since, and none came after it.
    let until = |at_ns: u64| recording.timeline.rows().iter().take_while(move |row| row.start_ns <= at_ns);
    let held_at = |at_ns: u64| until(at_ns).map(|row| row.gauges.connections).max();
    let has_lost = |row: &&Row| !row.is_drain && row.counts.closed_by_peer + row.counts.closed_by_us > 0;
    let mut lost = recording.timeline.rows().iter().filter(has_lost);
    let first_lost = lost.next();
    let last_lost = lost.next_back().or(first_lost);
    Some(HeldLine {
        established_max: recording.totals.connections_max,
        established_at_end: at_end(recording),
        made_in_s: Some(recording.totals.measured_from_ns)
            .filter(|ns| *ns > 0 && recording.totals.measured_ns > 0)
            .map(|ns| ns as f64 / 1e9),
        connects_failed: counts.connect_failed,
        closed_by_peer: counts.closed_by_peer,
        closed_by_us: counts.closed_by_us,
        lost_from_s: first_lost.map(|row| row.start_ns as f64 / 1e9),
        lost_until_s: last_lost.map(|row| row.end_ns as f64 / 1e9),
        memory: slopes,
        fits_in_memory: fits,
        first_to_give: gave.map(|example| example.kind),
        gave_at_s: gave.map(|example| example.at_ns as f64 / 1e9),
        held_when_it_gave: gave.and_then(|example| held_at(example.at_ns)),
        limit_that_gave: gave.and_then(|example| limit_of(facts, example.kind)),
    })
}

/// Connections established at the end of the load.
pub(crate) fn at_end(recording: &Recording) -> u64 {
    // A run that was cut off has no end to be counted at: its last whole tick stands for it.
    let last_tick = || {
        let rows = recording.timeline.rows().iter().rev();
        let mut whole = rows.filter(|row| !row.is_drain && row.end_ns.is_multiple_of(recording.plan.tick_ns.max(1)));
        whole.next().map_or(0, |row| row.gauges.connections)
    };
    recording.totals.held_at_end.unwrap_or_else(last_tick)
}

/// The limit that a failure of the generator's speaks of, with its value.
fn limit_of(facts: &Facts<'_>, kind: ErrorKind) -> Option<String> {
    let capsule = &facts.recording.capsule;
    match kind {
        ErrorKind::TooManyFiles => {
            let soft = capsule.limits.get("nofile")?.split(':').next()?;
            Some(format!("nofile, {} descriptors", soft.parse().map_or(soft.to_owned(), show_grouped)))
        }
        ErrorKind::AddressNotAvailable => {
            let range = capsule.sysctls.get("net.ipv4.ip_local_port_range")?;
            let mut ends = range.split_whitespace().map(str::parse::<u64>);
            let (Some(Ok(first)), Some(Ok(last))) = (ends.next(), ends.next()) else { return None };
            let ports = show_grouped(last.saturating_sub(first).saturating_add(1));
            Some(format!("net.ipv4.ip_local_port_range, {ports} ports to each address"))
        }
        _ => None,
    }
}

fn slopes(facts: &Facts<'_>) -> MemorySlopes {
    let rows = facts.recording.timeline.rows();
    let connections_at = |at_ns: i64| {
        let at_ns = u64::try_from(at_ns).unwrap_or(0);
        let ended = rows.partition_point(|row| row.end_ns <= at_ns);
        ended.checked_sub(1).and_then(|last| rows.get(last)).map_or(0, |row| row.gauges.connections) as f64
    };
    let most = facts.recording.totals.connections_max as f64;
    let of = |subject: Subject<'_>, name: &str| {
        let readings = facts.history.readings(Metric::new(subject, name)).into_iter();
        // The ramp: from nothing to the first moment with nearly all of them.
        let mut ramp: Vec<(f64, f64)> = Vec::new();
        for (at_ns, value) in readings {
            let connections = connections_at(at_ns);
            ramp.push((connections, value as f64));
            if connections >= 0.99 * most {
                break;
            }
        }
        slope(&ramp)
    };
    MemorySlopes {
        generator_bytes: of(Subject::All(Role::Generator), "rss_bytes"),
        target_bytes: of(Subject::All(Role::Target), "rss_bytes"),
        slab_bytes: of(Subject::Machine, "slab_bytes"),
        socket_bytes: of(Subject::Machine, "socket_memory_bytes"),
        is_both_ends: facts.is_loopback(),
    }
}

/// The slope of the line of least squares; `None` without enough to lay one through.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < POINTS_MIN || last.0 - first.0 < RANGE_MIN {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let slope = covariance / variance;
    slope.is_finite().then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_leaves_constants_out_and_needs_a_range() {
        let line: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i) * 1000.0, 5e6 + f64::from(i) * 64_000.0)).collect();
        assert_eq!(slope(&line), Some(64.0));
        assert_eq!(slope(&line[..3]), None);
        assert_eq!(slope(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]), None);
        assert_eq!(slope(&[]), None);
    }
}
