//! What a fault did to the load, and what else befell the target: for whom it failed, how long until as before.

use model::finding::Diagnosis;
use model::recovery::{Connections, Memory, Recovery, Resolution, Return};
use schemars::JsonSchema;
use serde::Serialize;

/// What befell the target without being asked for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Disruption {
    /// `process-crash`, `oom-kill`, `process-restart`, or `outage` where it is not known what it was.
    pub name: String,
    /// What happened, in a sentence.
    pub what: String,
    /// When, seconds since the run's start.
    pub at_s: f64,
    /// What it did to the load, and how long until all was as before.
    #[serde(flatten)]
    pub effects: Effects,
}

/// What a disruption did. Moments are seconds since the run's start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Effects {
    /// Until when it is counted: until all was as before, the next disruption, or the end of the load; null: it was not done.
    pub until_s: Option<f64>,
    /// Requests that failed through it.
    pub failed_requests: u64,
    /// Of these, requests that got no connection.
    pub refused_requests: u64,
    /// Requests whose connection was cut.
    pub aborted_requests: u64,
    /// Requests without an answer in time.
    pub unanswered_requests: u64,
    /// The most that failed in one interval, a second.
    pub failed_per_s_max: f64,
    /// Connections that the target closed or reset through it.
    pub aborted_connections: u64,
    /// The last success before it; null: nothing was interrupted.
    pub last_success_s: Option<f64>,
    /// The first failure; null: there was none, or it is not known.
    pub first_failure_s: Option<f64>,
    /// The first success after it; null: nothing was interrupted, or there was none.
    pub first_success_s: Option<f64>,
    /// How long nothing succeeded, in all; null: to the end of the run.
    pub outage_s: Option<f64>,
    /// In how many spans.
    pub outages: u32,
    /// Successes a second: before, the worst, and since when they are back.
    pub throughput_per_s: Option<Return>,
    /// The 99th percentile of the response time, microseconds, likewise.
    pub response_p99_us: Option<Return>,
    /// When all was as before; null: not until `until_s`.
    pub recovered_s: Option<f64>,
    /// By how much the throughput went beyond that before, as a share of it; null: it did not.
    pub overshoot: Option<f64>,
    /// The target's resident memory; null: it was not read.
    pub memory_bytes: Option<Memory>,
    /// Its connections; null: their number changes anyway.
    pub connections: Option<Connections>,
    /// How exact all of this is; null: nothing of it was measured.
    pub resolution: Option<Resolution>,
}

impl Disruption {
    /// Those of a diagnosis that no fault was.
    pub fn all_of(diagnosis: &Diagnosis) -> Vec<Self> {
        let own = diagnosis.recoveries.iter().filter(|recovery| recovery.fault.is_none());
        own.map(|recovery| Disruption {
            name: recovery.name.clone(),
            what: recovery.what.clone(),
            at_s: recovery.at_s,
            effects: Effects::of(recovery),
        })
        .collect()
    }
}

impl Effects {
    /// Of a disruption.
    pub fn of(recovery: &Recovery) -> Self {
        Effects {
            until_s: Some(recovery.until_s),
            failed_requests: recovery.failed.requests,
            refused_requests: recovery.failed.refused,
            aborted_requests: recovery.failed.aborted,
            unanswered_requests: recovery.failed.unanswered,
            failed_per_s_max: recovery.failed.per_s_max,
            aborted_connections: recovery.aborted_connections,
            last_success_s: recovery.last_success_s,
            first_failure_s: recovery.first_failure_s,
            first_success_s: recovery.first_success_s,
            outage_s: recovery.outage_s,
            outages: recovery.outages,
            throughput_per_s: recovery.throughput,
            response_p99_us: recovery.response_p99_us,
            recovered_s: recovery.recovered_s,
            overshoot: recovery.overshoot,
            memory_bytes: recovery.memory,
            connections: recovery.connections,
            resolution: Some(recovery.resolution),
        }
    }
}
