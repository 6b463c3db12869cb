//! What the target's own connections did: how many it had to whom, and on how many of them a reply was due.
//!
//! A reading is one moment, once a second: what is constant in all of them is a bound, and means are means of the time
//! (Poisson or not, a clock that the target does not know samples it evenly). Sources: sock_diag, tcp_info.

use super::Facts;
use model::snapshot::Outgoing;

/// The target's connections to one remote address, reading by reading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked<'r> {
    /// The other end, such as `10.0.0.7:5432`.
    pub remote: &'r str,
    /// In each reading, those established or being made.
    pub open: Vec<u64>,
    /// In each reading, those on which a reply was due.
    pub due: Vec<u64>,
    /// In each reading in which a reply was due, since when (the median of the connections), nanoseconds.
    pub ages_ns: Vec<u64>,
}

impl Asked<'_> {
    /// Of all readings those in which a reply was due, 0..=1.
    pub fn due_share(&self) -> f64 {
        self.ages_ns.len() as f64 / self.due.len().max(1) as f64
    }

    /// How many were due at a time, on average.
    pub fn due_mean(&self) -> f64 {
        mean(&self.due)
    }

    /// How many connections there were at a time, on average.
    pub fn open_mean(&self) -> f64 {
        mean(&self.open)
    }

    /// Since when a reply was due when it was looked at, the median, nanoseconds.
    pub fn age_ns(&self) -> f64 {
        let mut ages = self.ages_ns.clone();
        ages.sort_unstable();
        ages.get(ages.len() / 2).copied().unwrap_or(0) as f64
    }
}

fn mean(values: &[u64]) -> f64 {
    values.iter().map(|value| *value as f64).sum::<f64>() / values.len().max(1) as f64
}

/// What was sent and is not acknowledged waits for the reply, too, which would bring the acknowledgement.
fn due(outgoing: &Outgoing) -> (u64, u64) {
    let of = |name| outgoing.metrics.of(name).unwrap_or(0);
    (of("awaiting").max(of("unacked_segments")), of("awaiting_p50_ns").max(of("unacked_age_max_ns")))
}

impl<'r> Facts<'r> {
    /// Whom the target asked in the measured time, the one first that owed most replies; `None`: fewer than `readings_min`
    /// readings.
    pub fn asked(&self, readings_min: usize) -> Option<Vec<Asked<'r>>> {
        let read: Vec<_> = self
            .recording
            .snapshots
            .iter()
            .filter(|snapshot| {
                self.is_measured(snapshot.at_ns) && snapshot.network.of("outgoing_connections").is_some()
            })
            .collect();
        if read.len() < readings_min {
            return None;
        }
        let mut all: Vec<Asked<'r>> = Vec::new();
        for (reading, snapshot) in read.iter().enumerate() {
            for outgoing in &snapshot.outgoing {
                let at = all.iter().position(|asked| asked.remote == outgoing.remote).unwrap_or_else(|| {
                    all.push(Asked { remote: &outgoing.remote, ..Asked::default() });
                    all.len() - 1
                });
                let Some(asked) = all.get_mut(at) else { continue };
                let (count, age_ns) = due(outgoing);
                let of = |name| outgoing.metrics.of(name).unwrap_or(0);
                // What was not there in the readings before is zero in them.
                asked.open.resize(reading, 0);
                asked.due.resize(reading, 0);
                asked.open.push(of("established").saturating_add(of("connecting")));
                asked.due.push(count);
                if count > 0 {
                    asked.ages_ns.push(age_ns);
                }
            }
        }
        for asked in &mut all {
            asked.open.resize(read.len(), 0);
            asked.due.resize(read.len(), 0);
        }
        all.sort_by(|a, b| b.due_mean().total_cmp(&a.due_mean()));
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none_and_ages_are_of_readings_that_owed() {
        let asked = Asked { remote: "a", open: vec![4, 4, 0, 4], due: vec![4, 0, 0, 2], ages_ns: vec![10, 30] };
        assert_eq!((asked.due_share(), asked.due_mean(), asked.open_mean(), asked.age_ns()), (0.5, 1.5, 3.0, 30.0));
        assert_eq!(Asked::default().age_ns(), 0.0);
    }
}
