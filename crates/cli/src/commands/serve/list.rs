//! `plimsoll serve --list`: the reference servers with their designs, as text or as JSON.
//!
//! Walks the registries of `target`, so that what is listed is what can be served.

use crate::exit::{Exit, Failure};
use std::io::Write;
use target::DesignInfo;

/// A server, and the ways it is built; the first is the default.
struct Server {
    name: &'static str,
    designs: Vec<DesignInfo>,
}

/// Every reference server. A new one is a line here.
fn servers() -> Vec<Server> {
    vec![
        Server { name: "http", designs: target::http::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "echo", designs: target::echo::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "proxy", designs: target::proxy::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "names", designs: target::names::DESIGNS.iter().map(|design| design.info).collect() },
    ]
}

/// Lists them.
pub fn run(is_json: bool) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    match is_json {
        true => writeln!(out, "{}", document())?,
        false => text(&mut out)?,
    }
    Ok(Exit::Fine)
}

fn text(out: &mut impl Write) -> std::io::Result<()> {
    let servers = servers();
    let width = servers.iter().flat_map(|server| &server.designs).map(|info| info.name.len()).max().unwrap_or(0);
    for server in &servers {
        writeln!(out, "plimsoll serve {} --design", server.name)?;
        for (at, info) in server.designs.iter().enumerate() {
            let tls = if info.tls { "TLS" } else { "-" };
            let default = if at == 0 { " (the default)" } else { "" };
            writeln!(out, "  {:<width$}  {tls:<3}  {}{default}", info.name, info.about)?;
        }
        writeln!(out)?;
    }
    // The defects come here, from their registry, each with what it makes.
    writeln!(out, "TLS: the design can be served with --tls")
}

fn document() -> serde_json::Value {
    let server = |server: Server| {
        let design = |(at, info): (usize, &DesignInfo)| serde_json::json!({ "name": info.name, "about": info.about, "tls": info.tls, "default": at == 0 });
        let designs: Vec<_> = server.designs.iter().enumerate().map(design).collect();
        serde_json::json!({ "name": server.name, "designs": designs })
    };
    // The defects are a second list beside the servers.
    serde_json::json!({ "servers": servers().into_iter().map(server).collect::<Vec<_>>() })
}
