//! `plimsoll serve --list`: the reference servers with their designs, and the defects they can carry; text or JSON.
//!
//! Walks the registries of `servers`, so that what is listed is what can be served.

use crate::exit::{Exit, Failure};
use model::units::{show_bytes, show_duration_ns};
use servers::DesignInfo;
use servers::defects::{DEFECTS, Defect, Strength};
use std::collections::BTreeMap;
use std::io::Write;

/// A server, and the ways it is built; the first is the default.
struct Server {
    name: &'static str,
    designs: Vec<DesignInfo>,
}

/// Every reference server. A new one is a line here.
fn servers() -> Vec<Server> {
    vec![
        Server { name: "http", designs: servers::http::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "echo", designs: servers::echo::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "ws", designs: servers::websocket::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "proxy", designs: servers::proxy::DESIGNS.iter().map(|design| design.info).collect() },
        Server { name: "names", designs: servers::names::DESIGNS.iter().map(|design| design.info).collect() },
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
    writeln!(out, "TLS: the design can be served with --tls\n")?;
    writeln!(out, "plimsoll serve SERVER --defect NAME[=STRENGTH][:WAY][:PART=…][@START]")?;
    for defect in DEFECTS {
        writeln!(out, "  {}{}  ({})", defect.name, told(defect), carriers(defect).join(", "))?;
        writeln!(out, "      does   {}", defect.about)?;
        writeln!(out, "      makes  {}", defect.makes)?;
        writeln!(out, "      see    {}", defect.see)?;
    }
    Ok(())
}

fn document() -> serde_json::Value {
    let server = |server: Server| {
        let design = |(at, info): (usize, &DesignInfo)| serde_json::json!({ "name": info.name, "about": info.about, "tls": info.tls, "default": at == 0 });
        let designs: Vec<_> = server.designs.iter().enumerate().map(design).collect();
        serde_json::json!({ "name": server.name, "designs": designs })
    };
    let defect = |defect: &&Defect| {
        serde_json::json!({
            "name": defect.name,
            "servers": carriers(defect),
            "strength": strength(defect.strength),
            "ways": defect.ways.iter().map(|way| way.name()).collect::<Vec<_>>(),
            "parts": defect.parts.iter().map(|part| (part.name, strength(part.default))).collect::<BTreeMap<_, _>>(),
            "about": defect.about,
            "makes": defect.makes,
            "see": defect.see,
        })
    };
    serde_json::json!({
        "servers": servers().into_iter().map(server).collect::<Vec<_>>(),
        "defects": DEFECTS.iter().map(defect).collect::<Vec<_>>(),
    })
}

fn carriers(defect: &Defect) -> Vec<&'static str> {
    defect.servers.iter().map(|server| server.name()).collect()
}

/// What may stand behind its name: the strength where nothing is said, ways (the usual one first), parts.
fn told(defect: &Defect) -> String {
    let mut words = vec![strength(defect.strength)];
    let ways: Vec<_> = defect.ways.iter().map(|way| way.name()).collect();
    words.push(ways.join("|"));
    words.extend(defect.parts.iter().map(|part| format!("{}={}", part.name, strength(part.default))));
    words.retain(|word| !word.is_empty());
    if words.is_empty() { String::new() } else { format!("={}", words.join(":")) }
}

/// A strength as it is written; empty for none.
fn strength(strength: Strength) -> String {
    match strength {
        Strength::None => String::new(),
        Strength::Time(time) => show_duration_ns(time.as_nanos() as f64).replace(' ', ""),
        Strength::Bytes(bytes) => show_bytes(bytes as f64).replace(' ', ""),
        Strength::Count(count) => count.to_string(),
        Strength::Status { code, of } => format!("{code}/{of}"),
    }
}
