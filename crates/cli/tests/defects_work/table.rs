//! The table of defects and designs in docs/servers.md is the one that servers go by.

use servers::DesignInfo;
use servers::defects::{Able, DEFECTS, Defect, Server};
use std::fmt::Write;

const BEGIN: &str = "<!-- defects and designs, written by the tests -->\n";
const END: &str = "<!-- end of defects and designs -->\n";

/// The columns: a server, its design, and what it is called.
fn columns() -> Vec<(Server, DesignInfo, String)> {
    let mut columns = vec![
        (Server::Http, servers::http::DESIGNS[0].info, "http".to_owned()),
        (Server::WebSocket, servers::websocket::DESIGNS[0].info, "ws".to_owned()),
        (Server::Proxy, servers::proxy::DESIGNS[0].info, "proxy".to_owned()),
        (Server::Names, servers::names::DESIGNS[0].info, "names".to_owned()),
    ];
    let echo = servers::echo::DESIGNS.iter().map(|design| design.info);
    columns.extend(echo.map(|info| (Server::Echo, info, format!("echo {}", info.name))));
    columns
}

fn table() -> String {
    let columns = columns();
    let mut reasons = Vec::<Able>::new();
    let mut cell = |defect: &Defect, server: Server, info: &DesignInfo| match info.lacks(defect) {
        _ if !defect.servers.contains(&server) => "-".to_owned(),
        None => "yes".to_owned(),
        Some(missing) => {
            let known = reasons.iter().position(|reason| reason.why_not() == missing.why_not());
            let number = known.unwrap_or_else(|| {
                reasons.push(missing);
                reasons.len() - 1
            });
            format!("{}", number + 1)
        }
    };
    let names: Vec<_> = columns.iter().map(|(_, _, name)| name.as_str()).collect();
    let mut text = format!("| defect | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(columns.len()));
    for defect in DEFECTS {
        let cells: Vec<_> = columns.iter().map(|(server, info, _)| cell(defect, *server, info)).collect();
        writeln!(text, "| `{}` | {} |", defect.name, cells.join(" | ")).unwrap();
    }
    text.push_str("\n`-`: not made for that server. Numbers: the design cannot carry it, because\n\n");
    for (at, reason) in reasons.iter().enumerate() {
        writeln!(text, "{}. {}", at + 1, reason.why_not()).unwrap();
    }
    text
}

#[test]
fn the_table_in_the_docs_is_true() {
    let path = testkit::workspace().join("docs/servers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let table = table();
    if written != table && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, table, "UPDATE_DOCS=1 writes it anew");
}
