//! How much of everything: connections, workers, queue, batch, timeouts, tick. Checked against fixed limits.
//!
//! Each default is one expression here, with its reason; each choice that depends on the machine is told as a
//! [`Choice`], so that `--explain` can show it.

pub(super) mod isolation;

use crate::Choice;
use crate::defaults as d;
use crate::host::Machine;
use crate::pace;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use model::Scenario;
use model::limits;
use model::plan::{Address, Batch, DriverKind, OnFull, Origin, Pace, Stop, Timeouts};
use model::units::show_duration_ns;

/// Connections over all workers.
pub(super) fn connections(scenario: &Scenario, stop: &Stop, choices: &mut Vec<Choice>) -> Result<u32, ResolveError> {
    match scenario.burst.or(scenario.connections) {
        Some(n) if (1..=limits::CONNECTIONS_MAX).contains(&n) => Ok(n),
        Some(n) => {
            Err(ResolveError::bad_value(Field::Connections, format!("1 to {} connections", limits::CONNECTIONS_MAX), n))
        }
        None => {
            let by_count = stop.requests.and_then(|n| u32::try_from(n).ok()).filter(|n| *n < d::CONNECTIONS);
            let (n, why) = match by_count {
                Some(n) => (n, "no more than requests"),
                None => (d::CONNECTIONS, "the default"),
            };
            choices.push(Choice::new("connections", n, why));
            Ok(n)
        }
    }
}

/// CPUs to pin workers to.
pub(super) fn pin(scenario: &Scenario, machine: &Machine) -> Result<Vec<u16>, ResolveError> {
    let online = &machine.cpus_online;
    match scenario.pin.iter().find(|cpu| !online.is_empty() && !online.contains(cpu)) {
        Some(cpu) => {
            let names: Vec<String> = online.iter().map(u16::to_string).collect();
            Err(ResolveError::bad_value(Field::Pin, format!("CPUs that are online ({})", names.join(",")), cpu))
        }
        None => Ok(scenario.pin.clone()),
    }
}

/// Workers: never more than connections.
pub(super) fn threads(
    scenario: &Scenario,
    connections: u32,
    is_local: bool,
    cores: u16,
    least: u16,
    choices: &mut Vec<Choice>,
) -> Result<u16, ResolveError> {
    let (wanted, why) = match (scenario.threads, scenario.pin.len()) {
        (Some(n), _) if (1..=limits::THREADS_MAX).contains(&n) => (n, "asked for".to_owned()),
        (Some(n), _) => {
            return Err(ResolveError::bad_value(Field::Threads, format!("1 to {} workers", limits::THREADS_MAX), n));
        }
        (None, pinned @ 1..) => (u16::try_from(pinned).unwrap_or(u16::MAX), "one for each CPU pinned to".to_owned()),
        // The target needs CPUs of its own where it shares the machine.
        (None, 0) if is_local => {
            (cores.div_ceil(2), format!("half of {cores} CPUs: the target is on this machine and needs the others"))
        }
        (None, 0) if scenario.isolate && cores > 1 => {
            (cores - 1, format!("one for each of {cores} CPUs, but for one that takes the interrupts (--isolate)"))
        }
        (None, 0) => (cores, format!("one for each of {cores} CPUs")),
    };
    let (wanted, why) = if wanted < least && scenario.threads.is_none() {
        (least, format!("each worker has a descriptor table of its own, and {connections} connections fill {least}"))
    } else {
        (wanted, why)
    };
    let fitting = wanted.clamp(1, limits::THREADS_MAX.min(u16::try_from(connections).unwrap_or(u16::MAX)));
    let why = if fitting < wanted { format!("no more than connections ({why}: {wanted})") } else { why };
    choices.push(Choice::new("threads", fitting, &why));
    Ok(fitting)
}

/// Workers needed for their descriptors: each has a table of its own (unshare(2)), which the limit bounds.
pub(super) fn tables(connections: u32, driver: Option<DriverKind>, machine: &Machine) -> u16 {
    match (driver, machine.files_max) {
        (Some(DriverKind::Rings | DriverKind::Sim), _) | (_, None) => 1,
        // So low a limit is meant as one: what does not fit fails, and is counted.
        (_, Some(files)) if files < d::FILES_FEW => 1,
        (_, Some(files)) => {
            let each = files.saturating_sub(d::FILES_OF_OUR_OWN).max(1);
            u16::try_from(u64::from(connections).div_ceil(each)).unwrap_or(u16::MAX).clamp(1, limits::THREADS_MAX)
        }
    }
}

/// Whether every address is this machine's own.
pub(super) fn is_local(origins: &[Origin], is_own: impl Fn(std::net::IpAddr) -> bool) -> bool {
    origins.iter().flat_map(|o| &o.addresses).all(|address| match address {
        Address::Unix(_) => true,
        Address::Tcp(address) => is_own(address.ip()),
    })
}

/// Timeouts, from 1 ns to what a histogram holds.
pub(super) fn timeouts(scenario: &Scenario, default_reply_ns: u64) -> Result<Timeouts, ResolveError> {
    let within = |field, ns: Option<u64>, default| match ns {
        None => Ok(default),
        Some(ns @ 1..=d::TIMEOUT_NS_MAX) => Ok(ns),
        Some(ns) => Err(ResolveError::bad_value(field, "more than 0 and at most 1h", show_duration_ns(ns as f64))),
    };
    Ok(Timeouts {
        connect_ns: within(Field::ConnectTimeout, scenario.connect_timeout_ns, d::CONNECT_TIMEOUT_NS)?,
        reply_ns: within(Field::Timeout, scenario.timeout_ns, default_reply_ns)?,
    })
}

/// How long a run goes on in which nothing connects. Who is ready to wait longer for one connection waits as long here.
pub(super) fn give_up_ns(scenario: &Scenario) -> Result<Option<u64>, ResolveError> {
    match scenario.give_up_ns {
        None => Ok(Some(d::GIVE_UP_NS.max(scenario.connect_timeout_ns.unwrap_or(0)))),
        Some(0) => Ok(None),
        Some(ns) if ns <= d::TIMEOUT_NS_MAX => Ok(Some(ns)),
        Some(ns) => Err(ResolveError::bad_value(Field::GiveUp, "at most 1h, or never", show_duration_ns(ns as f64))),
    }
}

/// Wait for requests in flight at the end.
pub(super) fn drain_ns(scenario: &Scenario, timeouts: &Timeouts) -> Result<u64, ResolveError> {
    match scenario.drain_ns {
        None => Ok(timeouts.reply_ns.min(d::DRAIN_NS)),
        Some(ns) if ns <= d::TIMEOUT_NS_MAX => Ok(ns),
        Some(ns) => Err(ResolveError::bad_value(Field::Drain, "at most 1h", show_duration_ns(ns as f64))),
    }
}

/// How long the machine is read on after the load.
pub(super) fn after_ns(scenario: &Scenario) -> Result<u64, ResolveError> {
    match scenario.after_ns.unwrap_or(0) {
        ns if ns <= d::TIMEOUT_NS_MAX => Ok(ns),
        ns => Err(ResolveError::bad_value(Field::After, "at most 1h", show_duration_ns(ns as f64))),
    }
}

/// Length of an interval.
pub(super) fn tick_ns(scenario: &Scenario, stop: &Stop, choices: &mut Vec<Choice>) -> Result<u64, ResolveError> {
    match (scenario.tick_ns, stop.duration_ns) {
        (Some(ns @ limits::TICK_NS_MIN..=limits::TICK_NS_MAX), _) => Ok(ns),
        (Some(ns), _) => Err(ResolveError::bad_value(Field::Tick, "100ms to 60s", show_duration_ns(ns as f64))),
        (None, Some(length)) if length < d::SHORT_RUN_NS => {
            let why = format!("the run is shorter than {}", show_duration_ns(d::SHORT_RUN_NS as f64));
            choices.push(Choice::new("tick", show_duration_ns(d::TICK_SHORT_NS as f64), &why));
            Ok(d::TICK_SHORT_NS)
        }
        (None, _) => Ok(d::TICK_NS),
    }
}

/// Requests outstanding on a connection, and requests on it before it is replaced; `closes` is the field by which each is
/// closed after its reply.
pub(super) fn reuse(scenario: &Scenario, closes: Option<Field>) -> Result<(u16, Option<u32>), ResolveError> {
    let pipeline = match scenario.pipeline {
        None => 1,
        Some(n) if (1..=limits::PIPELINE_MAX).contains(&n) => n,
        Some(n) => {
            return Err(ResolveError::bad_value(Field::Pipeline, format!("1 to {} requests", limits::PIPELINE_MAX), n));
        }
    };
    if scenario.requests_per_connection == Some(0) {
        return Err(ResolveError::bad_value(Field::RequestsPerConnection, "at least 1", 0));
    }
    if let Some(closes) = closes.filter(|_| pipeline > 1) {
        return Err(ResolveError::Conflict {
            what: Field::Pipeline.into(),
            with: closes.into(),
            instead: "leave one of them out, a pipeline needs a connection that lasts".into(),
        });
    }
    let per_connection = if closes.is_some() { Some(1) } else { scenario.requests_per_connection };
    Ok((pipeline, per_connection))
}

/// What a due request does without a free connection, and how many may wait, per worker. A pace without a queue has 0.
pub(super) fn queue(
    scenario: &Scenario,
    pace: &Pace,
    threads: u16,
    choices: &mut Vec<Choice>,
) -> Result<(OnFull, u32), ResolveError> {
    let on_full = scenario.on_full.unwrap_or(OnFull::Wait);
    if let Some(n) = scenario.queue_capacity.filter(|n| !(1..=limits::QUEUE_MAX).contains(n)) {
        return Err(ResolveError::bad_value(Field::Queue, format!("1 to {} requests", limits::QUEUE_MAX), n));
    }
    let capacity = match (pace, on_full, scenario.queue_capacity) {
        (Pace::Closed { .. } | Pace::Held { .. } | Pace::Burst { .. }, ..) | (_, OnFull::Drop, _) => 0,
        (_, OnFull::Wait, Some(n)) => n,
        (Pace::Open { profile, .. }, OnFull::Wait, None) => {
            let wanted = pace::peak_per_s(profile) / f64::from(threads) * d::QUEUE_SECONDS;
            let n = wanted.clamp(f64::from(d::QUEUE_MIN), f64::from(limits::QUEUE_MAX)).ceil() as u32;
            let why = format!(
                "{:.0} s of a worker's share of the highest rate, {} to {}",
                d::QUEUE_SECONDS,
                d::QUEUE_MIN,
                limits::QUEUE_MAX
            );
            choices.push(Choice::new("queue", format!("{n} per worker"), &why));
            n
        }
    };
    Ok((on_full, capacity))
}

/// Completions reaped together: at most half of what a worker has outstanding. All of it would leave the target idle
/// while the generator reads; half measured as cheap as more (docs/decisions).
pub(super) fn batch(
    scenario: &Scenario,
    connections: u32,
    threads: u16,
    pipeline: u16,
    choices: &mut Vec<Choice>,
) -> Result<Option<Batch>, ResolveError> {
    let Some(asked) = scenario.batch else { return Ok(None) };
    if !(1..=d::BATCH_COMPLETIONS_MAX).contains(&asked.completions) {
        let expected = format!("1 to {} completions", d::BATCH_COMPLETIONS_MAX);
        return Err(ResolveError::bad_value(Field::Batch, expected, asked.completions));
    }
    if !(1..=d::BATCH_DELAY_NS_MAX).contains(&asked.delay_ns) {
        let got = show_duration_ns(asked.delay_ns as f64);
        return Err(ResolveError::bad_value(Field::Batch, "a delay of more than 0 and at most 100ms", got));
    }
    let outstanding = (connections / u32::from(threads)).max(1).saturating_mul(u32::from(pipeline));
    let completions = asked.completions.min((outstanding / 2).max(1));
    if completions < asked.completions {
        let why = format!("half of the {outstanding} requests a worker has outstanding: the target is never left idle");
        choices.push(Choice::new("batch", completions, &why));
    }
    Ok(Some(Batch { completions, ..asked }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::{Arrivals, Segment, Think};

    const S: u64 = 1_000_000_000;

    fn threads_of(asked: Option<u16>, pin: &[u16], connections: u32, is_local: bool, cores: u16) -> u16 {
        let scenario = Scenario { threads: asked, pin: pin.to_vec(), ..Scenario::default() };
        threads(&scenario, connections, is_local, cores, 1, &mut Vec::new()).unwrap()
    }

    #[test]
    fn workers_follow_cores_pins_and_connections() {
        assert_eq!(threads_of(None, &[], 50, false, 4), 4);
        assert_eq!(threads_of(None, &[], 50, true, 4), 2);
        assert_eq!(threads_of(None, &[], 50, true, 1), 1);
        assert_eq!(threads_of(None, &[], 50, true, 3), 2);
        assert_eq!(threads_of(None, &[], 3, false, 64), 3);
        assert_eq!(threads_of(None, &[], u32::MAX, false, 2000), limits::THREADS_MAX);
        assert_eq!(threads_of(None, &[0, 2, 3], 50, true, 4), 3);
        assert_eq!(threads_of(Some(8), &[0], 50, true, 2), 8);
        assert_eq!(threads_of(Some(8), &[], 1, true, 2), 1);
    }

    #[test]
    fn descriptors_may_need_more_workers() {
        let machine = crate::fake::FakeHost::default().machine;
        let of = |connections, driver| tables(connections, driver, &machine);
        assert_eq!((of(19_936, None), of(19_937, None), of(1_000_000, Some(DriverKind::Epoll))), (1, 2, 51));
        assert_eq!(of(1_000_000, Some(DriverKind::Rings)), 1);
        let scenario = Scenario::default();
        assert_eq!(threads(&scenario, 50_000, true, 4, 3, &mut Vec::new()).unwrap(), 3);
        assert_eq!(
            threads(&Scenario { threads: Some(1), ..scenario }, 50_000, true, 4, 3, &mut Vec::new()).unwrap(),
            1,
            "as asked"
        );
    }

    #[test]
    fn limits_are_held_and_named() {
        let open = Pace::Open {
            profile: vec![Segment { from_per_s: 1.0, to_per_s: 1.0, for_ns: S }],
            arrivals: Arrivals::Constant,
        };
        let stop = Stop { duration_ns: None, requests: None };
        let mut c = Vec::new();
        let mut check = |change: fn(&mut Scenario), flag: &str| {
            let mut s = Scenario::default();
            change(&mut s);
            let error = connections(&s, &stop, &mut c)
                .and_then(|_| threads(&s, 50, true, 4, 1, &mut c).map(drop))
                .and_then(|()| timeouts(&s, 30 * S))
                .and_then(|t| drain_ns(&s, &t))
                .and_then(|_| tick_ns(&s, &stop, &mut c).map(drop))
                .and_then(|()| give_up_ns(&s).map(drop))
                .and_then(|()| after_ns(&s).map(drop))
                .and_then(|()| reuse(&s, None).map(drop))
                .and_then(|()| queue(&s, &open, 1, &mut c).map(drop))
                .and_then(|()| batch(&s, 50, 1, 1, &mut c).map(drop))
                .unwrap_err();
            assert!(error.is_usage() && error.to_string().starts_with(flag), "{flag}: {error}");
        };
        check(|s| s.connections = Some(0), "connections: expected 1 to 4000000 connections, got '0'");
        check(|s| s.connections = Some(u32::MAX), "connections: ");
        check(|s| s.threads = Some(0), "threads: ");
        check(|s| s.threads = Some(u16::MAX), "threads: ");
        check(|s| s.timeout_ns = Some(0), "timeout: expected more than 0");
        check(|s| s.timeout_ns = Some(u64::MAX), "timeout: ");
        check(|s| s.connect_timeout_ns = Some(0), "connect_timeout: ");
        check(|s| s.drain_ns = Some(u64::MAX), "drain: ");
        check(|s| s.give_up_ns = Some(u64::MAX), "give_up: ");
        check(|s| s.after_ns = Some(u64::MAX), "after: ");
        check(|s| s.tick_ns = Some(1), "tick: ");
        check(|s| s.tick_ns = Some(61 * S), "tick: ");
        check(|s| s.pipeline = Some(0), "pipeline: ");
        check(|s| s.pipeline = Some(257), "pipeline: ");
        check(|s| s.requests_per_connection = Some(0), "requests_per_connection: ");
        check(|s| s.queue_capacity = Some(0), "queue: ");
        check(|s| s.queue_capacity = Some(u32::MAX), "queue: ");
        check(|s| s.batch = Some(Batch { completions: 0, delay_ns: 1 }), "batch: ");
        check(|s| s.batch = Some(Batch { completions: 1, delay_ns: S }), "batch: ");
    }

    #[test]
    fn defaults_follow_from_the_run() {
        let none = Scenario::default();
        let mut c = Vec::new();
        let short = Stop { duration_ns: Some(5 * S - 1), requests: None };
        let long = Stop { duration_ns: Some(5 * S), requests: None };
        assert_eq!(tick_ns(&none, &short, &mut c).unwrap(), d::TICK_SHORT_NS);
        assert_eq!(tick_ns(&none, &long, &mut c).unwrap(), S);
        let few = Stop { duration_ns: None, requests: Some(7) };
        assert_eq!(connections(&none, &few, &mut c).unwrap(), 7);
        assert_eq!(connections(&none, &long, &mut c).unwrap(), 50);
        let default = timeouts(&none, 30 * S).unwrap();
        assert_eq!((default.connect_ns, default.reply_ns, drain_ns(&none, &default).unwrap()), (10 * S, 30 * S, 5 * S));
        assert_eq!(drain_ns(&none, &Timeouts { reply_ns: S, ..default }).unwrap(), S);
        let given_up = |give_up_ns, connect_timeout_ns| {
            super::give_up_ns(&Scenario { give_up_ns, connect_timeout_ns, ..Scenario::default() }).unwrap()
        };
        assert_eq!((given_up(None, None), given_up(Some(0), Some(S))), (Some(2 * S), None));
        assert_eq!((given_up(None, Some(S)), given_up(None, Some(9 * S))), (Some(2 * S), Some(9 * S)));
        assert_eq!(given_up(Some(S), Some(9 * S)), Some(S));
        let closes = Some(Field::Own("closes"));
        let close = Scenario { requests_per_connection: Some(9), ..Scenario::default() };
        assert_eq!(reuse(&close, closes).unwrap(), (1, Some(1)));
        let pipelined = Scenario { pipeline: Some(2), ..Scenario::default() };
        let error = reuse(&pipelined, closes).unwrap_err();
        assert!(error.is_usage() && error.to_string().starts_with("pipeline cannot be used with closes"), "{error}");
    }

    #[test]
    fn queues_hold_ten_seconds_of_a_workers_share() {
        let open = |rate| Pace::Open {
            profile: vec![Segment { from_per_s: 1.0, to_per_s: rate, for_ns: S }],
            arrivals: Arrivals::Constant,
        };
        let closed = Pace::Closed { think: Think::None };
        let of = |scenario: &Scenario, pace: &Pace, threads| queue(scenario, pace, threads, &mut Vec::new()).unwrap().1;
        let none = Scenario::default();
        assert_eq!(of(&none, &open(5000.0), 2), 25_000);
        assert_eq!(of(&none, &open(1.0), 2), 1024);
        assert_eq!(of(&none, &open(1e9), 2), limits::QUEUE_MAX);
        assert_eq!(of(&none, &closed, 2), 0);
        assert_eq!(of(&Scenario { queue_capacity: Some(3), ..none.clone() }, &open(5000.0), 2), 3);
        assert_eq!(of(&Scenario { on_full: Some(OnFull::Drop), ..none }, &open(5000.0), 2), 0);
    }

    #[test]
    fn a_batch_can_always_fill() {
        let scenario = Scenario { batch: Some(Batch { completions: 16, delay_ns: 1 }), ..Scenario::default() };
        let of = |connections, threads, pipeline| {
            batch(&scenario, connections, threads, pipeline, &mut Vec::new()).unwrap().map(|b| b.completions)
        };
        assert_eq!((of(64, 2, 1), of(8, 2, 1), of(8, 2, 3), of(1, 1, 1)), (Some(16), Some(2), Some(6), Some(1)));
    }
}
