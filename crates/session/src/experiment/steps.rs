//! The doses of each experiment, the scenario of each, and a step's figures.

use super::{Spec, sized};
use crate::run::Outcome;
use diagnose::experiment::{Experiment, KEPT, Step};
use diagnose::facts::Facts;
use diagnose::history::History;
use model::finding::{Figure, ValidityState};
use model::plan::{Address, BurstAt, Plan, Segment, Workload};
use model::snapshot::{SamplerState, SamplerStatus};
use model::units::show_bytes;
use model::{LatencyKind, Scenario};

/// Clients at once.
const CLIENTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Requests on a connection.
const REUSE: [u32; 2] = [1, 2];
/// Shares of the base rate.
const RATES: [f64; 3] = [0.8, 1.0, 1.2];
/// Connections that the rate is put on.
const RATE_CONNECTIONS: u32 = 32;
/// Slower than this a step has too few requests.
const RATE_MIN: f64 = 10.0;
/// Payloads of an echo, bytes.
const ECHO_BYTES: [u32; 3] = [64, 16 << 10, 1 << 20];

/// A dose: how much of what.
#[derive(Debug, Clone)]
pub(super) struct Dose {
    pub(super) experiment: Experiment,
    pub(super) dose: f64,
    pub(super) label: String,
    path: Option<String>,
}

impl Dose {
    fn new(experiment: Experiment, dose: f64, label: String) -> Self {
        Dose { experiment, dose, label, path: None }
    }

    /// So many silent connections.
    pub(super) fn idle(count: f64) -> Self {
        Dose::new(Experiment::Idle, count, format!("{count:.0} silent connections beside"))
    }

    /// The scenario of a step, a rate on so many connections; `None` where it cannot be made.
    pub(super) fn scenario(&self, base: Scenario, rate_per_s: Option<f64>, on: Option<u32>) -> Option<Scenario> {
        let count = self.dose as u32;
        // The first replies come later than the first requests: of a rate that begins with these a part is missing.
        let warmup_ns = base.duration_ns.map(|length_ns| length_ns / 5);
        Some(match self.experiment {
            Experiment::Clients => Scenario { connections: Some(count), warmup_ns, ..base },
            Experiment::Reuse => Scenario { requests_per_connection: (self.dose < KEPT).then_some(count), ..base },
            Experiment::Idle => base,
            Experiment::Burst => Scenario {
                burst: Some(count),
                burst_at: Some(BurstAt::Connect),
                rounds: Some(1),
                connections: None,
                duration_ns: None,
                ..base
            },
            Experiment::Rate => {
                let rate_per_s = rate_per_s? * self.dose;
                if rate_per_s < RATE_MIN {
                    return None;
                }
                let for_ns = base.duration_ns?;
                // What is late then is not waited for: rates are of the time before.
                let profile = vec![Segment { from_per_s: rate_per_s, to_per_s: rate_per_s, for_ns }];
                Scenario {
                    profile,
                    connections: Some(on.unwrap_or(RATE_CONNECTIONS)),
                    drain_ns: warmup_ns,
                    warmup_ns,
                    ..base
                }
            }
            Experiment::Size => {
                let mut scenario = base;
                match &self.path {
                    Some(path) => {
                        let url = scenario.urls.first_mut()?;
                        url.url = model::hide::secret_url(&with_path(&url.url.expose_text(), path));
                        scenario.urls.truncate(1);
                    }
                    None => sized(&mut scenario, count),
                }
                scenario
            }
        })
    }
}

/// A URL with another path.
fn with_path(url: &str, path: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| after_scheme + at);
    format!("{}/{}", &url[..end], path.trim_start_matches('/'))
}

/// All doses, in the order of a round: first what a server that starves many clients takes no time for; clients before rates,
/// which are made of what those were answered.
pub(super) fn doses(spec: &Spec, plan: &Plan) -> Vec<Dose> {
    let counted = |n: u32, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let most = spec.connections_max.max(1);
    let label = |n: u32| format!("{} on a connection", counted(n, "request", "requests"));
    let mut all: Vec<Dose> = REUSE.map(|n| Dose::new(Experiment::Reuse, f64::from(n), label(n))).into();
    all.push(Dose::new(Experiment::Reuse, KEPT, "a connection that is kept".to_owned()));
    let has_tcp = plan.origins.iter().flat_map(|o| &o.addresses).any(|address| matches!(address, Address::Tcp(_)));
    if has_tcp {
        all.extend([0, most / 16, most].map(|n| Dose::idle(f64::from(n))));
        let bursts = [1, most / 16, most].map(|n| n.max(1));
        let label = |n: u32| format!("{} at once", counted(n, "new connection", "new connections"));
        all.extend(bursts.map(|n| Dose::new(Experiment::Burst, f64::from(n), label(n))));
    }
    if spec.paths.len() > 1 {
        all.extend(spec.paths.iter().enumerate().map(|(at, path)| Dose {
            path: Some(path.clone()),
            ..Dose::new(Experiment::Size, at as f64, path.clone())
        }));
    } else if matches!(plan.workload, Workload::Echo(_)) {
        all.extend(ECHO_BYTES.map(|n| Dose::new(Experiment::Size, f64::from(n), show_bytes(f64::from(n)))));
    }
    let clients = CLIENTS.into_iter().filter(|n| *n <= most);
    all.extend(clients.map(|n| Dose::new(Experiment::Clients, f64::from(n), counted(n, "client", "clients"))));
    all.extend(
        RATES.map(|share| Dose::new(Experiment::Rate, share, format!("{:.0} % of the base rate", 100.0 * share))),
    );
    all.retain(|dose| spec.only.is_empty() || spec.only.contains(&dose.experiment) || is_needed(spec, dose));
    all.dedup_by(|a, b| a.experiment == b.experiment && a.dose == b.dose);
    all
}

/// Without a rate of the user's it is made of what clients were answered.
fn is_needed(spec: &Spec, dose: &Dose) -> bool {
    spec.rate_per_s.is_none() && spec.only.contains(&Experiment::Rate) && dose.experiment == Experiment::Clients
}

/// A step's figures.
pub(super) fn step(outcome: &Outcome, dose: &Dose, round: u32) -> Step {
    let recording = &outcome.recording;
    let (totals, plan) = (&recording.totals, &recording.plan);
    let (sum, counts) = (&totals.sum, &totals.sum.counts);
    let response = sum.latency.of(LatencyKind::Response);
    let connect = sum.latency.of(LatencyKind::Connect);
    let us = |ns: f64| ns / 1e3;
    let history = History::of(&recording.snapshots);
    let facts = Facts::of(recording, &history);
    let errors = sum.errors.seen().chain(sum.connection_errors.seen());
    let has_seen = |status: &SamplerStatus| status.name == "process/target" && status.status == SamplerState::Active;
    let is_here = facts.is_loopback() || recording.samplers.iter().any(has_seen);
    let validity = &outcome.diagnosis.validity;
    let is_not_valid = |figure| validity.figure(figure).is_some_and(|verdict| verdict.state == ValidityState::NotValid);
    let timed_out =
        sum.errors.of(model::ErrorKind::ConnectTimeout) + sum.connection_errors.of(model::ErrorKind::ConnectTimeout);
    let longest_ns = connect.max().max(if timed_out > 0 { plan.timeouts.connect_ns } else { 0 });
    Step {
        experiment: dose.experiment,
        dose: dose.dose,
        label: dose.label.clone(),
        round,
        at_s: 0.0,
        measured_s: totals.measured_ns as f64 / 1e9,
        ok: counts.ok,
        failed: counts.failed + counts.dropped,
        unfinished: totals.in_flight_at_end,
        errors: errors.map(|(kind, n)| (kind.name().to_owned(), n)).collect(),
        throughput_per_s: totals.requests_per_s(),
        asked_per_s: plan.mean_rate_per_s(facts.start_ns, facts.end_ns),
        response_mean_us: (!response.is_empty()).then(|| us(response.mean())),
        response_p50_us: sum.latency.quantile(LatencyKind::Response, 0.5).map(|median| us(median.ns as f64)),
        connect_mean_us: (!connect.is_empty()).then(|| us(connect.mean())),
        connect_max_us: (longest_ns > 0).then_some(us(longest_ns as f64)),
        connected: counts.connected,
        closed: counts.closed_by_peer.saturating_add(counts.closed_by_us),
        reply_bytes: (counts.ok > 0).then(|| counts.bytes_received as f64 / counts.ok as f64),
        busy_cores: is_here.then(|| busy_for_it(&facts)).flatten(),
        turned_away: 0,
        is_disturbed: is_not_valid(Figure::Throughput) || is_not_valid(Figure::Response),
    }
}

/// Cores busy for the server: its processes', or all that were busy but for what strangers to the run took.
fn busy_for_it(facts: &Facts<'_>) -> Option<f64> {
    let strangers: f64 = facts.strangers().map(|stranger| stranger.cores).sum();
    let of_host = facts.host.map(|host| (host.cores - host.idle_cores - strangers).max(0.0));
    facts.target_cores.or(of_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_the_place_of_another() {
        for (url, path, expected) in [
            ("http://a:1/x?y#z", "/b", "http://a:1/b"),
            ("http://a:1", "b?c=1", "http://a:1/b?c=1"),
            ("https://u:p@a?q", "/", "https://u:p@a/"),
        ] {
            assert_eq!(with_path(url, path), expected);
        }
    }
}
