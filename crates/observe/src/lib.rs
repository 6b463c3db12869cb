//! stub
#![allow(missing_docs)]
use model::*;
use model::recording::Capsule;
use model::snapshot::SamplerStatus;
use std::net::SocketAddr;
pub struct ObserveSpec { pub target: Vec<u32>, pub target_unknown: Option<String>, pub addresses: Vec<model::plan::Address>, pub own_pid: u32 }
pub struct Observer;
impl Observer { pub fn new(_: ObserveSpec) -> Self { Observer } pub fn snapshot(&mut self, at_ns: i64) -> Snapshot { Snapshot { at_ns, ..Default::default() } } pub fn take_events(&mut self) -> Vec<Event> { vec![] } pub fn statuses(&self) -> Vec<SamplerStatus> { vec![] } }
pub mod target { pub fn find(_: &[model::plan::Address]) -> Result<Vec<u32>, String> { Ok(vec![]) } }
pub fn capsule() -> Capsule { Capsule::default() }
pub mod own { pub struct U { pub user_ns: u64, pub system_ns: u64, pub peak_rss_bytes: u64 } pub fn rusage() -> U { U { user_ns: 1, system_ns: 1, peak_rss_bytes: 1 } } pub fn since_process_start_ns() -> Option<u64> { None } }
fn _x(_: SocketAddr) {}
