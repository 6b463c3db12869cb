//! Which metrics are shown by time: the usual ones, or those of the samplers' tables that were named.

use crate::exit::Failure;
use observe::metric::{Kind, Metric};
use observe::samplers::{SAMPLERS, TARGET};
use report::timeline::{Column, Timeline};

/// The table of some metrics, by their names with commas between; empty: the usual ones.
pub fn of(names: &str) -> Result<Timeline, Failure> {
    if names.trim().is_empty() {
        return Ok(Timeline::usual());
    }
    let columns: Result<Vec<Column>, Failure> = names.split(',').map(|name| column(name.trim())).collect();
    Ok(Timeline::of(columns?))
}

fn column(name: &str) -> Result<Column, Failure> {
    // Of disks, interfaces, threads and the like there are several of a name.
    let of_several = ["host/disks", "network/interfaces"];
    let tables = SAMPLERS.iter().filter(|entry| !of_several.contains(&entry.name)).flat_map(|entry| entry.metrics);
    let is_it = |metric: &&Metric| metric.name == name && !name.contains("[]");
    let Some(metric) = tables.chain(TARGET.2).chain(observe::import::names::HOST).find(is_it) else {
        return Err(Failure::usage(format!(
            "expected the name of a metric of the host, the network or a process, got '{name}' (docs/metrics.md lists them)"
        )));
    };
    let is_counter = metric.kind == Kind::Counter;
    Ok(Column { name: name.to_owned(), unit: metric.unit.to_owned(), is_counter })
}
