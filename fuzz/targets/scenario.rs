//! A scenario made of arbitrary texts: it becomes a plan that keeps its limits, or one sentence; never a panic.
//!
//! The first line is the URL, each further line `field value` sets what a flag would. Names resolve to a fixed
//! address: nothing is asked of a resolver.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::scenario::WeightedUrl;
use model::units::{count, duration_ns, rate_per_s, size_bytes};
use model::workload::echo::EchoAsked;
use model::workload::hold::HoldAsked;
use model::workload::http::HttpAsked;
use model::workload::resp::RespAsked;
use model::{Scenario, Secret};
use resolve::{Host, Machine, pace, resolve};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

struct FixedHost;

impl Host for FixedHost {
    fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match name.len() % 3 {
            0 => Err(io::Error::other("no such name")),
            1 => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
            _ => Ok(vec![SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port))]),
        }
    }
    fn is_own_address(&self, address: IpAddr) -> bool {
        address.is_loopback()
    }
    fn read_file(&self, _: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        Ok(vec![b'x'; bytes_max.min(100) as usize])
    }
    fn tls(&self) -> model::tls::TlsNames {
        engine::tls::NAMES
    }
    fn uring_available(&self) -> Result<(), String> {
        Ok(())
    }
    fn certificate_authorities(&self) -> Result<(Vec<Vec<u8>>, String), String> {
        Err("this machine trusts nobody".to_owned())
    }

    fn machine(&self) -> Machine {
        Machine {
            cores: 2,
            cpus_online: vec![0, 1],
            cpus_allowed: vec![0, 1],
            local_ports: Some((32768, 60999)),
            files_max: Some(20_000),
            memory_available_bytes: None,
        }
    }
    fn random_seed(&self) -> u64 {
        1
    }
}

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let mut scenario = Scenario::default();
    scenario.urls.push(WeightedUrl { url: lines.next().unwrap_or("").into(), weight: 1.0 });
    for line in lines {
        let (field, value) = line.split_once(' ').unwrap_or((line, ""));
        set(&mut scenario, field, value);
    }
    let Ok(resolved) = resolve(&scenario, &FixedHost) else { return };
    let plan = resolved.plan;
    assert!(plan.connections >= 1 && plan.connections <= model::limits::CONNECTIONS_MAX);
    assert!(plan.threads >= 1 && u32::from(plan.threads) <= plan.connections);
    assert!(plan.pipeline >= 1 && plan.pipeline <= model::limits::PIPELINE_MAX);
    assert!(!plan.origins.is_empty() && plan.origins.iter().all(|o| !o.addresses.is_empty() && o.weight > 0.0));
    assert!(plan.stop.duration_ns.is_some() || plan.stop.requests.is_some());
    assert!((model::limits::TICK_NS_MIN..=model::limits::TICK_NS_MAX).contains(&plan.tick_ns));
    // What a plan says must survive being written down; bodies are left out on purpose.
    let written = serde_json::to_string(&plan).expect("a plan can be written");
    let _: model::Plan = serde_json::from_str(&written).expect("and read again");
});

fn set(scenario: &mut Scenario, field: &str, value: &str) {
    let text = || Some(value.to_owned());
    match field {
        "url" => scenario.urls.push(WeightedUrl { url: value.into(), weight: value.len() as f64 }),
        "burst" => scenario.burst = value.parse().ok(),
        "rounds" => scenario.rounds = value.parse().ok(),
        "every" => scenario.ask(|asked: &mut HoldAsked| asked.every_ns = value.parse().ok()),
        "sweep" => scenario.ask(|asked: &mut HoldAsked| asked.sweep_ns = value.parse().ok()),
        "connects" => scenario.ask(|asked: &mut HoldAsked| asked.connects_per_s = value.parse().ok()),
        "message" => {
            scenario.ask(|asked: &mut HoldAsked| asked.message = value.parse().ok().map(model::plan::Sizes::Fixed))
        }
        "source" => scenario.source.extend(value.parse::<IpAddr>().ok()),
        "method" => scenario.ask(|asked: &mut HttpAsked| asked.method = text()),
        "header" => scenario.ask(|asked: &mut HttpAsked| asked.headers.push(value.into())),
        "body" => scenario.ask(|asked: &mut HttpAsked| asked.body = text().map(Secret::new)),
        "user" => scenario.ask(|asked: &mut HttpAsked| asked.user = text().map(Secret::new)),
        "login" => scenario.ask(|asked: &mut RespAsked| asked.user = text().map(Secret::new)),
        "expect-status" => scenario.ask(|asked: &mut HttpAsked| asked.expect_status.push(value.to_owned())),
        "expect-body" => scenario.ask(|asked: &mut HttpAsked| asked.expect_body = text()),
        "expect-body-sha256" => scenario.ask(|asked: &mut HttpAsked| asked.expect_body_sha256 = text()),
        "give-up" => scenario.give_up_ns = value.parse().ok(),
        "expect" => scenario.expect.push(value.to_owned()),
        "abort-when" => scenario.abort_when.push(value.to_owned()),
        "expect-errors" => scenario.expect_errors = Some(value.to_owned()),
        "connect-to" => scenario.connect_to = text(),
        "resolve" => scenario.resolve.push(value.to_owned()),
        "connections" => scenario.connections = count(value).ok().and_then(|n| n.try_into().ok()),
        "requests" => scenario.requests = count(value).ok(),
        "duration" => scenario.duration_ns = duration_ns(value).ok(),
        "warmup" => scenario.warmup_ns = duration_ns(value).ok(),
        "timeout" => scenario.timeout_ns = duration_ns(value).ok(),
        "tick" => scenario.tick_ns = duration_ns(value).ok(),
        "threads" => scenario.threads = value.parse().ok(),
        "pipeline" => scenario.pipeline = value.parse().ok(),
        "head" => scenario
            .ask(|asked: &mut HttpAsked| asked.head_bytes_max = size_bytes(value).ok().and_then(|n| n.try_into().ok())),
        "close" => scenario.ask(|asked: &mut HttpAsked| asked.disable_keepalive = true),
        "sizes" => scenario.ask(|asked: &mut EchoAsked| asked.sizes = pace::parse_sizes(value).ok()),
        "mix" => scenario.ask(|asked: &mut RespAsked| asked.mix = text().map(Into::into)),
        "keys" => scenario.ask(|asked: &mut RespAsked| asked.keys = value.parse().ok()),
        "prefix" => scenario.ask(|asked: &mut RespAsked| asked.key_prefix = text()),
        "distribution" => {
            scenario.ask(|asked: &mut RespAsked| asked.key_distribution = resolve::parse_key_distribution(value).ok())
        }
        "values" => scenario.ask(|asked: &mut RespAsked| asked.value_sizes = pace::parse_sizes(value).ok()),
        "think" => scenario.think = pace::parse_think(value).ok(),
        "ramp" => scenario.profile = pace::parse_ramp(value).unwrap_or_default(),
        "steps" => scenario.profile = pace::parse_steps(value).unwrap_or_default(),
        "rate" => {
            if let Ok(rate) = rate_per_s(value) {
                scenario.profile =
                    vec![model::plan::Segment { from_per_s: rate, to_per_s: rate, for_ns: 1_000_000_000 }];
            }
        }
        _ => {}
    }
}
