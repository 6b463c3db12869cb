//! Where the time of requests went, as the document has it.

use diagnose::split::{self, Band, Parts};
use model::Recording;
use model::snapshot::SamplerState;
use model::split::{SplitRequest, Unsplit};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The probe that sees single requests on the target's machine, and one that runs whenever it is asked for.
const PROBE: &str = "bpf/exchanges";
const BESIDE: &str = "bpf/syscalls";

/// Where the time of requests went, of those in windows of the observer's probes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Split {
    /// Requests of the uniform sample that were sent and ended within a window.
    pub requests: u64,
    /// How many of them were joined with what the target's sockets saw.
    pub joined: u64,
    /// Requests of the sample that were under way when a window began or ended: in no band, so long ones are missing.
    pub cut: u64,
    /// Why those that were not joined were not, by a fixed word.
    pub unsplit: BTreeMap<&'static str, u64>,
    /// Means of requests near a quantile of the response time, and of the slowest that were kept. Of too few there is none.
    pub bands: Vec<SplitBand>,
    /// Why there is no band in which anything is split; null: there is one.
    pub why_not: Option<String>,
}

/// The mean of some requests.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SplitBand {
    /// `p50`, `p90`, `p99`, or `slowest`.
    pub band: &'static str,
    /// From which share of all requests, sorted by response time; null for `slowest`.
    pub from_rank: Option<f64>,
    /// Up to which.
    pub to_rank: Option<f64>,
    /// How many requests it is the mean of.
    pub requests: u64,
    /// How many of them were joined.
    pub joined: u64,
    /// Their mean response time, microseconds: the sum of the parts.
    pub response_us: f64,
    /// The parts of it.
    #[serde(flatten)]
    pub parts: SplitParts,
}

/// The parts of a response time, microseconds. They add up to it (`network_us` is `there_us` and `back_us` together).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SplitParts {
    /// From when it was due until the worker took it up: the generator's own.
    pub lag_us: f64,
    /// Waiting for a free connection.
    pub queue_us: f64,
    /// Waiting for its own connection to be made, TLS included.
    pub connect_us: f64,
    /// From its sending to the target's socket: the rest of the generator's turn, kernels and network; null where the target
    /// is on another machine, whose clock is known only within a bound.
    pub there_us: Option<f64>,
    /// In the target's socket until the target read of it.
    pub socket_us: f64,
    /// From the first read to the last send of its reply.
    pub server_us: f64,
    /// From there until the generator had all of it; null as `there_us`.
    pub back_us: Option<f64>,
    /// The way there and the way back together.
    pub network_us: f64,
    /// From its sending to its end, of requests that were not joined.
    pub unsplit_us: f64,
}

impl Split {
    /// That of a recording; `None`: nobody looked for it.
    pub fn of(recording: &Recording) -> Option<Self> {
        let kept = &recording.split;
        let has_two_clocks = has_two_clocks(recording);
        let bands: Vec<SplitBand> = split::bands(kept).iter().map(|band| SplitBand::of(band, has_two_clocks)).collect();
        let of_sample =
            |is_one: &dyn Fn(&SplitRequest) -> bool| kept.sampled().filter(|one| is_one(one)).count() as u64;
        let why = |why: Unsplit| (why, of_sample(&|one| one.passage == Err(why)));
        let unsplit = Unsplit::ALL.into_iter().map(why).filter(|(_, count)| *count > 0);
        let why_not = if bands.iter().any(|band| band.joined > 0) { None } else { Some(why_not(recording)?) };
        Some(Split {
            requests: of_sample(&|_| true),
            joined: of_sample(&|one| one.passage.is_ok()),
            cut: kept.cut,
            unsplit: unsplit.map(|(why, count)| (why.name(), count)).collect(),
            bands,
            why_not,
        })
    }
}

/// Whether the target's stamps are of another machine's clock.
pub fn has_two_clocks(recording: &Recording) -> bool {
    recording.capsule.target_host.is_some()
}

/// Why nothing is split; `None`: nobody looked for it.
fn why_not(recording: &Recording) -> Option<String> {
    let kept = &recording.split;
    let of = |name: &str| recording.samplers.iter().find(|sampler| sampler.name == name);
    let probe = of(PROBE)?;
    let most = Unsplit::ALL.into_iter().zip(kept.unsplit).max_by_key(|(_, count)| *count);
    if let Some((why, count)) = most.filter(|(_, count)| *count > 0 && kept.joined == 0) {
        return Some(format!("{count} of {} requests within windows of the probes: {}", kept.whole, why.sentence()));
    }
    match probe.status {
        SamplerState::Active if kept.is_empty() => Some(
            "no request of the sample was sent and ended within a window of the probes (--observe full has one window over \
             all of the run)"
                .to_owned(),
        ),
        SamplerState::Active => Some(format!(
            "too few requests of the sample lay within windows of the probes: {}, and {} were cut by one (--observe full has \
             one window over all of the run)",
            kept.whole, kept.cut
        )),
        // At a level that has no windows nobody looks for it.
        SamplerState::Disabled if of(BESIDE).is_none_or(|beside| beside.status != SamplerState::Active) => None,
        SamplerState::Disabled | SamplerState::Failed => Some(probe.reason.clone()),
    }
}

impl SplitBand {
    fn of(band: &Band, has_two_clocks: bool) -> Self {
        SplitBand {
            band: band.name,
            from_rank: band.ranks.map(|(low, _)| low),
            to_rank: band.ranks.map(|(_, high)| high),
            requests: band.requests as u64,
            joined: band.joined as u64,
            response_us: band.response_ns / 1e3,
            parts: SplitParts::of(&band.parts, has_two_clocks),
        }
    }
}

impl SplitParts {
    /// Those of a mean.
    pub fn of(parts: &Parts, has_two_clocks: bool) -> Self {
        let us = |ns: f64| ns / 1e3;
        let way = |ns: f64| (!has_two_clocks).then(|| us(ns));
        SplitParts {
            lag_us: us(parts.lag_ns),
            queue_us: us(parts.queue_ns),
            connect_us: us(parts.connect_ns),
            there_us: way(parts.there_ns),
            socket_us: us(parts.socket_ns),
            server_us: us(parts.server_ns),
            back_us: way(parts.back_ns),
            network_us: us(parts.there_ns + parts.back_ns),
            unsplit_us: us(parts.unsplit_ns),
        }
    }

    /// Those of one request.
    pub fn of_one(one: &SplitRequest, has_two_clocks: bool) -> Self {
        Self::of(&Parts::of(one), has_two_clocks)
    }
}
