//! Stands where the probes would be in a build without the feature `bpf`, and says so.

use crate::observer::ObserveSpec;
use crate::source::schedule::Turn;
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};

/// Name, what it counts, needs and costs: of the one that says that there is none.
pub(crate) fn listed() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    std::iter::once(("bpf/all", "all probes in the kernel", "a build with the feature bpf", "nothing"))
}

/// No probes.
#[derive(Debug)]
pub(crate) struct Family;

impl Family {
    pub(crate) fn pending(_: Result<&[u32], &str>, _: &ObserveSpec) -> Self {
        Family
    }

    pub(crate) fn load_next(&mut self) -> bool {
        false
    }

    pub(crate) fn begin(&mut self, _origin_ns: i64) {}

    pub(crate) fn sample(&mut self, _: &mut Turn, _: &mut Snapshot, _: &mut Vec<Event>) {}

    pub(crate) fn hint_slow(&mut self) {}

    pub(crate) fn relieve_in(&self) -> Option<std::time::Duration> {
        None
    }

    pub(crate) fn relieve(&mut self) {}

    pub(crate) fn statuses(&self) -> Vec<SamplerStatus> {
        let reason = "this plimsoll was built without probes: build it with the feature bpf".to_owned();
        vec![SamplerStatus { name: "bpf/all".to_owned(), status: SamplerState::Disabled, reason }]
    }
}
