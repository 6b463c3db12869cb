//! TLS 1.3 per generator CPU-second: full handshakes, and requests over connections that are kept, for two kinds of key.
//! All tools use the same group, cipher suite and version; the target is nginx with one worker.

use anyhow::Result;
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, spread, spread_thousands};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::Target;
use crate::tools::{self, HANDSHAKES, KEPT, Row};

const SECONDS: f64 = 3.0;
const ROUNDS: usize = 5;
/// The targets: nginx with a certificate of this kind.
const TARGETS: [&str; 2] = ["nginx p-256", "nginx rsa-2048"];

/// Measures the tables.
///
/// # Errors
/// nginx or openssl are not installed.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let mut document = Document::new(settings, "What does TLS 1.3 cost a generator?");
    document.method = method(settings, seconds, rounds);
    document.method.push(
        "X25519 and TLS_AES_256_GCM_SHA384 for all, no session can be resumed; plimsoll and oha verify the certificate, wrk, ab, h2load and s_time do \
         not. plimsoll's and s_time's handshakes carry no request unless the row says so, the others' one each."
            .to_owned(),
    );
    let mut runs = Vec::new();
    for name in TARGETS {
        for &connections in settings.connections() {
            for (what, rows) in [("full handshakes", HANDSHAKES), ("requests on kept connections", KEPT)] {
                let title = format!("{what}, {name}, {connections} connections");
                say(&title);
                let rows: Vec<&Row> = tools::wanted(rows, settings);
                let target = Target::start(name, &[settings.target_cpu], settings)?;
                let load = load(&target, connections, seconds, None);
                let series = rounds::interleave(&rows, rounds, settings, |row| {
                    one(row, &load, &target, &[settings.load_cpu], settings)
                });
                document.tables.push(table(title, &series));
                runs.push(json!({"what": what, "target": name, "connections": connections, "series": series}));
            }
        }
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series]) -> Table {
    let mut table = Table::new(title, &["tool", "thousand per CPU-s", "× wrk", "CPU used", "remarks"]);
    let wrk = series.iter().find(|series| series.name == "wrk");
    let per_cpu_s = |run: &Measured| Some(run.requests_per_cpu_second());
    for one in series {
        table.rows.push(vec![
            one.name.clone(),
            spread_thousands(one.summary(per_cpu_s)),
            spread(rounds::ratio(one, wrk, per_cpu_s), 2),
            spread(one.summary(|run| Some(run.cpu_seconds / run.wall_seconds)), 2),
            one.remarks(),
        ]);
    }
    table
}
