//! Faults, and what else befell the target, as the document has them: what was done, for whom it failed, how long until as before.

use model::finding::Diagnosis;
use model::recovery::{Connections, Memory, Recovery, Resolution, Return};
use schemars::JsonSchema;
use serde::Serialize;

/// A fault of the run, or a disruption that nobody asked for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fault {
    /// Its name; of what nobody asked for `process-crash`, `oom-kill`, `process-restart` or `outage`.
    pub name: String,
    /// Its number among the run's faults, from 1 on; null: nobody asked for it.
    pub number: Option<u32>,
    /// What was done or happened, in a sentence.
    pub what: String,
    /// When, seconds since the run's start.
    pub at_s: f64,
    /// When it was undone; null: it was not.
    pub undone_at_s: Option<f64>,
    /// Why it was not done, or could not be undone; null: nothing was wrong with it.
    pub refused: Option<String>,
    /// Until when its figures are counted: until all was as before, the next disruption, or the end of the load.
    pub until_s: f64,
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
    /// Connections aborted through it.
    pub aborted_connections: u64,
    /// The last success before it, seconds since the run's start; null: nothing was interrupted.
    pub last_success_s: Option<f64>,
    /// The first failure; null: there was none, or it is not known.
    pub first_failure_s: Option<f64>,
    /// The first success after it, seconds since the run's start; null: nothing was interrupted, or there was none.
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
    /// How exact all of this is.
    pub resolution: Resolution,
}

/// All of a diagnosis.
pub fn of(diagnosis: &Diagnosis) -> Vec<Fault> {
    diagnosis.recoveries.iter().map(Fault::of).collect()
}

impl Fault {
    fn of(recovery: &Recovery) -> Self {
        let r = recovery.clone();
        Fault {
            name: r.name,
            number: r.fault,
            what: r.what,
            at_s: r.at_s,
            undone_at_s: r.undone_at_s,
            refused: r.refused,
            until_s: r.until_s,
            failed_requests: r.failed.requests,
            refused_requests: r.failed.refused,
            aborted_requests: r.failed.aborted,
            unanswered_requests: r.failed.unanswered,
            failed_per_s_max: r.failed.per_s_max,
            aborted_connections: r.aborted_connections,
            last_success_s: r.last_success_s,
            first_failure_s: r.first_failure_s,
            first_success_s: r.first_success_s,
            outage_s: r.outage_s,
            outages: r.outages,
            throughput_per_s: r.throughput,
            response_p99_us: r.response_p99_us,
            recovered_s: r.recovered_s,
            overshoot: r.overshoot,
            memory_bytes: r.memory,
            connections: r.connections,
            resolution: r.resolution,
        }
    }
}
