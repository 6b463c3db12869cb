//! Single requests as CSV (RFC 4180): a row for each that is kept.

use crate::json::single::SingleRequest;
use model::{Recording, Request};
use std::io::{self, Write};

const COLUMNS: &str = "kept_as,due_s,response_us,lag_us,queue_us,first_byte_us,service_us,before_us,connect_s,worker,\
                       connection,life,ordinal,origin,address,entry,sent_bytes,received_bytes,outcome,end";

/// Writes every request that is kept: a header and a line for each, lines ended by CR LF. `kept_as` is `sample`, `slowest`
/// or `failed`; one request may be in more than one of them. An empty field is "was not".
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, recording: &Recording) -> io::Result<()> {
    write!(to, "{COLUMNS}\r\n")?;
    let requests = &recording.requests;
    let mut sampled: Vec<&Request> = requests.sampled().collect();
    sampled.sort_by_key(|request| (request.intended_ns, request.worker, request.connection, request.ordinal));
    for request in sampled {
        row(to, "sample", request)?;
    }
    for request in requests.slowest() {
        row(to, "slowest", request)?;
    }
    for request in requests.failed() {
        row(to, "failed", request)?;
    }
    Ok(())
}

fn row(to: &mut impl Write, kept_as: &str, request: &Request) -> io::Result<()> {
    let one = SingleRequest::of(request);
    let some = |us: Option<f64>| us.map_or(String::new(), |us| format!("{us:.3}"));
    write!(
        to,
        "{kept_as},{:.9},{:.3},{:.3},{},{},{},{},{:.9},{},{},{},{},{},{},{},{},{},{},{}\r\n",
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
        one.end
    )
}
