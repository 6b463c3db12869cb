//! What of a plan one worker does: its connections, its origins, its count of requests.

use model::plan::Plan;

/// One worker's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its index, from 0.
    pub worker: u16,
    /// The origin of each of its connections.
    pub slots: Vec<u16>,
    /// Measured requests it may start; `None`: as many as there is time for.
    pub requests: Option<u64>,
}

/// Splits a plan over its workers: connections in turn, origins by weight, requests as evenly as whole numbers allow.
pub fn shares(plan: &Plan) -> Vec<Share> {
    let workers = plan.threads.max(1);
    let mut shares: Vec<Share> = (0..workers)
        .map(|worker| Share {
            worker,
            slots: Vec::new(),
            requests: plan.stop.requests.map(|n| part(n, worker, workers)),
        })
        .collect();
    for (i, origin) in origins_of_connections(plan).into_iter().enumerate() {
        shares[i % usize::from(workers)].slots.push(origin);
    }
    shares
}

fn part(n: u64, worker: u16, workers: u16) -> u64 {
    let workers = u64::from(workers);
    n / workers + u64::from(u64::from(worker) < n % workers)
}

/// An origin for each connection, by smooth weighted round robin; every origin gets at least one if there are enough.
fn origins_of_connections(plan: &Plan) -> Vec<u16> {
    let weights: Vec<f64> = plan.origins.iter().map(|o| o.weight.max(0.0)).collect();
    let total: f64 = weights.iter().sum();
    let mut current = vec![0.0; weights.len()];
    let mut given = vec![0u32; weights.len()];
    let connections = plan.connections as usize;
    let mut result = Vec::with_capacity(connections);
    for i in 0..connections {
        let left = connections - i;
        let without = given.iter().filter(|n| **n == 0).count();
        for (c, w) in current.iter_mut().zip(&weights) {
            *c += w;
        }
        let candidates = (0..weights.len()).filter(|o| left > without || given[*o] == 0);
        let best = candidates.max_by(|a, b| current[*a].total_cmp(&current[*b]).then(b.cmp(a))).unwrap_or(0);
        current[best] -= total;
        given[best] += 1;
        result.push(best as u16);
    }
    result
}
