//! The main job on embedded defaults: a reference target in a process of its own, its load line, what gives first.
//!
//! The target is one thread on one CPU that burns a stated CPU time for each request, so that on two cores it gives
//! first and not the generator. The search is that of [`crate::capacity`], shorter and less narrow.

use crate::capacity::axis::Of;
use crate::capacity::calibration::Settles;
use crate::capacity::live::{CapacityError, Follow, Found, Spec, capacity};
use crate::capacity::objective::Objective;
use crate::embedded::Embedded;
use crate::run::{Options, ThisProcess};
use model::Scenario;
use model::scenario::WeightedUrl;
use resolve::Host;
use std::io;
use std::path::Path;
use std::time::Duration;

/// CPU time the target burns for a request, microseconds. So much that the generator has half of its CPU to spare even
/// unoptimised, on a machine whose CPUs are not whole ones.
pub const CPU_US: u32 = 200;
/// Connections the demo holds.
const CONNECTIONS: u32 = 64;
const TIME: Duration = Duration::from_secs(30);
const PRECISION: f64 = 0.05;
/// The order of replicates, the same each time.
const SEED: u64 = 1;

/// What the demo asks of its target.
pub const OBJECTIVE: &str = "p99 < 10 ms, errors < 0.1 %";

/// Why the demo could not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The target did not start.
    #[error("the demo's target did not start: {0}")]
    Target(io::Error),
    /// The search could not.
    #[error(transparent)]
    Search(#[from] CapacityError),
    /// What it asks is no objective: a defect of plimsoll.
    #[error("the demo's own objective cannot be read: {0}")]
    Objective(String),
}

/// A demo that is ready to run: its target listens.
#[derive(Debug)]
pub struct Demo {
    /// What is searched for.
    pub spec: Spec,
    _target: Embedded,
}

/// Starts the demo's target, with `program` (this program).
///
/// # Errors
/// It did not start.
pub fn demo(program: &Path) -> Result<Demo, DemoError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let target = Embedded::serve_http(program, &["--pin", "0"]).map_err(DemoError::Target)?;
    let spec = Spec {
        scenario: Scenario {
            urls: vec![WeightedUrl { url: format!("{}cpu?us={CPU_US}", target.url).into(), weight: 1.0 }],
            connections: Some(CONNECTIONS),
            threads: Some(1),
            pin: if cores > 1 { vec![1] } else { vec![] },
            ..Scenario::default()
        },
        objectives: Objective::list(OBJECTIVE).map_err(DemoError::Objective)?,
        of: Of::Rate,
        precision: PRECISION,
        time: TIME,
        known: Vec::new(),
        seed: SEED,
        settles: Settles::default(),
    };
    Ok(Demo { spec, _target: target })
}

impl Demo {
    /// Searches for the target's load line.
    ///
    /// # Errors
    /// [`DemoError::Search`].
    pub fn run(&self, host: &dyn Host, options: &Options, follow: &mut dyn Follow) -> Result<Found, DemoError> {
        Ok(capacity(&self.spec, host, options, &mut ThisProcess, follow)?)
    }
}
