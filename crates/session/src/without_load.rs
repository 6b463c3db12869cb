//! What recordings without a load have in common: where they go, and a plan that asks for nothing.

use crate::run::RecordTo;
use model::plan::{
    Backoff, Content, DriverKind, Echo, OnError, OnFull, Origin, Pace, Plan, Sizes, Stop, Think, Timeouts, Workload,
};
use model::recording::Capsule;
use store::{StoreError, Writer};

/// The recording's file, where one is wanted.
pub(crate) fn open(record: &RecordTo, capsule: &Capsule, plan: &Plan) -> Result<Option<Writer>, StoreError> {
    match record {
        RecordTo::Nothing => Ok(None),
        RecordTo::File(path) => Writer::create(path, capsule, plan).map(Some),
        RecordTo::Folder(folder) => {
            store::probe(folder)?;
            Writer::create(&store::new_path(folder, capsule, plan), capsule, plan).map(Some)
        }
    }
}

/// No load: a plan that names the source and asks for nothing.
pub(crate) fn plan_without_load(name: String, interval_ns: u64) -> Plan {
    Plan {
        workload: Workload::Echo(Echo { sizes: Sizes::Fixed(1), content: Content::Text }),
        origins: vec![Origin { name, addresses: Vec::new(), weight: 1.0 }],
        sources: Vec::new(),
        pace: Pace::Closed { think: Think::None },
        connections: 0,
        threads: 0,
        pin: Vec::new(),
        isolation: None,
        stop: Stop { duration_ns: None, requests: Some(0) },
        warmup_ns: 0,
        drain_ns: 0,
        timeouts: Timeouts { connect_ns: 0, reply_ns: 0 },
        reconnect: Backoff { first_ns: 0, max_ns: 0 },
        give_up_ns: None,
        after_ns: 0,
        expectations: Vec::new(),
        finding_expectations: Vec::new(),
        faults: Vec::new(),
        abort_when: Vec::new(),
        phases: Vec::new(),
        requests_per_connection: None,
        pipeline: 1,
        on_full: OnFull::Wait,
        on_error: OnError::FailFast,
        queue_capacity: 0,
        driver: DriverKind::Epoll,
        batch: None,
        receive_stamps: false,
        tick_ns: interval_ns,
        seed: 0,
        tls: None,
    }
}
