//! `plimsoll serve proxy`: serves, then prints what was counted towards origins; `--explain` only says what it takes.

use super::Rows;
use crate::args::serve::proxy::ProxyArgs;
use crate::exit::Exit;
use model::units::show_bytes;
use servers::proxy::ProxyOptions;
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
    if let (Some(within), Some(connections), Some(object)) = (args.within, args.slow_connections, args.object) {
        recommend(&mut out, options, &proxy, (within, connections, object))?;
    }
    Ok(Exit::Fine)
}

/// How many buffers of this size each connection can have, and what becomes of the rest.
fn recommend(
    out: &mut impl Write,
    options: &ServeOptions,
    proxy: &ProxyOptions,
    (within, connections, object): (u64, u64, u64),
) -> std::io::Result<()> {
    let bytes = |n: u64| show_bytes(n as f64);
    let size = proxy.buffer_bytes as u64;
    let size_words = if size.is_multiple_of(1024) { format!("{}k", size / 1024) } else { size.to_string() };
    let of = |buffers: usize| {
        let proxy = ProxyOptions { buffering: true, buffers, ..proxy.clone() };
        proxy::memory_bytes(options, &proxy, connections, object)
    };
    writeln!(out)?;
    writeln!(out, "{connections} slow connections of {} each, within {}:", bytes(object), bytes(within))?;
    let Some(buffers) = proxy::buffers_within(options, proxy, connections, object, within) else {
        let least = bytes(of(1).total);
        writeln!(
            out,
            "  not even one buffer of {size_words} each fits: it takes {least}; give it that, or take smaller buffers"
        )?;
        return Ok(());
    };
    let estimate = of(buffers);
    writeln!(out, "  --buffers {buffers} --buffer-size {size_words} (of nginx: proxy_buffers {buffers} {size_words})")?;
    writeln!(
        out,
        "  takes {} of memory; what does not fit, {}, goes to temp files",
        bytes(estimate.total),
        bytes(estimate.temp_total)
    )?;
    let whole = usize::try_from(object.div_ceil(size.max(1))).unwrap_or(usize::MAX).max(1);
    if whole > buffers {
        writeln!(out, "  for all of it in memory: --buffers {whole}, which takes {}", bytes(of(whole).total))?;
    }
    Ok(())
}
