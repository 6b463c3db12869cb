//! Load lines over one parameter and over two.

use report::capacity::{Cell, Document, End, SCHEMA, SURFACE_SCHEMA, Spanned, Surface};
use serde_json::json;

/// A search with that line.
pub fn search(line: Option<f64>, held: Option<f64>, gives: Option<&str>) -> Document {
    serde_json::from_value(json!({
        "schema": SCHEMA, "version": "0", "target": "echo://localhost:80", "started_at_unix_ns": 1, "took_s": 9.5,
        "end": "complete", "pace": "open loop", "precision": 0.1, "sentence": "", "validity": "valid",
        "capacity": {
            "load_line": line, "unit": "requests/s", "low": line.map(|load| 0.9 * load), "high": line.map(|load| 1.1 * load),
            "slo": "p99 < 50 ms", "first_to_give": gives, "held": held, "missed": null, "steepness": null
        },
        "gives": null, "busy": null, "lag_p99_us": 20.5, "curve": [],
        "scaling": {
            "single_per_s": [1.0, 1.0, 1.0], "contention": [0.1, 0.1, 0.1], "coherency": [0.0, 0.0, 0.1],
            "peak_at": null, "peak_low": 80.0, "peak_high": null, "peak_per_s": null
        },
        "steps": [{
            "purpose": "find", "asked": 1.0, "load": 1.0, "took_s": 1.0, "verdict": "held", "is_growing": false,
            "response_p50_us": 1.0, "response_p99_us": null, "recording": null,
            "blocks": [{ "seconds": 0.25, "requests": 3, "bad": [0], "backlog": 0.0 }]
        }]
    }))
    .unwrap()
}

fn surface(over: &[(&str, &str, &[u64])], cells: Vec<Cell>, end: End) -> Surface {
    let spanned = |(name, unit, values): &(&str, &str, &[u64])| Spanned {
        name: (*name).to_owned(),
        unit: (*unit).to_owned(),
        values: values.to_vec(),
    };
    let mut surface = Surface {
        schema: SURFACE_SCHEMA.to_owned(),
        version: "0".to_owned(),
        target: "echo://localhost:80".to_owned(),
        started_at_unix_ns: 1,
        took_s: 70.0,
        end,
        pace: "open loop, even arrivals".to_owned(),
        slo: "p99 < 50 ms".to_owned(),
        unit: "requests/s".to_owned(),
        precision: 0.1,
        cell_time_s: 12.0,
        sentence: String::new(),
        over: over.iter().map(spanned).collect(),
        cells,
    };
    surface.sentence = surface.summary();
    surface
}

fn cell(at: &[u64], search: Option<Document>) -> Cell {
    Cell { at: at.to_vec(), search: search.map(Box::new), why: None }
}

/// Over two, with all that a cell can be.
pub fn two() -> Surface {
    let line = |load: f64, gives| Some(search(Some(load), Some(load), Some(gives)));
    let cells = vec![
        cell(&[16, 10], line(40_000.0, "at-its-limit")),
        cell(&[16, 100], line(31_000.0, "at-its-limit")),
        cell(&[16, 1000], line(11_000.0, "single-thread-bound")),
        cell(&[65536, 10], Some(search(None, Some(3_000.0), None))),
        Cell { why: Some("expected an answer, got none".to_owned()), ..cell(&[65536, 100], None) },
        cell(&[65536, 1000], None),
    ];
    surface(
        &[("size", "bytes", &[16, 65536]), ("connections", "connections", &[10, 100, 1000])],
        cells,
        End::Interrupted,
    )
}

/// Over one parameter.
pub fn one() -> Surface {
    let cells = [100.0, 400.0, 200.0].iter().zip([16, 256, 4096]);
    let cells = cells.map(|(load, at)| cell(&[at], Some(search(Some(*load), None, None)))).collect();
    surface(&[("size", "bytes", &[16, 256, 4096])], cells, End::Complete)
}
