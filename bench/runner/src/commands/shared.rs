//! What every subcommand needs: a load on a target, one run of it, and how the machine was shared, in words.

use anyhow::Result;

use crate::args::Settings;
use crate::measure::{self, Measured};
use crate::report::NOTHING;
use crate::stats::Interval;
use crate::target::Target;
use crate::tools::{Load, Row};

/// A load on a target.
pub fn load(target: &Target, connections: usize, seconds: f64, rate_per_s: Option<f64>) -> Load {
    Load {
        addr: target.addr,
        connections,
        seconds,
        rate_per_s,
        folder: target.folder().to_owned(),
        certificate: target.certificate(),
    }
}

/// One run from start to end.
///
/// # Errors
/// See [`measure::start`] and [`measure::finish`].
pub fn one(row: &Row, load: &Load, target: &Target, cpus: &[usize], settings: &Settings) -> Result<Measured> {
    measure::finish(measure::start(row, load, target, cpus, settings)?, target)
}

/// How the machine was shared, for every document.
pub fn method(settings: &Settings, seconds: f64, rounds: usize) -> Vec<String> {
    vec![
        format!(
            "Target pinned on CPU {}, generator with one thread pinned on CPU {}; {rounds} rounds of \
             {seconds} s runs, interleaved tool by tool, the order turning by one place a round.",
            settings.target_cpu, settings.load_cpu
        ),
        format!(
            "A run is thrown away when more than {} of a core was busy beyond generator, target and \
             runner (/proc/stat), and made again up to {} times.",
            settings.other_load_max, settings.retries
        ),
        "Figures are medians (minimum–maximum); ratios are medians of the ratios within each round.".to_owned(),
    ]
}

/// The two ends of an interval.
pub fn bounds(interval: Option<Interval>) -> String {
    interval.map_or(NOTHING.to_owned(), |i| format!("{:.4}–{:.4}", i.low, i.high))
}
