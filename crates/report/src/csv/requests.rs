//! Single requests as CSV (RFC 4180): a row for each that is kept.

use crate::json::single::SingleRequest;
use crate::json::split::{SplitParts, has_two_clocks};
use model::split::SplitRequest;
use model::{Recording, Request};
use std::collections::HashMap;
use std::io::{self, Write};

const COLUMNS: &str = "kept_as,due_s,response_us,lag_us,queue_us,first_byte_us,service_us,before_us,connect_s,worker,\
                       connection,life,ordinal,origin,address,entry,sent_bytes,received_bytes,outcome,end,local_port,\
                       connecting_us,there_us,socket_us,server_us,back_us,network_us,unsplit";

/// Writes every request that is kept: a header and a line for each, lines ended by CR LF. `kept_as` is `sample`, `slowest`
/// or `failed`; one request may be in more than one of them. An empty field is "was not". The columns from `local_port` on are of
/// requests that lay within a window of the probes (`crate::json::split`); `connecting_us` is a part of `queue_us`.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, recording: &Recording) -> io::Result<()> {
    write!(to, "{COLUMNS}\r\n")?;
    let requests = &recording.requests;
    let parts = split_parts(recording);
    let mut sampled: Vec<&Request> = requests.sampled().collect();
    sampled.sort_by_key(|request| (request.intended_ns, request.worker, request.connection, request.ordinal));
    for request in sampled {
        row(to, "sample", request, &parts)?;
    }
    for request in requests.slowest() {
        row(to, "slowest", request, &parts)?;
    }
    for request in requests.failed() {
        row(to, "failed", request, &parts)?;
    }
    Ok(())
}

/// Which request it is: its worker, connection, life and number there.
type Which = (u16, u32, u32, u32);

fn which(request: &Request) -> Which {
    (request.worker, request.connection, request.life, request.ordinal)
}

/// The columns of each request that lay within a window of the probes.
fn split_parts(recording: &Recording) -> HashMap<Which, String> {
    let has_two_clocks = has_two_clocks(recording);
    let columns = |one: &SplitRequest| {
        let port = one.request.local.map_or(String::new(), |local| local.port().to_string());
        let parts = SplitParts::of_one(one, has_two_clocks);
        match one.passage {
            Err(why) => format!("{port},{:.3},,,,,,{}", parts.connect_us, why.name()),
            Ok(_) => {
                let way = |us: Option<f64>| us.map_or(String::new(), |us| format!("{us:.3}"));
                let SplitParts { connect_us, socket_us, server_us, network_us, .. } = parts;
                let (there, back) = (way(parts.there_us), way(parts.back_us));
                format!("{port},{connect_us:.3},{there},{socket_us:.3},{server_us:.3},{back},{network_us:.3},")
            }
        }
    };
    recording.split.known().map(|one| (which(&one.request), columns(one))).collect()
}

fn row(to: &mut impl Write, kept_as: &str, request: &Request, parts: &HashMap<Which, String>) -> io::Result<()> {
    let one = SingleRequest::of(request);
    let some = |us: Option<f64>| us.map_or(String::new(), |us| format!("{us:.3}"));
    write!(
        to,
        "{kept_as},{:.9},{:.3},{:.3},{},{},{},{},{:.9},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
        one.due_s,
        one.response_us,
        one.lag_us,
        some(one.queue_us),
        some(one.first_byte_us),
        some(one.service_us),
        some(one.before_us),
        one.connect_s,
        one.worker,
        one.connection,
        one.life,
        one.ordinal,
        one.origin,
        one.address,
        one.entry,
        one.sent_bytes,
        one.received_bytes,
        one.outcome,
        one.end,
        parts.get(&which(request)).map_or(",,,,,,,", String::as_str)
    )
}
