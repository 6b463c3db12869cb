//! Recordings of a target that stalls, and what its probes saw.

use super::judged::{sampled, with};
use super::{Build, SECOND, open};
use model::Recording;
use model::bpf::{BpfSample, CallUse, FutexUse};
use model::request::{Gap, IntervalRequests, Request};

/// A run with pauses that begin at these moments, milliseconds, and last so long.
pub fn paused(at_ms: &[u64], length_ms: u64, threads: usize) -> Recording {
    let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.3, 0.0); threads]));
    pausing(build.recording(), at_ms, length_ms)
}

/// The same of a run.
pub fn pausing(recording: Recording, at_ms: &[u64], length_ms: u64) -> Recording {
    pausing_with(recording, at_ms, length_ms, 0.0)
}

/// The same, of which the generator may have made such a share itself.
pub fn pausing_with(recording: Recording, at_ms: &[u64], length_ms: u64, own: f64) -> Recording {
    pausing_among(recording, at_ms, length_ms, own, |n| (SECOND, if n % 20 == 0 { 80_000_000 } else { 200_000 }))
}

/// The same, and when each of its 400 sampled requests was sent, and how long it took, nanoseconds.
pub fn pausing_among(
    mut recording: Recording,
    at_ms: &[u64],
    length_ms: u64,
    own: f64,
    request: impl Fn(u64) -> (u64, u64),
) -> Recording {
    let gaps = at_ms.iter().map(|ms| Gap {
        from_ns: ms * 1_000_000,
        to_ns: (ms + length_ms) * 1_000_000,
        in_flight: 10,
        connections: 10,
        open: 64,
        own_ns_max: (own * (length_ms * 1_000_000) as f64) as u64,
        ..Gap::default()
    });
    recording.requests.push(0, 0, &IntervalRequests { gaps: gaps.collect(), ..IntervalRequests::default() });
    sampled(&mut recording, 400, |n| {
        let (sent_ns, took_ns) = request(n);
        Request { ready_ns: sent_ns, sent_ns, ended_ns: sent_ns + took_ns, ..Request::default() }
    });
    recording
}

/// A system call of the windows.
pub fn call(name: &str, count: u64, ns: u64) -> CallUse {
    CallUse { name: name.to_owned(), count, ns, ..CallUse::default() }
}

/// A run with what the probes' windows had of calls and futexes.
pub fn probed(build: Build, calls: Vec<CallUse>, futexes: Vec<FutexUse>) -> Recording {
    with(build, move |_, s| {
        let bpf = BpfSample { calls_window_ns: SECOND, window_replies: 400, ..BpfSample::default() };
        s.bpf = Some(BpfSample { calls: calls.clone(), futexes: futexes.clone(), ..bpf });
    })
}
