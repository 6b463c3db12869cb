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
        let start = if is_long(plan) { ObserverThread::new } else { ObserverThread::with_probes_later };
        Here(start(ObserveSpec {
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

/// Measured time from which on a run waits for its probes, nanoseconds. Loading them takes some 20 ms of a CPU and stops all
/// others for moments, which would be seen in a short run's percentiles: of runs of 1 s with probes that were loaded within them,
/// p99 was a quarter higher than of those without.
const LONG_NS: u64 = 300_000_000;
/// Requests that take as long in a closed loop.
const LONG_REQUESTS: u64 = 50_000;

/// Whether a run surely lasts so long that some milliseconds before it are no matter. A run of a few requests is not held up.
pub(crate) fn is_long(plan: &Plan) -> bool {
    plan.planned_ns().is_none_or(|ns| ns >= LONG_NS)
        && plan.stop.requests.is_none_or(|requests| requests >= LONG_REQUESTS)
}

/// A tenth of what the run measures, or of what has passed where a count may end it at any moment.
fn windows(plan: &Plan) -> WindowShare {
    let warmup_ns = plan.warmup_ns.saturating_add(plan.ramp_ns());
    let measured_ns = plan.stop.duration_ns.filter(|_| plan.stop.requests.is_none());
    WindowShare::TenthOfMeasured { measured_ns, warmup_ns, tick_ns: plan.tick_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::Stop;

    /// Whether a probe was still to be loaded when the load was about to begin; `None`: none can be here.
    fn has_to_come(stop: Stop) -> Option<bool> {
        if !testkit::is_root() || !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            testkit::skip("probes need root and a kernel with BTF");
            return None;
        }
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = testkit::recordings::origin("own", server.local_addr().unwrap().port());
        let plan = Plan {
            stop,
            ..testkit::recordings::plan(testkit::recordings::http1(testkit::recordings::get()), vec![origin])
        };
        let mut here = Here::start(&plan, Level::Light);
        here.before();
        let statuses = here.statuses();
        let probe = statuses.iter().find(|status| status.name == "bpf/lifecycle").unwrap();
        assert!(!probe.reason.is_empty() || probe.status == SamplerState::Active, "{probe:?}");
        Some(probe.reason.starts_with("not attached before the run ended"))
    }

    #[test]
    fn a_run_waits_for_its_probes_unless_it_may_be_over_at_once() {
        let stop = |duration_ns, requests| Stop { duration_ns, requests };
        for (stop, to_come) in [
            (stop(Some(1_000_000_000), None), false),
            (stop(None, Some(1_000_000)), false),
            (stop(None, Some(1)), true),
            (stop(Some(1_000_000_000), Some(100)), true),
            (stop(Some(100_000_000), None), true),
        ] {
            let Some(found) = has_to_come(stop) else { return };
            assert_eq!(found, to_come, "{stop:?}");
        }
    }
}
