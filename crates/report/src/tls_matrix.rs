//! The matrix of `--tls-matrix`: a line a key and version; rates with what each unit costs either side.
//!
//! What could not be measured (a version the server does not speak, sessions it does not resume) is a dash.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::figure;
use model::tls::{MatrixCell, MatrixLine};
use std::io::{self, Write};

/// Writes the table.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, lines: &[MatrixLine], style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    let each = if style.unicode { "µs of CPU, ours/theirs" } else { "us of CPU, ours/theirs" };
    let title =
        format!("{:13}{:5}{:>22}{:>22}{:>22}", "key", "TLS", "full handshakes/s", "resumed/s", "kept requests/s");
    page.row(&[(Paint::Heading, title)])?;
    for line in lines {
        let cells = [line.full, line.resumed, line.kept].map(shown);
        let text = format!("{:13}{:5}{:>22}{:>22}{:>22}", line.key, line.version.name(), cells[0], cells[1], cells[2]);
        page.row(&[(Paint::Plain, text)])?;
    }
    page.row(&[(Paint::Dim, format!("in brackets: {each}, for each"))])
}

fn shown(cell: Option<MatrixCell>) -> String {
    let Some(cell) = cell else { return "-".to_owned() };
    let target = cell.target_us_each.map_or("?".to_owned(), |us| format!("{us:.0}"));
    format!("{} ({:.0}/{target})", figure(cell.per_s), cell.generator_us_each)
}

/// The same as JSON: an array of lines.
///
/// # Errors
/// Those of the writer.
pub fn json(to: &mut impl Write, lines: &[MatrixLine]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *to, lines)?;
    writeln!(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::tls::TlsVersion;

    #[test]
    fn a_line_has_a_cell_for_each_kind_and_a_dash_for_what_is_not_there() {
        let cell = MatrixCell { per_s: 3456.0, generator_us_each: 280.4, target_us_each: Some(512.0) };
        let line = MatrixLine {
            key: "p-256".to_owned(),
            version: TlsVersion::V13,
            full: Some(cell),
            resumed: None,
            kept: Some(MatrixCell { target_us_each: None, ..cell }),
        };
        let mut text = Vec::new();
        let style = Style { color: false, width: 100, unicode: true };
        write(&mut text, std::slice::from_ref(&line), style).unwrap();
        let text = String::from_utf8(text).unwrap();
        let row = text.lines().nth(1).unwrap();
        assert!(
            row.starts_with("p-256        1.3") && row.contains("3,456 (280/512)") && row.contains(" - "),
            "{text}"
        );
        assert!(row.contains("(280/?)"));
        let mut document = Vec::new();
        json(&mut document, &[line]).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(document[0]["version"], "1.3");
        assert!(document[0]["resumed"].is_null());
    }
}
