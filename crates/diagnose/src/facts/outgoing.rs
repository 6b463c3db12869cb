//! What the target's own connections did: how many it had to whom, and on how many of them a reply was due.
//!
//! A reading is one moment, once a second: what is constant in all of them is a bound, and means are means of the time
//! (Poisson or not, a clock that the target does not know samples it evenly). Sources: sock_diag, tcp_info.

use super::Facts;
use model::snapshot::Outgoing;

/// What the other end of a connection to a unix socket begins with.
const UNIX: &str = "unix:";

/// The target's connections to one remote address, reading by reading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked<'r> {
    /// The other end, such as `10.0.0.7:5432` or `unix:/run/app.sock`.
    pub remote: &'r str,
    /// In each reading, those established or being made.
    pub open: Vec<u64>,
    /// Of those, in each reading, those that were being made: nobody had answered yet.
    pub connecting: Vec<u64>,
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

    /// Of all readings those in which connections were being made, 0..=1.
    pub fn connecting_share(&self) -> f64 {
        self.connecting.iter().filter(|count| **count > 0).count() as f64 / self.connecting.len().max(1) as f64
    }

    /// How many were being made at a time, on average.
    pub fn connecting_mean(&self) -> f64 {
        mean(&self.connecting)
    }

    /// How many were due at a time, on average.
    pub fn due_mean(&self) -> f64 {
        mean(&self.due)
    }

    /// How many connections there were at a time, on average.
    pub fn open_mean(&self) -> f64 {
        mean(&self.open)
    }

    /// Whether it is a unix socket, of whose connections the kernel keeps no times.
    pub fn is_unix(&self) -> bool {
        self.remote.starts_with(UNIX)
    }

    /// Whether there were such connections all along, so that a reply may have been due at any time.
    pub fn is_untold(&self) -> bool {
        self.is_unix() && self.open_mean() >= 1.0
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

/// What was sent and is not acknowledged waits for the reply, too, which would bring the acknowledgement; and so may a connection to a unix
/// socket that is new.
fn due(outgoing: &Outgoing) -> (u64, u64) {
    let of = |name| outgoing.metrics.of(name).unwrap_or(0);
    (of("awaiting").max(of("unacked_segments")).max(of("new")), of("awaiting_p50_ns").max(of("unacked_age_max_ns")))
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
                asked.connecting.resize(reading, 0);
                asked.open.push(of("established").saturating_add(of("connecting")));
                asked.connecting.push(of("connecting"));
                asked.due.push(count);
                if count > 0 {
                    asked.ages_ns.push(age_ns);
                }
            }
        }
        for asked in &mut all {
            asked.open.resize(read.len(), 0);
            asked.connecting.resize(read.len(), 0);
            asked.due.resize(read.len(), 0);
            if asked.is_unix() {
                let age_ns = self.age_by_rate_ns(asked.due_mean());
                asked.ages_ns.fill(age_ns);
            }
        }
        all.sort_by(|a, b| b.due_mean().total_cmp(&a.due_mean()));
        Some(all)
    }

    /// Whether the target has a connection to a port at which it listens itself: a gateway to its own interface, or processes of one target
    /// that ask each other.
    pub fn asks_itself(&self) -> bool {
        let port = |address: &str| address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        self.snapshots().any(|snapshot| {
            let own = || snapshot.listeners.iter().filter_map(|listener| port(&listener.address));
            let asked = snapshot.outgoing.iter().filter(|outgoing| !outgoing.remote.starts_with(UNIX));
            asked.filter_map(|outgoing| port(&outgoing.remote)).any(|remote| own().any(|port| port == remote))
        })
    }

    /// Since when replies are due of which so many are at a time, by Little's law: each lasts for number ÷ throughput, of which half has
    /// passed on average when it is looked at. Where not every request asks for one, each lasts longer.
    fn age_by_rate_ns(&self, at_a_time: f64) -> u64 {
        let rate = self.recording.totals.requests_per_s();
        if rate > 0.0 { (at_a_time / rate / 2.0 * 1e9) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none_and_ages_are_of_readings_that_owed() {
        let asked = Asked {
            remote: "a",
            open: vec![4, 4, 0, 4],
            connecting: vec![0, 1, 0, 0],
            due: vec![4, 0, 0, 2],
            ages_ns: vec![10, 30],
        };
        assert_eq!((asked.connecting_share(), asked.connecting_mean()), (0.25, 0.25));
        assert_eq!((asked.due_share(), asked.due_mean(), asked.open_mean(), asked.age_ns()), (0.5, 1.5, 3.0, 30.0));
        assert_eq!(Asked::default().age_ns(), 0.0);
    }
}
