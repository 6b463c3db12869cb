//! How wall clock and suspended time stand to the monotonic clock, from three clocks of the kernel.
//! A slewed clock (NTP) slews CLOCK_MONOTONIC with it, so the wall offset changes by steps only.
//! Cost: at most eighteen clock readings a tick, without a system call. Needs no privilege and cannot fail.

use crate::metric::{Metric, gauge};
use crate::samplers::{EACH, Entry, Sampler};
use crate::source::clock::{suspended_ns, wall_offset_ns};
use crate::source::proc::{Buffers, SampleError};
use model::Snapshot;

const METRICS: &[Metric] = &[
    gauge(
        "wall_offset_ns",
        "ns",
        "CLOCK_REALTIME − CLOCK_MONOTONIC",
        "the wall clock's lead; changes when it is stepped",
    ),
    gauge("suspended_ns", "ns", "CLOCK_BOOTTIME − CLOCK_MONOTONIC", "time the machine was suspended"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/clock",
    about: "wall clock and suspended time against the monotonic clock",
    needs: "nothing",
    cost: "some clock readings a tick, no system call",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(Clock),
};

#[derive(Debug)]
struct Clock;

impl Sampler for Clock {
    fn sample(&mut self, _: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        snapshot.wall_offset_ns = Some(wall_offset_ns());
        snapshot.suspended_ns = Some(suspended_ns());
        Ok(())
    }
}
