//! `plimsoll serve proxy`: serves, then prints what was counted towards origins; `--explain` only says what it takes.

use super::Rows;
use crate::args::serve::proxy::ProxyArgs;
use crate::exit::Exit;
use servers::{ServeError, ServeOptions, Stop, proxy};
use std::io::Write;
use std::net::SocketAddr;

/// Serves; what the clients' side counted, and then the origins'.
pub fn serve(
    args: &ProxyArgs,
    options: &ServeOptions,
    stop: &Stop,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<Rows, ServeError> {
    let (counters, of_origins) = proxy::serve(options, &args.options(), stop, ready)?;
    let mut rows = counters.rows().to_vec();
    rows.extend(of_origins.rows());
    Ok(rows)
}

/// What it takes, by the formula the server itself goes by.
pub fn explain(args: &ProxyArgs, options: &ServeOptions) -> std::io::Result<Exit> {
    const LARGE: u64 = 26_000_000;
    let proxy = args.options();
    let mut out = std::io::stdout().lock();
    let one = proxy::memory_bytes(options, &proxy, 1, LARGE);
    writeln!(out, "memory beyond the process at rest = {} + slow connections x per connection", one.fixed)?;
    writeln!(out, "  {} bytes: workers' own buffers, and a full cache", one.fixed)?;
    writeln!(out, "  per connection: 4096 bytes, and min(object / size, buffers) x (size + 16) of its reply")?;
    writeln!(out, "temp files = slow connections x min(object - buffers x size, --temp-max)")?;
    writeln!(out, "{:>16} {:>16} {:>16} {:>16}", "slow connections", "of object bytes", "memory bytes", "temp bytes")?;
    for connections in [1, 40, 1000] {
        for object in [100_000, LARGE] {
            let estimate = proxy::memory_bytes(options, &proxy, connections, object);
            writeln!(out, "{connections:>16} {object:>16} {:>16} {:>16}", estimate.total, estimate.temp_total)?;
        }
    }
    Ok(Exit::Fine)
}
