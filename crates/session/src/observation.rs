//! What a run observes where all is on this host, or nothing is. A target elsewhere: `remote::Elsewhere`.

use model::bpf::Level;
use model::plan::{Address, Plan};
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};
use observe::target::NotFound;
use observe::{Extent, Observation, ObserveSpec, ObserverThread, WindowShare};

/// Nothing is observed.
#[derive(Debug)]
pub(crate) struct Off;

impl Observation for Off {
    fn before(&mut self) -> Option<Snapshot> {
        None
    }

    fn place(&mut self, before: Snapshot, _: u64) -> Snapshot {
        before
    }

    fn snapshots(&mut self, _: i64, _: Extent) -> Vec<Snapshot> {
        Vec::new()
    }

    fn take_events(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn statuses(&self) -> Vec<SamplerStatus> {
        let reason = "nothing was observed (--no-observe)".to_owned();
        vec![SamplerStatus { name: "observe/all".to_owned(), status: SamplerState::Disabled, reason }]
    }
}

/// Target and generator are observed on this host.
#[derive(Debug)]
pub(crate) struct Here(ObserverThread);

impl Here {
    /// Looks for the target's processes and begins, before any load is put on.
    pub(crate) fn start(plan: &Plan, probes: Level) -> Self {
        let addresses: Vec<Address> = plan.origins.iter().flat_map(|o| o.addresses.iter().cloned()).collect();
        let has_requests = addresses.iter().any(|address| matches!(address, Address::Tcp(_)));
        let (target, target_unknown) = match observe::target::find(&addresses) {
            Ok(pids) => (pids, None),
            Err(why @ NotFound::Remote { .. }) => (
                Vec::new(),
                Some(format!("{why}; to see it, run `plimsoll watch --serve` where it is and give --observe-at here")),
            ),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        Here(ObserverThread::with_probes_later(ObserveSpec {
            target,
            target_unknown,
            addresses,
            own_pid: std::process::id(),
            has_requests,
            is_plain: plan.tls.is_none(),
            probes,
            windows: windows(plan),
            ..ObserveSpec::default()
        }))
    }
}

impl Observation for Here {
    fn before(&mut self) -> Option<Snapshot> {
        Some(self.0.snapshot(-1))
    }

    fn place(&mut self, before: Snapshot, origin_ns: u64) -> Snapshot {
        self.0.begin(i64::try_from(origin_ns).unwrap_or(i64::MAX));
        before
    }

    fn hint_slow(&mut self) {
        self.0.hint_slow();
    }

    fn snapshots(&mut self, at_ns: i64, extent: Extent) -> Vec<Snapshot> {
        vec![self.0.reading(at_ns, extent)]
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.0.take_events()
    }

    fn statuses(&self) -> Vec<SamplerStatus> {
        self.0.statuses()
    }
}

/// A tenth of what the run measures, or of what has passed where a count may end it at any moment.
fn windows(plan: &Plan) -> WindowShare {
    let warmup_ns = plan.warmup_ns.saturating_add(plan.ramp_ns());
    let measured_ns = plan.stop.duration_ns.filter(|_| plan.stop.requests.is_none());
    WindowShare::TenthOfMeasured { measured_ns, warmup_ns, tick_ns: plan.tick_ns }
}
